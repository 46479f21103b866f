/* Sparse products and configuration interaction on executors of devices, compiled once for each: every format
   and every way against the host, 1 to 17 vectors, addresses off the alignment, outputs full of NaN, equal
   bits twice; molecules against their known energies. On a GPU run it with OMP_TARGET_OFFLOAD=MANDATORY;
   without one the CUDA tests say SKIP.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "kl_test.h"

#include "ci/ci.h"
#include "ci/devrows.h"
#include "ci/devsigma.h"
#include "ci/sigma.h"
#include "exec/spmv.h"
#include "exec/streamed.h"

typedef struct fixture {
    kl_exec *ex[2], *host;
    int n;
} fixture;

static int setup(void **state)
{
    static fixture f;
    kl_err err = {""};
    f.n = KL_TEST_CUDA ? 1 : 2;
    for (int k = 0; k < f.n; k++) {
        const kl_status st = KL_TEST_CUDA ? kl_exec_open_cuda(KL_ANY_DEVICE, &f.ex[k], &err)
                                          : kl_exec_open_offload(KL_ANY_DEVICE, k, &f.ex[k], &err);
        if (st != KL_OK) {
            print_error("%s\n", err.text);
            return -1;
        }
        f.ex[k]->nthread = 2;
    }
    if (kl_exec_open_host(2, &f.host, &err) != KL_OK) return -1;
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *const f = *state;
    for (int k = 0; k < f->n; k++) kl_exec_close(&f->ex[k]);
    kl_exec_close(&f->host);
    return kl_mem_live_total() == 0 && kl_mem_device_live_bytes() == 0 ? 0 : -1;
}

/* y of this executor, ldy = nrow + 3; what lies between the vectors must stay. */
static void product(kl_exec *ex, kl_spmv *s, int nvec, int shift, const double *x, double *y)
{
    kl_err err;
    kl_dptr dx, dy;
    const int64_t ldx = s->m->ncol + 5, ldy = s->m->nrow + 3;
    for (int64_t k = 0; k < ldy * nvec; k++) y[k] = NAN;
    expect_ok(ex->vt.alloc(ex, ldx * nvec + 2, &dx, &err), err);
    expect_ok(ex->vt.alloc(ex, ldy * nvec + 2, &dy, &err), err);
    expect_ok(ex->vt.upload(ex, kl_dptr_at(dx, shift), x, ldx * nvec, &err), err);
    expect_ok(ex->vt.upload(ex, kl_dptr_at(dy, shift), y, ldy * nvec, &err), err);
    expect_ok(kl_spmv_apply(s, nvec, kl_dptr_at(dx, shift), ldx, kl_dptr_at(dy, shift), ldy, &err), err);
    expect_ok(ex->vt.download(ex, y, kl_dptr_at(dy, shift), ldy * nvec, &err), err);
    ex->vt.release(ex, &dx);
    ex->vt.release(ex, &dy);
}

static void compare(const fixture *f, const kl_spmat *m, const kl_spmat *source, kl_spway way, int threads,
                    uint64_t *seed)
{
    static const int vectors[] = {1, 2, 3, 8, 16, 17};
    kl_err err;
    kl_spmv *host = NULL;
    const int64_t ldx = m->ncol + 5, ldy = m->nrow + 3;
    double *const x = calloc((size_t)(17 * ldx + 1), 8), *const y = calloc((size_t)(17 * ldy + 1), 8),
                  *const again = calloc((size_t)(17 * ldy + 1), 8);
    double *const wanted = calloc((size_t)(17 * ldy + 1), 8), *const size = calloc((size_t)m->nrow + 1, 8);
    for (int64_t k = 0; k < 17 * ldx; k++) x[k] = kl_test_uniform(seed);
    for (int64_t i = 0; i < source->nrow; i++)
        for (int64_t k = kl_sp_offset(source, source->start, i);
             k < kl_sp_offset(source, source->start, i + 1); k++)
            size[i] += fabs(source->rest_value[k]);
    expect_ok(kl_spmv_create(f->host, source, KL_SPMV_MANY, &host, &err), err);
    for (int e = 0; e < f->n; e++) {
        kl_spmv *s = NULL;
        const kl_status st = kl_spmv_create_way(f->ex[e], m, way, threads, &s, &err);
        if (st == KL_EABSENT && way != KL_SPWAY_AUTO) continue; /* not this device's, or not this format's */
        expect_ok(st, err);
        for (int v = 0, step = KL_TEST_WATCHED ? 5 : kl_test_step(12); v < 12; v += step) {
            const int nvec = vectors[v / 2], shift = v % 2;
            kl_test_case("%s %d: %lld x %lld, %lld non-zeros, %s, way %s, %d threads, %d vectors, shift %d",
                         f->ex[e]->name, e, (long long)m->nrow, (long long)m->ncol, (long long)m->nnz,
                         kl_spformat_name(m->format), kl_spway_name(way), threads, nvec, shift);
            product(f->host, host, nvec, 0, x, wanted);
            product(f->ex[e], s, nvec, shift, x, y);
            product(f->ex[e], s, nvec, shift, x, again);
            for (int c = 0; c < nvec; c++)
                for (int64_t i = 0; i < ldy; i++) {
                    if (i >= m->nrow) {
                        expect_true(isnan(y[i + c * ldy]));
                        continue;
                    }
                    expect_near(y[i + c * ldy], wanted[i + c * ldy],
                                1e-14 * (1 + size[i] * (m->symmetric ? 20 : 1)));
                    if (!m->symmetric && way != KL_SPWAY_CUSPARSE && way != KL_SPWAY_CSR5)
                        expect_true(y[i + c * ldy] == again[i + c * ldy]);
                }
        }
        kl_spmv_destroy(&s);
    }
    kl_spmv_destroy(&host);
    free(x);
    free(y);
    free(again);
    free(wanted);
    free(size);
}

static void test_products(void **state)
{
    static const int64_t cases[][4] = {
        {1, 1, 1, 0},           {50, 70, 5, 0},        {300, 33000, 400, 3000},  {2000, 3000, 30, 400},
        {700, 70000, 300, 900}, {9000, 900000, 12, 0}, {30000, 40000, 60, 39000}};
    const fixture *const f = *state;
    kl_err err;
    uint64_t seed = 3;
    const int all = sizeof(cases) / sizeof(*cases), step = kl_test_step(all);
    for (int k = 0; k < all; k += step) {
        kl_spmat *csr = core_sparse(cases[k][0], cases[k][1], cases[k][2], cases[k][3], 23 + (uint64_t)k),
                 *m = NULL;
        for (int way = KL_SPWAY_AUTO; way < KL_NSPWAY; way++) compare(f, csr, csr, (kl_spway)way, 0, &seed);
        for (int format = 0; format < KL_NSP && k < 5; format++)
            for (int wide = 0; wide < 2; wide++) {
                if (!wide && csr->ncol > 65536) continue;
                const kl_spopts o = {.format = (kl_spformat)format,
                                     .boundary = cases[k][2] / 2 + 1,
                                     .height = 40,
                                     .sigma = k % 2 ? 100 : 1,
                                     .index_bytes = wide ? 4 : 2};
                expect_ok(kl_spmat_convert(csr, &o, &m, &err), err);
                compare(f, m, csr, KL_SPWAY_AUTO, 0, &seed);
                compare(f, m, csr, format == KL_SP_HYBRID ? KL_SPWAY_WARPS : KL_SPWAY_AUTO, 64, &seed);
                kl_spmat_destroy(&m);
            }
        kl_spmat_destroy(&csr);
    }
}

static void test_bipartition(void **state)
{
    const fixture *const f = *state;
    kl_err err;
    uint64_t seed = 5;
    const int64_t n = 400;
    int64_t *off = NULL, nnz = 0;
    uint32_t *column = NULL;
    double *value = NULL;
    kl_spmat *half = NULL, *whole = NULL, *hybrid = NULL;
    expect_ok(kl_alloc(&off, n + 1, KL_MEM_MATRIX, &err), err);
    expect_ok(kl_alloc(&column, n * n, KL_MEM_MATRIX, &err), err);
    expect_ok(kl_alloc(&value, n * n, KL_MEM_MATRIX, &err), err);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            if (kl_test_bits(&seed) % 9 != 0 && j < i) continue;
            column[nnz] = (uint32_t)j;
            value[nnz++] = kl_test_uniform(&seed);
        }
        off[i + 1] = nnz;
    }
    expect_ok(kl_spmat_take_csr(n, n, 1, &off, &column, &value, &half, &err), err);
    whole = core_whole(half);
    expect_ok(kl_spmat_convert(half, &(kl_spopts){.format = KL_SP_HYBRID, .boundary = 20}, &hybrid, &err),
              err);
    compare(f, half, whole, KL_SPWAY_AUTO, 0, &seed);
    compare(f, hybrid, whole, KL_SPWAY_AUTO, 0, &seed);
    kl_spmat_destroy(&hybrid);
    kl_spmat_destroy(&whole);
    kl_spmat_destroy(&half);
}

static void test_refusals(void **state)
{
    const fixture *const f = *state;
    kl_err err;
    kl_spmat *csr = core_sparse(50, 70, 5, 0, 1), *ell = NULL;
    kl_spmv *s = NULL;
    expect_ok(kl_spmat_convert(csr, &(kl_spopts){.format = KL_SP_ELL}, &ell, &err), err);
    expect_refused(kl_spmv_create_way(f->ex[0], ell, KL_SPWAY_PACKED, 0, &s, &err), KL_EABSENT, err,
                   "packed");
    if (!KL_TEST_CUDA)
        expect_refused(kl_spmv_create_way(f->ex[0], csr, KL_SPWAY_CSR5, 0, &s, &err), KL_EABSENT, err,
                       "--exec cuda");
    expect_true(s == NULL);
    kl_spmat_destroy(&ell);
    kl_spmat_destroy(&csr);
}

/* A device that has `bytes` of room left. */
static kl_exec *open_with_room(int64_t bytes)
{
    kl_err err;
    kl_exec *ex = NULL;
    expect_ok(KL_TEST_CUDA ? kl_exec_open_cuda(KL_ANY_DEVICE, &ex, &err)
                           : kl_exec_open_offload(KL_ANY_DEVICE, 0, &ex, &err),
              err);
    const int64_t most = INT64_C(1) << 33; /* what it has taken already is what lacks of this */
    ex->most_bytes = most;
    ex->most_bytes = most - ex->vt.room(ex) + bytes;
    return ex;
}

/* Matrices whose rows come by, in many groups or few, some of which stay, on vectors of the device and of the
   host: against the host's product. */
static void test_streamed(void **state)
{
    static const int vectors[] = {1, 3, 17};
    static const int64_t rooms[] = {300000, 1200000, INT64_C(1) << 32};
    const fixture *const f = *state;
    kl_err err;
    if (!f->ex[0]->vt.alloc_far) skip();
    for (int k = 0; k < 6; k++) {
        const int far = k % 2;
        uint64_t seed = (uint64_t)k + 1;
        kl_spmat *const m = core_sparse(2500, 2500, 12 + 6 * k, k % 3, seed);
        kl_exec *device = open_with_room(rooms[k / 2]), *ex = NULL;
        kl_spmv *host = NULL, *s = NULL;
        expect_ok(kl_exec_open_streamed_take(&device, far, 17 * (m->ncol + 8) * 16, &ex, &err), err);
        expect_true(device == NULL && kl_streamed_about(ex) && !kl_streamed_about(f->host));
        expect_ok(kl_spmv_create(f->host, m, KL_SPMV_MANY, &host, &err), err);
        expect_ok(kl_spmv_create(ex, m, KL_SPMV_MANY, &s, &err), err);
        const kl_streamed_facts *const facts = kl_streamed_about(ex);
        kl_test_case("streamed %d: %d pieces, resident %g", k, facts->npiece, facts->resident);
        if (rooms[k / 2] < 10000000) expect_true(facts->npiece > 2 && facts->matrix_bytes > 0);
        else expect_true(facts->npiece == 0 && facts->resident == 1);
        for (int j = 0; j < 3; j++) {
            const int nvec = far || rooms[k / 2] > 10000000 ? vectors[j] : 1;
            const int64_t ldx = m->ncol + 5, ldy = m->nrow + 3;
            double *const x = calloc((size_t)(nvec * ldx + 2), 8), *const y = calloc((size_t)(nvec * ldy), 8),
                          *const wanted = calloc((size_t)(nvec * ldy), 8);
            for (int64_t i = 0; i < nvec * ldx; i++) x[i] = kl_test_uniform(&seed);
            product(f->host, host, nvec, 0, x, wanted);
            product(ex, s, nvec, 0, x, y);
            product(ex, s, nvec, 0, x, y); /* what was loaded ahead */
            for (int v = 0; v < nvec; v++)
                for (int64_t i = 0; i < m->nrow; i++) expect_near(y[v * ldy + i], wanted[v * ldy + i], 1e-12);
            free(x);
            free(y);
            free(wanted);
        }
        kl_spmv_destroy(&s);
        kl_spmv_destroy(&host);
        kl_exec_close(&ex);
        kl_spmat *half = m;
        kl_spmat_destroy(&half);
    }
}

/* Configuration interaction, all irreps: with a matrix that comes by, and without one on vectors that do. */
static void test_streamed_ci(void **state)
{
    const fixture *const f = *state;
    kl_err err;
    kl_fcidump *dump = NULL;
    if (!f->ex[0]->vt.alloc_far) skip();
    expect_ok(kl_fcidump_read(kl_test_data("h2o-sto3g.fcidump"), &dump, &err), err);
    for (int full = 0; full < 2; full++) {
        const kl_ci_opts o = {.full = full,
                              .levels = 7,
                              .irrep = -1,
                              .nroot = 2,
                              .store = full ? KL_CI_DIRECT : KL_CI_MATRIX,
                              .nthread = 2};
        kl_ci_result wanted;
        expect_ok(kl_ci_run(dump, f->host, &o, NULL, &wanted, &err), err);
        for (int far = 0; far < 2; far++) {
            kl_exec *device = open_with_room(3000000), *ex = NULL;
            kl_ci_result r;
            expect_ok(kl_exec_open_streamed_take(&device, far, 2000000, &ex, &err), err);
            kl_test_case("full %d far %d", full, far);
            expect_ok(kl_ci_run(dump, ex, &o, NULL, &r, &err), err);
            expect_eq(r.nstate, wanted.nstate);
            for (int k = 0; k < r.nstate; k++) expect_near(r.state[k].energy, wanted.state[k].energy, 1e-9);
            kl_ci_result_clear(&r);
            kl_exec_close(&ex);
        }
        kl_ci_result_clear(&wanted);
    }
    kl_fcidump_destroy(&dump);
}

/* H x without a matrix, two vectors, against the host: with and without point group, equal and different
   spins; slabs of a few rows, whose last one is shorter, and of all. */
static void test_sigma(void **state)
{
    static const struct {
        const char *file;
        int nalpha, nbeta, symmetry;
    } cases[] = {{"lih-sto3g.fcidump", 2, 2, 1},     {"h2o-sto3g.fcidump", 5, 5, 1},
                 {"h2o-sto3g.fcidump", 5, 4, 0},     {"oh-uhf-sto3g.fcidump", 5, 4, 1},
                 {"n2-sto3g.fcidump", 9, 8, 1},      {"h6-chain-sto6g.fcidump", 4, 0, 1},
                 {"h6-chain-sto6g.fcidump", 0, 3, 1}};
    static const int64_t slabs[] = {3000, 0};
    const fixture *const f = *state;
    kl_err err;
    uint64_t seed = 11;
    const int all = sizeof(cases) / sizeof(*cases), step = kl_test_step(all);
    for (int k = 0; k < all; k += step) {
        kl_fcidump *dump = NULL;
        expect_ok(kl_fcidump_read(kl_test_data(cases[k].file), &dump, &err), err);
        if (!cases[k].symmetry) {
            memset(dump->irrep, 0, (size_t)dump->norb * sizeof(*dump->irrep));
            dump->nirrep = 1;
        }
        for (int target = 0; target < dump->nirrep; target += 2) {
            kl_detspace *space = NULL;
            kl_slater *h = NULL;
            kl_sigma *host = NULL;
            const kl_det_spec spec = {.norb = dump->norb,
                                      .nalpha = cases[k].nalpha,
                                      .nbeta = cases[k].nbeta,
                                      .nirrep = dump->nirrep,
                                      .irrep = dump->irrep,
                                      .target = target,
                                      .full = 1};
            expect_ok(kl_detspace_create(&spec, 2, &space, &err), err);
            expect_ok(kl_slater_create(dump, space, 2, &h, &err), err);
            const int64_t n = space->n, ld = n + 3;
            double *const x = calloc((size_t)(2 * ld), 8), *const wanted = calloc((size_t)(2 * ld), 8),
                          *const y = calloc((size_t)(2 * ld), 8);
            for (int64_t i = 0; i < 2 * ld; i++) x[i] = kl_test_uniform(&seed);
            expect_ok(kl_sigma_create(f->host, h, &host, &err), err);
            expect_ok(
                kl_sigma_apply(host, 2, (kl_dptr){(uintptr_t)x}, ld, (kl_dptr){(uintptr_t)wanted}, ld, &err),
                err);
            for (int e = 0; e < f->n; e++)
                for (size_t j = 0; j < sizeof(slabs) / sizeof(*slabs); j++) {
                    kl_exec *const ex = f->ex[e];
                    kl_devsigma *s = NULL;
                    kl_dptr dx, dy;
                    kl_test_case("%s %d+%d, irrep %d on %s %d, slabs of %lld", cases[k].file, cases[k].nalpha,
                                 cases[k].nbeta, target, ex->name, e, (long long)slabs[j]);
                    expect_ok(kl_devsigma_create(ex, h, slabs[j], &s, &err), err);
                    for (int64_t i = 0; i < 2 * ld; i++) y[i] = NAN;
                    expect_ok(ex->vt.alloc(ex, 2 * ld, &dx, &err), err);
                    expect_ok(ex->vt.alloc(ex, 2 * ld, &dy, &err), err);
                    expect_ok(ex->vt.upload(ex, dx, x, 2 * ld, &err), err);
                    expect_ok(ex->vt.upload(ex, dy, y, 2 * ld, &err), err);
                    expect_ok(kl_devsigma_apply(s, 2, dx, ld, dy, ld, &err), err);
                    expect_ok(ex->vt.download(ex, y, dy, 2 * ld, &err), err);
                    for (int64_t i = 0; i < 2 * ld; i++) {
                        if (i % ld < n) expect_near(y[i], wanted[i], 1e-12 * (double)dump->norb);
                        else expect_true(isnan(y[i]));
                    }
                    ex->vt.release(ex, &dx);
                    ex->vt.release(ex, &dy);
                    kl_devsigma_destroy(&s);
                }
            kl_sigma_destroy(&host);
            kl_slater_destroy(&h);
            kl_detspace_destroy(&space);
            free(x);
            free(wanted);
            free(y);
        }
        kl_fcidump_destroy(&dump);
    }
}

/* A space of test_rows, and H there. */
typedef struct rows_case {
    const char *file;
    int nalpha, nbeta, symmetry, full, nref;
    uint64_t levels;
} rows_case;

/* y = H x by elements as they are needed, x and y of two vectors, on one executor; every third alpha string
   left out where `part`, whose rows must stay as they are. */
static void compare_rows(kl_exec *ex, const kl_slater *h, const double *diagonal, const uint8_t *stored,
                         int search, const double *x, const double *wanted)
{
    const int64_t n = h->s->n, ld = n + 3;
    kl_err err;
    kl_devrows *s = NULL;
    kl_dptr dx, dy;
    double *const y = calloc((size_t)(2 * ld), 8), *const again = calloc((size_t)(2 * ld), 8), scale = 0;
    for (int64_t i = 0; i < 2 * ld; i++)
        if (i % ld < n) scale = fmax(scale, fabs(wanted[i]));
    expect_ok(kl_devrows_create(ex, h, diagonal, stored, search, &s, &err), err);
    expect_ok(ex->vt.alloc(ex, 2 * ld, &dx, &err), err);
    expect_ok(ex->vt.alloc(ex, 2 * ld, &dy, &err), err);
    expect_ok(ex->vt.upload(ex, dx, x, 2 * ld, &err), err);
    for (int round = 0; round < 2; round++) {
        double *const to = round ? again : y;
        for (int64_t i = 0; i < 2 * ld; i++) to[i] = NAN;
        expect_ok(ex->vt.upload(ex, dy, to, 2 * ld, &err), err);
        expect_ok(kl_devrows_apply(s, 2, dx, ld, dy, ld, &err), err);
        expect_ok(ex->vt.download(ex, to, dy, 2 * ld, &err), err);
    }
    for (int64_t i = 0; i < 2 * ld; i++) {
        int64_t ia = 0, ib;
        if (i % ld < n) kl_detspace_at(h->s, i % ld, &ia, &ib);
        if (i % ld >= n || (stored && stored[ia])) expect_true(isnan(y[i]));
        else {
            expect_near(y[i], wanted[i], 1e-13 * scale);
            expect_true(memcmp(&y[i], &again[i], sizeof y[i]) == 0);
        }
    }
    ex->vt.release(ex, &dx);
    ex->vt.release(ex, &dy);
    kl_devrows_destroy(&s);
    free(y);
    free(again);
}

/* Elements as they are needed against the stored matrix on the host: spaces that are cut by levels, of one
   reference and of several, open shells, no electron of one spin, all determinants; with tables of places and
   without, of all rows and of some. */
static void test_rows(void **state)
{
    static const rows_case cases[] = {
        {"h2o-sto3g.fcidump", 5, 5, 1, 0, 1, 7},     {"h2o-631g-fc.fcidump", 4, 4, 1, 0, 1, 15},
        {"h2o-sto3g.fcidump", 5, 4, 0, 0, 2, 13},    {"oh-uhf-sto3g.fcidump", 5, 4, 1, 0, 1, 31},
        {"n2-sto3g.fcidump", 7, 7, 1, 0, 2, 7},      {"h6-chain-sto6g.fcidump", 4, 0, 1, 0, 1, 6},
        {"h6-chain-sto6g.fcidump", 3, 3, 1, 1, 0, 0}};
    const fixture *const f = *state;
    kl_err err;
    uint64_t seed = 21;
    const int all = sizeof(cases) / sizeof(*cases), step = kl_test_step(all);
    for (int k = 0; k < all; k += step) {
        const rows_case *const c = &cases[k];
        kl_fcidump *dump = NULL;
        expect_ok(kl_fcidump_read(kl_test_data(c->file), &dump, &err), err);
        if (!c->symmetry) {
            memset(dump->irrep, 0, (size_t)dump->norb * sizeof(*dump->irrep));
            dump->nirrep = 1;
        }
        const uint64_t a = ((uint64_t)1 << c->nalpha) - 1, b = ((uint64_t)1 << c->nbeta) - 1,
                       up = b + ((uint64_t)1 << c->nbeta) - (c->nbeta ? (uint64_t)1 << (c->nbeta - 1) : 0);
        const uint64_t ref[2][2] = {{a, b}, {a, up}};
        for (int target = 0; target < dump->nirrep; target++) {
            const kl_det_spec spec = {.norb = dump->norb,
                                      .nalpha = c->nalpha,
                                      .nbeta = c->nbeta,
                                      .nirrep = dump->nirrep,
                                      .irrep = dump->irrep,
                                      .target = target,
                                      .full = c->full,
                                      .levels = c->levels,
                                      .nref = c->nref,
                                      .ref = ref};
            kl_detspace *space = NULL;
            kl_slater *h = NULL;
            kl_spmat *m = NULL;
            kl_spmv *host = NULL;
            expect_ok(kl_detspace_create(&spec, 2, &space, &err), err);
            const int64_t n = space->n, ld = n + 3;
            if (n == 0) {
                kl_detspace_destroy(&space);
                continue;
            }
            double *const x = calloc((size_t)(2 * ld), 8), *const wanted = calloc((size_t)(2 * ld), 8),
                          *const diagonal = calloc((size_t)n, 8);
            uint8_t *const stored = calloc((size_t)space->a->n, 1);
            for (int64_t i = 0; i < 2 * ld; i++) x[i] = i % 5 == 2 ? 0 : kl_test_uniform(&seed);
            for (int64_t i = 0; i < space->a->n; i++) stored[i] = i % 3 == 1;
            expect_ok(kl_slater_create(dump, space, 2, &h, &err), err);
            expect_ok(kl_slater_matrix(h, 0, NULL, &m, &err), err);
            kl_slater_diagonal(h, diagonal);
            expect_ok(kl_spmv_create(f->host, m, KL_SPMV_MANY, &host, &err), err);
            expect_ok(
                kl_spmv_apply(host, 2, (kl_dptr){(uintptr_t)x}, ld, (kl_dptr){(uintptr_t)wanted}, ld, &err),
                err);
            for (int e = 0; e < f->n; e++)
                for (int search = 0; search < 2; search++)
                    for (int part = 0; part < 2; part++) {
                        kl_test_case("%s %d+%d, irrep %d on %s %d, searched %d, part %d", c->file, c->nalpha,
                                     c->nbeta, target, f->ex[e]->name, e, search, part);
                        compare_rows(f->ex[e], h, diagonal, part ? stored : NULL, search, x, wanted);
                    }
            kl_spmv_destroy(&host);
            kl_spmat_destroy(&m);
            kl_slater_destroy(&h);
            kl_detspace_destroy(&space);
            free(x);
            free(wanted);
            free(diagonal);
            free(stored);
        }
        kl_fcidump_destroy(&dump);
    }
}

/* energies.json: ground and excited states, restricted and unrestricted; the matrix in several formats. */
static void test_molecules(void **state)
{
    static const struct {
        const char *file, *space;
        int nroot, half, direct;
        kl_spformat format;
        double energy[3];
    } cases[] = {
        {"lih-sto3g.fcidump",
         "full",
         3,
         0,
         0,
         KL_SP_CSR,
         {-7.882403410335505, -7.766413413875408, -7.74921216058232}},
        {"h2o-sto3g.fcidump",
         "full",
         3,
         0,
         0,
         KL_SP_HYBRID,
         {-75.01257824109202, -74.61461064000615, -74.5548789555105}},
        {"h2o-sto3g.fcidump", "cisd", 1, 0, 0, KL_SP_SELL, {-75.01187316962859}},
        {"h2o-sto3g.fcidump", "cisd", 1, 1, 0, KL_SP_CSR, {-75.01187316962859}},
        {"h2o-sto3g.fcidump",
         "full",
         3,
         0,
         1,
         KL_SP_CSR,
         {-75.01257824109202, -74.61461064000615, -74.5548789555105}},
        {"h2o-631g-fc.fcidump", "full", 1, 0, 1, KL_SP_CSR, {-76.11995518792072}},
        {"h2o-sto3g.fcidump", "cisd", 1, 0, 1, KL_SP_CSR, {-75.01187316962859}},
    };
    const fixture *const f = *state;
    kl_err err;
    const int all = sizeof(cases) / sizeof(*cases), step = kl_test_step(all);
    for (int k = 0; k < all; k += step)
        for (int e = 0; e < f->n; e++) {
            kl_fcidump *dump = NULL;
            kl_ci_result r = {0};
            kl_ci_opts o = {.irrep = -1,
                            .nroot = cases[k].nroot,
                            .tol = 1e-7,
                            .seed = 1,
                            .nthread = 2,
                            .half = cases[k].half,
                            .format.format = cases[k].format};
            kl_test_case("%s %s on %s %d", cases[k].file, cases[k].space, f->ex[e]->name, e);
            if (k == 5 && e > 0) continue; /* the plain kernels: smaller ones will do */
            if (k == 5) o.irrep = 0;
            expect_ok(kl_ci_parse_space(cases[k].space, &o, &err), err);
            expect_ok(kl_fcidump_read(kl_test_data(cases[k].file), &dump, &err), err);
            o.store = cases[k].direct ? KL_CI_DIRECT : KL_CI_MATRIX;
            expect_ok(kl_ci_run(dump, f->ex[e], &o, NULL, &r, &err), err);
            expect_true(r.converged && r.direct == cases[k].direct);
            for (int i = 0; i < cases[k].nroot; i++) expect_near(r.state[i].energy, cases[k].energy[i], 1e-9);
            kl_ci_result_clear(&r);
            kl_fcidump_destroy(&dump);
        }
}

int main(void)
{
#if KL_TEST_CUDA
    kl_exec *ex = NULL;
    kl_err err;
    if (kl_exec_open_cuda(KL_ANY_DEVICE, &ex, &err) != KL_OK && getenv("KL_TEST_MUST_RUN") == NULL) {
        printf("1..0 # SKIP %s\n", err.text);
        return 77;
    }
    kl_exec_close(&ex);
#endif
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products),    cmocka_unit_test(test_bipartition),
                                       cmocka_unit_test(test_refusals),    cmocka_unit_test(test_sigma),
                                       cmocka_unit_test(test_rows),        cmocka_unit_test(test_streamed),
                                       cmocka_unit_test(test_streamed_ci), cmocka_unit_test(test_molecules)};
    cmocka_set_test_filter(getenv("KL_TEST_ONLY"));
    return cmocka_run_group_tests(tests, setup, teardown);
}
