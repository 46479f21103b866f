/* Bonds, classes and momenta of a result's lattice: see geometry.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/geometry.h"

#include <stdio.h>
#include <string.h>

enum { MOST_CLASS = 120 };

void kl_geometry_clear(kl_geometry *g)
{
    for (int c = 0; c < g->nclass; c++) kl_free(&g->classes[c]);
    kl_free(&g->bond);
    kl_free(&g->vector);
    kl_free(&g->length);
    kl_free(&g->cls);
    kl_free(&g->classes);
    kl_free(&g->k);
    *g = (kl_geometry){0};
}

static kl_status add_class(kl_geometry *g, const char *name, size_t n, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_realloc(&g->classes, g->nclass + 1, KL_MEM_MISC, err));
    g->classes[g->nclass] = NULL;
    KL_TRY(kl_alloc(&g->classes[g->nclass], (int64_t)n + 1, KL_MEM_MISC, err));
    memcpy(g->classes[g->nclass++], name, n);
out:
    return st;
}

static kl_status make_bonds(int64_t n, kl_geometry *g, kl_err *err)
{
    kl_status st = KL_OK;
    g->nbond = n;
    KL_TRY(kl_alloc(&g->bond, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&g->vector, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&g->length, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&g->cls, n, KL_MEM_MISC, err));
    memset(g->cls, -1, sizeof *g->cls * (size_t)n);
out:
    return st;
}

/* Classes beyond MOST_CLASS are not told: a lattice file may name as many as it has bonds. */
kl_status kl_geometry_copy(const kl_lattice *lat, kl_geometry *g, kl_err *err)
{
    kl_status st = KL_OK;
    int shape[2];
    *g = (kl_geometry){.has_xy = lat->has_xy};
    for (int c = 0; c < lat->nbond_class && c < MOST_CLASS; c++)
        KL_TRY(add_class(g, lat->bond_class[c], strlen(lat->bond_class[c]), err));
    KL_TRY(make_bonds(lat->nbond, g, err));
    for (int b = 0; b < lat->nbond; b++) {
        const kl_bond *const from = &lat->bond[b];
        g->bond[b][0] = from->reversed ? from->j : from->i;
        g->bond[b][1] = from->reversed ? from->i : from->j;
        g->length[b] = from->r;
        if (lat->has_xy) kl_lattice_step(lat, g->bond[b][0], g->bond[b][1], g->vector[b]);
        for (int c = 0, n = 0; c < from->nclass; c++)
            if (from->cls[c] < MOST_CLASS) g->cls[b][n++] = (signed char)from->cls[c];
    }
    if (lat->kind == KL_LATTICE_FILE) return KL_OK;
    KL_TRY(kl_lattice_momenta(lat, shape, &g->k, err));
    g->grid[0] = shape[0];
    g->grid[1] = shape[1];
    g->basis[0][0] = 1;
    g->basis[1][1] = lat->kind == KL_LATTICE_GRID;
    if (lat->kind == KL_LATTICE_CELLS) memcpy(g->basis, lat->cells.basis, sizeof g->basis);
out:
    if (st != KL_OK) kl_geometry_clear(g);
    return st;
}

int kl_geometry_is(const kl_geometry *g, int64_t b, const char *name)
{
    for (int c = 0; c < KL_MAX_BOND_CLASS && g->cls[b][c] >= 0; c++)
        if (strcmp(g->classes[g->cls[b][c]], name) == 0) return 1;
    return 0;
}

void kl_geometry_put(kl_h5_out *w, hid_t group, const kl_geometry *g)
{
    const hsize_t n = (hsize_t)g->nbond, two[2] = {n, 2}, each[2] = {n, KL_MAX_BOND_CLASS};
    const hsize_t grid[3] = {(hsize_t)g->grid[0], (hsize_t)g->grid[1], 2}, square[2] = {2, 2};
    char all[MOST_CLASS * 64] = "";
    size_t used = 0;
    for (int c = 0; c < g->nclass && used < sizeof all; c++)
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", c > 0 ? "\n" : "", g->classes[c]);
    kl_h5_put_int(w, group, "has_xy", g->has_xy);
    if (g->grid[0] > 0) {
        kl_h5_put_array(w, group, "momenta", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 3, grid, g->k,
                        "Cartesian, in the order of structure factors");
        kl_h5_put_array(w, group, "basis", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 2, square, g->basis,
                        "vectors of the lattice, row by row");
    }
    if (n == 0) return;
    kl_h5_put_text(w, group, "classes", all);
    kl_h5_put_array(w, group, "bond", H5T_STD_I32LE, H5T_NATIVE_INT, 2, two, g->bond,
                    "from and to, lattice numbers");
    kl_h5_put_array(w, group, "bond_vector", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 2, two, g->vector,
                    "from the first to the second site, the shortest image");
    kl_h5_put_array(w, group, "bond_length", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 1, &n, g->length, NULL);
    kl_h5_put_array(w, group, "bond_class", H5T_STD_I8LE, H5T_NATIVE_SCHAR, 2, each, g->cls,
                    "places in `classes', -1 behind the last");
}

static kl_status get_bonds(const kl_h5_in *in, hid_t group, int nsite, kl_geometry *g, kl_err *err)
{
    kl_status st = KL_OK;
    char *all = NULL;
    int64_t two[2] = {-1, 2};
    KL_TRY(kl_h5_get_text(in, group, "classes", &all, err));
    for (const char *c = all; *c != '\0' && g->nclass < MOST_CLASS;) {
        const size_t n = strcspn(c, "\n");
        KL_TRY(add_class(g, c, n, err));
        c += n + (c[n] != '\0');
    }
    KL_TRY(kl_h5_get_array(in, group, "bond", H5T_NATIVE_INT, 2, two, KL_MEM_MISC, (void **)&g->bond, err));
    int64_t n = g->nbond = two[0], each[2] = {n, KL_MAX_BOND_CLASS};
    KL_TRY(kl_h5_get_array(in, group, "bond_vector", H5T_NATIVE_DOUBLE, 2, two, KL_MEM_MISC,
                           (void **)&g->vector, err));
    KL_TRY(kl_h5_get_array(in, group, "bond_length", H5T_NATIVE_DOUBLE, 1, &n, KL_MEM_MISC,
                           (void **)&g->length, err));
    KL_TRY(kl_h5_get_array(in, group, "bond_class", H5T_NATIVE_SCHAR, 2, each, KL_MEM_MISC, (void **)&g->cls,
                           err));
    for (int64_t b = 0; b < g->nbond; b++) {
        for (int k = 0; k < 2; k++)
            if (g->bond[b][k] < 0 || g->bond[b][k] >= nsite)
                KL_TRY(kl_h5_bad(in, "bond", "names a site that is not there", err));
        for (int c = 0; c < KL_MAX_BOND_CLASS; c++)
            if (g->cls[b][c] >= g->nclass)
                KL_TRY(kl_h5_bad(in, "bond_class", "names a class that is not there", err));
    }
out:
    kl_free(&all);
    return st;
}

kl_status kl_geometry_get(const kl_h5_in *in, hid_t group, int nsite, kl_geometry *g, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t grid[3] = {-1, -1, 2}, square[2] = {2, 2};
    double (*basis)[2] = NULL;
    if (kl_h5_has(in, "lattice/bond")) KL_TRY(get_bonds(in, group, nsite, g, err));
    if (g->nbond > 0) KL_TRY(kl_h5_get_small(in, group, "has_xy", 0, 1, &g->has_xy, err));
    if (!kl_h5_has(in, "lattice/momenta")) goto out;
    KL_TRY(
        kl_h5_get_array(in, group, "momenta", H5T_NATIVE_DOUBLE, 3, grid, KL_MEM_MISC, (void **)&g->k, err));
    memcpy(g->grid, grid, sizeof g->grid);
    KL_TRY(
        kl_h5_get_array(in, group, "basis", H5T_NATIVE_DOUBLE, 2, square, KL_MEM_MISC, (void **)&basis, err));
    memcpy(g->basis, basis, sizeof g->basis);
out:
    kl_free(&basis);
    return st;
}
