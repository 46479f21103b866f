/* V^T x and V y for tall V, the two operations that a Davidson step lives on: every column is read once, a
   belt of them a pass (belt.h), with private sums that the kernel adds up itself. Register budget 128: two
   blocks of KL_BLOCK threads a multiprocessor.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/belt.h"
#include "offload.h"
#include "target.h"

enum {
    PART = KL_OFFLOAD_PART,
    NARROW = 3 /* columns of a pass that goes there and back, and whose sums the host adds up */,
    ODD = 4 /* columns of a pass where addresses are not even */,
    FOLD = 64
};

#define ALWAYS static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")

/* Kernels of V y, and of V^T x without bare regions, are for every fourth width: columns that are not there
   are the last one again, which costs no traffic. */
#define STEPS(F) F(1) F(2) F(3) F(4) F(8) F(12) F(16) F(20) F(24) F(28) F(32)
static int step(int W) { return W <= 4 ? W : (W + 3) / 4 * 4; }
_Static_assert(KL_BELT == 32, "the widest step");

static int even(const void *a, const void *b, int64_t ld)
{
    return (((uintptr_t)a | (uintptr_t)b) & 15) == 0 && ld % 2 == 0;
}

/* ---- V^T x ---- */

/* Pairs of rows that a thread has in flight: with those of x some 16 loads, 128 KiB a multiprocessor, and 20
   with one column. */
#define PAIRS(W) ((W) == 1 ? 10 : (W) < 10 ? (16 + (W) / 2) / ((W) + 1) : 1)
enum { MOST_PAIRS = 10 };

/* Two numbers that no one writes while the kernel runs, and what the cache is to do with them. */
typedef struct policies {
    uint64_t stay, leave;
} policies;
#if defined(__NVPTX__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
ALWAYS policies make_policies(void)
{
    policies p;
    __asm__("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(p.stay));
    __asm__("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p.leave));
    return p;
}
ALWAYS kl_two load(const double *p, uint64_t policy)
{
    double a, b;
    __asm__("ld.global.nc.L2::cache_hint.v2.f64 {%0, %1}, [%2], %3;"
            : "=d"(a), "=d"(b)
            : "l"(p), "l"(policy));
    return (kl_two){a, b};
}
#else
ALWAYS policies make_policies(void) { return (policies){0, 0}; }
ALWAYS kl_two load(const double *p, uint64_t policy)
{
    (void)policy;
    return *(const kl_two *)p;
}
#endif

/* n rows of columns ldv apart, and a vector. */
typedef struct tall {
    int n;
    const double *v;
    int64_t ldv;
    const double *x;
} tall;

/* A pass over columns ldv apart: how many of 64 stretches of rows stay in the cache, and whether it runs
   backwards. */
typedef struct pass {
    const double *v;
    int64_t ldv;
    const double *x;
    int share, back;
} pass;

/* s[j] += V_j . x over the pairs of thread t of T, a multiple of KL_BLOCK: U of them a round, all blocks side
   by side, and what is left in a last round in equal shares. Rows beyond a block's are its last one again,
   times 0. W and U are constants where this is used, and so the sums are registers. A narrow pass that goes
   back begins with its last rounds. The first round, the last two and what lies between have sums of their
   own, which are added up in one order always: bits do not depend on the direction of a pass. */
ALWAYS void dots2(int t, int T, int n, const int W, const int U, int have, pass p, double *s)
{
    const double *const v = p.v, *const x = p.x;
    const int64_t ldv = p.ldv;
    const int share = p.share, back = p.back;
    const policies l2 = make_policies();
    /* lines of 256 bytes */
    const int blocks = T / KL_BLOCK, pairs = n / 2, step = U * T, whole = pairs / step * step,
              rest = ((pairs - whole + blocks - 1) / blocks + 15) / 16 * 16;
    const int stretches = W <= NARROW && whole >= 3 * step ? 3 : 1;
    double before[2][NARROW] = {{0}}; /* sums of the stretches before this one */
    for (int k = 0; k < stretches; k++) {
        const int q = back ? stretches - 1 - k : k,
                  from = q == 0   ? 0
                         : q == 1 ? step
                                  : whole - step,
                  till = q == stretches - 1 ? whole + 1
                         : q == 0           ? step
                                            : whole - step;
        UNROLL
        for (int j = 0; j < W && W <= NARROW; j++)
            before[0][j] = before[1][j], before[1][j] = s[j], s[j] = 0.0;
        for (int round = from; round < till; round += step) {
            const int each = round < whole ? U * KL_BLOCK : rest, first = round + t / KL_BLOCK * each,
                      to = first + each < pairs ? first + each : pairs;
            if (first >= to) break;
            const double *row[MOST_PAIRS];
            uint64_t policy[MOST_PAIRS];
            kl_two a[MOST_PAIRS];
            UNROLL
            for (int u = 0; u < U; u++) {
                const int mine = first + u * KL_BLOCK + t % KL_BLOCK, i = mine < to ? mine : to - 1;
                policy[u] = KL_STAYS(i, share) ? l2.stay : l2.leave;
                a[u] = load(x + 2 * (int64_t)i, policy[u]);
                if (mine >= to) a[u] = (kl_two){0.0, 0.0};
                row[u] = v + 2 * (int64_t)i;
            }
            UNROLL
            for (int j = 0; j < W; j++) UNROLL
            for (int u = 0; u < U; u++) {
                const kl_two both = load(row[u] + (j < have ? j : have - 1) * ldv, policy[u]);
                s[j] += both[0] * a[u][0];
                s[j] += both[1] * a[u][1];
            }
        }
    }
    UNROLL
    for (int j = 0; j < W && W <= NARROW; j++)
        s[j] = ((back ? s[j] : before[0][j]) + before[1][j]) + (back ? before[0][j] : s[j]);
    if (t == 0 && n % 2) {
        UNROLL
        for (int j = 0; j < W; j++) s[j] += v[(j < have ? j : have - 1) * ldv + n - 1] * x[n - 1];
    }
}

/* Any addresses. */
ALWAYS void dots1(int t, int T, int n, int have, const double *v, int64_t ldv, const double *x, double *s)
{
    for (int i = t; i < n; i += T) {
        const double a = x[i];
        UNROLL
        for (int j = 0; j < ODD; j++) s[j] += v[(j < have ? j : have - 1) * ldv + i] * a;
    }
}

#if KL_OFFLOAD_BARE
static void dots_bare(const kl_offload *self, int W, const tall *m, int pairs, int share, int back,
                      double *sum)
{
    const int n = m->n;
    const double *const v = m->v, *const x = m->x;
    const int64_t ldv = m->ldv;
    kl_slot *const slot = self->slot;
    double *const result = self->result;
    const int teams = 2 * self->nsm, parts = pairs && W <= NARROW ? teams : 1;
#define DOTS(K)                                                                                     \
    case K:                                                                                         \
        KL_BARE(teams, 256, KL_REDUCE * 8,                                                          \
                is_device_ptr(v, x, slot, result) firstprivate(n, ldv, share, back))                \
        {                                                                                           \
            const uint64_t launch = K > NARROW ? kl_launch_number(slot, K) : 0;                     \
            double s[K] = {0};                                                                      \
            dots2(kl_thread(), kl_threads(), n, K, PAIRS(K), K, (pass){v, ldv, x, share, back}, s); \
            if (K > NARROW) kl_reduce(K, s, launch, slot, result);                                  \
            else kl_post(K, s, result);                                                             \
        }                                                                                           \
        break;
    if (pairs) {
        switch (W) {
            KL_BELTS(DOTS)
        }
    } else {
        KL_BARE(teams, 256, KL_REDUCE * 8, is_device_ptr(v, x, slot, result) firstprivate(n, W, ldv))
        {
            const uint64_t launch = kl_launch_number(slot, ODD);
            double s[ODD] = {0};
            dots1(kl_thread(), kl_threads(), n, W, v, ldv, x, s);
            kl_reduce(ODD, s, launch, slot, result);
        }
    }
#undef DOTS
    for (int j = 0; j < W; j++) {
        sum[j] = 0.0;
        for (int k = 0; k < parts; k++) sum[j] += result[k * W + j];
    }
}
_Static_assert(2 * KL_MOST_SM * NARROW <= KL_RESULT, "a block's sums each");
#endif

/* Plain OpenMP: sums of every thread to memory, 64 sums of those, and the rest here. */
static void dots_flat(const kl_offload *self, int W, const tall *m, int pairs, int share, int back,
                      double *sum)
{
    const int n = m->n;
    const double *const v = m->v, *const x = m->x;
    const int64_t ldv = m->ldv;
    double *const part = self->scratch, *const folded = part + KL_SCRATCH - FOLD * KL_BELT;
    const int teams = kl_teams_of(self, self->nsm), nsum = teams * KL_BLOCK; /* fits: KL_SCRATCH */
    const int nfold = FOLD * W, folders = kl_teams_of(self, 8);
#define DOTS(K)                                                                              \
    case K:                                                                                  \
        KL_FLAT(teams, is_device_ptr(v, x, part) firstprivate(n, W, ldv, nsum, share, back)) \
        for (int t = 0; t < nsum; t++) {                                                     \
            double s[K] = {0};                                                               \
            dots2(t, nsum, n, K, K <= 20 ? 2 : 1, W, (pass){v, ldv, x, share, back}, s);     \
            for (int j = 0; j < K; j++) part[j * nsum + t] = s[j];                           \
        }                                                                                    \
        break;
    if (pairs) {
        switch (step(W)) {
            STEPS(DOTS)
        }
    } else {
        KL_FLAT(teams, is_device_ptr(v, x, part) firstprivate(n, W, ldv, nsum))
        for (int t = 0; t < nsum; t++) {
            double s[ODD] = {0};
            dots1(t, nsum, n, W, v, ldv, x, s);
            for (int j = 0; j < ODD; j++) part[j * nsum + t] = s[j];
        }
    }
#undef DOTS
    KL_FLAT(folders, is_device_ptr(part, folded) firstprivate(nfold, nsum))
    for (int f = 0; f < nfold; f++) {
        double a = 0.0;
        for (int i = f % FOLD; i < nsum; i += FOLD) a += part[f / FOLD * nsum + i];
        folded[f] = a;
    }
    double host[FOLD * KL_BELT];
    /* the device is lost: no answer may look like one */
    if (kl_offload_get(self, host, folded, nfold * (int64_t)sizeof(double)) != 0)
        for (int f = 0; f < nfold; f++) host[f] = __builtin_nan("");
    for (int j = 0; j < W; j++) {
        sum[j] = 0.0;
        for (int f = 0; f < FOLD; f++) sum[j] += host[j * FOLD + f];
    }
}

void kl_offload_dots(kl_exec *ex, int64_t all, int nvec, kl_dptr vp, int64_t ldv, kl_dptr xp, double *out)
{
    kl_offload *const self = ex->self;
    const int share = kl_share_to_keep(self->l2_bytes, all, nvec);
    for (int j = 0; j < nvec; j++) out[j] = 0.0;
    for (int64_t from = 0; from < all; from += PART) {
        const int n = (int)(all - from < PART ? all - from : PART);
        const double *const x = kl_device(xp) + from;
        for (int first = 0; first < nvec;) {
            const double *const v = kl_device(vp) + from + first * ldv;
            const int pairs = even(v, x, ldv), W = kl_belt(nvec - first, pairs ? KL_BELT : ODD);
            const int back = pairs && W <= NARROW && self->back;
            const tall m = {n, v, ldv, x};
            double sum[KL_BELT];
            self->back = !back;
#if KL_OFFLOAD_BARE
            if (self->bare) dots_bare(self, W, &m, pairs, share, back, sum);
            else
#endif
                dots_flat(self, W, &m, pairs, share, back, sum);
            for (int j = 0; j < W; j++) out[first + j] += sum[j];
            first += W;
        }
    }
}

/* ---- V y ---- */

/* Coefficients travel as arguments of the kernel, for an array would be a copy to the device before each; and
   no more of them than there are columns, for 32 take a launch 0.7 us. */
#define EACH(F)                                                                                           \
    F(0)                                                                                                  \
    F(1)                                                                                                  \
    F(2)                                                                                                  \
    F(3)                                                                                                  \
    F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15) F(16) F(17) F(18) F(19) F(20) F(21) \
        F(22) F(23) F(24) F(25) F(26) F(27) F(28) F(29) F(30) F(31)
#define TAKE(k) const double c##k = c[k];
#define LIST1 c0
#define LIST2 LIST1, c1
#define LIST3 LIST2, c2
#define LIST4 LIST3, c3
#define LIST8 LIST4, c4, c5, c6, c7
#define LIST12 LIST8, c8, c9, c10, c11
#define LIST16 LIST12, c12, c13, c14, c15
#define LIST20 LIST16, c16, c17, c18, c19
#define LIST24 LIST20, c20, c21, c22, c23
#define LIST28 LIST24, c24, c25, c26, c27
#define LIST32 LIST28, c28, c29, c30, c31

ALWAYS void combine2(int t, int n, const int W, int have, const double *v, int64_t ldv, double b, double *y,
                     const double *c)
{
    if (t < n / 2) {
        kl_two *const to = (kl_two *)y + t;
        kl_two a = {0.0, 0.0};
        if (b != 0.0) a = b * *to;
        UNROLL
        for (int j = 0; j < W; j++) a += c[j] * ((const kl_two *)(v + (j < have ? j : have - 1) * ldv))[t];
        *to = a;
    }
    if (t == 0 && n % 2) {
        double a = b != 0.0 ? b * y[n - 1] : 0.0;
        UNROLL
        for (int j = 0; j < W; j++) a += c[j] * v[(j < have ? j : have - 1) * ldv + n - 1];
        y[n - 1] = a;
    }
}

ALWAYS void combine1(int t, int have, const double *v, int64_t ldv, double b, double *y, const double *c)
{
    double a = b != 0.0 ? b * y[t] : 0.0;
    UNROLL
    for (int j = 0; j < ODD; j++) a += c[j] * v[(j < have ? j : have - 1) * ldv + t];
    y[t] = a;
}

static void combine_part(const kl_offload *self, int W, int back, const tall *m, const double *c, double b,
                         double *y, int pairs)
{
    const int n = m->n;
    const double *const v = m->v;
    const int64_t ldv = m->ldv;
    EACH(TAKE)
#define COMBINE(K)                                                                   \
    case K:                                                                          \
        KL_KERNEL(                                                                   \
            self, (n + 1) / 2,                                                       \
            {                                                                        \
                const double cc[K] = {LIST##K};                                      \
                combine2(back ? (n + 1) / 2 - 1 - t : t, n, K, W, v, ldv, b, y, cc); \
            },                                                                       \
            is_device_ptr(v, y) firstprivate(n, W, back, ldv, b, LIST##K));          \
        break;
    if (pairs) {
        switch (step(W)) {
            STEPS(COMBINE)
        }
    } else {
        KL_KERNEL(
            self, n,
            {
                const double cc[ODD] = {LIST4};
                combine1(t, W, v, ldv, b, y, cc);
            },
            is_device_ptr(v, y) firstprivate(W, ldv, b, LIST4));
    }
#undef COMBINE
}

void kl_offload_combine(kl_exec *ex, int64_t all, int nvec, kl_dptr vp, int64_t ldv, const double *c,
                        double b, kl_dptr yp)
{
    kl_offload *const self = ex->self;
    if (nvec == 0) {
        if (b == 0.0) kl_offload_fill(ex, all, 0.0, yp);
        else if (b != 1.0) kl_offload_axpby(ex, all, b, yp, 0.0, yp);
        return;
    }
    for (int64_t from = 0; from < all; from += PART) {
        const int n = (int)(all - from < PART ? all - from : PART);
        double *const y = kl_device(yp) + from;
        double old = b;
        for (int first = 0; first < nvec; old = 1.0) {
            const double *const v = kl_device(vp) + from + first * ldv;
            const int pairs = even(v, y, ldv), W = kl_belt(nvec - first, pairs ? KL_BELT : ODD);
            double factor[KL_BELT] = {0};
            for (int j = 0; j < W; j++) factor[j] = c[first + j];
            const int back = pairs && self->back;
            combine_part(self, W, back, &(tall){n, v, ldv, NULL}, factor, old, y, pairs);
            self->back = !back;
            first += W;
        }
    }
}
