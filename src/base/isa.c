/* The processor's answer, and the user's wish.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/isa.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

const char *const kl_isa_name[KL_NISA] = {"avx512", "avx2", "generic"}; /* ORDER KL_ISA */

static void find(int can[KL_NISA])
{
    memset(can, 0, KL_NISA * sizeof *can);
    can[KL_ISA_GENERIC] = 1;
#if defined(__x86_64__)
    __builtin_cpu_init();
    can[KL_ISA_AVX512] = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                         __builtin_cpu_supports("avx512vl");
    can[KL_ISA_AVX2] = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
}

int kl_isa_choose(void)
{
    int can[KL_NISA], pick = 0;
    const char *const wish = getenv("KRONLAT_ISA");
    find(can);
    while (!can[pick]) pick++;
    for (int i = 0; wish && i < KL_NISA; i++)
        if (can[i] && !strcmp(wish, kl_isa_name[i])) pick = i;
    return pick;
}

kl_status kl_isa_check(kl_err *err)
{
    int can[KL_NISA], known = 0;
    char allowed[64] = "";
    const char *const wish = getenv("KRONLAT_ISA");
    find(can);
    if (!wish || !*wish) return KL_OK;
    for (int i = 0; i < KL_NISA; i++) {
        const size_t n = strlen(allowed);
        if (can[i] && !strcmp(wish, kl_isa_name[i])) return KL_OK;
        known |= !strcmp(wish, kl_isa_name[i]);
        if (can[i]) snprintf(allowed + n, sizeof allowed - n, " %s", kl_isa_name[i]);
    }
    return kl_fail(err, KL_EINPUT, "KRONLAT_ISA=%.60s: %s; allowed:%s", wish,
                   known ? "this processor has no such instructions" : "no such instruction set", allowed);
}

void kl_isa_flush_denormals(void)
{
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040); /* results that underflow, operands that are denormal */
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | (uint64_t)1 << 24));
#endif
}
