/* HDF5 layout: attributes of the root say what was computed; /energy, /s2, /irrep, /residual have an entry
   for each state; /state/N holds leading determinants, weights by level, and density_alpha, density_beta,
   natural_occupations (of unrestricted orbitals _alpha and _beta) where they were asked for; /irreps/NAME has
   an entry for each irrep. An unfinished run (attribute finished 0) has no states but all that it goes on
   from, /run (statefile.h); one of version 0.1.0 start vectors, /vectors/IRREP [nvec][n].
   SPDX-License-Identifier: Apache-2.0 */
#include "io/cifile.h"
#include "base/mem.h"
#include "io/checked.h"
#include "io/statefile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 1024 }; /* bytes for the occupations of a determinant */
static const char *const density_name[2] = {"density_alpha", "density_beta"}, *const natural_name[2] = {
                                                                                  "natural_occupations_alpha",
                                                                                  "natural_occupations_beta"};

static void put_state(kl_h5_out *w, hid_t states, const kl_ci_result *r, int i)
{
    const kl_ci_state *const s = &r->state[i];
    char name[16], words[KL_CI_LEADING][WORDS];
    const hsize_t square[2] = {(hsize_t)r->norb, (hsize_t)r->norb}, nleading = (hsize_t)s->nleading;
    snprintf(name, sizeof(name), "%d", i + 1);
    const hid_t group = kl_h5_put_group(w, states, name), type = kl_h5_text_type(WORDS);
    memset(words, 0, sizeof(words));
    for (int k = 0; k < s->nleading; k++) snprintf(words[k], sizeof(words[k]), "%s", s->leading_text[k]);
    kl_h5_put_array(w, group, "leading_determinants", type, type, 1, &nleading, words, NULL);
    H5Tclose(type);
    kl_h5_put_reals(w, group, "leading_coefficients", s->nleading, s->leading, NULL);
    if (s->level_weight != NULL)
        kl_h5_put_reals(w, group, "weight_by_level", r->nlevel, s->level_weight, NULL);
    if (s->natural != NULL) kl_h5_put_reals(w, group, "natural_occupations", r->norb, s->natural, NULL);
    for (int spin = 0; spin < 2; spin++) {
        if (s->natural_spin[spin] != NULL)
            kl_h5_put_reals(w, group, natural_name[spin], r->norb, s->natural_spin[spin], NULL);
        if (s->density[spin] != NULL)
            kl_h5_put_array(w, group, density_name[spin], H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 2, square,
                            s->density[spin], NULL);
    }
    kl_h5_end_group(group);
}

/* What is kept of an irrep, one data set each. */
typedef struct block_field {
    const char *name;
    size_t offset;
    char type; /* i: int64_t, n: int, d: double */
} block_field;
#define FIELD(name, member, type) {name, offsetof(kl_ci_block, member), type}
static const block_field block_fields[] = {
    FIELD("determinants", ndet, 'i'),
    FIELD("alpha_strings", nalpha_string, 'i'),
    FIELD("beta_strings", nbeta_string, 'i'),
    FIELD("nonzeros", nnz, 'i'),
    FIELD("matrix_bytes", matrix_bytes, 'i'),
    FIELD("formula_bytes", formula_bytes, 'i'),
    FIELD("boundary", facts.boundary, 'i'),
    FIELD("nonzeros_all", facts.nnz, 'i'),
    FIELD("nonzeros_reference", facts.nnz_reference, 'i'),
    FIELD("nonzeros_expansion", facts.nnz_expansion, 'i'),
    FIELD("rows_reference", facts.rows_reference, 'i'),
    FIELD("rows_expansion", facts.rows_expansion, 'i'),
    FIELD("longest_row_nonzeros", facts.longest, 'i'),
    FIELD("longest_row", facts.longest_row, 'i'),
    FIELD("sparsity", facts.sparsity, 'd'),
    FIELD("sparsity_reference", facts.sparsity_reference, 'd'),
    FIELD("sparsity_expansion", facts.sparsity_expansion, 'd'),
    FIELD("products", napply, 'n'),
    FIELD("converged", converged, 'n'),
    FIELD("residual", residual, 'd'),
    FIELD("seconds_build", seconds_build, 'd'),
    FIELD("seconds_solve", seconds_solve, 'd'),
    FIELD("rows_made", rows_made, 'i'), /* not in files of version 0.1.0 */
};
enum { NFIELD = sizeof(block_fields) / sizeof(*block_fields) };

/* Numbers of the whole run, from 0 to `most`: attributes. */
#define SIZE(name, member, most) {name, offsetof(kl_ci_result, member), most}
static const struct {
    const char *name;
    size_t offset;
    int most;
} sizes[] = {
    SIZE("orbitals", norb, 10000),   SIZE("inactive", ninactive, 10000),
    SIZE("active", nactive, 10000),  SIZE("alpha", nalpha, 10000),
    SIZE("beta", nbeta, 10000),      SIZE("irreps_of_the_file", nirrep, 8),
    SIZE("converged", converged, 1), SIZE("no_matrix", direct, 1),
    SIZE("one_half", half, 1),       SIZE("levels", nlevel, 2 * KL_DET_MAX_ORB + 1),
};
enum { NSIZE = sizeof(sizes) / sizeof(*sizes) };

/* Of all states. */
static void put_lists(kl_h5_out *w, const kl_ci_result *r)
{
    const int n = r->nstate;
    double *list = NULL;
    int64_t *irrep = NULL;
    kl_err ignored;
    if (kl_alloc(&list, 3 * (int64_t)n, KL_MEM_WORK, &ignored) != KL_OK ||
        kl_alloc(&irrep, n, KL_MEM_WORK, &ignored) != KL_OK) {
        errno = ENOMEM;
        kl_h5_ok(w, -1);
        goto out;
    }
    for (int i = 0; i < n; i++) {
        list[i] = r->state[i].energy;
        list[n + i] = r->state[i].s2;
        list[2 * n + i] = r->state[i].residual;
        irrep[i] = r->state[i].irrep + 1;
    }
    kl_h5_put_reals(w, w->file, "energy", n, list, NULL);
    kl_h5_put_reals(w, w->file, "s2", n, list + n, NULL);
    kl_h5_put_reals(w, w->file, "residual", n, list + 2 * n, NULL);
    kl_h5_put_ints(w, w->file, "irrep", n, irrep);
out:
    kl_free(&list);
    kl_free(&irrep);
}

static void put_all(kl_h5_out *w, const kl_ci_record *c)
{
    const kl_ci_result *const r = &c->r;
    int64_t label[8];
    kl_h5_put_text(w, w->file, "program", c->program);
    kl_h5_put_text(w, w->file, "kind", "ci");
    kl_h5_put_text(w, w->file, "command_line", c->command_line);
    kl_h5_put_long_text(w, w->file, "options", c->options);
    kl_h5_put_text(w, w->file, "fcidump", c->fcidump);
    kl_h5_put_text(w, w->file, "space", c->space);
    if (c->integrals[0] != '\0') kl_h5_put_text(w, w->file, "integrals", c->integrals);
    kl_h5_put_text(w, w->file, "format", kl_spformat_name(r->format));
    if (r->reference != NULL) kl_h5_put_text(w, w->file, "reference", r->reference);
    if (r->note[0] != '\0') kl_h5_put_text(w, w->file, "note", r->note);
    kl_h5_put_real(w, w->file, "reference_energy", r->reference_energy);
    kl_h5_put_real(w, w->file, "seconds", r->seconds_all);
    kl_h5_put_int(w, w->file, "finished", c->finished);
    for (int k = 0; k < NSIZE; k++)
        kl_h5_put_int(w, w->file, sizes[k].name, *(const int *)((const char *)r + sizes[k].offset));
    if (!c->finished) return;
    hid_t group = kl_h5_put_group(w, w->file, "state");
    for (int i = 0; i < r->nstate; i++) put_state(w, group, r, i);
    kl_h5_end_group(group);
    put_lists(w, r);
    group = kl_h5_put_group(w, w->file, "irreps");
    int n = 0;
    for (int g = 0; g < r->nirrep; g++)
        if (r->block[g].ndet > 0) label[n++] = g + 1;
    kl_h5_put_ints(w, group, "label", n, label);
    for (int k = 0; k < NFIELD; k++) {
        const block_field *const f = &block_fields[k];
        int64_t whole[8];
        double real[8];
        for (int i = 0; i < n; i++) {
            const char *const at = (const char *)&r->block[label[i] - 1] + f->offset;
            if (f->type == 'd') real[i] = *(const double *)at;
            else whole[i] = f->type == 'i' ? *(const int64_t *)at : *(const int *)at;
        }
        if (f->type == 'd') kl_h5_put_reals(w, group, f->name, n, real, NULL);
        else kl_h5_put_ints(w, group, f->name, n, whole);
    }
    kl_h5_end_group(group);
}

static int64_t estimate_bytes(const kl_ci_record *c, const kl_result_run *run)
{
    const kl_ci_result *const r = &c->r;
    int64_t n = 262144 + 4 * KL_H5_MAX_TEXT + (int64_t)strlen(c->options);
    if (c->finished)
        n += r->nstate *
             (KL_CI_LEADING * WORDS + 16384 + 8 * (r->nlevel + 2 * (int64_t)r->norb * (r->norb + 1)));
    return n + 8 * kl_statefile_run_size(run);
}

kl_status kl_cifile_write(const char *path, const kl_ci_record *c, const kl_result_run *run, kl_err *err)
{
    kl_checked f;
    kl_status st = kl_checked_create(path, estimate_bytes(c, run), &f, err);
    if (st != KL_OK) return st;
    put_all(&f.out, c);
    if (run != NULL) st = kl_statefile_put_run(&f.out, run, err);
    return kl_checked_finish(&f, st, err);
}

/* ---------------------------------------------------------------- reading */

static kl_status get_state(const kl_h5_in *in, kl_ci_result *r, int i, kl_err *err)
{
    kl_status st = KL_OK;
    kl_ci_state *const s = &r->state[i];
    char name[32], (*words)[WORDS] = NULL;
    hid_t group = -1;
    int64_t n = -1, square[2] = {r->norb, r->norb};
    const hid_t type = kl_h5_text_type(WORDS);
    snprintf(name, sizeof(name), "state/%d", i + 1);
    KL_TRY(kl_h5_get_group(in, in->file, name, &group, err));
    KL_TRY(
        kl_h5_get_array(in, group, "leading_determinants", type, 1, &n, KL_MEM_WORK, (void **)&words, err));
    if (n > KL_CI_LEADING) KL_TRY(kl_h5_bad(in, "leading_determinants", "is too long", err));
    KL_TRY(kl_h5_get_list(in, group, "leading_coefficients", H5T_NATIVE_DOUBLE, n, s->leading, err));
    for (s->nleading = 0; s->nleading < n; s->nleading++) {
        words[s->nleading][WORDS - 1] = '\0';
        kl_h5_make_plain(words[s->nleading]);
        s->leading_text[s->nleading] = kl_strdup(words[s->nleading]);
        if (s->leading_text[s->nleading] == NULL)
            KL_TRY(kl_fail(err, KL_ENOMEM, "no memory for the states in %.300s", in->path));
    }
    if (H5Lexists(group, "weight_by_level", H5P_DEFAULT) > 0)
        KL_TRY(kl_h5_get_reals(in, group, "weight_by_level", r->nlevel, KL_MEM_MISC, &s->level_weight, err));
    if (H5Lexists(group, "natural_occupations", H5P_DEFAULT) > 0)
        KL_TRY(kl_h5_get_reals(in, group, "natural_occupations", r->norb, KL_MEM_MISC, &s->natural, err));
    for (int spin = 0; spin < 2; spin++)
        if (H5Lexists(group, natural_name[spin], H5P_DEFAULT) > 0)
            KL_TRY(kl_h5_get_reals(in, group, natural_name[spin], r->norb, KL_MEM_MISC,
                                   &s->natural_spin[spin], err));
    for (int spin = 0; spin < 2 && H5Lexists(group, density_name[spin], H5P_DEFAULT) > 0; spin++)
        KL_TRY(kl_h5_get_array(in, group, density_name[spin], H5T_NATIVE_DOUBLE, 2, square, KL_MEM_MISC,
                               (void **)&s->density[spin], err));
out:
    H5Tclose(type);
    kl_h5_end_group(group);
    kl_free(&words);
    return st;
}

static kl_status get_states(const kl_h5_in *in, kl_ci_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    double *energy = NULL, *s2 = NULL, *residual = NULL;
    int64_t *irrep = NULL, *label = NULL, n = -1, nblock = -1;
    hid_t group = -1;
    KL_TRY(kl_h5_get_array(in, in->file, "energy", H5T_NATIVE_DOUBLE, 1, &n, KL_MEM_WORK, (void **)&energy,
                           err));
    if (n > INT32_MAX) KL_TRY(kl_h5_bad(in, "energy", "is too long", err));
    KL_TRY(kl_h5_get_reals(in, in->file, "s2", n, KL_MEM_WORK, &s2, err));
    KL_TRY(kl_h5_get_reals(in, in->file, "residual", n, KL_MEM_WORK, &residual, err));
    KL_TRY(
        kl_h5_get_array(in, in->file, "irrep", H5T_NATIVE_INT64, 1, &n, KL_MEM_WORK, (void **)&irrep, err));
    KL_TRY(kl_alloc(&r->state, n, KL_MEM_MISC, err));
    for (r->nstate = 0; r->nstate < n;) {
        const int i = r->nstate++;
        r->state[i] = (kl_ci_state){
            .energy = energy[i], .s2 = s2[i], .residual = residual[i], .irrep = (int)(irrep[i] - 1)};
        if (irrep[i] < 1 || irrep[i] > 8) KL_TRY(kl_h5_bad(in, "irrep", "names none of 1 to 8", err));
        KL_TRY(get_state(in, r, i, err));
    }
    KL_TRY(kl_h5_get_group(in, in->file, "irreps", &group, err));
    KL_TRY(
        kl_h5_get_array(in, group, "label", H5T_NATIVE_INT64, 1, &nblock, KL_MEM_WORK, (void **)&label, err));
    if (nblock > 8) KL_TRY(kl_h5_bad(in, "label", "is too long", err));
    for (int64_t i = 0; i < nblock; i++)
        if (label[i] < 1 || label[i] > r->nirrep)
            KL_TRY(kl_h5_bad(in, "label", "names an irrep that is not there", err));
    for (int k = 0; k < NFIELD; k++) {
        const block_field *const f = &block_fields[k];
        int64_t whole[8];
        double real[8];
        if (f->offset == offsetof(kl_ci_block, rows_made) && !kl_h5_has(in, "irreps/rows_made")) continue;
        KL_TRY(f->type == 'd' ? kl_h5_get_list(in, group, f->name, H5T_NATIVE_DOUBLE, nblock, real, err)
                              : kl_h5_get_list(in, group, f->name, H5T_NATIVE_INT64, nblock, whole, err));
        for (int64_t i = 0; i < nblock; i++) {
            char *const at = (char *)&r->block[label[i] - 1] + f->offset;
            if (f->type == 'd') *(double *)at = real[i];
            else if (f->type == 'i') *(int64_t *)at = whole[i];
            else *(int *)at = (int)whole[i];
        }
    }
out:
    kl_h5_end_group(group);
    kl_free(&energy);
    kl_free(&s2);
    kl_free(&residual);
    kl_free(&irrep);
    kl_free(&label);
    return st;
}

/* Whether the open file says that it is of this kind. */
static int is_ci(const kl_h5_in *in)
{
    char *kind = NULL;
    const int is = H5Aexists(in->file, "kind") > 0 &&
                   kl_h5_get_text(in, in->file, "kind", &kind, NULL) == KL_OK && strcmp(kind, "ci") == 0;
    kl_free(&kind);
    return is;
}

int kl_cifile_is(const char *path)
{
    kl_h5_in in;
    const int is = kl_checked_open(path, &in, NULL) == KL_OK && is_ci(&in);
    kl_checked_close(&in);
    return is;
}

static kl_status open_ci(const char *path, kl_h5_in *in, kl_err *err)
{
    const kl_status st = kl_checked_open(path, in, err);
    return st != KL_OK || is_ci(in) ? st
                                    : kl_fail(err, KL_EINPUT, "%.300s: is no result of `kronlat ci'", path);
}

kl_status kl_cifile_read(const char *path, kl_ci_record *out, kl_err *err)
{
    kl_status st = KL_OK;
    char *text = NULL;
    kl_h5_in in;
    *out = (kl_ci_record){0};
    kl_ci_result *const r = &out->r;
    KL_TRY(open_ci(path, &in, err));
    KL_TRY(kl_h5_get_text(&in, in.file, "program", &out->program, err));
    KL_TRY(kl_h5_get_text(&in, in.file, "command_line", &out->command_line, err));
    KL_TRY(kl_h5_get_long_text(&in, in.file, "options", &out->options, err));
    KL_TRY(kl_h5_get_text(&in, in.file, "fcidump", &out->fcidump, err));
    KL_TRY(kl_h5_get_text(&in, in.file, "space", &out->space, err));
    if (H5Aexists(in.file, "integrals") > 0) {
        KL_TRY(kl_h5_get_text(&in, in.file, "integrals", &text, err));
        snprintf(out->integrals, sizeof(out->integrals), "%s", text);
    }
    KL_TRY(kl_h5_get_text(&in, in.file, "format", &text, err));
    if (!kl_spformat_parse(text, &r->format)) KL_TRY(kl_h5_bad(&in, "format", "is not known", err));
    if (H5Aexists(in.file, "reference") > 0)
        KL_TRY(kl_h5_get_text(&in, in.file, "reference", &r->reference, err));
    if (H5Aexists(in.file, "note") > 0) {
        KL_TRY(kl_h5_get_text(&in, in.file, "note", &text, err));
        snprintf(r->note, sizeof(r->note), "%s", text);
    }
    KL_TRY(kl_h5_get_real(&in, in.file, "reference_energy", &r->reference_energy, err));
    KL_TRY(kl_h5_get_real(&in, in.file, "seconds", &r->seconds_all, err));
    KL_TRY(kl_h5_get_small(&in, in.file, "finished", 0, 1, &out->finished, err));
    for (int k = 0; k < NSIZE; k++)
        KL_TRY(kl_h5_get_small(&in, in.file, sizes[k].name, 0, sizes[k].most,
                               (int *)((char *)r + sizes[k].offset), err));
    if (out->finished) KL_TRY(get_states(&in, r, err));
    out->has_run = kl_h5_has(&in, "run");
    KL_TRY(kl_h5_check(&in, err));
out:
    kl_checked_close(&in);
    kl_free(&text);
    if (st != KL_OK) kl_cifile_clear(out);
    return st;
}

kl_status kl_cifile_read_run(const char *path, kl_result_run *run, kl_err *err)
{
    kl_status st = KL_OK;
    kl_h5_in in;
    KL_TRY(open_ci(path, &in, err));
    KL_TRY(kl_statefile_get_run(&in, run, err));
    KL_TRY(kl_h5_check(&in, err));
out:
    kl_checked_close(&in);
    return st;
}

kl_status kl_cifile_vectors(const char *path, int irrep, int most, int64_t n, int *nvec, double *x,
                            kl_err *err)
{
    kl_status st = KL_OK;
    char name[32];
    kl_h5_in in;
    hid_t set = -1;
    int rank;
    int64_t have[KL_H5_MAX_RANK] = {0}, count;
    *nvec = 0;
    KL_TRY(open_ci(path, &in, err));
    snprintf(name, sizeof(name), "vectors/%d", irrep + 1);
    const int there = kl_h5_has(&in, name);
    KL_TRY(kl_h5_check(&in, err));
    if (!there) goto out;
    KL_TRY(kl_h5_open_array(&in, in.file, name, H5T_FLOAT, &set, &rank, have, &count, err));
    if (rank != 2) KL_TRY(kl_h5_bad(&in, name, "holds no vectors", err));
    if (have[1] != n)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--resume: %.300s holds vectors of %lld numbers for irrep %d; this run needs %lld",
                       path, (long long)have[1], irrep + 1, (long long)n));
    const int64_t some = have[0] < most ? have[0] : most;
    KL_TRY(kl_h5_get_part(&in, set, name, 0, some, x, err));
    *nvec = (int)some;
out:
    if (set >= 0) H5Dclose(set);
    kl_checked_close(&in);
    return st;
}

void kl_cifile_clear(kl_ci_record *c)
{
    kl_ci_result_clear(&c->r);
    kl_free(&c->program);
    kl_free(&c->command_line);
    kl_free(&c->options);
    kl_free(&c->fcidump);
    kl_free(&c->space);
}
