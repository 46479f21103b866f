/* Exact or by products: see leading.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/leading.h"
#include "base/mem.h"
#include "dmrg/leadingleast.h"
#include "dmrg/sectorfill.h"
#include <math.h>

/* ORDER KL_TRUNCATION */
const char *const kl_truncation_name[KL_NTRUNCATION] = {"auto", "exact", "products"};

enum {
    WORTH = 48,     /* rows from which products are ahead of LAPACK */
    WORTH_TEST = 6, /* the same where products are asked for */
    WORTH_NARROW = 16, /* the same where the other side has no site of its own */
    WORTH_WHOLE = 96, /* the same where all columns or rows are taken */
    STEP = 8,       /* columns are multiples of it */
    BESIDE = 12,    /* columns at least, more than are expected to be kept */
    SPARE = 2,      /* columns at least that are not kept in the end; */
    SPARE_COLD = 6, /* where all began at random: four passes leave 1.0013 of the best with two, 1.000002
                       with six */
};
#define EIGEN_FLOP 9.0     /* of an eigenproblem, by the cube of its rows; */
#define RANGE_FLOP 10.0    /* of products, by rows, columns and those tried: what ranks are given by */
#define MORE_TRIED 0.15    /* columns more than are expected to be kept, as a part of them */
#define TOO_MANY 0.7       /* of all columns: a full decomposition costs no more then; */
#define TOO_MANY_TEST 0.95 /* where products are asked for */
#define FEW_NARROW 0.75    /* of the rows, there */
#define FEW_COLUMNS 0.6    /* of the rows: an eigenproblem of the columns costs so much less */

static int up(double x, int step) { return (int)ceil(x / step) * step; }

/* Small weights are rounding in A^T A; and where threads diagonalize, they make columns orthonormal as fast.
 */
static kl_range_mode few_columns(const kl_sector_case *c)
{
    return (c->there || c->way == KL_TRUNCATION_PRODUCTS) && !c->precise ? KL_RANGE_DUAL : KL_RANGE_COLUMNS;
}

kl_sector_way kl_sector_choose(const kl_sector_case *c)
{
    const int full = c->rows < c->wide ? c->rows : c->wide;
    const kl_sector_way exact = {0, KL_RANGE_ROWS, c->rows};
    if (c->way == KL_TRUNCATION_EXACT || c->wide == 0) return exact;
    if (c->narrow && c->rows >= WORTH_NARROW && c->wide <= FEW_NARROW * c->rows)
        return (kl_sector_way){1, few_columns(c), c->wide};
    if (c->rows < (c->way == KL_TRUNCATION_PRODUCTS ? WORTH_TEST : WORTH)) return exact;
    const double growth = c->growth < 1   ? 1
                          : c->growth < 2 ? c->growth
                                          : 2,
                 expected = ceil(c->known * growth);
    const int least = c->full ? BESIDE + kl_sector_unit((int)expected) : BESIDE;
    const double more = fmax(least, MORE_TRIED * expected);
    const int tried = up(fmax(expected + more, c->least), STEP);
    const double most = c->way == KL_TRUNCATION_PRODUCTS ? TOO_MANY_TEST : TOO_MANY;
    if (c->known >= 0 && tried < most * full) return (kl_sector_way){1, KL_RANGE_TRIED, tried};
    if (full < (c->way == KL_TRUNCATION_PRODUCTS ? WORTH_TEST : WORTH_WHOLE)) return exact;
    if (c->wide <= (c->precise ? 1 : FEW_COLUMNS) * c->rows)
        return (kl_sector_way){1, few_columns(c), c->wide};
    if (c->precise) return (kl_sector_way){1, KL_RANGE_ROWS, c->rows};
    return exact;
}

int kl_sector_narrow(int width, int kept, int cold, int *next)
{
    *next = width + width / 2 + STEP;
    return kept > width - (cold ? SPARE_COLD : SPARE);
}

static int same_basis(const kl_basis *a, const kl_basis *b)
{
    if (a->nsec != b->nsec) return 0;
    for (int c = 0; c < a->nsec; c++)
        if (a->dim[c] != b->dim[c] || kl_qn_cmp(a->q[c], b->q[c])) return 0;
    return 1;
}

/* States that the isometry keeps of sector c of the other side, and where their matrix begins. */
static int known_states(const kl_isometry *iso, int c, int64_t *off)
{
    for (int k = 0; k < iso->basis.nsec; k++) {
        if (iso->sec[k] != c) continue;
        *off = iso->off[k];
        return iso->basis.dim[k];
    }
    return 0;
}

/* States wanted by those kept in the sweep before. */
static double growth(const kl_leading_opts *o, const kl_warm *warm)
{
    return warm ? (double)o->m / (double)warm->iso->basis.total : 1;
}

/* Passes behind the first product. One leaves a thousandth more weight out than the best; without any it is a
   hundredth where the wavefunction still changes. Noise leaves the basis of the sweep before far off. Columns
   that begin at random, as those of several wavefunctions do, whose mixtures that basis does not know, leave
   half a hundredth more than the best with two, and two thousandths in the worst case with three. */
static int passes(const kl_leading_opts *o, const kl_warm *warm, int nstate)
{
    return !warm ? 4 : nstate > 1 ? 3 : !o->settled ? 2 : 1;
}

/* A sector of d's side: of the other side the sector that completes it, and where they are in a wavefunction.
 */
typedef struct segment {
    int other, rows, cols;
    int64_t psi;
} segment;

/* 0: nothing completes sector c. */
static int find_segment(const kl_density *d, int c, segment *s)
{
    const kl_layout *const lay = d->wave.layout;
    const int left = d->side == KL_LEFT, i = left ? c : lay->back[c], j = left ? lay->pair[c] : c;
    const int rows = kl_density_mine(d)->dim[c];
    if (i < 0 || j < 0) return 0;
    *s = (segment){left ? j : i, rows, kl_density_other(d)->dim[left ? j : i], lay->off[i]};
    return 1;
}

/* How sector c is done; *cost: about the flops of it. */
static kl_sector_way choose(const kl_density *d, const kl_leading_opts *o, const kl_warm *warm, int c,
                            double *cost)
{
    const kl_basis *const mine = kl_density_mine(d);
    segment at;
    int64_t off = 0;
    *cost = 0;
    if (!find_segment(d, c, &at)) return (kl_sector_way){0, KL_RANGE_ROWS, mine->dim[c]};
    const int rows = at.rows, cols = at.cols;
    int known = warm ? known_states(warm->iso, at.other, &off) : -1;
    if (!warm && o->way == KL_TRUNCATION_PRODUCTS) known = (int)((double)o->m * rows / (double)mine->total);
    const kl_sector_case here = {
        .way = o->way,
        .rows = rows,
        .wide = d->nstate * cols,
        .known = known,
        .growth = growth(o, warm),
        .full = o->full,
        .least = o->least[c],
        .precise = o->precise,
        .there = o->there,
        .narrow = o->narrow,
    };
    const kl_sector_way way = kl_sector_choose(&here);
    const double high = rows, wide = here.wide, width = way.width;
    *cost = EIGEN_FLOP * width * width * width +
            (way.products ? RANGE_FLOP * high * wide * width : 2.0 * high * high * wide);
    return way;
}

/* Sector c, which this rank finds by products. */
static void add_part(const kl_density *d, const kl_warm *warm, int c, kl_leading *out)
{
    segment at;
    int64_t off = 0;
    const kl_sector_way way = out->way[c];
    if (!find_segment(d, c, &at)) return;
    kl_range_part *const p = &out->range.part[out->npart];
    *p = (kl_range_part){
        .mode = way.mode, .rows = at.rows, .cols = at.cols, .psi = at.psi, .width = way.width};
    if (way.mode == KL_RANGE_TRIED && warm && d->nstate == 1) {
        p->nwarm = known_states(warm->iso, at.other, &off);
        p->warm = off;
    }
    out->part[c] = out->npart;
    out->sec[out->npart++] = c;
}

kl_status kl_leading_choose(kl_exec *ex, const kl_density *d, const kl_leading_opts *o, kl_leading *out,
                            kl_err *err)
{
    kl_status st = KL_OK;
    const int n = kl_density_mine(d)->nsec;
    const kl_warm *warm = o->warm && o->warm->iso ? o->warm : NULL;
    if (warm && !same_basis(&warm->iso->enlarged->basis, kl_density_other(d))) warm = NULL;
    double *cost = NULL;
    *out = (kl_leading){.range = {.ex = kl_share_alone(ex),
                                  .transposed = d->side == KL_RIGHT,
                                  .nstate = d->nstate,
                                  .npsi = d->wave.layout->n,
                                  .psi = d->wave.psi,
                                  .more = passes(o, warm, d->nstate)}};
    if (warm) out->range.warm = warm->data;
    out->nsec = n;
    out->ncolumn = (double)kl_density_other(d)->total * d->nstate;
    KL_TRY(kl_alloc(&out->sec, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&out->part, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&out->range.part, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&out->way, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&out->owner, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&cost, n, KL_MEM_WORK, err));
    for (int c = 0; c < n; c++) {
        out->way[c] = choose(d, o, warm, c, &cost[c]);
        out->nproducts += out->way[c].products;
    }
    KL_TRY(kl_share_owners(ex, n, cost, out->owner, err));
    for (int c = 0; c < n; c++) {
        out->part[c] = -1;
        if (out->way[c].products && out->owner[c] == kl_ranks_mine(ex)) add_part(d, warm, c, out);
    }
    out->range.npart = out->npart;
out:
    kl_free(&cost);
    return st;
}

int kl_leading_tried(const kl_leading *l)
{
    int count = 0;
    for (int c = 0; c < l->nsec; c++)
        count += (l->way[c].products && l->way[c].mode == KL_RANGE_TRIED) || kl_leading_least(l, c);
    return count;
}

int kl_leading_narrow(const kl_leading *l, const int *kept, int *least)
{
    int narrow = 0;
    const int cold = l->range.warm.addr == 0 || l->range.nstate > 1; /* as add_part has it */
    for (int c = 0; c < l->nsec; c++) {
        int next;
        const kl_least_part *const p = kl_leading_least(l, c);
        if (p && !kl_least_sure(p->tried, p->n - kept[c])) {
            least[c] = p->n;
            narrow = 1;
        }
        if (!l->way[c].products || l->way[c].mode != KL_RANGE_TRIED ||
            !kl_sector_narrow(l->way[c].width, kept[c], cold, &next))
            continue;
        least[c] = next;
        narrow = 1;
    }
    return narrow;
}

void kl_leading_clear(kl_leading *l)
{
    if (l->range.ex) kl_range_clear(&l->range);
    kl_least_clear(&l->least);
    kl_free(&l->least.part);
    kl_free(&l->spectrum);
    kl_free(&l->diagonal);
    kl_free(&l->beside);
    kl_free(&l->least_of);
    kl_free(&l->range.part);
    kl_free(&l->sec);
    kl_free(&l->part);
    kl_free(&l->way);
    kl_free(&l->owner);
}
