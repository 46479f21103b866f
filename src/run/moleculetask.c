/* From options and integrals to a molecule ready for DMRG: see moleculetask.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/moleculetask.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "run/runfile.h"

/* ---------------------------------------------------------------- what was asked */

/* --charge S=...: *spin is twice its value, -1 where there is none. */
static kl_status read_spin(const kl_options *o, int *spin, kl_err *err)
{
    double value = 0;
    *spin = -1;
    if (o->charge.n == 0) return KL_OK;
    const char *const text = o->charge.text[0];
    if (o->charge.n > 1 || strncmp(text, "S=", 2) != 0)
        return kl_fail(err, KL_EINPUT,
                       "--charge %.60s: of a molecule the total spin alone is asked for, S=0, S=1/2, ...; "
                       "--electrons, --ms2 and --irrep say the rest",
                       o->charge.n > 1 ? o->charge.text[1] : text);
    if (!kl_parse_double(text + 2, &value) || !(value >= 0 && value <= 500) || floor(2 * value) != 2 * value)
        return kl_fail(err, KL_EINPUT, "--charge %.60s: allowed: S=0, S=1/2, S=1, ...", text);
    *spin = (int)(2 * value);
    if (o->ms2 != KL_NO_MS2 && o->ms2 != *spin)
        return kl_fail(err, KL_EINPUT, "--charge %.60s: --ms2 %d is not of M = S; leave it out", text,
                       (int)o->ms2);
    return KL_OK;
}

/* Each electron without a partner adds 1/2 to S or takes it away; where orbitals are few, each hole does. */
static kl_status check_spin(const kl_options *o, const kl_fcidump *f, int spin, kl_err *err)
{
    const int n = o->electrons > 0 ? (int)o->electrons : f->nelec;
    const int most = n < 2 * f->norb - n ? n : 2 * f->norb - n; /* without partners; below 0: told later */
    if (spin < 0 || most < 0 || ((n - spin) % 2 == 0 && spin <= most)) return KL_OK;
    return kl_fail(err, KL_EINPUT,
                   "--charge %.60s: %d electrons in %d orbitals have S from %s to %d%s in steps of 1",
                   o->charge.text[0], n, f->norb, n % 2 != 0 ? "1/2" : "0", n % 2 != 0 ? most : most / 2,
                   n % 2 != 0 ? "/2" : "");
}

static kl_status ask(const kl_options *o, int spin, kl_ci_opts *ci, kl_err *err)
{
    const char *const space = o->space != NULL ? o->space : "full";
    const int named = o->reference.n > 0 && strcmp(o->reference.text[0], "lowest") != 0;
    *ci = (kl_ci_opts){.irrep = -1,
                       .frozen = (int)o->frozen,
                       .nelec = (int)o->electrons,
                       .have_ms2 = o->ms2 != KL_NO_MS2,
                       .ms2 = o->ms2 != KL_NO_MS2 ? (int)o->ms2 : 0,
                       .lowest = !named,
                       .closed = 1,
                       .wide = 1};
    if (o->reference.n > 1)
        return kl_fail(err, KL_EINPUT, "--reference: %d were given; a run starts from one determinant",
                       o->reference.n);
    if (named) {
        ci->nref = 1;
        ci->ref = (const char *const *)o->reference.text;
    }
    if (o->irrep != NULL && strcmp(o->irrep, "all") != 0) ci->irrep = o->irrep[0] - '1';
    if (spin >= 0) {
        ci->have_ms2 = 1;
        ci->ms2 = spin;
    }
    const kl_status st = kl_ci_parse_space(space, ci, err);
    if (st != KL_OK || !ci->full)
        return kl_fail(err, KL_EINPUT,
                       "--space: '%.60s': DMRG is of all determinants of some orbitals; allowed: full, "
                       "cas:ELECTRONS,ORBITALS with ORBITALS from 1 to %d; `kronlat ci' takes others, and "
                       "counts their determinants by --plan",
                       space, KL_FCIDUMP_MAX_ORB);
    return KL_OK;
}

/* ---------------------------------------------------------------- the reference */

static void active_occupation(const kl_moleculetask *t, int spin, unsigned char *occ)
{
    const kl_ciorbitals *const l = &t->orbitals;
    for (int p = 0; p < l->nactive; p++) occ[p] = l->occ[spin * l->f->norb + l->active[p]];
}

static int irrep_of(const kl_fcidump *g, const unsigned char *up, const unsigned char *dn)
{
    int irrep = 0;
    for (int p = 0; p < g->norb; p++)
        if (up[p] != dn[p]) irrep ^= g->irrep[p];
    return irrep;
}

static kl_status find_reference(kl_moleculetask *t, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_ciorbitals *const l = &t->orbitals;
    unsigned char *up = NULL, *dn = NULL;
    KL_TRY(kl_alloc(&up, l->nactive, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&dn, l->nactive, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t->occupation, l->f->norb + 1, KL_MEM_MISC, err));
    active_occupation(t, 0, up);
    active_occupation(t, 1, dn);
    t->reference_energy = kl_fcidump_energy(l->g, up, dn);
    t->nup = l->nalpha - l->ncore;
    t->ndn = l->nbeta - l->ncore;
    for (int p = 0; p < l->f->norb; p++) t->occupation[p] = "0ud2"[l->occ[p] + 2 * l->occ[l->f->norb + p]];
    t->reference_irrep = irrep_of(l->g, up, dn);
    if (t->irrep == -2) t->irrep = t->reference_irrep;
out:
    kl_free(&up);
    kl_free(&dn);
    return st;
}

/* Moves of one electron, then of a pair, that lead to the irrep; of those of the fewest electrons the one of
   lowest energy stays in up and dn. */
typedef struct search {
    const kl_fcidump *g;
    unsigned char *occ[2];
    int irrep;
    double best;
    int spin[2], from[2], to[2], nmove;
} search;

static void try_moves(search *s, int most, int depth, int *spin, int *from, int *to)
{
    if (depth == most) {
        if (irrep_of(s->g, s->occ[0], s->occ[1]) != s->irrep) return;
        const double e = kl_fcidump_energy(s->g, s->occ[0], s->occ[1]);
        if (!(e < s->best)) return;
        s->best = e;
        s->nmove = most;
        memcpy(s->spin, spin, sizeof s->spin);
        memcpy(s->from, from, sizeof s->from);
        memcpy(s->to, to, sizeof s->to);
        return;
    }
    for (int sp = 0; sp < 2; sp++)
        for (int i = 0; i < s->g->norb; i++)
            for (int a = 0; a < s->g->norb; a++) {
                unsigned char *const occ = s->occ[sp];
                if (!occ[i] || occ[a] || (depth == 1 && (sp < spin[0] || (sp == spin[0] && i <= from[0]))))
                    continue;
                occ[i] = 0;
                occ[a] = 1;
                spin[depth] = sp;
                from[depth] = i;
                to[depth] = a;
                try_moves(s, most, depth + 1, spin, from, to);
                occ[i] = 1;
                occ[a] = 0;
            }
}

/* 0: there is none. */
static int near_reference(const kl_moleculetask *t, int irrep, int *start)
{
    enum { SMALL = 12 }; /* pairs of moves are as many as the fourth power of the orbitals */
    const kl_fcidump *const g = t->orbitals.g;
    kl_err ignored;
    search s = {.g = g, .irrep = irrep, .best = INFINITY};
    int spin[2] = {0, 0}, from[2] = {0, 0}, to[2] = {0, 0}, found = 0;
    for (int k = 0; k < 2; k++)
        if (kl_alloc(&s.occ[k], g->norb, KL_MEM_WORK, &ignored) != KL_OK) goto out;
    for (int k = 0; k < 2; k++) active_occupation(t, k, s.occ[k]);
    found = irrep_of(g, s.occ[0], s.occ[1]) == irrep;
    for (int most = 1; !found && most <= (g->norb <= SMALL ? 2 : 1); most++) {
        try_moves(&s, most, 0, spin, from, to);
        found = s.best < INFINITY;
    }
    for (int k = 0; k < s.nmove; k++) {
        s.occ[s.spin[k]][s.from[k]] = 0;
        s.occ[s.spin[k]][s.to[k]] = 1;
    }
    if (found) kl_molecule_start(t->m, s.occ[0], s.occ[1], start);
out:
    kl_free(&s.occ[0]);
    kl_free(&s.occ[1]);
    return found;
}

static uint64_t bits_of(int n, const unsigned char *occ)
{
    uint64_t x = 0;
    for (int p = 0; p < n; p++) x |= (uint64_t)occ[p] << p;
    return x;
}

static void set_occupation(int n, uint64_t x, unsigned char *occ)
{
    for (int p = 0; p < n; p++) occ[p] = x >> p & 1;
}

/* None of more than KL_DET_MAX_ORB orbitals. */
static kl_status ask_leaders(const kl_moleculetask *t, int irrep, int nstate, kl_leaders *out, kl_err *err)
{
    kl_status st = KL_OK;
    const int norb = t->orbitals.g->norb;
    unsigned char *occ[2] = {NULL, NULL};
    *out = (kl_leaders){.n = 0};
    if (norb > KL_DET_MAX_ORB) return KL_OK;
    for (int k = 0; k < 2; k++) {
        KL_TRY(kl_alloc(&occ[k], norb, KL_MEM_WORK, err));
        active_occupation(t, k, occ[k]);
    }
    const kl_leaders_ask ask = {.first = {bits_of(norb, occ[0]), bits_of(norb, occ[1])},
                                .irrep = irrep,
                                .nstate = nstate,
                                .most = KL_MOLECULE_STARTS};
    KL_TRY(kl_leaders_find(t->orbitals.g, &ask, out, err));
out:
    kl_free(&occ[0]);
    kl_free(&occ[1]);
    return st;
}

/* Of the lowest states of the irrep, of several that of the reference, for the order of the orbitals. */
static kl_status find_leaders(kl_moleculetask *t, int nstate, kl_err *err)
{
    t->lead_irrep = t->irrep >= 0 ? t->irrep : t->reference_irrep;
    t->lead_nstate = nstate;
    return ask_leaders(t, t->lead_irrep, nstate, &t->lead, err);
}

kl_status kl_moleculetask_start(const kl_moleculetask *t, int irrep, int nstate, int *start, int *n,
                                kl_err *err)
{
    kl_status st = KL_OK;
    const int norb = t->m->norb;
    kl_leaders own = {.n = 0};
    unsigned char *occ[2] = {NULL, NULL};
    const int known = t->lead.n > 0 && t->lead_irrep == irrep && t->lead_nstate == nstate;
    const kl_leaders *const lead = known ? &t->lead : &own;
    *n = 0;
    for (int k = 0; k < 2; k++) KL_TRY(kl_alloc(&occ[k], norb, KL_MEM_WORK, err));
    if (!t->named && !known) KL_TRY(ask_leaders(t, irrep, nstate, &own, err));
    for (int k = 0; k < lead->n && !t->named; k++) {
        int *const path = start + (int64_t)*n * norb;
        int met = 0; /* of multiplets: determinants of one path */
        for (int spin = 0; spin < 2; spin++) set_occupation(norb, lead->det[k][spin], occ[spin]);
        kl_molecule_start(t->m, occ[0], occ[1], path);
        for (int i = 0; i < *n && !met; i++)
            met = memcmp(start + (int64_t)i * norb, path, sizeof *path * (size_t)norb) == 0;
        *n += !met;
    }
    if (*n == 0) *n = near_reference(t, irrep, start);
out:
    kl_leaders_clear(&own);
    kl_free(&occ[0]);
    kl_free(&occ[1]);
    return st;
}

kl_status kl_moleculetask_other(kl_moleculetask *t, kl_terms **out, kl_err *err)
{
    const kl_status st = kl_molecule_create_sites(t->orbitals.g, t->m->order, t->spin < 0, &t->other, err);
    if (st != KL_OK) return st;
    *out = t->other->terms;
    t->other->terms = NULL;
    return KL_OK;
}

/* ---------------------------------------------------------------- all of it */

kl_status kl_moleculetask_create(const kl_options *o, const kl_fcidump *given, kl_moleculetask **out,
                                 kl_err *err)
{
    kl_status st = KL_OK;
    kl_moleculetask *t = NULL;
    kl_ci_opts ci;
    int *order = NULL;
    *out = NULL;
    int spin;
    KL_TRY(read_spin(o, &spin, err));
    KL_TRY(ask(o, spin, &ci, err));
    KL_TRY(kl_alloc(&t, 1, KL_MEM_MISC, err));
    t->spin = spin;
    t->named = ci.nref > 0;
    if (given == NULL) KL_TRY(kl_runfile_integrals(o->file, &t->own, err));
    t->f = given != NULL ? given : t->own;
    KL_TRY(check_spin(o, t->f, spin, err));
    KL_TRY(kl_ciorbitals_make(t->f, &ci, &t->orbitals, err));
    const kl_fcidump *const g = t->orbitals.g;
    if (g->norb < 2)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "%.200s: DMRG needs 2 orbitals or more; there is %d that is not frozen",
                       o->file != NULL ? o->file : "the molecule", g->norb));
    KL_TRY(kl_alloc(&t->number, g->norb, KL_MEM_MISC, err));
    for (int p = 0; p < g->norb; p++) t->number[p] = t->orbitals.active[p] + 1;
    KL_TRY(kl_alloc(&order, g->norb, KL_MEM_WORK, err));
    t->irrep = o->irrep == NULL ? -2 : ci.irrep;
    KL_TRY(find_reference(t, err));
    const char *const how = o->order != NULL ? o->order : KL_MOLECULE_ORDER;
    if (strcmp(how, "mutual") == 0) KL_TRY(find_leaders(t, o->states > 1 ? (int)o->states : 1, err));
    KL_TRY(kl_option_says("order", kl_orbitals_order(g, t->number, how, t->lead.mutual, order, err), err));
    KL_TRY(kl_molecule_create(g, order, o->threshold, spin >= 0, &t->m, err));
    *out = t;
    t = NULL;
out:
    kl_free(&order);
    kl_moleculetask_destroy(&t);
    return st;
}

void kl_moleculetask_destroy(kl_moleculetask **task)
{
    kl_moleculetask *const t = *task;
    if (t == NULL) return;
    kl_molecule_destroy(&t->m);
    kl_molecule_destroy(&t->other);
    kl_ciorbitals_clear(&t->orbitals);
    kl_fcidump_destroy(&t->own);
    kl_free(&t->number);
    kl_free(&t->occupation);
    kl_leaders_clear(&t->lead);
    kl_free(task);
}

kl_status kl_moleculetask_sites(const kl_moleculetask *t, const char *name, kl_lattice **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_lattice *lat = NULL;
    const char *const slash = strrchr(name, '/');
    KL_TRY(kl_lattice_create_empty(slash != NULL ? slash + 1 : name, t->m->norb, &lat, err));
    for (int p = 0; p < t->m->norb; p++) {
        char text[16];
        snprintf(text, sizeof text, "%d", t->number[p]);
        kl_free(&lat->site_name[p]);
        lat->site_name[p] = kl_strdup(text);
        if (lat->site_name[p] == NULL) KL_TRY(kl_fail(err, KL_ENOMEM, "no memory for orbital %s", text));
    }
    KL_TRY(kl_lattice_finish(lat, err));
    for (int p = 0; p < t->m->norb; p++) {
        lat->order[p] = t->m->order[p];
        lat->position[t->m->order[p]] = p;
    }
    *out = lat;
    lat = NULL;
out:
    kl_lattice_destroy(&lat);
    return st;
}

kl_status kl_moleculetask_tell(const kl_moleculetask *t, kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t norb = t->m->norb;
    char note[KL_FCIDUMP_MAX_ORB + 300];
    double *number = NULL;
    KL_TRY(kl_alloc(&number, norb, KL_MEM_WORK, err));
    for (int64_t p = 0; p < norb; p++) number[p] = t->number[t->m->order[p]];
    KL_TRY(kl_result_add(r, "molecule/order", "orbital of the file, from 1, at each position", 1, &norb,
                         number, err));
    for (int64_t p = 0; p < norb; p++) number[p] = t->m->irrep[t->m->order[p]] + 1;
    KL_TRY(
        kl_result_add(r, "molecule/irreps", "irrep of the orbital at each position", 1, &norb, number, err));
    snprintf(note, sizeof note, "hartree, energy of the reference determinant %s", t->occupation);
    KL_TRY(kl_result_add(r, "molecule/reference", note, 0, NULL, &t->reference_energy, err));
    if (t->m->ndropped > 0) {
        snprintf(note, sizeof note,
                 "hartree: no energy is changed by more by the %lld terms of H that --threshold left out",
                 (long long)t->m->ndropped);
        KL_TRY(kl_result_add(r, "molecule/left_out", note, 0, NULL, &t->m->dropped, err));
    }
    if (t->f->note[0] != '\0') {
        const double none = 0;
        snprintf(note, sizeof note, "note: %s", t->f->note);
        KL_TRY(kl_result_add(r, "molecule/labels", note, 0, NULL, &none, err));
    }
out:
    kl_free(&number);
    return st;
}
