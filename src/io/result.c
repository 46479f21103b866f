/* What a result is, and its description in a file. Does not decide when to write, and knows no command line;
   the state in the same file: statefile.c, what makes a file whole: checked.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/result.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "io/checked.h"
#include "io/resultput.h"
#include "io/statefile.h"
#include "io/sweepfile.h"

/* ---------------------------------------------------------------- the struct itself */

static kl_status copy_text(char **to, const char *from, kl_err *err)
{
    *to = kl_strdup(from != NULL ? from : "");
    return *to != NULL ? KL_OK
                       : kl_fail(err, KL_ENOMEM, "no memory for a text of %zu bytes",
                                 from != NULL ? strlen(from) : 0);
}

kl_status kl_result_create(const kl_model *m, const kl_lattice *lat, const kl_params *p, kl_qn target,
                           uint64_t seed, const kl_result_origin *origin, kl_result **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *r = NULL;
    *out = NULL;
    KL_TRY(kl_alloc(&r, 1, KL_MEM_MISC, err));
    KL_TRY(kl_dmrg_result_levels(&r->dmrg, 0, err));
    KL_TRY(copy_text(&r->program, origin->program, err));
    KL_TRY(copy_text(&r->command_line, origin->command_line, err));
    KL_TRY(copy_text(&r->options, origin->options, err));
    KL_TRY(copy_text(&r->model, m->name, err));
    KL_TRY(copy_text(&r->variant, m->variant, err));
    KL_TRY(copy_text(&r->formula, m->formula, err));
    KL_TRY(copy_text(&r->lattice, lat->spec, err));
    r->model_hash = m->hash;
    r->lattice_hash = kl_lattice_fingerprint(lat);
    r->seed = seed;
    r->nsite = lat->nsite;
    KL_TRY(kl_alloc(&r->order, lat->nsite, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&r->xy, lat->nsite, KL_MEM_MISC, err));
    memcpy(r->order, lat->order, sizeof(int) * (size_t)lat->nsite);
    memcpy(r->xy, lat->xy, sizeof(*lat->xy) * (size_t)lat->nsite);
    KL_TRY(kl_geometry_copy(lat, &r->geometry, err));
    KL_TRY(kl_alloc(&r->charge, m->ncharge, KL_MEM_MISC, err));
    for (int c = 0; c < m->ncharge; c++) {
        r->charge[c] = (kl_result_charge){NULL, m->charge[c].modulus, m->charge[c].unit_num,
                                          m->charge[c].unit_den, target.v[c]};
        r->ncharge = c + 1;
        KL_TRY(copy_text(&r->charge[c].name, m->charge[c].name, err));
    }
    KL_TRY(kl_alloc(&r->param, m->nparam, KL_MEM_MISC, err));
    for (int i = 0; i < m->nparam; i++) {
        kl_result_param *to = &r->param[i];
        const kl_param_kind kind = m->param[i].kind;
        r->nparam = i + 1;
        to->is_array = kind != KL_PARAM_SCALAR;
        to->n = kind == KL_PARAM_SCALAR ? 1 : kind == KL_PARAM_SITE ? p->nsite : p->nbond;
        KL_TRY(copy_text(&to->name, m->param[i].name, err));
        KL_TRY(kl_alloc(&to->value, to->n, KL_MEM_MISC, err));
        if (to->n > 0)
            memcpy(to->value, to->is_array ? p->array[i] : &p->scalar[i], sizeof(double) * (size_t)to->n);
        to->some = to->is_array && p->nentry[i] < to->n;
        if (!to->some) continue;
        KL_TRY(kl_alloc(&to->used, p->nentry[i], KL_MEM_MISC, err));
        to->nused = p->nentry[i];
        for (int k = 0; k < p->nentry[i]; k++) to->used[k] = p->entry[i][k];
    }
    *out = r;
    r = NULL;
out:
    kl_result_destroy(&r);
    return st;
}

static void clear_measured(kl_measured *m)
{
    kl_free(&m->name);
    kl_free(&m->note);
    kl_free(&m->data);
}

void kl_result_destroy(kl_result **result)
{
    kl_result *r = *result;
    if (r == NULL) return;
    char **const text[] = {&r->program, &r->command_line, &r->options, &r->model,
                           &r->variant, &r->formula,      &r->lattice};
    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) kl_free(text[i]);
    kl_free(&r->order);
    kl_free(&r->xy);
    kl_geometry_clear(&r->geometry);
    for (int c = 0; c < r->ncharge && r->charge != NULL; c++) kl_free(&r->charge[c].name);
    kl_free(&r->charge);
    for (int i = 0; i < r->nparam; i++) {
        kl_free(&r->param[i].name);
        kl_free(&r->param[i].value);
        kl_free(&r->param[i].used);
    }
    kl_free(&r->param);
    for (int i = 0; i < r->nmeasured; i++) clear_measured(&r->measured[i]);
    kl_free(&r->measured);
    kl_dmrg_result_clear(&r->dmrg);
    kl_free(result);
}

kl_status kl_result_set_rows(kl_result *r, int nrow, const kl_dmrg_row *row, int nstate, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dmrg_row *copy = NULL;
    KL_TRY(kl_alloc(&copy, nrow, KL_MEM_MISC, err));
    KL_TRY(kl_dmrg_result_levels(&r->dmrg, nstate, err));
    if (nrow > 0) memcpy(copy, row, sizeof(*row) * (size_t)nrow);
    kl_free(&r->dmrg.row);
    r->dmrg.row = copy;
    r->dmrg.nrow = nrow;
    copy = NULL;
    if (nrow > 0) memcpy(r->dmrg.energy, row[nrow - 1].energy, sizeof(double) * (size_t)nstate);
out:
    kl_free(&copy);
    return st;
}

kl_status kl_result_set_dmrg(kl_result *r, const kl_dmrg_result *from, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dmrg_row *row = NULL;
    double *entropy = NULL;
    kl_dmrg_result levels = {0};
    KL_TRY(kl_dmrg_result_levels(&levels, from->nstate, err));
    if (from->nstate > 0) {
        memcpy(levels.energy, from->energy, sizeof(double) * (size_t)from->nstate);
        memcpy(levels.energy_kept, from->energy_kept, sizeof(double) * (size_t)from->nstate);
    }
    KL_TRY(kl_alloc(&row, from->nrow, KL_MEM_MISC, err));
    if (from->nrow > 0) memcpy(row, from->row, sizeof(*row) * (size_t)from->nrow);
    if (from->entropy != NULL) {
        KL_TRY(kl_alloc(&entropy, r->nsite - 1, KL_MEM_MISC, err));
        memcpy(entropy, from->entropy, sizeof(double) * (size_t)(r->nsite - 1));
    }
    kl_dmrg_result_clear(&r->dmrg);
    r->dmrg = *from;
    r->dmrg.row = row;
    r->dmrg.entropy = entropy;
    r->dmrg.energy = levels.energy;
    r->dmrg.energy_kept = levels.energy_kept;
    levels = (kl_dmrg_result){0};
    row = NULL;
    entropy = NULL;
out:
    kl_dmrg_result_clear(&levels);
    kl_free(&row);
    kl_free(&entropy);
    return st;
}

kl_status kl_result_add(kl_result *r, const char *name, const char *note, int rank, const int64_t *shape,
                        const double *data, kl_err *err)
{
    kl_status st = KL_OK;
    kl_measured one = {.rank = rank};
    int64_t n = 1;
    if (strlen(name) >= KL_H5_MAX_NAME)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "measurement %.100s...: the name has %zu characters; less than %d are possible", name,
                       strlen(name), KL_H5_MAX_NAME));
    for (int k = 0; k < rank; k++) {
        one.shape[k] = shape[k];
        if (!kl_mul_size(n, shape[k], &n))
            KL_TRY(kl_fail(err, KL_ENOMEM, "measurement %.100s is too large", name));
    }
    KL_TRY(copy_text(&one.name, name, err));
    if (note != NULL) KL_TRY(copy_text(&one.note, note, err));
    KL_TRY(kl_alloc(&one.data, n, KL_MEM_MISC, err));
    if (n > 0) memcpy(one.data, data, sizeof(double) * (size_t)n);
    int at = 0;
    while (at < r->nmeasured && strcmp(r->measured[at].name, name) != 0) at++;
    if (at == r->nmeasured) {
        KL_TRY(kl_realloc(&r->measured, r->nmeasured + 1, KL_MEM_MISC, err));
        r->nmeasured++;
    } else {
        clear_measured(&r->measured[at]);
    }
    r->measured[at] = one;
    one = (kl_measured){0};
out:
    clear_measured(&one);
    return st;
}

void kl_result_drop_charge(kl_result *r, int c)
{
    kl_free(&r->charge[c].name);
    r->ncharge--;
    memmove(&r->charge[c], &r->charge[c + 1], sizeof *r->charge * (size_t)(r->ncharge - c));
}

/* ---------------------------------------------------------------- writing a file */

/* Which entries of an array terms use, where it is not all. */
static void put_places(kl_h5_out *w, const kl_result *r)
{
    const hid_t group = kl_h5_put_group(w, w->file, "parameter_places");
    for (int i = 0; i < r->nparam; i++)
        if (r->param[i].some) kl_h5_put_ints(w, group, r->param[i].name, r->param[i].nused, r->param[i].used);
    kl_h5_end_group(group);
}

static void put_dmrg(kl_h5_out *w, int nsite, const kl_dmrg_result *d)
{
    const hid_t group = kl_h5_put_group(w, w->file, "result");
    kl_h5_put_int(w, group, "nstate", d->nstate);
    kl_h5_put_int(w, group, "stop", d->stop);
    kl_h5_put_int(w, group, "direction", d->direction);
    kl_h5_put_real(w, group, "error_estimate", d->error_estimate);
    kl_h5_put_real(w, group, "energy_extrapolated", d->energy_extrapolated);
    kl_h5_put_real(w, group, "gap", d->gap);
    kl_h5_put_real(w, group, "unresolved", d->unresolved);
    kl_h5_put_real(w, group, "distance", d->distance);
    kl_h5_put_int(w, group, "wait", d->wait);
    kl_h5_put_int(w, group, "strings", d->strings);
    kl_h5_put_real(w, group, "discarded", d->discarded);
    kl_h5_put_int(w, group, "products", d->napply);
    kl_h5_put_real(w, group, "flop", d->flop);
    kl_h5_put_real(w, group, "seconds", d->seconds);
    kl_h5_put_int(w, group, "dim_max", d->dim_max);
    kl_h5_put_int(w, group, "sector_max", d->sector_max);
    kl_h5_put_int(w, group, "matrix_max", d->matrix_max);
    kl_h5_put_real(w, group, "sector_mean", d->sector_mean);
    kl_h5_put_reals(w, group, "energy", d->nstate, d->energy, NULL);
    kl_h5_put_reals(w, group, "energy_kept", d->nstate, d->energy_kept, "<H> of the states in this file");
    kl_h5_put_reals(w, group, "seconds_part", KL_NPART, d->seconds_part, NULL);
    if (d->entropy != NULL)
        kl_h5_put_reals(w, group, "entropy", nsite - 1, d->entropy,
                        "von Neumann entropy of the lowest state, by cut");
    kl_h5_end_group(group);
}

kl_status kl_result_put(kl_h5_out *w, const kl_result *r, const kl_state *state, const kl_result_run *run,
                        kl_err *err)
{
    kl_status st = KL_OK;
    char text[32];
    kl_h5_put_text(w, w->file, "format", "kronlat result");
    kl_h5_put_int(w, w->file, "format_version", KL_CHECKED_FORMAT);
    kl_h5_put_text(w, w->file, "program_version", r->program);
    kl_h5_put_text(w, w->file, "command_line", r->command_line);
    kl_h5_put_int(w, w->file, "finished", r->finished);
    kl_h5_put_int(w, w->file, "sweep_done", r->sweep_done);
    kl_h5_put_int(w, w->file, "seed", (int64_t)r->seed);

    kl_h5_put_long_text(w, w->file, "options", r->options);

    hid_t group = kl_h5_put_group(w, w->file, "model");
    kl_h5_put_text(w, group, "name", r->model);
    kl_h5_put_text(w, group, "variant", r->variant);
    kl_h5_put_text(w, group, "formula", r->formula);
    snprintf(text, sizeof(text), "%016llx", (unsigned long long)r->model_hash);
    kl_h5_put_text(w, group, "hash", text);
    if (!r->hash_of_text) kl_h5_put_text(w, group, "hash_of", "tables");
    kl_h5_end_group(group);

    group = kl_h5_put_group(w, w->file, "lattice");
    kl_h5_put_text(w, group, "spec", r->lattice);
    snprintf(text, sizeof(text), "%016llx", (unsigned long long)r->lattice_hash);
    kl_h5_put_text(w, group, "hash", text);
    kl_h5_put_int(w, group, "nsite", r->nsite);
    const hsize_t nsite = (hsize_t)r->nsite, xy_shape[2] = {(hsize_t)r->nsite, 2};
    kl_h5_put_array(w, group, "order", H5T_STD_I32LE, H5T_NATIVE_INT, 1, &nsite, r->order,
                    "lattice number of the site at each position");
    kl_h5_put_array(w, group, "xy", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 2, xy_shape, r->xy,
                    "coordinates by lattice number");
    kl_geometry_put(w, group, &r->geometry);
    kl_h5_end_group(group);

    group = kl_h5_put_group(w, w->file, "charges");
    kl_h5_put_int(w, group, "count", r->ncharge);
    for (int c = 0; c < r->ncharge; c++) {
        snprintf(text, sizeof(text), "%d", c);
        const hid_t one = kl_h5_put_group(w, group, text);
        kl_h5_put_text(w, one, "name", r->charge[c].name);
        kl_h5_put_int(w, one, "modulus", r->charge[c].modulus);
        kl_h5_put_int(w, one, "unit_num", r->charge[c].unit_num);
        kl_h5_put_int(w, one, "unit_den", r->charge[c].unit_den);
        kl_h5_put_int(w, one, "value", r->charge[c].value);
        kl_h5_end_group(one);
    }
    kl_h5_end_group(group);

    group = kl_h5_put_ordered_group(w, w->file, "parameters");
    for (int i = 0; i < r->nparam; i++) {
        const hsize_t n = (hsize_t)r->param[i].n;
        kl_h5_put_array(w, group, r->param[i].name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, r->param[i].is_array,
                        &n, r->param[i].value, NULL);
    }
    kl_h5_end_group(group);
    put_places(w, r);

    put_dmrg(w, r->nsite, &r->dmrg);
    if (r->dmrg.nstate > 0) KL_TRY(kl_sweepfile_put(w, &r->dmrg, err));

    group = kl_h5_put_ordered_group(w, w->file, "measurements");
    for (int i = 0; i < r->nmeasured; i++) {
        const kl_measured *m = &r->measured[i];
        hsize_t shape[KL_H5_MAX_RANK];
        for (int k = 0; k < m->rank; k++) shape[k] = (hsize_t)m->shape[k];
        kl_h5_put_array(w, group, m->name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, m->rank, shape, m->data,
                        m->note);
    }
    kl_h5_end_group(group);
    if (state != NULL) KL_TRY(kl_statefile_put(w, state, err));
    if (run != NULL) KL_TRY(kl_statefile_put_run(w, run, err));
out:
    return st;
}

int64_t kl_result_bytes(const kl_result *r, const kl_state *s, const kl_result_run *run)
{
    int64_t n = 65536 + 4 * KL_H5_MAX_TEXT + (int64_t)r->nsite * 512 + kl_sweepfile_size(&r->dmrg) +
                (int64_t)strlen(r->options);
    for (int i = 0; i < r->nparam; i++) n += 1024 + 8 * r->param[i].n;
    for (int i = 0; i < r->nmeasured; i++) {
        int64_t size = 8;
        for (int k = 0; k < r->measured[i].rank; k++) size *= r->measured[i].shape[k];
        n += 1024 + size;
    }
    return n + 8 * (kl_statefile_size(s) + kl_statefile_run_size(run));
}

static kl_status write_file(const char *path, const kl_result *r, const kl_state *state,
                            const kl_result_run *run, kl_err *err)
{
    kl_checked f;
    const kl_status st = kl_checked_create(path, kl_result_bytes(r, state, run), &f, err);
    return st == KL_OK ? kl_checked_finish(&f, kl_result_put(&f.out, r, state, run, err), err) : st;
}

kl_status kl_result_write(const char *path, const kl_result *r, const kl_state *state, kl_err *err)
{
    return write_file(path, r, state, NULL, err);
}

kl_status kl_result_write_run(const char *path, const kl_result *r, const kl_result_run *run, kl_err *err)
{
    return write_file(path, r, NULL, run, err);
}

/* ---------------------------------------------------------------- reading the description */

enum { MOST_STATE = 1000000 }; /* of exact diagonalization */

static kl_status get_dmrg(const kl_h5_in *in, int nsite, kl_dmrg_result *d, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t group = -1;
    int stop, nstate;
    KL_TRY(kl_h5_get_group(in, in->file, "result", &group, err));
    KL_TRY(kl_h5_get_small(in, group, "nstate", 0, MOST_STATE, &nstate, err));
    KL_TRY(kl_dmrg_result_levels(d, nstate, err));
    KL_TRY(kl_h5_get_small(in, group, "stop", 0, KL_STOP_DISCARD, &stop, err));
    d->stop = (kl_dmrg_stop)stop;
    KL_TRY(kl_h5_get_small(in, group, "direction", -1, 1, &d->direction, err));
    KL_TRY(kl_h5_get_real(in, group, "error_estimate", &d->error_estimate, err));
    KL_TRY(kl_h5_get_real(in, group, "energy_extrapolated", &d->energy_extrapolated, err));
    d->gap = INFINITY; /* version 0.1.0 knew of none */
    if (H5Aexists(group, "gap") > 0) {
        int wait;
        KL_TRY(kl_h5_get_real(in, group, "gap", &d->gap, err));
        KL_TRY(kl_h5_get_real(in, group, "unresolved", &d->unresolved, err));
        KL_TRY(kl_h5_get_real(in, group, "distance", &d->distance, err));
        KL_TRY(kl_h5_get_small(in, group, "wait", 0, KL_WAIT_SECTORS, &wait, err));
        d->wait = (kl_dmrg_wait)wait;
    }
    if (H5Aexists(group, "strings") > 0)
        KL_TRY(kl_h5_get_small(in, group, "strings", 0, KL_MOST_STRINGS, &d->strings, err));
    KL_TRY(kl_h5_get_real(in, group, "discarded", &d->discarded, err));
    KL_TRY(kl_h5_get_int(in, group, "products", 0, INT64_MAX, &d->napply, err));
    KL_TRY(kl_h5_get_real(in, group, "flop", &d->flop, err));
    KL_TRY(kl_h5_get_real(in, group, "seconds", &d->seconds, err));
    KL_TRY(kl_h5_get_int(in, group, "dim_max", 0, INT64_MAX, &d->dim_max, err));
    KL_TRY(kl_h5_get_int(in, group, "sector_max", 0, INT64_MAX, &d->sector_max, err));
    KL_TRY(kl_h5_get_int(in, group, "matrix_max", 0, INT64_MAX, &d->matrix_max, err));
    KL_TRY(kl_h5_get_real(in, group, "sector_mean", &d->sector_mean, err));
    KL_TRY(kl_h5_get_list(in, group, "energy", H5T_NATIVE_DOUBLE, d->nstate, d->energy, err));
    KL_TRY(kl_h5_get_list(in, group, "energy_kept", H5T_NATIVE_DOUBLE, d->nstate, d->energy_kept, err));
    KL_TRY(kl_h5_get_list(in, group, "seconds_part", H5T_NATIVE_DOUBLE, KL_NPART, d->seconds_part, err));
    if (H5Lexists(group, "entropy", H5P_DEFAULT) > 0)
        KL_TRY(kl_h5_get_reals(in, group, "entropy", nsite - 1, KL_MEM_MISC, &d->entropy, err));
    if (d->nstate > 0) KL_TRY(kl_sweepfile_get(in, d, err));
out:
    kl_h5_end_group(group);
    return st;
}

static kl_status get_params(const kl_h5_in *in, kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t group = -1, set = -1;
    char name[KL_H5_MAX_NAME];
    int64_t n = 0;
    KL_TRY(kl_h5_get_group(in, in->file, "parameters", &group, err));
    KL_TRY(kl_h5_link_count(in, group, &n, err));
    KL_TRY(kl_alloc(&r->param, n, KL_MEM_MISC, err));
    for (int64_t i = 0; i < n; i++) {
        kl_result_param *p = &r->param[i];
        int rank;
        int64_t shape[KL_H5_MAX_RANK] = {1, 1, 1, 1};
        KL_TRY(kl_h5_link_name(in, group, i, name, err));
        KL_TRY(kl_h5_open_array(in, group, name, H5T_FLOAT, &set, &rank, shape, &p->n, err));
        H5Dclose(set);
        if (rank > 1) KL_TRY(kl_h5_bad(in, name, "has the wrong rank", err));
        p->is_array = rank;
        r->nparam = (int)i + 1;
        p->name = kl_strdup(name);
        if (p->name == NULL) KL_TRY(kl_fail(err, KL_ENOMEM, "no memory for the name of a parameter"));
        KL_TRY(kl_h5_get_array(in, group, name, H5T_NATIVE_DOUBLE, rank, shape, KL_MEM_MISC,
                               (void **)&p->value, err));
    }
out:
    kl_h5_end_group(group);
    return st;
}

/* Version 0.1.0 knew of none: then all entries are used. */
static kl_status get_places(const kl_h5_in *in, kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t group = -1, set = -1;
    if (!kl_h5_has(in, "parameter_places")) return KL_OK;
    KL_TRY(kl_h5_get_group(in, in->file, "parameter_places", &group, err));
    for (int i = 0; i < r->nparam; i++) {
        kl_result_param *const p = &r->param[i];
        char path[2 * KL_H5_MAX_NAME];
        int rank;
        int64_t shape[KL_H5_MAX_RANK] = {1, 1, 1, 1};
        snprintf(path, sizeof path, "parameter_places/%s", p->name);
        if (!kl_h5_has(in, path)) continue;
        KL_TRY(kl_h5_open_array(in, group, p->name, H5T_INTEGER, &set, &rank, shape, &p->nused, err));
        H5Dclose(set);
        if (rank != 1) KL_TRY(kl_h5_bad(in, path, "has the wrong rank", err));
        KL_TRY(kl_h5_get_array(in, group, p->name, H5T_NATIVE_INT64, rank, shape, KL_MEM_MISC,
                               (void **)&p->used, err));
        for (int64_t k = 0; k < p->nused; k++)
            if (p->used[k] < 0 || p->used[k] >= p->n || (k > 0 && p->used[k] <= p->used[k - 1]))
                KL_TRY(kl_h5_bad(in, path, "holds a place that the array has not", err));
        p->some = 1;
    }
out:
    kl_h5_end_group(group);
    return st;
}

static kl_status get_measured(const kl_h5_in *in, hid_t group, const char *prefix, int depth, kl_result *r,
                              kl_err *err)
{
    kl_status st = KL_OK;
    hid_t child = -1;
    int64_t n = 0;
    double *data = NULL;
    char *note = NULL;
    if (depth > 4) KL_TRY(kl_h5_bad(in, "measurements", "is nested too deep", err));
    KL_TRY(kl_h5_link_count(in, group, &n, err));
    for (int64_t i = 0; i < n; i++) {
        char name[KL_H5_MAX_NAME], path[2 * KL_H5_MAX_NAME];
        H5O_info_t info;
        KL_TRY(kl_h5_link_name(in, group, i, name, err));
        if (snprintf(path, sizeof(path), "%s%s%s", prefix, prefix[0] != '\0' ? "/" : "", name) >=
            KL_H5_MAX_NAME)
            KL_TRY(kl_h5_bad(in, name, "has an overlong name", err));
        if (H5Oget_info_by_name(group, name, &info, H5P_DEFAULT) < 0)
            KL_TRY(kl_h5_bad(in, path, "cannot be read", err));
        if (info.type == H5O_TYPE_GROUP) {
            KL_TRY(kl_h5_get_group(in, group, name, &child, err));
            KL_TRY(get_measured(in, child, path, depth + 1, r, err));
            H5Gclose(child);
            child = -1;
        } else if (info.type == H5O_TYPE_DATASET) {
            int rank;
            int64_t shape[KL_H5_MAX_RANK] = {1, 1, 1, 1}, count;
            KL_TRY(kl_h5_open_array(in, group, name, H5T_FLOAT, &child, &rank, shape, &count, err));
            if (H5Aexists(child, "note") > 0) KL_TRY(kl_h5_get_text(in, child, "note", &note, err));
            H5Dclose(child);
            child = -1;
            KL_TRY(kl_h5_get_array(in, group, name, H5T_NATIVE_DOUBLE, rank, shape, KL_MEM_MISC,
                                   (void **)&data, err));
            KL_TRY(kl_result_add(r, path, note, rank, shape, data, err));
            kl_free(&data);
            kl_free(&note);
        }
    }
out:
    if (child >= 0) H5Oclose(child);
    kl_free(&data);
    kl_free(&note);
    return st;
}

static kl_status get_charges(const kl_h5_in *in, kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t group = -1, one = -1;
    KL_TRY(kl_h5_get_group(in, in->file, "charges", &group, err));
    KL_TRY(kl_h5_get_small(in, group, "count", 0, KL_MAX_CHARGE, &r->ncharge, err));
    KL_TRY(kl_alloc(&r->charge, r->ncharge, KL_MEM_MISC, err));
    for (int c = 0; c < r->ncharge; c++) {
        char text[16];
        snprintf(text, sizeof(text), "%d", c);
        kl_result_charge *q = &r->charge[c];
        KL_TRY(kl_h5_get_group(in, group, text, &one, err));
        KL_TRY(kl_h5_get_text(in, one, "name", &q->name, err));
        KL_TRY(kl_h5_get_small(in, one, "modulus", 0, INT16_MAX, &q->modulus, err));
        KL_TRY(kl_h5_get_small(in, one, "unit_num", 1, INT16_MAX, &q->unit_num, err));
        KL_TRY(kl_h5_get_small(in, one, "unit_den", 1, INT16_MAX, &q->unit_den, err));
        KL_TRY(kl_h5_get_small(in, one, "value", INT16_MIN, INT16_MAX, &q->value, err));
        H5Gclose(one);
        one = -1;
    }
out:
    kl_h5_end_group(one);
    kl_h5_end_group(group);
    return st;
}

static kl_status get_hash(const kl_h5_in *in, hid_t at, const char *name, uint64_t *value, kl_err *err)
{
    char *text = NULL;
    unsigned long long x = 0;
    kl_status st = kl_h5_get_text(in, at, name, &text, err);
    if (st == KL_OK && (strlen(text) != 16 || sscanf(text, "%16llx", &x) != 1))
        st = kl_h5_bad(in, name, "is no fingerprint", err);
    *value = x;
    kl_free(&text);
    return st;
}

static kl_status get_lattice(const kl_h5_in *in, kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    hid_t group = -1;
    KL_TRY(kl_h5_get_group(in, in->file, "lattice", &group, err));
    KL_TRY(kl_h5_get_text(in, group, "spec", &r->lattice, err));
    KL_TRY(get_hash(in, group, "hash", &r->lattice_hash, err));
    KL_TRY(kl_h5_get_small(in, group, "nsite", 1, 100000000, &r->nsite, err));
    int64_t order_shape = r->nsite, xy_shape[2] = {r->nsite, 2};
    KL_TRY(kl_h5_get_array(in, group, "order", H5T_NATIVE_INT, 1, &order_shape, KL_MEM_MISC,
                           (void **)&r->order, err));
    for (int i = 0; i < r->nsite; i++)
        if (r->order[i] < 0 || r->order[i] >= r->nsite)
            KL_TRY(kl_h5_bad(in, "order", "names a site that is not there", err));
    KL_TRY(
        kl_h5_get_array(in, group, "xy", H5T_NATIVE_DOUBLE, 2, xy_shape, KL_MEM_MISC, (void **)&r->xy, err));
    KL_TRY(kl_geometry_get(in, group, r->nsite, &r->geometry, err));
out:
    kl_h5_end_group(group);
    return st;
}

kl_status kl_result_read(const char *path, kl_result **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_h5_in in = {0};
    hid_t group = -1;
    kl_result *r = NULL;
    char *kind = NULL;
    int64_t seed;
    *out = NULL;
    KL_TRY(kl_checked_open(path, &in, err));
    if (H5Aexists(in.file, "kind") > 0) {
        KL_TRY(kl_h5_get_text(&in, in.file, "kind", &kind, err));
        KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: holds '%.20s'; a result of dmrg or ed is wanted here", path,
                       kind));
    }
    KL_TRY(kl_alloc(&r, 1, KL_MEM_MISC, err));
    KL_TRY(kl_h5_get_text(&in, in.file, "program_version", &r->program, err));
    KL_TRY(kl_h5_get_text(&in, in.file, "command_line", &r->command_line, err));
    KL_TRY(kl_h5_get_long_text(&in, in.file, "options", &r->options, err));
    KL_TRY(kl_h5_get_small(&in, in.file, "finished", 0, 1, &r->finished, err));
    KL_TRY(kl_h5_get_small(&in, in.file, "sweep_done", 0, INT32_MAX, &r->sweep_done, err));
    KL_TRY(kl_h5_get_int(&in, in.file, "seed", 0, INT64_MAX, &seed, err));
    r->seed = (uint64_t)seed;
    KL_TRY(kl_h5_get_group(&in, in.file, "model", &group, err));
    KL_TRY(kl_h5_get_text(&in, group, "name", &r->model, err));
    KL_TRY(kl_h5_get_text(&in, group, "variant", &r->variant, err));
    KL_TRY(kl_h5_get_text(&in, group, "formula", &r->formula, err));
    KL_TRY(get_hash(&in, group, "hash", &r->model_hash, err));
    r->hash_of_text = H5Aexists(group, "hash_of") <= 0;
    H5Gclose(group);
    group = -1;
    KL_TRY(get_lattice(&in, r, err));
    KL_TRY(get_charges(&in, r, err));
    KL_TRY(get_params(&in, r, err));
    KL_TRY(get_places(&in, r, err));
    KL_TRY(get_dmrg(&in, r->nsite, &r->dmrg, err));
    if (!r->finished && r->dmrg.nrow != r->sweep_done + (r->dmrg.direction != 0))
        KL_TRY(kl_h5_bad(&in, "sweeps", "has another number of rows than sweeps were made", err));
    KL_TRY(kl_h5_get_group(&in, in.file, "measurements", &group, err));
    KL_TRY(get_measured(&in, group, "", 0, r, err));
    KL_TRY(kl_h5_check(&in, err));
    *out = r;
    r = NULL;
out:
    kl_h5_end_group(group);
    kl_result_destroy(&r);
    kl_free(&kind);
    kl_checked_close(&in);
    return st;
}

kl_status kl_result_read_state(const char *path, const kl_terms *terms, kl_state **out, kl_err *err)
{
    kl_h5_in in;
    *out = NULL;
    kl_status st = kl_checked_open(path, &in, err);
    if (st == KL_OK) st = kl_statefile_get(&in, terms, out, err);
    if (st == KL_OK) st = kl_h5_check(&in, err);
    if (st != KL_OK) kl_state_destroy(out);
    kl_checked_close(&in);
    return st;
}

kl_status kl_result_read_run(const char *path, kl_result_run *run, kl_err *err)
{
    kl_h5_in in;
    run->number = NULL;
    kl_status st = kl_checked_open(path, &in, err);
    if (st == KL_OK) st = kl_statefile_get_run(&in, run, err);
    if (st == KL_OK) st = kl_h5_check(&in, err);
    if (st != KL_OK) kl_free(&run->number);
    kl_checked_close(&in);
    return st;
}
