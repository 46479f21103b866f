/* Entropies of the cuts of a run: see entropies.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/entropies.h"
#include "base/divide.h"
#include "base/mem.h"
#include "base/par.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct kl_entropies {
    int ncut;
    double *value;     /* [ncut] */
    kl_unread *unread; /* [ncut] */
};

void kl_unread_clear(kl_unread *u)
{
    kl_free(&u->part);
    kl_free(&u->d);
    kl_free(&u->e);
    *u = (kl_unread){0};
}

kl_status kl_entropies_create(int ncut, const double *known, kl_entropies **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_entropies *e = NULL;
    KL_TRY(kl_alloc(&e, 1, KL_MEM_MISC, err));
    e->ncut = ncut;
    KL_TRY(kl_alloc(&e->value, ncut, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&e->unread, ncut, KL_MEM_MISC, err));
    if (known) memcpy(e->value, known, sizeof *known * (size_t)ncut);
out:
    if (st != KL_OK) kl_entropies_destroy(&e);
    *out = e;
    return st;
}

void kl_entropies_destroy(kl_entropies **e)
{
    if (!*e) return;
    for (int c = 0; (*e)->unread && c < (*e)->ncut; c++) kl_unread_clear(&(*e)->unread[c]);
    kl_free(&(*e)->unread);
    kl_free(&(*e)->value);
    kl_free(e);
}

kl_unread *kl_entropies_open(kl_entropies *e, int cut)
{
    kl_unread_clear(&e->unread[cut]);
    return &e->unread[cut];
}

void kl_entropies_put(kl_entropies *e, int cut, double entropy) { e->value[cut] = entropy; }

/* One matrix of one cut, and what its values come to. */
typedef struct reading {
    const kl_unread *of;
    int n, cut, part;
    double entropy;
    kl_status status;
    kl_err error;
} reading;

static void read_values(void *self, int64_t nth, int thread)
{
    reading *const t = (reading *)self + nth;
    const kl_unread *const u = t->of;
    const kl_unread_part *const p = &u->part[t->part];
    const double *const d = u->d + p->at, *const e = u->e + p->at;
    double *w = NULL;
    (void)thread;
    t->status = kl_realloc(&w, p->n, KL_MEM_WORK, &t->error);
    if (t->status == KL_OK) t->status = kl_divide_values(1, 1, &p->n, &d, &e, w, &t->error);
    for (int k = 0; k < p->n && t->status == KL_OK; k++) {
        const double x = w[k] / u->sum;
        if (x > 0) t->entropy += x * (log(p->states) - log(x));
    }
    kl_free(&w);
}

static int by_size(const void *pa, const void *pb)
{
    const reading *const a = pa, *const b = pb;
    if (a->n != b->n) return b->n - a->n;
    return a->cut != b->cut ? a->cut - b->cut : a->part - b->part;
}

kl_status kl_entropies_read(kl_entropies *e, const kl_exec *ex, int nthread, double *to, kl_err *err)
{
    kl_status st = KL_OK;
    reading *task = NULL;
    double *part = NULL; /* [ncut] this rank's, of cuts that are open */
    int64_t count = 0;
    int open = 0;
    for (int c = 0; c < e->ncut; c++) count += e->unread[c].npart;
    KL_TRY(kl_alloc(&task, count, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&part, e->ncut, KL_MEM_WORK, err));
    count = 0;
    for (int c = 0; c < e->ncut; c++) {
        const kl_unread *const u = &e->unread[c];
        part[c] = u->open ? u->known : 0;
        open |= u->open;
        for (int k = 0; k < u->npart; k++) {
            task[count].of = u;
            task[count].n = u->part[k].n;
            task[count].cut = c;
            task[count++].part = k;
        }
    }
    qsort(task, (size_t)count, sizeof *task, by_size);
    kl_par_for(nthread, count, read_values, task);
    for (int64_t i = 0; i < count; i++) {
        if (task[i].status != KL_OK) {
            st = kl_fail(err, task[i].status, "%s", task[i].error.text);
            goto out;
        }
        part[task[i].cut] += task[i].entropy;
    }
    if (open) kl_ranks_sum(ex, e->ncut, part);
    for (int c = 0; c < e->ncut; c++) {
        if (e->unread[c].open) e->value[c] = part[c];
        kl_unread_clear(&e->unread[c]);
    }
    memcpy(to, e->value, sizeof *to * (size_t)e->ncut);
out:
    kl_free(&part);
    kl_free(&task);
    return st;
}
