/* See rows_host.h. Tasks are parts of the buffer.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/rows_host.h"

#include <string.h>

#include "base/par.h"

enum { PART = 4096 /* rows of a task */ };

typedef struct moving {
    const kl_rows *r;
    double *vector, *buffer;
    int add;
} moving;

static void move_part(void *self, int64_t task, int thread)
{
    const moving *const m = self;
    const int64_t end = m->r->n / KL_ROW, last = (task + 1) * PART < end ? (task + 1) * PART : end;
    (void)thread;
    for (int64_t i = task * PART; i < last; i++) {
        double *const in = m->vector + kl_rows_place(m->r->run, m->r->nrun, m->r->row, i), *const at =
                                                                                               m->buffer +
                                                                                               i * KL_ROW;
        if (!m->add) memcpy(at, in, KL_ROW * sizeof(double));
        else
            for (int k = 0; k < KL_ROW; k++) in[k] += at[k];
    }
}

static void move(const kl_exec *ex, const kl_rows *r, kl_dptr vector, kl_dptr buffer, int add)
{
    moving m = {r, (double *)vector.addr, (double *)buffer.addr, add};
    kl_par_for(ex->nthread, (r->n / KL_ROW + PART - 1) / PART, move_part, &m);
}

kl_status kl_host_rows_take(kl_exec *ex, const kl_rows *r, kl_dptr x, kl_dptr buffer, kl_err *err)
{
    (void)err;
    move(ex, r, x, buffer, 0);
    return KL_OK;
}

kl_status kl_host_rows_add(kl_exec *ex, const kl_rows *r, kl_dptr buffer, kl_dptr y, kl_err *err)
{
    (void)err;
    move(ex, r, y, buffer, 1);
    return KL_OK;
}
