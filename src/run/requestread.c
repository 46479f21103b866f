/* The words of a measurement: see requestread.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/requestread.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/infile.h"
#include "base/mem.h"
#include "model/qn.h"
#include "model/terms.h"
#include "run/reduced.h"

/* ORDER REQUEST */
const kl_request_row kl_request_kinds[KL_NREQUEST] = {
    {"local", "local", "expectation value by site", 1, 1},
    {"corr", "correlation", "<A_i B_j>, row i, column j", 2, 1},
    {"connected", "connected", "<A_i B_j> - <A_i><B_j>, row i, column j", 2, 1},
    {"string", "string", "<A_i S ... S B_j> with S on the sites between by number, row i, column j", 3, 1},
    {"structure", "structure",
     "1/N sum_ij cos(k (r_i-r_j)) <A_i B_j> at the momenta 2 pi (x/length, y/width)", 2, 1},
    {"product", "product",
     "expectation value of the product in the order written; an index for each letter, in the order in "
     "which they come",
     -1, 1},
    {"overlap", "overlap", "<this state|states of the file>", 1, 0},
    {"populations", "populations", "probability of each state, by site", 0, 1},
    {"entropy", "entropy", "von Neumann entropy by cut, in the order of DMRG", 0, 0},
    {"spectrum", "spectrum", "squared Schmidt values by cut, falling, 0 behind the last", 0, 0},
    {"energy", "energy", "<H>", 0, 1},
    {"variance", "variance", "two-site variance of the energy", 0, 1},
    {"bond", "bond", "<X> by bond of the class, in the lattice's order", -1, 1},
    {"bondcorr", "bondcorr", "<X_b Y_c>, row b, column c: bonds of the class in the lattice's order", -1, 1},
    {"bondconnected", "bondconnected",
     "<X_b Y_c> - <X_b><Y_c>, row b, column c: bonds of the class in the lattice's order", -1, 0},
    {"energies", "energies", "mean of H's terms on the two ends of a bond, by bond of the class", -1, 1},
    {"density", "density",
     "reduced density matrix of these sites, their states in this order, those of the last one fastest", -1,
     1},
    {"mutual", "mutual", "mutual information S_i + S_j - S_ij of two sites; on the diagonal S_i", 0, 0},
};

void kl_request_clear(kl_request *q)
{
    for (int k = 0; k < q->nop; k++) kl_siteop_destroy(&q->op[k]);
    kl_siteop_destroy(&q->between);
    for (int k = 0; k < 2; k++) kl_bondop_destroy(&q->bondop[k]);
    kl_free(&q->bond);
    q->nop = 0;
}

static const double MOST_PRODUCTS = 2e6; /* of one measurement on bonds, or over letters */
/* the most changes of the charges of a product that is checked */
enum { MOST_SUM = 4096 };

static kl_status refuse(const char *text, const char *why, kl_err *err)
{
    return kl_fail(
        err, KL_EINPUT,
        "--measure '%.200s': %s; allowed: an operator, corr(A,B), connected(A,B), string(A,S,B), "
        "structure(A,B), product(A@SITE,B@i,...), bond(CLASS,X), corr(\"CLASS\",X,Y), "
        "connected(\"CLASS\",X,Y), "
        "energies(CLASS), density(SITE,...), mutual, populations, entropy, spectrum, energy, variance, "
        "overlap(RESULT.h5)",
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

/* "i", "j+1" where no site is called so: operator k stands on the sites that a letter runs over. 0: it is
   none. */
static int take_letter(const char *name, const kl_lattice *lat, kl_request *q, int k)
{
    static const char letters[] = "ijkl";
    char *end;
    int a = 0;
    if (name[0] == '\0' || strchr(letters, name[0]) == NULL || (name[1] != '\0' && name[1] != '+')) return 0;
    const long offset = name[1] == '+' ? strtol(name + 2, &end, 10) : 0;
    if (name[1] == '+' && (name[2] < '0' || name[2] > '9' || *end != '\0' || offset >= lat->nsite)) return 0;
    while (a < q->nletter && q->name[a] != name[0]) a++;
    if (a == q->nletter) {
        q->name[q->nletter] = name[0];
        q->length[q->nletter++] = lat->nsite;
    }
    q->letter[k] = a;
    q->offset[k] = (int)offset;
    if (lat->nsite - q->offset[k] < q->length[a]) q->length[a] = lat->nsite - q->offset[k];
    return 1;
}

static kl_status read_site(const char *text, char *arg, const kl_lattice *lat, kl_request *q, int k,
                           kl_err *err)
{
    char *const at = strrchr(arg, '@');
    if (!at) return refuse(text, "each operator of a product needs its site, as in Sz@0", err);
    *at = '\0';
    char name[KL_REQUEST_TEXT];
    snprintf(name, sizeof name, "%s", at + 1);
    trim(name);
    trim(arg);
    q->site[k] = kl_lattice_site(lat, name);
    q->letter[k] = -1;
    if (q->site[k] >= 0 || take_letter(name, lat, q, k)) return KL_OK;
    return kl_fail(
        err, KL_EINPUT,
        "--measure '%.200s': site '%.60s' is not on lattice %.100s; it has 0 to %d; i, j, k and l, "
        "or i+1, stand for all of them",
        text, name, lat->spec, lat->nsite - 1);
}

/* 1: an operator changes the number of fermions by an odd number, 0: by an even one, -1: some of its elements
   do. */
static int parity(const kl_siteop *op)
{
    const kl_model *const m = op->model;
    int odd = 0, even = 0;
    for (int t = 0; t < m->ntype; t++) {
        const kl_site_type *const type = &m->type[t];
        for (int e = 0; op->mat[t] != NULL && e < type->dim * type->dim; e++) {
            if (op->mat[t][e] == 0) continue;
            const int is = kl_qn_odd(m, kl_qn_sub(m, kl_qn_of(m, type->state_charge[e % type->dim]),
                                                  kl_qn_of(m, type->state_charge[e / type->dim])));
            odd |= is;
            even |= !is;
        }
    }
    return odd && even ? -1 : odd;
}

/* What a product over letters asks for. */
static kl_status check_letters(const char *text, kl_request *q, kl_err *err)
{
    double values = 1;
    if (q->nletter == 0) return KL_OK;
    if (q->nop > 2 * KL_BONDOP_FACTORS)
        return refuse(text, "a product over letters has 8 operators at most", err);
    for (int a = 0; a < q->nletter; a++) values *= q->length[a];
    if (values > MOST_PRODUCTS) return refuse(text, "these are more than two million products", err);
    for (int k = 0; k < q->nop; k++) {
        q->odd[k] = parity(q->op[k]);
        if (q->odd[k] < 0)
            return refuse(text, "an operator mixes even and odd numbers of fermions; measure its parts", err);
    }
    return KL_OK;
}

kl_status kl_request_each(const kl_request *q, kl_bondop_fn *tell, void *self, kl_err *err)
{
    kl_status st = KL_OK;
    int at[KL_REQUEST_LETTERS] = {0}, site[KL_REQUEST_ARGS], a = 0;
    for (int64_t row = 0; a >= 0; row++) {
        for (int k = 0; k < q->nop; k++)
            site[k] = q->letter[k] < 0 ? q->site[k] : at[q->letter[k]] + q->offset[k];
        KL_TRY(tell(self, row, 1, q->nop, site, (const kl_siteop *const *)q->op, q->odd, err));
        for (a = q->nletter - 1; a >= 0 && ++at[a] == q->length[a]; a--) at[a] = 0;
    }
out:
    return st;
}

static kl_status add_op(const char *text, const kl_model *model, kl_siteop **to, const char *arg, kl_err *err)
{
    kl_err why;
    const kl_status st = kl_siteop_create(model, arg, to, &why);
    return st == KL_OK ? st : kl_fail(err, st, "--measure '%.200s': %.700s", text, why.text);
}

/* That there is no measurement of this name, and which one begins it ("correlation") or is much like it. */
static void say_unknown(const char *name, char *out, size_t size)
{
    const char *list[KL_NREQUEST + 1], *near = NULL;
    int n = 0;
    for (int k = 0; k < KL_NREQUEST; k++) {
        const char *const word = kl_request_kinds[k].word;
        if (word == NULL) continue;
        list[n++] = word;
        if (near == NULL && word[0] != '\0' && strncmp(name, word, strlen(word)) == 0) near = word;
    }
    list[n] = NULL;
    if (near == NULL) near = kl_closest(name, list);
    snprintf(out, size, "there is no such measurement%s%s%s", near != NULL ? " (did you mean " : "",
             near != NULL ? near : "", near != NULL ? "?)" : "");
}

/* A name by itself may be meant as an operator or as a measurement: a refusal tells both. */
static kl_status add_local(const char *text, const kl_model *model, kl_siteop **to, const char *name,
                           kl_err *err)
{
    kl_err why;
    char both[500], unknown[90];
    const kl_status st = kl_siteop_create(model, name, to, &why);
    const size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    if (st == KL_OK) return st;
    if (name[n] == '@')
        return kl_fail(err, st, "--measure '%.200s': %.*s is measured at every site; at one: product(%.100s)",
                       text, (int)n, name, name);
    if (name[n] != '\0') return kl_fail(err, st, "--measure '%.200s': %.700s", text, why.text);
    say_unknown(name, unknown, sizeof unknown);
    snprintf(both, sizeof both, "%s, and %.400s", unknown, why.text);
    return refuse(text, both, err);
}

static kl_status add_between(kl_request *q, const char *text, const kl_model *model, const char *arg,
                             kl_err *err)
{
    const kl_status st = add_op(text, model, &q->between, arg, err);
    if (st != KL_OK || kl_siteop_conserves(q->between)) return st;
    return kl_fail(
        err, KL_EINPUT,
        "--measure '%.200s': '%.100s' is to stand between others: it must conserve every charge and "
        "not vanish on any site type",
        text, arg);
}

/* What needs no operator of a site, whose components the state of a total spin does not tell apart. */
static int knows_spin(int kind)
{
    return kind == KL_REQUEST_ENERGY || kind == KL_REQUEST_VARIANCE || kind == KL_REQUEST_ENTROPY ||
           kind == KL_REQUEST_SPECTRUM || kind == KL_REQUEST_OVERLAP;
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
static kl_status check_path(const char *text, const kl_request *q, const kl_lattice *lat, kl_err *err)
{
    int low = 0, high = lat->nsite - 1;
    if (q->kind == KL_REQUEST_PRODUCT && q->nletter == 0) {
        low = high = q->site[0];
        for (int k = 1; k < q->nop; k++) {
            low = q->site[k] < low ? q->site[k] : low;
            high = q->site[k] > high ? q->site[k] : high;
        }
    }
    for (int i = low; i < high; i++)
        if (!is_bonded(lat, i))
            return kl_fail(err, KL_EINPUT,
                           "--measure '%.200s': sites %d and %d of lattice %.60s are not bonded, so that the "
                           "sites between are no path",
                           text, i, i + 1, lat->spec);
    return KL_OK;
}

/* Adds to sum[*n] what it lacks of from[nfrom] + by. */
static void add_sums(const kl_model *m, int nfrom, const kl_qn *from, kl_qn by, int *n, kl_qn *sum)
{
    for (int i = 0; i < nfrom; i++) {
        const kl_qn q = kl_qn_add(m, from[i], by);
        int known = 0;
        for (int k = 0; k < *n && !known; k++) known = kl_qn_cmp(sum[k], q) == 0;
        if (!known && *n < MOST_SUM) sum[(*n)++] = q;
    }
}

/* All changes that an operator makes to the charges on a site type. */
static void add_shifts(const kl_model *m, const kl_siteop *op, int t, int nfrom, const kl_qn *from, int *n,
                       kl_qn *sum)
{
    const kl_site_type *const type = &m->type[t];
    for (int col = 0; op->mat[t] && col < type->dim; col++)
        for (int row = 0; row < type->dim; row++)
            if (op->mat[t][row + col * type->dim] != 0)
                add_sums(
                    m, nfrom, from,
                    kl_qn_sub(m, kl_qn_of(m, type->state_charge[row]), kl_qn_of(m, type->state_charge[col])),
                    n, sum);
}

/* What changes a charge has no expectation value; together several may. Of sums one part each, on sites that
   have them, has to conserve all charges. What is 0 everywhere passes. */
static kl_status check_charges(const char *text, const kl_request *q, const kl_model *m,
                               const kl_lattice *lat, kl_err *err)
{
    kl_status st = KL_OK;
    kl_qn *sum = NULL, *next;
    int n = 1, c = 0;
    KL_TRY(kl_alloc(&sum, 2 * MOST_SUM, KL_MEM_WORK, err));
    next = sum + MOST_SUM;
    sum[0] = kl_qn_zero();
    for (int k = 0; k < q->nop && n > 0; k++) {
        const kl_site_type *const here =
            q->kind == KL_REQUEST_PRODUCT && q->letter[k] < 0 ? kl_model_type_at(m, lat, q->site[k]) : NULL;
        int count = 0;
        for (int t = 0; t < m->ntype; t++)
            if (here == NULL || here == &m->type[t]) add_shifts(m, q->op[k], t, n, sum, &count, next);
        memcpy(sum, next, sizeof *sum * (size_t)count);
        n = count;
    }
    if (n == 0 || n == MOST_SUM) goto out;
    for (int i = 0; i < n; i++)
        if (kl_qn_cmp(sum[i], kl_qn_zero()) == 0) goto out;
    while (sum[n - 1].v[c] == 0) c++;
    char by[32];
    KL_TRY(
        kl_fail(err, KL_EINPUT,
                "--measure '%.200s': it changes the charge %s by %s, so that its value is 0 in every sector",
                text, m->charge[c].name, kl_charge_print(&m->charge[c], sum[n - 1].v[c], by, sizeof by)));
out:
    kl_free(&sum);
    return st;
}

/* Word of a class, in quotes or not, up to the comma: what is behind, NULL: the text ends. */
static const char *take_class(const char *c, char *name, size_t size)
{
    c += *c == '"';
    const size_t n = strcspn(c, "\",");
    snprintf(name, size, "%.*s", (int)n, c);
    trim(name);
    c += n;
    c += *c == '"';
    while (*c == ' ') c++;
    return *c == ',' ? c + 1 : NULL;
}

static kl_status read_bondop(const char *text, const kl_model *model, const char *arg, kl_bondop **out,
                             kl_err *err)
{
    kl_err why;
    const kl_status st = kl_bondop_read(arg, model, out, &why);
    return st == KL_OK ? st : kl_fail(err, st, "--measure '%.200s': %.700s", text, why.text);
}

/* density(SITE,SITE,...) */
static kl_status read_density(const char *text, const char *args, const kl_model *model,
                              const kl_lattice *lat, kl_request *q, kl_err *err)
{
    char arg[64];
    double states = 1;
    for (const char *c = args;; c++) {
        const size_t n = argument_length(c);
        snprintf(arg, sizeof arg, "%.*s", (int)(n < sizeof arg ? n : sizeof arg - 1), c);
        trim(arg);
        c += n;
        const int site = kl_lattice_site(lat, arg);
        if (site < 0)
            return kl_fail(err, KL_EINPUT,
                           "--measure '%.200s': site '%.60s' is not on lattice %.100s; it has 0 to %d", text,
                           arg, lat->spec, lat->nsite - 1);
        for (int k = 0; k < q->nsite; k++)
            if (q->site[k] == site) return refuse(text, "a site stands there twice", err);
        states *= kl_model_type_at(model, lat, site)->dim;
        if (states > (double)(int)KL_REDUCED_MOST)
            return refuse(text, "these sites have more than 64 states", err);
        q->site[q->nsite++] = site;
        if (*c == '\0') return KL_OK;
    }
}

/* bond(CLASS), bond(CLASS,X), corr("CLASS",X,Y) with hc for the adjoint of X; args: what stands in the
   brackets. */
static kl_status read_bonds(const char *text, const char *args, const kl_model *model, const kl_lattice *lat,
                            kl_request *q, kl_err *err)
{
    static const char *const spins = "Sz(i)*Sz(j) + (Sp(i)*Sm(j) + hc)/2";
    kl_status st = KL_OK;
    char cls[64], arg[KL_REQUEST_TEXT], by[32];
    const int pairs = q->kind == KL_REQUEST_BONDCORR || q->kind == KL_REQUEST_BONDCONNECTED;
    const char *c = take_class(args, cls, sizeof cls);
    const int k = kl_lattice_class(lat, cls);
    if (k < 0)
        return kl_fail(
            err, KL_EINPUT,
            "--measure '%.200s': lattice %.60s has no bonds of class '%.60s'; `kronlat lattice' lists "
            "them",
            text, lat->spec, cls);
    KL_TRY(kl_bondop_bonds(lat, k, &q->nbond, &q->bond, err));
    if (q->nbond == 0) KL_TRY(refuse(text, "there are no bonds of this class", err));
    snprintf(q->text, sizeof q->text, "%s", cls);
    if (q->kind == KL_REQUEST_ENERGIES)
        return c == NULL ? KL_OK
                         : refuse(text, "energies(CLASS) are those of H itself; bond(CLASS,X) takes X", err);
    if (c == NULL && pairs) KL_TRY(refuse(text, "an operator is missing", err));
    if (c == NULL) {
        if (read_bondop(text, model, spins, &q->bondop[0], err) != KL_OK)
            KL_TRY(
                refuse(text, "bond(CLASS) is S.S, for models with Sz, Sp and Sm; write bond(CLASS,X)", err));
        return KL_OK;
    }
    size_t n = argument_length(c);
    snprintf(arg, sizeof arg, "%.*s", (int)n, c);
    trim(arg);
    KL_TRY(read_bondop(text, model, arg, &q->bondop[0], err));
    c += n;
    snprintf(q->text + strlen(q->text), sizeof q->text - strlen(q->text), ",%.300s", arg);
    if (pairs) {
        if (*c != ',')
            KL_TRY(refuse(text, "the second operator is missing; hc: the adjoint of the first", err));
        c++;
        n = argument_length(c);
        snprintf(arg, sizeof arg, "%.*s", (int)n, c);
        trim(arg);
        c += n;
        if (strcmp(arg, "hc") == 0) KL_TRY(kl_bondop_adjoint(q->bondop[0], &q->bondop[1], err));
        else KL_TRY(read_bondop(text, model, arg, &q->bondop[1], err));
        snprintf(q->text + strlen(q->text), sizeof q->text - strlen(q->text), ",%.90s", arg);
    }
    if (*c != '\0') KL_TRY(refuse(text, "there are too many arguments", err));
    const char *const charge = kl_bondop_forbidden(q->bondop[0], q->bondop[1], by, sizeof by);
    if (charge != NULL)
        KL_TRY(kl_fail(
            err, KL_EINPUT,
            "--measure '%.200s': it changes the charge %s by %s, so that its value is 0 in every sector",
            text, charge, by));
    const double strings = (double)q->bondop[0]->nstring * (pairs ? q->bondop[1]->nstring : 1);
    if (strings * q->nbond * (pairs ? q->nbond : 1) > MOST_PRODUCTS)
        KL_TRY(refuse(text, "these are more than two million products", err));
out:
    return st;
}

kl_status kl_request_read(const char *text, const kl_model *model, const kl_lattice *lat, kl_request *q,
                          kl_err *err)
{
    kl_status st = KL_OK;
    char word[32], rest[KL_REQUEST_TEXT], arg[KL_REQUEST_TEXT];
    memset(q, 0, sizeof *q);
    if (strlen(text) >= KL_REQUEST_TEXT) return refuse(text, "the text is too long", err);
    snprintf(rest, sizeof rest, "%s", text);
    trim(rest);
    const size_t n = strcspn(rest, "( ");
    snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : 0), rest);
    int kind = 0;
    while (kind < KL_NREQUEST && strcmp(word, kl_request_kinds[kind].word)) kind++;
    const size_t length = strlen(rest);
    if (kl_model_spin(model) >= 0 && !knows_spin(kind))
        return kl_fail(
            err, KL_EINPUT,
            "--measure '%.200s': with the total spin S as a charge only energy, variance, entropy, "
            "spectrum and overlap are measured; take a run with Sz for others",
            text);
    if (kind < KL_NREQUEST && kl_request_kinds[kind].narg == 0) {
        if (rest[n]) return refuse(text, "this word stands alone", err);
        q->kind = (kl_request_kind)kind;
        return KL_OK;
    }
    if (kind < KL_NREQUEST && rest[n] == '(') {
        if (rest[length - 1] != ')') return refuse(text, "')' is missing at the end", err);
        memmove(rest, rest + n + 1, length - n - 2);
        rest[length - n - 2] = '\0';
    } else if (kind < KL_NREQUEST) return refuse(text, "its arguments in brackets are missing", err);
    else if (rest[n] == '(' &&
             strspn(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == n && n > 0 &&
             strcmp(word, "expipi") != 0 && strcmp(word, "adj") != 0) {
        say_unknown(word, arg, sizeof arg);
        return refuse(text, arg, err);
    } else kind = KL_REQUEST_LOCAL; /* an operator by itself */
    q->kind = (kl_request_kind)kind;
    trim(rest);
    snprintf(q->text, sizeof q->text, "%s", rest);
    if (kind == KL_REQUEST_CORR && rest[0] == '"') q->kind = KL_REQUEST_BONDCORR;
    if (kind == KL_REQUEST_CONNECTED && rest[0] == '"') q->kind = KL_REQUEST_BONDCONNECTED;
    if (kind == KL_REQUEST_DENSITY) return read_density(text, rest, model, lat, q, err);
    if (q->kind == KL_REQUEST_BOND || q->kind == KL_REQUEST_BONDCORR || q->kind == KL_REQUEST_BONDCONNECTED ||
        q->kind == KL_REQUEST_ENERGIES) {
        st = read_bonds(text, rest, model, lat, q, err);
        if (st != KL_OK) kl_request_clear(q);
        return st;
    }
    if (kind == KL_REQUEST_OVERLAP) {
        if (!rest[0]) return refuse(text, "the name of a result file is missing", err);
        snprintf(q->file, sizeof q->file, "%s", rest);
        int there;
        kl_err why;
        st = kl_infile_descriptor(rest, O_RDONLY, &there, &why); /* told before a run, not after it */
        if (st != KL_OK) return kl_fail(err, st, "--measure '%.200s': %s", text, why.text);
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
        if (narg == KL_REQUEST_ARGS) KL_TRY(refuse(text, "a product has 32 operators at most", err));
        if (kind == KL_REQUEST_PRODUCT) KL_TRY(read_site(text, arg, lat, q, narg, err));
        if (kind == KL_REQUEST_STRING && narg == 1) KL_TRY(add_between(q, text, model, arg, err));
        else {
            KL_TRY((kind == KL_REQUEST_LOCAL && strcmp(arg, text) == 0 ? add_local : add_op)(
                text, model, &q->op[q->nop], arg, err));
            q->nop++;
        }
        narg++;
        if (kl_request_kinds[kind].narg > 0 && narg > kl_request_kinds[kind].narg) break;
        if (!*c) break;
        if (*c == ';') {
            if (kind != KL_REQUEST_PRODUCT) KL_TRY(refuse(text, "';' belongs into product(...)", err));
            last = 1;
        }
    }
    if (kl_request_kinds[kind].narg > 0 && narg != kl_request_kinds[kind].narg) {
        char why[64];
        snprintf(why, sizeof why, "%s takes %d operator%s", kl_request_kinds[kind].word,
                 kl_request_kinds[kind].narg, kl_request_kinds[kind].narg > 1 ? "s" : "");
        KL_TRY(refuse(text, why, err));
    }
    if (q->between) KL_TRY(check_path(text, q, lat, err));
    KL_TRY(check_charges(text, q, model, lat, err));
    KL_TRY(check_letters(text, q, err));
    if (kind == KL_REQUEST_STRUCTURE && lat->kind == KL_LATTICE_FILE)
        KL_TRY(refuse(text, "a lattice from a file has no grid of momenta", err));
out:
    if (st != KL_OK) kl_request_clear(q);
    return st;
}

/* "correlation/Sz,Sz"; a slash in an expression would open a folder, so it becomes ':'. */
void kl_request_name(const kl_request *q, const char *prefix, const char *tail, char *name, size_t size)
{
    char args[KL_REQUEST_TEXT];
    snprintf(args, sizeof args, "%s", q->text);
    for (char *c = args; *c; c++)
        if (*c == '/') *c = ':';
    snprintf(name, size, "%s%s%s%s%s", prefix, kl_request_kinds[q->kind].folder, args[0] ? "/" : "", args,
             tail);
}

void kl_request_energies(const kl_request *q, const kl_terms *t, const kl_lattice *lat, const double *each,
                         double *value)
{
    memset(value, 0, sizeof *value * (size_t)q->nbond);
    for (int64_t k = 0; k < t->nterm; k++) {
        if (t->term[k].nop != 2) continue;
        const int low = t->op[t->term[k].first].pos, high = t->op[t->term[k].first + 1].pos;
        for (int b = 0; b < q->nbond; b++) {
            const int i = lat->position[q->bond[b][0]], j = lat->position[q->bond[b][1]];
            if ((i == low && j == high) || (i == high && j == low)) value[b] += each[k];
        }
    }
}
