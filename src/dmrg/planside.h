/* The blocks of one side of a run that does not run: laid out at every cut as if so many states were kept,
   without numbers.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PLANSIDE_H
#define KL_PLANSIDE_H
#include "dmrg/dmrg.h"
#include "dmrg/engine.h"

/* States that a truncation keeps: m by weight, and one of each of so many more sectors, which noise opened
   (`reopen' of kl_select). starts: NULL, or whose products the right blocks hold as well, as when a run
   begins. */
typedef struct kl_plan_keep {
    int m, opened;
    const kl_dmrg_opts *starts;
} kl_plan_keep;

/* What the sweeps of a run keep at most where m is the largest of them. Pure. */
kl_plan_keep kl_plan_keeps(const kl_dmrg_opts *o, int m);

/* The same of the first sweep. m: 0, it begins with no products of its own. */
kl_plan_keep kl_plan_begins(const kl_dmrg_opts *o, int m);

typedef struct kl_plan_side {
    kl_block **block; /* [nsite+1] */
    int64_t *bytes; /* [nsite+1]: operators and isometry of each cut */
    int64_t *iso; /* [nsite+1]: numbers of that isometry */
} kl_plan_side;

/* Kept basis at `cut` of a block whose enlarged basis is given. */
kl_status kl_plan_kept(const kl_engine *e, kl_side side, int cut, kl_plan_keep keep, const kl_basis *enlarged,
                       kl_basis *out, kl_err *err) KL_MUST_CHECK;

/* All blocks of a side; dry: an executor that gives no memory. s: empty before. */
kl_status kl_plan_side_lay(kl_engine *e, kl_exec *dry, kl_side side, kl_plan_keep keep, kl_plan_side *s,
                           kl_err *err) KL_MUST_CHECK;
void kl_plan_side_clear(kl_plan_side *s, int nsite);

#endif
