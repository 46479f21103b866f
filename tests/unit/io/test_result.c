/* Result files: a round trip of everything, going on from a file, refusals of what does not fit, damage of
   every kind, full disks, no memory.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "core.h"
#include "kl_test.h"
#include "base/mem.h"
#include "io/result.h"
#include "io/checked.h"
#include <fcntl.h>
#include <hdf5.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64], path[96], other[96];

/* HDF5 1.10 itself loses a few bytes when it gives up on damaged metadata; sound files leave none. Ours is
   counted by kl_mem_live_total. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libhdf5\n"; }

/* ---- a small run to write down ---- */

typedef struct fixture {
    core_job j;
    core_run r;
    kl_result *result;
} fixture;

static void fixture_close(fixture *f)
{
    kl_result_destroy(&f->result);
    core_drop(&f->r);
    core_close(&f->j);
}

static void fixture_open(fixture *f, const char *model, int nsite, int nstate, int run)
{
    kl_err err = {""};
    char lattice[32];
    *f = (fixture){0};
    snprintf(lattice, sizeof lattice, "chain:%d", nsite);
    core_open(&f->j, core_model(model, NULL), lattice, NULL, NULL);
    f->r = core_auto(1e-10, core_charge(f->j.model, strcmp(model, "hubbard") == 0 ? "N_up=2 N_dn=3" : NULL),
                     nstate, KL_STRATEGY_AUTO);
    if (run) core_go(&f->j, &f->r);
    expect_ok(kl_result_create(f->j.model, f->j.lat, f->j.par, f->r.opts.target, 7,
                               &(kl_result_origin){"0.0", "dmrg 'it'", "model=hubbard\nm=3\n"}, &f->result,
                               &err),
              err);
    if (run) expect_ok(kl_result_set_dmrg(f->result, &f->r.res, &err), err);
    f->result->finished = run;
    f->result->sweep_done = f->r.res.nrow;
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

/* Reads description and state; whatever the file holds, there is a status, a message with a failure, and no
   memory left. */
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

/* What a result says besides its numbers. */
static void check_head(const kl_result *r, const fixture *f)
{
    assert_string_equal(r->program, "0.0");
    assert_string_equal(r->command_line, "dmrg 'it'");
    assert_string_equal(r->options, "model=hubbard\nm=3\n");
    assert_string_equal(r->model, f->j.model->name);
    assert_string_equal(r->variant, f->j.model->variant);
    assert_string_equal(r->formula, f->j.model->formula);
    assert_string_equal(r->lattice, f->j.lat->spec);
    assert_true(r->model_hash == f->j.model->hash && r->lattice_hash == kl_lattice_fingerprint(f->j.lat));
    assert_int_equal(r->nsite, 6);
    assert_int_equal(r->seed, 7);
    assert_memory_equal(r->order, f->j.lat->order, sizeof(int) * 6);
    assert_memory_equal(r->xy, f->j.lat->xy, sizeof(double) * 12);
    const kl_lattice *const lat = f->j.lat;
    assert_int_equal(r->geometry.nbond, lat->nbond);
    assert_int_equal(r->geometry.nclass, lat->nbond_class);
    for (int b = 0; b < lat->nbond; b++) {
        const kl_bond *const bond = &lat->bond[b];
        assert_int_equal(r->geometry.bond[b][bond->reversed], bond->i);
        assert_int_equal(r->geometry.bond[b][!bond->reversed], bond->j);
        assert_true(r->geometry.length[b] == bond->r);
        assert_true(fabs(hypot(r->geometry.vector[b][0], r->geometry.vector[b][1]) - bond->r) < 1e-12);
        for (int c = 0; c < lat->nbond_class; c++) {
            int has = 0;
            for (int k = 0; k < bond->nclass; k++) has |= bond->cls[k] == c;
            assert_int_equal(kl_geometry_is(&r->geometry, b, lat->bond_class[c]), has);
        }
    }
    assert_int_equal(r->ncharge, 2);
    char charges[64];
    assert_string_equal(kl_result_print_charges(r, charges, sizeof charges), "N_up=2 N_dn=3");
    assert_int_equal(r->nparam, f->j.model->nparam);
    for (int i = 0; i < r->nparam; i++) {
        assert_string_equal(r->param[i].name, f->j.model->param[i].name); /* in their order there */
        assert_int_equal(r->param[i].is_array, f->j.model->param[i].kind != KL_PARAM_SCALAR);
        assert_memory_equal(r->param[i].value,
                            r->param[i].is_array ? f->j.par->array[i] : &f->j.par->scalar[i],
                            sizeof(double) * (size_t)r->param[i].n);
    }
}

static void check_rows(const kl_result *r, const fixture *f)
{
    assert_int_equal(r->dmrg.nrow, f->r.res.nrow);
    for (int i = 0; i < r->dmrg.nrow; i++) {
        assert_memory_equal(r->dmrg.row[i].energy, f->r.res.row[i].energy, sizeof(double) * 2);
        assert_int_equal(r->dmrg.row[i].m_reached, f->r.res.row[i].m_reached);
        assert_int_equal(r->dmrg.row[i].napply, f->r.res.row[i].napply);
        assert_true(r->dmrg.row[i].discarded == f->r.res.row[i].discarded);
    }
    assert_memory_equal(r->dmrg.energy, f->r.res.energy, sizeof(double) * 2);
    assert_memory_equal(r->dmrg.entropy, f->r.res.entropy, sizeof(double) * 5);
    assert_memory_equal(r->dmrg.seconds_part, f->r.res.seconds_part, sizeof r->dmrg.seconds_part);
    assert_int_equal(r->dmrg.stop, f->r.res.stop);
    assert_int_equal(r->dmrg.dim_max, f->r.res.dim_max);
}

static void check_measured(const kl_result *r, const double (*cube)[3][4])
{
    assert_int_equal(r->nmeasured, 5);
    for (int i = 0; i < 5; i++) {
        const kl_measured *m = &r->measured[i];
        if (strcmp(m->name, "local/Sz") == 0) {
            assert_string_equal(m->note, "by site, again");
            assert_true(m->rank == 1 && m->shape[0] == 2 && m->data[0] == 5 && m->data[1] == 6);
        } else if (strcmp(m->name, "string/a/b") == 0) {
            assert_true(m->rank == 3 && m->shape[2] == 4);
            assert_memory_equal(m->data, cube, 24 * sizeof(double));
        } else if (strcmp(m->name, "variance") == 0) assert_true(m->rank == 0 && m->data[0] == 12);
        else if (strncmp(m->name, "state_12/product/xxx", 20) == 0)
            assert_true(strlen(m->name) == 417 && m->rank == 0 && m->data[0] == 11);
        else assert_true(strcmp(m->name, "two/Sz*Sz") == 0 && m->rank == 2 && m->note == NULL);
    }
}

static void check_state(const kl_state *s, const fixture *f)
{
    assert_true(s->centre == f->r.state->centre && s->nstate == 2 && s->npsi == f->r.state->npsi &&
                kl_qn_cmp(s->target, f->r.state->target) == 0);
    assert_memory_equal(s->psi, f->r.state->psi, sizeof(double) * 2 * (size_t)s->npsi);
    assert_memory_equal(s->pair, f->r.state->pair, sizeof(int) * (size_t)s->row->basis.nsec);
    assert_memory_equal(s->psi_off, f->r.state->psi_off, sizeof(int64_t) * (size_t)s->row->basis.nsec);
    for (int p = 0; p < 6; p++) {
        if (p == s->centre || p == s->centre + 1) continue;
        const kl_isometry *a = p < s->centre ? s->left[p] : s->right[p],
                          *b = p < s->centre ? f->r.state->left[p] : f->r.state->right[p];
        assert_int_equal(a->ndata, b->ndata);
        assert_int_equal(a->basis.nsec, b->basis.nsec);
        assert_memory_equal(a->basis.q, b->basis.q, sizeof(kl_qn) * (size_t)a->basis.nsec);
        assert_memory_equal(a->data, b->data, sizeof(double) * (size_t)a->ndata);
        assert_memory_equal(a->enlarged->home, b->enlarged->home,
                            sizeof(int) * (size_t)(a->enlarged->block.nsec * a->enlarged->d));
    }
}

static kl_result_writing *begin_checkpoint(const fixture *f)
{
    kl_err err = {""};
    kl_state *s = NULL;
    kl_result_writing *w = NULL;
    expect_ok(kl_state_copy(f->r.state, f->j.terms, &s, &err), err);
    expect_ok(kl_result_checkpoint(path, f->result, &s, &w, &err), err);
    assert_null(s);
    return w;
}

static void test_round_trip(void **unused)
{
    (void)unused;
    fixture f;
    kl_err err = {""};
    fixture_open(&f, "hubbard", 6, 2, 1);
    const double cube[2][3][4] = {{{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}},
                                  {{-1, 0.1, 1e-300, 1e300}, {0, 0, 0, 0}, {1, 1, 1, 1}}};
    const int64_t shape[3] = {2, 3, 4};
    expect_ok(kl_result_add(f.result, "local/Sz", "by site", 1, shape + 1, &cube[0][0][0], &err), err);
    expect_ok(kl_result_add(f.result, "two/Sz*Sz", NULL, 2, shape + 1, &cube[1][0][0], &err), err);
    expect_ok(kl_result_add(f.result, "string/a/b", "deep", 3, shape, &cube[0][0][0], &err), err);
    expect_ok(kl_result_add(f.result, "variance", "a number", 0, shape, &cube[0][2][3], &err), err);
    expect_ok(kl_result_add(f.result, "local/Sz", "by site, again", 1, shape, &cube[0][1][0], &err), err);
    /* as long as a request may be, and longer than anything could be read */
    char name[1100] = "state_12/product/";
    memset(name + strlen(name), 'x', 400);
    expect_ok(kl_result_add(f.result, name, NULL, 0, shape, &cube[0][2][2], &err), err);
    memset(name, 'x', sizeof name - 1);
    expect_refused(kl_result_add(f.result, name, NULL, 0, shape, &cube[0][2][2], &err), KL_EINPUT, err,
                   "1099 characters");
    assert_int_equal(f.result->nmeasured, 5);
    expect_ok(kl_result_write(path, f.result, f.r.state, &err), err);
    int64_t n1, n2;
    unsigned char *first = slurp(path, &n1);
    sleep(1);
    expect_ok(kl_result_write(path, f.result, f.r.state, &err), err);
    unsigned char *second = slurp(path, &n2);
    assert_true(n1 == n2 && memcmp(first, second, (size_t)n1) == 0); /* no time of day in it */
    free(second);
    /* a checkpoint: its rows and its state are those of its beginning */
    kl_result_writing *kept = begin_checkpoint(&f);
    const double energy = f.result->dmrg.energy[0];
    f.result->dmrg.energy[0] = f.result->dmrg.row[0].seconds = 0.25;
    while (!kl_result_is_written(kept)) sched_yield();
    expect_ok(kl_result_wait(&kept, &err), err);
    f.result->dmrg.energy[0] = energy;
    f.result->dmrg.row[0].seconds = f.r.res.row[0].seconds;
    assert_null(kept);
    second = slurp(path, &n2);
    assert_true(n1 == n2 && memcmp(first, second, (size_t)n1) == 0);
    free(first);
    free(second);
    for (int by_thread = 0; by_thread < 3; by_thread++) {
        kl_result *r = NULL;
        kl_state *s = NULL;
        kl_result_writing *w = NULL;
        if (by_thread == 2) kept = begin_checkpoint(&f); /* which is replaced as soon as it is there */
        if (by_thread) { /* the state first, and another file meanwhile */
            expect_ok(kl_result_begin(path, f.result, f.r.state, &kept, &w, &err), err);
            assert_null(kept);
            expect_ok(kl_result_read(path, &r, &err), err);
            kl_result_destroy(&r);
            expect_ok(kl_result_end(&w, f.result, &err), err);
            assert_null(w);
        }
        expect_ok(kl_result_read(path, &r, &err), err);
        check_head(r, &f);
        check_rows(r, &f);
        check_measured(r, cube);
        kl_result_destroy(&r);
        expect_ok(kl_result_read_state(path, f.j.terms, &s, &err), err);
        check_state(s, &f);
        kl_state_destroy(&s);
    }
    fixture_close(&f);
    core_no_memory();
}

static void test_go_on(void **unused)
{
    (void)unused;
    fixture f;
    kl_err err = {""};
    fixture_open(&f, "heisenberg", 10, 1, 1);
    expect_ok(kl_result_write(path, f.result, f.r.state, &err), err);
    kl_state *s = NULL;
    expect_ok(kl_result_read_state(path, f.j.terms, &s, &err), err);
    kl_dmrg_result again = {0};
    kl_dmrg_sweep sweep = {.m = 32};
    kl_dmrg_opts opts = f.r.opts;
    opts.nsweep = 1;
    opts.sweep = &sweep;
    expect_ok(kl_dmrg_run(f.j.terms, f.j.ex, &opts, NULL, &s, &again, &err), err);
    assert_true(fabs(again.energy[0] - f.r.res.energy[0]) < 1e-9);
    kl_dmrg_result_clear(&again);
    kl_state_destroy(&s);

    /* behind the sweeps of a checkpoint the table goes on */
    expect_ok(kl_result_read_state(path, f.j.terms, &s, &err), err);
    kl_dmrg_sweep sweeps[4] = {{.m = 32}, {.m = 32}, {.m = 32}, {.m = 40}};
    opts.nsweep = 4;
    opts.sweep = sweeps;
    opts.ndone = 3;
    opts.done = f.r.res.row;
    assert_true(f.r.res.nrow >= 3);
    expect_ok(kl_dmrg_run(f.j.terms, f.j.ex, &opts, NULL, &s, &again, &err), err);
    assert_int_equal(again.nrow, 4);
    assert_int_equal(again.row[3].m, 40);
    assert_memory_equal(again.row, f.r.res.row, sizeof(*again.row) * 3);
    kl_dmrg_result_clear(&again);
    kl_state_destroy(&s);
    fixture_close(&f);
    core_no_memory();
}

/* A run of exact diagonalization: vectors longer than one part, of which the second goes wrong when asked
   to. */
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
    int64_t length[2] = {p.n, p.n};
    kl_result_run run = {
        .stage = 2, .nnumber = 3, .number = number, .nvector = 2, .n = length, .self = &p, .part = give_part};
    f.result->finished = 0;
    expect_ok(kl_result_write_run(path, f.result, &run, &err), err);
    parts back = {.n = p.n, .value = calloc((size_t)(2 * p.n), sizeof(double))};
    kl_result_run got = {.self = &back, .part = take_part, .count = 2};
    expect_ok(kl_result_read_run(path, &got, &err), err);
    assert_true(got.stage == 2 && got.nnumber == 3 && got.nvector == 2 && got.n[0] == p.n && got.n[1] == p.n);
    assert_memory_equal(got.number, number, sizeof number);
    assert_memory_equal(back.value, p.value, sizeof(double) * (size_t)(2 * p.n));
    kl_free(&got.number);
    kl_free(&got.n);
    run.n[1] = 33; /* of unequal length */
    expect_ok(kl_result_write_run(path, f.result, &run, &err), err);
    expect_ok(kl_result_read_run(path, &got, &err), err);
    assert_true(got.n[0] == p.n && got.n[1] == 33);
    kl_free(&got.number);
    kl_free(&got.n);
    run.n[1] = p.n;
    /* A failed write leaves the file as it was; what is no number is refused. */
    p.broken = 1;
    assert_int_equal(kl_result_write_run(path, f.result, &run, &err), KL_ENOMEM);
    got = (kl_result_run){0};
    expect_ok(kl_result_read_run(path, &got, &err), err);
    kl_free(&got.number);
    kl_free(&got.n);
    p.broken = 2;
    expect_ok(kl_result_write_run(path, f.result, &run, &err), err);
    got = (kl_result_run){.self = &back, .part = take_part, .count = 2};
    assert_int_equal(kl_result_read_run(path, &got, &err), KL_EINPUT);
    assert_non_null(strstr(err.text, "not finite"));
    assert_null(got.number);
    expect_ok(kl_result_write(path, f.result, f.r.state, &err), err);
    assert_int_equal(kl_result_read_run(path, &got, &err), KL_EINPUT);
    assert_non_null(strstr(err.text, "no run of exact diagonalization"));
    free(p.value);
    free(back.value);
    fixture_close(&f);
    core_no_memory();
}

/* A bond in the other direction is another lattice: pairing terms change their sign. */
static void test_fingerprint(void **unused)
{
    (void)unused;
    kl_err err = {""};
    uint64_t print[2];
    for (int turned = 0; turned < 2; turned++) {
        kl_lattice *lat = NULL;
        expect_ok(kl_lattice_create_empty("two.lua", 2, &lat, &err), err);
        expect_ok(kl_lattice_add_bond(lat, turned, 1 - turned, 1.0, (const char *[]){"nn"}, 1, &err), err);
        expect_ok(kl_lattice_finish(lat, &err), err);
        print[turned] = kl_lattice_fingerprint(lat);
        kl_lattice_destroy(&lat);
    }
    assert_true(print[0] != print[1]);
    for (int at = 0; at < 2; at++) { /* and so is an impurity elsewhere */
        kl_lattice *lat = NULL;
        expect_ok(kl_lattice_create_empty("two.lua", 2, &lat, &err), err);
        expect_ok(kl_lattice_add_bond(lat, 0, 1, 1.0, (const char *[]){"nn"}, 1, &err), err);
        lat->site_class[at] = kl_strdup("imp");
        expect_ok(kl_lattice_finish(lat, &err), err);
        print[at] = kl_lattice_fingerprint(lat);
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
    expect_ok(kl_result_write(path, f.result, f.r.state, &err), err);
    expect_ok(kl_result_read(path, &r, &err), err);
    expect_ok(kl_result_match(path, r, f.j.model, f.j.lat, f.j.par, f.r.opts.target, KL_MATCH_RUN, &err),
              err);

    kl_qn q = f.r.opts.target;
    expect_ok(kl_qn_set(f.j.model, &q, "Sz", "1", &err), err);
    expect_refused(kl_result_match(path, r, f.j.model, f.j.lat, f.j.par, q, KL_MATCH_STATE, &err), KL_EINPUT,
                   err, "Sz=0, not Sz=1");
    expect_ok(kl_params_set(f.j.par, "Delta", "0.5", 1, &err), err);
    expect_refused(kl_result_match(path, r, f.j.model, f.j.lat, f.j.par, f.r.opts.target, KL_MATCH_RUN, &err),
                   KL_EINPUT, err, "Delta=1, not 0.5");
    expect_ok(kl_result_match(path, r, f.j.model, f.j.lat, f.j.par, f.r.opts.target, KL_MATCH_STATE, &err),
              err);
    expect_ok(kl_params_set(f.j.par, "Delta", "1", 1, &err), err);
    expect_ok(kl_params_set(f.j.par, "h", "0,0,0,0,0,0,0,1", 1, &err), err);
    expect_refused(kl_result_match(path, r, f.j.model, f.j.lat, f.j.par, f.r.opts.target, KL_MATCH_RUN, &err),
                   KL_EINPUT, err, "array h");
    expect_ok(kl_params_set(f.j.par, "h", "0", 1, &err), err);
    r->model_hash ^= 1;
    expect_refused(
        kl_result_match(path, r, f.j.model, f.j.lat, f.j.par, f.r.opts.target, KL_MATCH_STATE, &err),
        KL_EINPUT, err, "another version");
    /* an older file, whose fingerprint says nothing of today's tables */
    r->hash_of_text = 1;
    expect_refused(kl_result_match(path, r, f.j.model, f.j.lat, f.j.par, f.r.opts.target, KL_MATCH_RUN, &err),
                   KL_EINPUT, err, "by their text");
    expect_ok(kl_result_match(path, r, f.j.model, f.j.lat, f.j.par, f.r.opts.target, KL_MATCH_START, &err),
              err);
    r->hash_of_text = 0;
    r->model_hash ^= 1;
    expect_ok(kl_lattice_reorder(f.j.lat, "1,0,2,3,4,5,6,7", &err), err);
    expect_refused(
        kl_result_match(path, r, f.j.model, f.j.lat, f.j.par, f.r.opts.target, KL_MATCH_STATE, &err),
        KL_EINPUT, err, "order");
    expect_ok(kl_lattice_reorder(f.j.lat, "column", &err), err);

    fixture_open(&g, "heisenberg", 6, 1, 0);
    expect_refused(
        kl_result_match(path, r, g.j.model, g.j.lat, g.j.par, g.r.opts.target, KL_MATCH_STATE, &err),
        KL_EINPUT, err, "8 sites");
    expect_refused(kl_result_read_state(path, g.j.terms, &s, &err), KL_EINPUT, err, "8 sites");
    fixture_open(&h, "hubbard", 8, 1, 0);
    expect_refused(
        kl_result_match(path, r, h.j.model, h.j.lat, h.j.par, h.r.opts.target, KL_MATCH_STATE, &err),
        KL_EINPUT, err, "of model heisenberg");
    expect_refused(kl_result_read_state(path, h.j.terms, &s, &err), KL_EINPUT, err, "damaged");
    assert_null(s);
    kl_lattice *ring = NULL;
    expect_ok(kl_lattice_create("ring", 8, 0, &ring, &err), err);
    expect_refused(kl_result_match(path, r, f.j.model, ring, f.j.par, f.r.opts.target, KL_MATCH_RUN, &err),
                   KL_EINPUT, err, "bonds differ");
    kl_lattice_destroy(&ring);

    expect_ok(kl_result_write(other, f.result, NULL, &err), err);
    expect_refused(kl_result_read_state(other, f.j.terms, &s, &err), KL_EINPUT, err, "no state");
    kl_result_destroy(&r);
    fixture_close(&h);
    fixture_close(&g);
    fixture_close(&f);
    core_no_memory();
}

/* Bytes changed or missing: the checksum block tells. */
static void test_damage(void **unused)
{
    uint64_t seed = 1;
    (void)unused;
    fixture f;
    kl_err err = {""};
    char why[1024];
    int64_t size;
    fixture_open(&f, "heisenberg", 4, 1, 1);
    expect_ok(kl_result_write(path, f.result, f.r.state, &err), err);
    unsigned char *whole = slurp(path, &size);
    assert_true(readable(path, f.j.terms, why, sizeof why));
    for (int64_t n = 0; n < size; n += 1 + (int64_t)(kl_test_bits(&seed) % 400)) {
        spill(other, whole, n);
        assert_false(readable(other, f.j.terms, why, sizeof why));
    }
    spill(other, whole, size - 1);
    assert_false(readable(other, f.j.terms, why, sizeof why));
    assert_non_null(strstr(why, "cut short"));
    for (int k = 0; k < 300; k++) {
        const int64_t at = 512 + (int64_t)(kl_test_bits(&seed) % (uint64_t)(size - 512));
        const unsigned char bit = (unsigned char)(1u << (kl_test_bits(&seed) % 8));
        whole[at] ^= bit;
        spill(other, whole, size);
        assert_false(readable(other, f.j.terms, why, sizeof why));
        whole[at] ^= bit;
    }
    for (int k = 0; k < 100; k++) { /* in the checksum block's own text */
        const int64_t at = (int64_t)(kl_test_bits(&seed) % 80);
        const unsigned char was = whole[at];
        whole[at] = (unsigned char)kl_test_bits(&seed);
        spill(other, whole, size);
        (void)readable(other, f.j.terms, why, sizeof why);
        whole[at] = was;
    }
    spill(other, (const unsigned char *)"\x89HDF\r\n\x1a\n", 8);
    assert_false(readable(other, f.j.terms, why, sizeof why));
    assert_false(readable("/dev/null", f.j.terms, why, sizeof why));
    assert_false(readable("/dev/zero", f.j.terms, why, sizeof why));
    assert_false(readable(folder, f.j.terms, why, sizeof why));
    assert_false(readable("/no/such/file", f.j.terms, why, sizeof why));
    free(whole);
    fixture_close(&f);
    core_no_memory();
}

/* ---- files that are sound HDF5 and with a right checksum, but say impossible things ---- */

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
    expect_ok(kl_checked_renew(other, &err), err);
    if (readable(other, f->j.terms, why, sizeof why)) fail_msg("%s was accepted", what);
    if (strstr(why, "checksum") != NULL) fail_msg("%s: the checksum block spoke, not the check", what);
}

static void test_impossible(void **unused)
{
    (void)unused;
    fixture f;
    kl_err err = {""};
    int64_t size;
    fixture_open(&f, "heisenberg", 6, 1, 1);
    expect_ok(kl_result_write(path, f.result, f.r.state, &err), err);
    unsigned char *whole = slurp(path, &size);
#define CASE(what, change) spill(other, whole, size), change, expect_refusal(&f, what)
    char why[1024];
    spill(other, whole, size); /* changed on purpose and its checksum made again: fine */
    poke("/result/seconds_part", 0, 3.5);
    expect_ok(kl_checked_renew(other, &err), err);
    assert_true(readable(other, f.j.terms, why, sizeof why));

    const hsize_t huge[2] = {UINT64_C(1) << 40, 2},
                  huge3[3] = {UINT64_C(1) << 30, UINT64_C(1) << 30, UINT64_C(1) << 30}, five[2] = {5, 3},
                  one = 1;
    const double numbers[16] = {0};
    const int64_t counts[6][3] = {{2, 2, 2}, {3, 3, INT64_MAX}, {-1, 0, 0},
                                  {2, 0, 0}, {1, 1, 1},         {INT64_MAX, INT64_MAX, INT64_MAX}};
    CASE("isometry off by 1e-6", poke("/state/data", 0, 1.000001));
    CASE("NaN in an isometry", poke("/state/data", -1, NAN));
    CASE("infinity in an isometry", poke("/state/data", 1, INFINITY));
    CASE("NaN in psi", poke("/state/psi", 0, NAN));
    CASE("psi of norm 1e10", poke("/state/psi", 0, 1e10));
    CASE("huge data", replace_array("/state/data", 1, huge, H5T_NATIVE_DOUBLE, NULL));
    CASE("data of rank 3, larger than any memory",
         replace_array("/state/data", 3, huge3, H5T_NATIVE_DOUBLE, NULL));
    CASE("short data", replace_array("/state/data", 1, &one, H5T_NATIVE_DOUBLE, numbers));
    CASE("data of integers", replace_array("/state/data", 1, &one, H5T_NATIVE_INT, numbers));
    CASE("huge psi", replace_array("/state/psi", 2, huge, H5T_NATIVE_DOUBLE, NULL));
    CASE("wrong site table", replace_array("/state/sites", 2, five, H5T_NATIVE_INT64, numbers));
    CASE("site table of nonsense",
         replace_array("/state/sites", 2, (const hsize_t[]){6, 3}, H5T_NATIVE_INT64, counts));
    CASE("empty site table",
         replace_array("/state/sites", 2, (const hsize_t[]){6, 3}, H5T_NATIVE_INT64, (const int64_t[18]){0}));
    CASE("kept dims of zero", replace_array("/state/kept_dim", 1, &one, H5T_NATIVE_INT, numbers));
    CASE("charges of the wrong width", replace_array("/state/kept_charge", 2, five, H5T_NATIVE_INT, numbers));
    CASE("no psi", drop("/state/psi"));
    CASE("no charges", drop("/charges"));
    CASE("no sweeps", drop("/sweeps"));
    CASE("no options", drop("/options"));
    CASE("options that are numbers", replace_array("/options", 0, NULL, H5T_NATIVE_DOUBLE, numbers));
    CASE("sweeps that are numbers", replace_array("/sweeps", 1, &one, H5T_NATIVE_DOUBLE, numbers));
    CASE("huge order", replace_array("/lattice/order", 1, huge, H5T_NATIVE_INT, NULL));
    CASE("order of a site that is not there", replace_array("/lattice/order", 1, (const hsize_t[]){6},
                                                            H5T_NATIVE_INT, (const int[]){0, 1, 2, 3, 4, 6}));
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
    core_no_memory();
}

/* Random damage under a fresh checksum: now HDF5 and the checks behind it must cope. */
static void test_fuzz_sealed(void **unused)
{
    uint64_t seed = 2;
    (void)unused;
    fixture f;
    kl_err err = {""};
    char why[1024];
    int64_t size;
    int accepted = 0;
    fixture_open(&f, "heisenberg", 4, 1, 1);
    expect_ok(kl_result_write(path, f.result, f.r.state, &err), err);
    unsigned char *whole = slurp(path, &size), *bytes = malloc((size_t)size);
    for (int k = 0; k < 400; k++) {
        memcpy(bytes, whole, (size_t)size);
        for (uint64_t i = 0; i <= kl_test_bits(&seed) % 3; i++)
            bytes[512 + (int64_t)(kl_test_bits(&seed) % (uint64_t)(size - 512))] =
                (unsigned char)kl_test_bits(&seed);
        spill(other, bytes, size);
        expect_ok(kl_checked_renew(other, &err), err);
        accepted += readable(other, f.j.terms, why, sizeof why);
    }
    print_message("# %d of 400 random damages under a fresh checksum fell where nothing is checked (notes, "
                  "rounding, unused bytes)\n",
                  accepted);
    free(bytes);
    free(whole);
    fixture_close(&f);
    core_no_memory();
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
    expect_ok(kl_result_write(path, f.result, f.r.state, &err), err);
    unsigned char *old = slurp(path, &before);

    signal(SIGXFSZ, SIG_IGN);
    struct rlimit was, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    for (rlim_t bytes = 0; bytes < (rlim_t)before + 1000; bytes += 1 + (rlim_t)before / 7) {
        small = was;
        small.rlim_cur = bytes;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        kl_result_writing *w, *none = NULL;
        kl_status st = kl_result_write(path, f.result, f.r.state, &err);
        if (st == KL_EIO) { /* the state alone may be small enough */
            expect_ok(kl_result_begin(path, f.result, f.r.state, &none, &w, &err), err);
            st = kl_result_end(&w, f.result, &err);
        }
        if (st == KL_EIO) {
            w = begin_checkpoint(&f);
            st = kl_result_wait(&w, &err);
        }
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
        if (st != KL_EIO || strstr(err.text, path) == NULL)
            fail_msg("limit %lld: status %d: %s", (long long)bytes, (int)st, err.text);
        assert_int_equal(size_of(partial), -1);
    }
    unsigned char *now = slurp(path, &after);
    assert_true(before == after && memcmp(old, now, (size_t)before) == 0);
    free(old);
    free(now);
    expect_refused(kl_result_write("/no/such/folder/x.h5", f.result, f.r.state, &err), KL_EIO, err,
                   "No such file");
    expect_refused(kl_result_write("/dev/full", f.result, f.r.state, &err), KL_EINPUT, err, "ordinary");
    expect_refused(kl_result_write(folder, f.result, f.r.state, &err), KL_EINPUT, err, "ordinary");
    expect_ok(kl_result_write(path, f.result, f.r.state, &err), err);
    fixture_close(&f);
    core_no_memory();
}

/* A process that is killed while it writes path, once it has begun. */
static void be_killed_writing(void)
{
    int told[2], status;
    char byte;
    assert_int_equal(pipe(told), 0);
    const pid_t child = fork();
    if (child == 0) {
        kl_atomic_file p;
        kl_err err;
        if (kl_atomic_open(path, &p, &err) == KL_OK && write(told[1], "x", 1) == 1) pause();
        _exit(1);
    }
    close(told[1]);
    assert_int_equal(read(told[0], &byte, 1), 1);
    close(told[0]);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
}

/* Each has a name of its own to write by; what killed ones leave does not pile up. */
static void test_two_writers(void **unused)
{
    (void)unused;
    fixture f;
    kl_err err = {""};
    kl_atomic_file first, second;
    char partial[128], number2[128];
    int64_t whole;
    snprintf(partial, sizeof partial, "%s.partial", path);
    snprintf(number2, sizeof number2, "%s.2.partial", path);
    fixture_open(&f, "heisenberg", 4, 1, 1);
    expect_ok(kl_atomic_open(path, &first, &err), err);
    expect_ok(kl_atomic_open(path, &second, &err), err);
    assert_string_equal(first.name, strrchr(partial, '/') + 1);
    assert_string_equal(second.name, strrchr(number2, '/') + 1);
    assert_int_equal(write(first.fd, "first", 5), 5);
    expect_ok(kl_result_write(path, f.result, f.r.state, &err), err); /* a third */
    free(slurp(path, &whole));
    assert_true(whole > 1000);
    assert_int_equal(size_of(partial), 5);
    kl_atomic_drop(&second);
    expect_ok(kl_atomic_publish(&first, &err), err); /* the last one wins */
    assert_int_equal(size_of(path), 5);
    for (int k = 0; k < 3; k++) be_killed_writing();
    assert_int_equal(size_of(partial), 0);
    assert_int_equal(size_of(number2), -1);
    expect_ok(kl_result_write(path, f.result, f.r.state, &err), err);
    assert_int_equal(size_of(partial), -1);
    expect_ok(kl_atomic_open(path, &first, &err), err);
    expect_ok(kl_atomic_open(path, &second, &err), err);
    kl_atomic_drop(&first);
    expect_ok(kl_atomic_open(path, &first, &err), err);
    kl_atomic_abandon();
    assert_int_equal(size_of(partial), -1);
    assert_int_equal(size_of(number2), -1);
    kl_atomic_drop(&second);
    kl_atomic_drop(&first);
    fixture_close(&f);
    core_no_memory();
}

typedef struct reader {
    const char *path;
    int good, bad; /* answers as they have to be for this file */
    int sound;
} reader;

static void *read_often(void *self)
{
    reader *const r = self;
    for (int k = 0; k < 20; k++) {
        kl_err err = {""};
        kl_result *found = NULL;
        const kl_status st = kl_result_read(r->path, &found, &err);
        r->good += st == KL_OK && found->nsite == 4;
        r->bad += st == KL_EINPUT && strstr(err.text, "damaged") != NULL;
        kl_result_destroy(&found);
    }
    return NULL;
}

/* HDF5 has one state for all: files are read one after the other, and the failures of one are not those of
   another. */
static void test_threads(void **unused)
{
    (void)unused;
    fixture f;
    kl_err err = {""};
    reader r[4];
    pthread_t id[4];
    fixture_open(&f, "heisenberg", 4, 1, 1);
    expect_ok(kl_result_write(path, f.result, f.r.state, &err), err);
    expect_ok(kl_result_write(other, f.result, f.r.state, &err), err);
    const hid_t file = H5Fopen(other, H5F_ACC_RDWR, H5P_DEFAULT);
    assert_true(file >= 0 && H5Ldelete(file, "/sweeps", H5P_DEFAULT) >= 0 && H5Fclose(file) >= 0);
    expect_ok(kl_checked_renew(other, &err), err);
    for (int k = 0; k < 4; k++) {
        r[k] = (reader){.path = k % 2 == 0 ? path : other, .sound = k % 2 == 0};
        assert_int_equal(pthread_create(&id[k], NULL, read_often, &r[k]), 0);
    }
    for (int k = 0; k < 4; k++) {
        assert_int_equal(pthread_join(id[k], NULL), 0);
        assert_int_equal(r[k].good, r[k].sound ? 20 : 0);
        assert_int_equal(r[k].bad, r[k].sound ? 0 : 20);
    }
    fixture_close(&f);
    core_no_memory();
}

static void test_no_memory(void **unused)
{
    (void)unused;
    fixture f;
    kl_err err = {""};
    fixture_open(&f, "hubbard", 5, 1, 1);
    expect_ok(kl_result_write(path, f.result, f.r.state, &err), err);
    const int64_t before = kl_mem_live_total();
    for (int what = 0; what < 4; what++) {
        for (int64_t k = 1;; k++) {
            kl_result *r = NULL;
            kl_state *s = NULL;
            kl_mem_fail_after(k);
            kl_status st = what == 0   ? kl_result_read(path, &r, &err)
                           : what == 1 ? kl_result_read_state(path, f.j.terms, &s, &err)
                           : what == 2 ? kl_result_write(other, f.result, f.r.state, &err)
                                       : kl_result_create(f.j.model, f.j.lat, f.j.par, f.r.opts.target, 1,
                                                          &(kl_result_origin){"a", "b", "c"}, &r, &err);
            kl_mem_fail_after(0);
            kl_result_destroy(&r);
            kl_state_destroy(&s);
            assert_int_equal(kl_mem_live_total(), before);
            if (st == KL_OK) break;
            assert_int_equal(st, KL_ENOMEM);
        }
    }
    fixture_close(&f);
    core_no_memory();
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
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_go_on),
        cmocka_unit_test(test_mismatch),      cmocka_unit_test(test_damage),
        cmocka_unit_test(test_impossible),    cmocka_unit_test(test_fuzz_sealed),
        cmocka_unit_test(test_disk),          cmocka_unit_test(test_two_writers),
        cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_fingerprint),
        cmocka_unit_test(test_run_under_way), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
