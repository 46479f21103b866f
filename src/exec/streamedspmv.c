/* Products with a stored matrix that a device has no room for (streamed.h): groups of rows, each laid out for
   the device as if it were a matrix by itself. Those that fit stay on the device. Of the others the layout
   lies far, and comes as one run of memory into one of two buffers, for which its addresses were made.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/streamedbase.h"
#include "base/mem.h"
#include "base/prof.h"

#include <string.h>

enum {
    TURN = 2,
    ALIGN = 32 /* doubles: where arrays of a layout begin */
};

typedef struct rows_group {
    kl_spmat sizes; /* what a product asks of a matrix but its arrays */
    kl_spmv s;
    int64_t first;
    kl_dptr far; /* addr 0: it stays on the device */
    int64_t n;
    int turn;
} rows_group;

/* What stands in a kl_spmv. */
typedef struct streamed_spmv {
    int ngroup, nfar;
    rows_group *group; /* those that stay first */
    kl_dptr buffer[TURN];
    int64_t each; /* doubles of a buffer */
    int ahead, come[TURN]; /* the first far groups are on their way already */
    kl_dptr x, y; /* far vectors: [nvec][ncol] and [nvec][nrow] on the device */
    int nvec, asked; /* vectors that there is room for, and that room was wanted for */
} streamed_spmv;

/* ---------------------------------------------------------------- laying out */

/* An executor that gives out a buffer of the device, while what is written there is collected on the host. */
typedef struct collector {
    kl_exec ex; /* first */
    kl_dptr buffer;
    int64_t used, each;
    double *data;
} collector;

static kl_status collect_alloc(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err)
{
    collector *const c = (collector *)(void *)ex;
    kl_status st = KL_OK;
    const int64_t end = c->used + (n + ALIGN - 1) / ALIGN * ALIGN;
    if (end > c->each)
        return kl_fail(err, KL_ENOMEM, "rows of a matrix take more than a buffer of %lld bytes",
                       (long long)c->each * (long long)sizeof(double));
    KL_TRY(kl_realloc(&c->data, end, KL_MEM_MATRIX, err));
    memset(c->data + c->used, 0, (size_t)(end - c->used) * sizeof(double));
    *out = kl_dptr_at(c->buffer, c->used);
    c->used = end;
out:
    return st;
}

static kl_status collect_upload(kl_exec *ex, kl_dptr dst, const double *src, int64_t n, kl_err *err)
{
    const collector *const c = (collector *)(void *)ex;
    (void)err;
    memcpy(c->data + (dst.addr - c->buffer.addr) / sizeof(double), src, (size_t)n * sizeof(double));
    return KL_OK;
}

static void collect_release(kl_exec *ex, kl_dptr *p)
{
    (void)ex;
    p->addr = 0;
}

static collector collect_on(kl_exec *device, const streamed_spmv *p, int turn)
{
    collector c = {.ex = *device, .buffer = p->buffer[turn], .each = p->each};
    c.ex.vt.alloc = collect_alloc;
    c.ex.vt.upload = collect_upload;
    c.ex.vt.release = collect_release;
    return c;
}

static void forget_arrays(kl_spmat *m)
{
    m->value = m->rest_value = NULL;
    m->column = m->rest_column = m->slice_off = m->start = m->end = NULL;
    m->length = m->order = NULL;
}

/* Rows [first, last) as a group, on the device (turn < 0) or far. */
static kl_status make_group(kl_exec *device, const kl_spmv *whole, streamed_spmv *p, int64_t first,
                            int64_t last, int turn, kl_err *err)
{
    kl_status st = KL_OK;
    kl_spmat *part = NULL;
    rows_group *const g = &p->group[p->ngroup];
    collector c = collect_on(device, p, turn < 0 ? 0 : turn);
    kl_exec *const by = turn < 0 ? device : &c.ex;
    KL_TRY(kl_spmat_rows(whole->m, first, last, &part, err));
    g->sizes = *part;
    g->first = first;
    g->turn = turn;
    g->s = (kl_spmv){
        .ex = device, .m = part, .way = whole->way, .threads = whole->threads, .products = whole->products};
    KL_TRY(device->vt.spmv_prepare(by, &g->s, err));
    forget_arrays(&g->sizes);
    g->s.m = &g->sizes;
    p->ngroup++;
    if (turn < 0) goto out;
    p->nfar++;
    g->n = c.used;
    KL_TRY(device->vt.alloc_far(device, g->n, &g->far, err));
    memcpy((double *)g->far.addr, c.data, (size_t)g->n * sizeof(double));
out:
    if (st != KL_OK && g->s.plan) device->vt.spmv_release(by, &g->s);
    kl_free(&c.data);
    kl_spmat_destroy(&part);
    return st;
}

/* ---------------------------------------------------------------- making */

static void take_apart(kl_exec *device, streamed_spmv *p)
{
    for (int t = 0; t < p->ahead; t++) device->vt.join(device, p->come[t], 1);
    for (int i = 0; p->group && i < p->ngroup; i++) {
        rows_group *const g = &p->group[i];
        collector c = collect_on(device, p, 0);
        if (g->s.plan) device->vt.spmv_release(g->turn < 0 ? device : &c.ex, &g->s);
        if (g->far.addr) device->vt.release(device, &g->far);
    }
    for (int t = 0; t < TURN; t++)
        if (p->buffer[t].addr) device->vt.release(device, &p->buffer[t]);
    if (p->x.addr) device->vt.release(device, &p->x);
    if (p->y.addr) device->vt.release(device, &p->y);
    kl_free(&p->group);
    kl_free(&p);
}

/* Bytes of rows before row i, laid out, about: padding and what stands beside values are counted in. */
static double bytes_before(const kl_spmat *m, int64_t i)
{
    return 16.0 * (double)kl_sp_offset(m, m->start, i) + 32.0 * (double)i;
}

/* The first row behind `first` with `bytes` between them; one row at least, a multiple of 32 where it can
   be. */
static int64_t row_after(const kl_spmat *m, int64_t first, double bytes)
{
    int64_t low = first + 1, high = m->nrow;
    const double from = bytes_before(m, first);
    while (low < high) {
        const int64_t mid = low + (high - low + 1) / 2;
        if (bytes_before(m, mid) - from <= bytes) low = mid;
        else high = mid - 1;
    }
    const int64_t even = low / 32 * 32;
    return low >= m->nrow ? m->nrow : even > first ? even : low;
}

/* With buffers of `each` doubles, and at most `stay` bytes of the matrix on the device. */
static kl_status make(kl_exec *device, const kl_spmv *whole, int64_t each, double stay, streamed_spmv **out,
                      kl_err *err)
{
    kl_status st = KL_OK;
    const kl_spmat *const m = whole->m;
    const double bytes = (double)each * (double)sizeof(double);
    streamed_spmv *p = NULL;
    KL_TRY(kl_alloc(&p, 1, KL_MEM_MISC, err));
    p->each = each;
    for (int t = 0; t < TURN; t++) KL_TRY(device->vt.alloc(device, each, &p->buffer[t], err));
    const int all = bytes_before(m, m->nrow) <= stay;
    for (int64_t first = 0, last; first < m->nrow; first = last) {
        last = all ? m->nrow : row_after(m, first, bytes);
        /* half of it, for other matrices may be yet to come */
        const int stays = all || bytes_before(m, last) <= stay / 2;
        KL_TRY(kl_realloc(&p->group, p->ngroup + 1, KL_MEM_MISC, err));
        p->group[p->ngroup] = (rows_group){.first = first};
        KL_TRY(make_group(device, whole, p, first, last, stays ? -1 : p->nfar % TURN, err));
    }
    /* the array has moved since */
    for (int i = 0; i < p->ngroup; i++) p->group[i].s.m = &p->group[i].sizes;
    *out = p;
    return KL_OK;
out:
    if (p) take_apart(device, p);
    return st;
}

static void tell(const streamed_spmv *p, const kl_spmat *m, kl_streamed_facts *f)
{
    f->npiece = p->nfar;
    f->x_bytes = f->far ? (double)m->ncol * (double)sizeof(double) : 0;
    f->y_bytes = f->far ? (double)m->nrow * (double)sizeof(double) : 0;
    f->matrix_bytes = 0;
    for (int i = 0; i < p->ngroup && p->nfar > TURN; i++)
        f->matrix_bytes += (double)p->group[i].n * (double)sizeof(double);
    const int64_t first = p->nfar > 0 ? p->group[p->ngroup - p->nfar].first : m->nrow;
    f->resident = p->nfar > 0 ? bytes_before(m, first) / bytes_before(m, m->nrow) : 1;
}

kl_status kl_streamed_spmv_prepare(kl_exec *ex, kl_spmv *s, kl_err *err)
{
    enum {
        PART = 16, /* of the device's memory for a buffer */
        MOST = 256 << 20, /* bytes of it */
        LEAST = 1 << 10 /* doubles */
    };
    kl_streamed *const w = kl_streamed_of(ex);
    kl_exec *const device = w->device;
    kl_status st = KL_OK;
    streamed_spmv *p = NULL;
    if (s->m->format != KL_SP_CSR || s->m->symmetric)
        return kl_fail(err, KL_EABSENT,
                       "--exec %s: the device has no room for the matrix, whose rows come by from the host; "
                       "allowed then: --format csr, all of it (without --half)",
                       device->name);
    const int64_t room = device->vt.room(device),
                  vectors =
                      w->facts.far ? (s->m->nrow + s->m->ncol) * (int64_t)sizeof(double) * 9 / 8 : w->keep,
                  left = room > vectors ? room - vectors : 0, part = left / PART < MOST ? left / PART : MOST;
    int64_t each = part / (int64_t)sizeof(double) / ALIGN * ALIGN;
    for (;; each = each / 2 / ALIGN * ALIGN) {
        if (each < LEAST) each = LEAST;
        const double stay = (double)left - 3.0 * (double)each * (double)sizeof(double);
        st = make(device, s, each, stay, &p, err);
        if (st != KL_ENOMEM || each == LEAST) break;
    }
    if (st != KL_OK) return st;
    s->plan = p;
    s->way = p->ngroup > 0 ? p->group[0].s.way : s->way;
    tell(p, s->m, &w->facts);
    return KL_OK;
}

void kl_streamed_spmv_release(kl_exec *ex, kl_spmv *s)
{
    if (s->plan) take_apart(kl_streamed_of(ex)->device, s->plan);
    s->plan = NULL;
}

/* ---------------------------------------------------------------- the product */

static void load(kl_exec *d, streamed_spmv *p, int far, int how)
{
    const rows_group *const g = &p->group[p->ngroup - p->nfar + far];
    p->come[far % TURN] = d->vt.copy_async(d, g->n, g->far, p->buffer[far % TURN], how);
}

static void load_first(kl_exec *d, streamed_spmv *p)
{
    for (p->ahead = 0; p->ahead < TURN && p->ahead < p->nfar; p->ahead++)
        load(d, p, p->ahead, p->ahead == 0 ? KL_COPY_AFTER : 0);
}

/* Copies alone and work alone, for reports, of one vector on the device; together they cost about what a
   product does. A group is multiplied only where it is in its buffer, so the clock stands still while it
   comes. */
static kl_status measure(kl_streamed *w, streamed_spmv *p, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy,
                         kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const d = w->device;
    const int near = p->ngroup - p->nfar;
    double copies = 0, work = 0;
    const double began = kl_prof_seconds();
    for (int i = 0; i < p->ngroup; i++) {
        double start = kl_prof_seconds();
        if (i >= near) load(d, p, i - near, KL_COPY_AFTER);
        if (i >= near) d->vt.join(d, p->come[(i - near) % TURN], 1);
        kl_streamed_settle(d, x);
        copies += kl_prof_seconds() - start;
        for (int round = 0; round < (i == 0 ? 2 : 1); round++) { /* code comes to the device in the first */
            start = kl_prof_seconds();
            KL_TRY(
                d->vt.spmv_apply(d, &p->group[i].s, 1, x, ldx, kl_dptr_at(y, p->group[i].first), ldy, err));
            kl_streamed_settle(d, x);
            if (i > 0 || round > 0) work += kl_prof_seconds() - start;
        }
    }
    w->facts.copies = p->nfar > TURN ? copies : 0;
    w->facts.work = work;
    w->facts.measuring += kl_prof_seconds() - began;
out:
    return st;
}

/* y[nvec][ldy] = A x[nvec][ldx], both on the device. */
static kl_status apply_near(kl_streamed *w, streamed_spmv *p, int nvec, kl_dptr x, int64_t ldx, kl_dptr y,
                            int64_t ldy, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const d = w->device;
    if (w->facts.work == 0) KL_TRY(measure(w, p, x, ldx, y, ldy, err));
    if (p->ahead == 0) load_first(d, p);
    for (int i = 0; i < p->ngroup; i++) {
        rows_group *const g = &p->group[i];
        const int far = i - (p->ngroup - p->nfar);
        if (far >= 0) d->vt.join(d, p->come[far % TURN], 0);
        /* one by one: a block of vectors would want a copy of them for every group */
        for (int v = 0; v < nvec; v++)
            KL_TRY(d->vt.spmv_apply(d, &g->s, 1, kl_dptr_at(x, v * ldx), ldx,
                                    kl_dptr_at(y, v * ldy + g->first), ldy, err));
        if (far >= 0 && far + TURN < p->nfar) load(d, p, far + TURN, KL_COPY_AFTER);
    }
    if (p->nfar > TURN) load_first(d, p); /* else they stay */
out:
    return st;
}

/* Room on the device for as many far vectors as are multiplied at a time: nvec at most, one at least. */
static kl_status take_vectors(kl_exec *d, streamed_spmv *p, const kl_spmat *m, int nvec, kl_err *err)
{
    if (p->asked >= nvec) return KL_OK;
    kl_status st = KL_OK;
    if (p->x.addr) d->vt.release(d, &p->x);
    if (p->y.addr) d->vt.release(d, &p->y);
    for (p->nvec = nvec;; p->nvec /= 2) {
        st = d->vt.alloc(d, p->nvec * m->ncol, &p->x, err);
        if (st == KL_OK) st = d->vt.alloc(d, p->nvec * m->nrow, &p->y, err);
        if (st != KL_ENOMEM || p->nvec == 1) break;
        if (p->x.addr) d->vt.release(d, &p->x);
    }
    if (st != KL_OK) p->nvec = 0;
    p->asked = p->nvec > 0 ? nvec : 0;
    return st;
}

kl_status kl_streamed_spmv_apply(kl_exec *ex, kl_spmv *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y,
                                 int64_t ldy, kl_err *err)
{
    kl_status st = KL_OK;
    kl_streamed *const w = kl_streamed_of(ex);
    kl_exec *const d = w->device;
    streamed_spmv *const p = s->plan;
    const kl_spmat *const m = s->m;
    if (!w->facts.far) return apply_near(w, p, nvec, x, ldx, y, ldy, err);
    KL_TRY(take_vectors(d, p, m, nvec, err));
    for (int from = 0; from < nvec; from += p->nvec) {
        const int some = nvec - from < p->nvec ? nvec - from : p->nvec;
        int ticket = -1;
        for (int v = 0; v < some; v++)
            ticket = d->vt.copy_async(d, m->ncol, kl_dptr_at(x, (from + v) * ldx),
                                      kl_dptr_at(p->x, v * m->ncol), KL_COPY_AFTER);
        d->vt.join(d, ticket, 0);
        KL_TRY(apply_near(w, p, some, p->x, m->ncol, p->y, m->nrow, err));
        for (int v = 0; v < some; v++)
            ticket = d->vt.copy_async(d, m->nrow, kl_dptr_at(p->y, v * m->nrow),
                                      kl_dptr_at(y, (from + v) * ldy), KL_COPY_AFTER);
        d->vt.join(d, ticket, 1);
    }
out:
    return st;
}
