/* Channels of operators of the total spin, and their coefficients: see channel.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/channel.h"
#include "base/mem.h"
#include "model/wigner.h"
#include "phase.h"
#include <math.h>
#include <string.h>

#define ZERO 1e-15 /* Wigner's symbols have zeros by accident */

typedef struct channels {
    kl_mpo *m;
    int **first; /* [nsite + 1][nop + 1]: channels of each operator of a cut */
    int64_t cap, n;
    kl_grow *grow;
    kl_err *err;
} channels;

static kl_status expand_operators(channels *c, int cut)
{
    kl_status st = KL_OK;
    kl_mpo *const m = c->m;
    const int spin = kl_model_spin(m->model), old = m->nop[cut];
    kl_cut_op *op = NULL;
    int n = 0;
    KL_TRY(kl_alloc(&c->first[cut], old + 1, KL_MEM_RECORD, c->err));
    for (int b = 0; b < old; b++) {
        c->first[cut][b] = n;
        n += m->op[cut][b].rank + 1;
    }
    c->first[cut][old] = n;
    KL_TRY(kl_alloc(&op, n, KL_MEM_RECORD, c->err));
    for (int b = 0; b < old; b++)
        for (int k = 0; k <= m->op[cut][b].rank; k++) {
            kl_cut_op *const x = &op[c->first[cut][b] + k];
            *x = m->op[cut][b];
            x->shift.v[spin] = (int16_t)(2 * k - x->rank);
        }
    kl_free(&m->op[cut]);
    m->op[cut] = op;
    m->nop[cut] = n;
out:
    return st;
}

/* Records of one operator's channels: those of the operator, for each channel of what they grow from. */
static kl_status expand_list(channels *c, kl_grow_list **list, int to, int from)
{
    kl_status st = KL_OK;
    const int n = c->m->nop[to];
    kl_grow_list *grown = NULL;
    KL_TRY(kl_alloc(&grown, n, KL_MEM_RECORD, c->err));
    for (int b = 0, k = 0; k < n; k++) {
        if (k == c->first[to][b + 1]) b++;
        grown[k].first = c->n;
        for (int64_t r = (*list)[b].first; r < (*list)[b].first + (*list)[b].n; r++) {
            const kl_grow w = c->m->grow[r];
            const int first = c->first[from][w.in], last = c->first[from][w.in + 1];
            if (c->n + last - first > c->cap) {
                const int64_t cap = 2 * c->cap + 64 + last - first;
                KL_TRY(kl_realloc(&c->grow, cap, KL_MEM_RECORD, c->err));
                c->cap = cap;
            }
            for (int in = first; in < last; in++) {
                c->grow[c->n] = w;
                c->grow[c->n++].in = in;
            }
        }
        grown[k].n = (int)(c->n - grown[k].first);
    }
    kl_free(list);
    *list = grown;
    grown = NULL;
out:
    kl_free(&grown);
    return st;
}

kl_status kl_channels_make(kl_mpo *m, kl_err *err)
{
    kl_status st = KL_OK;
    channels c = {.m = m, .err = err};
    KL_TRY(kl_alloc(&c.first, m->nsite + 1, KL_MEM_RECORD, err));
    m->nop_max = 0;
    for (int cut = 0; cut <= m->nsite; cut++) {
        KL_TRY(expand_operators(&c, cut));
        if (m->nop[cut] > m->nop_max) m->nop_max = m->nop[cut];
    }
    for (int p = 0; p < m->nsite; p++) {
        KL_TRY(expand_list(&c, &m->left[p], p + 1, p));
        KL_TRY(expand_list(&c, &m->right[p], p, p + 1));
    }
    kl_free(&m->grow);
    m->grow = c.grow;
    m->ngrow = c.n;
    c.grow = NULL;
out:
    for (int cut = 0; c.first != NULL && cut <= m->nsite; cut++) kl_free(&c.first[cut]);
    kl_free(&c.first);
    kl_free(&c.grow);
    return st;
}

/* 0 where the spins do not couple. */
static double coupling(const kl_junction *at)
{
    const kl_mpo *const m = at->block->mpo;
    const int spin = kl_model_spin(m->model), right = at->block->side == KL_RIGHT;
    const kl_cut_op *const in = &m->op[at->block->cut][at->grow->in];
    const kl_qn *const block = at->block->basis.q, *const whole = at->enlarged->basis.q;
    const int *const step = at->enlarged->site->spin;
    const kl_leg one = {block[at->block_sec[0]].v[spin], in->rank, block[at->block_sec[1]].v[spin]},
                 site = {step[at->step[0]], at->site->rank, step[at->step[1]]},
                 both = {whole[at->sec[0]].v[spin], m->op[at->cut][at->op].rank, whole[at->sec[1]].v[spin]};
    const double g = right ? kl_couple(site, one, both) : kl_couple(one, site, both);
    if (fabs(g) < ZERO) return 0;
    return at->grow->dag ? g * kl_tilde(one.to, one.from, one.k) : g;
}

double kl_junction_factor(const kl_junction *at, const int *odd)
{
    const kl_mpo *const m = at->block->mpo;
    const int sign = at->block->side == KL_RIGHT
                         ? kl_phase_record(m->op[at->block->cut][at->grow->in].odd, odd[at->step[0]])
                         : kl_phase_record(at->site->odd, odd[at->block_sec[0]]);
    return kl_model_spin(m->model) < 0 ? sign : sign * coupling(at);
}

double kl_channel_scalar(const kl_mpo *m, const kl_cut_op *o, int from, int to, const kl_basis *row)
{
    const int spin = kl_model_spin(m->model);
    return spin < 0 ? 1.0 : kl_scalar(row->q[to].v[spin], row->q[from].v[spin], o->rank);
}
