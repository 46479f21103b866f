/* Random lists of records: see lists.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "lists.h"
#include "kl_test.h"

int lists_below(uint64_t *seed, int n) { return (int)(kl_test_bits(seed) % (uint64_t)n); }

typedef struct place {
    uint8_t at;
    int64_t off;
    int32_t ld;
} place;

/* rows x cols numbers somewhere in x, LEFT, RIGHT or, where it has as many, WORK. */
static place operand(uint64_t *seed, int64_t room, int rows, int cols, int64_t nwork)
{
    static const uint8_t at[] = {KL_AT_X, KL_AT_LEFT, KL_AT_RIGHT, KL_AT_WORK};
    place p = {.at = at[lists_below(seed, nwork >= (int64_t)rows * cols ? 4 : 3)],
               .ld = rows + lists_below(seed, 3)};
    const int64_t most = p.at == KL_AT_WORK ? nwork : room;
    if ((int64_t)p.ld * cols > most) p.ld = rows;
    if (p.ld < 1) p.ld = 1;
    p.off = most > (int64_t)p.ld * cols ? lists_below(seed, (int)(most - (int64_t)p.ld * cols)) : 0;
    return p;
}

void lists_random(kl_batch *b, int64_t room, int ngroup, int most, int wild, int zero, uint64_t *seed)
{
    kl_err err = {""};
    int64_t y = 0;
    b->zero = zero;
    for (int g = 0; g < ngroup; g++) {
        const int rows = 1 + lists_below(seed, most), cols = 1 + lists_below(seed, most),
                  row = lists_below(seed, rows), col = lists_below(seed, cols);
        const int side = 1 + lists_below(seed, most), wide = 1 + lists_below(seed, most);
        const int64_t nwork = (int64_t)side * wide;
        expect_ok(kl_batch_open_group(b, y, (int64_t)rows * cols, &err), err);
        expect_ok(kl_batch_reserve(b, 64, &err), err);
        if (!zero)
            *kl_batch_push(b) = (kl_rec){.kind = KL_REC_FILL,
                                         .at_c = KL_AT_Y,
                                         .m = rows,
                                         .n = cols,
                                         .ldc = rows,
                                         .c = y,
                                         .alpha = 0.5};
        if (wild)
            *kl_batch_push(b) = (kl_rec){.kind = KL_REC_FILL,
                                         .at_c = KL_AT_WORK,
                                         .m = (int)nwork,
                                         .n = 1,
                                         .ldc = (int)nwork,
                                         .alpha = 0.25};
        int filled = wild;
        for (int q = 2 + lists_below(seed, 10); q > 0; q--) {
            /* which block of the segment: rows and columns are cut once */
            const int part = lists_below(seed, 4);
            const int r0 = part & 1 ? row : 0, c0 = part & 2 ? col : 0,
                      m = part & 1               ? rows - row
                          : lists_below(seed, 2) ? rows
                                                 : row,
                      n = part & 2               ? cols - col
                          : lists_below(seed, 2) ? cols
                                                 : col;
            kl_rec r = {.kind = (uint8_t)lists_below(seed, 3),
                        .ta = (uint8_t)lists_below(seed, 2),
                        .tb = (uint8_t)lists_below(seed, 2),
                        .beta = 1,
                        .at_c = KL_AT_Y,
                        .m = m,
                        .n = n,
                        .ldc = rows,
                        .c = y + r0 + (int64_t)c0 * rows,
                        .alpha = lists_below(seed, 3) ? kl_test_uniform(seed) : lists_below(seed, 9) - 4.0};
            if (lists_below(seed, 3) == 0) { /* an intermediate */
                r.at_c = KL_AT_WORK, r.m = side, r.n = wide, r.ldc = side, r.c = 0;
                r.beta = wild ? (uint8_t)lists_below(seed, 2) : 0;
                if (wild && lists_below(seed, 2)) r.m = 1 + lists_below(seed, side), r.n = 1;
                else filled = 1;
            } else if (r.kind == KL_REC_FILL && lists_below(seed, 2)) { /* a diagonal */
                r.n = rows < cols ? rows : cols, r.m = 1, r.ldc = rows + 1, r.c = y;
            }
            if (wild && lists_below(seed, 4) == 0) r.beta = 0;
            const int64_t readable = filled && r.at_c == KL_AT_Y ? nwork : 0;
            if (r.kind == KL_REC_GEMM) {
                r.k = lists_below(seed, most);
                const place a = operand(seed, room, r.ta ? r.k : r.m, r.ta ? r.m : r.k, readable),
                            c = operand(seed, room, r.tb ? r.n : r.k, r.tb ? r.k : r.n, readable);
                r.at_a = a.at, r.a = a.off, r.lda = a.ld, r.at_b = c.at, r.b = c.off, r.ldb = c.ld;
            } else if (r.kind == KL_REC_ADD) {
                const place a = operand(seed, room, r.ta ? r.n : r.m, r.ta ? r.m : r.n, readable);
                r.at_a = a.at, r.a = a.off, r.lda = a.ld;
            }
            *kl_batch_push(b) = r;
            /* a second part on top */
            if (!wild && r.at_c == KL_AT_WORK && r.kind != KL_REC_FILL && lists_below(seed, 2)) {
                r.kind = KL_REC_FILL, r.beta = 1, r.m = 1 + lists_below(seed, side),
                r.c = lists_below(seed, side - r.m + 1);
                *kl_batch_push(b) = r;
            }
        }
        kl_batch_close_group(b, nwork);
        y += (int64_t)rows * cols + (lists_below(seed, 4) == 0 ? 3 : 0); /* a hole, to be left alone */
    }
    b->ny = y;
    b->nx = room;
    expect_ok(kl_batch_close(b, &err), err);
}
