/* What Davidson's method keeps of itself: see davidsonbase.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "solve/davidsonbase.h"

#include <string.h>

#include "base/dense.h"
#include "base/mem.h"

kl_status kl_davidson_small_problem(kl_davidson *s, kl_err *err)
{
    for (int j = 0; j < s->k; j++)
        memcpy(s->y + (int64_t)j * s->limit, s->b + (int64_t)j * s->limit, (size_t)s->k * sizeof(double));
    return kl_dense_eig(s->k, s->y, s->limit, s->theta, err);
}

static const int MARK = 7001; /* the first of the numbers that this solver keeps */
enum { COURSE = 8 };

static int64_t kept_numbers(const kl_davidson *s, int k)
{
    return 5 + KL_EIG_STATS + KL_KEEP_BITS + COURSE + 2 + 2 * (int64_t)s->nroot + (int64_t)k * k;
}

/* Behind them, where columns wait on the host. */
enum { SPLIT = 2 };

int kl_davidson_kept_split(const kl_davidson *s, int64_t *nv, int64_t *nw)
{
    const kl_keep *const from = s->opts->keeper ? s->opts->keeper->from : NULL;
    const double *const f = from ? from->number : NULL;
    if (!f || from->nnumber < 5 || f[0] != MARK || !(f[2] >= s->nroot && f[2] <= s->limit) ||
        from->nnumber != kept_numbers(s, (int)f[2]) + SPLIT)
        return 0;
    const double *const split = f + from->nnumber - SPLIT;
    if (!(split[0] >= s->nroot && split[0] <= s->limit && split[1] >= 0 && split[1] <= s->limit)) return 0;
    *nv = (int64_t)split[0];
    *nw = (int64_t)split[1];
    return 1;
}

/* ORDER of the numbers. k: vectors of V, all of them multiplied. */
static void list_state(kl_davidson *s, kl_davidson_course *c, kl_davidson_moment *m, kl_keep_list *l)
{
    int mark = MARK;
    kl_keep_int(l, &mark);
    kl_keep_int(l, &s->nroot);
    kl_keep_int(l, &s->k);
    kl_keep_int(l, &s->nwant);
    kl_keep_int(l, &m->step);
    kl_eig_stats_list(l, s->stats);
    kl_keep_bits(l, &s->v.random);
    kl_keep_reals(l, 1, &c->first0);
    kl_keep_reals(l, 1, &c->best);
    kl_keep_reals(l, 1, &c->previous);
    kl_keep_int(l, &c->best_step);
    kl_keep_int(l, &c->disturbed);
    kl_keep_int(l, &c->guarded);
    kl_keep_int(l, &c->guard_step);
    kl_keep_int(l, &c->confirmed);
    kl_keep_reals(l, 1, &m->norm_h);
    kl_keep_reals(l, 1, &m->spread);
    kl_keep_reals(l, s->nroot, s->residual);
    kl_keep_reals(l, s->nroot, s->goal);
    for (int j = 0; j < s->k; j++) kl_keep_reals(l, s->k, s->b + (int64_t)j * s->limit);
    int split[SPLIT] = {s->v.c.ndev, s->w.ndev};
    for (int i = 0; i < SPLIT && s->cpu; i++) kl_keep_int(l, &split[i]);
}

/* Columns of V, then those of W. */
static kl_status list_columns(const kl_davidson *s, int k, kl_dptr **out, kl_err *err)
{
    const kl_status st = kl_alloc(out, 2 * (int64_t)k, KL_MEM_WORK, err);
    for (int j = 0; j < k && st == KL_OK; j++) {
        (*out)[j] = kl_ortho_at(&s->v, j);
        (*out)[k + j] = kl_columns_at(&s->w, j);
    }
    return st;
}

static const double *waiting(const kl_columns *c, int j)
{
    return j < c->ndev ? NULL : c->host + (j - c->ndev) * c->ld;
}

kl_status kl_davidson_keep(kl_davidson *s, const kl_davidson_course *c, const kl_davidson_moment *m,
                           kl_err *err)
{
    kl_status st = KL_OK;
    kl_davidson_course told = *c;
    kl_davidson_moment now = *m;
    double *number = NULL;
    kl_dptr *vector = NULL;
    const double **far = NULL;
    const int64_t n = kept_numbers(s, s->k) + (s->cpu ? SPLIT : 0);
    KL_TRY(kl_alloc(&number, n, KL_MEM_WORK, err));
    KL_TRY(list_columns(s, s->k, &vector, err));
    KL_TRY(kl_alloc(&far, 2 * (int64_t)s->k, KL_MEM_WORK, err));
    for (int j = 0; j < s->k; j++) far[j] = waiting(&s->v.c, j), far[s->k + j] = waiting(&s->w, j);
    list_state(s, &told, &now, &(kl_keep_list){.at = number});
    const kl_keep out = {
        .nnumber = n, .number = number, .nvector = 2 * s->k, .vector = vector, .far = s->cpu ? far : NULL};
    KL_TRY(s->opts->keeper->write(s->opts->keeper->self, &out, err));
out:
    kl_free(&number);
    kl_free(&vector);
    kl_free(&far);
    return st;
}

/* Columns of V, or, behind `before` vectors that are kept, of W: those of the device at once, the others
   through the buffer. */
static kl_status take_columns(const kl_davidson *s, const kl_columns *c, int before, const kl_dptr *to,
                              kl_err *err)
{
    kl_status st = KL_OK;
    for (int j = 0, some; j < s->k; j += some) {
        const kl_keep rest = kl_keep_behind(s->opts->keeper->from, 0, before + j);
        const int left = s->k - j;
        some = j < c->ndev ? (left < c->ndev - j ? left : c->ndev - j) : left < c->nplace ? left : c->nplace;
        KL_TRY(kl_keep_take(&rest, s->h, some, to + j, err));
        for (int i = j; i < j + some; i++) KL_TRY(kl_columns_settle(c, i, err));
    }
out:
    return st;
}

kl_status kl_davidson_take_up(kl_davidson *s, kl_davidson_course *c, kl_davidson_moment *m, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_keep *const from = s->opts->keeper->from;
    const double *const f = from->number;
    kl_dptr *vector = NULL;
    if (from->nnumber < 5 || f[0] != MARK || f[1] != s->nroot || !(f[2] >= s->nroot && f[2] <= s->limit) ||
        !(f[3] >= s->nroot && f[3] <= s->nroot + 1) ||
        from->nnumber != kept_numbers(s, (int)f[2]) + (s->cpu ? SPLIT : 0) || from->nvector != 2 * (int)f[2])
        return kl_eig_refuse(from, "Davidson", s->nroot, err);
    list_state(s, c, m, &(kl_keep_list){.at = (double *)(uintptr_t)f, .reading = 1});
    if (c->guard_step < 0 || c->best_step < 0 || s->stats->napply < 0 || m->step < 0)
        return kl_eig_refuse(from, "Davidson", s->nroot, err);
    s->kw = s->k;
    KL_TRY(list_columns(s, s->k, &vector, err));
    KL_TRY(take_columns(s, &s->v.c, 0, vector, err));
    KL_TRY(take_columns(s, &s->w, s->k, vector + s->k, err));
    for (int i = 0; i < s->k; i++)
        for (int j = 0; j < i; j++) s->b[i + (int64_t)j * s->limit] = s->b[j + (int64_t)i * s->limit];
    KL_TRY(kl_davidson_small_problem(s, err));
out:
    kl_free(&vector);
    return st;
}
