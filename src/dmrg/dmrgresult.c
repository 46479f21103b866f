/* What a run found: its memory.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/dmrg.h"
#include "base/mem.h"

void kl_dmrg_result_clear(kl_dmrg_result *r)
{
    kl_free(&r->row);
    kl_free(&r->entropy);
    kl_free(&r->energy);
    kl_free(&r->energy_kept);
}

kl_status kl_dmrg_result_levels(kl_dmrg_result *r, int nstate, kl_err *err)
{
    kl_status st = KL_OK;
    const int room = nstate > 0 ? nstate : 1;
    kl_free(&r->energy);
    kl_free(&r->energy_kept);
    r->nstate = 0;
    KL_TRY(kl_alloc(&r->energy, room, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&r->energy_kept, room, KL_MEM_MISC, err));
    r->nstate = nstate;
out:
    return st;
}
