/* Measurements on states of exact diagonalization. An operator string is compiled like a Hamiltonian and applied to the state.
   SPDX-License-Identifier: Apache-2.0 */
#include "edmeasure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "dense.h"
#include "mem.h"

typedef enum kind { LOCAL, CORR, CONNECTED, ENTROPY } kind;

typedef struct request {
    kind kind;
    char a[64], b[64];
} request;

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

/* Operator index on a position's site type. */
static int op_at(const kl_task *t, int pos, const char *name) { return kl_site_op_find(t->terms->type[pos], name); }

static kl_status known_operator(const kl_task *t, const char *text, const char *name, kl_err *err)
{
    for (int p = 0; p < t->terms->nsite; p++)
        if (op_at(t, p, name) != KL_OP_NONE) return KL_OK;
    const char *list[65];
    int n = 0;
    for (int o = 0; o < t->terms->type[0]->nop && n < 64; o++)
        if (t->terms->type[0]->op[o].named) list[n++] = t->terms->type[0]->op[o].name;
    list[n] = NULL;
    const char *const near = kl_closest(name, list);
    return kl_fail(err, KL_EINPUT, "--measure %s: the model has no operator '%s'%s%s%s; `kronlat models %s' lists them", text, name, near ? "; did you mean '" : "",
                   near ? near : "", near ? "'?" : "", t->model->name);
}

static kl_status read_request(const kl_task *t, const char *text, request *q, kl_err *err)
{
    static const char *const word[] = {"local(", "corr(", "connected("};
    kl_status st = KL_OK;
    *q = (request){.kind = LOCAL};
    if (strcmp(text, "entropy") == 0) {
        q->kind = ENTROPY;
        return KL_OK;
    }
    const char *const open = strchr(text, '('), *const close = strrchr(text, ')'), *const comma = strchr(text, ',');
    int known = 0;
    for (int k = 0; k < 3; k++)
        if (strncmp(text, word[k], strlen(word[k])) == 0) {
            q->kind = (kind)k;
            known = 1;
        }
    if (open == NULL) known = take_word(text, text + strlen(text), q->a, sizeof q->a);
    else if (!known || close == NULL || close[1] != '\0') known = 0;
    else if (q->kind == LOCAL) known = take_word(open + 1, close, q->a, sizeof q->a);
    else known = comma != NULL && take_word(open + 1, comma, q->a, sizeof q->a) && take_word(comma + 1, close, q->b, sizeof q->b);
    if (!known) KL_TRY(kl_fail(err, KL_EINPUT, "--measure: '%s'; allowed for ed: A, local(A), corr(A,B), connected(A,B), entropy", text));
    KL_TRY(known_operator(t, text, q->a, err));
    if (q->kind != LOCAL) KL_TRY(known_operator(t, text, q->b, err));
    /* What changes a charge has no expectation value; together the two may. */
    for (int c = 0; c < t->model->ncharge; c++) {
        int shift = 0;
        for (int p = 0; p < t->terms->nsite && shift == 0; p++) {
            const int a = op_at(t, p, q->a), b = q->kind == LOCAL ? KL_OP_IDENTITY : op_at(t, p, q->b);
            if (a >= 0 && b >= 0) shift = t->terms->type[p]->op[a].shift[c] + t->terms->type[p]->op[b].shift[c];
        }
        const int modulus = t->model->charge[c].modulus;
        if (modulus > 0 ? shift % modulus != 0 : shift != 0)
            KL_TRY(kl_fail(err, KL_EINPUT, "--measure %s: it changes the charge %s by %d, so that its value is 0 in every sector", text, t->model->charge[c].name, shift));
    }
out:
    return st;
}

kl_status kl_edmeasure_check(const kl_task *t, int n, char *const *text, kl_err *err)
{
    request q;
    for (int i = 0; i < n; i++) {
        const kl_status st = read_request(t, text[i], &q, err);
        if (st != KL_OK) return st;
    }
    return KL_OK;
}

/* <x| A_i B_j |x> by DMRG positions; b NULL: A_i alone. NaN where a site's type has no such operator. States are real, so that half of a string and its
   adjoint has the string's value. */
static kl_status pair_value(const kl_task *t, const kl_ed *ed, kl_dptr x, int i, const char *a, int j, const char *b, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    kl_terms e = {.model = t->terms->model, .nsite = t->terms->nsite, .type = t->terms->type};
    const kl_op_at op[2] = {{i, op_at(t, i, a)}, {j, b ? op_at(t, j, b) : KL_OP_IDENTITY}};
    double *parts = NULL;
    *value = (double)NAN;
    if (op[0].op < 0 || op[1].op < 0) return KL_OK;
    KL_TRY(kl_terms_add(&e, 0.5, b ? 2 : 1, op, 1, err));
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

/* Von Neumann entropy of the sites before the cut that halves the lattice best, in natural units. */
static kl_status entropy(const kl_task *t, const kl_ed *ed, kl_dptr x, double *value, kl_err *err)
{
    kl_status st = KL_OK;
    kl_halves *cut = NULL;
    double *from = NULL, *to = NULL, *s = NULL, *u = NULL, *vt = NULL;
    int *state = NULL;
    KL_TRY(kl_halves_create(t->terms, ed->space->target, KL_HALVES_SITES, &cut, err));
    KL_TRY(kl_alloc(&from, ed->op.n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&state, t->terms->nsite, KL_MEM_WORK, err));
    KL_TRY(t->ex->vt.download(t->ex, from, x, ed->op.n, err));
    double norm2 = 0.0;
    *value = 0.0;
    int64_t largest = 0, least = 0;
    for (int b = 0; b < cut->nblock; b++) {
        const int64_t nl = cut->left.begin[b + 1] - cut->left.begin[b], nr = cut->right.begin[cut->right_sec[b] + 1] - cut->right.begin[cut->right_sec[b]];
        if (nl * nr > largest) largest = nl * nr;
        const int64_t k = nl < nr ? nl : nr;
        if (k * (nl + nr) > least) least = k * (nl + nr);
    }
    KL_TRY(kl_alloc(&to, largest, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&u, least + 1, KL_MEM_WORK, err));
    for (int b = 0; b < cut->nblock; b++) {
        const int64_t nl = cut->left.begin[b + 1] - cut->left.begin[b], nr = cut->right.begin[cut->right_sec[b] + 1] - cut->right.begin[cut->right_sec[b]];
        const int64_t k = nl < nr ? nl : nr, width = (nr + KL_KRON_LANES - 1) / KL_KRON_LANES * KL_KRON_LANES;
        for (int64_t p = cut->off[b]; p < cut->off[b] + nl * width; p++) {
            int sign;
            if (!kl_halves_unrank(cut, p, state)) continue;
            const int64_t q = kl_halves_rank(ed->space, state, &sign), at = p - cut->off[b];
            to[at / KL_KRON_LANES % nl + (at / KL_KRON_LANES / nl * KL_KRON_LANES + at % KL_KRON_LANES) * nl] = sign * from[q];
        }
        KL_TRY(kl_alloc(&s, k, KL_MEM_WORK, err));
        vt = u + nl * k;
        KL_TRY(kl_dense_svd((int)nl, (int)nr, to, (int)nl, s, u, (int)nl, vt, (int)k, err));
        for (int64_t i = 0; i < k; i++) {
            norm2 += s[i] * s[i];
            if (s[i] > 0.0) *value -= s[i] * s[i] * log(s[i] * s[i]);
        }
        kl_free(&s);
    }
    *value = *value / norm2 + log(norm2);
out:
    kl_halves_destroy(&cut);
    kl_free(&from);
    kl_free(&to);
    kl_free(&s);
    kl_free(&u);
    kl_free(&state);
    return st;
}

static kl_status measure_one(const kl_task *t, const kl_ed *ed, kl_dptr x, const request *q, double *v, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = t->lat->nsite;
    const int *const pos = t->lat->position;
    if (q->kind == ENTROPY) return entropy(t, ed, x, v, err);
    for (int i = 0; i < n; i++) {
        if (q->kind == LOCAL) {
            KL_TRY(pair_value(t, ed, x, pos[i], q->a, 0, NULL, &v[i], err));
            continue;
        }
        for (int j = 0; j < n; j++) KL_TRY(pair_value(t, ed, x, pos[i], q->a, pos[j], q->b, &v[i * n + j], err));
    }
    if (q->kind == CONNECTED) {
        for (int i = 0; i < n; i++) {
            double a, b;
            KL_TRY(pair_value(t, ed, x, pos[i], q->a, 0, NULL, &a, err));
            for (int j = 0; j < n; j++) {
                KL_TRY(pair_value(t, ed, x, pos[j], q->b, 0, NULL, &b, err));
                v[i * n + j] -= a * b;
            }
        }
    }
out:
    return st;
}

kl_status kl_edmeasure_run(const kl_task *t, const kl_ed *ed, const kl_ed_result *r, kl_dptr x, int64_t ldx, int n, char *const *text, kl_ed_measured **out,
                           int *nout, kl_err *err)
{
    static const char *const path[] = {"local", "correlation", "connected", "entropy"}; /* ORDER kind */
    kl_status st = KL_OK;
    kl_ed_measured *all = NULL;
    const int64_t nsite = t->lat->nsite;
    const int many = r->multiplet[0] > 1 && !(r->open_multiplet && r->multiplet[0] >= r->nstate) && r->multiplet[0] <= r->nstate ? r->multiplet[0] : 0;
    *nout = 0;
    KL_TRY(kl_alloc(&all, (int64_t)n * (r->nstate + 1), KL_MEM_MISC, err));
    *out = all;
    for (int i = 0; i < n; i++) {
        request q;
        KL_TRY(read_request(t, text[i], &q, err));
        const int first = *nout;
        for (int k = 0; k < r->nstate + (many > 0); k++) {
            kl_ed_measured *const m = &all[(*nout)++];
            char what[140], who[24] = "";
            snprintf(what, sizeof what, "%s%s%s%s%s", path[q.kind], q.a[0] ? "/" : "", q.a, q.b[0] ? "," : "", q.b);
            if (k > 0) snprintf(who, sizeof who, k < r->nstate ? "state_%d/" : "manifold/", k);
            snprintf(m->name, sizeof m->name, "%.20s%.135s", who, what);
            snprintf(m->note, sizeof m->note, "%.90s by lattice site", text[i]);
            m->rank = q.kind == ENTROPY ? 1 : q.kind == LOCAL ? 1 : 2;
            m->shape[0] = q.kind == ENTROPY ? 1 : nsite;
            m->shape[1] = nsite;
            m->n = m->rank == 2 ? nsite * nsite : m->shape[0];
            KL_TRY(kl_alloc(&m->value, m->n, KL_MEM_MISC, err));
            if (k < r->nstate) KL_TRY(measure_one(t, ed, kl_dptr_at(x, k * ldx), &q, m->value, err));
            else
                for (int64_t e = 0; e < m->n; e++)
                    for (int s = 0; s < many; s++) m->value[e] += all[first + s].value[e] / many;
        }
    }
out:
    return st;
}

void kl_edmeasure_free(kl_ed_measured **m, int n)
{
    for (int i = 0; *m && i < n; i++) kl_free(&(*m)[i].value);
    kl_free(m);
}

void kl_edmeasure_print(const kl_ed_measured *m)
{
    printf("%s\n", m->name);
    for (int64_t i = 0; i < m->n; i++) {
        const int64_t width = m->rank == 2 ? m->shape[1] : 8;
        printf("%s%12.8f%s", i % width == 0 ? " " : "", m->value[i], (i + 1) % width == 0 || i + 1 == m->n ? "\n" : " ");
    }
}
