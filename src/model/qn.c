/* Tuples of conserved charges.
   SPDX-License-Identifier: Apache-2.0 */
#include "model/qn.h"
#include <stdio.h>
#include <string.h>

static int reduce(const kl_charge *c, int v)
{
    if (c->modulus == 0) return v;
    v %= c->modulus;
    return v < 0 ? v + c->modulus : v;
}

kl_qn kl_qn_zero(void) { return (kl_qn){{0}}; }

kl_qn kl_qn_of(const kl_model *m, const int charge[KL_MAX_CHARGE])
{
    kl_qn a = {{0}};
    for (int c = 0; c < m->ncharge; c++) a.v[c] = (int16_t)reduce(&m->charge[c], charge[c]);
    return a;
}

kl_qn kl_qn_add(const kl_model *m, kl_qn a, kl_qn b)
{
    for (int c = 0; c < m->ncharge; c++) a.v[c] = (int16_t)reduce(&m->charge[c], a.v[c] + b.v[c]);
    return a;
}

kl_qn kl_qn_sub(const kl_model *m, kl_qn a, kl_qn b)
{
    for (int c = 0; c < m->ncharge; c++)
        a.v[c] = m->charge[c].spin ? b.v[c] : (int16_t)reduce(&m->charge[c], a.v[c] - b.v[c]);
    return a;
}

int kl_qn_step(const kl_model *m, kl_qn q, const kl_site_type *site, int s, int sign, kl_qn *to)
{
    const kl_qn d = kl_qn_of(m, site->state_charge[s]);
    const int spin = kl_model_spin(m);
    *to = sign > 0 ? kl_qn_add(m, q, d) : kl_qn_sub(m, q, d);
    if (spin < 0) return 1;
    to->v[spin] = (int16_t)(q.v[spin] + sign * d.v[spin]);
    return to->v[spin] >= 0 && q.v[spin] + to->v[spin] >= site->spin[s];
}

kl_qn kl_qn_edge(const kl_model *m, kl_qn target)
{
    kl_qn edge = kl_qn_zero();
    const int spin = kl_model_spin(m);
    if (spin >= 0) edge.v[spin] = target.v[spin];
    return edge;
}

int kl_qn_odd(const kl_model *m, kl_qn a)
{
    int p = 0;
    for (int c = 0; c < m->ncharge; c++) p += m->charge[c].odd * a.v[c];
    return p & 1;
}

char *kl_charge_print(const kl_charge *c, int value, char *buf, size_t size)
{
    const int num = value * c->unit_num, den = c->unit_den;
    if (den > 0 && num % den == 0) snprintf(buf, size, "%d", num / den);
    else snprintf(buf, size, "%d/%d", num, den);
    return buf;
}

int kl_charge_irrep_bit(const char *name)
{
    static const char begin[] = "irrep_bit";
    const size_t n = sizeof begin - 1;
    return strncmp(name, begin, n) == 0 && name[n] >= '1' && name[n] <= '3' && name[n + 1] == '\0'
               ? name[n] - '1'
               : -1;
}

char *kl_qn_print(const kl_model *m, kl_qn a, char *buf, size_t size)
{
    size_t at = 0;
    if (size) buf[0] = '\0';
    for (int c = 0; c < m->ncharge && at < size; c++) {
        char value[32];
        int irrep = 1, bit;
        const char *const gap = c > 0 ? " " : "";
        if (kl_charge_irrep_bit(m->charge[c].name) == 0) {
            for (; c < m->ncharge && (bit = kl_charge_irrep_bit(m->charge[c].name)) >= 0; c++)
                irrep += a.v[c] << bit;
            c--;
            const int n = snprintf(buf + at, size - at, "%sirrep=%d", gap, irrep);
            at += n > 0 ? (size_t)n : 0;
            continue;
        }
        const int n = snprintf(buf + at, size - at, "%s%s=%s", gap, m->charge[c].name,
                               kl_charge_print(&m->charge[c], a.v[c], value, sizeof value));
        at += n > 0 ? (size_t)n : 0;
    }
    return buf;
}

/* 1: m has a charge of this name. */
static int has_charge(const kl_model *m, const char *name)
{
    for (int c = 0; c < m->ncharge; c++)
        if (strcmp(m->charge[c].name, name) == 0) return 1;
    return 0;
}

/* What is meant by N or Sz of a model that counts spins up and down. */
static const char *in_its_charges(const kl_model *m, const char *name)
{
    const int known = strcmp(name, "N") == 0 || strcmp(name, "Sz") == 0;
    return known && has_charge(m, "N_up") && has_charge(m, "N_dn")
               ? "; N and Sz are N_up = N/2 + Sz, N_dn = N/2 - Sz"
           : kl_model_spin(m) >= 0 ? " (the total spin S takes the place of Sz)"
                                   : "";
}

kl_status kl_qn_set(const kl_model *m, kl_qn *a, const char *name, const char *text, kl_err *err)
{
    int c = 0;
    while (c < m->ncharge && strcmp(m->charge[c].name, name)) c++;
    if (c == m->ncharge) {
        char list[256] = "";
        for (int i = 0; i < m->ncharge; i++) {
            const size_t at = strlen(list);
            snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", m->charge[i].name);
        }
        return kl_fail(err, KL_EINPUT, "charge '%s' is not one of model %s: it has %s%s", name, m->name,
                       m->ncharge ? list : "none", in_its_charges(m, name));
    }
    const kl_charge *const ch = &m->charge[c];
    double x;
    if (!kl_parse_double(text, &x))
        return kl_fail(err, KL_EINPUT, "charge %s=%s is not a number%s", name, text,
                       strchr(text, '=') != NULL ? "; each charge is given by itself" : "");
    const double stored = x * ch->unit_den / ch->unit_num;
    const double near = (double)(int)(stored + (stored < 0 ? -0.5 : 0.5));
    if (!(stored > -32000 && stored < 32000))
        return kl_fail(err, KL_EINPUT, "charge %s=%s is outside of what can be counted, %s", name, text,
                       ch->unit_den == 2 ? "-16000 to 16000" : "-32000 to 32000");
    if (stored - near > 1e-9 || near - stored > 1e-9)
        return ch->unit_num == 1 && ch->unit_den == 1
                   ? kl_fail(err, KL_EINPUT, "charge %s=%s is no whole number", name, text)
                   : kl_fail(err, KL_EINPUT, "charge %s=%s is no multiple of %d/%d", name, text, ch->unit_num,
                             ch->unit_den);
    if (ch->modulus && (near < 0 || near >= ch->modulus))
        return kl_fail(err, KL_EINPUT, "charge %s=%s is outside 0..%d (it counts modulo %d)", name, text,
                       ch->modulus - 1, ch->modulus);
    a->v[c] = (int16_t)near;
    return KL_OK;
}
