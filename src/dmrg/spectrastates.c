/* The states that are kept, from where their weights were found to the isometry: see spectra.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/spectrum.h"
#include "base/dense.h"
#include "base/mem.h"
#include "base/par.h"
#include "dmrg/reflect.h"
#include "exec/eigshare.h"
#include <string.h>

/* Neighbouring columns of one sector that are kept, and where the isometry has them. */
typedef struct columns {
    const kl_spectrum *sp;
    double *to;
    int first, count;
    kl_status status;
} columns;
static int there(const kl_spectrum *sp) { return !sp->vec && sp->reduced.n == 0; }

/* To the host, unless they are with the executor. */
static void bring_columns(void *self, int64_t task, int thread)
{
    columns *const c = (columns *)self + task;
    const kl_spectrum *const sp = c->sp;
    (void)thread;
    if (there(sp)) return;
    if (sp->vec)
        memcpy(c->to, sp->vec + (int64_t)c->first * sp->rows,
               (size_t)c->count * (size_t)sp->rows * sizeof *c->to);
    else kl_divided_columns(&sp->reduced, c->first, c->count, c->to);
    if (sp->reflections)
        c->status =
            kl_dense_eig_transform(sp->rows, sp->reflections, sp->rows, sp->factor, c->count, c->to, NULL);
}

/* Back-transforms the vectors of those runs whose reflections the executor has: they begin at data as they do
   at `host`. */
static kl_status transform_reduced(const kl_spectra *t, int64_t nrun, const columns *run, const double *host,
                                   int64_t ndata, kl_dptr data, kl_err *err)
{
    kl_status st = KL_OK;
    int *n = NULL, *count = NULL, nmat = 0;
    int64_t *off = NULL, *at = NULL;
    KL_TRY(kl_alloc(&n, t->nthere, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&count, t->nthere, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&off, t->nthere, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&at, t->nthere, KL_MEM_WORK, err));
    const kl_spectrum *last = NULL;
    for (int64_t k = 0; k < nrun; k++) {
        const kl_spectrum *const sp = run[k].sp;
        if (sp->reduced.n == 0 || sp->reflections) continue;
        if (sp != last) {
            n[nmat] = sp->rows;
            off[nmat] = t->off[sp - t->sp];
            at[nmat++] = run[k].to - host;
        }
        count[nmat - 1] += run[k].count;
        last = sp;
    }
    const kl_reflections q = {.nmat = nmat, .n = n, .off = off, .v = t->rho, .nv = t->length};
    const kl_reflected z = {.count = count, .at = at, .data = data, .ndata = ndata};
    KL_TRY(kl_reflect(t->ex, &q, &z, err));
out:
    kl_free(&n);
    kl_free(&count);
    kl_free(&off);
    kl_free(&at);
    return st;
}

/* Sector by sector: from where the kept states are to data[ndata], `total` states. */
static kl_status gather(const kl_spectra *t, const kl_weight *w, int64_t nw, int64_t total, int64_t ndata,
                        kl_dptr data, kl_err *err)
{
    enum { TOGETHER = 48 }; /* columns a thread transforms at a time */
    kl_status st = KL_OK;
    double *host = NULL;
    columns *run = NULL;
    /* numbers of data so far; those from `from` to `end` are still on the host */
    int64_t at = 0, from = 0, end = 0, nrun = 0;
    int making = 0, transforming = 0; /* columns here; with reflections that the executor has */
    KL_TRY(kl_realloc(&host, ndata, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&run, total, KL_MEM_WORK, err));
    for (int64_t i = 0; i < nw; i++) {
        if (!w[i].keep) continue;
        const kl_spectrum *const sp = &t->sp[w[i].sec];
        if (!kl_spectra_own(t, w[i].sec)) {
            at += t->rows[w[i].sec];
            continue;
        }
        columns *const last = nrun > 0 ? &run[nrun - 1] : NULL;
        if (last && last->sp == sp && last->first + last->count == w[i].column &&
            (there(sp) || last->count < TOGETHER))
            last->count++;
        else run[nrun++] = (columns){.sp = sp, .to = host + at, .first = w[i].column, .count = 1};
        making |= sp->reflections || sp->reduced.n > 0;
        transforming |= sp->reduced.n > 0 && !sp->reflections;
        at += sp->rows;
    }
    kl_par_for(making ? t->ex->nthread : 1, nrun, bring_columns, run);
    for (int64_t k = 0; k < nrun; k++) {
        const kl_spectrum *const sp = run[k].sp;
        const int64_t place = run[k].to - host, count = (int64_t)run[k].count * sp->rows;
        if (run[k].status != KL_OK) {
            st = kl_fail(err, run[k].status, "truncation: no memory to transform %d kept states of %d rows",
                         run[k].count, sp->rows);
            goto out;
        }
        if (place > end) { /* others' lie between */
            KL_TRY(t->ex->vt.upload(t->ex, kl_dptr_at(data, from), host + from, end - from, err));
            from = place;
        }
        end = place + count;
        if (!there(sp)) continue;
        KL_TRY(t->ex->vt.upload(t->ex, kl_dptr_at(data, from), host + from, place - from, err));
        const int64_t there_at = t->off[sp - t->sp] + (int64_t)run[k].first * sp->rows;
        if (!kl_leading_least(&t->lead, (int)(sp - t->sp))) /* those are made later */
            t->ex->vt.copy(t->ex, count, kl_dptr_at(t->rho, there_at), kl_dptr_at(data, place));
        from = end;
    }
    KL_TRY(t->ex->vt.upload(t->ex, kl_dptr_at(data, from), host + from, end - from, err));
    if (transforming) KL_TRY(transform_reduced(t, nrun, run, host, ndata, data, err));
out:
    kl_free(&run);
    kl_free(&host);
    return st;
}

/* States in the basis of the columns that were tried become states of the sectors. */
static kl_status expand(kl_spectra *t, const kl_weight *w, int64_t nw, const kl_isometry *iso,
                        int64_t nreduced, kl_dptr reduced, kl_dptr data, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t *from = NULL, *z = NULL, at = 0, nweight = 0;
    double *weight = NULL;
    int *count = NULL, *top = NULL;
    KL_TRY(kl_alloc(&count, t->lead.npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&from, 2 * (int64_t)t->lead.npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&top, t->mine->nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&z, 2 * (int64_t)t->mine->nsec, KL_MEM_WORK, err));
    int64_t *const to = from + t->lead.npart, *const y = z + t->mine->nsec;
    KL_TRY(kl_alloc(&weight, iso->basis.total, KL_MEM_WORK, err));
    for (int64_t i = 0; i < nw; i++)
        if (w[i].keep && t->lead.part[w[i].sec] >= 0)
            weight[nweight++] =
                (kl_leading_least(&t->lead, w[i].sec) ? 1 : t->sp[w[i].sec].w[w[i].column]) * t->of->nstate;
    for (int k = 0; k < iso->basis.nsec; k++) {
        const int c = iso->sec[k], part = t->lead.part[c];
        const int64_t n = (int64_t)t->rows[c] * iso->basis.dim[k];
        if (kl_spectra_top(t, c)) {
            top[c] = iso->basis.dim[k];
            z[c] = at;
            y[c] = iso->off[k];
        } else if (part < 0 && kl_spectra_own(t, c))
            t->ex->vt.copy(t->ex, n, kl_dptr_at(reduced, at), kl_dptr_at(data, iso->off[k]));
        if (part >= 0) {
            count[part] = iso->basis.dim[k];
            from[part] = at;
            to[part] = iso->off[k];
        }
        at += n;
    }
    KL_TRY(kl_leading_least_states(&t->lead, count, from, nreduced, reduced, err));
    const kl_range_view view = {count, from, to, weight};
    KL_TRY(kl_range_columns(&t->lead.range, &view, reduced, nreduced, iso->ndata, data, err));
    if (t->top_looked)
        KL_TRY(kl_dominant_states(&t->top, top, z, nreduced, reduced, y, iso->ndata, data, err));
out:
    kl_free(&top);
    kl_free(&z);
    kl_free(&count);
    kl_free(&from);
    kl_free(&weight);
    return st;
}

/* All ranks get the states of all sectors. */
static kl_status share_states(const kl_spectra *t, const kl_isometry *iso, kl_dptr data, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = iso->basis.nsec;
    kl_share_piece *piece = NULL;
    KL_TRY(kl_alloc(&piece, n, KL_MEM_WORK, err));
    for (int k = 0; k < n; k++) {
        const int c = iso->sec[k];
        piece[k] =
            (kl_share_piece){t->lead.owner[c], iso->off[k], (int64_t)t->mine->dim[c] * iso->basis.dim[k]};
    }
    KL_TRY(kl_share_exchange_there(t->ranks, n, piece, data, err));
out:
    kl_free(&piece);
    return st;
}

kl_status kl_spectra_states(kl_spectra *t, const kl_weight *w, int64_t nw, const kl_isometry *iso,
                            kl_dptr data, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dptr reduced = {0};
    int64_t nreduced = 0;
    if (t->lead.nproducts == 0 && !t->top_looked) {
        KL_TRY(gather(t, w, nw, iso->basis.total, iso->ndata, data, err));
        return share_states(t, iso, data, err);
    }
    for (int k = 0; k < iso->basis.nsec; k++) nreduced += (int64_t)t->rows[iso->sec[k]] * iso->basis.dim[k];
    KL_TRY(t->ex->vt.alloc(t->ex, nreduced, &reduced, err));
    KL_TRY(gather(t, w, nw, iso->basis.total, nreduced, reduced, err));
    KL_TRY(expand(t, w, nw, iso, nreduced, reduced, data, err));
    KL_TRY(share_states(t, iso, data, err));
out:
    t->ex->vt.release(t->ex, &reduced);
    return st;
}
