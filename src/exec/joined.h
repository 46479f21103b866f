/* Lists with their second level joined (elwasif): of all products into one output, W = B X, the right-hand
   factors are stacked, so that Y = sum_J W_J A_J^t becomes one product. On any executor that runs lists; CUDA
   has this by itself, with cuBLAS, as --projection concat.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_JOINED_H
#define KL_JOINED_H
#include "exec/exec.h"

/* An executor like `inner`, which it takes, that joins lists that are applied many times (kl_batch.lasting):
   their first level is one batch of products, their second one product an output. */
kl_status kl_exec_open_joined_take(kl_exec **inner, kl_exec **out, kl_err *err) KL_MUST_CHECK;

#endif
