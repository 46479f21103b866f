/* One-site centres: see onesite.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/onesite.h"
#include "base/mem.h"
#include "base/prof.h"
#include "comm/ranks.h"
#include "dmrg/engineroom.h"
#include "dmrg/renorm.h"
#include "dmrg/sectorfill.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHARE = 10, /* states added: those kept over this, */
    LEAST = 8,  /* and no fewer than these, in addition to those by which m grows; */
    GROWTH = 24, /* at most as many as are known, and this number more */
    /* states of a sector from which a copy of operators and two narrow products take less time than all */
    WORTH_KNOWN = 128,
};

/* A block as if it were an enlarged one: its operators have one part each. */
static kl_status bare_basis(const kl_basis *b, kl_enlarged **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_enlarged *e = NULL;
    KL_TRY(kl_alloc(&e, 1, KL_MEM_MISC, err));
    KL_TRY(kl_basis_copy(b, &e->basis, err));
out:
    if (st != KL_OK) kl_enlarged_destroy(&e);
    *out = e;
    return st;
}

static kl_status bare_operators(const kl_block *b, const kl_enlarged *bare, kl_bigop **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_bigop *g = NULL;
    const int n = b->basis.nsec;
    const int64_t all = (int64_t)b->nop * n;
    KL_TRY(kl_alloc(&g, 1, KL_MEM_RECORD, err));
    *g = (kl_bigop){.block = b, .enlarged = bare, .cut = b->cut, .nop = b->nop};
    KL_TRY(kl_alloc(&g->dst, all, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&g->src, all, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&g->first, all + 1, KL_MEM_RECORD, err));
    KL_TRY(kl_alloc(&g->part, all, KL_MEM_RECORD, err));
    g->cap_part = all;
    memcpy(g->dst, b->dst, (size_t)all * sizeof *g->dst);
    memcpy(g->src, b->src, (size_t)all * sizeof *g->src);
    for (int64_t at = 0; at < all; at++) {
        const int from = (int)(at % n), to = b->dst[at];
        g->first[at] = g->npart;
        if (to < 0) continue;
        g->part[g->npart++] = (kl_part){.nrow = b->basis.dim[to],
                                        .ncol = b->basis.dim[from],
                                        .ld = b->basis.dim[to],
                                        .off = b->off[at],
                                        .coef = 1};
    }
    g->first[all] = g->npart;
out:
    if (st != KL_OK) kl_bigop_destroy(&g);
    *out = g;
    return st;
}

kl_status kl_onesite_bare(const kl_block *b, kl_enlarged **basis, kl_bigop **op, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(bare_basis(&b->basis, basis, err));
    KL_TRY(bare_operators(b, *basis, op, err));
out:
    return st;
}

/* Wavefunctions from one form to the other. */
typedef struct kl_reform {
    const kl_onesite *one;
    const kl_layout *two, *narrow;
    int back; /* 1: to two sites */
} kl_reform;

/* psi times the isometry of the absorbed site, or times its transpose. */
static kl_status reform(const kl_engine *e, const kl_reform *t, kl_dptr from, kl_dptr to, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_isometry *const iso = t->one->iso;
    const kl_layout *const in = t->back ? t->narrow : t->two, *const out = t->back ? t->two : t->narrow;
    const int left = t->one->side == KL_LEFT, back = t->back;
    const kl_basis *const other = left ? &e->col->basis : &e->row->basis;
    kl_batch q;
    kl_batch_init(&q);
    for (int v = 0; v < e->nstate; v++)
        for (int k = 0; k < iso->basis.nsec; k++) {
            const int c = iso->sec[k], wide = iso->enlarged->basis.dim[c], few = iso->basis.dim[k];
            /* row sectors of the segment in the two forms */
            const int i1 = left ? k : t->narrow->back[k], i2 = left ? c : t->two->back[c];
            if (i1 < 0 || i2 < 0 || t->narrow->pair[i1] < 0 || t->two->pair[i2] < 0) continue;
            const int high = other->dim[left ? t->narrow->pair[i1] : i1];
            const int nin = back ? few : wide, nout = back ? wide : few;
            const int64_t x = v * in->n + in->off[back ? i1 : i2], y = v * out->n + out->off[back ? i2 : i1];
            KL_TRY(kl_batch_open_group(&q, y, (int64_t)high * nout, err));
            KL_TRY(kl_batch_reserve(&q, 1, err));
            kl_rec r = {.kind = KL_REC_GEMM, .at_c = KL_AT_Y, .k = nin, .c = y, .alpha = 1};
            if (left) {
                r.ta = (uint8_t)!back;
                r.at_a = KL_AT_LEFT, r.a = iso->off[k], r.lda = wide;
                r.at_b = KL_AT_X, r.b = x, r.ldb = nin;
                r.m = r.ldc = nout, r.n = high;
            } else {
                r.tb = (uint8_t)back;
                r.at_a = KL_AT_X, r.a = x, r.lda = high;
                r.at_b = KL_AT_LEFT, r.b = iso->off[k], r.ldb = wide;
                r.m = r.ldc = high, r.n = nout;
            }
            *kl_batch_push(&q) = r;
            kl_batch_close_group(&q, 0);
        }
    if (kl_batch_written(&q) < e->nstate * out->n) e->ex->vt.fill(e->ex, e->nstate * out->n, 0.0, to);
    q.nx = e->nstate * in->n;
    q.ny = e->nstate * out->n;
    q.base[KL_AT_LEFT] = t->one->data;
    KL_TRY(kl_batch_run(&q, e->ex, from, to, err));
out:
    kl_batch_clear(&q);
    return st;
}

static void clear(const kl_engine *e, kl_onesite **pone)
{
    kl_onesite *const one = *pone;
    if (!one) return;
    kl_enlarged_destroy(&one->enlarged);
    kl_layout_clear(&one->layout);
    kl_isometry_destroy(&one->iso);
    e->ex->vt.release(e->ex, &one->data);
    kl_block_destroy(&one->block);
    kl_free(pone);
}

void kl_onesite_destroy(kl_engine *e) { clear(e, &e->one); }

/* The same of wavefunctions that are there in the basis `before` of the isometry that the absorbed site had,
   whose states are the first of its basis now. */
static kl_status widen(const kl_engine *e, kl_side side, const kl_basis *before, const kl_basis *bare,
                       const kl_layout *lay, kl_dptr to, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_layout *const in = &e->ahead.layout;
    const int left = side == KL_LEFT;
    const kl_basis *const other = left ? &e->col->basis : &e->row->basis;
    kl_batch q;
    kl_batch_init(&q);
    for (int i = 0; i < other->nsec * e->nstate; i++) {
        const int sec = i / e->nstate, v = i % e->nstate;
        const int known = left ? in->back[sec] : in->pair[sec], now = left ? lay->back[sec] : lay->pair[sec];
        if (known < 0 || now < 0) continue;
        const int64_t x = v * in->n + in->off[left ? known : sec],
                      y = v * lay->n + lay->off[left ? now : sec];
        const int states = before->dim[known];
        KL_TRY(kl_batch_open_group(&q, y, (int64_t)other->dim[sec] * bare->dim[now], err));
        KL_TRY(kl_batch_reserve(&q, 1, err));
        *kl_batch_push(&q) = (kl_rec){.kind = KL_REC_ADD,
                                      .at_a = KL_AT_X,
                                      .at_c = KL_AT_Y,
                                      .m = left ? states : other->dim[sec],
                                      .n = left ? other->dim[sec] : states,
                                      .lda = left ? states : other->dim[sec],
                                      .ldc = left ? bare->dim[now] : other->dim[sec],
                                      .a = x,
                                      .c = y,
                                      .alpha = 1};
        kl_batch_close_group(&q, 0);
    }
    e->ex->vt.fill(e->ex, e->nstate * lay->n, 0.0, to);
    q.nx = e->nstate * in->n, q.ny = e->nstate * lay->n;
    KL_TRY(kl_batch_run(&q, e->ex, e->ahead.psi, to, err));
out:
    kl_batch_clear(&q);
    return st;
}

/* The centre becomes one of a single site: *pone has the isometry of the other one and its side, and is taken
   over. psi: the wavefunctions in the new form, on the host, or NULL: they are projected. */
static kl_status install(kl_engine *e, kl_onesite **pone, const double *psi, int64_t npsi, kl_err *err)
{
    kl_status st = KL_OK;
    kl_onesite *const one = *pone;
    const int left = one->side == KL_LEFT;
    kl_enlarged *bare = NULL;
    kl_bigop *op = NULL;
    kl_layout lay = {0};
    kl_dptr to = {0};
    const kl_isometry *const before = e->warm ? e->warm : one->iso; /* taken as it was: nothing was added */
    if (!e->warm && e->warm_block) {
        one->block = e->warm_block;
        e->warm_block = NULL;
    } else
        KL_TRY(kl_block_grow_on(e->ex, left ? e->row_op : e->col_op, one->iso, one->data, e->warm_block,
                                WORTH_KNOWN, &one->block, err));
    KL_TRY(kl_onesite_bare(one->block, &bare, &op, err));
    KL_TRY(kl_layout_create(e->terms->model, left ? &bare->basis : &e->row->basis,
                            left ? &e->col->basis : &bare->basis, e->target, &lay, err));
    KL_TRY(e->ex->vt.alloc(e->ex, lay.n * e->nstate, &to, err));
    if (psi && npsi != lay.n) {
        st = kl_fail(err, KL_EBROKEN, "the saved wavefunction has %lld numbers in its narrow form, not %lld",
                     (long long)npsi, (long long)lay.n);
        goto out;
    }
    if (psi) KL_TRY(e->ex->vt.upload(e->ex, to, psi, lay.n * e->nstate, err));
    else if (e->ahead.psi.addr) KL_TRY(widen(e, one->side, &before->basis, &bare->basis, &lay, to, err));
    else {
        const kl_reform t = {.one = one, .two = &e->layout, .narrow = &lay, .back = 0};
        KL_TRY(reform(e, &t, e->psi, to, err));
    }
    kl_onesite_forget(e);
    /* nothing fails from here on */
    kl_enlarged **const basis = left ? &e->row : &e->col;
    kl_bigop **const ops = left ? &e->row_op : &e->col_op;
    kl_bigop_destroy(ops);
    kl_bigop_destroy(&e->dense[left ? KL_LEFT : KL_RIGHT]);
    one->enlarged = *basis;
    one->layout = e->layout;
    *basis = bare, *ops = op, e->layout = lay;
    bare = NULL, op = NULL, lay = (kl_layout){0};
    e->ex->vt.release(e->ex, &e->psi);
    e->psi = to;
    to.addr = 0;
    e->one = one;
    *pone = NULL;
    kl_engine_settle(e);
out:
    kl_bigop_destroy(&op);
    kl_enlarged_destroy(&bare);
    kl_layout_clear(&lay);
    e->ex->vt.release(e->ex, &to);
    return st;
}

int kl_onesite_more(int m, int64_t known)
{
    const int64_t growth = m > known ? m - known : 0, spare = m / SHARE > LEAST ? m / SHARE : LEAST;
    const int64_t most = known + GROWTH;
    return (int)(growth + spare < most ? growth + spare : most);
}

int kl_onesite_keeps_all(const kl_engine *e, const kl_trunc_opts *o)
{
    const kl_isometry *const iso = e->one ? e->one->iso : NULL;
    const int spare = o->m / KL_MORE, full = o->full || e->ex->space == KL_SPACE_DEVICE;
    if (!iso || o->noise > 0 || o->discard > 0 || o->fill) return 0;
    for (int k = 0; k < iso->basis.nsec; k++)
        if (iso->basis.dim[k] < iso->enlarged->basis.dim[iso->sec[k]]) return 0;
    return iso->basis.total >= o->m - spare && iso->basis.total <= o->m + (full ? spare : 0);
}

/* Doubles on the executor that an expansion takes at a time beside its isometries, about: rows of a sector's
   sketch meet every operator of the other side and its transpose; the sketch, a copy of it, and what is made
   of it. */
static int64_t sketch_doubles(const kl_engine *e, const kl_basis *near, int more)
{
    const double rows = 8.0 + (near->nsec > 0 ? 1.2 * more / near->nsec : 0.0);
    return (int64_t)(rows * (double)near->total * (2.0 * e->mpo->nop[e->centre + 1] + 4.0 * e->nstate));
}

/* The centre's operators, on the device where it has so many bytes besides. What a solve leaves of it is
   looked at when the site is absorbed. */
static kl_status operators_to_absorb(kl_engine *e, int64_t bytes, kl_err *err)
{
    e->absorb_bytes = bytes;
    const kl_status st = kl_engine_make_operators(e, err);
    e->absorb_bytes = 0;
    return st;
}

/* 1: there is a site ahead whose basis is known. */
static int may_absorb(const kl_engine *e, int direction)
{
    return !e->one && e->warm && e->warm_side == (direction > 0 ? KL_RIGHT : KL_LEFT) &&
           e->centre != (direction > 0 ? e->nsite - 2 : 0);
}

kl_status kl_onesite_absorb(kl_engine *e, int direction, int m, int measure, uint64_t seed,
                            kl_expand_info *info, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_side side = direction > 0 ? KL_RIGHT : KL_LEFT;
    kl_onesite *one = NULL;
    *info = (kl_expand_info){0};
    if (!may_absorb(e, direction)) return KL_OK;
    const double t0 = kl_prof_seconds();
    const int more = kl_onesite_more(m, e->warm->basis.total);
    const int64_t isometries = 2 * e->warm->ndata + e->layout.n * e->nstate,
                  sketch = sketch_doubles(e, side == KL_LEFT ? &e->col->basis : &e->row->basis, more);
    kl_engine_make_room(e, 9 * isometries);
    KL_TRY(operators_to_absorb(e, 9 * (isometries + sketch), err));
    KL_TRY(kl_alloc(&one, 1, KL_MEM_MISC, err));
    one->side = side;
    const kl_expand_opts o = {.side = side,
                              .wave = kl_engine_wave(e),
                              .nstate = e->nstate,
                              .nlight = e->nstate > e->nwanted ? e->nstate - e->nwanted : 0,
                              .near = side == KL_LEFT ? e->col_op : e->row_op,
                              .far = side == KL_LEFT ? e->row_op : e->col_op,
                              .known = {e->warm, e->warm_data},
                              .more = more,
                              .full = e->full || e->ex->space == KL_SPACE_DEVICE,
                              .measure = measure,
                              .seed = seed};
    KL_TRY(kl_expand(e->ex, &o, &one->iso, &one->data, info, err));
    e->ex->vt.release(e->ex, &e->warm_data);
    st = install(e, &one, NULL, 0, err);
    kl_isometry_destroy(&e->warm); /* without its data it is none, whatever became of the centre */
    KL_TRY(st);
    e->seconds[KL_PART_GROW] += kl_prof_seconds() - t0;
out:
    clear(e, &one);
    return st;
}

kl_status kl_onesite_look_at(const kl_terms *t, int last, int *centre, kl_err *err)
{
    kl_status st = KL_OK;
    const int middle = t->nsite / 2 - 1;
    int64_t *over = NULL; /* terms between sites c and c + 1, at first how many more than before c */
    *centre = middle < last ? middle : last;
    KL_TRY(kl_alloc(&over, t->nsite, KL_MEM_WORK, err));
    for (int64_t i = 0; i < t->nterm; i++) {
        const kl_op_at *const op = t->op + t->term[i].first;
        over[op[0].pos]++;
        over[op[t->term[i].nop - 1].pos]--;
    }
    for (int c = 1; c < t->nsite; c++) over[c] += over[c - 1];
    for (int c = 0; c <= last; c++) {
        const int64_t more = over[c] - over[*centre];
        if (more > 0 || (more == 0 && abs(c - middle) < abs(*centre - middle))) *centre = c;
    }
out:
    kl_free(&over);
    return st;
}

kl_status kl_onesite_look(kl_engine *e, const kl_solve_opts *o, double constant, double *energy,
                          int64_t *napply, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = e->ex;
    const int64_t n = e->layout.n * e->nstate;
    const int basis = e->max_basis;
    const kl_ahead ahead = e->ahead;
    kl_block *const block = e->warm_block;
    kl_dptr psi = {0};
    kl_eig_stats stats;
    double found[KL_MAX_STATE], residual[KL_MAX_STATE];
    KL_TRY(ex->vt.alloc(ex, n, &psi, err));
    ex->vt.copy(ex, n, e->psi, psi);
    memcpy(residual, e->residual, sizeof residual);
    /* a solve forgets these */
    e->ahead = (kl_ahead){0};
    e->warm_block = NULL;
    e->max_basis = e->nstate + 2;
    st = kl_engine_solve(e, o, found, &stats, err);
    e->max_basis = basis;
    e->warm_block = block;
    e->ahead = ahead;
    for (int i = 0; st == KL_OK && i < e->nstate; i++) energy[i] = fmin(energy[i], found[i] + constant);
    if (st == KL_OK) *napply += stats.napply;
    ex->vt.copy(ex, n, psi, e->psi);
    memcpy(e->residual, residual, sizeof residual);
out:
    ex->vt.release(ex, &psi);
    return st == KL_ENOMEM && kl_ranks_size(ex) == 1 ? KL_OK : st;
}

kl_status kl_onesite_resume(kl_engine *e, const double *psi, int64_t npsi, kl_err *err)
{
    kl_status st = KL_OK;
    kl_onesite *one = NULL;
    if (!e->warm) return KL_OK;
    KL_TRY(operators_to_absorb(e, 9 * e->layout.n * e->nstate, err));
    KL_TRY(kl_alloc(&one, 1, KL_MEM_MISC, err));
    one->side = e->warm_side;
    one->iso = e->warm;
    one->data = e->warm_data;
    e->warm = NULL;
    e->warm_data.addr = 0;
    st = install(e, &one, psi, npsi, err);
    if (st != KL_OK) { /* the centre is as it was */
        e->warm = one->iso;
        e->warm_data = one->data;
        one->iso = NULL;
        one->data.addr = 0;
    }
out:
    clear(e, &one);
    return st;
}

kl_status kl_onesite_absorb_known(kl_engine *e, int direction, kl_err *err)
{
    const double t0 = kl_prof_seconds();
    const kl_status st = may_absorb(e, direction) ? kl_onesite_resume(e, NULL, 0, err) : KL_OK;
    e->seconds[KL_PART_GROW] += kl_prof_seconds() - t0;
    return st;
}

kl_status kl_onesite_lift(const kl_engine *e, kl_wave *wave, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_onesite *const one = e->one;
    *wave = kl_engine_wave(e);
    if (!one) return KL_OK;
    *(one->side == KL_LEFT ? &wave->row : &wave->col) = one->enlarged;
    wave->layout = &one->layout;
    wave->psi.addr = 0;
    KL_TRY(e->ex->vt.alloc(e->ex, one->layout.n * e->nstate, &wave->psi, err));
    const kl_reform t = {.one = one, .two = &one->layout, .narrow = &e->layout, .back = 1};
    KL_TRY(reform(e, &t, e->psi, wave->psi, err));
out:
    if (st != KL_OK) e->ex->vt.release(e->ex, &wave->psi);
    return st;
}

kl_status kl_onesite_carry(const kl_engine *e, int direction, kl_isometry_on made, kl_isometry_on opened,
                           const kl_wave *next, kl_ahead *ahead, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_onesite *const one = e->one;
    const int right = direction > 0;
    const kl_wave wave = kl_engine_wave(e);
    const kl_absorbed absorbed = {one->enlarged, {one->iso, one->data}};
    KL_TRY(kl_layout_create(e->terms->model, right ? &next->row->basis : &opened.iso->basis,
                            right ? &opened.iso->basis : &next->col->basis, e->target, &ahead->layout, err));
    KL_TRY(e->ex->vt.alloc(e->ex, ahead->layout.n * e->nstate, &ahead->psi, err));
    KL_TRY(kl_wave_carry(e->ex, direction, e->nstate, &wave, &absorbed, made, right ? next->row : next->col,
                         ahead, err));
    KL_TRY(kl_wave_open(e->ex, direction, e->nstate, ahead, opened, next, err));
out:
    return st;
}

void kl_onesite_keep(kl_engine *e, kl_ahead *ahead, kl_block **b)
{
    enum { ROOM = 4 }; /* blocks that could stand there besides */
    kl_exec *const ex = e->ex;
    /* processors have a shape of their own for each product: a run that was broken off before it is used
       would go on to other bits */
    const int may = *b && ex->space == KL_SPACE_DEVICE && kl_ranks_size(ex) == 1 && !(*b)->away &&
                    !(*b)->file && !kl_exec_is_far(ex, (*b)->data);
    kl_onesite_forget(e);
    e->ahead = *ahead;
    *ahead = (kl_ahead){0};
    if (may && ex->vt.room(ex) / ROOM / (int64_t)sizeof(double) > (*b)->ndata) {
        e->warm_block = *b;
        *b = NULL;
    }
    kl_block_destroy(b);
}

void kl_onesite_forget(kl_engine *e)
{
    kl_block_destroy(&e->warm_block);
    kl_ahead_clear(e->ex, &e->ahead);
}
