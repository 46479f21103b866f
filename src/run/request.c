/* Measurements as a user asks for them: see request.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/request.h"
#include "run/bondmeasure.h"
#include "run/reduced.h"
#include "run/requestread.h"
#include "base/infile.h"
#include "base/mem.h"
#include "dmrg/components.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What a state of a total spin is measured by as it is; for all else, strings with what is no scalar of it
   between others, one component of it is written out. */
static int knows_spin(const kl_request *q, const kl_measure *m) { return kl_measure_can_pass(m, q->between); }

kl_status kl_request_check(const char *text, const kl_model *model, const kl_lattice *lat, kl_err *err)
{
    kl_request q;
    const kl_status st = kl_request_read(text, model, lat, &q, err);
    if (st == KL_OK) kl_request_clear(&q);
    return st;
}

/* ---- carrying out ---- */

typedef struct array {
    int rank;
    int64_t shape[KL_H5_MAX_RANK], n;
    double *data;
} array;

static kl_status make_array(array *a, int rank, int64_t n0, int64_t n1, int64_t n2, kl_err *err)
{
    *a = (array){.rank = rank, .shape = {n0, n1, n2}, .n = 1};
    for (int k = 0; k < rank; k++) a->n *= a->shape[k];
    return kl_alloc(&a->data, a->n, KL_MEM_MISC, err);
}

/* A multiplet of the total spin stands for 2S + 1 states of equal weight. */
static int copies_of(const kl_canonical *c, kl_qn q)
{
    const int spin = kl_model_spin(c->model);
    return spin < 0 ? 1 : q.v[spin] + 1;
}

static kl_status spectrum_of(const kl_canonical *c, array *weights, array *charges, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t most = 1;
    for (int cut = 1; cut < c->nsite; cut++) {
        int64_t n = 0;
        const kl_basis *const b = kl_canonical_left(c, cut);
        const double *s = c->schmidt[cut];
        for (int i = 0; i < b->nsec; i++)
            for (int k = 0; k < b->dim[i]; k++) n += *s++ > 0 ? copies_of(c, b->q[i]) : 0;
        if (n > most) most = n;
    }
    const int ncharge = c->model->ncharge;
    KL_TRY(make_array(weights, 2, c->nsite - 1, most, 0, err));
    KL_TRY(make_array(charges, 3, c->nsite - 1, most, ncharge ? ncharge : 1, err));
    for (int cut = 1; cut < c->nsite; cut++) {
        const kl_basis *const b = kl_canonical_left(c, cut);
        double *const w = weights->data + (cut - 1) * most, *const q =
                                                                charges->data +
                                                                (cut - 1) * most * (ncharge ? ncharge : 1);
        int64_t n = 0;
        const double *s = c->schmidt[cut];
        for (int i = 0; i < b->nsec; i++)
            for (int k = 0; k < b->dim[i]; k++, s++) { /* insertion: sectors come sorted in themselves */
                if (*s == 0) continue;
                const int copies = copies_of(c, b->q[i]);
                const double x = *s * *s / copies;
                for (int copy = 0; copy < copies; copy++) {
                    int64_t at = n++;
                    for (; at > 0 && w[at - 1] < x; at--) {
                        w[at] = w[at - 1];
                        memcpy(q + at * ncharge, q + (at - 1) * ncharge, (size_t)ncharge * sizeof *q);
                    }
                    w[at] = x;
                    for (int k2 = 0; k2 < ncharge; k2++)
                        q[at * ncharge + k2] = (double)b->q[i].v[k2] * c->model->charge[k2].unit_num /
                                               c->model->charge[k2].unit_den;
                }
            }
    }
out:
    return st;
}

/* Of the wavefunctions of a state those that the run was asked for; a checkpoint holds its guards behind
   them. */
static int wanted_states(const kl_result *r, const kl_state *s)
{
    return r->dmrg.nstate > 0 && r->dmrg.nstate < s->nstate ? r->dmrg.nstate : s->nstate;
}

/* The state in a file, of the same system and charges. */
static kl_status read_other(const kl_request_scene *scene, const kl_request *q, kl_qn target, kl_state **out,
                            kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *r = NULL;
    KL_TRY(kl_result_read(q->file, &r, err));
    KL_TRY(kl_result_match(q->file, r, scene->terms->model, scene->lat, scene->params, target, KL_MATCH_STATE,
                           err));
    KL_TRY(kl_result_read_state(q->file, scene->terms, out, err));
    (*out)->nstate = wanted_states(r, *out);
out:
    kl_result_destroy(&r);
    return st;
}

static const kl_model *named(const kl_request_scene *scene)
{
    return scene->plain != NULL ? scene->plain->model : scene->terms->model;
}

kl_status kl_request_check_other(const kl_request_scene *scene, const char *text, kl_qn target, kl_err *err)
{
    kl_status st = KL_OK;
    kl_request q;
    kl_state *s = NULL;
    KL_TRY(kl_request_read(text, named(scene), scene->lat, &q, err));
    if (q.kind == KL_REQUEST_ENERGIES && scene->plain != NULL)
        st = kl_fail(
            err, KL_EINPUT,
            "--measure '%.200s': with the total spin S as a charge H has no terms by bond; take a run with "
            "Sz, or bond(CLASS,X)",
            text);
    if (q.kind == KL_REQUEST_OVERLAP) st = read_other(scene, &q, target, &s, err);
    kl_request_clear(&q);
    kl_state_destroy(&s);
out:
    return st;
}

static kl_status overlap_with(const kl_request_scene *scene, const kl_request *q, const kl_measure *m,
                              array *out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_state *s = NULL;
    kl_canonical *c = NULL;
    KL_TRY(read_other(scene, q, kl_measure_state(m)->target, &s, err));
    KL_TRY(make_array(out, 1, s->nstate, 0, 0, err));
    for (int k = 0; k < s->nstate; k++) {
        KL_TRY(kl_canonical_create(scene->ex, s, k, &c, err));
        KL_TRY(kl_canonical_overlap(kl_measure_state(m), c, &out->data[k], err));
        kl_canonical_destroy(&c);
    }
out:
    kl_canonical_destroy(&c);
    kl_state_destroy(&s);
    return st;
}

static const kl_terms *sites_of(const kl_request_scene *scene)
{
    return scene->plain != NULL ? scene->plain : scene->terms;
}

/* <X_b Y_c>, less <X_b><Y_c> where X and Y have values. */
static kl_status bonds(const kl_request_scene *scene, const kl_request *q, kl_measure *m, double *value,
                       kl_err *err)
{
    kl_status st = KL_OK;
    const kl_terms *const sites = sites_of(scene);
    const int (*const bond)[2] = (const int (*)[2])q->bond;
    const int n = q->nbond;
    double *one = NULL;
    char by[32];
    KL_TRY(kl_bondmeasure(m, sites, scene->lat, q->bondop[0], q->bondop[1], n, bond, value, err));
    if (q->kind != KL_REQUEST_BONDCONNECTED || kl_bondop_forbidden(q->bondop[0], NULL, by, sizeof by) != NULL)
        goto out;
    KL_TRY(kl_alloc(&one, 2 * (int64_t)n, KL_MEM_WORK, err));
    KL_TRY(kl_bondmeasure(m, sites, scene->lat, q->bondop[0], NULL, n, bond, one, err));
    KL_TRY(kl_bondmeasure(m, sites, scene->lat, q->bondop[1], NULL, n, bond, one + n, err));
    for (int64_t b = 0; b < n; b++)
        for (int64_t c = 0; c < n; c++) value[b * n + c] -= one[b] * one[n + c];
out:
    kl_free(&one);
    return st;
}

static kl_status energies(const kl_request_scene *scene, const kl_request *q, kl_measure *m, double *value,
                          kl_err *err)
{
    kl_status st = KL_OK;
    const kl_terms *const t = scene->terms;
    double *each = NULL;
    KL_TRY(kl_alloc(&each, t->nterm, KL_MEM_WORK, err));
    KL_TRY(kl_measure_terms(m, t, each, err));
    for (int64_t k = 0; k < t->nterm; k++) each[k] *= t->term[k].coef;
    kl_request_energies(q, t, scene->lat, each, value);
out:
    kl_free(&each);
    return st;
}

static kl_status reduced_pairs(void *self, const kl_siteop *a, const kl_siteop *b, double *value, kl_err *err)
{
    return kl_measure_pairs(self, a, NULL, b, 0, value, err);
}

static kl_status reduced_product(void *self, int n, const int *site, const kl_siteop *const *op,
                                 double *value, kl_err *err)
{
    return kl_measure_product(self, n, site, op, NULL, value, err);
}

static kl_status each_product(const void *from, kl_bondop_fn *tell, void *self, kl_err *err)
{
    return kl_request_each(from, tell, self, err);
}

/* A product that S stands in, measured as it is told. */
typedef struct strings {
    const kl_request_scene *scene;
    const kl_request *q;
    kl_measure *m;
    double *value;
} strings;

static kl_status add_string(void *self, int64_t row, double coef, int n, const int *site,
                            const kl_siteop *const *op, const int *odd, kl_err *err)
{
    const strings *const s = self;
    (void)coef;
    (void)odd;
    return kl_measure_string_product(s->m, s->scene->lat, n, site, op, s->q->between, &s->value[row], err);
}

/* One product, or those over letters. */
static kl_status products(const kl_request_scene *scene, const kl_request *q, kl_measure *m, array *out,
                          kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(make_array(out, 0, 0, 0, 0, err));
    if (q->nletter == 0)
        return kl_measure_string_product(m, scene->lat, q->nop, q->site, (const kl_siteop *const *)q->op,
                                         q->between, out->data, err);
    out->rank = q->nletter;
    for (int a = 0; a < q->nletter; a++) {
        out->shape[a] = q->length[a];
        out->n *= q->length[a];
    }
    kl_free(&out->data);
    KL_TRY(kl_alloc(&out->data, out->n, KL_MEM_MISC, err));
    strings s = {scene, q, m, out->data};
    if (q->between != NULL) KL_TRY(kl_request_each(q, add_string, &s, err));
    else KL_TRY(kl_productmeasure(m, sites_of(scene), scene->lat, each_product, q, out->n, out->data, err));
out:
    return st;
}

static kl_status reduced_strings(void *self, const kl_terms *t, double *value, kl_err *err)
{
    return kl_measure_terms(self, t, value, err);
}

/* The numbers of one request on one wavefunction; *extra: charges of a spectrum. */
static kl_status carry_out(const kl_request_scene *scene, const kl_request *q, kl_measure *m, array *out,
                           array *extra, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = scene->lat->nsite;
    double (*k)[2] = NULL, *pair = NULL;
    const kl_reduced_source source = {m, reduced_pairs, reduced_product, reduced_strings};
    switch (q->kind) {
    case KL_REQUEST_LOCAL:
        KL_TRY(make_array(out, 1, n, 0, 0, err));
        KL_TRY(kl_measure_local(m, q->op[0], out->data, err));
        break;
    case KL_REQUEST_CORR:
    case KL_REQUEST_CONNECTED:
        KL_TRY(make_array(out, 2, n, n, 0, err));
        KL_TRY(
            kl_measure_pairs(m, q->op[0], NULL, q->op[1], q->kind == KL_REQUEST_CONNECTED, out->data, err));
        break;
    case KL_REQUEST_STRING:
        KL_TRY(make_array(out, 2, n, n, 0, err));
        KL_TRY(kl_measure_strings(m, scene->lat, q->op[0], q->between, q->op[1], out->data, err));
        break;
    case KL_REQUEST_STRUCTURE: {
        int shape[2];
        KL_TRY(kl_lattice_momenta(scene->lat, shape, &k, err));
        KL_TRY(make_array(out, shape[1] > 1 ? 2 : 1, shape[0], shape[1], 0, err));
        KL_TRY(kl_alloc(&pair, (int64_t)n * n, KL_MEM_WORK, err));
        KL_TRY(kl_measure_pairs(m, q->op[0], NULL, q->op[1], 0, pair, err));
        kl_structure_factor(scene->lat, pair, shape[0] * shape[1], (const double (*)[2])k, out->data);
        break;
    }
    case KL_REQUEST_PRODUCT: KL_TRY(products(scene, q, m, out, err)); break;
    case KL_REQUEST_POPULATIONS: {
        int d;
        KL_TRY(kl_measure_populations(m, &d, &pair, err));
        KL_TRY(make_array(out, 2, n, d, 0, err));
        memcpy(out->data, pair, (size_t)out->n * sizeof(double));
        break;
    }
    case KL_REQUEST_ENTROPY:
        KL_TRY(make_array(out, 1, n - 1, 0, 0, err));
        KL_TRY(kl_canonical_schmidt(kl_measure_state(m), scene->ex->nthread, err));
        for (int cut = 1; cut < n; cut++) out->data[cut - 1] = kl_canonical_entropy(kl_measure_state(m), cut);
        break;
    case KL_REQUEST_SPECTRUM:
        KL_TRY(kl_canonical_schmidt(kl_measure_state(m), scene->ex->nthread, err));
        KL_TRY(spectrum_of(kl_measure_state(m), out, extra, err));
        break;
    case KL_REQUEST_ENERGY:
    case KL_REQUEST_VARIANCE: {
        double e, v;
        KL_TRY(make_array(out, 0, 0, 0, 0, err));
        KL_TRY(kl_measure_energy(m, scene->terms, &e, q->kind == KL_REQUEST_VARIANCE ? &v : NULL, err));
        out->data[0] = q->kind == KL_REQUEST_VARIANCE ? v : e;
        break;
    }
    case KL_REQUEST_OVERLAP: KL_TRY(overlap_with(scene, q, m, out, err)); break;
    case KL_REQUEST_BOND:
    case KL_REQUEST_BONDCORR:
    case KL_REQUEST_BONDCONNECTED:
        KL_TRY(make_array(out, q->kind == KL_REQUEST_BOND ? 1 : 2, q->nbond, q->nbond, 0, err));
        KL_TRY(bonds(scene, q, m, out->data, err));
        break;
    case KL_REQUEST_ENERGIES:
        KL_TRY(make_array(out, 1, q->nbond, 0, 0, err));
        KL_TRY(energies(scene, q, m, out->data, err));
        break;
    case KL_REQUEST_DENSITY: {
        const int states = (int)kl_reduced_states(sites_of(scene), scene->lat, q->nsite, q->site);
        KL_TRY(make_array(out, 2, states, states, 0, err));
        KL_TRY(kl_reduced_density(sites_of(scene), scene->lat, q->nsite, q->site, &source, out->data, err));
        break;
    }
    case KL_REQUEST_MUTUAL:
        KL_TRY(make_array(out, 2, n, n, 0, err));
        KL_TRY(kl_reduced_mutual(sites_of(scene), scene->lat, &source, out->data, err));
        break;
    case KL_NREQUEST: break;
    }
out:
    kl_free(&k);
    kl_free(&pair);
    return st;
}

/* Means over a manifold are those of its density matrix; <A><B> of a connected correlation is taken apart for
   that. */
static kl_status manifold_mean(const kl_request_scene *scene, const kl_request *q, int nmean,
                               kl_measure *const *m, array *mean, kl_err *err)
{
    kl_status st = KL_OK;
    kl_request plain = *q; /* shares what q owns */
    array one = {0}, none = {0};
    double *a = NULL, *b = NULL, *x = NULL;
    const int n = scene->lat->nsite;
    if (q->kind == KL_REQUEST_CONNECTED) plain.kind = KL_REQUEST_CORR;
    KL_TRY(kl_alloc(&a, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&b, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&x, n, KL_MEM_WORK, err));
    for (int s = 0; s < nmean; s++) {
        KL_TRY(carry_out(scene, &plain, m[s], &one, &none, err));
        if (s == 0) {
            *mean = one;
            mean->data = NULL;
            KL_TRY(kl_alloc(&mean->data, one.n, KL_MEM_MISC, err));
        }
        for (int64_t i = 0; i < mean->n; i++) mean->data[i] += one.data[i] / nmean;
        kl_free(&one.data);
        if (q->kind != KL_REQUEST_CONNECTED) continue;
        KL_TRY(kl_measure_local(m[s], q->op[0], x, err));
        for (int i = 0; i < n; i++) a[i] += x[i] / nmean;
        KL_TRY(kl_measure_local(m[s], q->op[1], x, err));
        for (int i = 0; i < n; i++) b[i] += x[i] / nmean;
    }
    for (int i = 0; i < n && q->kind == KL_REQUEST_CONNECTED; i++)
        for (int j = 0; j < n; j++) mean->data[i * (int64_t)n + j] -= a[i] * b[j];
out:
    kl_free(&one.data);
    kl_free(&a);
    kl_free(&b);
    kl_free(&x);
    return st;
}

/* What the numbers are; of a multiplet of S > 0 operators have those of one component. */
static const char *note_of(const kl_request *q, const kl_request_scene *scene, kl_qn target, char *buf,
                           size_t size)
{
    const char *const note = kl_request_kinds[q->kind].note;
    const int spin = kl_model_spin(scene->terms->model);
    const int any = spin < 0 || q->kind == KL_REQUEST_ENERGY || q->kind == KL_REQUEST_VARIANCE ||
                    q->kind == KL_REQUEST_ENTROPY || q->kind == KL_REQUEST_SPECTRUM ||
                    q->kind == KL_REQUEST_OVERLAP;
    char value[16];
    if (any || target.v[spin] == 0) return note;
    snprintf(buf, size, "%s; of the component with Sz = %s", note,
             kl_charge_print(&scene->terms->model->charge[spin], target.v[spin], value, sizeof value));
    return buf;
}

static kl_status run_one(const kl_request_scene *scene, const kl_request *q, const char *note, int nstate,
                         int nmean, kl_measure *const *m, kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    array out = {0}, extra = {0};
    char name[2 * KL_REQUEST_TEXT], prefix[32] = "";
    for (int s = 0; s < nstate; s++) {
        KL_TRY(carry_out(scene, q, m[s], &out, &extra, err));
        if (s > 0) snprintf(prefix, sizeof prefix, "state_%d/", s);
        kl_request_name(q, prefix, q->kind == KL_REQUEST_SPECTRUM ? "/weights" : "", name, sizeof name);
        KL_TRY(kl_result_add(r, name, note, out.rank, out.shape, out.data, err));
        if (extra.data) {
            kl_request_name(q, prefix, "/charges", name, sizeof name);
            KL_TRY(kl_result_add(r, name, "charges of the left part, in the order of the weights", extra.rank,
                                 extra.shape, extra.data, err));
        }
        kl_free(&out.data);
        kl_free(&extra.data);
    }
    if (nmean > 1 && kl_request_kinds[q->kind].in_mean) {
        KL_TRY(manifold_mean(scene, q, nmean, m, &out, err));
        kl_request_name(q, "manifold/", "", name, sizeof name);
        KL_TRY(kl_result_add(r, name, note, out.rank, out.shape, out.data, err));
    }
out:
    kl_free(&out.data);
    kl_free(&extra.data);
    return st;
}

static int is_top(const char *name)
{
    return strncmp(name, "top", 3) == 0 && (name[3] == '\0' || name[3] == '_');
}

int kl_request_tops(const kl_model *model, const char **text)
{
    int n = 0;
    for (int t = 0; t < model->ntype; t++)
        for (int o = 0; o < model->type[t].nop && n < KL_REQUEST_STANDARD - 1; o++) {
            const kl_site_op *const op = &model->type[t].op[o];
            int known = !op->named || !is_top(op->name);
            for (int k = 0; k < n && !known; k++) known = strcmp(text[k], op->name) == 0;
            if (!known) text[n++] = op->name;
        }
    return n;
}

int kl_request_standard(const kl_model *model, const char **text)
{
    text[0] = kl_request_kinds[KL_REQUEST_VARIANCE].word;
    return 1 + kl_request_tops(model, text + 1);
}

int kl_request_cutoff(const kl_result *r, double *weight, int *site)
{
    int found = 0;
    *weight = 0;
    *site = 0;
    for (int i = 0; i < r->nmeasured; i++) {
        const kl_measured *const m = &r->measured[i];
        const char *const folder = strncmp(m->name, "state_", 6) == 0 ? strchr(m->name, '/') + 1 : m->name;
        if (strncmp(folder, "local/", 6) != 0 || !is_top(folder + 6) || m->rank != 1) continue;
        found = 1;
        for (int64_t p = 0; p < m->shape[0]; p++)
            if (m->data[p] > *weight) {
                *weight = m->data[p];
                *site = (int)p;
            }
    }
    return found;
}

enum { MOST_STATES = sizeof(((kl_state *)0)->energy) / sizeof(double) };

/* The wavefunctions of a state, ready to be measured; with a total spin also written out, once that is
   wanted. */
typedef struct subjects {
    const kl_state *state;
    int n;
    kl_measure *m[MOST_STATES], *plain[MOST_STATES];
    kl_state *written[MOST_STATES]; /* what plain measures */
} subjects;

static void close_subjects(subjects *x)
{
    for (int k = 0; k < MOST_STATES; k++) {
        kl_measure_destroy(&x->m[k]);
        kl_measure_destroy(&x->plain[k]);
        kl_state_destroy(&x->written[k]);
    }
}

static kl_status open_subjects(const kl_request_scene *scene, subjects *x, kl_err *err)
{
    kl_status st = KL_OK;
    for (int k = 0; k < x->n; k++) {
        double error;
        KL_TRY(kl_measure_create(scene->ex, x->state, k, scene->lat, &x->m[k], err));
        if (scene->filed) kl_measure_file(x->m[k], scene->scratch);
        KL_TRY(kl_measure_charge_error(x->m[k], &error, err));
        if (!(error < 1e-9 * x->state->nsite)) {
            char charges[128];
            KL_TRY(kl_fail(err, KL_EBROKEN,
                           "the charges of state %d add up to %s only within %g; its tensors are damaged", k,
                           kl_qn_print(x->state->model, x->state->target, charges, sizeof charges), error));
        }
    }
out:
    return st;
}

static kl_status write_out(const kl_request_scene *scene, subjects *x, kl_err *err)
{
    kl_status st = KL_OK;
    for (int k = 0; k < x->n && x->plain[k] == NULL; k++) {
        KL_TRY(kl_components_create(scene->ex, x->state, k, scene->plain, NULL, &x->written[k], err));
        KL_TRY(kl_measure_create(scene->ex, x->written[k], 0, scene->lat, &x->plain[k], err));
    }
out:
    return st;
}

/* From *done on, as long as all goes well. */
static kl_status run_from(const kl_request_scene *scene, int n, const char *const *text, const kl_state *s,
                          int nmanifold, int *done, kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    char component[200];
    kl_request q = {.nop = 0};
    subjects x = {.state = s, .n = wanted_states(r, s)};
    const int nmean = nmanifold < x.n ? nmanifold : x.n;
    KL_TRY(open_subjects(scene, &x, err));
    for (; *done < n; ++*done) {
        KL_TRY(kl_request_read(text[*done], named(scene), scene->lat, &q, err));
        const int plain = scene->plain != NULL && x.n > 0 && !knows_spin(&q, x.m[0]);
        if (plain) KL_TRY(write_out(scene, &x, err));
        const char *const note = note_of(&q, scene, s->target, component, sizeof component);
        KL_TRY(run_one(scene, &q, note, x.n, nmean, plain ? x.plain : x.m, r, err));
        kl_request_clear(&q);
    }
out:
    kl_request_clear(&q);
    close_subjects(&x);
    return st;
}

kl_status kl_request_run(const kl_request_scene *scene, int n, const char *const *text, const kl_state *s,
                         int nmanifold, kl_result *r, kl_err *err)
{
    int done = 0;
    kl_request_scene here = *scene;
    if (!n) return KL_OK;
    kl_status st = run_from(scene, n, text, s, nmanifold, &done, r, err);
    if (st != KL_ENOMEM || scene->ex->space != KL_SPACE_DEVICE || kl_ranks_size(scene->ex) > 1) return st;
    /* the host has the memory that the device has not */
    KL_TRY(kl_exec_open_host(scene->ex->nthread, &here.ex, err));
    st = run_from(&here, n, text, s, nmanifold, &done, r, err);
    kl_exec_close(&here.ex);
out:
    return st;
}
