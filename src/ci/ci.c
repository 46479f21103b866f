/* Configuration interaction.

   1. Electrons, references (given, or the determinant of lowest energy by descent), inactive, active and
      deleted orbitals; the inactive
      ones are folded into the integrals.
   2. For each irrep a space, and H on it: stored, or as products only.
   3. The lowest determinants make a small dense block: its eigenvectors, with a random part over the whole
      space, start the solver, its inverse
      preconditions it. Roots beside the wanted ones (guards) are followed until nothing of theirs can lie
      below.
   4. Where states of several irreps are wanted: all irreps to a coarse residual, then only those that can
      still hold one of the lowest.
   5. States in order of energy, with spin, density matrices, natural occupations and leading determinants.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ci/ciunit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dense.h"
#include "base/mem.h"
#include "base/prof.h"
#include "base/random.h"
#include "ci/sigma.h"
#include "ci/slater.h"
#include "exec/spmv.h"

/* guards: roots beside the wanted ones, which may come down */
enum { DEFAULT_PSPACE = 120, MIN_GUARD = 1, MAX_GUARD = 4 };
enum { PRODUCTS_PER_ROOT = 20 }; /* about: 15 to 25 are seen */
static const double coarse_tol = 0.01;  /* hartree: enough to tell irreps apart */
/* states of the small block this close above the last wanted one are followed too */
static const double guard_window = 0.15;
/* norm of what is random in a start vector of norm 1: a tenth costs no more than a product or two; a third
   and thrice of it find the same states */
static const double random_part = 0.1;
/* hartree: determinants this high above the lowest get half of its share */
static const double random_width = 1.0;

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
            if (b < 1 || b > KL_DET_MAX_ORB)
                return kl_fail(err, KL_EINPUT, "'%s': %lld active orbitals; allowed: 1 to %d", text,
                               (long long)b, KL_DET_MAX_ORB);
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

/* ---------------------------------------------------------------- 1. orbitals */

typedef struct layout {
    const kl_fcidump *f;
    int nalpha, nbeta;       /* of the file's orbitals */
    int nref;
    unsigned char *occ;      /* [nref][2][norb] */
    int ncore, nactive;
    int *core, *active;      /* orbitals of the file */
    const kl_fcidump *g;     /* integrals of the active orbitals */
    kl_fcidump *own;         /* g where it was made here */
    uint64_t (*ref)[2];      /* [nref] of the active orbitals */
    uint64_t odd;            /* bit p: an odd number of core orbitals lies above active orbital p */
} layout;

static unsigned char *occ_of(const layout *l, int ref, int spin)
{
    return l->occ + ((int64_t)ref * 2 + spin) * l->f->norb;
}

static double eri(const kl_fcidump *f, int kind, int p, int q, int r, int s)
{
    return f->eri[kind][kl_pair(p, q) * f->npair + kl_pair(r, s)];
}

/* Energy of an electron of this spin in orbital p, in the field of a determinant. */
static double level(const layout *l, int ref, int spin, int p)
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

/* From the orbitals in their order: moves of one electron, or of a pair, as long as one lowers the energy by
   more than roundings do. */
static kl_status find_reference(layout *l, kl_err *err)
{
    enum { MOST_MOVES = 1000 };
    kl_status st = KL_OK;
    const kl_fcidump *const f = l->f;
    const int n = f->norb;
    const double unit = unit_of_energy(f);
    double *e[2] = {NULL, NULL};
    for (int spin = 0; spin < 2; spin++) {
        KL_TRY(kl_alloc(&e[spin], n, KL_MEM_WORK, err));
        memset(occ_of(l, 0, spin), 0, (size_t)n);
        memset(occ_of(l, 0, spin), 1, (size_t)(spin == 0 ? l->nalpha : l->nbeta));
    }
    for (int move = 0; move < MOST_MOVES; move++) {
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
                    if (change[spin] < best) {
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

static kl_status read_reference(layout *l, int r, const char *text, kl_err *err)
{
    const int n = l->f->norb;
    int count[2] = {0, 0};
    if ((int)strlen(text) != n)
        return kl_fail(err, KL_EINPUT,
                       "reference '%.80s' names %d orbitals; the file has %d (2, u, d or 0 for each)", text,
                       (int)strlen(text), n);
    for (int p = 0; p < n; p++) {
        const char c = text[p];
        if (strchr("2ud0", c) == NULL)
            return kl_fail(err, KL_EINPUT, "reference '%.80s': '%c' is not one of 2 u d 0", text, c);
        occ_of(l, r, 0)[p] = c == '2' || c == 'u';
        occ_of(l, r, 1)[p] = c == '2' || c == 'd';
        count[0] += c == '2' || c == 'u';
        count[1] += c == '2' || c == 'd';
    }
    if (count[0] != l->nalpha || count[1] != l->nbeta)
        return kl_fail(err, KL_EINPUT,
                       "reference '%.80s' has %d alpha and %d beta electrons; the run is for %d and %d", text,
                       count[0], count[1], l->nalpha, l->nbeta);
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

static kl_status choose_orbitals(layout *l, const kl_ci_opts *o, kl_err *err)
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
    if (l->nactive > KL_DET_MAX_ORB)
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
    for (int p = 0; p < l->nactive; p++)
        for (int k = 0; k < l->ncore; k++) l->odd ^= (uint64_t)(l->core[k] > l->active[p]) << p;
out:
    kl_free(&list);
    return st;
}

static void layout_clear(layout *l)
{
    kl_free(&l->occ);
    kl_free(&l->core);
    kl_free(&l->active);
    kl_free(&l->ref);
    kl_fcidump_destroy(&l->own);
}

static kl_status layout_make(const kl_fcidump *f, const kl_ci_opts *o, layout *l, kl_err *err)
{
    kl_status st = KL_OK;
    *l = (layout){.f = f};
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
    if (o->nref == 0) KL_TRY(find_reference(l, err));
    for (int r = 0; r < o->nref; r++) KL_TRY(read_reference(l, r, o->ref[r], err));
    KL_TRY(choose_orbitals(l, o, err));
    l->g = f;
    if (l->nactive < f->norb) {
        KL_TRY(kl_fcidump_fold(f, l->ncore, l->core, l->nactive, l->active, &l->own, err));
        l->g = l->own;
    }
    KL_TRY(kl_alloc(&l->ref, l->nref, KL_MEM_MISC, err));
    for (int r = 0; r < l->nref; r++)
        for (int spin = 0; spin < 2; spin++)
            for (int p = 0; p < l->nactive; p++)
                l->ref[r][spin] |= (uint64_t)occ_of(l, r, spin)[l->active[p]] << p;
out:
    return st;
}

/* "2222ud00": all orbitals of the file. */
static kl_status occupation_text(const layout *l, uint64_t alpha, uint64_t beta, char **out, kl_err *err)
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
   places in the order of the orbitals (determinant.h): each passes the active electrons of its spin below it.
   This is the sign, but for one that all determinants share. */
static double core_sign(const layout *l, uint64_t alpha, uint64_t beta)
{
    return __builtin_parityll((alpha ^ beta) & l->odd) ? -1.0 : 1.0;
}

static kl_det_spec spec_of(const layout *l, const kl_ci_opts *o, int irrep)
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

/* ---------------------------------------------------------------- 3. the small block */

typedef struct run_of { /* positions that follow each other */
    int64_t at;
    int first, n;
} run_of;

typedef struct small_block {
    kl_precond precond;
    kl_exec *ex;
    int64_t n;
    kl_dptr diagonal;
    int size, nrun;
    run_of *run;       /* [nrun] */
    double *vector;    /* [size][size] eigenvectors as columns */
    double *energy;    /* [size] */
    double *in, *mid;  /* [size] */
} small_block;

static void block_apply(const kl_precond *p, double theta, double floor, kl_dptr r, kl_dptr t)
{
    const small_block *const b = p->self;
    kl_err ignored;
    b->ex->vt.precondition(b->ex, b->n, b->diagonal, theta, floor, r, t);
    for (int k = 0; k < b->nrun; k++)
        if (b->ex->vt.download(b->ex, b->in + b->run[k].first, kl_dptr_at(r, b->run[k].at), b->run[k].n,
                               &ignored) != KL_OK)
            return;
    for (int j = 0; j < b->size; j++) {
        double sum = 0;
        for (int i = 0; i < b->size; i++) sum += b->vector[i + j * b->size] * b->in[i];
        const double gap = b->energy[j] - theta;
        b->mid[j] = sum / copysign(fmax(fabs(gap), floor), gap);
    }
    memset(b->in, 0, (size_t)b->size * sizeof(double));
    for (int j = 0; j < b->size; j++)
        for (int i = 0; i < b->size; i++) b->in[i] += b->vector[i + j * b->size] * b->mid[j];
    for (int k = 0; k < b->nrun; k++)
        if (b->ex->vt.upload(b->ex, kl_dptr_at(t, b->run[k].at), b->in + b->run[k].first, b->run[k].n,
                             &ignored) != KL_OK)
            return;
}

typedef struct low_det {
    double e;
    int64_t at;
} low_det;

static int by_energy(const void *x, const void *y)
{
    const low_det *const a = x, *const b = y;
    if (a->e != b->e) return a->e < b->e ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

static int by_position(const void *x, const void *y)
{
    const low_det *const a = x, *const b = y;
    return (a->at > b->at) - (a->at < b->at);
}

/* The lowest of d, at most `want` and without cutting a group of equal ones (spin partners); by position. */
static kl_status lowest_dets(int64_t n, const double *d, int want, low_det **out, int *size, kl_err *err)
{
    kl_status st = KL_OK;
    const int room = (int)(n < want + 1 ? n : want + 1);
    low_det *heap = NULL; /* largest on top */
    int have = 0;
    KL_TRY(kl_alloc(&heap, room, KL_MEM_WORK, err));
    for (int64_t i = 0; i < n; i++) {
        low_det x = {d[i], i};
        if (have == room && x.e >= heap[0].e) continue;
        int k;
        if (have < room) {
            for (k = have++; k > 0 && by_energy(&heap[(k - 1) / 2], &x) < 0; k = (k - 1) / 2)
                heap[k] = heap[(k - 1) / 2];
        } else {
            for (k = 0;;) {
                int child = 2 * k + 1;
                if (child >= room) break;
                if (child + 1 < room && by_energy(&heap[child], &heap[child + 1]) < 0) child++;
                if (by_energy(&heap[child], &x) <= 0) break;
                heap[k] = heap[child];
                k = child;
            }
        }
        heap[k] = x;
    }
    qsort(heap, (size_t)have, sizeof(*heap), by_energy);
    if (have > want) {
        int cut = want;
        while (cut > want / 2 && heap[cut].e - heap[cut - 1].e < 1e-9) cut--;
        have = cut > want / 2 ? cut : want;
    }
    qsort(heap, (size_t)have, sizeof(*heap), by_position);
    *out = heap;
    *size = have;
    return KL_OK;
out:
    kl_free(&heap);
    return st;
}

static kl_status block_make(small_block *b, const kl_fcidump *g, const kl_detspace *s, kl_exec *ex,
                            kl_dptr diagonal, const double *d, int want, kl_err *err)
{
    kl_status st = KL_OK;
    low_det *low = NULL;
    uint64_t (*bits)[2] = NULL;
    KL_TRY(lowest_dets(s->n, d, want, &low, &b->size, err));
    const int n = b->size;
    b->ex = ex;
    b->n = s->n;
    b->diagonal = diagonal;
    b->precond = (kl_precond){b, block_apply};
    KL_TRY(kl_alloc(&bits, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&b->run, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&b->vector, (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&b->energy, 3 * (int64_t)n, KL_MEM_WORK, err));
    b->in = b->energy + n;
    b->mid = b->in + n;
    for (int i = 0; i < n; i++) {
        int64_t ia, ib;
        kl_detspace_at(s, low[i].at, &ia, &ib);
        bits[i][0] = s->a->bits[ia];
        bits[i][1] = s->b->bits[ib];
        if (b->nrun > 0 && low[i].at == b->run[b->nrun - 1].at + b->run[b->nrun - 1].n)
            b->run[b->nrun - 1].n++;
        else b->run[b->nrun++] = (run_of){low[i].at, i, 1};
        for (int j = 0; j <= i; j++)
            b->vector[i + j * n] = kl_slater_element(g, bits[i][0], bits[i][1], bits[j][0], bits[j][1]);
    }
    KL_TRY(kl_dense_eig(n, b->vector, n, b->energy, err));
out:
    kl_free(&low);
    kl_free(&bits);
    return st;
}

static void block_clear(small_block *b)
{
    kl_free(&b->run);
    kl_free(&b->vector);
    kl_free(&b->energy);
}

/* ---------------------------------------------------------------- 2. one irrep */

typedef struct sector {
    int irrep;
    kl_detspace *space;
    kl_slater *h;
    kl_spmat *matrix;
    kl_spmv *spmv;
    kl_sigma *sigma;
    kl_linop op;
    kl_dptr x;          /* [nvec][n] */
    int nvec, nroot;
    int unsaved;        /* solved, and not written by a checkpoint since */
    small_block block;
    double energy[KL_MAX_ROOT];
    kl_eig_stats stats;
} sector;

static kl_status sector_apply(const kl_linop *h, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy,
                              kl_err *err)
{
    sector *const s = h->self;
    if (s->sigma != NULL) return kl_sigma_apply(s->sigma, nvec, x, ldx, y, ldy, err);
    return kl_spmv_apply(s->spmv, nvec, x, ldx, y, ldy, err);
}

static void sector_clear(sector *s, kl_exec *ex)
{
    if (s->x.addr != 0) ex->vt.release(ex, &s->x);
    if (s->op.diagonal.addr != 0) ex->vt.release(ex, &s->op.diagonal);
    block_clear(&s->block);
    kl_spmv_destroy(&s->spmv);
    kl_spmat_destroy(&s->matrix);
    kl_sigma_destroy(&s->sigma);
    kl_slater_destroy(&s->h);
    kl_detspace_destroy(&s->space);
}

static int64_t memory_allowed(const kl_ci_opts *o)
{
    if (o->memory_bytes > 0) return o->memory_bytes;
    return (int64_t)(0.5 * kl_mem_machine_bytes());
}

static kl_status store_matrix(sector *s, const kl_ci_opts *o, const kl_ci_monitor *monitor, kl_ci_block *info,
                              kl_err *err)
{
    kl_status st = KL_OK;
    kl_spmat *csr = NULL;
    kl_spopts format = o->format;
    double start = kl_prof_seconds();
    format.nthread = o->nthread;
    s->h->most_nnz = memory_allowed(o) / 12;
    KL_TRY(kl_slater_matrix(s->h, o->half, &csr, err));
    info->seconds_matrix = kl_prof_seconds() - start;
    kl_spmat_look(csr, o->format.boundary, &info->facts);
    if (monitor != NULL && monitor->matrix != NULL)
        KL_TRY(monitor->matrix(monitor->self, s->irrep, csr, err));
    start = kl_prof_seconds();
    if (o->format.format == KL_SP_CSR && o->format.index_bytes == 0) {
        s->matrix = csr;
        csr = NULL;
    } else KL_TRY(kl_spmat_convert(csr, &format, &s->matrix, err));
    info->seconds_matrix += kl_prof_seconds() - start;
    info->nnz = s->matrix->nnz;
    info->matrix_bytes = kl_spmat_measured_bytes(s->matrix);
    info->formula_bytes = kl_spmat_formula_bytes(s->matrix);
    if (monitor != NULL && monitor->stored != NULL)
        KL_TRY(monitor->stored(monitor->self, s->irrep, s->matrix, err));
out:
    kl_spmat_destroy(&csr);
    return st;
}

/* Eigenvectors of the small block, and a part of them over the whole space that is random, larger where the
   diagonal d is low: states that labels do not tell apart (spin, degenerate irreps) are blind to each other,
   and one that is in no start vector would never be found. */
static kl_status start_vectors(sector *s, kl_exec *ex, const double *d, uint64_t seed,
                               const kl_ci_monitor *monitor, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = s->space->n;
    const small_block *const b = &s->block;
    const int keeping = monitor != NULL && monitor->load != NULL;
    double *x = NULL;
    int nkept = 0;
    KL_TRY(ex->vt.alloc(ex, n * s->nvec, &s->x, err));
    KL_TRY(kl_alloc(&x, keeping ? n * s->nvec : n, KL_MEM_VECTOR, err));
    if (keeping) KL_TRY(monitor->load(monitor->self, s->irrep, s->nvec, n, &nkept, x, err));
    if (nkept > 0) KL_TRY(ex->vt.upload(ex, s->x, x, n * nkept, err));
    double lowest = INFINITY;
    for (int64_t i = 0; i < n; i++) lowest = fmin(lowest, d[i]);
    uint64_t random = seed + ((uint64_t)s->irrep << 32);
    for (int j = nkept; j < s->nvec; j++) {
        double square = 0;
        memset(x, 0, (size_t)n * sizeof(double));
        /* the block may be all: then its eigenvectors are the answer */
        for (int64_t i = 0; i < n && b->size < n; i++) {
            x[i] = kl_random_uniform(&random) / (d[i] - lowest + random_width);
            square += x[i] * x[i];
        }
        for (int64_t i = 0; i < n && square > 0; i++) x[i] *= random_part / sqrt(square);
        for (int k = 0; k < b->nrun && j < b->size; k++)
            for (int i = 0; i < b->run[k].n; i++)
                x[b->run[k].at + i] += b->vector[b->run[k].first + i + (int64_t)j * b->size];
        KL_TRY(ex->vt.upload(ex, kl_dptr_at(s->x, j * n), x, n, err));
    }
out:
    kl_free(&x);
    return st;
}

/* Full spaces need no matrix. */
static int is_direct(const kl_ci_opts *o)
{
    return o->store == KL_CI_DIRECT || (o->store == KL_CI_AUTO && o->full);
}

static kl_status sector_make(sector *s, const layout *l, kl_exec *ex, const kl_ci_opts *o,
                             const kl_ci_monitor *monitor, kl_ci_block *info, kl_err *err)
{
    kl_status st = KL_OK;
    const double start = kl_prof_seconds();
    double *d = NULL;
    const kl_det_spec spec = spec_of(l, o, s->irrep);
    KL_TRY(kl_detspace_create(&spec, o->nthread, &s->space, err));
    const int64_t n = s->space->n;
    info->ndet = n;
    info->nalpha_string = s->space->a->n;
    info->nbeta_string = s->space->b->n;
    if (n == 0) goto out;
    KL_TRY(kl_slater_create(l->g, s->space, o->nthread, &s->h, err));
    info->seconds_list = kl_prof_seconds() - start;
    if (is_direct(o)) {
        KL_TRY(kl_sigma_create(ex, s->h, &s->sigma, err));
        info->flops = kl_sigma_flops(s->sigma);
    } else {
        KL_TRY(store_matrix(s, o, monitor, info, err));
        KL_TRY(kl_spmv_create(ex, s->matrix, (int64_t)PRODUCTS_PER_ROOT * o->nroot, &s->spmv, err));
        info->seconds_bring = s->spmv->seconds;
        info->way = s->spmv->way;
        info->way_pays = s->spmv->pays;
    }
    s->op = (kl_linop){.n = n, .ex = ex, .self = s, .apply = sector_apply};
    KL_TRY(kl_alloc(&d, n, KL_MEM_VECTOR, err));
    kl_slater_diagonal(s->h, d);
    KL_TRY(ex->vt.alloc(ex, n, &s->op.diagonal, err));
    KL_TRY(ex->vt.upload(ex, s->op.diagonal, d, n, err));
    KL_TRY(block_make(&s->block, l->g, s->space, ex, s->op.diagonal, d,
                      o->pspace > 0 ? o->pspace : DEFAULT_PSPACE + 10 * o->nroot, err));
    s->nroot = o->nroot < n ? o->nroot : (int)n;
    s->nvec = s->nroot;
    while (s->nvec < KL_MAX_ROOT && s->nvec < s->nroot + MAX_GUARD && s->nvec < n &&
           (s->nvec < s->nroot + MIN_GUARD ||
            (s->nvec < s->block.size &&
             s->block.energy[s->nvec] < s->block.energy[s->nroot - 1] + guard_window)))
        s->nvec++;
    KL_TRY(start_vectors(s, ex, d, o->seed, monitor, err));
    info->seconds_build = kl_prof_seconds() - start;
    if (monitor != NULL && monitor->block != NULL) monitor->block(monitor->self, s->irrep, info, 0);
out:
    kl_free(&d);
    return st;
}

typedef struct watching {
    sector *s, *all; /* the one being solved; [8] */
    const kl_ci_monitor *monitor;
} watching;

static int on_step(void *self, int napply, double energy, double residual)
{
    const watching *const w = self;
    return w->monitor->step(w->monitor->self, w->s->irrep, napply, energy, residual);
}

static int on_due(void *self)
{
    return ((const watching *)self)->monitor->due(((const watching *)self)->monitor->self);
}

/* All vectors of the sector: the first ones as the solver has them (k; NULL: it does not run), for the others
   what an earlier stage left. */
static kl_status save_sector(sector *s, const kl_ci_monitor *monitor, const kl_keep *k, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = s->op.ex;
    const int64_t n = s->op.n;
    double *x = NULL;
    KL_TRY(kl_alloc(&x, n * s->nvec, KL_MEM_VECTOR, err));
    for (int v = 0; v < s->nvec; v++) {
        const kl_dptr from = k != NULL && v < k->nvector ? k->vector[v] : kl_dptr_at(s->x, v * n);
        KL_TRY(ex->vt.download(ex, x + v * n, from, n, err));
    }
    KL_TRY(monitor->save(monitor->self, s->irrep, s->nvec, n, x, err));
    s->unsaved = 0;
out:
    kl_free(&x);
    return st;
}

/* The vectors at hand, and those of irreps solved since they were written last. */
static kl_status on_keep(void *self, const kl_keep *k, kl_err *err)
{
    const watching *const w = self;
    kl_status st = KL_OK;
    KL_TRY(save_sector(w->s, w->monitor, k, err));
    for (int g = 0; g < 8; g++)
        if (w->all[g].unsaved) KL_TRY(save_sector(&w->all[g], w->monitor, NULL, err));
out:
    return st;
}

/* The lowest nroot vectors of the sector to tol; those above the ceiling, and those beyond what was asked
   for, only until they are known to stay there. */
static kl_status sector_solve(sector *s, sector *all, const kl_ci_opts *o, int nroot, double tol,
                              double ceiling, int last, const kl_ci_monitor *monitor, kl_ci_block *info,
                              kl_err *err)
{
    kl_status st = KL_OK;
    const double start = kl_prof_seconds();
    watching w = {s, all, monitor};
    const kl_keeper keeper = {.self = &w, .due = on_due, .write = on_keep};
    const int keeping = monitor != NULL && monitor->save != NULL;
    const int basis = o->max_basis > 0 && o->max_basis < nroot + 2 ? nroot + 2 : o->max_basis;
    const kl_eig_opts eig = {.solver = o->solver,
                             .nroot = nroot,
                             .max_basis = basis,
                             .max_apply = o->max_apply > 0 ? o->max_apply : 1000 + 200 * nroot,
                             .tol = tol,
                             .nguard = nroot > s->nroot ? nroot - s->nroot : 0,
                             .ceiling = ceiling,
                             .bounded = isfinite(ceiling),
                             .trust_start = s->block.size == s->space->n,
                             .seed = o->seed,
                             .precond = &s->block.precond,
                             .self = &w,
                             .step = monitor != NULL && monitor->step != NULL ? on_step : NULL,
                             .keeper = keeping ? &keeper : NULL};
    KL_TRY(kl_eig_solve(&s->op, &eig, s->x, s->space->n, s->energy, &s->stats, err));
    s->unsaved = 1;
    info->napply += s->stats.napply;
    info->converged = s->stats.converged || s->stats.stagnated;
    info->residual = 0;
    for (int k = 0; k < nroot && k < s->nroot && (k == 0 || s->energy[k] <= ceiling); k++)
        info->residual = fmax(info->residual, s->stats.residual[k]);
    info->seconds_solve += kl_prof_seconds() - start;
    /* between its restarts the solver had no vectors at hand */
    KL_TRY(kl_eig_keep(&eig, &s->stats, s->x, s->space->n, err));
    if (last && !s->stats.stopped && monitor != NULL && monitor->block != NULL)
        monitor->block(monitor->self, s->irrep, info, 1);
out:
    return st;
}

/* ---------------------------------------------------------------- 5. states */

/* Of a density matrix of norb orbitals, which is lost. */
static kl_status occupations(int norb, double *density, double **out, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(out, norb, KL_MEM_MISC, err));
    KL_TRY(kl_dense_eig(norb, density, norb, *out, err));
    for (int k = 0; k < norb / 2; k++) {
        const double swap = (*out)[k];
        (*out)[k] = (*out)[norb - 1 - k];
        (*out)[norb - 1 - k] = swap;
    }
out:
    return st;
}

static kl_status density_of(const layout *l, const kl_detspace *space, int nthread, const double *c,
                            kl_ci_state *state, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = l->f->norb, na = l->nactive;
    double *gamma[2] = {NULL, NULL}, *sum = NULL;
    for (int spin = 0; spin < 2; spin++) {
        KL_TRY(kl_alloc(&gamma[spin], (int64_t)na * na, KL_MEM_WORK, err));
        KL_TRY(kl_alloc(&state->density[spin], (int64_t)n * n, KL_MEM_MISC, err));
    }
    KL_TRY(kl_detstate_density(space, nthread, c, gamma[0], gamma[1], err));
    for (int spin = 0; spin < 2; spin++) {
        for (int k = 0; k < l->ncore; k++) state->density[spin][l->core[k] * (n + 1)] = 1.0;
        for (int p = 0; p < na; p++)
            for (int q = 0; q < na; q++)
                state->density[spin][l->active[p] * n + l->active[q]] = gamma[spin][p * na + q];
    }
    KL_TRY(kl_alloc(&sum, (int64_t)n * n, KL_MEM_WORK, err));
    for (int spin = 0; spin < 2 && l->f->unrestricted; spin++) {
        memcpy(sum, state->density[spin], (size_t)(n * n) * sizeof(double));
        KL_TRY(occupations(n, sum, &state->natural_spin[spin], err));
    }
    for (int k = 0; k < n * n; k++) sum[k] = state->density[0][k] + state->density[1][k];
    if (!l->f->unrestricted) KL_TRY(occupations(n, sum, &state->natural, err));
out:
    kl_free(&gamma[0]);
    kl_free(&gamma[1]);
    kl_free(&sum);
    return st;
}

static kl_status describe(const layout *l, kl_exec *ex, const kl_ci_opts *o, const sector *s, int root,
                          kl_ci_state *state, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = s->space->n;
    double *c = NULL;
    int64_t at[KL_CI_LEADING];
    state->energy = s->energy[root];
    state->residual = s->stats.residual[root];
    state->irrep = s->irrep;
    state->s2 = NAN;
    KL_TRY(kl_alloc(&c, n, KL_MEM_VECTOR, err));
    KL_TRY(ex->vt.download(ex, c, kl_dptr_at(s->x, root * n), n, err));
    state->nleading = kl_detstate_leading(s->space, c, KL_CI_LEADING, at);
    for (int k = 0; k < state->nleading; k++) {
        int64_t ia, ib;
        kl_detspace_at(s->space, at[k], &ia, &ib);
        const uint64_t alpha = s->space->a->bits[ia], beta = s->space->b->bits[ib];
        state->leading[k] = core_sign(l, alpha, beta) * c[at[k]];
        KL_TRY(occupation_text(l, alpha, beta, &state->leading_text[k], err));
    }
    if (state->leading[0] < 0) /* the sign of a state is free: the first is positive */
        for (int k = 0; k < state->nleading; k++) state->leading[k] = -state->leading[k];
    if (!l->f->unrestricted) KL_TRY(kl_detstate_spin(s->space, o->nthread, c, &state->s2, err));
    if (o->density) KL_TRY(density_of(l, s->space, o->nthread, c, state, err));
    if (!s->space->full) {
        KL_TRY(kl_alloc(&state->level_weight, 2 * KL_DET_MAX_ORB + 1, KL_MEM_MISC, err));
        int64_t i = 0;
        for (int k = 0; k < s->space->nlevel; k++)
            for (const int64_t to = i + s->space->level_count[k]; i < to; i++)
                state->level_weight[k] += c[i] * c[i];
    }
out:
    kl_free(&c);
    return st;
}

void kl_ci_result_clear(kl_ci_result *r)
{
    for (int i = 0; i < r->nstate && r->state != NULL; i++) {
        kl_ci_state *const s = &r->state[i];
        for (int k = 0; k < KL_CI_LEADING; k++) kl_free(&s->leading_text[k]);
        kl_free(&s->density[0]);
        kl_free(&s->density[1]);
        kl_free(&s->natural);
        kl_free(&s->natural_spin[0]);
        kl_free(&s->natural_spin[1]);
        kl_free(&s->level_weight);
    }
    kl_free(&r->state);
    kl_free(&r->reference);
    *r = (kl_ci_result){0};
}

/* ---------------------------------------------------------------- 4. all irreps */

typedef struct candidate {
    double e, low; /* upper bound, and what it cannot lie below */
    int irrep, root;
} candidate;

static int by_value(const void *x, const void *y)
{
    const candidate *const a = x, *const b = y;
    if (a->e != b->e) return a->e < b->e ? -1 : 1;
    return a->irrep != b->irrep ? a->irrep - b->irrep : a->root - b->root;
}

static int collect(const sector *s, const int *nroot, candidate *list)
{
    int n = 0;
    for (int g = 0; g < 8; g++)
        for (int k = 0; k < nroot[g]; k++)
            list[n++] = (candidate){s[g].energy[k], s[g].energy[k] - s[g].stats.residual[k], g, k};
    qsort(list, (size_t)n, sizeof(*list), by_value);
    return n;
}

static kl_status check_opts(const kl_ci_opts *o, kl_err *err)
{
    if (o->nroot < 1 || o->nroot > KL_MAX_ROOT)
        return kl_fail(err, KL_EINPUT, "%d roots; allowed: 1 to %d", o->nroot, KL_MAX_ROOT);
    if (!o->full && o->levels == 0) return kl_fail(err, KL_EINPUT, "no space was chosen");
    if (!o->full && o->store == KL_CI_DIRECT)
        return kl_fail(
            err, KL_EINPUT,
            "products without a matrix are for full spaces (full, cas); a truncated space stores its matrix");
    return KL_OK;
}

static kl_status fill_facts(const layout *l, char **reference, double *energy, kl_err *err)
{
    *energy = kl_slater_element(l->g, l->ref[0][0], l->ref[0][1], l->ref[0][0], l->ref[0][1]);
    return occupation_text(l, l->ref[0][0], l->ref[0][1], reference, err);
}

kl_status kl_ci_run_scaled(const kl_fcidump *f, kl_exec *ex, const kl_ci_opts *opts,
                           const kl_ci_monitor *monitor, kl_ci_result *out, kl_err *err)
{
    kl_status st = KL_OK;
    const double start = kl_prof_seconds();
    layout l = {0};
    sector s[8] = {{0}};
    candidate list[8 * KL_MAX_ROOT];
    kl_ci_opts o = *opts;
    int nsector = 0, wanted[8] = {0}, n = 0;
    *out = (kl_ci_result){0};
    if (o.nthread < 1) o.nthread = ex->nthread;
    if (o.tol <= 0) o.tol = 1e-6;
    KL_TRY(check_opts(&o, err));
    KL_TRY(layout_make(f, &o, &l, err));
    out->norb = f->norb;
    out->nalpha = l.nalpha;
    out->nbeta = l.nbeta;
    out->nirrep = f->nirrep;
    out->nactive = l.nactive;
    out->ninactive = l.ncore;
    out->direct = is_direct(&o);
    out->format = o.format.format;
    out->half = o.half;
    memcpy(out->note, f->note, sizeof(out->note));
    KL_TRY(fill_facts(&l, &out->reference, &out->reference_energy, err));
    for (int g = 0; g < f->nirrep; g++) {
        s[g].irrep = g;
        if (o.irrep >= 0 && g != o.irrep) continue;
        KL_TRY(sector_make(&s[g], &l, ex, &o, monitor, &out->block[g], err));
        if (s[g].space->n == 0) continue;
        nsector++;
        for (int k = 0; k < s[g].space->nlevel; k++) out->level_count[k] += s[g].space->level_count[k];
        if (s[g].space->nlevel > out->nlevel) out->nlevel = s[g].space->nlevel;
        wanted[g] = s[g].nvec;
    }
    if (nsector == 0)
        KL_TRY(kl_fail(err, KL_EINPUT, "no determinant of irrep %d in this space", o.irrep + 1));
    double ceiling = INFINITY;
    if (nsector > 1) {
        for (int g = 0; g < 8; g++)
            if (wanted[g] > 0 && !out->stopped) {
                KL_TRY(sector_solve(&s[g], s, &o, wanted[g], fmax(coarse_tol, o.tol), INFINITY, 0, monitor,
                                    &out->block[g], err));
                out->stopped = s[g].stats.stopped;
            }
        if (out->stopped) goto out;
        n = collect(s, wanted, list);
        if (n >= o.nroot) ceiling = list[o.nroot - 1].e;
        memset(wanted, 0, sizeof(wanted));
        for (int k = 0; k < n; k++) /* roots of a sector come in order: all below a kept one are kept */
            if (list[k].low <= ceiling && wanted[list[k].irrep] < list[k].root + 1)
                wanted[list[k].irrep] = list[k].root + 1;
    }
    for (int g = 0; g < 8; g++)
        if (wanted[g] > 0 && !out->stopped) {
            KL_TRY(sector_solve(&s[g], s, &o, wanted[g], o.tol, ceiling, 1, monitor, &out->block[g], err));
            out->stopped = s[g].stats.stopped;
        }
    if (out->stopped) goto out;
    n = collect(s, wanted, list);
    if (n > o.nroot) n = o.nroot;
    KL_TRY(kl_alloc(&out->state, n, KL_MEM_MISC, err));
    out->nstate = n;
    out->converged = 1;
    for (int k = 0; k < n; k++) {
        KL_TRY(describe(&l, ex, &o, &s[list[k].irrep], list[k].root, &out->state[k], err));
        out->converged &= out->block[list[k].irrep].converged;
    }
    out->seconds_all = kl_prof_seconds() - start;
out:
    for (int g = 0; g < 8; g++) sector_clear(&s[g], ex);
    layout_clear(&l);
    if (st != KL_OK) kl_ci_result_clear(out);
    return st;
}

/* ---------------------------------------------------------------- plans */

/* On all rows of a small space, on some of a larger one. */
static kl_status count_nonzeros(const layout *l, const kl_ci_opts *o, const kl_det_spec *spec,
                                kl_ci_plan *out, int g, kl_err *err)
{
    enum { ALL = 100000, MOST = 20000000 };
    kl_status st = KL_OK;
    kl_detspace *space = NULL;
    kl_slater *h = NULL;
    out->nnz[g] = -1;
    if (out->ndet[g] < 0 || out->ndet[g] > MOST) return KL_OK;
    out->nnz[g] = 0;
    if (out->ndet[g] == 0 || (o->irrep >= 0 && g != o->irrep)) return KL_OK;
    KL_TRY(kl_detspace_create(spec, o->nthread, &space, err));
    KL_TRY(kl_slater_create(l->g, space, o->nthread, &h, err));
    const int every = (int)(space->n / ALL) + 1;
    out->nnz_sampled[g] = every > 1;
    KL_TRY(kl_slater_count(h, o->half, every, &out->nnz[g], err));
out:
    kl_slater_destroy(&h);
    kl_detspace_destroy(&space);
    return st;
}

kl_status kl_ci_make_plan(const kl_fcidump *f, const kl_ci_opts *o, kl_ci_plan *out, kl_err *err)
{
    const int64_t most_vector = INT64_C(1) << 50; /* all vectors of a solver together stay within 64 bits */
    kl_status st = KL_OK;
    layout l = {0};
    *out = (kl_ci_plan){0};
    KL_TRY(layout_make(f, o, &l, err));
    out->norb = f->norb;
    out->nalpha = l.nalpha;
    out->nbeta = l.nbeta;
    out->nirrep = f->nirrep;
    out->nactive = l.nactive;
    out->ninactive = l.ncore;
    memcpy(out->note, f->note, sizeof(out->note));
    KL_TRY(fill_facts(&l, &out->reference, &out->reference_energy, err));
    out->closed_shell = l.ref[0][0] == l.ref[0][1];
    for (int g = 0; g < f->nirrep; g++) {
        const kl_det_spec spec = spec_of(&l, o, g);
        int nlevel = 0;
        KL_TRY(kl_det_levels(&spec, g, &nlevel, out->det[g], out->csf[g], err));
        if (nlevel > out->nlevel) out->nlevel = nlevel;
        for (int k = 0; k <= 2 * KL_DET_MAX_ORB; k++) {
            out->det[8][k] += out->det[g][k];
            out->csf[8][k] += out->csf[g][k];
        }
        KL_TRY(kl_detspace_count(&spec, &out->ndet[g], err));
        const int nroot = out->ndet[g] >= 0 && o->nroot > out->ndet[g] ? (int)out->ndet[g] : o->nroot;
        const int nvec = nroot < 1 ? 1
                         : nroot + MIN_GUARD > KL_MAX_ROOT || nroot + MIN_GUARD > out->ndet[g]
                             ? nroot
                             : nroot + MIN_GUARD;
        const kl_eig_opts eig = {.solver = o->solver, .nroot = nvec, .max_basis = o->max_basis};
        KL_TRY(count_nonzeros(&l, o, &spec, out, g, err));
        if (out->ndet[g] < 0 || out->ndet[g] > most_vector) out->bytes_vectors[g] = -1;
        else if (out->ndet[g] > 0)
            out->bytes_vectors[g] = 8 * (kl_eig_work_doubles(&eig, out->ndet[g]) + (nvec + 2) * out->ndet[g]);
    }
out:
    layout_clear(&l);
    if (st != KL_OK) kl_ci_plan_clear(out);
    return st;
}

void kl_ci_plan_clear(kl_ci_plan *p)
{
    kl_free(&p->reference);
    *p = (kl_ci_plan){0};
}
