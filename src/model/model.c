/* Checks, once at load, what the generator promised about a model's tables: nothing after it needs to doubt
   them, whoever wrote the model's file. Does not know lattices or numbers.
   SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"
#include "base/mem.h"
#include "model/wigner.h"
#include "phase.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DIM 4096
#define MAX_OP 4095 /* sort keys of strings hold an operator in 12 bits */
#define TABLE_TOL 1e-11

static kl_status check_header(const kl_model *m, kl_err *err)
{
    if (m == NULL) return kl_fail(err, KL_EINPUT, "there is no model to check");
    if (m->name == NULL || m->variant == NULL || m->formula == NULL || m->source == NULL)
        return kl_fail(err, KL_EINPUT, "model %s: its name, variant, formula or source is missing",
                       m->name ? m->name : "(unnamed)");
    if (m->ncharge < 0 || m->ncharge > KL_MAX_CHARGE)
        return kl_fail(err, KL_EINPUT, "model %s: %d charges; allowed are 0 to %d", m->name, m->ncharge,
                       KL_MAX_CHARGE);
    if (m->ntype < 1 || m->type == NULL)
        return kl_fail(err, KL_EINPUT, "model %s: %d site types; at least 1 is needed", m->name, m->ntype);
    if (m->nparam < 0 || m->nterm < 0 || (m->nparam > 0 && m->param == NULL) ||
        (m->nterm > 0 && m->term == NULL) || (m->ncharge > 0 && m->charge == NULL))
        return kl_fail(err, KL_EINPUT, "model %s: a table of charges, parameters or terms is missing",
                       m->name);
    for (int q = 0; q < m->ncharge; q++) {
        const kl_charge *c = &m->charge[q];
        if (c->name == NULL || c->modulus < 0 || c->modulus == 1 || c->unit_num < 1 || c->unit_den < 1 ||
            (c->modulus > 0 && c->odd && c->modulus % 2 != 0))
            return kl_fail(err, KL_EINPUT, "model %s: charge[%d] %s has modulus %d, unit %d/%d, odd %d",
                           m->name, q, c->name ? c->name : "(unnamed)", c->modulus, c->unit_num, c->unit_den,
                           c->odd);
        if (c->spin && (q != m->ncharge - 1 || c->modulus != 0 || c->odd))
            return kl_fail(err, KL_EINPUT,
                           "model %s: charge[%d] %s is the total spin, but not the last charge", m->name, q,
                           c->name);
    }
    for (int k = 0; k < m->nparam; k++) {
        const kl_param_def *p = &m->param[k];
        if (p->name == NULL || !isfinite(p->value) || p->kind < KL_PARAM_SCALAR || p->kind > KL_PARAM_BOND)
            return kl_fail(err, KL_EINPUT, "model %s: param[%d] %s has kind %d and default %s", m->name, k,
                           p->name ? p->name : "(unnamed)", (int)p->kind, kl_said(p->value).text);
        for (int j = 0; j < k; j++)
            if (strcmp(p->name, m->param[j].name) == 0)
                return kl_fail(err, KL_EINPUT, "model %s: param[%d] %s has the name of param[%d]", m->name, k,
                               p->name, j);
    }
    return KL_OK;
}

static int state_parity(const kl_model *m, const kl_site_type *t, int state)
{
    int odd = 0;
    for (int q = 0; q < m->ncharge; q++) odd += m->charge[q].odd * t->state_charge[state][q];
    return odd & 1;
}

/* charge(row) - charge(col) in the range that shift and Z_n charges use. */
static int charge_shift(const kl_charge *c, int row, int col)
{
    const int d = row - col;
    if (c->modulus == 0) return d;
    return ((d % c->modulus) + c->modulus) % c->modulus;
}

static const kl_elem *find_elem(const kl_site_op *o, int row, int col)
{
    int lo = 0, hi = o->nelem;
    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2;
        const kl_elem *e = &o->elem[mid];
        if (e->col < col || (e->col == col && e->row < row)) lo = mid + 1;
        else hi = mid;
    }
    return lo < o->nelem && o->elem[lo].row == row && o->elem[lo].col == col ? &o->elem[lo] : NULL;
}

static int is_close(double a, double b)
{
    return fabs(a - b) <= TABLE_TOL * fmax(1.0, fmax(fabs(a), fabs(b)));
}

static kl_status check_op(const kl_model *m, const kl_site_type *t, int a, kl_err *err)
{
    const kl_site_op *o = &t->op[a];
    const char *name = o->name ? o->name : "(unnamed)";
    if (o->name == NULL || o->nelem < 0 || (o->nelem > 0 && o->elem == NULL) || o->adjoint < 0 ||
        o->adjoint >= t->nop || !isfinite(o->adjoint_factor) || o->adjoint_factor == 0.0 ||
        (o->odd != 0 && o->odd != 1))
        return kl_fail(
            err, KL_EINPUT, "model %s, %s: op[%d] %s has %d elements, parity %d, adjoint %d with factor %s",
            m->name, t->name, a, name, o->nelem, o->odd, o->adjoint, kl_said(o->adjoint_factor).text);
    if (o->nelem == 0)
        return kl_fail(err, KL_EINPUT, "model %s, %s: op[%d] %s has no elements", m->name, t->name, a, name);
    for (int k = 0; k < o->nelem; k++) {
        const kl_elem *e = &o->elem[k];
        if (e->row < 0 || e->row >= t->dim || e->col < 0 || e->col >= t->dim || e->value == 0.0 ||
            !isfinite(e->value))
            return kl_fail(err, KL_EINPUT, "model %s, %s: op[%d] %s has element %s at (%d, %d) of %d states",
                           m->name, t->name, a, name, kl_said(e->value).text, e->row, e->col, t->dim);
        if (k > 0 && (e->col < e[-1].col || (e->col == e[-1].col && e->row <= e[-1].row)))
            return kl_fail(err, KL_EINPUT, "model %s, %s: op[%d] %s: element %d is out of order", m->name,
                           t->name, a, name, k);
        for (int q = 0; q < m->ncharge; q++) {
            if (m->charge[q].spin) continue; /* any two steps of two multiplets */
            const int shift =
                charge_shift(&m->charge[q], t->state_charge[e->row][q], t->state_charge[e->col][q]);
            if (shift != o->shift[q])
                return kl_fail(
                    err, KL_EINPUT, "model %s, %s: op[%d] %s shifts %s by %d at (%d, %d); its table says %d",
                    m->name, t->name, a, name, m->charge[q].name, shift, e->row, e->col, o->shift[q]);
        }
        if ((state_parity(m, t, e->row) ^ state_parity(m, t, e->col)) != o->odd)
            return kl_fail(err, KL_EINPUT, "model %s, %s: op[%d] %s has parity %d but not at (%d, %d)",
                           m->name, t->name, a, name, o->odd, e->row, e->col);
    }
    return KL_OK;
}

/* transpose(op) == adjoint_factor * op[adjoint], and the adjoint's adjoint is the operator. */
static kl_status check_adjoint(const kl_model *m, const kl_site_type *t, int a, kl_err *err)
{
    const kl_site_op *o = &t->op[a], *d = &t->op[o->adjoint];
    const double twice = o->rank % 2 != 0 ? -1.0 : 1.0; /* A~~ = (-1)^2k A */
    int ok = d->adjoint == a && is_close(o->adjoint_factor * d->adjoint_factor, twice) &&
             d->nelem == o->nelem && d->rank == o->rank;
    for (int k = 0; ok && k < o->nelem; k++) {
        const kl_elem *const e = &o->elem[k], *const x = find_elem(d, e->col, e->row);
        const double f = t->spin != NULL ? kl_tilde(t->spin[e->col], t->spin[e->row], o->rank) : 1.0;
        ok = x != NULL && is_close(o->adjoint_factor * x->value, f * e->value);
    }
    if (!ok)
        return kl_fail(err, KL_EINPUT, "model %s, %s: op[%d] %s: its adjoint is not %g * op[%d] %s", m->name,
                       t->name, a, o->name, o->adjoint_factor, o->adjoint, d->name);
    return KL_OK;
}

/* first[c] .. first[c+1]: elements of column c. */
static kl_status check_products(const kl_model *m, const kl_site_type *t, kl_err *err)
{
    kl_status st = KL_OK;
    int *first = NULL;
    double *column = NULL;
    KL_TRY(kl_alloc(&first, (int64_t)t->nop * (t->dim + 1), KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&column, t->dim, KL_MEM_MISC, err));
    for (int a = 0; a < t->nop; a++) {
        int *f = first + (int64_t)a * (t->dim + 1);
        for (int k = 0; k < t->op[a].nelem; k++) f[t->op[a].elem[k].col + 1]++;
        for (int c = 0; c < t->dim; c++) f[c + 1] += f[c];
    }
    for (int a = 0; a < t->nop; a++)
        for (int b = 0; b < t->nop; b++) {
            const kl_site_product *ab = &t->product[(int64_t)a * t->nop + b];
            int ok = ab->op >= KL_OP_NONE && ab->op < t->nop &&
                     (ab->op < 0 || (isfinite(ab->factor) && ab->factor != 0.0));
            if (ok && (a == KL_OP_IDENTITY || b == KL_OP_IDENTITY)) ok = ab->op == a + b && ab->factor == 1.0;
            if (ab->op == KL_OP_NONE && ok) continue;
            const int *fa = first + (int64_t)a * (t->dim + 1), *fb = first + (int64_t)b * (t->dim + 1);
            for (int c = 0; ok && c < t->dim; c++) {
                memset(column, 0, (size_t)t->dim * sizeof *column);
                for (int kb = fb[c]; kb < fb[c + 1]; kb++)
                    for (int ka = fa[t->op[b].elem[kb].row]; ka < fa[t->op[b].elem[kb].row + 1]; ka++)
                        column[t->op[a].elem[ka].row] += t->op[a].elem[ka].value * t->op[b].elem[kb].value;
                const kl_site_op *o = ab->op >= 0 ? &t->op[ab->op] : NULL;
                const int *fo = o != NULL ? first + (int64_t)ab->op * (t->dim + 1) : NULL;
                for (int k = o != NULL ? fo[c] : 0; o != NULL && k < fo[c + 1]; k++) {
                    const double want = ab->factor * o->elem[k].value;
                    ok = ok && is_close(column[o->elem[k].row], want);
                    column[o->elem[k].row] = 0.0;
                }
                for (int r = 0; ok && r < t->dim; r++) ok = fabs(column[r]) <= TABLE_TOL;
            }
            if (ok) continue;
            st = kl_fail(err, KL_EINPUT, "model %s, %s: product[%d][%d] of %s and %s is not %g * op[%d]",
                         m->name, t->name, a, b, t->op[a].name, t->op[b].name, ab->factor, ab->op);
            goto out;
        }
out:
    kl_free(&first);
    kl_free(&column);
    return st;
}

/* Steps run from -spin to spin by twos, and the identity is between the steps of one multiplet. */
static kl_status check_steps(const kl_model *m, const kl_site_type *t, kl_err *err)
{
    const int q = kl_model_spin(m);
    const kl_site_op *const one = &t->op[KL_OP_IDENTITY];
    int ok = one->rank == 0, elements = 0;
    for (int s = 0; ok && s < t->dim; s++) {
        const int spin = t->spin[s], d = t->state_charge[s][q], o = t->other[s];
        elements += spin + 1;
        ok = spin >= 0 && spin < t->dim && d >= -spin && d <= spin && (spin - d) % 2 == 0;
        ok = ok && o == s - d && o >= 0 && o < t->dim && t->spin[o] == spin && t->state_charge[o][q] == -d;
    }
    for (int k = 0; ok && k < one->nelem; k++) {
        const kl_elem *const e = &one->elem[k];
        ok = e->value == 1.0 && t->spin[e->row] == t->spin[e->col] &&
             e->row - e->col == (t->state_charge[e->row][q] - t->state_charge[e->col][q]) / 2;
    }
    for (int a = 0; ok && a < t->dim; a++)
        for (int b = 0; ok && b <= a; b++) {
            double dot = 0;
            for (int i = 0; i < t->dim; i++) dot += t->vector[a * t->dim + i] * t->vector[b * t->dim + i];
            ok = fabs(dot - (a == b)) <= TABLE_TOL;
        }
    if (ok && one->nelem == elements) return KL_OK;
    return kl_fail(err, KL_EINPUT, "model %s, %s: its steps of the total spin are not whole multiplets",
                   m->name, t->name);
}

static kl_status check_type(const kl_model *m, const kl_site_type *t, kl_err *err)
{
    kl_status st = KL_OK;
    const char *name = t->name ? t->name : "(unnamed site type)";
    if (t->name == NULL || t->dim < 1 || t->dim > MAX_DIM || t->nop < 1 || t->nop > MAX_OP ||
        t->state_name == NULL || t->op == NULL || (t->product == NULL) != (kl_model_spin(m) >= 0) ||
        (t->spin == NULL || t->other == NULL || t->vector == NULL) != (kl_model_spin(m) < 0) ||
        (m->ncharge > 0 && t->state_charge == NULL))
        return kl_fail(
            err, KL_EINPUT,
            "model %s, %s: %d states and %d operators (allowed up to %d and %d), or a missing table", m->name,
            name, t->dim, t->nop, MAX_DIM, MAX_OP);
    for (int s = 0; s < t->dim; s++) {
        if (t->state_name[s] == NULL)
            return kl_fail(err, KL_EINPUT, "model %s, %s: state %d has no name", m->name, name, s);
        for (int q = 0; q < m->ncharge; q++) {
            const int v = t->state_charge[s][q], n = m->charge[q].modulus;
            if (n > 0 && (v < 0 || v >= n))
                return kl_fail(err, KL_EINPUT, "model %s, %s: state %s has %s = %d outside 0 to %d", m->name,
                               name, t->state_name[s], m->charge[q].name, v, n - 1);
        }
    }
    for (int a = 0; a < t->nop; a++) KL_TRY(check_op(m, t, a, err));
    if (t->spin != NULL) {
        KL_TRY(check_steps(m, t, err));
        for (int a = 0; a < t->nop; a++) KL_TRY(check_adjoint(m, t, a, err));
        goto out;
    }
    const kl_site_op *one = &t->op[KL_OP_IDENTITY];
    int identity = one->nelem == t->dim;
    for (int k = 0; identity && k < one->nelem; k++)
        identity = one->elem[k].row == k && one->elem[k].col == k && one->elem[k].value == 1.0;
    if (!identity)
        return kl_fail(err, KL_EINPUT, "model %s, %s: op[0] %s is not the identity", m->name, name,
                       one->name);
    for (int a = 0; a < t->nop; a++) KL_TRY(check_adjoint(m, t, a, err));
    KL_TRY(check_products(m, t, err));
out:
    return st;
}

kl_kept kl_kept_join(const kl_model *m, const kl_site_op *o, const kl_kept *rest)
{
    kl_kept k = {.odd = o->odd ^ rest->odd,
                 .adjoint_factor =
                     o->adjoint_factor * rest->adjoint_factor * kl_phase_exchange(o->odd, rest->odd)};
    for (int q = 0; q < m->ncharge; q++)
        k.shift[q] = charge_shift(&m->charge[q], o->shift[q], -rest->shift[q]);
    return k;
}

static int same_facts(const kl_model *m, const kl_kept *a, const kl_kept *b)
{
    int same = a->odd == b->odd && is_close(a->adjoint_factor, b->adjoint_factor);
    for (int q = 0; q < m->ncharge; q++) same &= a->shift[q] == b->shift[q];
    return same;
}

/* The adjoint has the opposite shift and the same parity, and its own adjoint is the operator. What the
   operators are is checked with the terms. */
static kl_status check_kept(const kl_model *m, kl_err *err)
{
    if (m->nkept < 1 || m->kept == NULL)
        return kl_fail(err, KL_EINPUT, "model %s: %d kept operators; at least 1, for none, is needed",
                       m->name, m->nkept);
    for (int i = 0; i < m->nkept; i++) {
        const kl_kept *k = &m->kept[i], none = {.adjoint_factor = 1.0};
        int ok = k->name != NULL && (k->odd == 0 || k->odd == 1) && k->adjoint >= 0 &&
                 k->adjoint < m->nkept && isfinite(k->adjoint_factor) && k->adjoint_factor != 0.0;
        if (ok && i == 0) ok = k->adjoint == 0 && same_facts(m, k, &none);
        if (ok) {
            const kl_kept *d = &m->kept[k->adjoint];
            ok = d->adjoint == i && d->odd == k->odd && k->rank == d->rank &&
                 is_close(k->adjoint_factor * d->adjoint_factor, k->rank % 2 != 0 ? -1.0 : 1.0);
            for (int q = 0; q < m->ncharge; q++)
                ok &= charge_shift(&m->charge[q], k->shift[q], -d->shift[q]) == 0;
        }
        if (!ok)
            return kl_fail(err, KL_EINPUT,
                           "model %s: kept[%d] %s has parity %d, adjoint %d with factor %g, or shifts that "
                           "are not opposite",
                           m->name, i, k->name ? k->name : "(unnamed)", k->odd, k->adjoint,
                           k->adjoint_factor);
    }
    return KL_OK;
}

/* Sign of the product of the factors in `left` and `right`, in the term's order, when those of `left` are
   moved to the front. */
static int order_sign(const kl_term_def *d, const int *odd, int left, int right)
{
    int key[KL_MAX_FACTOR], o[KL_MAX_FACTOR], n = 0;
    for (int f = 0; f < d->nfactor; f++) {
        if (!((left | right) >> f & 1)) continue;
        key[n] = right >> f & 1;
        o[n++] = odd[f];
    }
    return kl_phase_sort(n, key, o, NULL);
}

/* Each row against what its factors are, on every site type; factors that share a site do so on one type only
   as far as a table can say. */
static const char *check_split(const kl_model *m, const kl_term_def *d)
{
    const int all = (1 << d->nfactor) - 1;
    int odd[KL_MAX_FACTOR] = {0}, shared[KL_MAX_FACTOR] = {0};
    for (int mask = 0; mask <= all; mask++)
        if (d->split[mask].kept < 0 || d->split[mask].kept >= m->nkept)
            return "a symbolic record of an operator that no block keeps";
    for (int f = 0; f < d->nfactor; f++)
        for (int g = 0; g < d->nfactor; g++) shared[f] |= g != f && d->factor[g].slot == d->factor[f].slot;
    if (d->split[0].kept != 0) return "symbolic records that do not begin with no factor";
    for (int f = 0; f < d->nfactor; f++)
        for (int t = 0, seen = 0; t < m->ntype; t++) {
            if (d->factor[f].op[t] < 0 || (seen && shared[f])) continue;
            const kl_site_op *o = &m->type[t].op[d->factor[f].op[t]];
            if (seen && odd[f] != o->odd) return "a factor that is fermionic on one site type only";
            odd[f] = o->odd;
            seen = 1;
            for (int mask = 1 << f; mask <= all; mask += 2 << f) { /* those in which f comes first */
                const kl_kept want = kl_kept_join(m, o, &m->kept[d->split[mask ^ (1 << f)].kept]);
                if (!same_facts(m, &m->kept[d->split[mask].kept], &want))
                    return "a symbolic record whose operator has another shift, parity or adjoint";
            }
        }
    for (int mask = 0; mask <= all; mask++) {
        const kl_split *s = &d->split[mask];
        if (s->sign != order_sign(d, odd, mask, all ^ mask))
            return "a symbolic record of a superblock with a wrong sign";
        unsigned left_minus = 0, right_minus = 0;
        for (int f = 0; f < d->nfactor; f++) {
            if (mask >> f & 1) continue;
            if (order_sign(d, odd, mask, 1 << f) < 0) left_minus |= 1u << f;
            if (order_sign(d, odd, 1 << f, mask) < 0) right_minus |= 1u << f;
        }
        if (s->left_minus != left_minus) return "a symbolic record of a growing left block with a wrong sign";
        if (s->right_minus != right_minus)
            return "a symbolic record of a growing right block with a wrong sign";
    }
    return NULL;
}

/* The factors of a term couple one by one to a scalar, on the site types that it is of. */
static const char *check_ranks(const kl_model *m, const kl_term_def *d)
{
    for (int f = 0, rank = 0; f < d->nfactor; f++) {
        int some = 0;
        for (int t = 0; t < m->ntype; t++) {
            const int op = d->factor[f].op[t];
            some |= op >= 0;
            if (op >= 0 && !kl_triangle(rank, m->type[t].op[op].rank, d->rank[f]))
                return "factors of the total spin that do not couple";
        }
        if (!some) return "a factor that no site type has";
        for (int g = 0; g < f; g++)
            if (d->factor[g].slot >= d->factor[f].slot)
                return "factors that are not in the order of their sites";
        rank = d->rank[f];
    }
    return d->rank[d->nfactor - 1] == 0 ? NULL : "factors that do not couple to a scalar";
}

static kl_status check_term(const kl_model *m, int k, kl_err *err)
{
    const kl_term_def *d = &m->term[k];
    const char *bad = NULL;
    if (d->text == NULL || d->factor == NULL || (d->split == NULL) != (kl_model_spin(m) >= 0) ||
        (d->rank == NULL) != (kl_model_spin(m) < 0))
        bad = "a missing text, factor table or symbolic records";
    else if (d->nslot < 1 || d->nslot > KL_MAX_FACTOR || d->nfactor < 1 || d->nfactor > KL_MAX_FACTOR)
        bad = "too many or too few slots or factors";
    else if (d->place < KL_PLACE_SITE || d->place > KL_PLACE_LOOP) bad = "an unknown placement";
    else if (d->place == KL_PLACE_SITE && d->nslot != 1) bad = "a site placement without exactly one slot";
    else if ((d->place == KL_PLACE_BOND || d->place == KL_PLACE_PAIR) && d->nslot != 2)
        bad = "a bond or pair placement without exactly two slots";
    else if (d->place == KL_PLACE_LOOP && d->nslot < 3) bad = "a loop of fewer than three sites";
    else if ((d->place == KL_PLACE_BOND || d->place == KL_PLACE_LOOP) && d->where == NULL)
        bad = "a placement on bonds without a class";
    else if (d->place == KL_PLACE_NAMED && d->sites == NULL) bad = "a placement on named sites without names";
    else if (d->place == KL_PLACE_PAIR && !isfinite(d->distance)) bad = "a distance that is not finite";
    for (int s = 0; bad == NULL && d->place == KL_PLACE_NAMED && s < d->nslot; s++)
        if (d->sites[s] == NULL) bad = "a named site without a name";
    for (int f = 0; bad == NULL && f < d->nfactor; f++) {
        if (d->factor[f].slot < 0 || d->factor[f].slot >= d->nslot || d->factor[f].op == NULL)
            bad = "a factor outside its slots";
        for (int t = 0; bad == NULL && t < m->ntype; t++) {
            const int op = d->factor[f].op[t];
            if (op != KL_OP_NONE && (op < 0 || op >= m->type[t].nop))
                bad = "a factor that is no operator of its site type";
        }
    }
    if (bad == NULL) bad = kl_coef_fault(&d->coef, m->param, m->nparam, d->nslot, d->place == KL_PLACE_BOND);
    if (bad == NULL) bad = d->rank != NULL ? check_ranks(m, d) : check_split(m, d);
    if (bad == NULL) return KL_OK;
    return kl_fail(err, KL_EINPUT, "model %s: term[%d] (%s:%d) has %s", m->name, k, m->source, d->line, bad);
}

kl_status kl_model_check(const kl_model *m, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(check_header(m, err));
    for (int t = 0; t < m->ntype; t++) {
        KL_TRY(check_type(m, &m->type[t], err));
        for (int u = 0; u < t; u++) {
            const char *a = m->type[t].where, *b = m->type[u].where;
            if ((a == NULL && b == NULL) || (a != NULL && b != NULL && strcmp(a, b) == 0))
                return kl_fail(err, KL_EINPUT, "model %s: type[%d] and type[%d] both claim %s", m->name, u, t,
                               a ? a : "all sites");
        }
    }
    KL_TRY(check_kept(m, err));
    for (int k = 0; k < m->nterm; k++) KL_TRY(check_term(m, k, err));
out:
    return st;
}
