/* Measurements as a user asks for them: see request.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/request.h"
#include "base/infile.h"
#include "base/mem.h"
#include "dmrg/expand.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_ARG = 32, MAX_TEXT = 400 };

/* ORDER REQUEST: kinds[] */
typedef enum request_kind {
    IS_LOCAL,
    IS_CORR,
    IS_CONNECTED,
    IS_STRING,
    IS_STRUCTURE,
    IS_PRODUCT,
    IS_OVERLAP,
    IS_POPULATIONS,
    IS_ENTROPY,
    IS_SPECTRUM,
    IS_ENERGY,
    IS_VARIANCE,
    NREQUEST
} request_kind;

static const struct {
    const char *word, *folder, *note;
    int narg;     /* 0: a word alone; -1: a list; else how many */
    int in_mean;  /* linear in the density matrix, or nearly: has a mean over a manifold */
} kinds[] = {
    {"local", "local", "expectation value by site", 1, 1},
    {"corr", "correlation", "<A_i B_j>, row i, column j", 2, 1},
    {"connected", "connected", "<A_i B_j> - <A_i><B_j>, row i, column j", 2, 1},
    {"string", "string", "<A_i S ... S B_j> with S on the sites between by number, row i, column j", 3, 1},
    {"structure", "structure",
     "1/N sum_ij cos(k (r_i-r_j)) <A_i B_j> at the momenta 2 pi (x/length, y/width)", 2, 1},
    {"product", "product", "expectation value of the product in the order written", -1, 1},
    {"overlap", "overlap", "<this state|states of the file>", 1, 0},
    {"populations", "populations", "probability of each state, by site", 0, 1},
    {"entropy", "entropy", "von Neumann entropy by cut, in the order of DMRG", 0, 0},
    {"spectrum", "spectrum", "squared Schmidt values by cut, falling, 0 behind the last", 0, 0},
    {"energy", "energy", "<H>", 0, 1},
    {"variance", "variance", "two-site variance of the energy", 0, 1},
};
_Static_assert(sizeof kinds / sizeof *kinds == NREQUEST, "ORDER REQUEST");

typedef struct request {
    request_kind kind;
    char text[MAX_TEXT];         /* the arguments, for messages and names */
    int nop;
    kl_siteop *op[MAX_ARG];
    int site[MAX_ARG];
    kl_siteop *between;
    char file[MAX_TEXT];
} request;

static void clear_request(request *q)
{
    for (int k = 0; k < q->nop; k++) kl_siteop_destroy(&q->op[k]);
    kl_siteop_destroy(&q->between);
    q->nop = 0;
}

static kl_status refuse(const char *text, const char *why, kl_err *err)
{
    return kl_fail(err, KL_EINPUT,
                   "measure '%.200s': %s; allowed: an operator, corr(A,B), connected(A,B), string(A,S,B), "
                   "structure(A,B), product(A@SITE,...), "
                   "populations, entropy, spectrum, energy, variance, overlap(RESULT.h5)",
                   text, why);
}

/* Length up to the next , or ; or end that stands in no bracket. */
static size_t argument_length(const char *c)
{
    int depth = 0;
    size_t n = 0;
    for (; c[n]; n++) {
        if (c[n] == '(') depth++;
        else if (c[n] == ')') depth--;
        else if (depth == 0 && (c[n] == ',' || c[n] == ';')) break;
    }
    return n;
}

static void trim(char *text)
{
    size_t n = strlen(text), lead = strspn(text, " ");
    while (n > lead && text[n - 1] == ' ') n--;
    memmove(text, text + lead, n - lead);
    text[n - lead] = '\0';
}

static kl_status read_site(const char *text, char *arg, const kl_lattice *lat, int *site, kl_err *err)
{
    char *const at = strrchr(arg, '@');
    if (!at) return refuse(text, "each operator of a product needs its site, as in Sz@0", err);
    *at = '\0';
    char name[MAX_TEXT];
    snprintf(name, sizeof name, "%s", at + 1);
    trim(name);
    trim(arg);
    *site = kl_lattice_site(lat, name);
    return *site >= 0 ? KL_OK
                      : kl_fail(err, KL_EINPUT,
                                "measure '%.200s': site '%.60s' is not on lattice %.100s; it has 0 to %d",
                                text, name, lat->spec, lat->nsite - 1);
}

static kl_status add_op(const char *text, const kl_model *model, kl_siteop **to, const char *arg, kl_err *err)
{
    kl_err why;
    const kl_status st = kl_siteop_create(model, arg, to, &why);
    return st == KL_OK ? st : kl_fail(err, st, "measure '%.200s': %.700s", text, why.text);
}

static kl_status add_between(request *q, const char *text, const kl_model *model, const char *arg,
                             kl_err *err)
{
    const kl_status st = add_op(text, model, &q->between, arg, err);
    if (st != KL_OK || kl_siteop_conserves(q->between)) return st;
    return kl_fail(err, KL_EINPUT,
                   "measure '%.200s': '%.100s' is to stand between others: it must conserve every charge and "
                   "not vanish on any site type",
                   text, arg);
}

/* What needs no operator of a site: a state of a total spin is measured as it is; for all else one component
   of it is written out. */
static int knows_spin(request_kind kind)
{
    return kind == IS_ENERGY || kind == IS_VARIANCE || kind == IS_ENTROPY || kind == IS_SPECTRUM ||
           kind == IS_OVERLAP;
}

/* Sites i and i + 1 by a bond of the nn class, or by any where no class has that name. */
static int is_bonded(const kl_lattice *lat, int i)
{
    const int nn = kl_lattice_class(lat, "nn");
    for (int b = 0; b < lat->nbond; b++) {
        const kl_bond *const bond = &lat->bond[b];
        int counts = nn < 0;
        for (int c = 0; c < bond->nclass; c++) counts |= bond->cls[c] == nn;
        if (counts && bond->i == i && bond->j == i + 1) return 1;
    }
    return 0;
}

/* Between means from one site to the next by its number, which is a path only where each is bonded to the
   next. */
static kl_status check_path(const char *text, const request *q, const kl_lattice *lat, kl_err *err)
{
    int low = 0, high = lat->nsite - 1;
    if (q->kind == IS_PRODUCT) {
        low = high = q->site[0];
        for (int k = 1; k < q->nop; k++) {
            low = q->site[k] < low ? q->site[k] : low;
            high = q->site[k] > high ? q->site[k] : high;
        }
    }
    for (int i = low; i < high; i++)
        if (!is_bonded(lat, i))
            return kl_fail(err, KL_EINPUT,
                           "measure '%.200s': sites %d and %d of lattice %.60s are not bonded, so that the "
                           "sites between are no path",
                           text, i, i + 1, lat->spec);
    return KL_OK;
}

static kl_status read_request(const char *text, const kl_model *model, const kl_lattice *lat, request *q,
                              kl_err *err)
{
    kl_status st = KL_OK;
    char word[32], rest[MAX_TEXT], arg[MAX_TEXT];
    memset(q, 0, sizeof *q);
    if (strlen(text) >= MAX_TEXT) return refuse(text, "the text is too long", err);
    snprintf(rest, sizeof rest, "%s", text);
    trim(rest);
    const size_t n = strcspn(rest, "( ");
    snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : 0), rest);
    int kind = 0;
    while (kind < NREQUEST && strcmp(word, kinds[kind].word)) kind++;
    const size_t length = strlen(rest);
    if (kind < NREQUEST && kinds[kind].narg == 0) {
        if (rest[n]) return refuse(text, "this word stands alone", err);
        q->kind = (request_kind)kind;
        return KL_OK;
    }
    if (kind < NREQUEST && rest[n] == '(') {
        if (rest[length - 1] != ')') return refuse(text, "')' is missing at the end", err);
        memmove(rest, rest + n + 1, length - n - 2);
        rest[length - n - 2] = '\0';
    } else if (kind < NREQUEST) return refuse(text, "its arguments in brackets are missing", err);
    else if (rest[n] == '(' &&
             strspn(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == n && n > 0 &&
             strcmp(word, "expipi") != 0)
        return refuse(text, "there is no such measurement", err);
    else kind = IS_LOCAL; /* an operator by itself */
    q->kind = (request_kind)kind;
    trim(rest);
    snprintf(q->text, sizeof q->text, "%s", rest);
    if (kind == IS_OVERLAP) {
        if (!rest[0]) return refuse(text, "the name of a result file is missing", err);
        snprintf(q->file, sizeof q->file, "%s", rest);
        int there;
        kl_err why;
        st = kl_infile_descriptor(rest, O_RDONLY, &there, &why); /* told before a run, not after it */
        if (st != KL_OK) return kl_fail(err, st, "measure '%.200s': %s", text, why.text);
        close(there);
        return KL_OK;
    }
    int narg = 0, last = 0;
    for (const char *c = rest;; c++) {
        const size_t here = argument_length(c);
        snprintf(arg, sizeof arg, "%.*s", (int)here, c);
        trim(arg);
        c += here;
        if (last) {
            if (*c) KL_TRY(refuse(text, "only one operator can stand between", err));
            KL_TRY(add_between(q, text, model, arg, err));
            break;
        }
        if (narg == MAX_ARG) KL_TRY(refuse(text, "a product has 32 operators at most", err));
        if (kind == IS_PRODUCT) KL_TRY(read_site(text, arg, lat, &q->site[narg], err));
        if (kind == IS_STRING && narg == 1) KL_TRY(add_between(q, text, model, arg, err));
        else {
            KL_TRY(add_op(text, model, &q->op[q->nop], arg, err));
            q->nop++;
        }
        narg++;
        if (kinds[kind].narg > 0 && narg > kinds[kind].narg) break;
        if (!*c) break;
        if (*c == ';') {
            if (kind != IS_PRODUCT) KL_TRY(refuse(text, "';' belongs into product(...)", err));
            last = 1;
        }
    }
    if (kinds[kind].narg > 0 && narg != kinds[kind].narg) {
        char why[64];
        snprintf(why, sizeof why, "%s takes %d operator%s", kinds[kind].word, kinds[kind].narg,
                 kinds[kind].narg > 1 ? "s" : "");
        KL_TRY(refuse(text, why, err));
    }
    if (q->between) KL_TRY(check_path(text, q, lat, err));
    if (kind == IS_STRUCTURE && lat->kind == KL_LATTICE_FILE)
        KL_TRY(refuse(text, "a lattice from a file has no grid of momenta", err));
out:
    if (st != KL_OK) clear_request(q);
    return st;
}

kl_status kl_request_check(const char *text, const kl_model *model, const kl_lattice *lat, kl_err *err)
{
    request q;
    const kl_status st = read_request(text, model, lat, &q, err);
    if (st == KL_OK) clear_request(&q);
    return st;
}

/* ---- carrying out ---- */

typedef struct array {
    int rank;
    int64_t shape[3], n;
    double *data;
} array;

static kl_status make_array(array *a, int rank, int64_t n0, int64_t n1, int64_t n2, kl_err *err)
{
    *a = (array){.rank = rank, .shape = {n0, n1, n2}, .n = 1};
    for (int k = 0; k < rank; k++) a->n *= a->shape[k];
    return kl_alloc(&a->data, a->n, KL_MEM_MISC, err);
}

/* "correlation/Sz,Sz"; a slash in an expression would open a folder, so it becomes ':'. */
static void make_name(const request *q, const char *prefix, const char *tail, char *name, size_t size)
{
    char args[MAX_TEXT];
    snprintf(args, sizeof args, "%s", q->text);
    for (char *c = args; *c; c++)
        if (*c == '/') *c = ':';
    snprintf(name, size, "%s%s%s%s%s", prefix, kinds[q->kind].folder, args[0] ? "/" : "", args, tail);
}

/* A multiplet of the total spin stands for so many states of equal weight. */
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
static kl_status read_other(const kl_request_scene *scene, const request *q, kl_qn target, kl_state **out,
                            kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *r = NULL;
    KL_TRY(kl_result_read(q->file, &r, err));
    KL_TRY(kl_result_match(q->file, r, scene->terms->model, scene->lat, scene->params, target, 0, err));
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
    request q;
    kl_state *s = NULL;
    KL_TRY(read_request(text, named(scene), scene->lat, &q, err));
    if (q.kind == IS_OVERLAP) st = read_other(scene, &q, target, &s, err);
    clear_request(&q);
    kl_state_destroy(&s);
out:
    return st;
}

static kl_status overlap_with(const kl_request_scene *scene, const request *q, const kl_measure *m,
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

/* The numbers of one request on one wavefunction; *extra: charges of a spectrum. */
static kl_status carry_out(const kl_request_scene *scene, const request *q, kl_measure *m, array *out,
                           array *extra, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = scene->lat->nsite;
    double (*k)[2] = NULL, *pair = NULL;
    switch (q->kind) {
    case IS_LOCAL:
        KL_TRY(make_array(out, 1, n, 0, 0, err));
        KL_TRY(kl_measure_local(m, q->op[0], out->data, err));
        break;
    case IS_CORR:
    case IS_CONNECTED:
        KL_TRY(make_array(out, 2, n, n, 0, err));
        KL_TRY(kl_measure_pairs(m, q->op[0], NULL, q->op[1], q->kind == IS_CONNECTED, out->data, err));
        break;
    case IS_STRING:
        KL_TRY(make_array(out, 2, n, n, 0, err));
        KL_TRY(kl_measure_strings(m, scene->lat, q->op[0], q->between, q->op[1], out->data, err));
        break;
    case IS_STRUCTURE: {
        int nk;
        KL_TRY(kl_structure_momenta(scene->lat, &nk, &k, err));
        KL_TRY(make_array(out, 2, scene->lat->lx, scene->lat->ly, 0, err));
        if (scene->lat->ly == 1) out->rank = 1;
        KL_TRY(kl_alloc(&pair, (int64_t)n * n, KL_MEM_WORK, err));
        KL_TRY(kl_measure_pairs(m, q->op[0], NULL, q->op[1], 0, pair, err));
        kl_structure_factor(scene->lat, pair, nk, (const double (*)[2])k, out->data);
        break;
    }
    case IS_PRODUCT:
        KL_TRY(make_array(out, 0, 0, 0, 0, err));
        KL_TRY(kl_measure_string_product(m, scene->lat, q->nop, q->site, (const kl_siteop *const *)q->op,
                                         q->between, out->data, err));
        break;
    case IS_POPULATIONS: {
        int d;
        KL_TRY(kl_measure_populations(m, &d, &pair, err));
        KL_TRY(make_array(out, 2, n, d, 0, err));
        memcpy(out->data, pair, (size_t)out->n * sizeof(double));
        break;
    }
    case IS_ENTROPY:
        KL_TRY(make_array(out, 1, n - 1, 0, 0, err));
        KL_TRY(kl_canonical_schmidt(kl_measure_state(m), scene->ex->nthread, err));
        for (int cut = 1; cut < n; cut++) out->data[cut - 1] = kl_canonical_entropy(kl_measure_state(m), cut);
        break;
    case IS_SPECTRUM:
        KL_TRY(kl_canonical_schmidt(kl_measure_state(m), scene->ex->nthread, err));
        KL_TRY(spectrum_of(kl_measure_state(m), out, extra, err));
        break;
    case IS_ENERGY:
    case IS_VARIANCE: {
        double e, v;
        KL_TRY(make_array(out, 0, 0, 0, 0, err));
        KL_TRY(kl_measure_energy(m, scene->terms, &e, q->kind == IS_VARIANCE ? &v : NULL, err));
        out->data[0] = q->kind == IS_VARIANCE ? v : e;
        break;
    }
    case IS_OVERLAP: KL_TRY(overlap_with(scene, q, m, out, err)); break;
    case NREQUEST: break;
    }
out:
    kl_free(&k);
    kl_free(&pair);
    return st;
}

/* Means over a manifold are those of its density matrix; <A><B> of a connected correlation is taken apart for
   that. */
static kl_status manifold_mean(const kl_request_scene *scene, const request *q, int nmean,
                               kl_measure *const *m, array *mean, kl_err *err)
{
    kl_status st = KL_OK;
    request plain = *q; /* shares what q owns */
    array one = {0}, none = {0};
    double *a = NULL, *b = NULL, *x = NULL;
    const int n = scene->lat->nsite;
    if (q->kind == IS_CONNECTED) plain.kind = IS_CORR;
    KL_TRY(kl_alloc(&a, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&b, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&x, n, KL_MEM_WORK, err));
    for (int s = 0; s < nmean; s++) {
        KL_TRY(carry_out(scene, &plain, m[s], &one, &none, err));
        if (s == 0) {
            KL_TRY(make_array(mean, one.rank, one.shape[0], one.shape[1], one.shape[2], err));
        }
        for (int64_t i = 0; i < mean->n; i++) mean->data[i] += one.data[i] / nmean;
        kl_free(&one.data);
        if (q->kind != IS_CONNECTED) continue;
        KL_TRY(kl_measure_local(m[s], q->op[0], x, err));
        for (int i = 0; i < n; i++) a[i] += x[i] / nmean;
        KL_TRY(kl_measure_local(m[s], q->op[1], x, err));
        for (int i = 0; i < n; i++) b[i] += x[i] / nmean;
    }
    for (int i = 0; i < n && q->kind == IS_CONNECTED; i++)
        for (int j = 0; j < n; j++) mean->data[i * (int64_t)n + j] -= a[i] * b[j];
out:
    kl_free(&one.data);
    kl_free(&a);
    kl_free(&b);
    kl_free(&x);
    return st;
}

static kl_status run_one(const kl_request_scene *scene, const request *q, int nstate, int nmean,
                         kl_measure *const *m, kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    array out = {0}, extra = {0};
    char name[2 * MAX_TEXT], prefix[32] = "";
    for (int s = 0; s < nstate; s++) {
        KL_TRY(carry_out(scene, q, m[s], &out, &extra, err));
        if (s > 0) snprintf(prefix, sizeof prefix, "state_%d/", s);
        make_name(q, prefix, q->kind == IS_SPECTRUM ? "/weights" : "", name, sizeof name);
        KL_TRY(kl_result_add(r, name, kinds[q->kind].note, out.rank, out.shape, out.data, err));
        if (extra.data) {
            make_name(q, prefix, "/charges", name, sizeof name);
            KL_TRY(kl_result_add(r, name, "charges of the left part, in the order of the weights", extra.rank,
                                 extra.shape, extra.data, err));
        }
        kl_free(&out.data);
        kl_free(&extra.data);
    }
    if (nmean > 1 && kinds[q->kind].in_mean) {
        KL_TRY(manifold_mean(scene, q, nmean, m, &out, err));
        make_name(q, "manifold/", "", name, sizeof name);
        KL_TRY(kl_result_add(r, name, kinds[q->kind].note, out.rank, out.shape, out.data, err));
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

int kl_request_standard(const kl_model *model, const char **text)
{
    int n = 0;
    text[n++] = kinds[IS_VARIANCE].word;
    for (int t = 0; t < model->ntype; t++)
        for (int o = 0; o < model->type[t].nop && n < KL_REQUEST_STANDARD; o++) {
            const kl_site_op *const op = &model->type[t].op[o];
            int known = !op->named || !is_top(op->name);
            for (int k = 0; k < n && !known; k++) known = strcmp(text[k], op->name) == 0;
            if (!known) text[n++] = op->name;
        }
    return n;
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
} subjects;

static void close_subjects(subjects *x)
{
    for (int k = 0; k < MOST_STATES; k++) {
        kl_measure_destroy(&x->m[k]);
        kl_measure_destroy(&x->plain[k]);
    }
}

static kl_status open_subjects(const kl_request_scene *scene, subjects *x, kl_err *err)
{
    kl_status st = KL_OK;
    for (int k = 0; k < x->n; k++) {
        double error;
        KL_TRY(kl_measure_create(scene->ex, x->state, k, scene->lat, &x->m[k], err));
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
    kl_state *s = NULL;
    for (int k = 0; k < x->n && x->plain[k] == NULL; k++) {
        KL_TRY(kl_expand_state(scene->ex, x->state, k, scene->plain, NULL, &s, err));
        KL_TRY(kl_measure_create(scene->ex, s, 0, scene->lat, &x->plain[k], err));
        kl_state_destroy(&s);
    }
out:
    kl_state_destroy(&s);
    return st;
}

kl_status kl_request_run(const kl_request_scene *scene, int n, const char *const *text, const kl_state *s,
                         int nmanifold, kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    request q = {.nop = 0};
    subjects x = {.state = s, .n = wanted_states(r, s)};
    const int nmean = nmanifold < x.n ? nmanifold : x.n;
    if (!n) return KL_OK;
    KL_TRY(open_subjects(scene, &x, err));
    for (int i = 0; i < n; i++) {
        KL_TRY(read_request(text[i], named(scene), scene->lat, &q, err));
        const int plain = scene->plain != NULL && !knows_spin(q.kind);
        if (plain) KL_TRY(write_out(scene, &x, err));
        KL_TRY(run_one(scene, &q, x.n, nmean, plain ? x.plain : x.m, r, err));
        clear_request(&q);
    }
out:
    clear_request(&q);
    close_subjects(&x);
    return st;
}
