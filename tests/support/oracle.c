/* The slow, obvious answer that everything else is compared with: see oracle.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"
#include <lapack.h>
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DENSE_LIMIT 1500
#define LANCZOS_STEPS 400

static void *get(size_t n, size_t size)
{
    void *p = calloc(n > 0 ? n : 1, size);
    if (p == NULL) {
        fprintf(stderr, "oracle: no memory for %zu elements of %zu bytes\n", n, size);
        exit(99);
    }
    return p;
}

static void *grow(void *old, size_t n, size_t size)
{
    void *p = realloc(old, n * size);
    if (p == NULL) {
        fprintf(stderr, "oracle: no memory for %zu elements of %zu bytes\n", n, size);
        exit(99);
    }
    return p;
}

static void quit(const char *why, const char *what)
{
    fprintf(stderr, "oracle: %s: %s\n", why, what);
    exit(99);
}

static int in_class(const kl_lattice *lat, int i, const char *c)
{
    const int last = lat->nsite - 1, x = i / lat->ly;
    if (c == NULL || (!strcmp(c, "first") && i == 0) || (!strcmp(c, "last") && i == last)) return 1;
    if (!strcmp(c, "ends")) return x == 0 || x == last / lat->ly;
    if (!strcmp(c, "even") || !strcmp(c, "odd")) return i % 2 == !strcmp(c, "odd");
    return lat->site_class[i] != NULL && !strcmp(lat->site_class[i], c);
}

static const kl_site_op *named_op(const kl_site_type *t, const char *name)
{
    for (int a = 0; a < t->nop; a++)
        if (!strcmp(t->op[a].name, name)) return &t->op[a];
    quit("no operator of this name", name);
    return NULL;
}

static oracle_string *new_string(oracle *o)
{
    if ((o->nstring & (o->nstring - 1)) == 0)
        o->string = grow(o->string, (size_t)(o->nstring ? 2 * o->nstring : 1), sizeof *o->string);
    oracle_string *s = &o->string[o->nstring++];
    memset(s, 0, sizeof *s);
    return s;
}

static void place(oracle *o, const kl_params *p, const kl_term_def *d, const int *site, int bond, double r)
{
    kl_coef_args a = {
        .scalar = p->scalar, .array = (const double *const *)p->array, .bond = bond, .nsite = o->n, .r = r};
    memcpy(a.site, site, (size_t)d->nslot * sizeof *site);
    a.x = o->lattice->xy[site[0]][0];
    a.y = o->lattice->xy[site[0]][1];
    oracle_string *s = new_string(o);
    s->coef = kl_coef_eval(&d->coef, &a);
    s->plus_hc = d->plus_hc;
    s->nfactor = d->nfactor;
    for (int f = 0; f < d->nfactor; f++) {
        const int pos = o->lattice->position[site[d->factor[f].slot]];
        const int op = d->factor[f].op[o->type[pos] - o->model->type];
        if (op < 0 && s->coef != 0.0) quit("an operator is missing on a site of this term", d->text);
        s->factor[f].pos = pos;
        s->factor[f].op = &o->type[pos]->op[op < 0 ? 0 : op];
    }
}

static int named_site(const kl_lattice *lat, const char *name)
{
    for (int i = 0; i < lat->nsite; i++)
        if (lat->site_name[i] != NULL && !strcmp(lat->site_name[i], name)) return i;
    const int i = atoi(name);
    return i < 0 ? i + lat->nsite : i;
}

static int bonded(const kl_lattice *lat, int i, int j, const char *cls)
{
    for (int b = 0; b < lat->nbond; b++) {
        const kl_bond *const bond = &lat->bond[b];
        if ((bond->i != i || bond->j != j) && (bond->i != j || bond->j != i)) continue;
        for (int c = 0; c < bond->nclass; c++)
            if (!strcmp(lat->bond_class[bond->cls[c]], cls)) return 1;
    }
    return 0;
}

static void walk(oracle *o, const kl_params *p, const kl_term_def *d)
{
    const kl_lattice *lat = o->lattice;
    int s[KL_MAX_FACTOR];
    if (d->place == KL_PLACE_SITE)
        for (s[0] = 0; s[0] < o->n; s[0]++)
            if (in_class(lat, s[0], d->where)) place(o, p, d, s, -1, 0.0);
    if (d->place == KL_PLACE_BOND)
        for (int b = 0; b < lat->nbond; b++)
            for (int c = 0; c < lat->bond[b].nclass; c++)
                if (!strcmp(lat->bond_class[lat->bond[b].cls[c]], d->where)) {
                    s[0] = lat->bond[b].reversed ? lat->bond[b].j : lat->bond[b].i;
                    s[1] = lat->bond[b].i + lat->bond[b].j - s[0];
                    place(o, p, d, s, b, lat->bond[b].r);
                }
    if (d->place == KL_PLACE_PAIR)
        for (s[0] = 0; s[0] < o->n; s[0]++)
            for (s[1] = s[0] + 1; s[1] < o->n; s[1]++) {
                const double r = kl_lattice_distance(lat, s[0], s[1]);
                if (d->distance <= 0.0 || fabs(r - d->distance) < 1e-6) place(o, p, d, s, -1, r);
            }
    if (d->place == KL_PLACE_RUN)
        for (int i = 0; i < o->n; i++) {
            const int wraps = i + d->nslot > o->n;
            if (d->nslot > o->n || (wraps && lat->kind != KL_LATTICE_RING) ||
                (wraps && o->n == 2 && d->nslot == 2))
                continue;
            for (int k = 0; k < d->nslot; k++) s[k] = (i + k) % o->n;
            place(o, p, d, s, -1, d->nslot > 1 ? kl_lattice_distance(lat, s[0], s[1]) : 0.0);
        }
    if (d->place == KL_PLACE_LOOP) {
        int64_t all = 1; /* every choice of sites, the first the lowest, each bonded to the next */
        for (int k = 0; k < d->nslot; k++) all *= o->n;
        for (int64_t choice = 0; choice < all; choice++) {
            int64_t rest = choice;
            int good = 1;
            for (int k = 0; k < d->nslot; k++, rest /= o->n) s[k] = (int)(rest % o->n);
            for (int k = 0; k < d->nslot && good; k++) {
                good = (k == 0 || s[k] > s[0]) && bonded(lat, s[k], s[(k + 1) % d->nslot], d->where);
                for (int l = 0; l < k; l++) good &= s[k] != s[l];
            }
            double sum[2] = {0, 0}, step[2];
            for (int k = 0; k < d->nslot && good && lat->has_xy; k++) {
                kl_lattice_step(lat, s[k], s[(k + 1) % d->nslot], step);
                for (int c = 0; c < 2; c++) sum[c] += step[c];
            }
            good &= hypot(sum[0], sum[1]) < 1e-6; /* not around a cylinder */
            if (good && s[1] < s[d->nslot - 1]) place(o, p, d, s, -1, kl_lattice_distance(lat, s[0], s[1]));
        }
    }
    if (d->place == KL_PLACE_NAMED) {
        for (int k = 0; k < d->nslot; k++) s[k] = named_site(lat, d->sites[k]);
        place(o, p, d, s, -1, d->nslot > 1 ? kl_lattice_distance(lat, s[0], s[1]) : 0.0);
    }
}

oracle *oracle_create(const kl_model *m, const kl_lattice *lat, const kl_params *p)
{
    oracle *o = get(1, sizeof *o);
    o->model = m;
    o->lattice = lat;
    o->n = lat->nsite;
    o->type = get((size_t)o->n, sizeof *o->type);
    o->stride = get((size_t)o->n, sizeof *o->stride);
    o->dim = 1;
    for (int pos = o->n - 1; pos >= 0; pos--) {
        const int i = lat->order[pos];
        for (int t = 0; t < m->ntype; t++)
            if (m->type[t].where != NULL && in_class(lat, i, m->type[t].where) && o->type[pos] == NULL)
                o->type[pos] = &m->type[t];
        for (int t = 0; t < m->ntype; t++)
            if (m->type[t].where == NULL && o->type[pos] == NULL) o->type[pos] = &m->type[t];
        o->stride[pos] = o->dim;
        o->dim *= o->type[pos]->dim;
    }
    for (int t = 0; t < m->nterm; t++) walk(o, p, &m->term[t]);
    return o;
}

void oracle_destroy(oracle **po)
{
    if (*po == NULL) return;
    free((*po)->type);
    free((*po)->stride);
    free((*po)->string);
    free(*po);
    *po = NULL;
}

void oracle_add(oracle *o, double coef, int nop, const int *pos, const char *const *name, int plus_hc)
{
    oracle_string *s = new_string(o);
    s->coef = coef;
    s->plus_hc = plus_hc;
    s->nfactor = nop;
    for (int f = 0; f < nop; f++) {
        s->factor[f].pos = pos[f];
        s->factor[f].op = named_op(o->type[pos[f]], name[f]);
    }
}

static int digit(const oracle *o, int64_t state, int pos)
{
    return (int)(state / o->stride[pos] % o->type[pos]->dim);
}

void oracle_charge(const oracle *o, int64_t state, int charge[KL_MAX_CHARGE])
{
    for (int q = 0; q < o->model->ncharge; q++) {
        const int n = o->model->charge[q].modulus;
        charge[q] = 0;
        for (int pos = 0; pos < o->n; pos++) charge[q] += o->type[pos]->state_charge[digit(o, state, pos)][q];
        if (n > 0) charge[q] = (charge[q] % n + n) % n;
    }
}

/* Jordan-Wigner: -1 for every site before pos that holds an odd number of fermions. */
static double string_sign(const oracle *o, int64_t state, int pos)
{
    int odd = 0;
    for (int p = 0; p < pos; p++)
        for (int q = 0; q < o->model->ncharge; q++)
            odd += o->model->charge[q].odd * o->type[p]->state_charge[digit(o, state, p)][q];
    return odd % 2 ? -1.0 : 1.0;
}

typedef void visit(void *to, int64_t row, double value);

/* Visits all <row| factor[0] ... factor[left-1] |state> * amplitude. */
static void act(const oracle *o, const oracle_string *s, int left, int64_t state, double amplitude,
                visit *out, void *to)
{
    if (left == 0) {
        out(to, state, amplitude);
        return;
    }
    const int pos = s->factor[left - 1].pos, d = digit(o, state, pos);
    const kl_site_op *op = s->factor[left - 1].op;
    const double sign = op->odd ? string_sign(o, state, pos) : 1.0;
    for (int e = 0; e < op->nelem; e++)
        if (op->elem[e].col == d)
            act(o, s, left - 1, state + (op->elem[e].row - d) * o->stride[pos],
                amplitude * sign * op->elem[e].value, out, to);
}

typedef struct collector {
    oracle_sector *sector;
    const int64_t *index; /* of a full state in the sector, -1 outside */
    int64_t col;
    int transposed;
} collector;

static void push(oracle_sector *s, int64_t row, int64_t col, double value)
{
    if ((s->nelem & (s->nelem - 1)) == 0) {
        const size_t room = (size_t)(s->nelem ? 2 * s->nelem : 1);
        s->row = grow(s->row, room, sizeof *s->row);
        s->col = grow(s->col, room, sizeof *s->col);
        s->value = grow(s->value, room, sizeof *s->value);
    }
    s->row[s->nelem] = row;
    s->col[s->nelem] = col;
    s->value[s->nelem++] = value;
}

static void collect(void *to, int64_t row, double value)
{
    collector *c = to;
    if (value == 0.0) return;
    /* Terms may leave the sector one by one as long as their sum does not; such elements cancel and need no
       place. */
    if (c->index[row] < 0) return;
    push(c->sector, c->index[row], c->col, value);
    if (c->transposed) push(c->sector, c->col, c->index[row], value);
}

oracle_sector *oracle_sector_create(const oracle *o, const int *charge)
{
    oracle_sector *s = get(1, sizeof *s);
    int64_t *index = get((size_t)o->dim, sizeof *index);
    s->state = get((size_t)o->dim, sizeof *s->state);
    for (int64_t i = 0; i < o->dim; i++) {
        int have[KL_MAX_CHARGE] = {0}, same = 1;
        oracle_charge(o, i, have);
        for (int q = 0; charge != NULL && q < o->model->ncharge; q++) same &= have[q] == charge[q];
        index[i] = same ? s->dim : -1;
        if (same) s->state[s->dim++] = i;
    }
    for (int64_t c = 0; c < s->dim; c++)
        for (int64_t k = 0; k < o->nstring; k++) {
            collector to = {s, index, c, o->string[k].plus_hc};
            if (o->string[k].coef != 0.0)
                act(o, &o->string[k], o->string[k].nfactor, s->state[c], o->string[k].coef, collect, &to);
        }
    free(index);
    return s;
}

void oracle_sector_destroy(oracle_sector **s)
{
    if (*s == NULL) return;
    free((*s)->state);
    free((*s)->row);
    free((*s)->col);
    free((*s)->value);
    free(*s);
    *s = NULL;
}

double *oracle_dense(const oracle_sector *s)
{
    double *h = get((size_t)(s->dim * s->dim), sizeof *h);
    for (int64_t e = 0; e < s->nelem; e++) h[s->col[e] * s->dim + s->row[e]] += s->value[e];
    return h;
}

void oracle_apply(const oracle_sector *s, const double *x, double *y)
{
    memset(y, 0, (size_t)s->dim * sizeof *y);
    for (int64_t e = 0; e < s->nelem; e++) y[s->row[e]] += s->value[e] * x[s->col[e]];
}

static void eigen(int n, double *a, double *w, int vectors)
{
    const char job = vectors ? 'V' : 'N';
    int info = 0, lwork = -1, liwork = -1, isize = 0;
    double size = 0.0;
    LAPACK_dsyevd(&job, "L", &n, a, &n, w, &size, &lwork, &isize, &liwork, &info);
    lwork = (int)size;
    liwork = isize;
    double *work = get((size_t)lwork, sizeof *work);
    int *iwork = get((size_t)liwork, sizeof *iwork);
    LAPACK_dsyevd(&job, "L", &n, a, &n, w, work, &lwork, iwork, &liwork, &info);
    if (info != 0) quit("dsyevd failed", "no eigenvalues");
    free(work);
    free(iwork);
}

static double dot(int64_t n, const double *a, const double *b)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Lanczos with full reorthogonalization until the k-th energy stands still; ground, if not NULL, gets the
   lowest vector. */
static int lanczos(const oracle_sector *s, int k, double *w, double *ground)
{
    const int64_t n = s->dim;
    const int most = n < LANCZOS_STEPS ? (int)n : LANCZOS_STEPS;
    double *v = get((size_t)(n * (most + 1)), sizeof *v), *t = NULL, *e = get((size_t)most, sizeof *e);
    double *alpha = get((size_t)most + 1, sizeof *alpha), *beta = get((size_t)most + 1, sizeof *beta);
    double last = INFINITY;
    int m = 0, calm = 0;
    for (int64_t i = 0; i < n; i++) v[i] = cos(1.0 + 0.7 * (double)i) + 0.3 * sin((double)i * (double)i);
    double norm = sqrt(dot(n, v, v));
    for (int64_t i = 0; i < n; i++) v[i] /= norm;
    for (m = 0; m < most;) {
        double *y = v + n * (m + 1);
        oracle_apply(s, v + n * m, y);
        alpha[m] = dot(n, v + n * m, y);
        for (int pass = 0; pass < 2; pass++)
            for (int j = 0; j <= m; j++) {
                const double overlap = dot(n, v + n * j, y);
                for (int64_t i = 0; i < n; i++) y[i] -= overlap * v[n * j + i];
            }
        beta[m] = sqrt(dot(n, y, y));
        m++;
        const int done = beta[m - 1] < 1e-12 || m == most;
        if (!done)
            for (int64_t i = 0; i < n; i++) y[i] /= beta[m - 1];
        if (!done && (m < k || m % 5 != 0)) continue;
        free(t);
        t = get((size_t)(m * m), sizeof *t);
        for (int j = 0; j < m; j++) {
            t[j * m + j] = alpha[j];
            if (j + 1 < m) t[j * m + j + 1] = beta[j];
        }
        eigen(m, t, e, 1);
        const double now = e[(k < m ? k : m) - 1];
        calm = fabs(now - last) < 1e-14 * fmax(1.0, fabs(now)) ? calm + 1 : 0;
        last = now;
        if (done || calm >= 3) break;
    }
    if (m == most && m < n && calm == 0) quit("Lanczos did not converge", "raise LANCZOS_STEPS");
    if (k > m) k = m;
    memcpy(w, e, (size_t)k * sizeof *w);
    if (ground != NULL) {
        memset(ground, 0, (size_t)n * sizeof *ground);
        for (int j = 0; j < m; j++)
            for (int64_t i = 0; i < n; i++) ground[i] += t[j] * v[n * j + i];
    }
    free(v);
    free(t);
    free(e);
    free(alpha);
    free(beta);
    return k;
}

int oracle_energies(const oracle *o, const int *charge, int k, double *w, double *psi)
{
    oracle_sector *s = oracle_sector_create(o, charge);
    double *ground = psi != NULL ? get((size_t)s->dim, sizeof *ground) : NULL;
    if (s->dim > 0 && s->dim <= DENSE_LIMIT) {
        double *h = oracle_dense(s), *e = get((size_t)s->dim, sizeof *e);
        eigen((int)s->dim, h, e, psi != NULL);
        if (k > s->dim) k = (int)s->dim;
        memcpy(w, e, (size_t)k * sizeof *w);
        if (psi != NULL) memcpy(ground, h, (size_t)s->dim * sizeof *ground);
        free(h);
        free(e);
    } else {
        k = s->dim > 0 ? lanczos(s, k, w, ground) : 0;
    }
    if (psi != NULL) {
        memset(psi, 0, (size_t)o->dim * sizeof *psi);
        for (int64_t i = 0; i < s->dim; i++) psi[s->state[i]] = ground[i];
    }
    free(ground);
    oracle_sector_destroy(&s);
    return k;
}

typedef struct projector {
    const double *psi;
    double sum;
} projector;

static void project(void *to, int64_t row, double value)
{
    projector *p = to;
    p->sum += p->psi[row] * value;
}

double oracle_expect(const oracle *o, const double *psi, int nop, const int *site, const char *const *name)
{
    oracle_string s = {.nfactor = nop};
    projector p = {psi, 0.0};
    assert(nop <= ORACLE_MAX_FACTOR);
    for (int f = 0; f < nop; f++) {
        s.factor[f].pos = o->lattice->position[site[f]];
        s.factor[f].op = named_op(o->type[s.factor[f].pos], name[f]);
    }
    for (int64_t i = 0; i < o->dim; i++)
        if (psi[i] != 0.0) act(o, &s, nop, i, psi[i], project, &p);
    return p.sum / dot(o->dim, psi, psi);
}
