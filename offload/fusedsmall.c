/* Linear combinations and inner products of a few vectors in one pass over memory, all in registers: the
   steps of LOBPCG and of Lanczos with one vector. What a thread of a bare region reads of the inputs is
   combined, stored and multiplied before it reads on; the products are those of all outputs, or of all inputs
   where nothing is written. Anything wider is fuse.c's.
   SPDX-License-Identifier: Apache-2.0 */
#include "fusedsmall.h"
#include "target.h"
#include <string.h>

#if KL_OFFLOAD_BARE
enum {
    MOST_IN = KL_FUSED_SMALL_IN,
    MOST_OUT = KL_FUSED_SMALL_OUT,
    MOST_SUM = 21,
    SHARED = (KL_REDUCE + MOST_IN * MOST_OUT) * 8 /* sums, coefficients */
};

#define ALWAYS static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")

#ifdef __NVPTX__
typedef __attribute__((address_space(1))) kl_two pair; /* generic accesses are slower */

ALWAYS double factor(uint32_t at) /* volatile: there are no registers for all of them at once */
{
    double v;
    __asm__ volatile("ld.shared.f64 %0,[%1];" : "=d"(v) : "r"(at));
    return v;
}

/* nin and nout are constants where this is used. pairs: of rows, a thread takes two at a time. */
ALWAYS void pass(const int nin, const int nout, int pairs, const kl_fused_small *f, kl_slot *slot,
                 double *result)
{
    double *const c = (double *)llvm_omp_target_dynamic_shared_alloc() + KL_REDUCE;
    const int n = nout ? nout : nin, nsum = n * (n + 1) / 2, me = (int)__nvvm_read_ptx_sreg_tid_x();
    const uint32_t used = f->used, coef = (uint32_t)(uintptr_t)(__attribute__((address_space(3))) double *)c;
    const uint64_t launch = kl_launch_number(slot, nsum);
    double s[MOST_SUM];
    if (nout > 0) {
        UNROLL
        for (int k = 0; k < nout; k++) UNROLL
        for (int j = 0; j < nin; j++)
            if (me == 0) c[MOST_IN * k + j] = f->c[k][j];
        kl_block_sync();
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
                if (used >> (MOST_IN * k + j) & 1)
                    out[k] += factor(coef + (uint32_t)(MOST_IN * k + j) * 8) * in[j];
            ((pair *)(uintptr_t)f->out[k])[i] = out[k];
        }
        int q = 0;
        UNROLL
        for (int b = 0; b < n; b++) UNROLL
        for (int a = 0; a <= b; a++, q++) {
            const kl_two u = nout ? out[a] : in[a], v = nout ? out[b] : in[b];
            s[q] += u[0] * v[0] + u[1] * v[1];
        }
    }
    kl_reduce(nsum, s, launch, slot, result);
}
#else
/* Never run: every pass of the compiler must see a region use the same variables in the same order. */
ALWAYS void pass(const int nin, const int nout, int pairs, const kl_fused_small *f, kl_slot *slot,
                 double *result)
{
    (void)nin, (void)nout, (void)pairs, (void)f, (void)slot, (void)result;
}
#endif

/* A step travels as single arguments, for a structure would be a copy to the device before the launch. */
enum { WORDS = 42 };
_Static_assert(sizeof(kl_fused_small) == WORDS * sizeof(uint64_t), "all of it");
#define EACH(F)                                                                                           \
    F(0)                                                                                                  \
    F(1)                                                                                                  \
    F(2)                                                                                                  \
    F(3)                                                                                                  \
    F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15) F(16) F(17) F(18) F(19) F(20) F(21) \
        F(22) F(23) F(24) F(25) F(26) F(27) F(28) F(29) F(30) F(31) F(32) F(33) F(34) F(35) F(36) F(37)   \
            F(38) F(39) F(40) F(41)
#define TAKE(i) const uint64_t w##i = word[i];
#define LIST                                                                                                 \
    w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15, w16, w17, w18, w19, w20, w21, w22, \
        w23, w24, w25, w26, w27, w28, w29, w30, w31, w32, w33, w34, w35, w36, w37, w38, w39, w40, w41

/* Elements from..from + n - 1; the sums are in self->result then. */
static void start(const kl_offload *self, int n, int64_t from, const kl_fuse *f)
{
    kl_slot *const slot = self->slot;
    double *const result = self->result;
    const kl_fused_small step = kl_fused_small_at(f, from);
    uint64_t word[WORDS];
    memcpy(word, &step, sizeof step);
    EACH(TAKE)
    const int pairs = n / 2, most = (pairs + KL_BLOCK - 1) / KL_BLOCK,
              want = self->nsm * (f->nin <= 2   ? 6
                                  : f->nin <= 4 ? 4
                                                : 2),
              teams = want < most ? want : most;
#define FEW(NIN, NOUT)                                                                     \
    case NIN * 8 + NOUT:                                                                   \
        KL_BARE(teams, 256, SHARED, is_device_ptr(slot, result) firstprivate(pairs, LIST)) \
        {                                                                                  \
            const uint64_t all[WORDS] = {LIST};                                            \
            kl_fused_small g;                                                              \
            __builtin_memcpy(&g, all, sizeof g);                                           \
            pass(NIN, NOUT, pairs, &g, slot, result);                                      \
        }                                                                                  \
        break;
#define OUTPUTS(NIN) FEW(NIN, 0) FEW(NIN, 1) FEW(NIN, 2) FEW(NIN, 3) FEW(NIN, 4) FEW(NIN, 5)
    switch (f->nin * 8 + f->nout) {
        OUTPUTS(1) OUTPUTS(2) OUTPUTS(3) OUTPUTS(4) OUTPUTS(5) OUTPUTS(6)
    }
#undef OUTPUTS
#undef FEW
}

void kl_offload_fused_small(const kl_offload *self, int64_t n, const kl_fuse *f, double *dots)
{
    double sum[KL_FUSE_MOST_PAIR] = {0.0}; /* the coefficients may stand where the products go */
    for (int64_t from = 0; from < n; from += KL_OFFLOAD_PART) {
        start(self, n - from < KL_OFFLOAD_PART ? (int)(n - from) : KL_OFFLOAD_PART, from, f);
        for (int q = 0; q < f->npair; q++) sum[q] += kl_fused_small_dot(f, q, self->result);
    }
    for (int q = 0; q < f->npair; q++) dots[q] = sum[q];
}
#else
void kl_offload_fused_small(const kl_offload *self, int64_t n, const kl_fuse *f, double *dots)
{
    (void)self, (void)n, (void)f, (void)dots;
}
#endif
