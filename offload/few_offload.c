/* Linear combinations and inner products of a few vectors in one pass over memory, all in registers: the steps of LOBPCG and of Lanczos with one vector. What a thread of a
   bare region reads of the inputs is combined, stored and multiplied before it reads on; the products are those of all outputs, or of all inputs where nothing is written.
   Anything wider is fuse_offload.c's.
   SPDX-License-Identifier: Apache-2.0 */
#include "few_offload.h"
#include "target.h"

#if KL_OFFLOAD_BARE
enum { MOST_IN = KL_FEW_IN, MOST_OUT = KL_FEW_OUT, MOST_SUM = 21, SHARED = (KL_BLOCK + MOST_IN * MOST_OUT + 2) * 8 /* sums, coefficients, a flag */ };

/* Travels with the launch, which is faster than a copy before it. */
typedef struct few {
    const double *in[MOST_IN];
    double *out[MOST_OUT], c[MOST_OUT][MOST_IN];
    uint32_t used; /* bit MOST_IN k + j: c[k][j] is not 0; what is not asked for may hold anything */
} few;

#define ALWAYS static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")

/* Entry i <= j of a symmetric matrix, by columns. */
ALWAYS int entry(int i, int j) { return j * (j + 1) / 2 + i; }

#ifdef __NVPTX__
typedef __attribute__((address_space(1))) kl_two pair; /* generic accesses are slower */

ALWAYS double factor(uint32_t at) /* volatile: there are no registers for all of them at once */
{
    double v;
    __asm__ volatile("ld.shared.f64 %0,[%1];" : "=d"(v) : "r"(at));
    return v;
}

/* nin and nout are constants where this is used. pairs: of rows, a thread takes two at a time. */
ALWAYS void pass(const int nin, const int nout, int pairs, const few *f, double *part, int *counter, double *result)
{
    double *const shared = llvm_omp_target_dynamic_shared_alloc(), *const c = shared + KL_BLOCK;
    volatile int *const flag = (volatile int *)(c + MOST_IN * MOST_OUT);
    const int n = nout ? nout : nin, nsum = n * (n + 1) / 2, me = (int)__nvvm_read_ptx_sreg_tid_x();
    const uint32_t used = f->used, coef = (uint32_t)(uintptr_t)(__attribute__((address_space(3))) double *)c;
    double s[MOST_SUM];
    if (nout > 0) {
        UNROLL
        for (int k = 0; k < nout; k++)
            UNROLL
            for (int j = 0; j < nin; j++)
                if (me == 0) c[MOST_IN * k + j] = f->c[k][j];
        kl_sync();
    }
    UNROLL
    for (int q = 0; q < nsum; q++) s[q] = 0.0;
    for (int i = kl_thread(); i < pairs; i += kl_threads()) {
        kl_two in[MOST_IN], out[MOST_IN];
        UNROLL
        for (int j = 0; j < nin; j++) in[j] = ((const pair *)(uintptr_t)f->in[j])[i];
        UNROLL
        for (int k = 0; k < nout; k++) {
            out[k] = (kl_two){0.0, 0.0};
            UNROLL
            for (int j = 0; j < nin; j++)
                if (used >> (MOST_IN * k + j) & 1) out[k] += factor(coef + (uint32_t)(MOST_IN * k + j) * 8) * in[j];
            ((pair *)(uintptr_t)f->out[k])[i] = out[k];
        }
        UNROLL
        for (int b = 0; b < n; b++)
            UNROLL
            for (int a = 0; a <= b; a++) {
                const kl_two u = nout ? out[a] : in[a], v = nout ? out[b] : in[b];
                s[entry(a, b)] += u[0] * v[0] + u[1] * v[1];
            }
    }
    UNROLL
    for (int q = 0; q < nsum; q++) {
        for (int by = 16; by > 0; by /= 2) s[q] += kl_shuffle_down(s[q], by);
        if (me % 32 == 0) shared[me / 32 * nsum + q] = s[q];
    }
    kl_sync();
    if (me < nsum) {
        double a = 0.0;
        for (int w = 0; w < KL_BLOCK / 32; w++) a += shared[w * nsum + me];
        part[(int)__nvvm_read_ptx_sreg_ctaid_x() * nsum + me] = a;
    }
    kl_fold_blocks(nsum, part, counter, result, shared, flag);
}
_Static_assert(MOST_SUM * KL_BLOCK / 32 <= KL_BLOCK, "the sums of the warps fit");
#else
/* Never run: every pass of the compiler must see a region use the same variables in the same order. */
ALWAYS void pass(const int nin, const int nout, int pairs, const few *f, double *part, int *counter, double *result)
{
    (void)nin, (void)nout, (void)pairs, (void)f, (void)part, (void)counter, (void)result;
}
#endif

/* Elements from..from + n - 1; the sums are in self->result then. */
static void start(const kl_offload *self, int n, int64_t from, const kl_fuse *f)
{
    double *const part = self->scratch, *const result = self->result;
    int *const counter = self->counter;
    few g = {.used = 0};
    for (int j = 0; j < f->nin; j++) g.in[j] = kl_device(f->in[j]) + from;
    for (int k = 0; k < f->nout; k++) {
        g.out[k] = kl_device(f->out[k]) + from;
        for (int j = 0; j < f->nin; j++) {
            g.c[k][j] = f->c[k * f->nin + j];
            g.used |= (uint32_t)(g.c[k][j] != 0.0) << (MOST_IN * k + j);
        }
    }
    const int pairs = n / 2, most = (pairs + KL_BLOCK - 1) / KL_BLOCK, want = self->nsm * (f->nin <= 2 ? 6 : f->nin <= 4 ? 4 : 2), teams = want < most ? want : most;
#define FEW(NIN, NOUT)                                                                                             \
    case NIN * 8 + NOUT:                                                                                           \
        KL_BARE(teams, 256, SHARED, is_device_ptr(part, counter, result) firstprivate(g, pairs))                   \
        {                                                                                                          \
            pass(NIN, NOUT, pairs, &g, part, counter, result);                                                     \
        }                                                                                                          \
        break;
#define OUTPUTS(NIN) FEW(NIN, 0) FEW(NIN, 1) FEW(NIN, 2) FEW(NIN, 3) FEW(NIN, 4) FEW(NIN, 5)
    switch (f->nin * 8 + f->nout) { OUTPUTS(1) OUTPUTS(2) OUTPUTS(3) OUTPUTS(4) OUTPUTS(5) OUTPUTS(6) }
#undef OUTPUTS
#undef FEW
}

void kl_offload_few(const kl_offload *self, int64_t n, const kl_fuse *f, double *dots)
{
    const int first = f->nout > 0 ? f->nin : 0;
    for (int q = 0; q < f->npair; q++) dots[q] = 0.0;
    for (int64_t from = 0; from < n; from += KL_OFFLOAD_PART) {
        start(self, n - from < KL_OFFLOAD_PART ? (int)(n - from) : KL_OFFLOAD_PART, from, f);
        for (int q = 0; q < f->npair; q++) {
            const int a = f->pair[q][0] - first, b = f->pair[q][1] - first;
            dots[q] += self->result[a < b ? entry(a, b) : entry(b, a)];
        }
    }
}
#else
void kl_offload_few(const kl_offload *self, int64_t n, const kl_fuse *f, double *dots) { (void)self, (void)n, (void)f, (void)dots; }
#endif
