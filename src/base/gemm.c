/* Chooses the small product kernel for this CPU.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/gemm.h"
#include "base/isa.h"
#include <stddef.h>

kl_gemm_fn *kl_gemm_choose(const char **name)
{
    static kl_gemm_fn *const fns[KL_NISA] = { /* ORDER KL_ISA */
#if defined(__x86_64__)
                                             kl_gemm_avx512, kl_gemm_avx2,
#else
                                             NULL, NULL,
#endif
                                             kl_gemm_generic};
    const int pick = kl_isa_choose();
    if (name) *name = kl_isa_name[pick];
    return fns[pick];
}
