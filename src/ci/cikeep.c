/* What a configuration interaction keeps of itself: see cikeep.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/cikeep.h"

#include <string.h>

#include "base/mem.h"

static const int MARK = 7100; /* the first of the numbers that are kept */
enum {
    HEAD = 3,
    SECTOR = 4,
};

/* ORDER of the numbers: these, then each irrep's, then the solver's. */
static void list_head(kl_cikeep *k, kl_keep_list *l)
{
    int mark = MARK;
    kl_keep_int(l, &mark);
    kl_keep_int(l, &k->irrep);
    kl_keep_int(l, &k->last);
}

static void list_sector(kl_cisector *s, kl_ci_block *b, kl_keep_list *l)
{
    kl_keep_int(l, &s->done);
    kl_keep_int(l, &b->napply);
    kl_keep_int(l, &b->converged);
    kl_keep_reals(l, 1, &b->residual);
    kl_keep_reals(l, s->nvec, s->energy);
    kl_keep_reals(l, s->nvec, s->residual);
}

static int64_t own_numbers(const kl_cikeep *k)
{
    int64_t n = HEAD;
    for (int g = 0; g < 8; g++) n += SECTOR + 2 * (int64_t)k->s[g].nvec;
    return n;
}

/* Vectors of the irreps that have been solved; n: their lengths, if it is not NULL. */
static int list_vectors(const kl_cikeep *k, kl_dptr *vector, int64_t *n)
{
    int count = 0;
    for (int g = 0; g < 8; g++)
        for (int v = 0; k->s[g].done > 0 && v < k->s[g].nvec; v++) {
            if (vector) vector[count] = kl_dptr_at(k->s[g].x, v * k->s[g].space->n);
            if (n) n[count] = k->s[g].space->n;
            count++;
        }
    return count;
}

/* solver: NULL between two irreps. */
static kl_status write_all(kl_cikeep *k, const kl_keep *solver, kl_err *err)
{
    kl_status st = KL_OK;
    const int nown = list_vectors(k, NULL, NULL), nsolver = solver ? solver->nvector : 0;
    double *number = NULL;
    kl_dptr *vector = NULL;
    const double **far = NULL;
    int64_t *n = NULL;
    kl_keep out = {.nnumber = own_numbers(k) + (solver ? solver->nnumber : 0), .nvector = nown + nsolver};
    KL_TRY(kl_alloc(&number, out.nnumber, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&vector, out.nvector, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&far, out.nvector, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&n, out.nvector, KL_MEM_WORK, err));
    kl_keep_list l = {.at = number};
    list_head(k, &l);
    for (int g = 0; g < 8; g++) list_sector(&k->s[g], &k->block[g], &l);
    list_vectors(k, vector, n);
    if (solver) memcpy(l.at, solver->number, (size_t)solver->nnumber * sizeof *number);
    for (int v = 0; v < nsolver; v++) {
        vector[nown + v] = solver->vector[v];
        far[nown + v] = solver->far ? solver->far[v] : NULL;
        n[nown + v] = k->s[k->irrep].space->n;
    }
    out.number = number;
    out.vector = vector;
    out.far = far;
    out.n = n;
    KL_TRY(k->to->write(k->to->self, &out, err));
out:
    kl_free(&number);
    kl_free(&vector);
    kl_free(&far);
    kl_free(&n);
    return st;
}

static int due(void *self) { return ((const kl_cikeep *)self)->to->due(((const kl_cikeep *)self)->to->self); }

static kl_status write(void *self, const kl_keep *solver, kl_err *err)
{
    return write_all(self, solver, err);
}

static kl_status refuse(const kl_keep *from, kl_err *err)
{
    return kl_fail(
        err, KL_EINPUT,
        "--resume: the %lld numbers and %d vectors kept are not those of this run; space, irreps, roots "
        "and solver have to stay as they were",
        (long long)from->nnumber, from->nvector);
}

kl_status kl_cikeep_take_up(kl_cikeep *k, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_keep *const from = k->to ? k->to->from : NULL;
    const int64_t nown = own_numbers(k);
    kl_dptr *vector = NULL;
    int64_t *n = NULL;
    k->irrep = -1;
    if (from == NULL) return KL_OK;
    for (int v = 0; v < from->nvector; v++) {
        int known = 0;
        for (int g = 0; g < 8; g++) known |= k->s[g].nvec > 0 && k->s[g].space->n == from->n[v];
        for (int g = 0; g < 8 && !known; g++)
            if (k->s[g].nvec > 0)
                return kl_fail(err, KL_EINPUT,
                               "--resume: vectors of %lld numbers are kept; this run needs %lld",
                               (long long)from->n[v], (long long)k->s[g].space->n);
    }
    const double *const f = from->number;
    if (from->nnumber < nown || f[0] != MARK || !(f[1] >= -1 && f[1] < 8)) return refuse(from, err);
    kl_keep_list l = {.at = (double *)(uintptr_t)f, .reading = 1};
    list_head(k, &l);
    for (int g = 0; g < 8; g++) {
        list_sector(&k->s[g], &k->block[g], &l);
        if (k->s[g].done < 0 || k->s[g].done > 2 || (k->s[g].done > 0 && k->s[g].nvec == 0))
            return refuse(from, err);
    }
    const int count = list_vectors(k, NULL, NULL);
    if (count > from->nvector || (k->irrep >= 0 && k->s[k->irrep].nvec == 0)) return refuse(from, err);
    KL_TRY(kl_alloc(&vector, count, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&n, count, KL_MEM_WORK, err));
    list_vectors(k, vector, n);
    for (int v = 0; v < from->nvector; v++)
        if (from->n[v] != (v < count ? n[v] : k->irrep >= 0 ? k->s[k->irrep].space->n : 0))
            KL_TRY(refuse(from, err));
    for (int g = 0, at = 0; g < 8; g++) {
        const kl_cisector *const s = &k->s[g];
        const kl_keep own = kl_keep_behind(from, 0, at);
        if (s->done == 0) continue;
        KL_TRY(kl_keep_take(&own, &s->op, s->nvec, vector + at, err));
        at += s->nvec;
    }
    k->solver = kl_keep_behind(from, nown, count);
out:
    kl_free(&vector);
    kl_free(&n);
    return st;
}

kl_status kl_cikeep_solve(kl_cikeep *k, int irrep, const kl_ci_opts *o, const kl_cisector_stage *g,
                          const kl_ci_monitor *monitor, kl_err *err)
{
    kl_status st = KL_OK;
    kl_keeper keeper = {.self = k, .due = due, .write = write};
    if (k->irrep == irrep && k->last == g->last && k->solver.nnumber > 0) keeper.from = &k->solver;
    k->irrep = irrep;
    k->last = g->last;
    KL_TRY(kl_cisector_solve(&k->s[irrep], o, g, monitor, k->to ? &keeper : NULL, &k->block[irrep], err));
    if (k->s[irrep].stats.stopped) return KL_OK;
    k->irrep = -1;
    k->solver.nnumber = 0;
    if (k->to && k->to->due(k->to->self)) KL_TRY(write_all(k, NULL, err));
out:
    return st;
}
