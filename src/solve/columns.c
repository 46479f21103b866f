/* Basis columns between device and host. Vectors travel in pieces through memory that the device reaches,
   where it has such: the host works on a piece while the next one is in flight, and the device on its own
   columns meanwhile.
   SPDX-License-Identifier: Apache-2.0 */
#include "solve/columns.h"
#include "comm/ranks.h"

/* doubles; pieces; columns at a time */
enum {
    PIECE = 1 << 19,
    MOST_PIECE = KL_NTICKET / 2,
    MOST_COLUMN = 64,
};

static kl_dptr on_host(const double *p) { return (kl_dptr){(uintptr_t)p}; }

/* Doubles of a piece: a multiple of a cache line, and not too many pieces. */
static int64_t piece_of(const kl_columns *c)
{
    const int64_t least = (c->n + MOST_PIECE - 1) / MOST_PIECE;
    return ((least > PIECE ? least : PIECE) + 7) / 8 * 8;
}

/* The buffer may be written again. */
static void free_buffer(const kl_columns *c)
{
    if (c->ticket && *c->ticket >= 0) {
        c->ex->vt.join(c->ex, *c->ticket, 1);
        *c->ticket = -1;
    }
}

/* Asks for x, or begins to: piece p is in the buffer after wait_piece(c, ticket, p). */
static kl_status begin(const kl_columns *c, kl_dptr x, int ticket[MOST_PIECE], kl_err *err)
{
    const int64_t step = piece_of(c);
    if (!c->ticket) return c->ex->vt.download(c->ex, c->buffer, x, c->n, err);
    free_buffer(c);
    for (int64_t from = 0, p = 0; from < c->n; from += step, p++)
        ticket[p] = c->ex->vt.copy_async(c->ex, c->n - from < step ? c->n - from : step, kl_dptr_at(x, from),
                                         on_host(c->buffer + from), from == 0);
    return KL_OK;
}

static void wait_piece(const kl_columns *c, const int ticket[MOST_PIECE], int64_t p)
{
    if (c->ticket) c->ex->vt.join(c->ex, ticket[p], 1);
}

kl_status kl_columns_settle(const kl_columns *c, int j, kl_err *err)
{
    int ticket[MOST_PIECE];
    if (j < c->ndev) return KL_OK;
    double *const to = c->host + (j - c->ndev) * c->ld;
    if (!c->ticket) return c->ex->vt.download(c->ex, to, kl_columns_at(c, j), c->n, err);
    const kl_status st = begin(c, kl_columns_at(c, j), ticket, err);
    if (st != KL_OK) return st;
    const int64_t step = piece_of(c);
    for (int64_t from = 0, p = 0; from < c->n; from += step, p++) {
        wait_piece(c, ticket, p);
        c->cpu->vt.copy(c->cpu, c->n - from < step ? c->n - from : step, on_host(c->buffer + from),
                        on_host(to + from));
    }
    return KL_OK;
}

kl_status kl_columns_dots(const kl_columns *c, int k, kl_dptr x, double *out, kl_err *err)
{
    const int near = k < c->ndev ? k : c->ndev, far = k - near;
    int ticket[MOST_PIECE];
    double part[MOST_COLUMN];
    if (far > 0) {
        const kl_status st = begin(c, x, ticket, err);
        if (st != KL_OK) return st;
    }
    const int spread = kl_ranks_spread(c->ex); /* then all sums go over ranks at once, wherever columns lie */
    if (near > 0)
        (spread ? c->ex->ranks->own.dots : c->ex->vt.dots)(c->ex, c->n, near, c->dev, c->ld, x, out);
    for (int j = 0; j < far; j++) out[near + j] = 0;
    const int64_t step = piece_of(c);
    /* sums of pieces, in their order */
    for (int64_t from = 0, p = 0; far > 0 && from < c->n; from += step, p++) {
        const int64_t n = c->n - from < step ? c->n - from : step;
        wait_piece(c, ticket, p);
        for (int done = 0; done < far; done += MOST_COLUMN) {
            const int some = far - done < MOST_COLUMN ? far - done : MOST_COLUMN;
            c->cpu->vt.dots(c->cpu, n, some, on_host(c->host + done * c->ld + from), c->ld,
                            on_host(c->buffer + from), part);
            for (int j = 0; j < some; j++) out[near + done + j] += part[j];
        }
    }
    if (spread) kl_ranks_sum(c->ex, k, out);
    return KL_OK;
}

kl_status kl_columns_combine(const kl_columns *c, int k, const double *coef, double b, kl_dptr y, kl_err *err)
{
    const int near = k < c->ndev ? k : c->ndev, far = k - near;
    c->ex->vt.combine(c->ex, c->n, near, c->dev, c->ld, coef, b, y);
    if (far == 0) return KL_OK;
    const kl_dptr from_host = kl_dptr_at(c->place, c->nplace * c->ld);
    const int64_t step = piece_of(c);
    free_buffer(c);
    for (int64_t from = 0; from < c->n; from += step) {
        const int64_t n = c->n - from < step ? c->n - from : step;
        c->cpu->vt.combine(c->cpu, n, far, on_host(c->host + from), c->ld, coef + near, 0.0,
                           on_host(c->buffer + from));
        /* the reader of that buffer is done by then */
        if (c->ticket)
            *c->ticket = c->ex->vt.copy_async(c->ex, n, on_host(c->buffer + from),
                                              kl_dptr_at(from_host, from), from == 0);
    }
    if (c->ticket) c->ex->vt.join(c->ex, *c->ticket, 0);
    else {
        const kl_status st = c->ex->vt.upload(c->ex, from_host, c->buffer, c->n, err);
        if (st != KL_OK) return st;
    }
    c->ex->vt.axpby(c->ex, c->n, 1.0, from_host, 1.0, y);
    return KL_OK;
}
