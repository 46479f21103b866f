/* The total spin in a task: what it does not go with, the variant without it, starts by a path of multiplets,
   one for each cut, from the spin of the whole at the left end to 0 at the right one.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/task.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

const kl_terms *kl_task_plain(const kl_task *t) { return kl_model_spin(t->model) < 0 ? NULL : t->twin; }

const kl_model *kl_task_named(const kl_task *t)
{
    return kl_model_spin(t->model) < 0 ? t->model : t->twin->model;
}

/* ---------------------------------------------------------------- the charges of a component */

enum { NORMAL = KL_MAX_CHARGE + 1 };

/* Solves a x = y[c] by elimination; unknowns that nothing says are 0. */
static void eliminate(int n, double a[NORMAL][NORMAL], double *y, double *x)
{
    int row_of[NORMAL], used[NORMAL] = {0};
    for (int k = 0; k < n; k++) {
        int best = -1;
        for (int r = 0; r < n; r++)
            if (!used[r] && (best < 0 || fabs(a[r][k]) > fabs(a[best][k]))) best = r;
        row_of[k] = best >= 0 && fabs(a[best][k]) > 1e-9 ? best : -1;
        if (row_of[k] < 0) continue;
        used[best] = 1;
        for (int r = 0; r < n; r++) {
            const double f = r == best ? 0 : a[r][k] / a[best][k];
            for (int l = 0; l < n; l++) a[r][l] -= f * a[best][l];
            y[r] -= f * y[best];
        }
    }
    for (int k = 0; k < n; k++) x[k] = row_of[k] < 0 ? 0 : y[row_of[k]] / a[row_of[k]][k];
}

/* The variants of a model with the total spin and without; back 1: from charges without to those with. */
typedef struct variants {
    const kl_model *with, *plain;
    int back;
} variants;

/* Charge c, in the other variant, of the component Sz = S of a state with charges q, where it is a sum of
   multiples of these; *known 0: it is not. */
static int other_charge(const variants *v, kl_qn q, int c, int *known)
{
    const kl_model *const with = v->with, *const plain = v->plain, *const to = v->back ? with : plain;
    const int n = v->back ? plain->ncharge : with->ncharge;
    double a[NORMAL][NORMAL] = {{0}}, y[NORMAL] = {0}, x[NORMAL], sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < with->ntype; k++)
            for (int s = 0; s < with->type[k].dim; s++) {
                const kl_site_type *const site = &with->type[k];
                int state = 0;
                while (fabs(site->vector[s * site->dim + state]) < 1e-9) state++;
                const int *const here = site->state_charge[s],
                                 *const there = plain->type[k].state_charge[state],
                                 *const of = v->back ? there : here;
                double value = v->back ? here[c] : there[c];
                for (int i = 0; i < n; i++) {
                    y[i] += pass ? 0 : of[i] * value;
                    for (int j = 0; j < n && !pass; j++) a[i][j] += of[i] * of[j];
                }
                for (int i = 0; i < n && pass; i++) value -= x[i] * of[i];
                if (pass && fabs(value) > 1e-9) *known = 0;
            }
        if (!pass) eliminate(n, a, y, x);
    }
    for (int i = 0; i < n; i++) sum += x[i] * q.v[i];
    if (to->charge[c].modulus > 0 || fabs(sum - (double)lround(sum)) > 1e-9) *known = 0;
    return (int)lround(sum);
}

/* What to ask of exact diagonalization in place of S. */
static kl_status refuse_ed(const kl_task *t, kl_err *err)
{
    const kl_options *const o = t->o;
    const kl_model *const plain = t->twin_tables->model;
    const variants v = {t->model, plain, 0};
    kl_qn q = kl_qn_zero();
    char take[300] = "", value[32];
    int known = o->charge.n == t->model->ncharge;
    for (int i = 0; i < o->charge.n && known; i++) {
        const size_t length = kl_split_name(o->charge.text[i]);
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1),
                 o->charge.text[i]);
        known = kl_qn_set(t->model, &q, name, o->charge.text[i] + length + 1, err) == KL_OK;
    }
    for (int c = 0; c < plain->ncharge && known; c++) {
        const int is = other_charge(&v, q, c, &known);
        const size_t at = strlen(take);
        snprintf(take + at, sizeof take - at, " --charge %s=%s", plain->charge[c].name,
                 kl_charge_print(&plain->charge[c], is, value, sizeof value));
    }
    return kl_fail(err, KL_EINPUT,
                   "--charge S=: exact diagonalization works with Sz, and tells S of each state: take%s",
                   known ? take : " --charge Sz=S (of electrons N_up - N_dn = 2 S)");
}

kl_status kl_task_check_spin(const kl_task *t, kl_err *err)
{
    const kl_options *const o = t->o;
    const kl_start start = kl_start_of(o->start, NULL);
    if (start == KL_START_PATH && kl_model_spin(t->model) < 0)
        return kl_fail(
            err, KL_EINPUT,
            "--start %.100s: a path of spins is for runs with the total spin, --charge S=...; give "
            "neel or product:STATE,STATE,... here",
            o->start);
    if (kl_model_spin(t->model) < 0) return KL_OK;
    const int ed = !t->given.no_run && (o->command == KL_CMD_ED || o->command == KL_CMD_PLAN_ED ||
                                        o->command == KL_CMD_EXPLAIN_ED || o->command == KL_CMD_BENCH_ED ||
                                        (o->method != NULL && strcmp(o->method, "ed") == 0));
    if (ed) return refuse_ed(t, err);
    if (o->infinite || o->command == KL_CMD_GROWTH)
        return kl_fail(err, KL_EINPUT, "--charge S=: growth of the lattice works with Sz, not with S");
    if (o->pin.n > 0)
        return kl_fail(err, KL_EINPUT,
                       "--charge S=: --pin %.100s is no scalar of the total spin; give Sz in place of S",
                       o->pin.text[0]);
    if (start == KL_START_NEEL || start == KL_START_PRODUCT)
        return kl_fail(err, KL_EINPUT,
                       "--charge S=: --start %.100s has no definite total spin; give a path of spins, "
                       "path:0,1/2,0,1/2, or leave --start out, or give Sz in place of S",
                       o->start);
    return KL_OK;
}

/* 1: H has a variant of the total spin with these parameters, and t->twin is of it. */
static int keeps_spin(kl_task *t)
{
    kl_err ignored;
    kl_terms *terms = NULL;
    if (kl_model_spin(t->model) >= 0 || t->o->pin.n > 0 || t->o->infinite || t->o->start != NULL) return 0;
    if (kl_task_twin(t, &ignored) != KL_OK || kl_model_spin(t->twin->model) < 0) return 0;
    if (t->molecule != NULL) return 1;
    kl_params values = *t->params; /* both variants have the same, as the model's text has them */
    values.model = t->twin->model;
    const kl_status st = kl_terms_create(values.model, t->lat, &values, &terms, &ignored);
    kl_terms_destroy(&terms);
    return st == KL_OK;
}

int kl_task_spin_instead(kl_task *t, char *take, size_t size)
{
    int known = 1;
    char value[32];
    take[0] = '\0';
    if (!keeps_spin(t)) return 0;
    const kl_model *const with = t->twin->model;
    const variants v = {with, t->model, 1};
    for (int c = 0; c < with->ncharge && known; c++) {
        if (t->molecule != NULL && c != kl_model_spin(with)) continue; /* its options say them otherwise */
        int is = other_charge(&v, t->dmrg.target, c, &known);
        const size_t at = strlen(take);
        if (c == kl_model_spin(with) && is < 0) is = -is;
        snprintf(take + at, size - at, "%s--charge %s=%s", at > 0 ? " " : "", with->charge[c].name,
                 kl_charge_print(&with->charge[c], is, value, sizeof value));
    }
    return known;
}

/* ---------------------------------------------------------------- starts by a path */

enum { MOST = 256 }; /* charges of a cut that are followed, those next to an even distribution */

/* Some sites from the left end on, one multiplet of them. */
typedef struct part {
    kl_qn q;
    double cost; /* how far it and those before are from an even distribution of the charges */
    double off; /* its own share of that */
    int from, step;
} part;

/* "0,1/2" or "1,1/2:0,1/2": spins of the cuts 0, 1, ...; what stands behind the last colon is repeated. */
static kl_status read_path(const kl_task *t, const char *list, int16_t *spin, kl_err *err)
{
    const int at = kl_model_spin(t->model), n = t->terms->nsite;
    const char *const colon = strrchr(list, ':'), *const again = colon != NULL ? colon + 1 : list;
    const char *p = list;
    int whole = 0; /* 1: the list was read to its end */
    for (int cut = 0; cut <= n; cut++) {
        char word[64];
        kl_qn q = kl_qn_zero();
        const size_t length = strcspn(p, ",:");
        snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), p);
        if (kl_qn_set(t->model, &q, "S", word, err) != KL_OK || q.v[at] < 0)
            return kl_fail(
                err, KL_EINPUT,
                "--start: path: '%s' is no spin; allowed: 0, 1/2, 1, ... of each cut, separated by "
                "commas, and a colon before those that are repeated",
                word);
        spin[cut] = q.v[at];
        p += length;
        whole |= *p == '\0';
        p = *p != '\0' ? p + 1 : again;
    }
    return whole ? KL_OK
                 : kl_fail(err, KL_EINPUT,
                           "--start: path: lists more than the %d cuts of %d sites, both ends counted", n + 1,
                           n);
}

/* Squared distance of the charges of the first `cut` sites from their even share of the target. */
static double uneven(const kl_task *t, kl_qn q, int cut)
{
    double sum = 0;
    for (int c = 0; c < kl_model_spin(t->model); c++) {
        const double d = q.v[c] - (double)t->dmrg.target.v[c] * cut / t->terms->nsite;
        if (t->model->charge[c].modulus == 0) sum += d * d;
    }
    return sum;
}

/* Adds x, or takes it in place of a worse one of these charges, or of the farthest of too many. */
static void keep_part(part *list, int *n, part x)
{
    int at = 0, far = 0;
    while (at < *n && kl_qn_cmp(list[at].q, x.q) != 0) at++;
    for (int i = 1; i < *n; i++)
        if (list[i].off > list[far].off) far = i;
    if (at < *n) {
        if (x.cost < list[at].cost) list[at] = x;
    } else if (*n < MOST) list[(*n)++] = x;
    else if (x.off < list[far].off) list[far] = x;
}

/* All parts of cut `cut` with this spin from those of the cut before. */
static void next_parts(const kl_task *t, int cut, int spin, const part *before, int nbefore, part *list,
                       int *n)
{
    const kl_site_type *const site = t->terms->type[cut - 1];
    *n = 0;
    for (int i = 0; i < nbefore; i++)
        for (int s = 0; s < site->dim; s++) {
            part x = {.from = i, .step = s};
            if (!kl_qn_step(t->model, before[i].q, site, s, 1, &x.q)) continue;
            if (x.q.v[kl_model_spin(t->model)] != spin) continue;
            x.off = uneven(t, x.q, cut);
            x.cost = before[i].cost + x.off;
            keep_part(list, n, x);
        }
}

/* Follows the parts back from the whole. */
static kl_status follow_back(kl_task *t, const part *all, const int *count, kl_err *err)
{
    const int n = t->terms->nsite;
    kl_qn whole = t->dmrg.target;
    char charges[128];
    int at = 0;
    whole.v[kl_model_spin(t->model)] = 0;
    while (at < count[n] && kl_qn_cmp(all[(int64_t)n * MOST + at].q, whole) != 0) at++;
    if (at == count[n])
        return kl_fail(err, KL_EINPUT, "--start: path: no multiplets of the sites that go along it have %s",
                       kl_qn_print(t->model, t->dmrg.target, charges, sizeof charges));
    for (int p = n - 1; p >= 0; p--) {
        const part *const x = &all[(int64_t)(p + 1) * MOST + at];
        t->start[p] = x->step;
        at = x->from;
    }
    return KL_OK;
}

kl_status kl_task_path_start(kl_task *t, const char *list, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = t->terms->nsite, at = kl_model_spin(t->model), whole = t->dmrg.target.v[at];
    const kl_charge *const charge = &t->model->charge[at];
    char a[32], b[32], c[32];
    int16_t *spin = NULL;
    part *all = NULL; /* [n + 1][MOST] */
    int *count = NULL;
    KL_TRY(kl_alloc(&spin, n + 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&all, (int64_t)(n + 1) * MOST, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&count, n + 1, KL_MEM_WORK, err));
    KL_TRY(read_path(t, list, spin, err));
    if (spin[0] != whole || spin[n] != 0)
        KL_TRY(kl_fail(
            err, KL_EINPUT,
            "--start: path: goes from spin %s at the left end to %s at the right one; this run has "
            "S = %s there and 0 here",
            kl_charge_print(charge, spin[0], a, sizeof a), kl_charge_print(charge, spin[n], b, sizeof b),
            kl_charge_print(charge, whole, c, sizeof c)));
    all[0] = (part){.q = kl_qn_edge(t->model, t->dmrg.target)};
    count[0] = 1;
    for (int cut = 1; cut <= n; cut++) {
        next_parts(t, cut, spin[cut], &all[(int64_t)(cut - 1) * MOST], count[cut - 1],
                   &all[(int64_t)cut * MOST], &count[cut]);
        if (count[cut] == 0)
            KL_TRY(kl_fail(
                err, KL_EINPUT,
                "--start: path: no multiplet of the site at position %d (%s) leads from spin %s to %s",
                cut - 1, t->terms->type[cut - 1]->name, kl_charge_print(charge, spin[cut - 1], a, sizeof a),
                kl_charge_print(charge, spin[cut], b, sizeof b)));
    }
    KL_TRY(follow_back(t, all, count, err));
out:
    kl_free(&spin);
    kl_free(&all);
    kl_free(&count);
    return st;
}
