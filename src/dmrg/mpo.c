/* The one-pass cover: see mpo.h. Outline:
   1. every term is a chain of suffix nodes (site, operator, rest), shared between terms; what is kept of one
      (shift, parity, adjoint) is in the
      symbolic records of its term; each node knows its adjoint node;
   2. of each adjoint pair of terms one is followed, `hc` says that the other belongs to it;
   3. at each site a term splits into u = (operator kept at the last cut) x (site operator) and v = the rest;
      u and v stand for themselves and their adjoints;
   4. a minimum vertex cover of the graph of these u and v says what is kept: u itself, or the sum of all u
      that share a v;
   5. what was kept gives path records (a, o, b), from which the growth of left and of right blocks follows by
      rule.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/mpo.h"
#include "base/mem.h"
#include "dmrg/channel.h"
#include "dmrg/opsums.h"
#include "phase.h"
#include <stdlib.h>
#include <string.h>

typedef struct node { /* operator string that starts at `pos`; node 0 is the empty one */
    int pos, op, next;
    int kept;         /* kl_terms_kept */
    int adj;          /* node of the adjoint string */
    double adj_coef;  /* string^+ = adj_coef * string(adj) */
    int odd;
    int rank; /* of the whole string; what is on its left has the same */
    kl_qn shift;
} node;

typedef struct live { /* a term, as seen from a cut: coef * L_a^(dag) * string(v), and its adjoint if hc */
    int a, dag, v;
    double coef;
    int hc;
} live;

typedef struct edge { /* a live term split at a site: u * string(v) */
    int u, v;         /* vertices */
    int vdag;         /* the string is the adjoint of vertex v's */
    double coef;
    int hc;
} edge;

typedef struct left_vertex {
    int a, dag, op;
    int rank; /* to which L_a^(dag) and the site's operator are coupled */
} left_vertex;

typedef struct path { /* coef * L_a^(adag) o R_b^(bdag), and its adjoint if hc */
    int a, adag, op, b, bdag;
    double coef;
    int hc;
} path;

typedef struct build {
    const kl_terms *t;
    kl_mpo *m;
    int64_t nnode, cap_node;
    node *node;
    int64_t nhash; /* power of two */
    int *hash;     /* node index + 1 */
    int64_t nlive, cap_live, cap_next;
    live *live, *next;
    int64_t nnext;
    int64_t npath, cap_path;
    path *path;
    int64_t cap_grow;
    kl_err *err;
} build;

static kl_status grow_array(void **p, int64_t need, int64_t *cap, size_t size, kl_err *err)
{
    if (need <= *cap) return KL_OK;
    const int64_t n = need > 2 * *cap ? need + 64 : 2 * *cap;
    const kl_status st = kl_realloc_bytes(p, n, size, KL_MEM_RECORD, err);
    if (st == KL_OK) *cap = n;
    return st;
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 33);
}

static uint64_t key_of(int pos, int op, int next, int rank)
{
    return mix(mix(((uint64_t)(uint32_t)pos << 32) | (uint32_t)op) ^ (uint32_t)next) + (uint64_t)rank;
}

/* A~~ = (-1)^2k A: the sign of the adjoint's adjoint. */
static int twice(const kl_cut_op *a, int dag) { return dag && !a->self && a->rank % 2 != 0 ? -1 : 1; }

static const kl_site_op *site_op(const build *b, int pos, int op) { return &b->t->type[pos]->op[op]; }

/* 1. The node (pos, op, next), made if it is new. kept: what is kept of it. */
static kl_status intern(build *b, int pos, int op, int next, int kept, int *out)
{
    kl_status st = KL_OK;
    const kl_kept *const k = kl_terms_kept(b->t, kept);
    KL_TRY(grow_array((void **)&b->node, b->nnode + 1, &b->cap_node, sizeof *b->node, b->err));
    if (2 * (b->nnode + 1) > b->nhash) {
        kl_free(&b->hash);
        b->nhash = b->nhash ? 2 * b->nhash : 1024;
        KL_TRY(kl_alloc(&b->hash, b->nhash, KL_MEM_RECORD, b->err));
        for (int64_t i = 1; i < b->nnode; i++) {
            const node *const n = &b->node[i];
            uint64_t h = key_of(n->pos, n->op, n->next, n->rank);
            while (b->hash[h & (uint64_t)(b->nhash - 1)]) h++;
            b->hash[h & (uint64_t)(b->nhash - 1)] = (int)i + 1;
        }
    }
    uint64_t h = key_of(pos, op, next, k->rank);
    for (;; h++) {
        const int at = b->hash[h & (uint64_t)(b->nhash - 1)];
        if (!at) break;
        const node *const n = &b->node[at - 1];
        if (n->pos == pos && n->op == op && n->next == next && n->rank == k->rank) {
            *out = at - 1;
            return KL_OK;
        }
    }
    b->node[b->nnode] = (node){.pos = pos,
                               .op = op,
                               .next = next,
                               .kept = kept,
                               .adj = -1,
                               .adj_coef = k->adjoint_factor,
                               .odd = k->odd,
                               .rank = k->rank,
                               .shift = kl_qn_of(b->m->model, k->shift)};
    b->hash[h & (uint64_t)(b->nhash - 1)] = (int)b->nnode + 1;
    *out = (int)b->nnode++;
out:
    return st;
}

static kl_status intern_adjoint(build *b, int x)
{
    kl_status st = KL_OK;
    if (b->node[x].adj >= 0) return KL_OK;
    const int next = b->node[x].next, pos = b->node[x].pos;
    KL_TRY(intern_adjoint(b, next)); /* depth: operators of one term */
    int adj;
    KL_TRY(intern(b, pos, site_op(b, pos, b->node[x].op)->adjoint, b->node[next].adj,
                  kl_terms_kept(b->t, b->node[x].kept)->adjoint, &adj));
    b->node[x].adj = adj;
    b->node[adj].adj = x;
out:
    return st;
}

/* 2. All terms as live terms on cut 0, one of each adjoint pair. */
static kl_status start(build *b)
{
    kl_status st = KL_OK;
    const kl_terms *const t = b->t;
    KL_TRY(grow_array((void **)&b->node, 1, &b->cap_node, sizeof *b->node, b->err));
    b->node[0] = (node){.pos = -1, .adj = 0, .adj_coef = 1};
    b->nnode = 1;
    KL_TRY(grow_array((void **)&b->live, t->nterm, &b->cap_live, sizeof *b->live, b->err));
    for (int64_t i = 0; i < t->nterm; i++) {
        const kl_term *const term = &t->term[i];
        int x = 0;
        for (int k = term->nop - 1; k >= 0; k--)
            KL_TRY(intern(b, t->op[term->first + k].pos, t->op[term->first + k].op, x,
                          t->rest[term->first + k], &x));
        KL_TRY(intern_adjoint(b, x));
        if (b->node[x].adj < x) continue; /* its adjoint is followed instead */
        b->live[b->nlive++] = (live){.v = x, .coef = term->coef, .hc = b->node[x].adj != x};
    }
out:
    return st;
}

typedef struct graph {
    int nl, nr;
    int64_t ne;
    left_vertex *l;     /* [nl], canonical */
    int *lself;         /* [nl]: 0 or the sign of u^+ = +-u */
    int *v;             /* [nr] canonical node */
    int *node_vertex;   /* [nnode]: vertex + 1 */
    edge *e;
    int64_t *first;     /* [nl + 1]: edges sorted by left vertex */
    int *match_l, *match_r, *dist, *queue;
    int64_t *cursor;
    char *cover_l, *cover_r;
} graph;

static void graph_clear(graph *g)
{
    kl_free(&g->l);
    kl_free(&g->lself);
    kl_free(&g->v);
    kl_free(&g->node_vertex);
    kl_free(&g->e);
    kl_free(&g->first);
    kl_free(&g->match_l);
    kl_free(&g->match_r);
    kl_free(&g->dist);
    kl_free(&g->queue);
    kl_free(&g->cursor);
    kl_free(&g->cover_l);
    kl_free(&g->cover_r);
    *g = (graph){0};
}

/* u^+ for u = L_a^(dag) o: *adj = canonical form of its adjoint, returned sign s with u^+ = s * adj. */
static double left_adjoint(const build *b, int p, left_vertex u, left_vertex *adj)
{
    const kl_cut_op *const a = &b->m->op[p][u.a];
    const kl_site_op *const o = site_op(b, p, u.op);
    *adj = (left_vertex){u.a, a->self ? 0 : !u.dag, o->adjoint, u.rank};
    return (a->self ? a->self : 1) * o->adjoint_factor * kl_phase_exchange(a->odd, o->odd) * twice(a, u.dag);
}

static int left_cmp(left_vertex x, left_vertex y)
{
    if (x.a != y.a) return x.a < y.a ? -1 : 1;
    if (x.dag != y.dag) return x.dag < y.dag ? -1 : 1;
    if (x.op != y.op) return x.op < y.op ? -1 : 1;
    return x.rank < y.rank ? -1 : x.rank > y.rank;
}

typedef struct split {
    left_vertex u;
    int v, vdag;
    double coef;
    int hc;
} split;

static int split_cmp(const void *pa, const void *pb)
{
    const split *const a = pa, *const b = pb;
    const int c = left_cmp(a->u, b->u);
    if (c) return c;
    if (a->v != b->v) return a->v < b->v ? -1 : 1;
    return a->vdag - b->vdag;
}

/* 3. Splits the live terms at site p into a bipartite graph on adjoint pairs. */
static kl_status make_graph(build *b, int p, graph *g)
{
    kl_status st = KL_OK;
    split *s = NULL;
    KL_TRY(kl_alloc(&s, b->nlive, KL_MEM_RECORD, b->err));
    for (int64_t i = 0; i < b->nlive; i++) {
        const live *const t = &b->live[i];
        const int here = b->node[t->v].pos == p, rest = here ? b->node[t->v].next : t->v;
        split x = {.u = {t->a, t->dag, here ? b->node[t->v].op : KL_OP_IDENTITY, b->node[rest].rank},
                   .v = rest,
                   .coef = t->coef,
                   .hc = t->hc};
        left_vertex adj;
        const double f = left_adjoint(b, p, x.u, &adj);
        const int c = left_cmp(x.u, adj), vadj = b->node[x.v].adj;
        /* (u v)^+ = (+-) u^+ v^+ */
        const double sign = f * b->node[x.v].adj_coef * kl_phase_exchange(b->node[x.v].odd, b->node[x.v].odd);
        if (x.hc && (c > 0 || (c == 0 && vadj < x.v))) x.u = adj, x.v = vadj, x.coef *= sign;
        if (b->node[x.v].adj < x.v) x.v = b->node[x.v].adj, x.vdag = 1;
        s[i] = x;
    }
    qsort(s, (size_t)b->nlive, sizeof *s, split_cmp);
    KL_TRY(kl_alloc(&g->e, b->nlive, KL_MEM_RECORD, b->err));
    KL_TRY(kl_alloc(&g->l, b->nlive, KL_MEM_RECORD, b->err));
    KL_TRY(kl_alloc(&g->lself, b->nlive, KL_MEM_RECORD, b->err));
    KL_TRY(kl_alloc(&g->v, b->nlive, KL_MEM_RECORD, b->err));
    KL_TRY(kl_alloc(&g->node_vertex, b->nnode, KL_MEM_RECORD, b->err));
    for (int64_t i = 0; i < b->nlive; i++) {
        if (i == 0 || left_cmp(s[i].u, s[i - 1].u)) {
            left_vertex adj;
            const double f = left_adjoint(b, p, s[i].u, &adj);
            g->l[g->nl] = s[i].u;
            g->lself[g->nl++] = left_cmp(adj, s[i].u) ? 0 : f > 0 ? 1 : -1;
        }
        int *const nv = &g->node_vertex[s[i].v];
        if (!*nv) {
            g->v[g->nr] = s[i].v;
            *nv = ++g->nr;
        }
        edge e = {.u = g->nl - 1, .v = *nv - 1, .vdag = s[i].vdag, .coef = s[i].coef, .hc = s[i].hc};
        /* now with respect to the adjoint of the vertex's own string */
        if (e.vdag) e.coef /= b->node[s[i].v].adj_coef;
        g->e[g->ne++] = e;
    }
    KL_TRY(kl_alloc(&g->first, g->nl + 1, KL_MEM_RECORD, b->err));
    for (int64_t i = g->ne - 1; i >= 0; i--) g->first[g->e[i].u] = i;
    g->first[g->nl] = g->ne;
out:
    kl_free(&s);
    return st;
}

/* 4. Minimum vertex cover by Hopcroft-Karp and Koenig's theorem. The two vertices that mean "not begun" and
   "done" are always in it, so that 1 and the Hamiltonian of each side are among the operators of every
   cut. */
static kl_status cover(build *b, int p, graph *g)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(&g->match_l, g->nl, KL_MEM_RECORD, b->err));
    KL_TRY(kl_alloc(&g->match_r, g->nr, KL_MEM_RECORD, b->err));
    KL_TRY(kl_alloc(&g->dist, g->nl, KL_MEM_RECORD, b->err));
    KL_TRY(kl_alloc(&g->queue, (int64_t)g->nl + g->nr, KL_MEM_RECORD, b->err));
    KL_TRY(kl_alloc(&g->cursor, g->nl, KL_MEM_RECORD, b->err));
    KL_TRY(kl_alloc(&g->cover_l, g->nl, KL_MEM_RECORD, b->err));
    KL_TRY(kl_alloc(&g->cover_r, g->nr, KL_MEM_RECORD, b->err));
    int forced_l = -1;
    const int forced_r = g->node_vertex[0] - 1;
    for (int u = 0; u < g->nl; u++) {
        g->match_l[u] = -1;
        if (g->l[u].op == KL_OP_IDENTITY && b->m->op[p][g->l[u].a].left_identity) forced_l = u;
    }
    for (int v = 0; v < g->nr; v++) g->match_r[v] = -1;
    if (forced_l >= 0) g->cover_l[forced_l] = 1;
    if (forced_r >= 0) g->cover_r[forced_r] = 1;
    for (;;) {
        int head = 0, tail = 0, found = 0;
        for (int u = 0; u < g->nl; u++) {
            g->dist[u] = g->match_l[u] < 0 && u != forced_l ? 0 : -1;
            if (g->dist[u] == 0) g->queue[tail++] = u;
            g->cursor[u] = g->first[u];
        }
        while (head < tail) {
            const int u = g->queue[head++];
            for (int64_t i = g->first[u]; i < g->first[u + 1]; i++) {
                const int v = g->e[i].v;
                if (v == forced_r) continue;
                const int w = g->match_r[v];
                if (w < 0) found = 1;
                else if (g->dist[w] < 0) g->dist[w] = g->dist[u] + 1, g->queue[tail++] = w;
            }
        }
        if (!found) break;
        for (int root = 0; root < g->nl; root++) {
            if (g->match_l[root] >= 0 || root == forced_l) continue;
            int depth = 0; /* augmenting path, kept in queue */
            g->queue[depth++] = root;
            while (depth) {
                const int u = g->queue[depth - 1];
                int64_t i = g->cursor[u];
                for (; i < g->first[u + 1]; i++) {
                    const int v = g->e[i].v;
                    if (v == forced_r) continue;
                    const int w = g->match_r[v];
                    if (w < 0 || g->dist[w] == g->dist[u] + 1) break;
                }
                g->cursor[u] = i;
                if (i == g->first[u + 1]) {
                    g->dist[u] = -1;
                    if (--depth) g->cursor[g->queue[depth - 1]]++;
                    continue;
                }
                const int v = g->e[i].v, w = g->match_r[v];
                if (w >= 0) {
                    g->queue[depth++] = w;
                    continue;
                }
                for (int k = depth - 1; k >= 0; k--) {
                    const int x = g->queue[k], y = g->e[g->cursor[x]].v;
                    g->match_l[x] = y;
                    g->match_r[y] = x;
                }
                break;
            }
        }
    }
    /* Koenig: from free left vertices along alternating paths; cover = left not reached, right reached */
    int head = 0, tail = 0;
    for (int u = 0; u < g->nl; u++) {
        g->dist[u] = g->match_l[u] < 0 && u != forced_l ? 0 : -1;
        if (g->dist[u] == 0) g->queue[tail++] = u;
    }
    while (head < tail) {
        const int u = g->queue[head++];
        for (int64_t i = g->first[u]; i < g->first[u + 1]; i++) {
            const int v = g->e[i].v;
            if (v == forced_r || g->cover_r[v]) continue;
            g->cover_r[v] = 1;
            const int w = g->match_r[v];
            if (w >= 0 && g->dist[w] < 0) g->dist[w] = 0, g->queue[tail++] = w;
        }
    }
    for (int u = 0; u < g->nl; u++)
        if (u != forced_l && g->dist[u] < 0 && g->match_l[u] >= 0) g->cover_l[u] = 1;
out:
    return st;
}

static kl_status add_live(build *b, live t)
{
    const kl_status st = grow_array((void **)&b->next, b->nnext + 1, &b->cap_next, sizeof *b->next, b->err);
    if (st == KL_OK) b->next[b->nnext++] = t;
    return st;
}

static kl_status add_path(build *b, path r)
{
    const kl_status st = grow_array((void **)&b->path, b->npath + 1, &b->cap_path, sizeof *b->path, b->err);
    if (st == KL_OK) b->path[b->npath++] = r;
    return st;
}

/* Operators of cut p+1, path records of site p, and the live terms that go on. */
static kl_status advance(build *b, int p, graph *g)
{
    kl_status st = KL_OK;
    kl_mpo *const m = b->m;
    const kl_model *const model = m->model;
    int *op_l = NULL, *op_r = NULL, n = 0;
    KL_TRY(kl_alloc(&op_l, g->nl, KL_MEM_RECORD, b->err));
    KL_TRY(kl_alloc(&op_r, g->nr, KL_MEM_RECORD, b->err));
    KL_TRY(kl_alloc(&m->op[p + 1], (int64_t)g->nl + g->nr, KL_MEM_RECORD, b->err));
    b->npath = 0;
    b->nnext = 0;
    for (int u = 0; u < g->nl; u++) {
        if (!g->cover_l[u]) continue;
        const left_vertex x = g->l[u];
        const edge *const e = &g->e[g->first[u]];
        /* of any term that u is the left part of */
        const node *const rest = &b->node[e->vdag ? b->node[g->v[e->v]].adj : g->v[e->v]];
        op_l[u] = n;
        m->op[p + 1][n] = (kl_cut_op){.shift = kl_qn_sub(model, kl_qn_zero(), rest->shift),
                                      .odd = rest->odd,
                                      .rank = x.rank,
                                      .self = g->lself[u],
                                      .left_identity = m->op[p][x.a].left_identity && x.op == KL_OP_IDENTITY};
        KL_TRY(add_path(b, (path){x.a, x.dag, x.op, n, 0, 1.0, !g->lself[u]}));
        n++;
    }
    for (int v = 0; v < g->nr; v++) {
        if (!g->cover_r[v]) continue;
        const node *const x = &b->node[g->v[v]];
        const int self = x->adj == g->v[v] ? (x->adj_coef > 0 ? 1 : -1) : 0;
        op_r[v] = n;
        /* L v is Hermitian when v = +-v^+: (L v)^+ = v^+ L^+ */
        m->op[p + 1][n] = (kl_cut_op){.shift = kl_qn_sub(model, kl_qn_zero(), x->shift),
                                      .odd = x->odd,
                                      .rank = x->rank,
                                      .self = self * kl_phase_exchange(x->odd, x->odd),
                                      .right_identity = g->v[v] == 0};
        KL_TRY(add_live(b, (live){n, 0, g->v[v], 1.0, !self}));
        n++;
    }
    for (int64_t i = 0; i < g->ne; i++) {
        const edge *const e = &g->e[i];
        const left_vertex x = g->l[e->u];
        const int v = g->v[e->v];
        if (g->cover_l[e->u])
            KL_TRY(add_live(b, (live){op_l[e->u], 0, e->vdag ? b->node[v].adj : v,
                                      e->vdag ? e->coef * b->node[v].adj_coef : e->coef, e->hc}));
        else KL_TRY(add_path(b, (path){x.a, x.dag, x.op, op_r[e->v], e->vdag, e->coef, e->hc}));
    }
    m->nop[p + 1] = n;
out:
    kl_free(&op_l);
    kl_free(&op_r);
    return st;
}

typedef struct half { /* a growth record with the operator it belongs to */
    int out;
    kl_grow g;
} half;

static int half_cmp(const void *pa, const void *pb)
{
    const half *const a = pa, *const b = pb;
    if (a->out != b->out) return a->out < b->out ? -1 : 1;
    if (a->g.in != b->g.in) return a->g.in < b->g.in ? -1 : 1;
    if (a->g.dag != b->g.dag) return a->g.dag - b->g.dag;
    return a->g.op - b->g.op;
}

static kl_status store(build *b, half *h, int64_t n, kl_grow_list *list)
{
    kl_status st = KL_OK;
    kl_mpo *const m = b->m;
    qsort(h, (size_t)n, sizeof *h, half_cmp);
    KL_TRY(grow_array((void **)&m->grow, m->ngrow + n, &b->cap_grow, sizeof *m->grow, b->err));
    for (int64_t i = 0; i < n; i++) {
        kl_grow_list *const l = &list[h[i].out];
        if (l->n && !half_cmp(&h[i], &h[i - 1])) {
            m->grow[m->ngrow - 1].coef += h[i].g.coef;
            continue;
        }
        if (!l->n) l->first = m->ngrow;
        l->n++;
        m->grow[m->ngrow++] = h[i].g;
    }
out:
    return st;
}

/* Sign of L_b^T = +-L_b, or of R_b^T = +-R_b: L_b R_b is Hermitian as a whole. 0 when not self-adjoint. */
static int self_of(const kl_cut_op *op, int right)
{
    return right ? op->self * kl_phase_exchange(op->odd, op->odd) : op->self;
}

/* 5. A path record stands for x = coef * A o B (and x^+ if hc), A = L_a^(adag), B = R_b^(bdag). L grown is
   what multiplies R_b, R grown is what multiplies L_a; where that factor appears adjoint, x^+ is used
   instead of x, and where it is self-adjoint, both count. */
static kl_status derive(build *b, int p)
{
    kl_status st = KL_OK;
    kl_mpo *const m = b->m;
    half *h = NULL;
    KL_TRY(kl_alloc(&h, 2 * b->npath, KL_MEM_RECORD, b->err));
    /* 0: left blocks, grown operator b; 1: right blocks, grown operator a */
    for (int side = 0; side < 2; side++) {
        int64_t n = 0;
        for (int64_t i = 0; i < b->npath; i++) {
            const path *const r = &b->path[i];
            const kl_cut_op *const a = &m->op[p][r->a], *const bb = &m->op[p + 1][r->b];
            const kl_site_op *const o = site_op(b, p, r->op);
            const int odd[3] = {a->odd, o->odd, bb->odd};
            const kl_cut_op *const fixed = side ? a : bb, *const in = side ? bb : a;
            const int fixed_dag = side ? r->adag : r->bdag, in_dag = side ? r->bdag : r->adag;
            const int out = side ? r->a : r->b, from = side ? r->b : r->a;
            /* x^+ = sign * A^+ o^+ B^+; of A^+ or B^+ a self-adjoint one gives back its sign */
            const double sign = kl_phase_adjoint(3, odd) * o->adjoint_factor *
                                (in->self ? self_of(in, side) : 1) * twice(in, in_dag) *
                                twice(fixed, fixed_dag);
            const kl_grow plain = {from, in_dag, r->op, r->coef};
            const kl_grow mirrored = {from, in->self ? 0 : !in_dag, o->adjoint, r->coef * sign};
            if (fixed->self) {
                h[n++] = (half){out, plain};
                if (r->hc) {
                    h[n] = (half){out, mirrored};
                    h[n++].g.coef *= self_of(fixed, !side);
                }
            } else h[n++] = (half){out, fixed_dag ? mirrored : plain};
        }
        const int count = side ? m->nop[p] : m->nop[p + 1];
        kl_grow_list **const list = side ? &m->right[p] : &m->left[p];
        KL_TRY(kl_alloc(list, count, KL_MEM_RECORD, b->err));
        KL_TRY(store(b, h, n, *list));
    }
out:
    kl_free(&h);
    return st;
}

kl_status kl_mpo_create(const kl_terms *t, kl_mpo **out, kl_err *err)
{
    kl_status st = KL_OK;
    build b = {.t = t, .err = err};
    graph g = {0};
    kl_mpo *m = NULL;
    KL_TRY(kl_alloc(&m, 1, KL_MEM_RECORD, err));
    b.m = m;
    m->model = t->model;
    m->nsite = t->nsite;
    m->constant = t->constant;
    KL_TRY(kl_alloc(&m->type, t->nsite, KL_MEM_RECORD, err));
    memcpy(m->type, t->type, (size_t)t->nsite * sizeof *m->type);
    KL_TRY(kl_alloc(&m->nop, t->nsite + 1, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&m->op, t->nsite + 1, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&m->left, t->nsite, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&m->right, t->nsite, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&m->op[0], 1, KL_MEM_RECORD, err));
    m->op[0][0] = (kl_cut_op){.self = 1, .left_identity = 1};
    m->nop[0] = 1;
    KL_TRY(start(&b));
    for (int p = 0; p < t->nsite; p++) {
        KL_TRY(make_graph(&b, p, &g));
        KL_TRY(cover(&b, p, &g));
        KL_TRY(advance(&b, p, &g));
        KL_TRY(derive(&b, p));
        live *const swap = b.live;
        const int64_t cap = b.cap_live;
        b.live = b.next, b.cap_live = b.cap_next, b.nlive = b.nnext;
        b.next = swap, b.cap_next = cap;
        graph_clear(&g);
    }
    for (int k = 0; k <= t->nsite; k++)
        if (m->nop[k] > m->nop_max) m->nop_max = m->nop[k];
    if (kl_model_spin(m->model) >= 0) KL_TRY(kl_channels_make(m, err));
    KL_TRY(kl_alloc(&m->left_sums, t->nsite, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&m->right_sums, t->nsite, KL_MEM_RECORD, err));
    for (int p = 0; p < t->nsite; p++) {
        KL_TRY(kl_opsums_create(m, 1, p, &m->left_sums[p], err));
        KL_TRY(kl_opsums_create(m, 0, p, &m->right_sums[p], err));
    }
out:
    graph_clear(&g);
    kl_free(&b.node);
    kl_free(&b.hash);
    kl_free(&b.live);
    kl_free(&b.next);
    kl_free(&b.path);
    if (st != KL_OK) kl_mpo_destroy(&m);
    *out = m;
    return st;
}

void kl_mpo_destroy(kl_mpo **pm)
{
    kl_mpo *const m = *pm;
    if (!m) return;
    for (int p = 0; m->op && p <= m->nsite; p++) kl_free(&m->op[p]);
    for (int p = 0; m->left && p < m->nsite; p++) kl_free(&m->left[p]);
    for (int p = 0; m->right && p < m->nsite; p++) kl_free(&m->right[p]);
    for (int p = 0; m->left_sums && p < m->nsite; p++) kl_opsums_clear(&m->left_sums[p]);
    for (int p = 0; m->right_sums && p < m->nsite; p++) kl_opsums_clear(&m->right_sums[p]);
    kl_free(&m->left_sums);
    kl_free(&m->right_sums);
    kl_free(&m->type);
    kl_free(&m->nop);
    kl_free(&m->op);
    kl_free(&m->left);
    kl_free(&m->right);
    kl_free(&m->grow);
    kl_free(pm);
}
