/* See streamed.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/streamedbase.h"
#include "base/mem.h"
#include "base/prof.h"
#include "exec/bus.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------- vectors of the host */

static kl_status far_alloc(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err)
{
    kl_exec *const device = kl_streamed_of(ex)->device;
    return device->vt.alloc_far(device, n, out, err);
}

static void far_release(kl_exec *ex, kl_dptr *p)
{
    kl_exec *const device = kl_streamed_of(ex)->device;
    device->vt.release(device, p);
}

/* Products are the device's, all else is the host's. */
static kl_status far_explain(kl_exec *ex, const kl_call *call, kl_choice *c, kl_err *err)
{
    const kl_streamed *const s = kl_streamed_of(ex);
    const int product = call->op == KL_OP_KRON || call->op == KL_OP_SPMV || call->op == KL_OP_SIGMA;
    if (!product) {
        c->exec = s->cpu->name;
        return s->cpu->vt.explain(s->cpu, call, c, err);
    }
    const kl_status st = s->device->vt.explain(s->device, call, c, err);
    const size_t used = strlen(c->why);
    snprintf(c->why + used, sizeof c->why - used, "; vectors come by in pieces");
    return st;
}

static void streamed_close(kl_exec *ex)
{
    kl_streamed *const s = kl_streamed_of(ex);
    kl_exec_close(&s->cpu);
    kl_exec_close(&s->device);
}

/* ---------------------------------------------------------------- rates */

static kl_status measure_rates(kl_streamed *s, kl_err *err)
{
    enum {
        MOST = 1 << 23, /* doubles */
        LEAST = 1 << 12,
    };
    kl_status st = KL_OK;
    kl_exec *const ex = s->device;
    kl_dptr far = {0}, other = {0};
    kl_bus bus;
    KL_TRY(kl_bus_measure(ex, &bus, err));
    s->facts.up = bus.up, s->facts.down = bus.down;
    int64_t n = ex->vt.room(ex) / 4 / (int64_t)sizeof(double);
    if (n > MOST) n = MOST;
    if (n < LEAST) n = LEAST;
    const double bytes = (double)n * (double)sizeof(double);
    KL_TRY(ex->vt.alloc_far(ex, n, &far, err));
    KL_TRY(ex->vt.alloc_far(ex, n, &other, err));
    s->cpu->vt.fill(s->cpu, n, 0.0, far);
    double seconds = 0;
    for (int round = 0; round < 2; round++) {
        const double start = kl_prof_seconds();
        s->cpu->vt.copy(s->cpu, n, far, other);
        seconds = kl_prof_seconds() - start;
    }
    s->facts.host = bytes / seconds;
    s->facts.both = bus.both;
out:
    if (other.addr) ex->vt.release(ex, &other);
    if (far.addr) ex->vt.release(ex, &far);
    return st;
}

/* ---------------------------------------------------------------- opening */

static void fill_near(kl_streamed *s)
{
    s->ex = *s->device;
    s->ex.vt.spmv_prepare = kl_streamed_spmv_prepare;
    s->ex.vt.spmv_apply = kl_streamed_spmv_apply;
    s->ex.vt.spmv_release = kl_streamed_spmv_release;
    s->ex.vt.close = streamed_close;
}

static void fill_far(kl_streamed *s)
{
    s->ex = *s->cpu;
    s->ex.name = s->device->name;
    memcpy(s->ex.where, s->device->where, sizeof s->ex.where);
    memcpy(s->ex.chosen, s->device->chosen, sizeof s->ex.chosen);
    s->ex.vt.alloc = far_alloc;
    s->ex.vt.release = far_release;
    s->ex.vt.kron_prepare = kl_streamed_kron_prepare;
    s->ex.vt.kron_apply = kl_streamed_kron_apply;
    s->ex.vt.kron_release = kl_streamed_kron_release;
    s->ex.vt.explain = far_explain;
    s->ex.vt.kron_left = NULL;
    s->ex.vt.kron_beyond = NULL;
    s->ex.vt.spmv_prepare = kl_streamed_spmv_prepare;
    s->ex.vt.spmv_apply = kl_streamed_spmv_apply;
    s->ex.vt.spmv_release = kl_streamed_spmv_release;
    s->ex.vt.close = streamed_close;
}

kl_status kl_exec_open_streamed_take(kl_exec **device, int far, int64_t keep, kl_exec **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_streamed *s = NULL;
    kl_exec *const ex = *device;
    *out = NULL;
    KL_TRY(kl_alloc(&s, 1, KL_MEM_MISC, err));
    s->device = ex;
    s->keep = keep;
    s->pack_below = 1024;
    s->facts.far = far;
    KL_TRY(kl_exec_open_host(ex->nthread, &s->cpu, err));
    KL_TRY(measure_rates(s, err));
    if (far) fill_far(s);
    else fill_near(s);
    *device = NULL;
    *out = &s->ex;
    return KL_OK;
out:
    if (s) kl_exec_close(&s->cpu);
    kl_free(&s);
    return st;
}

const kl_streamed_facts *kl_streamed_about(const kl_exec *ex)
{
    return ex->vt.close == streamed_close ? &((const kl_streamed *)(const void *)ex)->facts : NULL;
}

kl_exec *kl_streamed_device(kl_exec *ex)
{
    const kl_streamed_facts *const f = kl_streamed_about(ex);
    return f && f->far ? kl_streamed_of(ex)->device : NULL;
}

kl_streamed_facts kl_streamed_expect(const kl_exec *ex, double n, double nnz)
{
    const kl_streamed *const s = (const kl_streamed *)(const void *)ex;
    kl_streamed_facts f = s->facts;
    const double vector = n * (double)sizeof(double);
    if (nnz == 0) f.left_bytes = f.again_bytes = f.take_bytes = f.back_bytes = vector;
    else {
        const double vectors = f.far ? 2 * vector : (double)s->keep, bytes = 12 * nnz;
        const double left = (double)s->device->vt.room(s->device) - vectors,
                     stays =
                         0.75 * left * (13.0 / 32); /* half of what buffers leave, in rows that take less */
        f.resident = fmin(1, fmax(0, stays) / bytes);
        f.matrix_bytes = bytes * (1 - f.resident);
        f.x_bytes = f.y_bytes = f.far ? vector : 0;
    }
    return f;
}

double kl_streamed_bytes(const kl_streamed_facts *f)
{
    return 2 * f->left_bytes + f->again_bytes + f->take_bytes + f->back_bytes + f->matrix_bytes + f->x_bytes +
           f->y_bytes;
}

/* Bytes that go up while others come down. */
static double both_ways(const kl_streamed_facts *f, double up, double down)
{
    return fmax(up / f->up, down / f->down) * (up > 0 && down > 0 ? f->both : 1);
}

double kl_streamed_seconds(const kl_streamed_facts *f, double inside)
{
    const double left = both_ways(f, f->left_bytes + f->again_bytes, f->left_bytes),
                 right = both_ways(f, f->take_bytes, f->back_bytes), packing = f->packed_bytes / f->host,
                 vectors = f->x_bytes / f->up + f->y_bytes / f->down;
    return fmax(left + fmax(right, packing) + f->matrix_bytes / f->up, inside) + vectors;
}

void kl_streamed_pack_below(kl_exec *ex, int64_t bytes)
{
    kl_streamed *const s = kl_streamed_about(ex) ? kl_streamed_of(ex) : NULL;
    if (s) s->pack_below = bytes;
}
