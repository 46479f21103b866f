/* Chooses the small product kernel for this CPU.
   SPDX-License-Identifier: Apache-2.0 */
#include "gemm.h"
#include <stdlib.h>
#include <string.h>

kl_gemm_fn *kl_gemm_choose(const char **name)
{
    static const char *const names[] = {"avx512", "avx2", "generic"};
    static kl_gemm_fn *const fns[] = {
#if defined(__x86_64__)
        kl_gemm_avx512, kl_gemm_avx2,
#else
        NULL, NULL,
#endif
        kl_gemm_generic};
    int can[3] = {0, 0, 1};
#if defined(__x86_64__)
    __builtin_cpu_init();
    can[0] = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    can[1] = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    const char *const wish = getenv("KRONLAT_ISA");
    int pick = can[0] ? 0 : can[1] ? 1 : 2;
    for (int i = 0; wish && i < 3; i++)
        if (!strcmp(wish, names[i]) && can[i]) pick = i;
    if (name) *name = names[pick];
    return fns[pick];
}
