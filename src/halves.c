/* Basis and operators of exact diagonalization on two halves.
   1. operator strings become pairs (string on the left half, string on the right half) with a coefficient; 2. those of one half alone are summed into one
   sparse matrix for each sector; 3. pairs of diagonals become the rank-k part of the diagonal; 4. the others are grouped by their left or their right
   string, whichever gives fewer products. Signs come from the generated phase.h only.
   SPDX-License-Identifier: Apache-2.0 */
#include "halves.h"
#include "mem.h"
#include "phase.h"
#include "sector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = KL_KRON_LANES };

/* ---------------------------------------------------------------- flavours */

/* Operators of one mode: identity, number, annihilator, creator. */
enum { MODE_I, MODE_N, MODE_C, MODE_CDAG, NMODE };
static const kl_elem mode_elem[NMODE][2] = {{{0, 0, 1.0}, {1, 1, 1.0}}, {{1, 1, 1.0}}, {{0, 1, 1.0}}, {{1, 0, 1.0}}};
static const int mode_nelem[NMODE] = {2, 1, 1, 1};
static const int mode_shift[NMODE] = {0, 0, -1, 1};
static const char *const mode_name[NMODE] = {"I", "n", "c", "cdag"};
static const char *const mode_state[2] = {"0", "1"};

struct kl_flavour {
    kl_site_type type[2];
    kl_site_op op[2][NMODE];
    int charge[2][2][KL_MAX_CHARGE];
    int state_of[4];          /* site state of (first, second) = (bit 0, bit 1) */
    int bits_of[4];           /* and back */
    int nop;
    double (*part)[NMODE][NMODE]; /* [nop]: site operator = sum of part * (mode operator of the first)(that of the second) */
};

static void flavour_free(struct kl_flavour **f)
{
    if (*f) kl_free(&(*f)->part);
    kl_free(f);
}

/* part of one site operator from its elements: |0><0| = 1 - n, |1><1| = n on each mode. */
static void split_operator(const struct kl_flavour *f, const kl_site_op *op, double part[NMODE][NMODE])
{
    memset(part, 0, sizeof(double) * NMODE * NMODE);
    for (int e = 0; e < op->nelem; e++) {
        const int to = f->bits_of[op->elem[e].row], from = f->bits_of[op->elem[e].col];
        const int a[2] = {to & 1, to >> 1}, b[2] = {from & 1, from >> 1};
        int kind[2];
        for (int s = 0; s < 2; s++) kind[s] = a[s] == b[s] ? (a[s] ? MODE_N : MODE_I) : a[s] ? MODE_CDAG : MODE_C;
        const double v = op->elem[e].value * kl_phase_record(kind[1] >= MODE_C, b[0]);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) {
                /* MODE_I here is |0><0| = 1 - n: two terms */
                if ((i && kind[0] != MODE_I) || (j && kind[1] != MODE_I)) continue;
                part[i ? MODE_N : kind[0]][j ? MODE_N : kind[1]] += (i ? -1.0 : 1.0) * (j ? -1.0 : 1.0) * v;
            }
    }
}

/* Every site the same one of four states, two U(1) charges that count two modes, the first of which comes first in the mode order. *out NULL if not. */
static kl_status find_flavours(const kl_terms *t, int charge[2], struct kl_flavour **out, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const m = t->model;
    const kl_site_type *const type = t->type[0];
    struct kl_flavour *f = NULL;
    *out = NULL;
    if (m->ncharge != 2 || type->dim != 4 || t->nsite > 62) return KL_OK;
    for (int p = 1; p < t->nsite; p++)
        if (t->type[p] != type) return KL_OK;
    for (int c = 0; c < 2; c++)
        if (m->charge[c].modulus != 0 || m->charge[c].odd != 1) return KL_OK;
    KL_TRY(kl_alloc(&f, 1, KL_MEM_MISC, err));
    for (int b = 0; b < 4; b++) f->state_of[b] = -1;
    for (int s = 0; s < 4; s++) {
        const int a = type->state_charge[s][0], b = type->state_charge[s][1];
        if (a < 0 || a > 1 || b < 0 || b > 1 || f->state_of[a | b << 1] >= 0) goto out;
        f->state_of[a | b << 1] = s;
        f->bits_of[s] = a | b << 1;
    }
    for (int s = 0; s < 2; s++) {
        charge[s] = s;
        f->charge[s][1][s] = 1;
        for (int o = 0; o < NMODE; o++) {
            f->op[s][o] = (kl_site_op){.name = mode_name[o], .odd = o >= MODE_C, .nelem = mode_nelem[o], .elem = mode_elem[o]};
            f->op[s][o].shift[s] = mode_shift[o];
        }
        f->type[s] = (kl_site_type){.name = "mode", .dim = 2, .state_name = mode_state, .state_charge = (const int(*)[KL_MAX_CHARGE])f->charge[s], .nop = NMODE,
                                    .op = f->op[s]};
    }
    f->nop = type->nop;
    KL_TRY(kl_alloc(&f->part, f->nop, KL_MEM_MISC, err));
    int pure[2] = {0, 0};
    for (int o = 0; o < f->nop; o++) {
        split_operator(f, &type->op[o], f->part[o]);
        double all = 0.0;
        for (int i = 0; i < NMODE; i++)
            for (int j = 0; j < NMODE; j++) all += fabs(f->part[o][i][j]);
        if (all > 0.0 && all == fabs(f->part[o][MODE_C][MODE_I])) pure[0] = 1;
        if (all > 0.0 && all == fabs(f->part[o][MODE_I][MODE_C])) pure[1] = 1;
    }
    if (!pure[0] || !pure[1]) goto out; /* another mode order than the one of phase.h's flavour-major sign */
    *out = f;
    f = NULL;
out:
    flavour_free(&f);
    return st;
}

/* ---------------------------------------------------------------- strings on halves */

typedef struct piece {
    double coef;
    int n[2];
    kl_op_at op[2][KL_MAX_FACTOR]; /* positions within the half */
} piece;

typedef struct pieces {
    int64_t n, room;
    piece *p;
    double constant;
} pieces;

static kl_status push(pieces *list, const piece *p, kl_err *err)
{
    kl_status st = KL_OK;
    if (p->coef == 0.0) return KL_OK;
    if (p->n[0] + p->n[1] == 0) {
        list->constant += p->coef;
        return KL_OK;
    }
    if (list->n == list->room) {
        list->room = list->room ? 2 * list->room : 64;
        KL_TRY(kl_realloc(&list->p, list->room, KL_MEM_RECORD, err));
    }
    list->p[list->n++] = *p;
out:
    return st;
}

static int compare_side(const piece *a, const piece *b, int side)
{
    if (a->n[side] != b->n[side]) return a->n[side] < b->n[side] ? -1 : 1;
    return a->n[side] ? memcmp(a->op[side], b->op[side], (size_t)a->n[side] * sizeof(kl_op_at)) : 0;
}

static int by_left(const void *a, const void *b)
{
    const int c = compare_side(a, b, 0);
    return c ? c : compare_side(a, b, 1);
}

static int by_right(const void *a, const void *b)
{
    const int c = compare_side(a, b, 1);
    return c ? c : compare_side(a, b, 0);
}

/* All products of one mode operator of each flavour for each factor of a string; sorted flavour by flavour with the sign of that. */
static kl_status expand(const struct kl_flavour *f, const kl_terms *t, const kl_term *term, pieces *out, kl_err *err)
{
    kl_status st = KL_OK;
    int choice[KL_MAX_FACTOR] = {0};
    const kl_op_at *const op = t->op + term->first;
    for (;;) {
        double coef = term->coef;
        for (int k = 0; k < term->nop && coef != 0.0; k++) coef *= f->part[op[k].op][choice[k] / NMODE][choice[k] % NMODE];
        if (coef != 0.0) {
            int key[2 * KL_MAX_FACTOR], odd[2 * KL_MAX_FACTOR], n = 0;
            piece p = {.coef = coef};
            for (int k = 0; k < term->nop; k++)
                for (int s = 0; s < 2; s++) {
                    const int o = s ? choice[k] % NMODE : choice[k] / NMODE;
                    if (o == MODE_I) continue;
                    key[n] = s;
                    odd[n++] = o >= MODE_C;
                    p.op[s][p.n[s]++] = (kl_op_at){op[k].pos, o};
                }
            p.coef *= kl_phase_sort(n, key, odd, NULL);
            KL_TRY(push(out, &p, err));
        }
        int k = 0;
        while (k < term->nop && ++choice[k] == NMODE * NMODE) choice[k++] = 0;
        if (k == term->nop) break;
    }
out:
    return st;
}

/* Equal pieces are added; what cancels is dropped. */
static void merge(pieces *list)
{
    if (list->n == 0) return;
    qsort(list->p, (size_t)list->n, sizeof(piece), by_left);
    int64_t kept = 0;
    double size = 0.0;
    for (int64_t i = 0; i < list->n; i++) {
        if (kept > 0 && by_left(&list->p[kept - 1], &list->p[i]) == 0) {
            list->p[kept - 1].coef += list->p[i].coef;
            size += fabs(list->p[i].coef);
        } else {
            list->p[kept++] = list->p[i];
            size = fabs(list->p[i].coef);
        }
        const int last = i + 1 == list->n || by_left(&list->p[kept - 1], &list->p[i + 1]) != 0;
        if (last && fabs(list->p[kept - 1].coef) <= 1e-15 * size) kept--;
    }
    list->n = kept;
}

static kl_status split(const kl_terms *t, int64_t from, int64_t to, const struct kl_flavour *f, int cut, pieces *out, kl_err *err)
{
    kl_status st = KL_OK;
    for (int64_t i = from; i < to; i++) {
        const kl_term *const term = &t->term[i];
        if (f) {
            KL_TRY(expand(f, t, term, out, err));
            continue;
        }
        piece p = {.coef = term->coef};
        for (int k = 0; k < term->nop; k++) {
            const kl_op_at o = t->op[term->first + k];
            const int s = o.pos >= cut;
            p.op[s][p.n[s]++] = (kl_op_at){s ? o.pos - cut : o.pos, o.op};
        }
        KL_TRY(push(out, &p, err));
    }
    merge(out);
out:
    return st;
}

static int is_diagonal(const kl_site_op *op)
{
    for (int e = 0; e < op->nelem; e++)
        if (op->elem[e].row != op->elem[e].col) return 0;
    return 1;
}

static int side_diagonal(const kl_site_type *const *type, const piece *p, int side)
{
    for (int k = 0; k < p->n[side]; k++)
        if (!is_diagonal(&type[p->op[side][k].pos]->op[p->op[side][k].op])) return 0;
    return 1;
}

/* ---------------------------------------------------------------- sizes */

/* Ways to reach each charge. */
typedef struct ways {
    int64_t n;
    kl_qn *q;
    double *count;
} ways;

static void ways_clear(ways *w)
{
    kl_free(&w->q);
    kl_free(&w->count);
    w->n = 0;
}

typedef struct way {
    kl_qn q;
    double count;
} way;

static int way_cmp(const void *a, const void *b) { return kl_qn_cmp(((const way *)a)->q, ((const way *)b)->q); }

static kl_status ways_extend(const kl_model *m, const ways *from, const kl_site_type *site, ways *to, kl_err *err)
{
    kl_status st = KL_OK;
    way *all = NULL;
    ways next = {0};
    KL_TRY(kl_alloc(&all, from->n * site->dim, KL_MEM_MISC, err));
    int64_t n = 0, k = 0;
    for (int s = 0; s < site->dim; s++) {
        const kl_qn c = kl_qn_of(m, site->state_charge[s]);
        for (int64_t i = 0; i < from->n; i++) all[n++] = (way){kl_qn_add(m, from->q[i], c), from->count[i]};
    }
    qsort(all, (size_t)n, sizeof *all, way_cmp);
    for (int64_t i = 0; i < n; i++) {
        if (k > 0 && kl_qn_cmp(all[k - 1].q, all[i].q) == 0) all[k - 1].count += all[i].count;
        else all[k++] = all[i];
    }
    KL_TRY(kl_alloc(&next.q, k, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&next.count, k, KL_MEM_MISC, err));
    for (int64_t i = 0; i < k; i++) next.q[i] = all[i].q, next.count[i] = all[i].count;
    next.n = k;
    *to = next;
out:
    if (st != KL_OK) ways_clear(&next);
    kl_free(&all);
    return st;
}

/* w[p] = ways of positions first .. first + p; p = 0 .. npos. */
static kl_status ways_create(const kl_model *m, const kl_site_type *const *type, int npos, ways **out, kl_err *err)
{
    kl_status st = KL_OK;
    ways *w = NULL;
    KL_TRY(kl_alloc(&w, npos + 1, KL_MEM_MISC, err));
    *out = w;
    KL_TRY(kl_alloc(&w[0].q, 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&w[0].count, 1, KL_MEM_MISC, err));
    w[0].n = 1;
    w[0].count[0] = 1.0;
    for (int p = 0; p < npos; p++) KL_TRY(ways_extend(m, &w[p], type[p], &w[p + 1], err));
out:
    return st;
}

static void ways_free(ways **w, int npos)
{
    for (int p = 0; *w && p <= npos; p++) ways_clear(&(*w)[p]);
    kl_free(w);
}

static int64_t ways_find(const ways *w, kl_qn q)
{
    int64_t lo = 0, hi = w->n - 1;
    while (lo <= hi) {
        const int64_t mid = (lo + hi) / 2;
        const int c = kl_qn_cmp(w->q[mid], q);
        if (c == 0) return mid;
        if (c < 0) lo = mid + 1;
        else hi = mid - 1;
    }
    return -1;
}

/* What a pair of halves comes to. */
static void pair_size(const kl_model *m, kl_qn target, const ways *l, const ways *r, kl_halves_size *s)
{
    s->dim = s->n = s->left = s->right = s->largest = 0.0;
    for (int64_t i = 0; i < l->n; i++) {
        const int64_t j = ways_find(r, kl_qn_sub(m, target, l->q[i]));
        if (j < 0) continue;
        const double a = l->count[i], b = r->count[j];
        s->dim += a * b;
        s->n += a * ceil(b / (double)LANES) * (double)LANES;
        s->left += a;
        s->right += b;
        s->largest = fmax(s->largest, fmax(a, b));
    }
}

static kl_status site_sizes(const kl_terms *t, kl_qn target, kl_halves_size *best, kl_err *err)
{
    kl_status st = KL_OK;
    ways *l = NULL, *r = NULL;
    const kl_site_type **back = NULL;
    *best = (kl_halves_size){0};
    KL_TRY(kl_alloc(&back, t->nsite, KL_MEM_MISC, err));
    for (int p = 0; p < t->nsite; p++) back[p] = t->type[t->nsite - 1 - p];
    KL_TRY(ways_create(t->model, t->type, t->nsite, &l, err));
    KL_TRY(ways_create(t->model, back, t->nsite, &r, err));
    for (int cut = 1; cut < t->nsite; cut++) {
        kl_halves_size s = {.cut = cut};
        pair_size(t->model, target, &l[cut], &r[t->nsite - cut], &s);
        if (best->cut == 0 || s.left + s.right < best->left + best->right) *best = s;
    }
out:
    ways_free(&l, t->nsite);
    ways_free(&r, t->nsite);
    kl_free(&back);
    return st;
}

static kl_status flavour_sizes(const kl_terms *t, kl_qn target, const struct kl_flavour *f, kl_halves_size *out, kl_err *err)
{
    kl_status st = KL_OK;
    ways *w[2] = {NULL, NULL};
    const kl_site_type **type = NULL;
    *out = (kl_halves_size){.flavours = 1};
    KL_TRY(kl_alloc(&type, t->nsite, KL_MEM_MISC, err));
    for (int s = 0; s < 2; s++) {
        for (int p = 0; p < t->nsite; p++) type[p] = &f->type[s];
        KL_TRY(ways_create(t->model, type, t->nsite, &w[s], err));
    }
    pair_size(t->model, target, &w[0][t->nsite], &w[1][t->nsite], out);
out:
    for (int s = 0; s < 2; s++) ways_free(&w[s], t->nsite);
    kl_free(&type);
    return st;
}

/* Whether the flavours are coupled by densities alone. */
static kl_status only_densities(const kl_terms *t, const struct kl_flavour *f, int *yes, kl_err *err)
{
    kl_status st = KL_OK;
    pieces list = {0};
    const kl_site_type **type = NULL;
    *yes = 1;
    KL_TRY(kl_alloc(&type, t->nsite, KL_MEM_MISC, err));
    for (int p = 0; p < t->nsite; p++) type[p] = &f->type[0];
    KL_TRY(split(t, 0, t->nterm, f, 0, &list, err));
    for (int64_t i = 0; i < list.n; i++)
        if (list.p[i].n[0] && list.p[i].n[1] && !(side_diagonal(type, &list.p[i], 0) && side_diagonal(type, &list.p[i], 1))) *yes = 0;
out:
    kl_free(&list.p);
    kl_free(&type);
    return st;
}

static kl_status choose_form(const kl_terms *t, kl_qn target, kl_halves_form form, int charge[2], struct kl_flavour **f, kl_halves_size *s, kl_err *err)
{
    kl_status st = KL_OK;
    *f = NULL;
    if (t->nsite < 2 && form == KL_HALVES_SITES) KL_TRY(kl_fail(err, KL_EINPUT, "exact diagonalization on two halves needs at least 2 sites, not %d", t->nsite));
    if (form != KL_HALVES_SITES) KL_TRY(find_flavours(t, charge, f, err));
    if (form == KL_HALVES_FLAVOURS && !*f)
        KL_TRY(kl_fail(err, KL_EINPUT, "model %s: its sites are not two conserved flavours of one mode each, so it has no product form", t->model->name));
    int yes = 1;
    if (form == KL_HALVES_AUTO && *f) KL_TRY(only_densities(t, *f, &yes, err));
    if (!yes) flavour_free(f);
    if (*f) KL_TRY(flavour_sizes(t, target, *f, s, err));
    else KL_TRY(site_sizes(t, target, s, err));
    if (s->dim < 0.5) {
        char text[200];
        KL_TRY(kl_fail(err, KL_EINPUT, "the sector %s of these %d sites is empty", kl_qn_print(t->model, target, text, sizeof(text)), t->nsite));
    }
out:
    if (st != KL_OK) flavour_free(f);
    return st;
}

kl_status kl_halves_measure(const kl_terms *terms, kl_qn target, kl_halves_form form, kl_halves_size *out, kl_err *err)
{
    struct kl_flavour *f = NULL;
    int charge[2];
    const kl_status st = choose_form(terms, target, form, charge, &f, out, err);
    flavour_free(&f);
    return st;
}

/* ---------------------------------------------------------------- basis */

static void half_clear(kl_half *h)
{
    kl_free(&h->type);
    kl_free(&h->stride);
    kl_free(&h->odd);
    kl_free(&h->q);
    kl_free(&h->begin);
    kl_free(&h->code);
}

typedef struct walk {
    const kl_model *model;
    kl_half *half;
    const ways *viable;  /* [npos + 1]: charges that positions p.. may have so that those before p can complete them */
    int64_t *fill;       /* [nsec] */
} walk;

static int sector_find(const kl_half *h, kl_qn q)
{
    int lo = 0, hi = h->nsec - 1;
    while (lo <= hi) {
        const int mid = (lo + hi) / 2, c = kl_qn_cmp(h->q[mid], q);
        if (c == 0) return mid;
        if (c < 0) lo = mid + 1;
        else hi = mid - 1;
    }
    return -1;
}

/* Positions p - 1 down to 0, the slowest digit first, so that codes come out ascending. */
static void enumerate(const walk *w, int p, uint64_t code, kl_qn q)
{
    kl_half *const h = w->half;
    if (p == 0) {
        const int s = sector_find(h, q);
        if (s >= 0) h->code[h->begin[s] + w->fill[s]++] = code;
        return;
    }
    for (int d = 0; d < h->type[p - 1]->dim; d++) {
        const kl_qn next = kl_qn_add(w->model, q, kl_qn_of(w->model, h->type[p - 1]->state_charge[d]));
        if (ways_find(&w->viable[p - 1], next) >= 0) enumerate(w, p - 1, code + (uint64_t)d * h->stride[p - 1], next);
    }
}

static int qn_order(const void *a, const void *b) { return kl_qn_cmp(*(const kl_qn *)a, *(const kl_qn *)b); }

/* Sectors `q` (ascending, each reachable) of a half whose types and first position are set. */
static kl_status half_fill(const kl_model *m, kl_half *h, int nsec, const kl_qn *q, kl_err *err)
{
    kl_status st = KL_OK;
    ways *w = NULL, *viable = NULL;
    int64_t *fill = NULL;
    if (h->npos > 62) KL_TRY(kl_fail(err, KL_EINPUT, "%d sites in a half; at most 62 are possible", h->npos));
    KL_TRY(kl_alloc(&h->stride, h->npos, KL_MEM_MISC, err));
    uint64_t stride = 1;
    for (int p = 0; p < h->npos; p++) {
        h->stride[p] = stride;
        if (stride > (UINT64_C(1) << 62) / (uint64_t)h->type[p]->dim) KL_TRY(kl_fail(err, KL_EINPUT, "%d sites of a half have more than 2^62 states; exact diagonalization needs fewer sites", h->npos));
        stride *= (uint64_t)h->type[p]->dim;
    }
    KL_TRY(ways_create(m, h->type, h->npos, &w, err));
    h->nsec = nsec;
    KL_TRY(kl_alloc(&h->q, nsec, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&h->begin, nsec + 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&fill, nsec, KL_MEM_MISC, err));
    memcpy(h->q, q, (size_t)nsec * sizeof(kl_qn));
    for (int s = 0; s < nsec; s++) {
        const double count = w[h->npos].count[ways_find(&w[h->npos], q[s])];
        if ((double)h->begin[s] + count > 4294967295.0) KL_TRY(kl_fail(err, KL_EINPUT, "a half of the lattice has %.4g states and more; at most 2^32 are possible", (double)h->begin[s] + count));
        h->begin[s + 1] = h->begin[s] + (int64_t)count;
    }
    KL_TRY(kl_alloc(&h->code, h->begin[nsec], KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&viable, h->npos + 1, KL_MEM_MISC, err));
    for (int p = 0; p <= h->npos; p++) {
        KL_TRY(kl_alloc(&viable[p].q, nsec * w[p].n, KL_MEM_MISC, err));
        int64_t n = 0, k = 0;
        for (int s = 0; s < nsec; s++)
            for (int64_t i = 0; i < w[p].n; i++) viable[p].q[n++] = kl_qn_sub(m, q[s], w[p].q[i]);
        qsort(viable[p].q, (size_t)n, sizeof(kl_qn), qn_order);
        for (int64_t i = 0; i < n; i++)
            if (k == 0 || kl_qn_cmp(viable[p].q[k - 1], viable[p].q[i]) != 0) viable[p].q[k++] = viable[p].q[i];
        viable[p].n = k;
    }
    const walk go = {m, h, viable, fill};
    enumerate(&go, h->npos, 0, kl_qn_zero());
out:
    ways_free(&w, h->npos);
    ways_free(&viable, h->npos);
    kl_free(&fill);
    return st;
}

static kl_status half_types(kl_half *h, const kl_model *m, int first, int npos, const kl_site_type *const *type, const kl_site_type *only, kl_err *err)
{
    kl_status st = KL_OK;
    h->first = first;
    h->npos = npos;
    KL_TRY(kl_alloc(&h->type, npos, KL_MEM_MISC, err));
    for (int p = 0; p < npos; p++) {
        h->type[p] = only ? only : type[first + p];
        if (h->type[p]->dim > h->most) h->most = h->type[p]->dim;
    }
    KL_TRY(kl_alloc(&h->odd, (int64_t)npos * h->most, KL_MEM_MISC, err));
    for (int p = 0; p < npos; p++)
        for (int s = 0; s < h->type[p]->dim; s++) h->odd[p * h->most + s] = (unsigned char)kl_qn_odd(m, kl_qn_of(m, h->type[p]->state_charge[s]));
out:
    return st;
}

kl_status kl_halves_create(const kl_terms *terms, kl_qn target, kl_halves_form form, kl_halves **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_halves *h = NULL;
    ways *wl = NULL, *wr = NULL;
    kl_qn *ql = NULL, *qr = NULL;
    kl_halves_size size;
    *out = NULL;
    KL_TRY(kl_alloc(&h, 1, KL_MEM_MISC, err));
    h->model = terms->model;
    h->type = terms->type;
    h->nsite = terms->nsite;
    h->target = target;
    KL_TRY(choose_form(terms, target, form, h->flavour_charge, &h->flavour, &size, err));
    h->flavours = size.flavours;
    h->cut = size.cut;
    if (size.n > 0x1p62) KL_TRY(kl_fail(err, KL_EINPUT, "the sector has %.4g states; at most 2^62 can be numbered", size.dim));
    if (h->flavours) {
        KL_TRY(half_types(&h->left, h->model, 0, h->nsite, NULL, &h->flavour->type[0], err));
        KL_TRY(half_types(&h->right, h->model, 0, h->nsite, NULL, &h->flavour->type[1], err));
    } else {
        KL_TRY(half_types(&h->left, h->model, 0, h->cut, h->type, NULL, err));
        KL_TRY(half_types(&h->right, h->model, h->cut, h->nsite - h->cut, h->type, NULL, err));
    }
    KL_TRY(ways_create(h->model, h->left.type, h->left.npos, &wl, err));
    KL_TRY(ways_create(h->model, h->right.type, h->right.npos, &wr, err));
    const ways *const l = &wl[h->left.npos], *const r = &wr[h->right.npos];
    KL_TRY(kl_alloc(&ql, l->n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&qr, l->n, KL_MEM_MISC, err));
    int n = 0;
    for (int64_t i = 0; i < l->n; i++) {
        const kl_qn q = kl_qn_sub(h->model, target, l->q[i]);
        if (ways_find(r, q) < 0) continue;
        ql[n] = l->q[i];
        qr[n++] = q;
    }
    qsort(qr, (size_t)n, sizeof(kl_qn), qn_order);
    KL_TRY(half_fill(h->model, &h->left, n, ql, err));
    KL_TRY(half_fill(h->model, &h->right, n, qr, err));
    h->nblock = n;
    KL_TRY(kl_alloc(&h->left_sec, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&h->right_sec, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&h->block_of, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&h->off, n + 1, KL_MEM_MISC, err));
    for (int i = 0; i < n; i++) {
        h->left_sec[i] = h->block_of[i] = i;
        h->right_sec[i] = sector_find(&h->right, kl_qn_sub(h->model, target, ql[i]));
        const int j = h->right_sec[i];
        const int64_t nl = h->left.begin[i + 1] - h->left.begin[i], nr = h->right.begin[j + 1] - h->right.begin[j];
        h->dim += nl * nr;
        h->off[i + 1] = h->off[i] + nl * ((nr + LANES - 1) / LANES) * LANES;
    }
    h->n = h->off[n];
    *out = h;
    h = NULL;
out:
    ways_free(&wl, h ? h->left.npos : *out ? (*out)->left.npos : 0);
    ways_free(&wr, h ? h->right.npos : *out ? (*out)->right.npos : 0);
    kl_free(&ql);
    kl_free(&qr);
    kl_halves_destroy(&h);
    return st;
}

void kl_halves_destroy(kl_halves **p)
{
    kl_halves *h = *p;
    if (!h) return;
    half_clear(&h->left);
    half_clear(&h->right);
    kl_free(&h->left_sec);
    kl_free(&h->right_sec);
    kl_free(&h->block_of);
    kl_free(&h->off);
    flavour_free(&h->flavour);
    kl_free(p);
}

/* Place of a code in its sector, -1: none. */
static int64_t code_find(const kl_half *h, int sec, uint64_t code)
{
    int64_t lo = h->begin[sec], hi = h->begin[sec + 1] - 1;
    while (lo <= hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (h->code[mid] == code) return mid - h->begin[sec];
        if (h->code[mid] < code) lo = mid + 1;
        else hi = mid - 1;
    }
    return -1;
}

/* The same for one that is probably close behind `near`. */
static int64_t code_find_near(const kl_half *h, int sec, uint64_t code, int64_t near)
{
    const uint64_t *const c = h->code + h->begin[sec];
    const int64_t n = h->begin[sec + 1] - h->begin[sec];
    int64_t step = 1;
    if (near < 0 || near >= n || c[near] > code) return code_find(h, sec, code);
    while (near + step < n && c[near + step] <= code) near += step, step *= 2;
    for (int64_t hi = near + step < n ? near + step : n; hi - near > 1;) {
        const int64_t mid = near + (hi - near) / 2;
        if (c[mid] <= code) near = mid;
        else hi = mid;
    }
    return c[near] == code ? near : -1;
}

int64_t kl_halves_rank(const kl_halves *h, const int *state, int *sign)
{
    uint64_t code[2] = {0, 0};
    kl_qn q = kl_qn_zero();
    if (sign) *sign = 1;
    for (int p = 0; p < h->nsite; p++) {
        if (h->flavours) {
            const int bits = h->flavour->bits_of[state[p]];
            code[0] += (uint64_t)(bits & 1) * h->left.stride[p];
            code[1] += (uint64_t)(bits >> 1) * h->right.stride[p];
            q = kl_qn_add(h->model, q, kl_qn_of(h->model, h->flavour->charge[0][bits & 1]));
        } else if (p < h->cut) {
            code[0] += (uint64_t)state[p] * h->left.stride[p];
            q = kl_qn_add(h->model, q, kl_qn_of(h->model, h->type[p]->state_charge[state[p]]));
        } else {
            code[1] += (uint64_t)state[p] * h->right.stride[p - h->cut];
        }
    }
    const int s = sector_find(&h->left, q);
    if (s < 0) return -1;
    const int block = h->block_of[s], j = h->right_sec[block];
    const int64_t l = code_find(&h->left, s, code[0]), r = code_find(&h->right, j, code[1]);
    if (l < 0 || r < 0) return -1;
    if (sign && h->flavours) *sign = kl_phase_flavour_major(code[0], code[1]);
    const int64_t nl = h->left.begin[s + 1] - h->left.begin[s];
    return h->off[block] + (r / LANES * nl + l) * LANES + r % LANES;
}

static void digits(const kl_half *h, uint64_t code, int *d)
{
    for (int p = 0; p < h->npos; p++) {
        const uint64_t dim = (uint64_t)h->type[p]->dim, rest = dim == 2 ? code >> 1 : code / dim;
        d[p] = (int)(code - rest * dim);
        code = rest;
    }
}

int kl_halves_unrank(const kl_halves *h, int64_t index, int *state)
{
    int lo = 0, hi = h->nblock - 1;
    if (index < 0 || index >= h->n) return 0;
    while (lo < hi) {
        const int mid = (lo + hi + 1) / 2;
        if (h->off[mid] <= index) lo = mid;
        else hi = mid - 1;
    }
    const int s = h->left_sec[lo], j = h->right_sec[lo];
    const int64_t nl = h->left.begin[s + 1] - h->left.begin[s], nr = h->right.begin[j + 1] - h->right.begin[j], at = index - h->off[lo];
    const int64_t l = at / LANES % nl, r = at / LANES / nl * LANES + at % LANES;
    if (r >= nr) return 0;
    const uint64_t a = h->left.code[h->left.begin[s] + l], b = h->right.code[h->right.begin[j] + r];
    if (h->flavours) {
        for (int p = 0; p < h->nsite; p++) state[p] = h->flavour->state_of[(a >> p & 1) | (b >> p & 1) << 1];
    } else {
        digits(&h->left, a, state);
        digits(&h->right, b, state + h->cut);
    }
    return 1;
}

/* ---------------------------------------------------------------- one operator between two sectors */

static int state_odd(const kl_model *m, const kl_site_type *t, int s) { return kl_qn_odd(m, kl_qn_of(m, t->state_charge[s])); }

/* Sign between a basis state and the same one of the physical mode order. */
static int mode_sign(const kl_halves *h, const int *state)
{
    if (!h->flavours) return 1;
    uint64_t bits[2] = {0, 0};
    for (int p = 0; p < h->nsite; p++) {
        const uint64_t b = (uint64_t)h->flavour->bits_of[state[p]];
        bits[0] |= (b & 1) << p;
        bits[1] |= (b >> 1) << p;
    }
    return kl_phase_flavour_major(bits[0], bits[1]);
}

void kl_halves_act(const kl_halves *from, const kl_halves *to, int p, const double *a, int odd, double c, int64_t begin, int64_t end, const double *x, double *y,
                   int *state)
{
    const int dim = to->type[p]->dim;
    for (int64_t i = begin; i < end; i++) {
        if (!kl_halves_unrank(to, i, state)) continue;
        const int row = state[p];
        double sum = 0.0;
        int sign, here = 1, before = 0;
        for (int col = 0; col < dim; col++) {
            if (a[row + col * dim] == 0.0) continue;
            state[p] = col;
            const int64_t j = kl_halves_rank(from, state, &sign);
            if (j >= 0) sum += a[row + col * dim] * sign * x[j];
        }
        state[p] = row;
        if (sum == 0.0) continue;
        here = mode_sign(to, state);
        for (int q = 0; q < p && odd; q++) before ^= state_odd(to->model, to->type[q], state[q]);
        y[i] += c * here * kl_phase_record(odd, before) * sum;
    }
}

/* ---------------------------------------------------------------- matrices of a half */

typedef struct coo {
    int64_t n, room;
    struct coo_elem {
        uint32_t row, col;
        double value;
    } *e;
} coo;

static kl_status coo_push(coo *c, int64_t row, int64_t col, double value, kl_err *err)
{
    kl_status st = KL_OK;
    if (c->n == c->room) {
        c->room = c->room ? 2 * c->room : 1024;
        KL_TRY(kl_realloc(&c->e, c->room, KL_MEM_MATRIX, err));
    }
    c->e[c->n++] = (struct coo_elem){(uint32_t)row, (uint32_t)col, value};
out:
    return st;
}

/* One column under construction. */
typedef struct acting {
    const kl_half *half;
    int *d;              /* [npos] digits now */
    uint64_t odd;        /* positions whose state is odd */
    int target;          /* sector */
    int64_t col, *near;  /* row that this string led to last: the next column's lies behind it as a rule */
    coo *out;
} acting;

/* Operators op[0 .. k) are still to act, the last one first. */
static kl_status act(acting *a, int k, const kl_op_at *op, uint64_t code, double value, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_half *const h = a->half;
    if (k == 0) {
        const int64_t row = code_find_near(h, a->target, code, *a->near);
        if (row < 0) return KL_OK; /* a charge that Z_n reduces may leave the listed sectors; nothing else does */
        *a->near = row;
        return coo_push(a->out, row, a->col, value, err);
    }
    const int p = op[k - 1].pos, from = a->d[p];
    const kl_site_op *const o = &h->type[p]->op[op[k - 1].op];
    const uint64_t bit = UINT64_C(1) << p;
    if (o->odd) {
        value *= kl_phase_record(1, __builtin_parityll(a->odd & (bit - 1)));
        a->odd ^= bit;
    }
    for (int e = 0; e < o->nelem; e++) {
        if (o->elem[e].col != from) continue;
        a->d[p] = o->elem[e].row;
        KL_TRY(act(a, k - 1, op, code + ((uint64_t)a->d[p] - (uint64_t)from) * h->stride[p], value * o->elem[e].value, err));
    }
out:
    a->d[p] = from;
    if (o->odd) a->odd ^= bit;
    return st;
}

/* Adds the strings of one side of n pieces, times their coefficients unless `bare`, from sector `source` to sector `target`: column by column, so that rows come out
   ascending. near: room for n places. */
static kl_status add_strings(const kl_model *m, const kl_half *h, int side, int source, int target, int64_t n, piece *const *p, int bare, int partner_odd, int *d,
                             int64_t *near, coo *out, kl_err *err)
{
    kl_status st = KL_OK;
    acting a = {.half = h, .d = d, .target = target, .out = out};
    const double sign = kl_phase_record(partner_odd, kl_qn_odd(m, h->q[source]));
    for (int64_t k = 0; k < n; k++) near[k] = 0;
    for (int64_t i = h->begin[source]; i < h->begin[source + 1]; i++) {
        digits(h, h->code[i], d);
        a.odd = 0;
        for (int q = 0; q < h->npos; q++) a.odd |= (uint64_t)h->odd[q * h->most + d[q]] << q;
        a.col = i - h->begin[source];
        for (int64_t k = 0; k < n; k++) {
            a.near = &near[k];
            KL_TRY(act(&a, p[k]->n[side], p[k]->op[side], h->code[i], bare ? sign : sign * p[k]->coef, err));
        }
    }
out:
    return st;
}

/* Rows together (a counting sort keeps the order of pushes, which is that of the columns), equal places added in that order; small remnants of cancellation
   dropped. */
static kl_status coo_close(coo *c, int64_t nrow, kl_err *err)
{
    kl_status st = KL_OK;
    struct coo_elem *sorted = NULL;
    int64_t *at = NULL;
    if (c->n > UINT32_MAX) KL_TRY(kl_fail(err, KL_EINPUT, "a matrix of one half has %lld elements; at most 2^32 are possible", (long long)c->n));
    KL_TRY(kl_alloc(&sorted, c->n, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&at, nrow + 1, KL_MEM_MATRIX, err));
    for (int64_t i = 0; i < c->n; i++) at[c->e[i].row + 1]++;
    for (int64_t r = 0; r < nrow; r++) at[r + 1] += at[r];
    for (int64_t i = 0; i < c->n; i++) sorted[at[c->e[i].row]++] = c->e[i];
    int64_t kept = 0;
    for (int64_t i = 0; i < c->n;) {
        struct coo_elem sum = sorted[i];
        double size = fabs(sum.value);
        for (i++; i < c->n && sorted[i].row == sum.row && sorted[i].col == sum.col; i++) {
            sum.value += sorted[i].value;
            size += fabs(sorted[i].value);
        }
        if (fabs(sum.value) > 1e-15 * size) c->e[kept++] = sum;
    }
    c->n = kept;
out:
    kl_free(&sorted);
    kl_free(&at);
    return st;
}

static void op_free(kl_kron_op **p)
{
    kl_kron_op *o = *p;
    if (!o) return;
    kl_free(&o->ptr);
    kl_free(&o->minus);
    kl_free(&o->idx16);
    kl_free(&o->idx32);
    kl_free(&o->coef);
    kl_free(p);
}

/* From closed elements; diagonal, if not NULL, takes the diagonal ones. *out stays NULL when there are none. */
static kl_status op_create(coo *c, int64_t nrow, int64_t ncol, double *diagonal, kl_kron_op **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_kron_op *o = NULL;
    *out = NULL;
    if (diagonal) {
        int64_t kept = 0;
        for (int64_t i = 0; i < c->n; i++) {
            if (c->e[i].row == c->e[i].col) diagonal[c->e[i].row] += c->e[i].value;
            else c->e[kept++] = c->e[i];
        }
        c->n = kept;
    }
    if (c->n == 0) return KL_OK;
    KL_TRY(kl_alloc(&o, 1, KL_MEM_MATRIX, err));
    o->nrow = nrow;
    o->ncol = ncol;
    o->nnz = c->n;
    o->unit = 1;
    o->scale = fabs(c->e[0].value);
    for (int64_t i = 1; i < c->n && o->unit; i++) o->unit = fabs(c->e[i].value) == o->scale;
    KL_TRY(kl_alloc(&o->ptr, nrow + 1, KL_MEM_MATRIX, err));
    for (int64_t i = 0; i < c->n; i++) o->ptr[c->e[i].row + 1]++;
    for (int64_t r = 0; r < nrow; r++) o->ptr[r + 1] += o->ptr[r];
    if (ncol <= 65536) KL_TRY(kl_alloc(&o->idx16, c->n, KL_MEM_MATRIX, err));
    else KL_TRY(kl_alloc(&o->idx32, c->n, KL_MEM_MATRIX, err));
    if (o->unit) KL_TRY(kl_alloc(&o->minus, nrow, KL_MEM_MATRIX, err));
    else KL_TRY(kl_alloc(&o->coef, c->n, KL_MEM_MATRIX, err));
    for (int64_t r = 0; r < nrow; r++) {
        uint32_t to = o->ptr[r];
        for (int minus = 0; minus < (o->unit ? 2 : 1); minus++) {
            for (uint32_t i = o->ptr[r]; i < o->ptr[r + 1]; i++) {
                if (o->unit && (c->e[i].value < 0.0) != minus) continue;
                if (o->idx16) o->idx16[to] = (uint16_t)c->e[i].col;
                else o->idx32[to] = c->e[i].col;
                if (!o->unit) o->coef[to] = c->e[i].value;
                to++;
            }
            if (o->unit && !minus) o->minus[r] = to;
        }
    }
    *out = o;
    o = NULL;
out:
    op_free(&o);
    return st;
}

/* Largest sum of magnitudes in a row. */
static double op_norm(const kl_kron_op *o)
{
    double most = 0.0;
    for (int64_t r = 0; o && r < o->nrow; r++) {
        double s = 0.0;
        for (uint32_t i = o->ptr[r]; i < o->ptr[r + 1]; i++) s += o->unit ? o->scale : fabs(o->coef[i]);
        most = fmax(most, s);
    }
    return most;
}

/* ---------------------------------------------------------------- the sum of products */

typedef struct compiler {
    const kl_halves *h;
    pieces list;
    int64_t nleft, nright, ndiag, ncross;
    piece **left, **right, **diag, **cross; /* views, by kind */
    int cross_side;                         /* cross pieces are grouped by this side's strings */
    int *d;
    int64_t *near;
    coo c;
} compiler;

static int ptr_by_left(const void *a, const void *b) { return by_left(*(piece *const *)a, *(piece *const *)b); }
static int ptr_by_right(const void *a, const void *b) { return by_right(*(piece *const *)a, *(piece *const *)b); }

static int64_t distinct(int64_t n, piece *const *p, int side)
{
    int64_t k = 0;
    for (int64_t i = 0; i < n; i++) k += i == 0 || compare_side(p[i - 1], p[i], side) != 0;
    return k;
}

/* Orders a list by the side that has fewer strings; returns that side. */
static int group_side(int64_t n, piece **p)
{
    if (n == 0) return 0;
    qsort(p, (size_t)n, sizeof *p, ptr_by_right);
    const int64_t right = distinct(n, p, 1);
    qsort(p, (size_t)n, sizeof *p, ptr_by_left);
    if (distinct(n, p, 0) <= right) return 0;
    qsort(p, (size_t)n, sizeof *p, ptr_by_right);
    return 1;
}

static kl_status sort_out(compiler *c, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = c->list.n;
    piece ***const view[] = {&c->left, &c->right, &c->diag, &c->cross};
    for (int i = 0; i < 4; i++) KL_TRY(kl_alloc(view[i], n, KL_MEM_RECORD, err));
    for (int64_t i = 0; i < n; i++) {
        piece *const p = &c->list.p[i];
        if (p->n[1] == 0) c->left[c->nleft++] = p;
        else if (p->n[0] == 0) c->right[c->nright++] = p;
        else if (side_diagonal(c->h->left.type, p, 0) && side_diagonal(c->h->right.type, p, 1)) c->diag[c->ndiag++] = p;
        else c->cross[c->ncross++] = p;
    }
out:
    return st;
}

/* Values of a diagonal string on a sector. */
static void diagonal_values(const kl_half *h, int sec, int n, const kl_op_at *op, int *d, double *v)
{
    for (int64_t i = h->begin[sec]; i < h->begin[sec + 1]; i++) {
        double value = 1.0;
        for (int k = 0; k < n; k++) {
            const int p = op[k].pos, s = (int)(h->code[i] / h->stride[p] % (uint64_t)h->type[p]->dim);
            const kl_site_op *const o = &h->type[p]->op[op[k].op];
            double x = 0.0;
            for (int e = 0; e < o->nelem; e++)
                if (o->elem[e].col == s) x += o->elem[e].value;
            value *= x;
        }
        v[i - h->begin[sec]] = value;
    }
    (void)d;
}

/* 3. Pairs of diagonals of one block: c_k a_k(l) b_k(r) for each group k; a_k of two values becomes a bit, its lower value a part of dr. */
static kl_status block_diagonal(compiler *c, kl_kron_block *b, int ls, int rs, int side, kl_err *err)
{
    kl_status st = KL_OK;
    double *a = NULL, *sum = NULL, *one = NULL;
    const kl_half *const hl = &c->h->left, *const hr = &c->h->right;
    const int64_t groups = distinct(c->ndiag, c->diag, side), width = b->ntile * LANES;
    if (groups == 0) return KL_OK;
    KL_TRY(kl_alloc(&a, b->nl, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&sum, width, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&one, b->nl > width ? b->nl : width, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&b->mask, b->nl, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&b->bits, (groups < 64 ? groups : 64) * width, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&b->fl, groups * b->nl, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&b->fr, groups * width, KL_MEM_MATRIX, err));
    int nfeature = 0;
    for (int64_t i = 0; i < c->ndiag;) {
        int64_t j = i;
        while (j < c->ndiag && compare_side(c->diag[i], c->diag[j], side) == 0) j++;
        memset(a, 0, (size_t)b->nl * sizeof(double));
        memset(sum, 0, (size_t)width * sizeof(double));
        if (side == 0) {
            diagonal_values(hl, ls, c->diag[i]->n[0], c->diag[i]->op[0], c->d, a);
            for (int64_t k = i; k < j; k++) {
                diagonal_values(hr, rs, c->diag[k]->n[1], c->diag[k]->op[1], c->d, one);
                for (int64_t r = 0; r < b->nr; r++) sum[r] += c->diag[k]->coef * one[r];
            }
        } else {
            diagonal_values(hr, rs, c->diag[i]->n[1], c->diag[i]->op[1], c->d, sum);
            for (int64_t k = i; k < j; k++) {
                diagonal_values(hl, ls, c->diag[k]->n[0], c->diag[k]->op[0], c->d, one);
                for (int64_t l = 0; l < b->nl; l++) a[l] += c->diag[k]->coef * one[l];
            }
        }
        i = j;
        double low = a[0], high = a[0];
        for (int64_t l = 0; l < b->nl; l++) low = fmin(low, a[l]), high = fmax(high, a[l]);
        int two = b->nbit < 64;
        for (int64_t l = 0; l < b->nl && two; l++) two = a[l] == low || a[l] == high;
        if (two) {
            for (int64_t r = 0; r < b->nr; r++) b->dr[r] += low * sum[r];
            if (high == low) continue;
            for (int64_t l = 0; l < b->nl; l++) b->mask[l] |= (uint64_t)(a[l] == high) << b->nbit;
            for (int64_t r = 0; r < b->nr; r++) b->bits[b->nbit * width + r] = (high - low) * sum[r];
            b->nbit++;
        } else {
            for (int64_t l = 0; l < b->nl; l++) b->fl[nfeature * b->nl + l] = a[l];
            memcpy(b->fr + nfeature * width, sum, (size_t)width * sizeof(double));
            nfeature++;
        }
    }
    if (nfeature > 0) { /* feature by feature -> state by state */
        double *turned = NULL;
        KL_TRY(kl_alloc(&turned, nfeature * b->nl, KL_MEM_MATRIX, err));
        for (int f = 0; f < nfeature; f++)
            for (int64_t l = 0; l < b->nl; l++) turned[l * nfeature + f] = b->fl[f * b->nl + l];
        kl_free(&b->fl);
        b->fl = turned;
    }
    b->nfeature = nfeature;
out:
    kl_free(&a);
    kl_free(&sum);
    kl_free(&one);
    return st;
}

/* 2. Strings of one half alone. */
static kl_status block_alone(compiler *c, const kl_half *h, int sec, int side, int64_t n, piece *const *p, double *diagonal, kl_kron_op **out, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t dim = h->begin[sec + 1] - h->begin[sec];
    c->c.n = 0;
    KL_TRY(add_strings(c->h->model, h, side, sec, sec, n, p, 0, 0, c->d, c->near, &c->c, err));
    KL_TRY(coo_close(&c->c, dim, err));
    KL_TRY(op_create(&c->c, dim, dim, diagonal, out, err));
out:
    return st;
}

static kl_qn side_shift(const kl_model *m, const kl_half *h, const piece *p, int side)
{
    kl_qn q = kl_qn_zero();
    for (int k = 0; k < p->n[side]; k++) q = kl_qn_add(m, q, kl_qn_of(m, h->type[p->op[side][k].pos]->op[p->op[side][k].op].shift));
    return q;
}

static int side_odd(const kl_half *h, const piece *p, int side)
{
    int odd = 0;
    for (int k = 0; k < p->n[side]; k++) odd ^= h->type[p->op[side][k].pos]->op[p->op[side][k].op].odd;
    return odd;
}

/* 4. Groups that end in this block. A group's pieces share one string and the charge shift of the other. */
static kl_status block_cross(compiler *c, kl_kron_block *b, int ls, int rs, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_halves *const h = c->h;
    const int side = c->cross_side;
    kl_kron_op *a = NULL, *o = NULL;
    int64_t room = 0;
    for (int64_t i = 0; i < c->ncross;) {
        int64_t j = i;
        while (j < c->ncross && compare_side(c->cross[i], c->cross[j], side) == 0) j++;
        const int64_t first = i;
        i = j;
        const kl_half *const half[2] = {&h->left, &h->right};
        const int to[2] = {ls, rs};
        int from[2];
        for (int s = 0; s < 2; s++) from[s] = sector_find(half[s], kl_qn_sub(h->model, half[s]->q[to[s]], side_shift(h->model, half[s], c->cross[first], s)));
        if (from[0] < 0 || from[1] < 0 || h->right_sec[h->block_of[from[0]]] != from[1]) continue;
        const int odd = side_odd(&h->right, c->cross[first], 1);
        kl_kron_op **const slot[2] = {&a, &o};
        for (int s = 0; s < 2; s++) {
            c->c.n = 0;
            KL_TRY(add_strings(h->model, half[s], s, from[s], to[s], s == side ? 1 : j - first, c->cross + first, s == side, s == 0 ? odd : 0, c->d, c->near, &c->c, err));
            const int64_t nrow = half[s]->begin[to[s] + 1] - half[s]->begin[to[s]], ncol = half[s]->begin[from[s] + 1] - half[s]->begin[from[s]];
            KL_TRY(coo_close(&c->c, nrow, err));
            KL_TRY(op_create(&c->c, nrow, ncol, NULL, slot[s], err));
        }
        if (a && o) {
            if (b->ncross == room) {
                room = room ? 2 * room : 8;
                KL_TRY(kl_realloc(&b->cross, room, KL_MEM_MATRIX, err));
            }
            b->cross[b->ncross++] = (kl_kron_cross){a, o, h->block_of[from[0]]};
            a = o = NULL;
        }
        op_free(&a);
        op_free(&o);
    }
out:
    op_free(&a);
    op_free(&o);
    return st;
}

static double largest(int64_t n, const double *x)
{
    double most = n > 0 ? x[0] : 0.0;
    for (int64_t i = 1; i < n; i++) most = fmax(most, x[i]);
    return most;
}

/* No eigenvalue of the block's rows lies above. */
static double block_bound(const kl_kron_block *b)
{
    const int64_t width = b->ntile * LANES;
    double s = largest(b->nl, b->dl) + largest(b->nr, b->dr) + op_norm(b->a) + op_norm(b->b);
    for (int k = 0; k < b->nbit; k++) s += fmax(0.0, largest(b->nr, b->bits + k * width));
    for (int f = 0; f < b->nfeature; f++) {
        double fl = 0.0, fr = 0.0;
        for (int64_t l = 0; l < b->nl; l++) fl = fmax(fl, fabs(b->fl[l * b->nfeature + f]));
        for (int64_t r = 0; r < b->nr; r++) fr = fmax(fr, fabs(b->fr[f * width + r]));
        s += fl * fr;
    }
    for (int64_t c = 0; c < b->ncross; c++) s += op_norm(b->cross[c].a) * op_norm(b->cross[c].b);
    return s;
}

static void block_cost(kl_kron *k, kl_kron_block *b)
{
    const double elements = (double)(b->nl * b->nr);
    const double na = b->a ? (double)b->a->nnz : 0.0, nb = b->b ? (double)b->b->nnz : 0.0;
    b->cost_left = 4.0 * (double)b->nl + na + (double)(b->nl * (b->nbit / 4 + b->nfeature));
    b->cost_right = 8.0 * (double)b->nr + nb;
    k->flop += 2.0 * elements + na * (double)b->nr + nb * (double)b->nl + (double)(b->nbit / 4 + 1 + 2 * b->nfeature) * elements;
    for (int64_t c = 0; c < b->ncross; c++) {
        const kl_kron_cross *const g = &b->cross[c];
        const double used = (double)g->a->nnz / (double)g->a->nrow;
        b->cost_right += used * (4.0 * (double)g->b->ncol + 2.0 * (double)g->b->nnz);
        k->flop += (double)g->a->nnz * ((double)g->b->ncol + 2.0 * (double)g->b->nnz);
    }
}

kl_status kl_halves_compile(const kl_halves *h, const kl_terms *terms, int64_t from, int64_t to, kl_kron **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_kron *k = NULL;
    compiler c = {.h = h};
    *out = NULL;
    KL_TRY(kl_alloc(&k, 1, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&c.d, h->nsite, KL_MEM_WORK, err));
    KL_TRY(split(terms, from, to, h->flavour, h->cut, &c.list, err));
    if (from == 0 && to == terms->nterm) c.list.constant += terms->constant;
    KL_TRY(kl_alloc(&c.near, c.list.n, KL_MEM_WORK, err));
    KL_TRY(sort_out(&c, err));
    const int diag_side = group_side(c.ndiag, c.diag);
    c.cross_side = group_side(c.ncross, c.cross);
    KL_TRY(kl_alloc(&k->block, h->nblock, KL_MEM_MATRIX, err));
    k->nblock = h->nblock;
    k->n = h->n;
    double bound = -INFINITY;
    for (int i = 0; i < h->nblock; i++) {
        kl_kron_block *const b = &k->block[i];
        const int ls = h->left_sec[i], rs = h->right_sec[i];
        b->off = h->off[i];
        b->nl = h->left.begin[ls + 1] - h->left.begin[ls];
        b->nr = h->right.begin[rs + 1] - h->right.begin[rs];
        b->ntile = (b->nr + LANES - 1) / LANES;
        b->first_tile = k->ntile_all;
        k->ntile_all += b->ntile;
        if (b->ntile > k->ntile_max) k->ntile_max = b->ntile;
        KL_TRY(kl_alloc(&b->dl, b->nl, KL_MEM_MATRIX, err));
        KL_TRY(kl_alloc(&b->dr, b->ntile * LANES, KL_MEM_MATRIX, err));
        KL_TRY(block_alone(&c, &h->left, ls, 0, c.nleft, c.left, b->dl, &b->a, err));
        KL_TRY(block_alone(&c, &h->right, rs, 1, c.nright, c.right, b->dr, &b->b, err));
        for (int64_t l = 0; l < b->nl; l++) b->dl[l] += c.list.constant;
        KL_TRY(block_diagonal(&c, b, ls, rs, diag_side, err));
        KL_TRY(block_cross(&c, b, ls, rs, err));
        block_cost(k, b);
        bound = fmax(bound, block_bound(b));
    }
    for (int64_t i = 0; i < k->nblock; i++) { /* the ends of last tiles */
        kl_kron_block *const b = &k->block[i];
        double low = b->dl[0];
        for (int64_t l = 1; l < b->nl; l++) low = fmin(low, b->dl[l]);
        for (int64_t r = b->nr; r < b->ntile * LANES; r++) b->dr[r] = bound - low;
    }
    *out = k;
    k = NULL;
out:
    kl_free(&c.list.p);
    kl_free(&c.left);
    kl_free(&c.right);
    kl_free(&c.diag);
    kl_free(&c.cross);
    kl_free(&c.d);
    kl_free(&c.near);
    kl_free(&c.c.e);
    kl_kron_destroy(&k);
    return st;
}

void kl_kron_destroy(kl_kron **p)
{
    kl_kron *k = *p;
    if (!k) return;
    for (int64_t i = 0; k->block && i < k->nblock; i++) {
        kl_kron_block *const b = &k->block[i];
        op_free(&b->a);
        op_free(&b->b);
        for (int64_t c = 0; c < b->ncross; c++) {
            op_free(&b->cross[c].a);
            op_free(&b->cross[c].b);
        }
        kl_free(&b->cross);
        kl_free(&b->dl);
        kl_free(&b->dr);
        kl_free(&b->mask);
        kl_free(&b->bits);
        kl_free(&b->fl);
        kl_free(&b->fr);
    }
    kl_free(&k->block);
    kl_free(p);
}

void kl_kron_diagonal(const kl_kron *k, double *d)
{
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        const int64_t width = b->ntile * LANES;
        for (int64_t l = 0; l < b->nl; l++)
            for (int64_t r = 0; r < width; r++) {
                double s = b->dl[l] + b->dr[r];
                for (int m = 0; m < b->nbit; m++)
                    if (b->mask[l] >> m & 1) s += b->bits[m * width + r];
                for (int f = 0; f < b->nfeature; f++) s += b->fl[l * b->nfeature + f] * b->fr[f * width + r];
                d[b->off + (r / LANES * b->nl + l) * LANES + r % LANES] = s;
            }
    }
    for (int64_t i = 0; i < k->nblock; i++) { /* products may have diagonals of their own: n (x) (b + b+) has none, S+ S- on one half each neither, but a sum may */
        const kl_kron_block *const b = &k->block[i];
        for (int64_t c = 0; c < b->ncross; c++) {
            const kl_kron_cross *const g = &b->cross[c];
            if (g->source != i) continue;
            for (int64_t l = 0; l < b->nl; l++)
                for (uint32_t p = g->a->ptr[l]; p < g->a->ptr[l + 1]; p++) {
                    if ((g->a->idx16 ? g->a->idx16[p] : g->a->idx32[p]) != l) continue;
                    const double va = g->a->unit ? (p < g->a->minus[l] ? g->a->scale : -g->a->scale) : g->a->coef[p];
                    for (int64_t r = 0; r < b->nr; r++)
                        for (uint32_t q = g->b->ptr[r]; q < g->b->ptr[r + 1]; q++) {
                            if ((g->b->idx16 ? g->b->idx16[q] : g->b->idx32[q]) != r) continue;
                            const double vb = g->b->unit ? (q < g->b->minus[r] ? g->b->scale : -g->b->scale) : g->b->coef[q];
                            d[b->off + (r / LANES * b->nl + l) * LANES + r % LANES] += va * vb;
                        }
                }
        }
    }
}

static int64_t op_bytes(const kl_kron_op *o)
{
    if (!o) return 0;
    return kl_mem_block_bytes(o->ptr) + kl_mem_block_bytes(o->minus) + kl_mem_block_bytes(o->idx16) + kl_mem_block_bytes(o->idx32) + kl_mem_block_bytes(o->coef);
}

int64_t kl_kron_bytes(const kl_kron *k)
{
    int64_t all = 0;
    for (int64_t i = 0; i < k->nblock; i++) {
        const kl_kron_block *const b = &k->block[i];
        all += op_bytes(b->a) + op_bytes(b->b) + kl_mem_block_bytes(b->dl) + kl_mem_block_bytes(b->dr) + kl_mem_block_bytes(b->mask) +
               kl_mem_block_bytes(b->bits) + kl_mem_block_bytes(b->fl) + kl_mem_block_bytes(b->fr);
        for (int64_t c = 0; c < b->ncross; c++) all += op_bytes(b->cross[c].a) + op_bytes(b->cross[c].b);
    }
    return all;
}
