/* Beginnings and ends of operator strings in a hash: see measurenodes.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/measurenodes.h"
#include "base/mem.h"

static uint64_t key_of(const kl_node *n)
{
    uint64_t x = ((uint64_t)(uint32_t)n->pos << 40) ^ ((uint64_t)(uint32_t)n->op << 32) ^ (uint32_t)n->other;
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 29) ^ (uint32_t)n->rank) * 0x9e3779b97f4a7c15ULL;
    return x ^ (x >> 29);
}

static kl_status rehash(kl_nodes *s, kl_err *err)
{
    kl_free(&s->hash);
    s->nhash = s->nhash > 0 ? 2 * s->nhash : 1024;
    const kl_status st = kl_alloc(&s->hash, s->nhash, KL_MEM_WORK, err);
    for (int i = 0; st == KL_OK && i < s->n; i++) {
        uint64_t h = key_of(&s->list[i]);
        while (s->hash[h & (uint64_t)(s->nhash - 1)] != 0) h++;
        s->hash[h & (uint64_t)(s->nhash - 1)] = i + 1;
    }
    return st;
}

kl_status kl_nodes_find(kl_nodes *s, const kl_node *x, int *out, kl_err *err)
{
    kl_status st = KL_OK;
    if (2 * ((int64_t)s->n + 1) > s->nhash) KL_TRY(rehash(s, err));
    uint64_t h = key_of(x);
    for (; s->hash[h & (uint64_t)(s->nhash - 1)] != 0; h++) {
        const int i = s->hash[h & (uint64_t)(s->nhash - 1)] - 1;
        const kl_node *const y = &s->list[i];
        *out = i;
        if (y->pos == x->pos && y->op == x->op && y->other == x->other && y->rank == x->rank) return KL_OK;
    }
    if (s->n == s->room) {
        s->room = 2 * s->room + 256;
        KL_TRY(kl_realloc(&s->list, s->room, KL_MEM_WORK, err));
    }
    s->list[s->n] = *x;
    s->hash[h & (uint64_t)(s->nhash - 1)] = s->n + 1;
    *out = s->n++;
out:
    return st;
}

void kl_nodes_keep(kl_nodes *s)
{
    for (int i = s->n - 1; i >= 0; i--) {
        const kl_node *const x = &s->list[i];
        if (x->other >= 0 && s->list[x->other].until < x->pos) s->list[x->other].until = x->pos;
    }
}

void kl_nodes_clear(kl_nodes *s)
{
    kl_free(&s->list);
    kl_free(&s->hash);
    s->n = 0;
}
