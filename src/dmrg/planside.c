/* Blocks of a plan: see planside.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/planside.h"
#include <math.h>
#include <string.h>
#include "base/mem.h"

kl_plan_keep kl_plan_keeps(const kl_dmrg_opts *o, int m)
{
    /* the automatic schedule of many small sectors has noise at its largest m, too */
    int most = o->nsweep == 0 && o->many_sectors ? m + 1 + m / 4 : m;
    for (int k = 0; k < o->nsweep; k++) {
        const kl_dmrg_sweep *const s = &o->sweep[k];
        if (s->noise > 0 && s->m <= m && s->m + 1 + s->m / 4 > most) most = s->m + 1 + s->m / 4;
    }
    return (kl_plan_keep){.m = m, .opened = most - m};
}

kl_plan_keep kl_plan_begins(const kl_dmrg_opts *o, int m)
{
    const int first = o->nsweep > 0 ? o->sweep[0].m : m < KL_FIRST_MANY ? m : KL_FIRST_MANY;
    const int noise = o->nsweep > 0 ? o->sweep[0].noise > 0 : 1;
    if (kl_dmrg_starts(o) < 2 || (o->nsweep == 0 && !o->many_sectors)) return (kl_plan_keep){.m = 0};
    return (kl_plan_keep){.m = first, .opened = noise ? 1 + first / 4 : 0, .starts = o};
}

/* States, or multiplets, on the other side of the cut that complete those of charge q: a wavefunction has no
   more on this side. */
static int64_t states_beyond(const kl_engine *e, kl_side side, int cut, kl_qn q)
{
    const kl_reach *const other = side == KL_RIGHT ? &e->reach_left[cut] : &e->reach_right[cut];
    const int64_t at = kl_reach_find(other, kl_qn_sub(e->terms->model, e->target, q));
    const double log_count = at < 0 ? -INFINITY : other->log_count[at];
    return log_count < log(INT32_MAX) ? (int64_t)(exp(log_count) + 0.5) : INT32_MAX;
}

/* One state each of the sectors without any that would have some, were more states kept: those first that
   need the fewest. dim[nsec]: changed. */
static kl_status open_sectors(const kl_engine *e, kl_side side, int cut, kl_plan_keep keep,
                              const kl_basis *enlarged, int *dim, kl_err *err)
{
    enum { MOST = 1 << 30 };
    kl_status st = KL_OK;
    int *more = NULL, left = keep.opened;
    KL_TRY(kl_alloc(&more, enlarged->nsec, KL_MEM_WORK, err));
    for (int m = keep.m; left > 0 && m <= MOST / 2;) {
        m *= 2;
        KL_TRY(kl_engine_share(e, side, cut, m, enlarged, more, err));
        for (int c = 0; c < enlarged->nsec && left > 0; c++) {
            if (dim[c] > 0 || more[c] == 0) continue;
            dim[c] = 1;
            left--;
        }
    }
out:
    kl_free(&more);
    return st;
}

/* Room in each sector for the parts beyond the cut of all products, equal ones once. dim[nsec]: changed. */
static kl_status hold_products(const kl_engine *e, int cut, const kl_dmrg_opts *o, const kl_basis *enlarged,
                               int *dim, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = kl_dmrg_starts(o), nsite = e->nsite;
    const size_t beyond = sizeof *o->start * (size_t)(nsite - cut);
    kl_qn *charge = NULL;
    int *count = NULL;
    KL_TRY(kl_alloc(&charge, nsite + 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&count, enlarged->nsec, KL_MEM_WORK, err));
    for (int k = 0; k < n; k++) {
        const int *const own = o->start + (int64_t)k * nsite;
        int met = 0;
        for (int i = 0; i < k && !met; i++)
            met = memcmp(own + cut, own + (int64_t)(i - k) * nsite + cut, beyond) == 0;
        if (met) continue;
        KL_TRY(kl_engine_product_charges(e, own, charge, err));
        const int c = kl_basis_find(enlarged, charge[cut]);
        if (c >= 0 && ++count[c] > dim[c]) dim[c] = count[c];
    }
out:
    kl_free(&charge);
    kl_free(&count);
    return st;
}

kl_status kl_plan_kept(const kl_engine *e, kl_side side, int cut, kl_plan_keep keep, const kl_basis *enlarged,
                       kl_basis *out, kl_err *err)
{
    kl_status st = KL_OK;
    int *dim = NULL;
    *out = (kl_basis){0};
    KL_TRY(kl_alloc(&dim, enlarged->nsec, KL_MEM_WORK, err));
    KL_TRY(kl_engine_share(e, side, cut, keep.m, enlarged, dim, err));
    if (keep.opened > 0) KL_TRY(open_sectors(e, side, cut, keep, enlarged, dim, err));
    for (int c = 0; c < enlarged->nsec; c++) {
        const int64_t most = states_beyond(e, side, cut, enlarged->q[c]);
        if (dim[c] > most) dim[c] = (int)most;
    }
    if (side == KL_RIGHT && keep.starts) KL_TRY(hold_products(e, cut, keep.starts, enlarged, dim, err));
    KL_TRY(kl_alloc(&out->q, enlarged->nsec, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&out->dim, enlarged->nsec, KL_MEM_MISC, err));
    for (int c = 0; c < enlarged->nsec; c++) {
        if (!dim[c]) continue;
        out->q[out->nsec] = enlarged->q[c];
        out->dim[out->nsec++] = dim[c];
        out->total += dim[c];
    }
out:
    kl_free(&dim);
    if (st != KL_OK) kl_basis_clear(out);
    return st;
}

kl_status kl_plan_side_lay(kl_engine *e, kl_exec *dry, kl_side side, kl_plan_keep keep, kl_plan_side *s,
                           kl_err *err)
{
    kl_status st = KL_OK;
    kl_enlarged *en = NULL;
    kl_basis kept = {0};
    const int n = e->nsite, left = side == KL_LEFT, from = left ? 0 : n, to = left ? n - 1 : 1,
              step = left ? 1 : -1;
    KL_TRY(kl_alloc(&s->block, n + 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&s->bytes, n + 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&s->iso, n + 1, KL_MEM_MISC, err));
    KL_TRY(kl_block_create_edge(dry, e->mpo, side, e->target, &s->block[from], err));
    for (int cut = from; cut != to; cut += step) {
        const int pos = left ? cut : cut - 1;
        KL_TRY(kl_engine_enlarge(e, side, pos, &s->block[cut]->basis, &en, err));
        KL_TRY(kl_plan_kept(e, side, cut + step, keep, &en->basis, &kept, err));
        KL_TRY(kl_block_create(dry, e->mpo, side, cut + step, &kept, &s->block[cut + step], err));
        int64_t iso = 0;
        for (int k = 0; k < kept.nsec; k++)
            iso += (int64_t)kept.dim[k] * en->basis.dim[kl_basis_find(&en->basis, kept.q[k])];
        s->bytes[cut + step] = 8 * (s->block[cut + step]->ndata + iso);
        s->iso[cut + step] = iso;
        kl_basis_clear(&kept);
        kl_enlarged_destroy(&en);
    }
out:
    kl_basis_clear(&kept);
    kl_enlarged_destroy(&en);
    return st;
}

void kl_plan_side_clear(kl_plan_side *s, int nsite)
{
    for (int k = 0; s->block && k <= nsite; k++) kl_block_destroy(&s->block[k]);
    kl_free(&s->block);
    kl_free(&s->bytes);
    kl_free(&s->iso);
}
