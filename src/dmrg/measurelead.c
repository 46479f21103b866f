/* Product states of the largest amplitudes, best first: see measure.h. A string of states of the first sites
   is kept with the vector that it leaves over the orthonormal states of all sites behind: the square of its
   norm is the weight of all product states that begin so, and bounds each of theirs. The string of the
   largest weight is carried one site on; the first that are complete are the largest of all.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/measurebase.h"
#include "base/mem.h"
#include <math.h>
#include <string.h>

enum { STEPS_MOST = 200000 };
#define NOTHING 1e-24 /* of the weight of the state: such strings are not followed */

typedef struct string { /* of the first n sites */
    double weight;
    int n, sec; /* sector of the states behind */
    int *state; /* [nsite] */
    double *v;
} string;

typedef struct heap { /* of the largest weight first */
    int n, room;
    string *list;
} heap;

static void drop(string *s)
{
    kl_free(&s->state);
    kl_free(&s->v);
}

static void swap(heap *h, int i, int j)
{
    const string t = h->list[i];
    h->list[i] = h->list[j];
    h->list[j] = t;
}

static kl_status push_take(heap *h, string *s, kl_err *err)
{
    kl_status st = KL_OK;
    if (h->n == h->room) {
        KL_TRY(kl_realloc(&h->list, 2 * h->room + 64, KL_MEM_WORK, err));
        h->room = 2 * h->room + 64;
    }
    h->list[h->n] = *s;
    *s = (string){0};
    for (int i = h->n++; i > 0 && h->list[i].weight > h->list[(i - 1) / 2].weight; i = (i - 1) / 2)
        swap(h, i, (i - 1) / 2);
out:
    return st;
}

static string pop(heap *h)
{
    const string top = h->list[0];
    h->list[0] = h->list[--h->n];
    for (int i = 0;;) {
        int best = i;
        for (int c = 2 * i + 1; c <= 2 * i + 2 && c < h->n; c++)
            if (h->list[c].weight > h->list[best].weight) best = c;
        if (best == i) break;
        swap(h, i, best);
        i = best;
    }
    return top;
}

static kl_status first_string(const kl_canonical *c, heap *h, kl_err *err)
{
    kl_status st = KL_OK;
    string s = {.weight = 1, .sec = c->layout[0].pair[0]};
    const int64_t n = c->layout[0].n;
    if (s.sec < 0) return KL_OK;
    KL_TRY(kl_alloc(&s.state, c->nsite, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&s.v, n, KL_MEM_WORK, err));
    memcpy(s.v, c->bond[0], (size_t)n * sizeof *s.v);
    KL_TRY(push_take(h, &s, err));
out:
    drop(&s);
    return st;
}

/* A string with each state of the next site. */
static kl_status carry_on(const kl_canonical *c, const string *s, heap *h, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_isometry *const b = c->right[s->n];
    const kl_enlarged *const e = b->enlarged;
    const int big = b->sec[s->sec], rows = e->basis.dim[big], cols = b->basis.dim[s->sec];
    string x = {0};
    for (int t = 0; t < e->d; t++) {
        const int sec = e->part_sec[big * e->d + t];
        if (sec < 0) continue;
        const double *const part = b->data + b->off[s->sec] + e->part_off[big * e->d + t];
        x = (string){.n = s->n + 1, .sec = sec};
        KL_TRY(kl_alloc(&x.state, c->nsite, KL_MEM_WORK, err));
        KL_TRY(kl_alloc(&x.v, e->block.dim[sec], KL_MEM_WORK, err));
        memcpy(x.state, s->state, (size_t)s->n * sizeof *x.state);
        x.state[s->n] = t;
        for (int k = 0; k < cols; k++)
            for (int r = 0; r < e->block.dim[sec]; r++) x.v[r] += part[r + (int64_t)k * rows] * s->v[k];
        for (int r = 0; r < e->block.dim[sec]; r++) x.weight += x.v[r] * x.v[r];
        if (x.weight > NOTHING) KL_TRY(push_take(h, &x, err));
        drop(&x);
    }
out:
    drop(&x);
    return st;
}

kl_status kl_measure_leading(kl_measure *m, int most, int *state, double *amplitude, int *n, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_canonical *const c = m->can;
    heap h = {0};
    string s = {0};
    *n = 0;
    KL_TRY(first_string(c, &h, err));
    for (int step = 0; step < STEPS_MOST && h.n > 0 && *n < most; step++) {
        s = pop(&h);
        if (s.n == c->nsite) {
            amplitude[*n] = s.v[0];
            for (int p = 0; p < c->nsite; p++) state[*n * c->nsite + m->lat->order[p]] = s.state[p];
            ++*n;
        } else KL_TRY(carry_on(c, &s, &h, err));
        drop(&s);
    }
out:
    drop(&s);
    for (int i = 0; i < h.n; i++) drop(&h.list[i]);
    kl_free(&h.list);
    return st;
}
