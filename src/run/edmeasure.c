/* Measurements on states of exact diagonalization. An operator string is compiled like a Hamiltonian and
   applied to the state.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/edmeasure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/dense.h"
#include "dmrg/measure.h"
#include "base/mem.h"
#include "model/siteop.h"

typedef enum kind { LOCAL, CORR, CONNECTED, STRUCTURE, ENTROPY } kind;

/* An operator of one site as a sum of those that the model's tables have, for each site type; n = 0: that
   type has no such operator, or it is 0 there. */
typedef struct part {
    int n, *op;
    double *coef;
} part;

typedef struct request {
    kind kind;
    char a[64], b[64];
    part *of[3]; /* [ntype]: A, B, and A B on one site */
} request;

static void request_clear(const kl_model *m, request *q)
{
    for (int k = 0; k < 3; k++) {
        for (int t = 0; q->of[k] && t < m->ntype; t++) {
            kl_free(&q->of[k][t].op);
            kl_free(&q->of[k][t].coef);
        }
        kl_free(&q->of[k]);
    }
}

/* Name between p and end without blanks around it. */
static int take_word(const char *p, const char *end, char *out, size_t size)
{
    while (p < end && *p == ' ') p++;
    while (end > p && end[-1] == ' ') end--;
    if (p == end || (size_t)(end - p) >= size) return 0;
    memcpy(out, p, (size_t)(end - p));
    out[end - p] = '\0';
    return 1;
}

static double element_dot(int dim, const kl_site_op *o, const double *mat)
{
    double sum = 0.0;
    for (int e = 0; e < o->nelem; e++) sum += o->elem[e].value * mat[o->elem[e].row + o->elem[e].col * dim];
    return sum;
}

/* mat = sum of coef * op, by least squares over all operators of the type, each over its norm, for they may
   be measured in any unit; products that no term of the model needs are not among them. */
static kl_status decompose(const kl_site_type *type, const double *mat, const char *text, part *out,
                           kl_err *err)
{
    kl_status st = KL_OK;
    const int n = type->nop, dim = type->dim;
    double *gram = NULL, *w = NULL, *full = NULL, size = 0.0, left = 0.0;
    KL_TRY(kl_alloc(&gram, (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&w, 4 * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&full, dim * dim, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&out->op, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&out->coef, n, KL_MEM_MISC, err));
    double *const b = w + n, *const c = b + n, *const norm = c + n;
    for (int k = 0; k < n; k++) {
        for (int e = 0; e < type->op[k].nelem; e++) norm[k] = hypot(norm[k], type->op[k].elem[e].value);
        if (norm[k] == 0) norm[k] = 1;
    }
    for (int k = 0; k < n; k++) {
        memset(full, 0, sizeof(double) * (size_t)(dim * dim));
        for (int e = 0; e < type->op[k].nelem; e++)
            full[type->op[k].elem[e].row + type->op[k].elem[e].col * dim] =
                type->op[k].elem[e].value / norm[k];
        for (int l = 0; l < n; l++) gram[l + k * n] = element_dot(dim, &type->op[l], full) / norm[l];
        b[k] = element_dot(dim, &type->op[k], mat) / norm[k];
    }
    KL_TRY(kl_dense_eig(n, gram, n, w, err));
    for (int j = 0; j < n; j++) {
        double along = 0.0;
        if (w[j] <= 1e-12 * w[n - 1]) continue;
        for (int k = 0; k < n; k++) along += gram[k + j * n] * b[k];
        for (int k = 0; k < n; k++) c[k] += along / w[j] * gram[k + j * n];
    }
    for (int k = 0; k < n; k++) c[k] /= norm[k];
    memcpy(full, mat, sizeof(double) * (size_t)(dim * dim));
    for (int k = 0; k < n; k++)
        for (int e = 0; e < type->op[k].nelem; e++)
            full[type->op[k].elem[e].row + type->op[k].elem[e].col * dim] -= c[k] * type->op[k].elem[e].value;
    for (int i = 0; i < dim * dim; i++) size = fmax(size, fabs(mat[i])), left = fmax(left, fabs(full[i]));
    if (left > 1e-11 * size)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--measure: '%s' is no sum of the operators that the model's tables have; exact "
                       "diagonalization measures only those",
                       text));
    for (int k = 0; k < n; k++)
        if (fabs(c[k]) * norm[k] > 1e-13 * size) {
            out->op[out->n] = k;
            out->coef[out->n++] = c[k];
        }
out:
    kl_free(&gram);
    kl_free(&w);
    kl_free(&full);
    return st;
}

/* right, if not NULL, stands behind it on the same site. */
static kl_status read_operator(const kl_task *t, const char *text, const char *right, part **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_siteop *op = NULL, *behind = NULL;
    double *product = NULL;
    KL_TRY(kl_siteop_create(t->model, text, &op, err));
    if (right) KL_TRY(kl_siteop_create(t->model, right, &behind, err));
    KL_TRY(kl_alloc(out, t->model->ntype, KL_MEM_MISC, err));
    for (int k = 0; k < t->model->ntype; k++) {
        const kl_site_type *const type = &t->model->type[k];
        if (!op->mat[k] || (behind && !behind->mat[k])) continue;
        KL_TRY(kl_alloc(&product, type->dim * type->dim, KL_MEM_WORK, err));
        for (int row = 0; row < type->dim; row++)
            for (int col = 0; col < type->dim; col++)
                for (int mid = 0; mid < type->dim; mid++)
                    product[row + col * type->dim] +=
                        op->mat[k][row + mid * type->dim] *
                        (behind ? behind->mat[k][mid + col * type->dim] : mid == col);
        KL_TRY(decompose(type, product, text, &(*out)[k], err));
        kl_free(&product);
    }
out:
    kl_free(&product);
    kl_siteop_destroy(&op);
    kl_siteop_destroy(&behind);
    return st;
}

/* By how much A, or A B, changes the charges. */
static kl_qn shift_of(const kl_model *m, const kl_site_op *a, const kl_site_op *b)
{
    const kl_qn shift = kl_qn_of(m, a->shift);
    return b ? kl_qn_add(m, shift, kl_qn_of(m, b->shift)) : shift;
}

/* What changes a charge has no expectation value; together two may. A sum needs one part, or one pair of them
   on any two sites, that conserves all charges. */
static kl_status check_charges(const kl_task *t, const char *text, const request *q, kl_err *err)
{
    const kl_model *const m = t->model;
    kl_qn shift = kl_qn_zero();
    for (int i = 0; i < m->ntype; i++)
        for (int j = 0; j < (q->of[1] ? m->ntype : 1); j++) {
            const part *const a = &q->of[0][i], *const b = q->of[1] ? &q->of[1][j] : NULL;
            for (int k = 0; k < a->n; k++)
                for (int l = 0; l < (b ? b->n : 1); l++) {
                    shift = shift_of(m, &m->type[i].op[a->op[k]], b ? &m->type[j].op[b->op[l]] : NULL);
                    if (kl_qn_cmp(shift, kl_qn_zero()) == 0) return KL_OK;
                }
        }
    int c = 0;
    while (c < m->ncharge && shift.v[c] == 0) c++;
    if (c == m->ncharge) return KL_OK; /* it is 0 everywhere */
    char by[32];
    return kl_fail(err, KL_EINPUT,
                   "--measure %s: it changes the charge %s by %s, so that its value is 0 in every sector",
                   text, m->charge[c].name, kl_charge_print(&m->charge[c], shift.v[c], by, sizeof by));
}

static const part *part_at(const kl_task *t, const part *of, int pos)
{
    return &of[t->terms->type[pos] - t->model->type];
}

static kl_status read_request(const kl_task *t, const char *text, request *q, kl_err *err)
{
    static const char *const word[] = {"local(", "corr(", "connected(", "structure("}; /* ORDER kind */
    kl_status st = KL_OK;
    *q = (request){.kind = LOCAL};
    if (strcmp(text, "entropy") == 0) {
        q->kind = ENTROPY;
        return KL_OK;
    }
    const char *const open = strchr(text, '('), *const close = strrchr(text, ')'),
                      *const comma = strchr(text, ',');
    int known = 0;
    for (int k = LOCAL; k < ENTROPY; k++)
        if (strncmp(text, word[k], strlen(word[k])) == 0) {
            q->kind = (kind)k;
            known = 1;
        }
    const size_t word_length =
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    /* an operator by itself */
    const int alone = !known && (open == NULL || open != text + word_length || word_length == 0 ||
                                 strncmp(text, "expipi(", 7) == 0);
    if (strlen(text) >= sizeof q->a + sizeof q->b || (alone && strlen(text) >= sizeof q->a))
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--measure '%.100s': the text is too long; an operator may have %d characters for ed",
                       text, (int)sizeof q->a - 1));
    if (alone) known = take_word(text, text + strlen(text), q->a, sizeof q->a);
    else if (!known || close == NULL || close[1] != '\0') known = 0;
    else if (q->kind == LOCAL) known = take_word(open + 1, close, q->a, sizeof q->a);
    else if (comma != NULL && (comma - open > (long)sizeof q->a || close - comma > (long)sizeof q->b))
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--measure '%.100s': the text is too long; an operator may have %d characters for ed",
                       text, (int)sizeof q->a - 1));
    else
        known = comma != NULL && take_word(open + 1, comma, q->a, sizeof q->a) &&
                take_word(comma + 1, close, q->b, sizeof q->b);
    if (!known)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--measure: '%s'; allowed for ed: A, local(A), corr(A,B), connected(A,B), "
                       "structure(A,B), entropy",
                       text));
    if (q->kind == STRUCTURE && t->lat->kind == KL_LATTICE_FILE)
        KL_TRY(kl_fail(
            err, KL_EINPUT,
            "--measure %s: a lattice from a file has no grid of momenta; measure corr(A,B) and transform it",
            text));
    KL_TRY(read_operator(t, q->a, NULL, &q->of[0], err));
    if (q->kind != LOCAL) KL_TRY(read_operator(t, q->b, NULL, &q->of[1], err));
    KL_TRY(check_charges(t, text, q, err));
    if (q->kind != LOCAL) KL_TRY(read_operator(t, q->a, q->b, &q->of[2], err));
out:
    if (st != KL_OK) request_clear(t->model, q);
    return st;
}

kl_status kl_edmeasure_check(const kl_task *t, int n, char *const *text, kl_err *err)
{
    request q;
    for (int i = 0; i < n; i++) {
        const kl_status st = read_request(t, text[i], &q, err);
        if (st != KL_OK) return st;
        request_clear(t->model, &q);
    }
    return KL_OK;
}

/* <x| A_i B_j |x> by DMRG positions; b NULL: A_i alone. 0 where a site's type has no such operator. States
   are real, so that half of a string and its adjoint has the string's value. */
static kl_status pair_value(const kl_task *t, const kl_ed *ed, kl_dptr x, int i, const part *a, int j,
                            const part *b, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    kl_terms e = {.model = t->terms->model, .nsite = t->terms->nsite, .type = t->terms->type};
    const part *const pa = part_at(t, a, i), *const pb = b ? part_at(t, b, j) : NULL;
    double *parts = NULL;
    for (int k = 0; k < pa->n; k++)
        for (int l = 0; l < (pb ? pb->n : 1); l++) {
            if (kl_qn_cmp(shift_of(t->model, &t->terms->type[i]->op[pa->op[k]],
                                   pb ? &t->terms->type[j]->op[pb->op[l]] : NULL),
                          kl_qn_zero()) != 0)
                continue;
            const kl_op_at op[2] = {{i, pa->op[k], 0}, {j, pb ? pb->op[l] : KL_OP_IDENTITY, 0}};
            KL_TRY(kl_terms_add(&e, 0.5 * pa->coef[k] * (pb ? pb->coef[l] : 1.0), pb ? 2 : 1, op, 1, err));
        }
    KL_TRY(kl_terms_merge(&e, err));
    KL_TRY(kl_alloc(&parts, e.nterm, KL_MEM_MISC, err));
    KL_TRY(kl_ed_expect(ed, &e, x, parts, err));
    *value = e.constant;
    for (int64_t k = 0; k < e.nterm; k++) *value += parts[k];
out:
    kl_free(&parts);
    kl_terms_clear(&e);
    return st;
}

/* Which sites stand before the cut of `entropy', by lattice site. */
static kl_status entropy_note(const kl_task *t, const kl_ed *ed, char *note, size_t size, kl_err *err)
{
    kl_status st = KL_OK;
    kl_bipartition *cut = NULL;
    size_t used = 0;
    KL_TRY(kl_bipartition_create(t->terms, ed->space->target, KL_BIPARTITION_SITES, &cut, err));
    used = (size_t)snprintf(note, size,
                            "von Neumann entropy, natural logarithm, of %d of %d sites:", cut->left.npos,
                            t->lat->nsite);
    for (int i = 0; i < t->lat->nsite && used + 12 < size; i++)
        if (t->lat->position[i] < cut->left.npos)
            used += (size_t)snprintf(note + used, size - used, used + 24 < size ? " %d" : " ...", i);
out:
    kl_bipartition_destroy(&cut);
    return st;
}

/* Von Neumann entropy of the sites before the cut that halves the lattice best, in natural units. */
static kl_status entropy(const kl_task *t, const kl_ed *ed, kl_dptr x, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    kl_bipartition *cut = NULL;
    double *from = NULL, *to = NULL, *s = NULL;
    int *state = NULL;
    KL_TRY(kl_bipartition_create(t->terms, ed->space->target, KL_BIPARTITION_SITES, &cut, err));
    KL_TRY(kl_alloc(&from, ed->op.n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&state, t->terms->nsite, KL_MEM_WORK, err));
    KL_TRY(t->ex->vt.download(t->ex, from, x, ed->op.n, err));
    double norm2 = 0.0;
    *value = 0.0;
    int64_t largest = 0;
    for (int b = 0; b < cut->nblock; b++) {
        const int64_t nl = cut->left.begin[b + 1] - cut->left.begin[b],
                      nr = cut->right.begin[cut->right_sec[b] + 1] - cut->right.begin[cut->right_sec[b]];
        if (nl * nr > largest) largest = nl * nr;
    }
    KL_TRY(kl_alloc(&to, largest, KL_MEM_WORK, err));
    for (int b = 0; b < cut->nblock; b++) {
        const int64_t nl = cut->left.begin[b + 1] - cut->left.begin[b],
                      nr = cut->right.begin[cut->right_sec[b] + 1] - cut->right.begin[cut->right_sec[b]];
        const int64_t k = nl < nr ? nl : nr, width = (nr + KL_KRON_LANES - 1) / KL_KRON_LANES * KL_KRON_LANES;
        for (int64_t p = cut->off[b]; p < cut->off[b] + nl * width; p++) {
            int sign;
            if (!kl_bipartition_unrank(cut, p, state)) continue;
            const int64_t q = kl_bipartition_rank(ed->space, state, &sign), at = p - cut->off[b];
            to[at / KL_KRON_LANES % nl +
               (at / KL_KRON_LANES / nl * KL_KRON_LANES + at % KL_KRON_LANES) * nl] = sign * from[q];
        }
        KL_TRY(kl_alloc(&s, k, KL_MEM_WORK, err));
        KL_TRY(kl_dense_svd((int)nl, (int)nr, to, (int)nl, s, NULL, 1, NULL, 1, err));
        for (int64_t i = 0; i < k; i++) {
            norm2 += s[i] * s[i];
            if (s[i] > 0.0) *value -= s[i] * s[i] * log(s[i] * s[i]);
        }
        kl_free(&s);
    }
    *value = *value / norm2 + log(norm2);
out:
    kl_bipartition_destroy(&cut);
    kl_free(&from);
    kl_free(&to);
    kl_free(&s);
    kl_free(&state);
    return st;
}

/* <A_i B_j> by lattice sites. */
static kl_status pairs(const kl_task *t, const kl_ed *ed, kl_dptr x, const request *q, double *v, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = t->lat->nsite;
    const int *const pos = t->lat->position;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            KL_TRY(i == j ? pair_value(t, ed, x, pos[i], q->of[2], 0, NULL, &v[i * n + j], err)
                          : pair_value(t, ed, x, pos[i], q->of[0], pos[j], q->of[1], &v[i * n + j], err));
out:
    return st;
}

static kl_status structure(const kl_task *t, const kl_ed *ed, kl_dptr x, const request *q, double *v,
                           kl_err *err)
{
    kl_status st = KL_OK;
    double (*k)[2] = NULL, *pair = NULL;
    int nk;
    KL_TRY(kl_structure_momenta(t->lat, &nk, &k, err));
    KL_TRY(kl_alloc(&pair, (int64_t)t->lat->nsite * t->lat->nsite, KL_MEM_WORK, err));
    KL_TRY(pairs(t, ed, x, q, pair, err));
    kl_structure_factor(t->lat, pair, nk, (const double (*)[2])k, v);
out:
    kl_free(&k);
    kl_free(&pair);
    return st;
}

/* <A> and <B> by lattice site. */
static kl_status singles(const kl_task *t, const kl_ed *ed, kl_dptr x, const request *q, double *v,
                         kl_err *err)
{
    kl_status st = KL_OK;
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < t->lat->nsite; i++)
            KL_TRY(
                pair_value(t, ed, x, t->lat->position[i], q->of[o], 0, NULL, &v[o * t->lat->nsite + i], err));
out:
    return st;
}

/* Of a manifold of `many' states, in its mixture: what each state has (each[s].value) is averaged, <A> <B>
   afterwards. */
static kl_status measure_many(const kl_task *t, const kl_ed *ed, kl_dptr x, int64_t ldx, const request *q,
                              int many, const kl_ed_measured *each, kl_ed_measured *m, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = t->lat->nsite;
    double *one = NULL, *mean = NULL;
    KL_TRY(kl_alloc(&one, 2 * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&mean, 2 * n, KL_MEM_WORK, err));
    for (int s = 0; s < many; s++) {
        if (q->kind == CONNECTED) KL_TRY(singles(t, ed, kl_dptr_at(x, s * ldx), q, one, err));
        for (int i = 0; i < 2 * n; i++) mean[i] += one[i] / many;
        for (int64_t e = 0; e < m->n; e++)
            m->value[e] +=
                (each[s].value[e] + (q->kind == CONNECTED ? one[e / n] * one[n + e % n] : 0.0)) / many;
    }
    for (int64_t e = 0; e < m->n && q->kind == CONNECTED; e++) m->value[e] -= mean[e / n] * mean[n + e % n];
out:
    kl_free(&one);
    kl_free(&mean);
    return st;
}

static kl_status measure_one(const kl_task *t, const kl_ed *ed, kl_dptr x, const request *q, double *v,
                             kl_err *err)
{
    kl_status st = KL_OK;
    double *one = NULL;
    const int n = t->lat->nsite;
    if (q->kind == ENTROPY) return entropy(t, ed, x, v, err);
    if (q->kind == STRUCTURE) return structure(t, ed, x, q, v, err);
    for (int i = 0; i < n && q->kind == LOCAL; i++)
        KL_TRY(pair_value(t, ed, x, t->lat->position[i], q->of[0], 0, NULL, &v[i], err));
    if (q->kind != LOCAL) KL_TRY(pairs(t, ed, x, q, v, err));
    if (q->kind == CONNECTED) {
        KL_TRY(kl_alloc(&one, 2 * n, KL_MEM_WORK, err));
        KL_TRY(singles(t, ed, x, q, one, err));
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) v[i * n + j] -= one[i] * one[n + j];
    }
out:
    kl_free(&one);
    return st;
}

kl_status kl_edmeasure_run(const kl_task *t, const kl_ed *ed, const kl_ed_result *r, kl_dptr x, int64_t ldx,
                           kl_ed_measured **out, int *nout, kl_err *err)
{
    /* ORDER kind */
    static const char *const path[] = {"local", "correlation", "connected", "structure", "entropy"};
    kl_status st = KL_OK;
    kl_ed_measured *all = NULL;
    request q = {.kind = LOCAL};
    const int64_t nsite = t->lat->nsite;
    const int n = t->o->measure.n;
    char *const *const text = t->o->measure.text;
    const int many = r->multiplet[0] > 1 && !(r->open_multiplet && r->multiplet[0] >= r->nstate) &&
                             r->multiplet[0] <= r->nstate
                         ? r->multiplet[0]
                         : 0;
    *nout = 0;
    KL_TRY(kl_alloc(&all, (int64_t)n * (r->nstate + 1), KL_MEM_MISC, err));
    *out = all;
    for (int i = 0; i < n; i++) {
        KL_TRY(read_request(t, text[i], &q, err));
        const int first = *nout;
        /* entropies of single states of a manifold are anything, and so is their mean */
        for (int k = 0; k < r->nstate + (many > 0 && q.kind != ENTROPY); k++) {
            kl_ed_measured *const m = &all[(*nout)++];
            char what[140], who[24] = "";
            snprintf(what, sizeof what, "%s%s%s%s%s", path[q.kind], q.a[0] ? "/" : "", q.a, q.b[0] ? "," : "",
                     q.b);
            if (k > 0) snprintf(who, sizeof who, k < r->nstate ? "state_%d/" : "manifold/", k);
            snprintf(m->name, sizeof m->name, "%.20s%.135s", who, what);
            for (char *c = m->name + strlen(who) + strlen(path[q.kind]) + 1;
                 strlen(m->name) > strlen(who) + strlen(path[q.kind]) && *c != '\0'; c++)
                if (*c == '/') *c = ':';
            snprintf(m->note, sizeof m->note, "%.90s by lattice site", text[i]);
            if (q.kind == ENTROPY) KL_TRY(entropy_note(t, ed, m->note, sizeof m->note, err));
            if (q.kind == STRUCTURE)
                snprintf(m->note, sizeof m->note,
                         "1/N sum_ij cos(k (r_i-r_j)) <A_i B_j> at the momenta 2 pi (x/length, y/width)");
            m->rank =
                q.kind == CORR || q.kind == CONNECTED || (q.kind == STRUCTURE && t->lat->ly > 1) ? 2 : 1;
            m->shape[0] = q.kind == ENTROPY ? 1 : q.kind == STRUCTURE ? t->lat->lx : nsite;
            m->shape[1] = q.kind == STRUCTURE ? t->lat->ly : nsite;
            m->n = m->shape[0] * (m->rank == 2 ? m->shape[1] : 1);
            KL_TRY(kl_alloc(&m->value, m->n, KL_MEM_MISC, err));
            if (k < r->nstate) KL_TRY(measure_one(t, ed, kl_dptr_at(x, k * ldx), &q, m->value, err));
            else KL_TRY(measure_many(t, ed, x, ldx, &q, many, &all[first], m, err));
        }
        request_clear(t->model, &q);
    }
out:
    request_clear(t->model, &q);
    return st;
}

void kl_edmeasure_free(kl_ed_measured **m, int n)
{
    for (int i = 0; *m && i < n; i++) kl_free(&(*m)[i].value);
    kl_free(m);
}
