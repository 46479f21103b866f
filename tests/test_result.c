/* Result files: a round trip of everything, going on from a file, refusals of what does not fit, damage of every kind, full disks, no memory.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "result.h"
#include "dense.h"
#include "mem.h"
#include "sealed.h"
#include <fcntl.h>
#include <hdf5.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[64], path[96], other[96];

/* HDF5 1.10 itself loses a few bytes when it gives up on damaged metadata; sound files leave none. Ours is counted by kl_mem_live_total. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libhdf5\n"; }

/* ---- a small run to write down ---- */

typedef struct fixture {
    const kl_model *model;
    kl_lattice *lat;
    kl_params *params;
    kl_terms *terms;
    kl_exec *ex;
    kl_dmrg_opts opts;
    kl_state *state;
    kl_result *result;
    kl_dmrg_result found;
} fixture;

static void must(kl_status st, const kl_err *err)
{
    if (st != KL_OK) fail_msg("status %d: %s", (int)st, err->text);
}

static const kl_model *builtin(const char *name)
{
    for (int i = 0; i < kl_models_nbuiltin; i++)
        if (strcmp(kl_models_builtin[i]->name, name) == 0) return kl_models_builtin[i];
    return NULL;
}

static void fixture_close(fixture *f)
{
    kl_state_destroy(&f->state);
    kl_result_destroy(&f->result);
    kl_dmrg_result_clear(&f->found);
    kl_terms_destroy(&f->terms);
    kl_params_destroy(&f->params);
    kl_lattice_destroy(&f->lat);
    kl_exec_close(&f->ex);
    kl_dense_release();
    assert_int_equal(kl_mem_live_total(), 0);
}

static void fixture_open(fixture *f, const char *model, int nsite, int nstate, int run)
{
    kl_err err = {""};
    *f = (fixture){.model = builtin(model)};
    assert_non_null(f->model);
    must(kl_lattice_create("chain", nsite, 0, &f->lat, &err), &err);
    must(kl_params_create(f->model, f->lat, &f->params, &err), &err);
    must(kl_terms_create(f->model, f->lat, f->params, &f->terms, &err), &err);
    must(kl_exec_open_host(1, &f->ex, &err), &err);
    f->opts = (kl_dmrg_opts){.nstate = nstate, .accuracy = 1e-10, .seed = 7};
    if (strcmp(model, "hubbard") == 0) {
        must(kl_qn_set(f->model, &f->opts.target, "N_up", "2", &err), &err);
        must(kl_qn_set(f->model, &f->opts.target, "N_dn", "3", &err), &err);
    }
    if (run) must(kl_dmrg_run(f->terms, f->ex, &f->opts, NULL, &f->state, &f->found, &err), &err);
    must(kl_result_create(f->model, f->lat, f->params, f->opts.target, 7, "0.0", "dmrg 'it'", "model=hubbard\nm=3\n", &f->result, &err), &err);
    if (run) must(kl_result_set_dmrg(f->result, &f->found, &err), &err);
    f->result->finished = run;
    f->result->sweep_done = f->found.nrow;
}

static int64_t size_of(const char *file)
{
    struct stat info;
    return stat(file, &info) == 0 ? (int64_t)info.st_size : -1;
}

static unsigned char *slurp(const char *file, int64_t *size)
{
    *size = size_of(file);
    unsigned char *bytes = malloc((size_t)*size);
    FILE *f = fopen(file, "rb");
    assert_non_null(f);
    assert_int_equal(fread(bytes, 1, (size_t)*size, f), (size_t)*size);
    fclose(f);
    return bytes;
}

static void spill(const char *file, const unsigned char *bytes, int64_t size)
{
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, (size_t)size, f), (size_t)size);
    fclose(f);
}

/* Reads description and state; whatever the file holds, there is a status, a message with a failure, and no memory left. */
static int readable(const char *file, const kl_terms *terms, char *why, size_t size)
{
    kl_err err = {""};
    kl_result *r = NULL;
    kl_state *s = NULL;
    const int64_t before = kl_mem_live_total();
    const kl_status a = kl_result_read(file, &r, &err);
    if (a != KL_OK) {
        assert_null(r);
        assert_true(strlen(err.text) > 10 && strchr(err.text, '\n') == NULL);
        snprintf(why, size, "%s", err.text);
    }
    kl_err err2 = {""};
    const kl_status b = kl_result_read_state(file, terms, &s, &err2);
    if (b != KL_OK) {
        assert_null(s);
        assert_true(strlen(err2.text) > 10 && strchr(err2.text, '\n') == NULL);
        if (a == KL_OK) snprintf(why, size, "%s", err2.text);
    }
    kl_result_destroy(&r);
    kl_state_destroy(&s);
    assert_int_equal(kl_mem_live_total(), before);
    return a == KL_OK && b == KL_OK;
}

/* ---- tests ---- */

static void test_round_trip(void **unused)
{
    (void)unused;
    fixture f;
    kl_err err = {""};
    fixture_open(&f, "hubbard", 6, 2, 1);
    const double cube[2][3][4] = {{{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}}, {{-1, 0.1, 1e-300, 1e300}, {0, 0, 0, 0}, {1, 1, 1, 1}}};
    const int64_t shape[3] = {2, 3, 4};
    must(kl_result_add(f.result, "local/Sz", "by site", 1, shape + 1, &cube[0][0][0], &err), &err);
    must(kl_result_add(f.result, "two/Sz*Sz", NULL, 2, shape + 1, &cube[1][0][0], &err), &err);
    must(kl_result_add(f.result, "string/a/b", "deep", 3, shape, &cube[0][0][0], &err), &err);
    must(kl_result_add(f.result, "variance", "a number", 0, shape, &cube[0][2][3], &err), &err);
    must(kl_result_add(f.result, "local/Sz", "by site, again", 1, shape, &cube[0][1][0], &err), &err);
    assert_int_equal(f.result->nmeasured, 4);
    must(kl_result_write(path, f.result, f.state, &err), &err);
    int64_t n1, n2;
    unsigned char *first = slurp(path, &n1);
    must(kl_result_write(path, f.result, f.state, &err), &err);
    unsigned char *second = slurp(path, &n2);
    assert_true(n1 == n2 && memcmp(first, second, (size_t)n1) == 0); /* no dates in it */
    free(first);
    free(second);

    kl_result *r = NULL;
    must(kl_result_read(path, &r, &err), &err);
    assert_string_equal(r->program, "0.0");
    assert_string_equal(r->command_line, "dmrg 'it'");
    assert_string_equal(r->options, "model=hubbard\nm=3\n");
    assert_string_equal(r->model, f.model->name);
    assert_string_equal(r->variant, f.model->variant);
    assert_string_equal(r->formula, f.model->formula);
    assert_string_equal(r->lattice, f.lat->spec);
    assert_true(r->model_hash == f.model->hash && r->lattice_hash == kl_lattice_fingerprint(f.lat));
    assert_int_equal(r->nsite, 6);
    assert_int_equal(r->seed, 7);
    assert_memory_equal(r->order, f.lat->order, sizeof(int) * 6);
    assert_memory_equal(r->xy, f.lat->xy, sizeof(double) * 12);
    assert_int_equal(r->ncharge, 2);
    char charges[64];
    assert_string_equal(kl_result_print_charges(r, charges, sizeof charges), "N_up=2 N_dn=3");
    assert_int_equal(r->nparam, f.model->nparam);
    for (int i = 0; i < r->nparam; i++) {
        int k = 0;
        while (strcmp(f.model->param[k].name, r->param[i].name) != 0) k++;
        assert_int_equal(r->param[i].is_array, f.model->param[k].kind != KL_PARAM_SCALAR);
        assert_memory_equal(r->param[i].value, r->param[i].is_array ? f.params->array[k] : &f.params->scalar[k], sizeof(double) * (size_t)r->param[i].n);
    }
    assert_int_equal(r->dmrg.nrow, f.found.nrow);
    for (int i = 0; i < r->dmrg.nrow; i++) {
        assert_memory_equal(r->dmrg.row[i].energy, f.found.row[i].energy, sizeof(double) * 2);
        assert_int_equal(r->dmrg.row[i].m_reached, f.found.row[i].m_reached);
        assert_int_equal(r->dmrg.row[i].napply, f.found.row[i].napply);
        assert_true(r->dmrg.row[i].discarded == f.found.row[i].discarded);
    }
    assert_memory_equal(r->dmrg.energy, f.found.energy, sizeof(double) * 2);
    assert_memory_equal(r->dmrg.entropy, f.found.entropy, sizeof(double) * 5);
    assert_memory_equal(r->dmrg.seconds_part, f.found.seconds_part, sizeof r->dmrg.seconds_part);
    assert_int_equal(r->dmrg.stop, f.found.stop);
    assert_int_equal(r->dmrg.dim_max, f.found.dim_max);
    assert_int_equal(r->nmeasured, 4);
    for (int i = 0; i < 4; i++) {
        const kl_measured *m = &r->measured[i];
        if (strcmp(m->name, "local/Sz") == 0) {
            assert_string_equal(m->note, "by site, again");
            assert_true(m->rank == 1 && m->shape[0] == 2 && m->data[0] == 5 && m->data[1] == 6);
        } else if (strcmp(m->name, "string/a/b") == 0) {
            assert_true(m->rank == 3 && m->shape[2] == 4);
            assert_memory_equal(m->data, cube, sizeof cube);
        } else if (strcmp(m->name, "variance") == 0) assert_true(m->rank == 0 && m->data[0] == 12);
        else assert_true(strcmp(m->name, "two/Sz*Sz") == 0 && m->rank == 2 && m->note == NULL);
    }
    kl_result_destroy(&r);

    kl_state *s = NULL;
    must(kl_result_read_state(path, f.terms, &s, &err), &err);
    assert_true(s->centre == f.state->centre && s->nstate == 2 && s->npsi == f.state->npsi && kl_qn_cmp(s->target, f.state->target) == 0);
    assert_memory_equal(s->psi, f.state->psi, sizeof(double) * 2 * (size_t)s->npsi);
    assert_memory_equal(s->pair, f.state->pair, sizeof(int) * (size_t)s->row->basis.nsec);
    assert_memory_equal(s->psi_off, f.state->psi_off, sizeof(int64_t) * (size_t)s->row->basis.nsec);
    for (int p = 0; p < 6; p++) {
        if (p == s->centre || p == s->centre + 1) continue;
        const kl_isometry *a = p < s->centre ? s->left[p] : s->right[p], *b = p < s->centre ? f.state->left[p] : f.state->right[p];
        assert_int_equal(a->ndata, b->ndata);
        assert_int_equal(a->basis.nsec, b->basis.nsec);
        assert_memory_equal(a->basis.q, b->basis.q, sizeof(kl_qn) * (size_t)a->basis.nsec);
        assert_memory_equal(a->data, b->data, sizeof(double) * (size_t)a->ndata);
        assert_memory_equal(a->enlarged->home, b->enlarged->home, sizeof(int) * (size_t)(a->enlarged->block.nsec * a->enlarged->d));
    }
    kl_state_destroy(&s);
    fixture_close(&f);
}

static void test_go_on(void **unused)
{
    (void)unused;
    fixture f;
    kl_err err = {""};
    fixture_open(&f, "heisenberg", 10, 1, 1);
    must(kl_result_write(path, f.result, f.state, &err), &err);
    kl_state *s = NULL;
    must(kl_result_read_state(path, f.terms, &s, &err), &err);
    kl_dmrg_result again = {0};
    kl_dmrg_sweep sweep = {.m = 32};
    f.opts.nsweep = 1;
    f.opts.sweep = &sweep;
    must(kl_dmrg_run(f.terms, f.ex, &f.opts, NULL, &s, &again, &err), &err);
    assert_true(fabs(again.energy[0] - f.found.energy[0]) < 1e-9);
    kl_dmrg_result_clear(&again);
    kl_state_destroy(&s);

    /* behind the sweeps of a checkpoint the table goes on */
    must(kl_result_read_state(path, f.terms, &s, &err), &err);
    kl_dmrg_sweep sweeps[4] = {{.m = 32}, {.m = 32}, {.m = 32}, {.m = 40}};
    f.opts.nsweep = 4;
    f.opts.sweep = sweeps;
    f.opts.ndone = 3;
    f.opts.done = f.found.row;
    assert_true(f.found.nrow >= 3);
    must(kl_dmrg_run(f.terms, f.ex, &f.opts, NULL, &s, &again, &err), &err);
    assert_int_equal(again.nrow, 4);
    assert_int_equal(again.row[3].m, 40);
    assert_memory_equal(again.row, f.found.row, sizeof(*again.row) * 3);
    kl_dmrg_result_clear(&again);
    kl_state_destroy(&s);
    fixture_close(&f);
}

static void refused(kl_status st, const kl_err *err, const char *word)
{
    if (st == KL_OK || strstr(err->text, word) == NULL) fail_msg("status %d, \"%s\" lacks \"%s\"", (int)st, err->text, word);
}

/* A run of exact diagonalization: vectors longer than one part, of which the second goes wrong when asked to. */
typedef struct parts {
    int64_t n;
    double *value; /* [2][n] */
    int broken;
} parts;

static kl_status give_part(void *self, int vector, int64_t first, int64_t count, double *to, kl_err *err)
{
    const parts *const p = self;
    if (p->broken == 1 && vector == 1) return kl_fail(err, KL_ENOMEM, "the device is gone");
    memcpy(to, p->value + vector * p->n + first, (size_t)count * sizeof *to);
    if (p->broken == 2 && vector == 1) to[count - 1] = (double)NAN;
    return KL_OK;
}

static kl_status take_part(void *self, int vector, int64_t first, int64_t count, double *from, kl_err *err)
{
    const parts *const p = self;
    (void)err;
    memcpy(p->value + vector * p->n + first, from, (size_t)count * sizeof *from);
    return KL_OK;
}

static void test_run_under_way(void **unused)
{
    (void)unused;
    fixture f;
    kl_err err = {""};
    fixture_open(&f, "heisenberg", 4, 1, 1);
    double number[3] = {1.5, -2e-300, INFINITY};
    parts p = {.n = (1 << 20) + 77};
    p.value = calloc((size_t)(2 * p.n), sizeof *p.value);
    for (int64_t i = 0; i < 2 * p.n; i++) p.value[i] = (double)(i % 1009) - 504.0;
    kl_result_run run = {.nnumber = 3, .number = number, .nvector = 2, .n = p.n, .self = &p, .part = give_part};
    f.result->finished = 0;
    must(kl_result_write_run(path, f.result, &run, &err), &err);
    parts back = {.n = p.n, .value = calloc((size_t)(2 * p.n), sizeof(double))};
    kl_result_run got = {.self = &back, .part = take_part};
    must(kl_result_read_run(path, &got, &err), &err);
    assert_true(got.nnumber == 3 && got.nvector == 2 && got.n == p.n);
    assert_memory_equal(got.number, number, sizeof number);
    assert_memory_equal(back.value, p.value, sizeof(double) * (size_t)(2 * p.n));
    kl_free(&got.number);
    /* A failed write leaves the file as it was; what is no number is refused. */
    p.broken = 1;
    assert_int_equal(kl_result_write_run(path, f.result, &run, &err), KL_ENOMEM);
    got = (kl_result_run){0};
    must(kl_result_read_run(path, &got, &err), &err);
    kl_free(&got.number);
    p.broken = 2;
    must(kl_result_write_run(path, f.result, &run, &err), &err);
    got = (kl_result_run){.self = &back, .part = take_part};
    assert_int_equal(kl_result_read_run(path, &got, &err), KL_EINPUT);
    assert_non_null(strstr(err.text, "not finite"));
    assert_null(got.number);
    must(kl_result_write(path, f.result, f.state, &err), &err);
    assert_int_equal(kl_result_read_run(path, &got, &err), KL_EINPUT);
    assert_non_null(strstr(err.text, "no run of exact diagonalization"));
    free(p.value);
    free(back.value);
    fixture_close(&f);
}

/* A bond the other way round is another lattice: pairing terms change their sign. */
static void test_fingerprint(void **unused)
{
    (void)unused;
    kl_err err = {""};
    uint64_t print[2];
    for (int turned = 0; turned < 2; turned++) {
        kl_lattice *lat = NULL;
        must(kl_lattice_create_empty("two.lua", 2, &lat, &err), &err);
        must(kl_lattice_add_bond(lat, turned, 1 - turned, 1.0, (const char *[]){"nn"}, 1, &err), &err);
        must(kl_lattice_finish(lat, &err), &err);
        print[turned] = kl_lattice_fingerprint(lat);
        kl_lattice_destroy(&lat);
    }
    assert_true(print[0] != print[1]);
}

static void test_mismatch(void **unused)
{
    (void)unused;
    fixture f, g, h;
    kl_err err = {""};
    kl_result *r = NULL;
    kl_state *s = NULL;
    fixture_open(&f, "heisenberg", 8, 1, 1);
    must(kl_result_write(path, f.result, f.state, &err), &err);
    must(kl_result_read(path, &r, &err), &err);
    must(kl_result_match(path, r, f.model, f.lat, f.params, f.opts.target, 1, &err), &err);

    kl_qn q = f.opts.target;
    must(kl_qn_set(f.model, &q, "Sz", "1", &err), &err);
    refused(kl_result_match(path, r, f.model, f.lat, f.params, q, 0, &err), &err, "Sz=0, not Sz=1");
    must(kl_params_set(f.params, "Delta", "0.5", 1, &err), &err);
    refused(kl_result_match(path, r, f.model, f.lat, f.params, f.opts.target, 1, &err), &err, "Delta=1, not 0.5");
    must(kl_result_match(path, r, f.model, f.lat, f.params, f.opts.target, 0, &err), &err);
    must(kl_params_set(f.params, "Delta", "1", 1, &err), &err);
    must(kl_params_set(f.params, "h", "0,0,0,0,0,0,0,1", 1, &err), &err);
    refused(kl_result_match(path, r, f.model, f.lat, f.params, f.opts.target, 1, &err), &err, "array h");
    must(kl_params_set(f.params, "h", "0", 1, &err), &err);
    r->model_hash ^= 1;
    refused(kl_result_match(path, r, f.model, f.lat, f.params, f.opts.target, 0, &err), &err, "another version");
    r->model_hash ^= 1;
    must(kl_lattice_reorder(f.lat, "1,0,2,3,4,5,6,7", &err), &err);
    refused(kl_result_match(path, r, f.model, f.lat, f.params, f.opts.target, 0, &err), &err, "order");
    must(kl_lattice_reorder(f.lat, "column", &err), &err);

    fixture_open(&g, "heisenberg", 6, 1, 0);
    refused(kl_result_match(path, r, g.model, g.lat, g.params, g.opts.target, 0, &err), &err, "8 sites");
    refused(kl_result_read_state(path, g.terms, &s, &err), &err, "8 sites");
    fixture_open(&h, "hubbard", 8, 1, 0);
    refused(kl_result_match(path, r, h.model, h.lat, h.params, h.opts.target, 0, &err), &err, "of model heisenberg");
    refused(kl_result_read_state(path, h.terms, &s, &err), &err, "damaged");
    assert_null(s);
    kl_lattice *ring = NULL;
    must(kl_lattice_create("ring", 8, 0, &ring, &err), &err);
    refused(kl_result_match(path, r, f.model, ring, f.params, f.opts.target, 1, &err), &err, "bonds differ");
    kl_lattice_destroy(&ring);

    must(kl_result_write(other, f.result, NULL, &err), &err);
    refused(kl_result_read_state(other, f.terms, &s, &err), &err, "no state");
    kl_result_destroy(&r);
    kl_state_destroy(&h.state);
    kl_result_destroy(&h.result);
    kl_terms_destroy(&h.terms);
    kl_params_destroy(&h.params);
    kl_lattice_destroy(&h.lat);
    kl_exec_close(&h.ex);
    kl_result_destroy(&g.result);
    kl_terms_destroy(&g.terms);
    kl_params_destroy(&g.params);
    kl_lattice_destroy(&g.lat);
    kl_exec_close(&g.ex);
    fixture_close(&f);
}

static uint64_t random_state = 20240607;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Bytes changed or missing: the seal tells. */
static void test_damage(void **unused)
{
    (void)unused;
    fixture f;
    kl_err err = {""};
    char why[1024];
    int64_t size;
    fixture_open(&f, "heisenberg", 4, 1, 1);
    must(kl_result_write(path, f.result, f.state, &err), &err);
    unsigned char *whole = slurp(path, &size);
    assert_true(readable(path, f.terms, why, sizeof why));
    for (int64_t n = 0; n < size; n += 1 + (int64_t)(random_next() % 400)) {
        spill(other, whole, n);
        assert_false(readable(other, f.terms, why, sizeof why));
    }
    spill(other, whole, size - 1);
    assert_false(readable(other, f.terms, why, sizeof why));
    assert_non_null(strstr(why, "cut short"));
    for (int k = 0; k < 300; k++) {
        const int64_t at = 512 + (int64_t)(random_next() % (uint64_t)(size - 512));
        const unsigned char bit = (unsigned char)(1u << (random_next() % 8));
        whole[at] ^= bit;
        spill(other, whole, size);
        assert_false(readable(other, f.terms, why, sizeof why));
        whole[at] ^= bit;
    }
    for (int k = 0; k < 100; k++) { /* in the seal's own text */
        const int64_t at = (int64_t)(random_next() % 80);
        const unsigned char was = whole[at];
        whole[at] = (unsigned char)random_next();
        spill(other, whole, size);
        (void)readable(other, f.terms, why, sizeof why);
        whole[at] = was;
    }
    spill(other, (const unsigned char *)"\x89HDF\r\n\x1a\n", 8);
    assert_false(readable(other, f.terms, why, sizeof why));
    assert_false(readable("/dev/null", f.terms, why, sizeof why));
    assert_false(readable("/dev/zero", f.terms, why, sizeof why));
    assert_false(readable(folder, f.terms, why, sizeof why));
    assert_false(readable("/no/such/file", f.terms, why, sizeof why));
    free(whole);
    fixture_close(&f);
}

/* ---- files that are sound HDF5 and properly sealed, but say impossible things ---- */

static hid_t reopen(void)
{
    const hid_t file = H5Fopen(other, H5F_ACC_RDWR, H5P_DEFAULT);
    assert_true(file >= 0);
    return file;
}

static void replace_array(const char *name, int rank, const hsize_t *shape, hid_t type, const void *data)
{
    const hid_t file = reopen();
    assert_true(H5Ldelete(file, name, H5P_DEFAULT) >= 0);
    const hid_t space = rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, shape, NULL);
    const hid_t create = H5Pcreate(H5P_DATASET_CREATE);
    if (data == NULL && rank > 0) { /* nothing stored: a huge extent in a small file */
        hsize_t chunk[3] = {1, 1, 1};
        H5Pset_chunk(create, rank, chunk);
    }
    const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, create, H5P_DEFAULT);
    assert_true(set >= 0);
    if (data != NULL) assert_true(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    H5Dclose(set);
    H5Pclose(create);
    H5Sclose(space);
    H5Fclose(file);
}

static void poke(const char *name, int64_t at, double value)
{
    const hid_t file = reopen();
    const hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    const hid_t space = H5Dget_space(set);
    const hssize_t n = H5Sget_simple_extent_npoints(space);
    double *all = malloc(sizeof(double) * (size_t)n);
    assert_true(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, all) >= 0);
    all[at < 0 ? n + at : at] = value;
    assert_true(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, all) >= 0);
    free(all);
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
}

static void set_attribute(const char *object, const char *name, int64_t value)
{
    const hid_t file = reopen();
    const hid_t at = H5Oopen(file, object, H5P_DEFAULT);
    const hid_t attribute = H5Aopen(at, name, H5P_DEFAULT);
    assert_true(attribute >= 0 && H5Awrite(attribute, H5T_NATIVE_INT64, &value) >= 0);
    H5Aclose(attribute);
    H5Oclose(at);
    H5Fclose(file);
}

static void drop(const char *name)
{
    const hid_t file = reopen();
    assert_true(H5Ldelete(file, name, H5P_DEFAULT) >= 0);
    H5Fclose(file);
}

static void expect_refusal(const fixture *f, const char *what)
{
    kl_err err = {""};
    char why[1024] = "";
    must(kl_sealed_renew(other, &err), &err);
    if (readable(other, f->terms, why, sizeof why)) fail_msg("%s was accepted", what);
    if (strstr(why, "checksum") != NULL) fail_msg("%s: the seal spoke, not the check", what);
}

static void test_impossible(void **unused)
{
    (void)unused;
    fixture f;
    kl_err err = {""};
    int64_t size;
    fixture_open(&f, "heisenberg", 6, 1, 1);
    must(kl_result_write(path, f.result, f.state, &err), &err);
    unsigned char *whole = slurp(path, &size);
#define CASE(what, change) spill(other, whole, size), change, expect_refusal(&f, what)
    char why[1024];
    spill(other, whole, size); /* changed on purpose and sealed again: fine */
    poke("/result/seconds_part", 0, 3.5);
    must(kl_sealed_renew(other, &err), &err);
    assert_true(readable(other, f.terms, why, sizeof why));

    const hsize_t huge[2] = {UINT64_C(1) << 40, 2}, huge3[3] = {UINT64_C(1) << 30, UINT64_C(1) << 30, UINT64_C(1) << 30}, five[2] = {5, 3}, one = 1;
    const double numbers[16] = {0};
    const int64_t counts[6][3] = {{2, 2, 2}, {3, 3, INT64_MAX}, {-1, 0, 0}, {2, 0, 0}, {1, 1, 1}, {INT64_MAX, INT64_MAX, INT64_MAX}};
    CASE("isometry off by 1e-6", poke("/state/data", 0, 1.000001));
    CASE("NaN in an isometry", poke("/state/data", -1, NAN));
    CASE("infinity in an isometry", poke("/state/data", 1, INFINITY));
    CASE("NaN in psi", poke("/state/psi", 0, NAN));
    CASE("psi of norm 1e10", poke("/state/psi", 0, 1e10));
    CASE("huge data", replace_array("/state/data", 1, huge, H5T_NATIVE_DOUBLE, NULL));
    CASE("data of rank 3, larger than any memory", replace_array("/state/data", 3, huge3, H5T_NATIVE_DOUBLE, NULL));
    CASE("short data", replace_array("/state/data", 1, &one, H5T_NATIVE_DOUBLE, numbers));
    CASE("data of integers", replace_array("/state/data", 1, &one, H5T_NATIVE_INT, numbers));
    CASE("huge psi", replace_array("/state/psi", 2, huge, H5T_NATIVE_DOUBLE, NULL));
    CASE("wrong site table", replace_array("/state/sites", 2, five, H5T_NATIVE_INT64, numbers));
    CASE("site table of nonsense", replace_array("/state/sites", 2, (const hsize_t[]){6, 3}, H5T_NATIVE_INT64, counts));
    CASE("empty site table", replace_array("/state/sites", 2, (const hsize_t[]){6, 3}, H5T_NATIVE_INT64, (const int64_t[18]){0}));
    CASE("kept dims of zero", replace_array("/state/kept_dim", 1, &one, H5T_NATIVE_INT, numbers));
    CASE("charges of the wrong width", replace_array("/state/kept_charge", 2, five, H5T_NATIVE_INT, numbers));
    CASE("no psi", drop("/state/psi"));
    CASE("no charges", drop("/charges"));
    CASE("no sweeps", drop("/sweeps"));
    CASE("no options", drop("/options"));
    CASE("options that are numbers", replace_array("/options", 0, NULL, H5T_NATIVE_DOUBLE, numbers));
    CASE("sweeps that are numbers", replace_array("/sweeps", 1, &one, H5T_NATIVE_DOUBLE, numbers));
    CASE("huge order", replace_array("/lattice/order", 1, huge, H5T_NATIVE_INT, NULL));
    CASE("order of a site that is not there", replace_array("/lattice/order", 1, (const hsize_t[]){6}, H5T_NATIVE_INT, (const int[]){0, 1, 2, 3, 4, 6}));
    CASE("centre at the end", set_attribute("/state", "centre", 5));
    CASE("centre elsewhere", set_attribute("/state", "centre", 3));
    CASE("negative centre", set_attribute("/state", "centre", -1));
    CASE("no states", set_attribute("/state", "nstate", 0));
    CASE("too many states", set_attribute("/state", "nstate", 17));
    CASE("two states", set_attribute("/state", "nstate", 2));
    CASE("another number of sites", set_attribute("/state", "nsite", 7));
    CASE("too many charges", set_attribute("/charges", "count", 9));
    CASE("a zero unit", set_attribute("/charges/0", "unit_den", 0));
    CASE("a huge lattice", set_attribute("/lattice", "nsite", 99999999));
    CASE("an unknown stop", set_attribute("/result", "stop", 77));
#undef CASE
    free(whole);
    fixture_close(&f);
}

/* Random damage under a fresh seal: now HDF5 and the checks behind it must cope. */
static void test_fuzz_sealed(void **unused)
{
    (void)unused;
    fixture f;
    kl_err err = {""};
    char why[1024];
    int64_t size;
    int accepted = 0;
    fixture_open(&f, "heisenberg", 4, 1, 1);
    must(kl_result_write(path, f.result, f.state, &err), &err);
    unsigned char *whole = slurp(path, &size), *bytes = malloc((size_t)size);
    for (int k = 0; k < 400; k++) {
        memcpy(bytes, whole, (size_t)size);
        for (uint64_t i = 0; i <= random_next() % 3; i++) bytes[512 + (int64_t)(random_next() % (uint64_t)(size - 512))] = (unsigned char)random_next();
        spill(other, bytes, size);
        must(kl_sealed_renew(other, &err), &err);
        accepted += readable(other, f.terms, why, sizeof why);
    }
    print_message("# %d of 400 random damages under a fresh seal fell where nothing is checked (notes, rounding, unused bytes)\n", accepted);
    free(bytes);
    free(whole);
    fixture_close(&f);
}

static void test_disk(void **unused)
{
    (void)unused;
    fixture f;
    kl_err err = {""};
    int64_t before, after;
    char partial[128];
    snprintf(partial, sizeof partial, "%s.partial", path);
    fixture_open(&f, "heisenberg", 6, 1, 1);
    must(kl_result_write(path, f.result, f.state, &err), &err);
    unsigned char *old = slurp(path, &before);

    signal(SIGXFSZ, SIG_IGN);
    struct rlimit was, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    for (rlim_t bytes = 0; bytes < (rlim_t)before + 1000; bytes += 1 + (rlim_t)before / 7) {
        small = was;
        small.rlim_cur = bytes;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        const kl_status st = kl_result_write(path, f.result, f.state, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
        if (st != KL_EIO || strstr(err.text, path) == NULL) fail_msg("limit %lld: status %d: %s", (long long)bytes, (int)st, err.text);
        assert_int_equal(size_of(partial), -1);
    }
    unsigned char *now = slurp(path, &after);
    assert_true(before == after && memcmp(old, now, (size_t)before) == 0);
    free(old);
    free(now);
    refused(kl_result_write("/no/such/folder/x.h5", f.result, f.state, &err), &err, "No such file");
    refused(kl_result_write("/dev/full", f.result, f.state, &err), &err, "ordinary");
    refused(kl_result_write(folder, f.result, f.state, &err), &err, "ordinary");
    must(kl_result_write(path, f.result, f.state, &err), &err);
    fixture_close(&f);
}

static void test_no_memory(void **unused)
{
    (void)unused;
    fixture f;
    kl_err err = {""};
    fixture_open(&f, "hubbard", 5, 1, 1);
    must(kl_result_write(path, f.result, f.state, &err), &err);
    const int64_t before = kl_mem_live_total();
    for (int what = 0; what < 4; what++) {
        for (int64_t k = 1;; k++) {
            kl_result *r = NULL;
            kl_state *s = NULL;
            kl_mem_fail_after(k);
            kl_status st = what == 0   ? kl_result_read(path, &r, &err)
                           : what == 1 ? kl_result_read_state(path, f.terms, &s, &err)
                           : what == 2 ? kl_result_write(other, f.result, f.state, &err)
                                       : kl_result_create(f.model, f.lat, f.params, f.opts.target, 1, "a", "b", "c", &r, &err);
            kl_mem_fail_after(0);
            kl_result_destroy(&r);
            kl_state_destroy(&s);
            assert_int_equal(kl_mem_live_total(), before);
            if (st == KL_OK) break;
            assert_int_equal(st, KL_ENOMEM);
        }
    }
    fixture_close(&f);
}

static int make_folder(void **unused)
{
    (void)unused;
    snprintf(folder, sizeof folder, "/tmp/kronlat-result-XXXXXX");
    if (mkdtemp(folder) == NULL) return 1;
    snprintf(path, sizeof path, "%s/a.h5", folder);
    snprintf(other, sizeof other, "%s/b.h5", folder);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return 0;
}

static int drop_folder(void **unused)
{
    (void)unused;
    unlink(path);
    unlink(other);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_go_on),       cmocka_unit_test(test_mismatch), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_impossible), cmocka_unit_test(test_fuzz_sealed), cmocka_unit_test(test_disk),     cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_fingerprint), cmocka_unit_test(test_run_under_way),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
