/* Times of one process, divided as ranks divide the work; what all of them do alike, and what travels, is
   added. See rankplan.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/rankplan.h"

#include <math.h>

#include "base/mem.h"
#include "comm/share.h"
#include "comm/sharecut.h"
#include "run/tune.h"

/* MPI through the memory of one machine, or a network of 25 Gb/s; GPUs of one machine by NCCL, 218 GB/s and
   32 us between two H100. */
static const kl_rankrate assumed[] = {{.rate = 3e9, .latency = 2e-5}, {.rate = 2e11, .latency = 3e-5}};

kl_rankrate kl_rankplan_between(int devices)
{
    kl_rankrate found = assumed[devices != 0];
    (void)kl_tune_rate(devices, &found);
    return found;
}

/* Of a sweep: records, the wave's transform and small lists, which every rank does, and what ranks wait for
   each other, of processors and of devices. With it two ranks of a core take 0.68, 0.65, 0.64 and 0.64 of
   one's time at m = 500 (Hubbard chain, Heisenberg chains of S=1/2 and 1, Hubbard cylinder); 0.68, 0.65, 0.67
   and 0.63 were measured. */
static const double alike[] = {0.12, 0.08};
/* Of each product with H, of truncation and growth at a bond, of its expansion before a step of one site. */
static const double exchanges = 5, others = 20, expansion = 6;
/* Vectors in the memory that processors of one machine have in common: two, with room to grow. */
#define IN_COMMON 2.5
/* Numbers of a rank's vector from which buffers of ed are an eighth of it, and not one more: kronspread.c. */
#define FEW_ROWS 67108864.0

static int rows_of(int most)
{
    int n = 1;
    for (int r = 1; r < most; r *= 2) n++;
    return n;
}

static int ranks_of(int row, int most) { return row < 30 && (1 << row) < most ? 1 << row : most; }

/* The longest of the ranks' parts of H x, as a share of all; *idle: ranks without one. */
static kl_status longest(const kl_dmrg_plan *p, int devices, int ranks, double *share, int *idle, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch list = p->apply; /* borrows its records */
    kl_cut_border *border = NULL;
    double *speed = NULL, all = 0, most = 0;
    int *order = NULL;
    list.parts = 1;
    KL_TRY(kl_alloc(&order, list.ngroup, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&speed, ranks, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&border, ranks + 1, KL_MEM_WORK, err));
    for (int r = 0; r < ranks; r++) speed[r] = 1;
    KL_TRY(kl_cut_order(&list, order, err));
    KL_TRY(kl_cut_find(&list, order, ranks, speed, kl_share_message(devices), border, err));
    *idle = 0;
    for (int r = 0; r < ranks; r++) {
        const double part = kl_cut_flop(&list, order, border[r], border[r + 1]);
        most = fmax(most, part);
        all += part;
        *idle += border[r].group == border[r + 1].group && border[r].column == border[r + 1].column;
    }
    *share = all > 0 ? most / all : 1;
out:
    kl_free(&order);
    kl_free(&speed);
    kl_free(&border);
    return st;
}

kl_status kl_rankplan_dmrg(const kl_dmrg_plan *p, int devices, int most, const kl_rankrate *between, int *n,
                           kl_rankplan **out, kl_err *err)
{
    kl_status st = KL_OK;
    const double nstep = 2.0 * (p->nsite > 3 ? p->nsite - 2 : 1), dim = 8.0 * (double)p->dim;
    const double products = p->products;
    const double block = 8.0 * (double)p->operator_doubles / p->nsite;
    const int one = p->sites == 1;
    *n = rows_of(most);
    KL_TRY(kl_alloc(out, *n, KL_MEM_MISC, err));
    for (int i = 0; i < *n; i++) {
        kl_rankplan *const r = &(*out)[i];
        double share;
        r->ranks = ranks_of(i, most);
        const double else_where = 1.0 - 1.0 / r->ranks, several = r->ranks > 1;
        KL_TRY(longest(p, devices, r->ranks, &share, &r->idle, err));
        r->traffic = nstep * else_where * (products * dim + (one ? 3 : 2) * block);
        r->seconds = p->seconds_sweep * (alike[devices] + (1 - alike[devices]) * share) +
                     r->traffic / between->rate +
                     several * nstep * (products * exchanges + others + one * expansion) * between->latency;
        const double spread =
            8.0 * ((double)p->solver_doubles + fmax(0, (double)(p->operator_doubles - p->centre_doubles)));
        const double sweep = (double)p->sweep_bytes - else_where * spread +
                             several * dim * (devices ? 1 : IN_COMMON / r->ranks);
        r->bytes = fmax(sweep, (double)p->measuring_bytes); /* every rank has the last state as a whole */
        r->efficiency = p->seconds_sweep / (r->ranks * r->seconds);
    }
out:
    return st;
}

kl_status kl_rankplan_ed(const kl_ed_plan *p, int most, const kl_rankrate *between, int *n, kl_rankplan **out,
                         kl_err *err)
{
    kl_status st = KL_OK;
    *n = rows_of(most);
    KL_TRY(kl_alloc(out, *n, KL_MEM_MISC, err));
    for (int i = 0; i < *n; i++) {
        kl_rankplan *const r = &(*out)[i];
        r->ranks = ranks_of(i, most);
        const double part = p->vector_bytes / r->ranks, several = r->ranks > 1;
        r->traffic = 2 * part * (1.0 - 1.0 / r->ranks); /* there, and back */
        r->seconds =
            p->seconds_apply / r->ranks + r->traffic / between->rate + several * exchanges * between->latency;
        r->bytes = p->nvector * part + p->table_bytes +
                   several * (part < 8.0 * FEW_ROWS ? part : part / 8); /* what is on its way */
        r->efficiency = p->seconds_apply / (r->ranks * r->seconds);
        /* tiles of eight states of the right half each */
        r->idle = r->ranks > p->size.right / 8 ? (int)(r->ranks - ceil(p->size.right / 8)) : 0;
    }
out:
    return st;
}
