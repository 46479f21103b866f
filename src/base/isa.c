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

#if defined(__x86_64__)
/* Exceptions masked, to nearest; results that underflow and operands that are denormal are 0. */
enum { OUR_MODE = 0x1f80 | 0x8040 };

uint64_t kl_isa_flush_denormals(void)
{
    const uint64_t before = _mm_getcsr();
    _mm_setcsr(OUR_MODE);
    return before;
}

void kl_isa_restore_mode(uint64_t mode) { _mm_setcsr((unsigned)mode); }
#elif defined(__aarch64__)
uint64_t kl_isa_flush_denormals(void)
{
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    kl_isa_restore_mode((uint64_t)1 << 24);
    return before;
}

void kl_isa_restore_mode(uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }
#else
uint64_t kl_isa_flush_denormals(void) { return 0; }

void kl_isa_restore_mode(uint64_t mode) { (void)mode; }
#endif
