/* Strings, spaces of determinants, and their numbers without listing them.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/determinant.h"

#include <stdlib.h>
#include <string.h>

#include "chem/fcidump.h"
#include "base/mem.h"
#include "base/par.h"
#include "phase.h"

static inline int count_bits(uint64_t x) { return __builtin_popcountll(x); }
static inline int low_bit(uint64_t x) { return __builtin_ctzll(x); }
static inline uint64_t orbitals(int n) { return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1; }

/* Of a string; irrep NULL: 0. */
static int irrep_of(const int *irrep, uint64_t bits)
{
    int g = 0;
    if (irrep != NULL)
        for (uint64_t x = bits; x != 0; x &= x - 1) g ^= irrep[low_bit(x)];
    return g;
}

/* ---------------------------------------------------------------- lists of strings */

typedef struct bag { /* growing list of strings */
    int64_t n, room;
    uint64_t *bits;
} bag;

static kl_status bag_add(bag *b, uint64_t bits, kl_err *err)
{
    if (b->n == b->room) {
        const int64_t room = b->room > 0 ? 2 * b->room : 256;
        const kl_status st = kl_realloc(&b->bits, room, KL_MEM_MATRIX, err);
        if (st != KL_OK) return st;
        b->room = room;
    }
    b->bits[b->n++] = bits;
    return KL_OK;
}

/* The next number with as many bits (Gosper); 0 past the last of `width` bits. */
static uint64_t next_choice(uint64_t x, int width)
{
    if (x == 0) return 0;
    const uint64_t low = x & (~x + 1), sum = x + low;
    if (sum == 0) return 0;
    const uint64_t next = (((sum ^ x) >> 2) / low) | sum;
    return (next & ~orbitals(width)) != 0 ? 0 : next;
}

/* Bit k of x goes to the k-th set bit of mask. */
static uint64_t deposit(uint64_t x, uint64_t mask)
{
    uint64_t out = 0;
    for (uint64_t m = mask; x != 0; m &= m - 1, x >>= 1)
        if (x & 1) out |= m & (~m + 1);
    return out;
}

/* All strings with exactly k electrons moved out of ref. */
static kl_status excite(bag *to, uint64_t ref, int norb, int k, kl_err *err)
{
    const uint64_t empty = orbitals(norb) & ~ref;
    const int nocc = count_bits(ref), nvir = count_bits(empty);
    if (k > nocc || k > nvir) return KL_OK;
    uint64_t holes = orbitals(k);
    do {
        uint64_t particles = orbitals(k);
        do {
            const kl_status st = bag_add(to, (ref & ~deposit(holes, ref)) | deposit(particles, empty), err);
            if (st != KL_OK) return st;
            particles = next_choice(particles, nvir);
        } while (particles != 0);
        holes = next_choice(holes, nocc);
    } while (holes != 0);
    return KL_OK;
}

static int by_bits(const void *x, const void *y)
{
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

static uint64_t place_of(const kl_strings *s, uint64_t bits)
{
    return kl_hash_mix(bits >> 31, bits) & s->mask;
}

int64_t kl_strings_find(const kl_strings *s, uint64_t bits)
{
    for (uint64_t k = place_of(s, bits);; k = (k + 1) & s->mask) {
        if (s->table[k] == 0) return -1;
        if (s->bits[s->table[k] - 1] == bits) return s->table[k] - 1;
    }
}

static void strings_destroy(kl_strings **strings)
{
    kl_strings *s = *strings;
    if (s == NULL) return;
    kl_free(&s->bits);
    kl_free(&s->irrep);
    kl_free(&s->move_off);
    kl_free(&s->move_to);
    kl_free(&s->move);
    kl_free(&s->table);
    kl_free(strings);
}

typedef struct move_job {
    kl_strings *s;
    int64_t *count; /* [n]: count only; NULL: fill */
} move_job;

enum { STRINGS_PER_TASK = 64 };

static int by_string(const void *x, const void *y)
{
    const kl_move *const a = x, *const b = y;
    return (a->to > b->to) - (a->to < b->to);
}

/* Strings are sorted by irrep, so that moves sorted by string are too. */
static void sort_moves(kl_strings *s, int64_t i, int64_t end)
{
    int64_t k = s->move_off[i];
    if (end - k > 1) qsort(s->move + k, (size_t)(end - k), sizeof(*s->move), by_string);
    for (int g = 0; g < s->nirrep; g++) {
        while (k < end && s->irrep[s->move[k].to] < g) k++;
        s->move_to[s->nirrep * i + g] = k;
    }
}

static void list_moves(void *self, int64_t task, int thread)
{
    const move_job *const job = self;
    kl_strings *const s = job->s;
    (void)thread;
    for (int64_t i = task * STRINGS_PER_TASK; i < (task + 1) * STRINGS_PER_TASK && i < s->n; i++) {
        const uint64_t from = s->bits[i], empty = orbitals(s->norb) & ~from;
        int64_t k = job->count != NULL ? 0 : s->move_off[i];
        for (uint64_t o = from; o != 0; o &= o - 1)
            for (uint64_t v = empty; v != 0; v &= v - 1) {
                const int p = low_bit(o), q = low_bit(v);
                const int64_t to = kl_strings_find(s, (from & ~(UINT64_C(1) << p)) | (UINT64_C(1) << q));
                if (to < 0) continue;
                if (job->count == NULL)
                    s->move[k] = (kl_move){(int32_t)to, (int16_t)kl_pair(p, q), (int8_t)p, (int8_t)q,
                                           kl_phase_hop(from, q, p)};
                k++;
            }
        if (job->count != NULL) job->count[i] = k;
        else sort_moves(s, i, k);
    }
}

/* Takes the bag's strings, any order, repeats allowed. */
static kl_status strings_create(const kl_det_spec *spec, int nelec, bag *from, int nthread, kl_strings **out,
                                kl_err *err)
{
    kl_status st = KL_OK;
    kl_strings *s = NULL;
    int64_t unique = 0, fill[9] = {0}, *count = NULL;
    *out = NULL;
    KL_TRY(kl_alloc(&s, 1, KL_MEM_MISC, err));
    s->norb = spec->norb;
    s->nelec = nelec;
    s->nirrep = spec->nirrep;
    if (from->n > 1) qsort(from->bits, (size_t)from->n, sizeof(uint64_t), by_bits);
    for (int64_t i = 0; i < from->n; i++)
        if (i == 0 || from->bits[i] != from->bits[i - 1]) from->bits[unique++] = from->bits[i];
    if (unique > INT32_MAX - 1)
        KL_TRY(kl_fail(err, KL_EINPUT, "%lld strings of one spin; at most %d are supported",
                       (long long)unique, INT32_MAX - 1));
    s->n = unique;
    KL_TRY(kl_alloc(&s->bits, s->n, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&s->irrep, s->n, KL_MEM_MATRIX, err));
    for (int64_t i = 0; i < s->n; i++) fill[irrep_of(spec->irrep, from->bits[i]) + 1]++;
    for (int g = 0; g < 8; g++) fill[g + 1] += fill[g];
    memcpy(s->first, fill, sizeof(fill));
    for (int64_t i = 0; i < s->n; i++) {
        const int g = irrep_of(spec->irrep, from->bits[i]);
        s->irrep[fill[g]] = (uint8_t)g;
        s->bits[fill[g]++] = from->bits[i];
    }
    s->mask = 15;
    while (s->mask < 2 * (uint64_t)s->n) s->mask = 2 * s->mask + 1;
    KL_TRY(kl_alloc(&s->table, (int64_t)s->mask + 1, KL_MEM_MATRIX, err));
    for (int64_t i = 0; i < s->n; i++) {
        uint64_t k = place_of(s, s->bits[i]);
        while (s->table[k] != 0) k = (k + 1) & s->mask;
        s->table[k] = (int32_t)i + 1;
    }
    KL_TRY(kl_alloc(&s->move_off, s->n + 1, KL_MEM_MATRIX, err));
    const int64_t ntask = (s->n + STRINGS_PER_TASK - 1) / STRINGS_PER_TASK;
    KL_TRY(kl_alloc(&count, s->n, KL_MEM_WORK, err));
    move_job job = {s, count};
    kl_par_for(nthread, ntask, list_moves, &job);
    for (int64_t i = 0; i < s->n; i++) s->move_off[i + 1] = s->move_off[i] + count[i];
    KL_TRY(kl_alloc(&s->move, s->move_off[s->n], KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&s->move_to, s->nirrep * s->n + 1, KL_MEM_MATRIX, err));
    s->move_to[s->nirrep * s->n] = s->move_off[s->n];
    job.count = NULL;
    kl_par_for(nthread, ntask, list_moves, &job);
    *out = s;
    s = NULL;
out:
    kl_free(&count);
    strings_destroy(&s);
    return st;
}

/* ---------------------------------------------------------------- spaces */

static int level_of(const kl_det_spec *spec, int ref, uint64_t a, uint64_t b)
{
    return count_bits(a & ~spec->ref[ref][0]) + count_bits(b & ~spec->ref[ref][1]);
}

/* Levels beyond 63, which only complements in 64 orbitals have, are never asked for. */
static int has_level(const kl_det_spec *spec, int level) { return level < 64 && (spec->levels >> level & 1); }

static int allowed(const kl_det_spec *spec, int ref, uint64_t a, uint64_t b)
{
    return has_level(spec, level_of(spec, ref, a, b));
}

static int top_level(const kl_det_spec *spec)
{
    int top = 0;
    for (int k = 0; k < 64; k++)
        if (has_level(spec, k)) top = k;
    return top;
}

static kl_status check(const kl_det_spec *spec, kl_err *err)
{
    if (spec->norb < 1 || spec->norb > KL_DET_MAX_ORB)
        return kl_fail(err, KL_EINPUT, "%d active orbitals; 1 to %d are supported (freeze some)", spec->norb,
                       KL_DET_MAX_ORB);
    if (spec->nalpha < 0 || spec->nalpha > spec->norb || spec->nbeta < 0 || spec->nbeta > spec->norb)
        return kl_fail(err, KL_EINPUT,
                       "%d alpha and %d beta electrons in %d orbitals; 0 to %d of each are possible",
                       spec->nalpha, spec->nbeta, spec->norb, spec->norb);
    if (spec->target < 0 || spec->target >= spec->nirrep)
        return kl_fail(err, KL_EINPUT, "irrep %d; the point group has 1 to %d", spec->target + 1,
                       spec->nirrep);
    for (int r = 0; r < spec->nref; r++)
        if (count_bits(spec->ref[r][0]) != spec->nalpha || count_bits(spec->ref[r][1]) != spec->nbeta ||
            ((spec->ref[r][0] | spec->ref[r][1]) & ~orbitals(spec->norb)) != 0)
            return kl_fail(
                err, KL_EINPUT, "reference %d has %d alpha and %d beta electrons; the run is for %d and %d",
                r + 1, count_bits(spec->ref[r][0]), count_bits(spec->ref[r][1]), spec->nalpha, spec->nbeta);
    if (!spec->full && (spec->nref < 1 || spec->nref > KL_DET_MAX_REF || spec->levels == 0))
        return kl_fail(err, KL_EINPUT, "%d references; 1 to %d are supported", spec->nref, KL_DET_MAX_REF);
    return KL_OK;
}

static double binomial(int n, int k)
{
    double c = 1;
    for (int i = 1; i <= k; i++) c *= (double)(n - k + i) / i;
    return k > n ? 0 : c;
}

/* Before they are listed, which takes 8 bytes for each. */
static kl_status check_number(double n, kl_err *err)
{
    return n < INT32_MAX ? KL_OK
                         : kl_fail(err, KL_EINPUT, "%.4g strings of one spin; at most %d are supported", n,
                                   INT32_MAX - 1);
}

static kl_status all_strings(const kl_det_spec *spec, int spin, bag *to, kl_err *err)
{
    kl_status st = KL_OK;
    const int nelec = spin == 0 ? spec->nalpha : spec->nbeta, top = top_level(spec);
    if (spec->full) {
        KL_TRY(check_number(binomial(spec->norb, nelec), err));
        uint64_t x = orbitals(nelec);
        do {
            KL_TRY(bag_add(to, x, err));
            x = next_choice(x, spec->norb);
        } while (x != 0);
        goto out;
    }
    double n = 0; /* of a reference; all of them have the same */
    for (int k = 0; k <= top && k <= nelec; k++) n += binomial(nelec, k) * binomial(spec->norb - nelec, k);
    KL_TRY(check_number(n, err));
    for (int r = 0; r < spec->nref; r++)
        for (int k = 0; k <= top && k <= nelec; k++)
            KL_TRY(excite(to, spec->ref[r][spin], spec->norb, k, err));
out:
    return st;
}

static kl_status fill_full(kl_detspace *s, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(&s->row_off, s->a->n + 1, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&s->row_first, s->a->n, KL_MEM_MATRIX, err));
    for (int64_t ia = 0; ia < s->a->n; ia++) {
        const int gb = s->a->irrep[ia] ^ s->target;
        s->row_first[ia] = s->b->first[gb];
        s->row_off[ia + 1] = s->row_off[ia] + s->b->first[gb + 1] - s->b->first[gb];
    }
    s->n = s->row_off[s->a->n];
out:
    return st;
}

/* Beta strings of one reference by level and irrep: bucket[level * 8 + irrep] .. [+ 1] of list. */
typedef struct buckets {
    int64_t *first; /* [(nelec + 1) * 8 + 1] */
    int32_t *list;
} buckets;

static kl_status make_buckets(const kl_det_spec *spec, const kl_strings *b, int ref, buckets *out,
                              kl_err *err)
{
    kl_status st = KL_OK;
    const int n = (b->nelec + 1) * 8;
    int64_t *fill = NULL;
    KL_TRY(kl_alloc(&out->first, n + 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&out->list, b->n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&fill, n + 1, KL_MEM_WORK, err));
    for (int64_t i = 0; i < b->n; i++)
        out->first[count_bits(b->bits[i] & ~spec->ref[ref][1]) * 8 + b->irrep[i] + 1]++;
    for (int k = 0; k < n; k++) fill[k + 1] = out->first[k + 1] += out->first[k];
    for (int64_t i = 0; i < b->n; i++)
        out->list[fill[count_bits(b->bits[i] & ~spec->ref[ref][1]) * 8 + b->irrep[i]]++] = (int32_t)i;
out:
    kl_free(&fill);
    return st;
}

static int by_index(const void *x, const void *y)
{
    const int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    return (a > b) - (a < b);
}

static kl_status fill_listed(const kl_det_spec *spec, kl_detspace *s, kl_err *err)
{
    kl_status st = KL_OK;
    buckets *bucket = NULL;
    uint8_t *level = NULL;
    int64_t place[2 * KL_DET_MAX_ORB + 2] = {0}, room = 0;
    const kl_strings *const b = s->b;
    KL_TRY(kl_alloc(&s->row_off, s->a->n + 1, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&bucket, spec->nref, KL_MEM_WORK, err));
    for (int r = 0; r < spec->nref; r++) KL_TRY(make_buckets(spec, b, r, &bucket[r], err));
    for (int64_t ia = 0; ia < s->a->n; ia++) {
        const uint64_t alpha = s->a->bits[ia];
        const int gb = s->a->irrep[ia] ^ s->target;
        int64_t n = s->row_off[ia];
        for (int r = 0; r < spec->nref; r++) {
            const int ka = count_bits(alpha & ~spec->ref[r][0]);
            for (int kb = 0; kb <= b->nelec; kb++) {
                if (!has_level(spec, ka + kb)) continue;
                const int64_t from = bucket[r].first[kb * 8 + gb], to = bucket[r].first[kb * 8 + gb + 1];
                if (n + (to - from) > room) {
                    room = 2 * (n + to - from) + 1024;
                    KL_TRY(kl_realloc(&s->row_beta, room, KL_MEM_MATRIX, err));
                }
                for (int64_t i = from; i < to; i++) {
                    const uint64_t beta = b->bits[bucket[r].list[i]];
                    int before = 0;
                    while (before < r && !allowed(spec, before, alpha, beta)) before++;
                    if (before == r) s->row_beta[n++] = bucket[r].list[i];
                }
            }
        }
        if (n - s->row_off[ia] > 1)
            qsort(s->row_beta + s->row_off[ia], (size_t)(n - s->row_off[ia]), sizeof(int32_t), by_index);
        s->row_off[ia + 1] = n;
        if (n > INT32_MAX - 1)
            KL_TRY(kl_fail(
                err, KL_EINPUT,
                "more than %d determinants in a listed space; a lower level or an active space is needed",
                INT32_MAX - 1));
    }
    s->n = s->row_off[s->a->n];
    KL_TRY(kl_realloc(&s->row_beta, s->n, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&s->row_pos, s->n, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&s->det_a, s->n, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&s->det_b, s->n, KL_MEM_MATRIX, err));
    KL_TRY(kl_alloc(&level, s->n, KL_MEM_WORK, err));
    for (int64_t ia = 0; ia < s->a->n; ia++)
        for (int64_t k = s->row_off[ia]; k < s->row_off[ia + 1]; k++) {
            int least = 2 * KL_DET_MAX_ORB;
            for (int r = 0; r < spec->nref; r++) {
                const int l = level_of(spec, r, s->a->bits[ia], b->bits[s->row_beta[k]]);
                if (l < least && has_level(spec, l)) least = l;
            }
            level[k] = (uint8_t)least;
            s->level_count[least]++;
            if (least >= s->nlevel) s->nlevel = least + 1;
        }
    for (int l = 0; l < s->nlevel; l++) place[l + 1] = place[l] + s->level_count[l];
    for (int64_t ia = 0; ia < s->a->n; ia++)
        for (int64_t k = s->row_off[ia]; k < s->row_off[ia + 1]; k++) {
            const int64_t at = place[level[k]]++;
            s->row_pos[k] = (int32_t)at;
            s->det_a[at] = (int32_t)ia;
            s->det_b[at] = s->row_beta[k];
        }
out:
    for (int r = 0; r < spec->nref && bucket != NULL; r++) {
        kl_free(&bucket[r].first);
        kl_free(&bucket[r].list);
    }
    kl_free(&bucket);
    kl_free(&level);
    return st;
}

kl_status kl_detspace_create(const kl_det_spec *spec, int nthread, kl_detspace **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_detspace *s = NULL;
    bag alpha = {0}, beta = {0};
    *out = NULL;
    KL_TRY(check(spec, err));
    KL_TRY(kl_alloc(&s, 1, KL_MEM_MISC, err));
    s->norb = spec->norb;
    s->nalpha = spec->nalpha;
    s->nbeta = spec->nbeta;
    s->nirrep = spec->nirrep;
    s->target = spec->target;
    s->full = spec->full;
    KL_TRY(all_strings(spec, 0, &alpha, err));
    KL_TRY(all_strings(spec, 1, &beta, err));
    KL_TRY(strings_create(spec, spec->nalpha, &alpha, nthread, &s->a, err));
    KL_TRY(strings_create(spec, spec->nbeta, &beta, nthread, &s->b, err));
    if (spec->full) KL_TRY(fill_full(s, err));
    else KL_TRY(fill_listed(spec, s, err));
    *out = s;
    s = NULL;
out:
    kl_free(&alpha.bits);
    kl_free(&beta.bits);
    kl_detspace_destroy(&s);
    return st;
}

void kl_detspace_destroy(kl_detspace **space)
{
    kl_detspace *s = *space;
    if (s == NULL) return;
    strings_destroy(&s->a);
    strings_destroy(&s->b);
    kl_free(&s->row_off);
    kl_free(&s->row_first);
    kl_free(&s->row_beta);
    kl_free(&s->row_pos);
    kl_free(&s->det_a);
    kl_free(&s->det_b);
    kl_free(space);
}

void kl_detspace_at(const kl_detspace *s, int64_t i, int64_t *ia, int64_t *ib)
{
    if (!s->full) {
        *ia = s->det_a[i];
        *ib = s->det_b[i];
        return;
    }
    int64_t low = 0, high = s->a->n; /* row_off[low] <= i < row_off[high] */
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (s->row_off[middle] <= i) low = middle;
        else high = middle;
    }
    *ia = low;
    *ib = s->row_first[low] + (i - s->row_off[low]);
}

int64_t kl_detspace_find(const kl_detspace *s, uint64_t alpha, uint64_t beta)
{
    const int64_t ia = kl_strings_find(s->a, alpha), ib = kl_strings_find(s->b, beta);
    if (ia < 0 || ib < 0) return -1;
    int64_t low = s->row_off[ia], high = s->row_off[ia + 1];
    if (s->full)
        return ib >= s->row_first[ia] && ib - s->row_first[ia] < high - low ? low + ib - s->row_first[ia]
                                                                            : -1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (s->row_beta[middle] == ib) return s->row_pos[middle];
        if (s->row_beta[middle] < ib) low = middle + 1;
        else high = middle;
    }
    return -1;
}

/* ---------------------------------------------------------------- numbers without lists */

typedef unsigned __int128 huge; /* 2^128 is above binomial(64, 32)^2 */

enum { NE = KL_DET_MAX_ORB + 1 };

/* way[nelec][level][irrep]: numbers of strings; level: electrons outside of ref. */
static kl_status string_ways(const kl_det_spec *spec, uint64_t ref, huge **out, kl_err *err)
{
    kl_status st = KL_OK;
    huge *w = NULL;
    KL_TRY(kl_alloc(&w, (int64_t)NE * NE * 8, KL_MEM_WORK, err));
    w[0] = 1;
    for (int p = 0; p < spec->norb; p++) {
        const int outside = !(ref >> p & 1), g = spec->irrep != NULL ? spec->irrep[p] : 0;
        for (int n = p; n >= 0; n--)
            for (int k = n; k >= 0; k--)
                for (int i = 0; i < 8; i++)
                    w[((n + 1) * NE + k + outside) * 8 + (i ^ g)] += w[(n * NE + k) * 8 + i];
    }
    *out = w;
out:
    return st;
}

/* Determinants with na, nb electrons by level; every irrep or one. */
static void combine(const huge *a, const huge *b, int na, int nb, int target, huge level[2 * NE])
{
    for (int l = 0; l < 2 * NE; l++) level[l] = 0;
    if (na < 0 || nb < 0 || na >= NE || nb >= NE) return;
    for (int ka = 0; ka <= na; ka++)
        for (int kb = 0; kb <= nb; kb++)
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++)
                    if (target < 0 || (i ^ j) == target)
                        level[ka + kb] += a[(na * NE + ka) * 8 + i] * b[(nb * NE + kb) * 8 + j];
}

kl_status kl_det_levels(const kl_det_spec *spec, int target, int *nlevel,
                        double count[2 * KL_DET_MAX_ORB + 1], double csf[2 * KL_DET_MAX_ORB + 1], kl_err *err)
{
    kl_status st = KL_OK;
    huge *a = NULL, *b = NULL, low[2 * NE], high[2 * NE];
    KL_TRY(check(spec, err));
    if (spec->nref < 1) KL_TRY(kl_fail(err, KL_EINPUT, "levels need a reference"));
    KL_TRY(string_ways(spec, spec->ref[0][0], &a, err));
    KL_TRY(string_ways(spec, spec->ref[0][1], &b, err));
    combine(a, b, spec->nalpha, spec->nbeta, target, low);
    combine(a, b, spec->nalpha + 1, spec->nbeta - 1, target, high);
    *nlevel = 1;
    for (int l = 0; l <= 2 * KL_DET_MAX_ORB; l++) {
        count[l] = (double)low[l];
        if (csf != NULL) csf[l] = (double)(low[l] - high[l]);
        if (low[l] > 0) *nlevel = l + 1;
    }
out:
    kl_free(&a);
    kl_free(&b);
    return st;
}

kl_status kl_detspace_count(const kl_det_spec *spec, int64_t *out, kl_err *err)
{
    kl_status st = KL_OK;
    double all = 0, level[2 * KL_DET_MAX_ORB + 1];
    KL_TRY(check(spec, err));
    for (int r = 0; r < (spec->full ? 1 : spec->nref); r++) {
        int nlevel = 0;
        kl_det_spec one = *spec;
        const uint64_t lowest[1][2] = {{orbitals(spec->nalpha), orbitals(spec->nbeta)}};
        one.ref = spec->full ? lowest : spec->ref + r;
        one.nref = 1;
        KL_TRY(kl_det_levels(&one, spec->target, &nlevel, level, NULL, err));
        for (int l = 0; l < nlevel; l++)
            if (spec->full || has_level(spec, l)) all += level[l];
    }
    *out = all < 0x1p62 ? (int64_t)all : -1;
out:
    return st;
}
