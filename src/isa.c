/* The processor's answer, and the user's wish.
   SPDX-License-Identifier: Apache-2.0 */
#include "isa.h"
#include <stdlib.h>
#include <string.h>

const char *const kl_isa_name[KL_NISA] = {"avx512", "avx2", "generic"}; /* ORDER KL_ISA */

int kl_isa_choose(void)
{
    int can[KL_NISA] = {[KL_ISA_GENERIC] = 1}, pick = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    can[KL_ISA_AVX512] = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    can[KL_ISA_AVX2] = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    const char *const wish = getenv("KRONLAT_ISA");
    while (!can[pick]) pick++;
    for (int i = 0; wish && i < KL_NISA; i++)
        if (can[i] && !strcmp(wish, kl_isa_name[i])) pick = i;
    return pick;
}
