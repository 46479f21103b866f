/* Electrons, references (given, or the determinant of lowest energy by descent), and
   the orbitals of a run.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/ciorbitals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ci/slater.h"

/* ---------------------------------------------------------------- spaces by name */

kl_status kl_ci_parse_space(const char *text, kl_ci_opts *o, kl_err *err)
{
    static const struct {
        const char *name;
        uint64_t levels;
    } known[] = {{"cis", 3}, {"cid", 5}, {"cisd", 7}, {"cisdt", 15}, {"cisdtq", 31}};
    o->full = 0;
    o->levels = 0;
    o->cas_nelec = o->cas_norb = 0;
    for (size_t k = 0; k < sizeof(known) / sizeof(*known); k++)
        if (strcmp(text, known[k].name) == 0) {
            o->levels = known[k].levels;
            return KL_OK;
        }
    int64_t a = 0, b = 0;
    char word[64];
    snprintf(word, sizeof(word), "%s", text);
    if (strcmp(text, "full") == 0 || strcmp(text, "fci") == 0) {
        o->full = 1;
        return KL_OK;
    }
    if (strncmp(text, "level:", 6) == 0 && kl_parse_int(text + 6, &a)) {
        if (a < 0 || a > 62)
            return kl_fail(err, KL_EINPUT, "'%s': the level is %lld; allowed: 0 to 62", text, (long long)a);
        o->levels = (UINT64_C(2) << a) - 1;
        return KL_OK;
    }
    char *comma = strchr(word, ',');
    if (strncmp(text, "cas:", 4) == 0 && comma != NULL && strlen(text) < sizeof(word)) {
        *comma = '\0';
        if (kl_parse_int(word + 4, &a) && kl_parse_int(comma + 1, &b)) {
            const int most = o->wide ? KL_FCIDUMP_MAX_ORB : KL_DET_MAX_ORB;
            if (b < 1 || b > most)
                return kl_fail(err, KL_EINPUT, "'%s': %lld active orbitals; allowed: 1 to %d", text,
                               (long long)b, most);
            if (a < 0 || a > 2 * b)
                return kl_fail(err, KL_EINPUT, "'%s': %lld electrons in %lld orbitals; allowed: 0 to %lld",
                               text, (long long)a, (long long)b, (long long)(2 * b));
            o->full = 1;
            o->cas_nelec = (int)a;
            o->cas_norb = (int)b;
            return KL_OK;
        }
    }
    return kl_fail(err, KL_EINPUT,
                   "'%s' is no space; allowed: cis cid cisd cisdt cisdtq level:N full cas:ELECTRONS,ORBITALS",
                   text);
}

/* ---------------------------------------------------------------- orbitals */

static unsigned char *occ_of(const kl_ciorbitals *l, int ref, int spin)
{
    return l->occ + ((int64_t)ref * 2 + spin) * l->f->norb;
}

static double eri(const kl_fcidump *f, int kind, int p, int q, int r, int s)
{
    return f->eri[kind][kl_pair(p, q) * f->npair + kl_pair(r, s)];
}

/* Energy of an electron of this spin in orbital p, in the field of a determinant. */
static double level(const kl_ciorbitals *l, int ref, int spin, int p)
{
    const kl_fcidump *const f = l->f;
    const unsigned char *const same = occ_of(l, ref, spin), *const other = occ_of(l, ref, 1 - spin);
    double e = f->h[spin][p * f->norb + p];
    for (int k = 0; k < f->norb; k++) {
        if (same[k]) e += eri(f, spin, p, p, k, k) - eri(f, spin, p, k, k, p);
        if (other[k]) e += spin == 0 ? eri(f, 2, p, p, k, k) : eri(f, 2, k, k, p, p);
    }
    return e;
}

/* How large energies are in the units of the file: what an electron has in an orbital by itself, and what a
   pair has, on average. */
static double unit_of_energy(const kl_fcidump *f)
{
    double sum = 0;
    for (int spin = 0; spin < 2; spin++)
        for (int p = 0; p < f->norb; p++)
            sum += fabs(f->h[spin][p * f->norb + p]) + fabs(eri(f, spin, p, p, p, p));
    return sum / (2 * f->norb);
}

/* The orbitals in their order, as the file means them; for the lowest determinant moves of one electron,
   or of a pair, as long as one lowers the energy by more than roundings do. */
static kl_status find_reference(kl_ciorbitals *l, int lowest, int closed, kl_err *err)
{
    enum { MOST_MOVES = 1000 };
    kl_status st = KL_OK;
    const kl_fcidump *const f = l->f;
    const int n = f->norb;
    const int pairs = closed && l->nalpha == l->nbeta;
    const double unit = unit_of_energy(f);
    double *e[2] = {NULL, NULL};
    for (int spin = 0; spin < 2; spin++) {
        KL_TRY(kl_alloc(&e[spin], n, KL_MEM_WORK, err));
        memset(occ_of(l, 0, spin), 0, (size_t)n);
        memset(occ_of(l, 0, spin), 1, (size_t)(spin == 0 ? l->nalpha : l->nbeta));
    }
    for (int move = 0; move < (lowest ? MOST_MOVES : 0); move++) {
        double best = -1e-8 * unit;
        int best_spin = 0, from = -1, to = -1; /* spin 2: both */
        for (int spin = 0; spin < 2; spin++)
            for (int p = 0; p < n; p++) e[spin][p] = level(l, 0, spin, p);
        for (int i = 0; i < n; i++)
            for (int a = 0; a < n; a++) {
                double change[2] = {0, 0};
                int can[2];
                for (int spin = 0; spin < 2; spin++) {
                    can[spin] = occ_of(l, 0, spin)[i] && !occ_of(l, 0, spin)[a];
                    if (!can[spin]) continue;
                    change[spin] =
                        e[spin][a] - e[spin][i] - (eri(f, spin, a, a, i, i) - eri(f, spin, a, i, i, a));
                    if (change[spin] < best && !pairs) {
                        best = change[spin];
                        best_spin = spin;
                        from = i;
                        to = a;
                    }
                }
                if (!can[0] || !can[1]) continue;
                const double both = change[0] + change[1] + eri(f, 2, a, a, a, a) - eri(f, 2, a, a, i, i) -
                                    eri(f, 2, i, i, a, a) + eri(f, 2, i, i, i, i);
                if (both < best) {
                    best = both;
                    best_spin = 2;
                    from = i;
                    to = a;
                }
            }
        if (from < 0) break;
        for (int spin = 0; spin < 2; spin++)
            if (best_spin == spin || best_spin == 2) {
                occ_of(l, 0, spin)[from] = 0;
                occ_of(l, 0, spin)[to] = 1;
            }
    }
out:
    kl_free(&e[0]);
    kl_free(&e[1]);
    return st;
}

static kl_status read_reference(kl_ciorbitals *l, int r, const char *text, kl_err *err)
{
    const int n = l->f->norb;
    int count[2] = {0, 0};
    if ((int)strlen(text) != n)
        return kl_fail(err, KL_EINPUT,
                       "--reference '%.80s' names %d orbitals; the file has %d (2, u, d or 0 for each)", text,
                       (int)strlen(text), n);
    for (int p = 0; p < n; p++) {
        const char c = text[p];
        if (strchr("2ud0", c) == NULL)
            return kl_fail(err, KL_EINPUT, "--reference '%.80s': '%c' is not one of 2 u d 0", text, c);
        occ_of(l, r, 0)[p] = c == '2' || c == 'u';
        occ_of(l, r, 1)[p] = c == '2' || c == 'd';
        count[0] += c == '2' || c == 'u';
        count[1] += c == '2' || c == 'd';
    }
    if (count[0] != l->nalpha || count[1] != l->nbeta)
        return kl_fail(err, KL_EINPUT,
                       "--reference '%.80s' has %d alpha and %d beta electrons; the run is for %d and %d",
                       text, count[0], count[1], l->nalpha, l->nbeta);
    return KL_OK;
}

typedef struct rank {
    int orbital, kind; /* kind 0: doubly occupied in all references, 2: empty in all, 1: else */
    double e;
} rank;

static int by_rank(const void *x, const void *y)
{
    const rank *const a = x, *const b = y;
    if (a->kind != b->kind) return a->kind - b->kind;
    if (a->e != b->e) return a->e < b->e ? -1 : 1;
    return a->orbital - b->orbital;
}

static int by_int(const void *x, const void *y) { return *(const int *)x - *(const int *)y; }

static kl_status choose_orbitals(kl_ciorbitals *l, const kl_ci_opts *o, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = l->f->norb;
    rank *list = NULL;
    KL_TRY(kl_alloc(&list, n, KL_MEM_WORK, err));
    for (int p = 0; p < n; p++) {
        int lowest = 2, highest = 0;
        for (int r = 0; r < l->nref; r++) {
            const int k = occ_of(l, r, 0)[p] + occ_of(l, r, 1)[p];
            if (k < lowest) lowest = k;
            if (k > highest) highest = k;
        }
        list[p] = (rank){p,
                         lowest == 2    ? 0
                         : highest == 0 ? 2
                                        : 1,
                         0.5 * (level(l, 0, 0, p) + level(l, 0, 1, p))};
    }
    qsort(list, (size_t)n, sizeof(*list), by_rank);
    int ndouble = 0;
    while (ndouble < n && list[ndouble].kind == 0) ndouble++;
    l->ncore = o->frozen;
    l->nactive = n - o->frozen;
    if (o->cas_norb > 0) {
        const int inactive = l->nalpha + l->nbeta - o->cas_nelec;
        if (o->frozen > 0)
            KL_TRY(kl_fail(
                err, KL_EINPUT,
                "frozen orbitals and an active space exclude each other: cas says which are inactive"));
        if (inactive < 0 || inactive % 2 != 0)
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "cas:%d,%d: %d electrons leave %d for doubly occupied orbitals; an even number "
                           "from 0 on is needed",
                           o->cas_nelec, o->cas_norb, l->nalpha + l->nbeta, inactive));
        l->ncore = inactive / 2;
        l->nactive = o->cas_norb;
    }
    if (l->ncore < 0 || l->ncore > ndouble)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "%d orbitals are to be inactive (--frozen, or what cas leaves over); the reference "
                       "has %d that are doubly occupied",
                       l->ncore, ndouble));
    if (l->nactive < 1 || l->ncore + l->nactive > n)
        KL_TRY(kl_fail(err, KL_EINPUT, "%d inactive and %d active orbitals; the file has %d in all", l->ncore,
                       l->nactive, n));
    for (int k = l->ncore + l->nactive; k < n; k++)
        if (list[k].kind != 2)
            KL_TRY(kl_fail(err, KL_EINPUT, "cas:%d,%d leaves out orbital %d, which the reference occupies",
                           o->cas_nelec, o->cas_norb, list[k].orbital + 1));
    if (l->nactive > KL_DET_MAX_ORB && !o->wide)
        KL_TRY(
            kl_fail(err, KL_EINPUT,
                    "%d active orbitals; at most %d are supported (freeze some, or choose an active space)",
                    l->nactive, KL_DET_MAX_ORB));
    KL_TRY(kl_alloc(&l->core, l->ncore, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&l->active, l->nactive, KL_MEM_MISC, err));
    for (int k = 0; k < l->ncore; k++) l->core[k] = list[k].orbital;
    for (int k = 0; k < l->nactive; k++) l->active[k] = list[l->ncore + k].orbital;
    qsort(l->core, (size_t)l->ncore, sizeof(int), by_int);
    qsort(l->active, (size_t)l->nactive, sizeof(int), by_int);
    for (int p = 0; p < l->nactive && !o->wide; p++)
        for (int k = 0; k < l->ncore; k++) l->odd ^= (uint64_t)(l->core[k] > l->active[p]) << p;
out:
    kl_free(&list);
    return st;
}

void kl_ciorbitals_clear(kl_ciorbitals *l)
{
    kl_free(&l->occ);
    kl_free(&l->core);
    kl_free(&l->active);
    kl_free(&l->ref);
    kl_fcidump_destroy(&l->own);
}

kl_status kl_ciorbitals_make(const kl_fcidump *f, const kl_ci_opts *o, kl_ciorbitals *l, kl_err *err)
{
    kl_status st = KL_OK;
    *l = (kl_ciorbitals){.f = f};
    const int nelec = o->nelec > 0 ? o->nelec : f->nelec, ms2 = o->have_ms2 ? o->ms2
                                                                : o->nelec > 0 && (o->nelec + f->ms2) % 2 != 0
                                                                    ? nelec % 2
                                                                    : f->ms2;
    if (nelec < 1)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "the file does not say how many electrons there are (NELEC); give --electrons"));
    if ((nelec + ms2) % 2 != 0 || ms2 > nelec || ms2 < -nelec)
        KL_TRY(kl_fail(err, KL_EINPUT, "%d electrons cannot have 2 Sz = %d; allowed: %d to %d in steps of 2",
                       nelec, ms2, -nelec, nelec));
    l->nalpha = (nelec + ms2) / 2;
    l->nbeta = (nelec - ms2) / 2;
    if (l->nalpha > f->norb || l->nbeta > f->norb)
        KL_TRY(kl_fail(err, KL_EINPUT, "%d alpha and %d beta electrons do not fit into %d orbitals",
                       l->nalpha, l->nbeta, f->norb));
    if (o->irrep >= f->nirrep)
        KL_TRY(kl_fail(err, KL_EINPUT, "irrep %d; this file's labels make 1 to %d", o->irrep + 1, f->nirrep));
    if (o->nref > KL_DET_MAX_REF)
        KL_TRY(kl_fail(err, KL_EINPUT, "%d references; at most %d are supported", o->nref, KL_DET_MAX_REF));
    l->nref = o->nref > 0 ? o->nref : 1;
    KL_TRY(kl_alloc(&l->occ, 2 * (int64_t)l->nref * f->norb, KL_MEM_MISC, err));
    if (o->nref == 0) KL_TRY(find_reference(l, o->lowest, o->closed, err));
    for (int r = 0; r < o->nref; r++) KL_TRY(read_reference(l, r, o->ref[r], err));
    KL_TRY(choose_orbitals(l, o, err));
    l->g = f;
    if (l->nactive < f->norb) {
        KL_TRY(kl_fcidump_fold(f, l->ncore, l->core, l->nactive, l->active, &l->own, err));
        l->g = l->own;
    }
    if (o->wide) goto out;
    KL_TRY(kl_alloc(&l->ref, l->nref, KL_MEM_MISC, err));
    for (int r = 0; r < l->nref; r++)
        for (int spin = 0; spin < 2; spin++)
            for (int p = 0; p < l->nactive; p++)
                l->ref[r][spin] |= (uint64_t)occ_of(l, r, spin)[l->active[p]] << p;
out:
    return st;
}

/* "2222ud00": all orbitals of the file. */
kl_status kl_ciorbitals_text(const kl_ciorbitals *l, uint64_t alpha, uint64_t beta, char **out, kl_err *err)
{
    const kl_status st = kl_alloc(out, l->f->norb + 1, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    memset(*out, '0', (size_t)l->f->norb);
    for (int k = 0; k < l->ncore; k++) (*out)[l->core[k]] = '2';
    for (int p = 0; p < l->nactive; p++)
        (*out)[l->active[p]] = "0ud2"[(alpha >> p & 1) + 2 * (beta >> p & 1)];
    return KL_OK;
}

/* A determinant of the active orbitals becomes one of all orbitals when the core's operators take their
   positions in the order of the orbitals (determinant.h): each passes the active electrons of its spin below
   it. This is the sign, but for one that all determinants share. */
double kl_ciorbitals_sign(const kl_ciorbitals *l, uint64_t alpha, uint64_t beta)
{
    return __builtin_parityll((alpha ^ beta) & l->odd) ? -1.0 : 1.0;
}

kl_det_spec kl_ciorbitals_spec(const kl_ciorbitals *l, const kl_ci_opts *o, int irrep)
{
    return (kl_det_spec){.norb = l->nactive,
                         .nalpha = l->nalpha - l->ncore,
                         .nbeta = l->nbeta - l->ncore,
                         .nirrep = l->g->nirrep,
                         .irrep = l->g->irrep,
                         .target = irrep,
                         .full = o->full,
                         .levels = o->levels,
                         .nref = l->nref,
                         .ref = (const uint64_t (*)[2])l->ref};
}

kl_status kl_ciorbitals_facts(const kl_ciorbitals *l, char **reference, double *energy, kl_err *err)
{
    *energy = kl_slater_element(l->g, l->ref[0][0], l->ref[0][1], l->ref[0][0], l->ref[0][1]);
    return kl_ciorbitals_text(l, l->ref[0][0], l->ref[0][1], reference, err);
}
