/* The operators of an enlarged block multiplied out (strategy LR): one dense matrix for each operator and
   source sector. Those of a kind are stacked: their matrices lie below each other, so that H x of two sectors
   is two products for all of them.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_OPDENSE_H
#define KL_OPDENSE_H
#include "dmrg/block.h"

/* The operators of `of` multiplied out; `of` keeps its own. */
kl_status kl_bigop_dense(const kl_bigop *of, kl_bigop **out, kl_err *err) KL_MUST_CHECK;
/* The same in the place of what g has. */
kl_status kl_bigop_make_dense(kl_bigop *g, kl_err *err) KL_MUST_CHECK;
/* Doubles that the pack has then. */
kl_status kl_bigop_dense_doubles(const kl_bigop *of, int64_t *out, kl_err *err) KL_MUST_CHECK;

/* Of a kind of operators from sector c: where their stack begins in the pack; -1: there is none. It has nop x
   rows rows, rows being those of the sector that they lead to: operator k of the kind has those from k x rows
   on. */
static inline int64_t kl_bigop_stack(const kl_bigop *g, int kind, int c)
{
    return g->stack[(int64_t)kind * g->enlarged->basis.nsec + c];
}

#endif
