/* A matrix product state, or the vectors of an unfinished iteration, to HDF5 and back. Nothing read from a
   file sizes an allocation before it was checked against what the file can hold, and every tensor must be
   what it claims to be.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/statefile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"

/* ---------------------------------------------------------------- writing a state */

/* ORDER site_table: columns of /state/sites */
enum { SITE_ENLARGED, SITE_KEPT, SITE_DATA, SITE_NCOLUMN };

/* Position p of a state: its enlarged basis, and its isometry; at the two centre positions that is NULL, or
   what the next truncation begins with. */
static const kl_enlarged *position_of(const kl_state *s, int p, const kl_isometry **iso)
{
    *iso = p <= s->centre ? s->left[p] : s->right[p];
    return p == s->centre ? s->row : p == s->centre + 1 ? s->col : (*iso)->enlarged;
}

int64_t kl_statefile_size(const kl_state *s)
{
    if (s == NULL) return 0;
    int64_t n = s->nstate * (s->npsi + s->nnarrow);
    for (int p = 0; p < s->nsite; p++) {
        const kl_isometry *iso;
        position_of(s, p, &iso);
        if (iso != NULL) n += iso->ndata;
    }
    return n;
}

static void put_charges(int32_t *to, const kl_basis *b, int width)
{
    for (int i = 0; i < b->nsec; i++)
        for (int c = 0; c < width; c++) to[i * width + c] = b->q[i].v[c];
}

kl_status kl_statefile_put(kl_h5_out *w, const kl_state *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int width = s->model->ncharge > 0 ? s->model->ncharge : 1;
    int64_t (*site)[SITE_NCOLUMN] = NULL;
    int32_t *enlarged = NULL, *kept = NULL, *dim = NULL;
    int64_t nenlarged = 0, nkept = 0, ndata = 0;
    hid_t group = -1, set = -1;
    KL_TRY(kl_alloc(&site, s->nsite, KL_MEM_MISC, err));
    for (int p = 0; p < s->nsite; p++) {
        const kl_isometry *iso;
        const kl_enlarged *e = position_of(s, p, &iso);
        site[p][SITE_ENLARGED] = e->basis.nsec;
        if (iso != NULL) {
            site[p][SITE_KEPT] = iso->basis.nsec;
            for (int i = 0; i < iso->basis.nsec; i++)
                site[p][SITE_DATA] += (int64_t)e->basis.dim[iso->sec[i]] * iso->basis.dim[i];
        }
        nenlarged += site[p][SITE_ENLARGED];
        nkept += site[p][SITE_KEPT];
        ndata += site[p][SITE_DATA];
    }
    KL_TRY(kl_alloc(&enlarged, nenlarged * width, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&kept, nkept * width, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&dim, nkept, KL_MEM_MISC, err));
    int64_t ie = 0, ik = 0;
    for (int p = 0; p < s->nsite; p++) {
        const kl_isometry *iso;
        const kl_enlarged *e = position_of(s, p, &iso);
        put_charges(enlarged + ie * width, &e->basis, width);
        ie += e->basis.nsec;
        if (iso == NULL) continue;
        put_charges(kept + ik * width, &iso->basis, width);
        for (int i = 0; i < iso->basis.nsec; i++) dim[ik + i] = iso->basis.dim[i];
        ik += iso->basis.nsec;
    }

    group = kl_h5_put_group(w, w->file, "state");
    kl_h5_put_int(w, group, "nsite", s->nsite);
    kl_h5_put_int(w, group, "centre", s->centre);
    kl_h5_put_int(w, group, "nstate", s->nstate);
    int64_t target[KL_MAX_CHARGE];
    for (int c = 0; c < KL_MAX_CHARGE; c++) target[c] = s->target.v[c];
    kl_h5_put_attribute(w, group, "target", H5T_STD_I64LE, H5T_NATIVE_INT64, KL_MAX_CHARGE, target);
    kl_h5_put_attribute(w, group, "energy", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, (hsize_t)s->nstate, s->energy);
    const hsize_t site_shape[2] = {(hsize_t)s->nsite, SITE_NCOLUMN};
    kl_h5_put_array(w, group, "sites", H5T_STD_I64LE, H5T_NATIVE_INT64, 2, site_shape, site,
                    "by position: sectors of the enlarged block, sectors kept, numbers in data");
    const hsize_t enlarged_shape[2] = {(hsize_t)nenlarged, (hsize_t)width},
                  kept_shape[2] = {(hsize_t)nkept, (hsize_t)width}, dim_shape = (hsize_t)nkept;
    kl_h5_put_array(w, group, "enlarged_charge", H5T_STD_I32LE, H5T_NATIVE_INT32, 2, enlarged_shape, enlarged,
                    NULL);
    kl_h5_put_array(w, group, "kept_charge", H5T_STD_I32LE, H5T_NATIVE_INT32, 2, kept_shape, kept, NULL);
    kl_h5_put_array(w, group, "kept_dim", H5T_STD_I32LE, H5T_NATIVE_INT32, 1, &dim_shape, dim, NULL);
    const hsize_t psi_shape[2] = {(hsize_t)s->nstate, (hsize_t)s->npsi};
    kl_h5_put_array(w, group, "psi", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 2, psi_shape, s->psi,
                    "wavefunctions at the centre: sector by sector of the left part, column-major");
    const hsize_t narrow_shape[2] = {(hsize_t)s->nstate, (hsize_t)s->nnarrow};
    if (s->nnarrow > 0)
        kl_h5_put_array(w, group, "narrow", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 2, narrow_shape, s->narrow,
                        "the same wavefunctions in the basis of the isometry that was opened last");

    kl_h5_put_reals(w, group, "data", ndata, NULL, "isometries by position, sector by sector, column-major");
    if (!w->failed && ndata > 0) {
        int64_t at = 0;
        set = H5Dopen2(group, "data", H5P_DEFAULT);
        for (int p = 0; p < s->nsite && kl_h5_ok(w, set); p++) {
            const kl_isometry *iso;
            const kl_enlarged *e = position_of(s, p, &iso);
            for (int i = 0; iso != NULL && i < iso->basis.nsec && !w->failed; i++) {
                const int64_t n = (int64_t)e->basis.dim[iso->sec[i]] * iso->basis.dim[i];
                kl_h5_put_part(w, set, at, n, iso->data + iso->off[i]);
                at += n;
            }
        }
        if (set >= 0) kl_h5_ok(w, H5Dclose(set));
    }
out:
    kl_h5_end_group(group);
    kl_free(&site);
    kl_free(&enlarged);
    kl_free(&kept);
    kl_free(&dim);
    return st;
}

/* ---------------------------------------------------------------- writing an unfinished run */

enum { RUN_PART = 1 << 20 }; /* doubles of a vector at a time */
enum { MOST_VECTOR = 10000000 };

int64_t kl_statefile_run_size(const kl_result_run *run)
{
    int64_t all = run == NULL ? 0 : run->nnumber;
    /* 128: what HDF5 says of a data set */
    for (int v = 0; run != NULL && v < run->nvector; v++) all += run->n[v] + 128;
    return all;
}

kl_status kl_statefile_put_run(kl_h5_out *w, const kl_result_run *run, kl_err *err)
{
    kl_status st = KL_OK;
    double *part = NULL;
    char name[32];
    const hid_t group = kl_h5_put_group(w, w->file, "run");
    KL_TRY(kl_alloc(&part, RUN_PART, KL_MEM_WORK, err));
    kl_h5_put_int(w, group, "stage", run->stage);
    kl_h5_put_int(w, group, "nvector", run->nvector);
    kl_h5_put_reals(w, group, "number", run->nnumber, run->number, "what the solver keeps of itself");
    for (int v = 0; v < run->nvector && !w->failed; v++) {
        snprintf(name, sizeof(name), "vector_%d", v);
        kl_h5_put_reals(w, group, name, run->n[v], NULL, NULL);
        const hid_t set = w->failed ? -1 : H5Dopen2(group, name, H5P_DEFAULT);
        for (int64_t first = 0; first < run->n[v] && kl_h5_ok(w, set); first += RUN_PART) {
            const int64_t count = run->n[v] - first < RUN_PART ? run->n[v] - first : RUN_PART;
            st = run->part(run->self, v, first, count, part, err);
            if (st == KL_OK) kl_h5_put_part(w, set, first, count, part);
            if (st != KL_OK || w->failed) break;
        }
        if (set >= 0) H5Dclose(set);
        if (st != KL_OK) goto out;
    }
out:
    kl_h5_end_group(group);
    kl_free(&part);
    return st;
}

/* ---------------------------------------------------------------- reading a state */

typedef struct charge_list { /* ascending */
    int n;
    const kl_qn *q;
} charge_list;

static int in_list(void *self, kl_qn q)
{
    const charge_list *list = self;
    const kl_basis view = {list->n, (kl_qn *)list->q, NULL, 0};
    return kl_basis_find(&view, q) >= 0;
}

/* n charges of the table, strictly ascending. */
static kl_status to_charges(const kl_h5_in *in, const int32_t *from, int64_t n, int width, int ncharge,
                            kl_qn *to, kl_err *err)
{
    for (int64_t i = 0; i < n; i++) {
        to[i] = kl_qn_zero();
        for (int c = 0; c < width; c++) {
            if (from[i * width + c] < INT16_MIN || from[i * width + c] > INT16_MAX ||
                (c >= ncharge && from[i * width + c] != 0))
                return kl_h5_bad(in, "state", "holds an impossible charge", err);
            to[i].v[c] = (int16_t)from[i * width + c];
        }
        if (i > 0 && kl_qn_cmp(to[i - 1], to[i]) >= 0)
            return kl_h5_bad(in, "state", "holds sectors out of order", err);
    }
    return KL_OK;
}

/* |Q^T Q v - v| for one vector v of random signs and sizes sees any defect of size 1e-9 in any column: cheap,
   and NaN fails too. */
static int is_isometry(int64_t rows, int64_t cols, const double *a, double *v, double *y)
{
    uint64_t seed = 1;
    for (int64_t j = 0; j < cols; j++) {
        const double x = kl_random_uniform(&seed);
        v[j] = x < 0 ? x - 0.5 : x + 0.5;
    }
    memset(y, 0, sizeof(double) * (size_t)rows);
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows; i++) y[i] += a[j * rows + i] * v[j];
    double defect = 0;
    for (int64_t j = 0; j < cols; j++) {
        double dot = 0;
        for (int64_t i = 0; i < rows; i++) dot += a[j * rows + i] * y[i];
        defect = fmax(defect, fabs(dot - v[j])); /* fmax drops NaN, so it is asked for by itself */
        if (!isfinite(dot)) return 0;
    }
    return defect <= 1e-9 * sqrt((double)(rows + cols));
}

typedef struct state_tables { /* the small datasets of /state */
    int64_t (*site)[SITE_NCOLUMN];
    int32_t *enlarged, *kept, *dim;
    int width;
    kl_qn *q; /* of one site */
    hid_t data;
    int64_t *begin[SITE_NCOLUMN]; /* [nsite + 1]: where a position begins in each table */
} state_tables;

/* The enlarged basis of position p on top of `block`, as the file lists its sectors (first: of this position
   in the table). */
static kl_status rebuild_enlarged(const kl_h5_in *in, const kl_model *m, const kl_basis *block,
                                  const kl_site_type *type, state_tables *t, int64_t first, int64_t n,
                                  kl_enlarged **out, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t most;
    if (n < 1 || !kl_mul_size(block->nsec, type->dim, &most) || n > most)
        return kl_h5_bad(in, "state", "holds an impossible number of sectors", err);
    KL_TRY(kl_realloc(&t->q, n, KL_MEM_MISC, err));
    KL_TRY(to_charges(in, t->enlarged + first * t->width, n, t->width, m->ncharge, t->q, err));
    charge_list list = {(int)n, t->q};
    KL_TRY(kl_enlarged_create(m, block, type, in_list, &list, out, err));
    if ((*out)->basis.nsec != n)
        KL_TRY(kl_h5_bad(in, "state", "holds sectors that the sites cannot make", err));
out:
    return st;
}

/* The isometry of position p over *e (taken). */
static kl_status rebuild_isometry(const kl_h5_in *in, const kl_model *m, kl_enlarged **e, state_tables *t,
                                  int p, kl_isometry **out, kl_err *err)
{
    kl_status st = KL_OK;
    double *work = NULL;
    int *sec = NULL;
    const int64_t n = t->site[p][SITE_KEPT], first = t->begin[SITE_KEPT][p];
    const int32_t *const dim = t->dim + first;
    if (n < 1 || n > (*e)->basis.nsec)
        KL_TRY(kl_h5_bad(in, "state", "holds an impossible number of kept sectors", err));
    KL_TRY(kl_alloc(&sec, n, KL_MEM_MISC, err));
    KL_TRY(kl_realloc(&t->q, n, KL_MEM_MISC, err));
    KL_TRY(to_charges(in, t->kept + first * t->width, n, t->width, m->ncharge, t->q, err));
    int64_t ndata = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        sec[i] = kl_basis_find(&(*e)->basis, t->q[i]);
        if (sec[i] < 0 || dim[i] < 1 || dim[i] > (*e)->basis.dim[sec[i]])
            KL_TRY(kl_h5_bad(in, "state", "holds a kept sector of impossible charge or size", err));
        const int64_t rows = (*e)->basis.dim[sec[i]];
        ndata += rows * dim[i];
        if (rows + dim[i] > largest) largest = rows + dim[i];
        if (ndata > t->site[p][SITE_DATA]) break;
    }
    if (ndata != t->site[p][SITE_DATA])
        KL_TRY(kl_h5_bad(in, "state", "holds matrices of the wrong size", err));
    KL_TRY(kl_isometry_create_take(e, (int)n, sec, dim, out, err));
    kl_isometry *const iso = *out;
    KL_TRY(kl_h5_get_part(in, t->data, "state", t->begin[SITE_DATA][p], ndata, iso->data, err));
    KL_TRY(kl_alloc(&work, largest, KL_MEM_WORK, err));
    for (int64_t i = 0; i < n; i++) {
        const int64_t rows = iso->enlarged->basis.dim[sec[i]], cols = dim[i];
        if (!is_isometry(rows, cols, iso->data + iso->off[i], work, work + cols))
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "%.300s: is damaged: the tensor of position %d is no isometry (or not finite)",
                           in->path, p));
    }
out:
    kl_free(&work);
    kl_free(&sec);
    return st;
}

/* The numbers of a state that stand by themselves. */
static kl_status get_head(const kl_h5_in *in, hid_t group, kl_state *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int nsite = s->nsite;
    int64_t target[KL_MAX_CHARGE], have_nsite;
    KL_TRY(kl_h5_get_int(in, group, "nsite", 1, INT32_MAX, &have_nsite, err));
    if (have_nsite != nsite)
        KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: holds a state of %lld sites; this lattice has %d", in->path,
                       (long long)have_nsite, nsite));
    if (nsite < 2) KL_TRY(kl_h5_bad(in, "state", "has fewer than two sites", err));
    KL_TRY(kl_h5_get_small(in, group, "centre", 0, nsite - 2, &s->centre, err));
    KL_TRY(kl_h5_get_small(in, group, "nstate", 1, KL_MAX_STATE, &s->nstate, err));
    KL_TRY(kl_h5_get_attribute(in, group, "target", H5T_NATIVE_INT64, KL_MAX_CHARGE, target, err));
    for (int c = 0; c < KL_MAX_CHARGE; c++) {
        const int is_more = c >= s->model->ncharge && target[c] != 0;
        if (target[c] < INT16_MIN || target[c] > INT16_MAX || is_more)
            KL_TRY(kl_h5_bad(in, "target", "is no charge", err));
        s->target.v[c] = (int16_t)target[c];
    }
    s->edge.q[0] = kl_qn_edge(s->model, s->target);
    KL_TRY(kl_h5_get_attribute(in, group, "energy", H5T_NATIVE_DOUBLE, s->nstate, s->energy, err));
out:
    return st;
}

/* Where each position begins in each table; the ends must be the tables' ends. */
static kl_status find_begins(const kl_h5_in *in, const kl_state *s, const int64_t *end, state_tables *t,
                             kl_err *err)
{
    kl_status st = KL_OK;
    for (int k = 0; k < SITE_NCOLUMN; k++) {
        KL_TRY(kl_alloc(&t->begin[k], s->nsite + 1, KL_MEM_MISC, err));
        int64_t *const at = t->begin[k];
        for (int p = 0; p < s->nsite; p++) {
            const int64_t n = t->site[p][k];
            if (n < 0 || n > end[k] - at[p])
                KL_TRY(kl_h5_bad(in, "sites", "does not fit the other tables", err));
            at[p + 1] = at[p] + n;
        }
        if (at[s->nsite] != end[k]) KL_TRY(kl_h5_bad(in, "sites", "does not fit the other tables", err));
    }
out:
    return st;
}

static kl_status get_tables(const kl_h5_in *in, hid_t group, const kl_state *s, state_tables *t, kl_err *err)
{
    kl_status st = KL_OK;
    int rank;
    int64_t ndata, data_shape[KL_H5_MAX_RANK], site_shape[2] = {s->nsite, SITE_NCOLUMN},
                                               enlarged_shape[2] = {-1, t->width},
                                               kept_shape[2] = {-1, t->width};
    KL_TRY(kl_h5_get_array(in, group, "sites", H5T_NATIVE_INT64, 2, site_shape, KL_MEM_MISC,
                           (void **)&t->site, err));
    KL_TRY(kl_h5_get_array(in, group, "enlarged_charge", H5T_NATIVE_INT32, 2, enlarged_shape, KL_MEM_MISC,
                           (void **)&t->enlarged, err));
    KL_TRY(kl_h5_get_array(in, group, "kept_charge", H5T_NATIVE_INT32, 2, kept_shape, KL_MEM_MISC,
                           (void **)&t->kept, err));
    int64_t dim_shape = kept_shape[0];
    KL_TRY(kl_h5_get_array(in, group, "kept_dim", H5T_NATIVE_INT32, 1, &dim_shape, KL_MEM_MISC,
                           (void **)&t->dim, err));
    KL_TRY(kl_h5_open_array(in, group, "data", H5T_FLOAT, &t->data, &rank, data_shape, &ndata, err));
    if (rank != 1) KL_TRY(kl_h5_bad(in, "data", "has the wrong rank", err));
    const int64_t end[SITE_NCOLUMN] = {
        [SITE_ENLARGED] = enlarged_shape[0], [SITE_KEPT] = kept_shape[0], [SITE_DATA] = ndata};
    KL_TRY(find_begins(in, s, end, t, err));
out:
    return st;
}

/* Bases and isometries from one end of the lattice to the centre. side: 0 left, 1 right. */
static kl_status rebuild_side(const kl_h5_in *in, int side, state_tables *t, kl_state *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int step = side == 0 ? 1 : -1, stop = side == 0 ? s->centre : s->centre + 1;
    const kl_basis *block = side == 0 ? &s->edge : &s->end;
    kl_enlarged *e = NULL, *own = NULL;
    for (int p = side == 0 ? 0 : s->nsite - 1;; p += step) {
        KL_TRY(rebuild_enlarged(in, s->model, block, s->type[p], t, t->begin[SITE_ENLARGED][p],
                                t->site[p][SITE_ENLARGED], &e, err));
        kl_isometry **const slot = side == 0 ? &s->left[p] : &s->right[p];
        if (p == stop && t->site[p][SITE_KEPT] > 0) {
            KL_TRY(kl_enlarged_copy(e, &own, err));
            KL_TRY(rebuild_isometry(in, s->model, &own, t, p, slot, err));
        }
        if (p == stop) break;
        KL_TRY(rebuild_isometry(in, s->model, &e, t, p, slot, err));
        kl_enlarged_destroy(&e);
        block = &(*slot)->basis;
    }
    *(side == 0 ? &s->row : &s->col) = e;
    e = NULL;
out:
    kl_enlarged_destroy(&e);
    kl_enlarged_destroy(&own);
    return st;
}

/* The wavefunctions between both sides. */
static kl_status get_waves(const kl_h5_in *in, hid_t group, kl_state *s, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(&s->pair, s->row->basis.nsec, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&s->psi_off, s->row->basis.nsec, KL_MEM_MISC, err));
    for (int i = 0; i < s->row->basis.nsec; i++) {
        s->pair[i] = kl_basis_find(&s->col->basis, kl_qn_sub(s->model, s->target, s->row->basis.q[i]));
        s->psi_off[i] = s->npsi;
        if (s->pair[i] >= 0) s->npsi += (int64_t)s->row->basis.dim[i] * s->col->basis.dim[s->pair[i]];
    }
    int64_t psi_shape[2] = {s->nstate, s->npsi};
    KL_TRY(kl_h5_get_array(in, group, "psi", H5T_NATIVE_DOUBLE, 2, psi_shape, KL_MEM_STATE, (void **)&s->psi,
                           err));
    for (int k = 0; k < s->nstate; k++) {
        double norm = 0;
        for (int64_t i = 0; i < s->npsi; i++) norm += s->psi[k * s->npsi + i] * s->psi[k * s->npsi + i];
        if (!(fabs(norm - 1) < 1e-6))
            KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: is damaged: wavefunction %d has norm^2 %g, not 1",
                           in->path, k, norm));
        if (!isfinite(s->energy[k])) KL_TRY(kl_h5_bad(in, "energy", "is not finite", err));
    }
    if (!kl_h5_has(in, "state/narrow")) goto out;
    int64_t narrow_shape[2] = {s->nstate, kl_state_narrow_size(s)};
    s->nnarrow = narrow_shape[1];
    KL_TRY(kl_h5_get_array(in, group, "narrow", H5T_NATIVE_DOUBLE, 2, narrow_shape, KL_MEM_STATE,
                           (void **)&s->narrow, err));
    for (int64_t i = 0; i < s->nstate * s->nnarrow; i++)
        if (!isfinite(s->narrow[i]))
            KL_TRY(kl_h5_bad(in, "narrow", "holds a number that is not finite", err));
out:
    return st;
}

static kl_status get_state(const kl_h5_in *in, hid_t group, kl_state *s, kl_err *err)
{
    kl_status st = KL_OK;
    state_tables t = {.width = s->model->ncharge > 0 ? s->model->ncharge : 1, .data = -1};
    KL_TRY(get_head(in, group, s, err));
    KL_TRY(get_tables(in, group, s, &t, err));
    for (int side = 0; side < 2; side++) KL_TRY(rebuild_side(in, side, &t, s, err));
    KL_TRY(get_waves(in, group, s, err));
out:
    if (t.data >= 0) H5Dclose(t.data);
    for (int k = 0; k < SITE_NCOLUMN; k++) kl_free(&t.begin[k]);
    kl_free(&t.site);
    kl_free(&t.enlarged);
    kl_free(&t.kept);
    kl_free(&t.dim);
    kl_free(&t.q);
    return st;
}

kl_status kl_statefile_get(const kl_h5_in *in, const kl_terms *terms, kl_state **out, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t group = -1;
    kl_state *s = NULL;
    if (!kl_h5_has(in, "state"))
        KL_TRY(
            kl_fail(err, KL_EINPUT, "%.300s: holds no state%s", in->path,
                    kl_h5_has(in, "measurements/ed/run")
                        ? "; exact diagonalization keeps none, and measures what its own --measure asks for"
                        : ""));
    KL_TRY(kl_h5_get_group(in, in->file, "state", &group, err));
    KL_TRY(kl_state_create(terms, kl_qn_zero(), &s, err));
    KL_TRY(get_state(in, group, s, err));
    *out = s;
    s = NULL;
out:
    kl_state_destroy(&s);
    kl_h5_end_group(group);
    return st;
}

/* ---------------------------------------------------------------- reading an unfinished run */

kl_status kl_statefile_get_run(const kl_h5_in *in, kl_result_run *run, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t group = -1, set = -1;
    double *part = NULL;
    run->number = NULL;
    run->n = NULL;
    if (!kl_h5_has(in, "run"))
        KL_TRY(
            kl_fail(err, KL_EINPUT, "%.300s: holds no run of exact diagonalization to go on with", in->path));
    KL_TRY(kl_h5_get_group(in, in->file, "run", &group, err));
    KL_TRY(kl_h5_get_small(in, group, "stage", 0, 9, &run->stage, err));
    KL_TRY(kl_h5_get_small(in, group, "nvector", 0, MOST_VECTOR, &run->nvector, err));
    KL_TRY(kl_alloc(&run->n, run->nvector, KL_MEM_MISC, err));
    run->nnumber = -1;
    KL_TRY(kl_h5_get_array(in, group, "number", H5T_NATIVE_DOUBLE, 1, &run->nnumber, KL_MEM_MISC,
                           (void **)&run->number, err));
    for (int64_t i = 0; i < run->nnumber; i++)
        if (isnan(run->number[i])) KL_TRY(kl_h5_bad(in, "number", "holds what is no number", err));
    if (run->part != NULL) KL_TRY(kl_alloc(&part, RUN_PART, KL_MEM_WORK, err));
    for (int v = 0; v < run->nvector; v++) {
        char name[32];
        int rank;
        int64_t shape[KL_H5_MAX_RANK];
        snprintf(name, sizeof(name), "vector_%d", v);
        KL_TRY(kl_h5_open_array(in, group, name, H5T_FLOAT, &set, &rank, shape, &run->n[v], err));
        if (rank != 1 || run->n[v] < 1) KL_TRY(kl_h5_bad(in, name, "has the wrong shape", err));
        const int wanted = run->part != NULL && v >= run->first && v < run->first + run->count;
        for (int64_t first = 0; first < run->n[v] && wanted; first += RUN_PART) {
            const int64_t now = run->n[v] - first < RUN_PART ? run->n[v] - first : RUN_PART;
            KL_TRY(kl_h5_get_part(in, set, name, first, now, part, err));
            for (int64_t i = 0; i < now; i++)
                if (!isfinite(part[i])) KL_TRY(kl_h5_bad(in, name, "holds a number that is not finite", err));
            KL_TRY(run->part(run->self, v, first, now, part, err));
        }
        H5Dclose(set);
        set = -1;
    }
out:
    if (st != KL_OK) kl_free(&run->number);
    if (st != KL_OK) kl_free(&run->n);
    if (set >= 0) H5Dclose(set);
    kl_h5_end_group(group);
    kl_free(&part);
    return st;
}
