/* Leading singular vectors by products, against a full singular value decomposition: of spectra that fall
   fast, slowly, in steps, or end; of one and of several wavefunctions; from columns of a neighbour and from
   nothing.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/dense.h"
#include "base/gramfactor.h"
#include "dmrg/rangefind.h"
#include "kl_test.h"

enum { MOST_PART = 8 };
typedef enum fall { FAST, SLOW, STEPS, ENDS, FLAT, NFALL } fall;

/* The i-th singular value of n. */
static double value(fall f, int i, int n)
{
    switch (f) {
    case FAST: return pow(10, -10.0 * i / n * 3);
    case SLOW: return exp(-0.5 * log(1e9) / log(n) / log(n) * log(i + 1) * log(i + 1));
    case STEPS: return pow(10, -(i / 7)); /* seven of each */
    case ENDS: return i < n / 6 ? pow(0.6, i) : 0;
    default: return 1.0 / (1 + i);
    }
}

typedef struct scene {
    kl_exec *ex;
    kl_range r;
    kl_range_part part[MOST_PART];
    int64_t npsi, nwarm;
    double *psi, *warm;
} scene;

static void random_columns(int rows, int n, double *a, uint64_t *seed)
{
    kl_err err;
    for (int64_t i = 0; i < (int64_t)rows * n; i++) a[i] = kl_test_uniform(seed);
    expect_ok(kl_dense_qr(rows, n, a, rows, NULL, 0, &err), err);
}

/* Adds a sector whose columns are tried, with k of them wanted: A = U S V^T / |S|, from V's first columns
 * rotated a little. */
static void add_sector(scene *s, fall f, int rows, int cols, int k, int warm, uint64_t *seed)
{
    const int ns = s->r.nstate, wide = ns * cols, n = rows < wide ? rows : wide;
    kl_range_part *const p = &s->part[s->r.npart++];
    *p = (kl_range_part){
        .rows = rows, .cols = cols, .psi = s->npsi, .warm = s->nwarm, .width = k + (k > 80 ? k / 8 : 10)};
    double *const u = malloc((size_t)rows * n * sizeof *u), *const v = malloc((size_t)wide * n * sizeof *v);
    random_columns(rows, n, u, seed);
    random_columns(wide, n, v, seed);
    s->npsi += (int64_t)rows * cols; /* of one wavefunction: written below as psi[ns][room] */
    for (int st = 0; st < ns; st++)
        for (int x = 0; x < rows; x++)
            for (int y = 0; y < cols; y++) {
                double sum = 0;
                for (int j = 0; j < n; j++)
                    sum += u[x + j * rows] * value(f, j, n) * v[st * cols + y + j * wide];
                s->psi[st * s->r.npsi + p->psi + (s->r.transposed ? y + x * cols : x + y * rows)] = sum;
            }
    if (warm) {
        p->nwarm = k;
        for (int j = 0; j < k; j++)
            for (int y = 0; y < cols; y++)
                s->warm[s->nwarm + y + j * cols] =
                    v[y + j * wide] + 0.05 * kl_test_uniform(seed) / sqrt(cols);
        kl_err err;
        expect_ok(kl_dense_qr(cols, k, s->warm + s->nwarm, cols, NULL, 0, &err), err);
        s->nwarm += (int64_t)k * cols;
    }
    free(u);
    free(v);
}

static void scene_open(scene *s, int threads, int nstate, int transposed)
{
    enum { ROOM = 400000 };
    kl_err err;
    *s = (scene){.r = {.nstate = nstate, .transposed = transposed, .npsi = ROOM, .more = nstate > 1 ? 2 : 1}};
    s->r.part = s->part;
    expect_ok(kl_exec_open_host(threads, &s->ex, &err), err);
    s->r.ex = s->ex;
    s->psi = calloc((size_t)nstate * ROOM, sizeof *s->psi);
    s->warm = calloc(ROOM, sizeof *s->warm);
}

static void scene_find(scene *s)
{
    kl_err err;
    expect_ok(kl_exec_copy_in(s->ex, s->psi, s->r.npsi * s->r.nstate, &s->r.psi, &err), err);
    expect_ok(kl_exec_copy_in(s->ex, s->warm, s->nwarm + 1, &s->r.warm, &err), err);
    expect_ok(kl_range_find(&s->r, &err), err);
}

static void scene_close(scene *s)
{
    kl_range_clear(&s->r);
    s->ex->vt.release(s->ex, &s->r.psi);
    s->ex->vt.release(s->ex, &s->r.warm);
    kl_exec_close(&s->ex);
    free(s->psi);
    free(s->warm);
}

/* Wavefunctions of a part side by side, rows x (nstate cols). */
static double *side_by_side(const scene *s, const kl_range_part *p)
{
    double *const a = malloc((size_t)p->rows * p->cols * s->r.nstate * sizeof *a);
    for (int st = 0; st < s->r.nstate; st++)
        for (int x = 0; x < p->rows; x++)
            for (int y = 0; y < p->cols; y++)
                a[x + (int64_t)(st * p->cols + y) * p->rows] =
                    s->psi[st * s->r.npsi + p->psi + (s->r.transposed ? y + x * p->cols : x + y * p->rows)];
    return a;
}

/* |a - o o^T a|^2 of the difference itself, and how far the k columns of o are from orthonormal. */
static double left_out(int rows, int wide, const double *a, int k, const double *o, double *worst)
{
    double sum = 0;
    for (int i = 0; i < k; i++)
        for (int j = 0; j <= i; j++) {
            double dot = 0;
            for (int x = 0; x < rows; x++) dot += o[x + i * rows] * o[x + j * rows];
            *worst = fmax(*worst, fabs(dot - (i == j)));
        }
    double *const rest = malloc((size_t)rows * sizeof *rest);
    for (int y = 0; y < wide; y++) {
        memcpy(rest, a + (int64_t)y * rows, (size_t)rows * sizeof *rest);
        for (int i = 0; i < k; i++) {
            double dot = 0;
            for (int x = 0; x < rows; x++) dot += o[x + i * rows] * a[x + (int64_t)y * rows];
            for (int x = 0; x < rows; x++) rest[x] -= dot * o[x + i * rows];
        }
        for (int x = 0; x < rows; x++) sum += rest[x] * rest[x];
    }
    free(rest);
    return sum;
}

/* The k leading columns that were found of part i; *weight: what the others, which are known, would have
 * added. */
static double *leading(scene *s, int i, int k, const double *tri, double *weight)
{
    kl_err err;
    const kl_range_part *const p = &s->part[i];
    const int n = p->width;
    double *const w = malloc((size_t)n * sizeof *w), *const z = malloc((size_t)n * n * sizeof *z);
    double *const work = malloc(3 * (size_t)n * n * sizeof *work), *const o = malloc((size_t)p->rows * k *
                                                                                     sizeof *o);
    expect_ok(kl_gram_graded(n, tri + p->gram, w, z, work, &err), err);
    *weight = 0;
    for (int j = 0; j < n - k; j++) *weight += w[j];
    int count[MOST_PART] = {0};
    int64_t at[MOST_PART] = {0};
    count[i] = k;
    kl_dptr dz, data = {0};
    expect_ok(kl_exec_copy_in(s->ex, z + (int64_t)(n - k) * n, (int64_t)k * n, &dz, &err), err);
    expect_ok(s->ex->vt.alloc(s->ex, (int64_t)p->rows * k, &data, &err), err);
    const kl_range_view view = {count, at, at, NULL};
    expect_ok(kl_range_columns(&s->r, &view, dz, (int64_t)k * n, (int64_t)p->rows * k, data, &err), err);
    expect_ok(s->ex->vt.download(s->ex, o, data, (int64_t)p->rows * k, &err), err);
    s->ex->vt.release(s->ex, &dz);
    s->ex->vt.release(s->ex, &data);
    free(w);
    free(z);
    free(work);
    return o;
}

/* All parts of a scene: columns orthonormal, what is left out within 1.001 of the best, and what is said to
   be left out is what is. kept[i] columns each; exact: nothing more may be left out than by the best. */
static void check(scene *s, const int *kept, double allowed)
{
    kl_err err;
    double lost, said = 0, seen = 0, all = 0;
    expect_ok(kl_range_lost(&s->r, &lost, &err), err);
    double *const tri = malloc((size_t)s->r.ngram * sizeof *tri);
    expect_ok(kl_range_triangle(&s->r, tri, &err), err);
    for (int i = 0; i < s->r.npart; i++) {
        const kl_range_part *const p = &s->part[i];
        const int wide = s->r.nstate * p->cols, n = p->rows < wide ? p->rows : wide, k = kept[i];
        double *const a = side_by_side(s, p), *const copy = side_by_side(s, p),
                      *const sv = malloc((size_t)n * sizeof *sv);
        double weight, worst = 0, best = 0;
        double *const o = leading(s, i, k, tri, &weight);
        expect_ok(kl_dense_svd(p->rows, wide, copy, p->rows, sv, NULL, 1, NULL, 1, &err), err);
        for (int j = n - 1; j >= k; j--) best += sv[j] * sv[j];
        const double out = left_out(p->rows, wide, a, k, o, &worst);
        expect_near(worst, 0, 2e-14);
        double norm = 0;
        for (int j = 0; j < n; j++) norm += sv[j] * sv[j];
        expect_true(out <= allowed * best + 1e-23 * norm);
        said += weight;
        seen += out;
        all += norm;
        free(a);
        free(copy);
        free(sv);
        free(o);
    }
    said += lost;
    expect_near(said, seen, 1e-6 * seen + 1e-29 * all);
    free(tri);
}

static void test_warm(void **state)
{
    (void)state;
    for (int transposed = 0; transposed < 2; transposed++)
        for (fall f = 0; f < NFALL; f++) {
            scene s;
            uint64_t seed = 7 + f;
            kl_test_case("fall=%d transposed=%d", (int)f, transposed);
            scene_open(&s, 2, 1, transposed);
            add_sector(&s, f, 200, 160, 48, 1, &seed);
            add_sector(&s, f, 120, 180, 30, 1, &seed);
            add_sector(&s, f, 60, 50, 9, 1, &seed);
            scene_find(&s);
            check(&s, (int[]){48, 30, 9}, f == FLAT ? 1.01 : 1.001);
            scene_close(&s);
        }
}

static void test_cold(void **state)
{
    (void)state;
    for (int nstate = 1; nstate <= 3; nstate++)
        for (fall f = 0; f < NFALL; f++) {
            scene s;
            uint64_t seed = 70 + f;
            kl_test_case("fall=%d states=%d", (int)f, nstate);
            scene_open(&s, 1, nstate, nstate == 2);
            s.r.more = 2;
            add_sector(&s, f, 150, 120, 30, 0, &seed);
            add_sector(&s, f, 70, 90, 12, 0, &seed);
            scene_find(&s);
            check(&s, (int[]){30, 12}, f == FLAT ? 1.01 : 1.001);
            scene_close(&s);
        }
}

/* Where all columns, or all rows, are taken, nothing is lost and the best is found to rounding. */
static void test_whole(void **state)
{
    (void)state;
    for (int nstate = 1; nstate <= 2; nstate++)
        for (fall f = 0; f < NFALL; f++) {
            scene s;
            uint64_t seed = 50 + f;
            kl_test_case("fall=%d states=%d", (int)f, nstate);
            scene_open(&s, 1, nstate, nstate == 1);
            add_sector(&s, f, 90, 30, 12, 0, &seed);
            add_sector(&s, f, 40, 70, 14, 0, &seed);
            add_sector(&s, f, 100, 90 / nstate, 20, 0, &seed);
            s.part[0].mode = KL_RANGE_COLUMNS;
            s.part[0].width = nstate * 30;
            s.part[1].mode = KL_RANGE_ROWS;
            s.part[1].width = 40;
            s.part[2].mode = KL_RANGE_COLUMNS;
            s.part[2].width = 90 / nstate * nstate;
            scene_find(&s);
            double lost;
            kl_err err;
            expect_ok(kl_range_lost(&s.r, &lost, &err), err);
            expect_true(lost == 0);
            check(&s, (int[]){12, 14, 20}, 1 + 1e-6);
            scene_close(&s);
        }
}

/* A wavefunction that is nothing in a sector, or of few singular values, leaves fewer columns than are made:
   all of Q is orthonormal, or a state of next to no weight would have another norm than 1. */
static void test_dependent(void **state)
{
    (void)state;
    for (int transposed = 0; transposed < 2; transposed++) {
        kl_err err;
        scene s;
        uint64_t seed = 11;
        kl_test_case("transposed=%d", transposed);
        scene_open(&s, 1, 2, transposed);
        add_sector(&s, FAST, 141, 48, 44, 0, &seed);
        add_sector(&s, ENDS, 90, 80, 30, 0, &seed);
        s.part[0].mode = KL_RANGE_COLUMNS;
        s.part[0].width = 2 * 48;
        for (int64_t i = 0; i < 141 * 48; i++) s.psi[s.r.npsi + s.part[0].psi + i] = 0;
        scene_find(&s);
        double *const q = malloc((size_t)s.r.nq * sizeof *q);
        expect_ok(s.ex->vt.download(s.ex, q, s.r.q, s.r.nq, &err), err);
        for (int i = 0; i < 2; i++) {
            const kl_range_part *const p = &s.part[i];
            double worst = 0;
            left_out(p->rows, 0, NULL, p->width, q + p->q, &worst);
            expect_near(worst, 0, 2e-14);
        }
        free(q);
        scene_close(&s);
    }
}

/* The Gram matrix on the executor is that of B; sectors of nothing have nothing. */
static void test_gram(void **state)
{
    kl_err err;
    scene s;
    uint64_t seed = 3;
    (void)state;
    scene_open(&s, 1, 1, 0);
    add_sector(&s, SLOW, 80, 80, 20, 1, &seed);
    add_sector(&s, SLOW, 50, 60, 10, 1, &seed);
    memset(s.psi + s.part[1].psi, 0, 3000 * sizeof *s.psi);
    scene_find(&s);
    const int64_t ng = s.r.ngram + 7, off[] = {-1, s.part[0].gram, -1, s.part[1].gram + 7};
    const int sec[] = {1, 3};
    kl_dptr to = {0};
    expect_ok(s.ex->vt.alloc(s.ex, ng, &to, &err), err);
    expect_ok(kl_range_gram(&s.r, 2, off, sec, ng, to, &err), err);
    double *const g = malloc((size_t)ng * sizeof *g), *const bt = malloc((size_t)s.r.nbt * sizeof *bt);
    expect_ok(s.ex->vt.download(s.ex, g, to, ng, &err), err);
    expect_ok(s.ex->vt.download(s.ex, bt, s.r.bt, s.r.nbt, &err), err);
    for (int i = 0; i < 2; i++) {
        const kl_range_part *const p = &s.part[i];
        for (int x = 0; x < p->width; x++)
            for (int y = 0; y < p->width; y++) {
                double sum = 0;
                for (int j = 0; j < p->cols; j++)
                    sum += bt[p->bt + j + x * p->cols] * bt[p->bt + j + y * p->cols];
                expect_near(2 * g[p->gram + 7 * i + x + y * p->width], i == 0 ? sum : 0, i == 0 ? 1e-14 : 0);
            }
    }
    free(g);
    free(bt);
    s.ex->vt.release(s.ex, &to);
    scene_close(&s);
}

/* Eigenvectors of the Gram matrices and their values, ascending; then the kept[i] leading columns of each
   part, one part behind the other. */
static double *by_gram(scene *s, const int *kept)
{
    kl_err err;
    int64_t nz = 0, ndata = 0, zoff[MOST_PART], to[MOST_PART];
    double weight[200];
    int nweight = 0;
    int sec[MOST_PART];
    kl_dptr gram = {0}, dz = {0}, data = {0};
    double *const g = malloc((size_t)s->r.ngram * sizeof *g), *const w =
                                                                  malloc((size_t)s->r.ngram * sizeof *w);
    for (int i = 0; i < s->r.npart; i++) sec[i] = i;
    for (int i = 0; i < s->r.npart; i++) zoff[i] = s->part[i].gram;
    expect_ok(s->ex->vt.alloc(s->ex, s->r.ngram, &gram, &err), err);
    expect_ok(kl_range_gram(&s->r, 1, zoff, sec, s->r.ngram, gram, &err), err);
    expect_ok(s->ex->vt.download(s->ex, g, gram, s->r.ngram, &err), err);
    for (int i = 0; i < s->r.npart; i++) {
        const int n = s->part[i].width;
        const int64_t at = s->part[i].gram;
        expect_ok(kl_dense_eig(n, g + at, n, w + at, &err), err);
        for (int j = n - kept[i]; j < n; j++) weight[nweight++] = w[at + j];
        memmove(g + nz, g + at + (int64_t)(n - kept[i]) * n, (size_t)kept[i] * (size_t)n * sizeof *g);
        zoff[i] = nz;
        to[i] = ndata;
        nz += (int64_t)n * kept[i];
        ndata += (int64_t)s->part[i].rows * kept[i];
    }
    double *const o = malloc((size_t)ndata * sizeof *o);
    expect_ok(kl_exec_copy_in(s->ex, g, nz, &dz, &err), err);
    expect_ok(s->ex->vt.alloc(s->ex, ndata, &data, &err), err);
    const kl_range_view view = {kept, zoff, to, weight};
    expect_ok(kl_range_columns(&s->r, &view, dz, nz, ndata, data, &err), err);
    expect_ok(s->ex->vt.download(s->ex, o, data, ndata, &err), err);
    s->ex->vt.release(s->ex, &gram);
    s->ex->vt.release(s->ex, &dz);
    s->ex->vt.release(s->ex, &data);
    free(g);
    free(w);
    return o;
}

/* By A^T A: columns orthonormal even where their weights are rounding, the best to rounding, the same bits on
   any number of threads; beside parts of other modes. */
static void test_dual(void **state)
{
    const int kept[] = {24, 14, 40, 20};
    (void)state;
    for (int nstate = 1; nstate <= 2; nstate++)
        for (fall f = 0; f < NFALL; f++) {
            double *first = NULL;
            for (int threads = 1; threads <= 3; threads += 2) {
                scene s;
                kl_err err;
                uint64_t seed = 90 + f;
                kl_test_case("fall=%d states=%d threads=%d", (int)f, nstate, threads);
                scene_open(&s, threads, nstate, nstate == 1);
                add_sector(&s, f, 90, 30, 12, 0, &seed);
                add_sector(&s, f, 40, 70, 14, 0, &seed);
                add_sector(&s, f, 210, 100 / nstate, 40, 0, &seed);
                add_sector(&s, f, 90, 80, 20, 0, &seed);
                for (int i = 0; i < 3; i += 2) {
                    s.part[i].mode = KL_RANGE_DUAL;
                    s.part[i].width = nstate * s.part[i].cols;
                }
                s.part[1].mode = KL_RANGE_ROWS;
                s.part[1].width = 40;
                scene_find(&s);
                double *const o = by_gram(&s, kept), *at = o;
                for (int i = 0; i < s.r.npart; i++) {
                    const kl_range_part *const p = &s.part[i];
                    const int wide = nstate * p->cols, n = p->rows < wide ? p->rows : wide;
                    double *const a = side_by_side(&s, p), *const copy = side_by_side(&s, p), sv[300];
                    double worst = 0, best = 0, norm = 0;
                    expect_ok(kl_dense_svd(p->rows, wide, copy, p->rows, sv, NULL, 1, NULL, 1, &err), err);
                    for (int j = n - 1; j >= 0; j--) *(j >= kept[i] ? &best : &norm) += sv[j] * sv[j];
                    const double out = left_out(p->rows, wide, a, kept[i], at, &worst);
                    if (p->mode == KL_RANGE_DUAL) expect_near(worst, 0, 2e-14);
                    if (p->mode == KL_RANGE_DUAL) expect_true(out <= 1.0001 * best + 1e-14 * norm);
                    free(a);
                    free(copy);
                    at += (int64_t)p->rows * kept[i];
                }
                const size_t size = (size_t)(at - o) * sizeof *o;
                if (first) expect_true(memcmp(first, o, size) == 0);
                if (first) free(o);
                else first = o;
                scene_close(&s);
            }
            free(first);
        }
}

static void test_bits(void **state)
{
    kl_err err;
    double *first[2] = {NULL, NULL};
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        scene s;
        uint64_t seed = 5;
        scene_open(&s, threads, 1, 1);
        add_sector(&s, SLOW, 230, 200, 60, 1, &seed);
        add_sector(&s, ENDS, 90, 130, 30, 1, &seed);
        add_sector(&s, STEPS, 70, 70, 20, 0, &seed);
        scene_find(&s);
        const int64_t n[2] = {s.r.nq, s.r.nbt};
        for (int k = 0; k < 2; k++) {
            double *const now = malloc((size_t)n[k] * sizeof *now);
            expect_ok(s.ex->vt.download(s.ex, now, k == 0 ? s.r.q : s.r.bt, n[k], &err), err);
            if (threads == 1) first[k] = now;
            else {
                expect_true(memcmp(first[k], now, (size_t)n[k] * sizeof *now) == 0);
                free(now);
            }
        }
        scene_close(&s);
    }
    free(first[0]);
    free(first[1]);
}

/* A refused allocation is one line, and nothing is left behind. */
static void test_memory(void **state)
{
    (void)state;
    scene s;
    uint64_t seed = 5;
    kl_err err;
    scene_open(&s, 1, 1, 0);
    add_sector(&s, FAST, 80, 70, 20, 1, &seed);
    expect_ok(kl_exec_copy_in(s.ex, s.psi, s.r.npsi, &s.r.psi, &err), err);
    expect_ok(kl_exec_copy_in(s.ex, s.warm, s.nwarm, &s.r.warm, &err), err);
    kl_status st = KL_ENOMEM;
    for (int k = 1; st == KL_ENOMEM && k < 400; k++) {
        kl_range r = s.r;
        kl_mem_fail_after(k);
        st = kl_range_find(&r, &err);
        kl_mem_fail_after(0);
        kl_range_clear(&r);
        expect_true(st == KL_OK || st == KL_ENOMEM);
    }
    expect_eq(st, KL_OK);
    scene_close(&s);
    kl_dense_release();
    expect_eq(kl_mem_live_total(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warm),   cmocka_unit_test(test_cold),      cmocka_unit_test(test_whole),
        cmocka_unit_test(test_gram),   cmocka_unit_test(test_dual),      cmocka_unit_test(test_bits),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_dependent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
