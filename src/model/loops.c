/* Closed paths of bonds: see kl_lattice_loops.
   SPDX-License-Identifier: Apache-2.0 */
#include "model/lattice.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"

enum {
    MOST_LENGTH = 8,
    MOST_LOOP = 10000000,
};

typedef struct search {
    const kl_lattice *lat;
    int length, *first, *neighbour; /* of site i: neighbour[first[i] .. first[i + 1]) */
    int path[MOST_LENGTH];
    int n, room, *site;
} search;

/* Neighbours of every site by bonds of the class; a pair that two bonds join counts once. */
static kl_status list_neighbours(const kl_lattice *lat, int cls, search *s, kl_err *err)
{
    kl_status st = KL_OK;
    int *filled = NULL;
    KL_TRY(kl_alloc(&s->first, lat->nsite + 1, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&filled, lat->nsite, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&s->neighbour, 2 * (int64_t)lat->nbond + 1, KL_MEM_WORK, err));
    for (int pass = 0; pass < 2; pass++) {
        for (int b = 0; b < lat->nbond; b++) {
            const kl_bond *const bond = &lat->bond[b];
            int member = 0;
            for (int c = 0; c < bond->nclass; c++) member |= bond->cls[c] == cls;
            for (int end = 0; end < 2 && member; end++) {
                const int from = end ? bond->j : bond->i, to = end ? bond->i : bond->j;
                int known = 0;
                if (pass == 0) s->first[from + 1]++;
                for (int k = 0; pass == 1 && k < filled[from]; k++)
                    known |= s->neighbour[s->first[from] + k] == to;
                if (pass == 1) s->neighbour[s->first[from] + filled[from]++] = known ? -1 : to;
            }
        }
        for (int i = 0; pass == 0 && i < lat->nsite; i++) s->first[i + 1] += s->first[i];
    }
out:
    kl_free(&filled);
    return st;
}

/* 1: the path leads around a ring, a cylinder or a torus. */
static int winds(const search *s)
{
    double sum[2] = {0, 0}, step[2];
    for (int k = 0; k < s->length && s->lat->has_xy; k++) {
        kl_lattice_step(s->lat, s->path[k], s->path[(k + 1) % s->length], step);
        sum[0] += step[0];
        sum[1] += step[1];
    }
    return hypot(sum[0], sum[1]) > 1e-6;
}

static kl_status keep(search *s, kl_err *err)
{
    kl_status st = KL_OK;
    if (winds(s)) return KL_OK;
    if (s->n == MOST_LOOP) return kl_fail(err, KL_EINPUT, "these are more than ten million closed paths");
    if (s->n == s->room) {
        s->room = 2 * s->room + 64;
        KL_TRY(kl_realloc(&s->site, (int64_t)s->room * s->length, KL_MEM_WORK, err));
    }
    memcpy(s->site + (int64_t)s->n++ * s->length, s->path, sizeof(int) * (size_t)s->length);
out:
    return st;
}

/* All paths that go on from path[0 .. depth), the first site of which is the lowest. */
static kl_status go_on(search *s, int depth, kl_err *err)
{
    kl_status st = KL_OK;
    const int at = s->path[depth - 1];
    for (int k = s->first[at]; k < s->first[at + 1]; k++) {
        const int to = s->neighbour[k];
        int seen = to <= s->path[0];
        if (depth == s->length && to == s->path[0] && s->path[1] < s->path[s->length - 1])
            KL_TRY(keep(s, err));
        for (int l = 1; l < depth; l++) seen |= s->path[l] == to;
        if (seen || depth == s->length) continue;
        assert(depth < MOST_LENGTH);
        s->path[depth] = to;
        KL_TRY(go_on(s, depth + 1, err));
    }
out:
    return st;
}

kl_status kl_lattice_loops(const kl_lattice *lat, int cls, int length, int *n, int **site, kl_err *err)
{
    kl_status st = KL_OK;
    search s = {.lat = lat, .length = length};
    *n = 0;
    *site = NULL;
    if (length < 3 || length > MOST_LENGTH)
        return kl_fail(err, KL_EINPUT, "a closed path of %d bonds; 3 to %d are possible", length,
                       MOST_LENGTH);
    KL_TRY(list_neighbours(lat, cls, &s, err));
    for (int i = 0; i < lat->nsite; i++) {
        s.path[0] = i;
        KL_TRY(go_on(&s, 1, err));
    }
    *n = s.n;
    *site = s.site;
    s.site = NULL;
out:
    kl_free(&s.first);
    kl_free(&s.neighbour);
    kl_free(&s.site);
    return st;
}
