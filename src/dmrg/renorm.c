/* Truncation, growth and turning: see renorm.h. All products run as operation records; only small matrices
   visit LAPACK on the host, and large ones where the executor has nothing for them.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/renorm.h"
#include "base/dense.h"
#include "base/divide.h"
#include "base/mem.h"
#include "base/par.h"
#include "dmrg/turn.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct weight {
    double w;
    int sec, column; /* column: of the sector's eigenvectors */
    int keep;
} weight;

static int by_weight(const void *pa, const void *pb)
{
    const weight *const a = *(const weight *const *)pa, *const b = *(const weight *const *)pb;
    if (a->w != b->w) return a->w > b->w ? -1 : 1;
    if (a->sec != b->sec) return a->sec - b->sec;
    return b->column - a->column;
}

/* One sector's states and their weights. */
typedef struct spectrum {
    int rows, n;
    /* vec: the states as columns of rows numbers; NULL where they are with the executor, or */
    double *vec, *w;
    kl_divided reduced; /* made of these, if its n is not 0, when they are kept */
    /* not NULL: what is kept has yet to be turned with these reflections, where the density matrix was, */
    const double *turn;
    /* and their factors (kl_dense_eig_turn); NULL beside `reduced`: with the executor's */
    double *factor;
} spectrum;

typedef struct keyed {
    int dim, sec;
} keyed;

static int by_size(const void *pa, const void *pb)
{
    const keyed *const a = pa, *const b = pb;
    return a->dim != b->dim ? b->dim - a->dim : a->sec - b->sec;
}

/* C = part-wise L_b x into WORK at 0, all rows: zero first, since parts may leave rows out. */
static kl_status applied(kl_batch *b, const kl_bigop *g, int op, int sec, int turned, int side, int rows,
                         int other, int64_t x, int ldx, kl_err *err)
{
    const int n = g->enlarged->basis.nsec;
    const int64_t at = (int64_t)op * n + sec, np = g->first[at + 1] - g->first[at];
    const kl_status st = kl_batch_reserve(b, np + 2, err);
    if (st != KL_OK) return st;
    *kl_batch_push(b) = (kl_rec){.kind = KL_REC_FILL, .at_c = KL_AT_WORK, .m = rows, .n = other, .ldc = rows};
    for (int64_t i = g->first[at]; i < g->first[at + 1]; i++) {
        kl_part p = g->part[i];
        if (turned) p = (kl_part){p.col, p.ncol, p.row, p.nrow, p.ld, !p.dag, p.packed, p.off, p.coef};
        /* LEFT: p x; RIGHT: p x^T, so that WORK is (sector of this side) x (other side) in both cases */
        const int64_t from = side == KL_LEFT ? x + p.col : x + (int64_t)p.col * ldx;
        *kl_batch_push(b) = p.off < 0 ? (kl_rec){.kind = KL_REC_ADD,
                                                 .ta = side == KL_RIGHT,
                                                 .beta = 1,
                                                 .at_a = KL_AT_X,
                                                 .at_c = KL_AT_WORK,
                                                 .m = p.nrow,
                                                 .n = other,
                                                 .lda = ldx,
                                                 .ldc = rows,
                                                 .a = from,
                                                 .c = p.row,
                                                 .alpha = p.coef}
                                      : (kl_rec){.kind = KL_REC_GEMM,
                                                 .ta = p.dag,
                                                 .tb = side == KL_RIGHT,
                                                 .beta = 1,
                                                 .at_a = (uint8_t)kl_bigop_at(g, &p),
                                                 .at_b = KL_AT_X,
                                                 .at_c = KL_AT_WORK,
                                                 .m = p.nrow,
                                                 .n = other,
                                                 .k = p.ncol,
                                                 .lda = p.ld,
                                                 .ldb = ldx,
                                                 .ldc = rows,
                                                 .a = p.off,
                                                 .b = from,
                                                 .c = p.row,
                                                 .alpha = p.coef};
    }
    return KL_OK;
}

kl_status kl_density_records(kl_side side, const kl_layout *lay, const kl_basis *mine, const kl_basis *other,
                             const kl_bigop *grown, int nstate, int noise, kl_batch *b, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = mine->nsec;
    int64_t at = 0;
    for (int e = 0; e < n; e++) {
        const int dim = mine->dim[e];
        int64_t nwork = 0;
        KL_TRY(kl_batch_open_group(b, at, (int64_t)dim * dim, err));
        KL_TRY(kl_batch_reserve(b, nstate, err));
        const int i = side == KL_LEFT ? e : lay->back[e], j = side == KL_LEFT ? lay->pair[e] : e;
        for (int s = 0; s < nstate && !noise && i >= 0 && j >= 0; s++) {
            const int64_t x = s * lay->n + lay->off[i];
            const int rows = side == KL_LEFT ? dim : other->dim[i];
            *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                         .ta = side == KL_RIGHT,
                                         .tb = side == KL_LEFT,
                                         .beta = 1,
                                         .at_a = KL_AT_X,
                                         .at_b = KL_AT_X,
                                         .at_c = KL_AT_Y,
                                         .m = dim,
                                         .n = dim,
                                         .k = side == KL_LEFT ? other->dim[j] : rows,
                                         .lda = rows,
                                         .ldb = rows,
                                         .ldc = dim,
                                         .a = x,
                                         .b = x,
                                         .c = at,
                                         .alpha = 1.0 / nstate};
        }
        for (int k = 0; noise && k < grown->nop; k++) {
            if (kl_bigop_identity(grown, k)) continue;
            for (int turned = 0; turned <= (grown->block->mpo->op[grown->cut][k].self ? 0 : 1); turned++) {
                const int from = turned ? grown->dst[k * n + e] : grown->src[k * n + e];
                if (from < 0) continue;
                const int fi = side == KL_LEFT ? from : lay->back[from],
                          fj = side == KL_LEFT ? lay->pair[from] : from;
                if (fi < 0 || fj < 0) continue;
                const int width = side == KL_LEFT ? other->dim[fj] : other->dim[fi];
                const int ldx = side == KL_LEFT ? mine->dim[fi] : other->dim[fi];
                for (int s = 0; s < nstate; s++) {
                    KL_TRY(applied(b, grown, k, turned ? e : from, turned, side, dim, width,
                                   s * lay->n + lay->off[fi], ldx, err));
                    *kl_batch_push(b) = (kl_rec){.kind = KL_REC_GEMM,
                                                 .tb = 1,
                                                 .beta = 1,
                                                 .at_a = KL_AT_WORK,
                                                 .at_b = KL_AT_WORK,
                                                 .at_c = KL_AT_Y,
                                                 .m = dim,
                                                 .n = dim,
                                                 .k = width,
                                                 .lda = dim,
                                                 .ldb = dim,
                                                 .ldc = dim,
                                                 .c = at,
                                                 .alpha = 1.0 / nstate};
                }
                if ((int64_t)dim * width > nwork) nwork = (int64_t)dim * width;
            }
        }
        kl_batch_close_group(b, nwork);
        at += (int64_t)dim * dim;
    }
    b->zero = 1;
    b->nx = nstate * lay->n;
    b->ny = at;
    if (noise) kl_bigop_bases(grown, b);
out:
    return st;
}

static kl_status density(kl_exec *ex, kl_side side, const kl_layout *lay, const kl_basis *mine,
                         const kl_basis *other, kl_dptr psi, const kl_bigop *grown, int nstate, int noise,
                         kl_dptr rho, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_density_records(side, lay, mine, other, grown, nstate, noise, &b, err));
    KL_TRY(kl_batch_run(&b, ex, psi, rho, err));
out:
    kl_batch_clear(&b);
    return st;
}

static kl_status add_weight(weight **w, int64_t *n, int64_t *cap, weight x, kl_err *err)
{
    if (*n == *cap) {
        const int64_t c = 2 * *cap + 256;
        const kl_status st = kl_realloc(w, c, KL_MEM_WORK, err);
        if (st != KL_OK) return st;
        *cap = c;
    }
    (*w)[(*n)++] = x;
    return KL_OK;
}

static int unit_of(int dim) { return dim <= 24 ? 2 : dim <= 48 ? 8 : dim <= 112 ? 16 : 32; }

static int rounded(int dim, int unit, int there)
{
    const int up = (dim + unit - 1) / unit * unit;
    return up < there ? up : there;
}

int kl_sector_even(int dim, int there) { return rounded(dim, 2, there); }

void kl_sectors_fill(int nsec, int *dim, const int *there, int64_t more)
{
    for (int unit = 32; unit >= 8; unit /= 2) /* below, even is all */
        for (int c = 0; c < nsec; c++) {
            const int full = rounded(dim[c], unit, there[c]);
            if (unit_of(dim[c]) != unit || full - dim[c] > more) continue;
            more -= full - dim[c];
            dim[c] = full;
        }
}

/* Which of the weights stay, which come sorted; returns how many. even, full: sectors as kl_trunc_opts.full
   says. The set that even ones are made of is made smaller until these are no more than was asked for. have,
   there, want: room for a number a sector. */
static int64_t select_states(weight *const *w, int64_t n, int nsec, const kl_trunc_opts *o, double floor,
                             int even, int full, int *have, int *there, int *want)
{
    const int most = o->m > o->nstate ? o->m : o->nstate; /* fewer would not hold so many wavefunctions */
    int64_t keep = n < most ? n : most, lack = 0;
    while (keep > 1 && w[keep - 1]->w < floor) keep--;
    if (o->discard > 0) {
        double tail = 0;
        for (int64_t i = n - 1; i >= keep; i--) tail += w[i]->w;
        while (keep > o->nstate && keep > o->m_min && tail + w[keep - 1]->w <= o->discard)
            tail += w[--keep]->w;
    }
    memset(have, 0, (size_t)nsec * sizeof *have);
    memset(there, 0, (size_t)nsec * sizeof *there);
    for (int64_t i = 0; i < n; i++) {
        have[w[i]->sec] += i < keep;
        there[w[i]->sec] += i < keep || w[i]->w > floor;
    }
    even = even && keep >= KL_FULL_FROM * (int64_t)nsec;
    for (int c = 0; even && c < nsec; c++) lack += kl_sector_even(have[c], there[c]) - have[c];
    while (even && keep > o->nstate && keep > o->m_min && keep + lack > most) {
        const int c = w[--keep]->sec;
        lack -= kl_sector_even(have[c], there[c]) - have[c];
        have[c]--;
        lack += kl_sector_even(have[c], there[c]) - have[c];
    }
    /* never cut a multiplet */
    while (keep > 0 && keep < n && w[keep]->w > floor && w[keep]->w > w[keep - 1]->w * (1 - 1e-8))
        have[w[keep++]->sec]++;
    for (int64_t i = 0; i < keep; i++) w[i]->keep = 1;
    for (int c = 0; c < nsec; c++) want[c] = even ? kl_sector_even(have[c], there[c]) : have[c];
    if (even && full) kl_sectors_fill(nsec, want, there, most / KL_MORE);
    int64_t total = keep;
    for (int64_t i = keep; even && i < n; i++) {
        if (have[w[i]->sec] == want[w[i]->sec]) continue;
        have[w[i]->sec]++;
        w[i]->keep = 1;
        total++;
    }
    /* until noise ends, sectors it opened keep a state */
    for (int64_t i = keep; o->noise > 0 && i < n && total < keep + 1 + o->m / 4; i++) {
        if (have[w[i]->sec] > 0 || w[i]->w <= 0) continue;
        have[w[i]->sec] = 1;
        w[i]->keep = 1;
        total++;
    }
    return total;
}

typedef struct truncation {
    kl_side side;
    const kl_layout *lay;
    const kl_enlarged *row, *col, *mine;
    int svd, nstate; /* svd: singular values of the wavefunctions; else eigenvalues of density matrices */
    double *host; /* the wavefunctions, or the density matrices */
    int64_t *off; /* [sectors] of the density matrices */
    int *order; /* [sectors] largest first */
    int nthere; /* the executor finds the states of so many, the largest, */
    kl_exec *ex;
    kl_dptr rho; /* in place of their density matrices, here; */
    int64_t *at; /* [sectors] in `order`: rows of the sectors before */
    /* of the tridiagonal matrices, from there on, that the executor makes of theirs, or LAPACK of large ones
       here */
    double *diagonal, *beside;
    kl_status status_there; /* with what success */
    kl_err error_there;
    spectrum *sp; /* [sectors] */
    kl_err *error; /* [sectors] */
    kl_status *status; /* [sectors] */
} truncation;

/* Singular vectors of sector c: of the segments of all wavefunctions side by side, this side's states as
   rows. */
static kl_status decompose(const truncation *t, int c, spectrum *sp, kl_err *err)
{
    kl_status st = KL_OK;
    const int left = t->side == KL_LEFT, i = left ? c : t->lay->back[c], j = left ? t->lay->pair[c] : c;
    double *a = NULL, *other = NULL;
    if (i < 0 || j < 0) return KL_OK;
    const int p = t->row->basis.dim[i], q = t->col->basis.dim[j], rows = left ? p : q, width = left ? q : p,
              cols = width * t->nstate, k = rows < cols ? rows : cols;
    KL_TRY(kl_alloc(&sp->w, k, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&sp->vec, (int64_t)rows * k, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&other, (int64_t)k * cols, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&a, (int64_t)rows * cols, KL_MEM_WORK, err));
    for (int s = 0; s < t->nstate; s++) {
        const double *const seg = t->host + s * t->lay->n + t->lay->off[i];
        double *const to = a + (int64_t)s * rows * width;
        for (int x = 0; !left && x < p; x++)
            for (int y = 0; y < q; y++) to[y + (int64_t)x * q] = seg[x + (int64_t)y * p];
        if (left) memcpy(to, seg, (size_t)p * (size_t)q * sizeof *seg);
    }
    KL_TRY(kl_dense_svd(rows, cols, a, rows, sp->w, sp->vec, rows, other, k, err));
    for (int s = 0; s < k; s++) sp->w[s] *= sp->w[s];
    sp->n = k;
out:
    kl_free(&a);
    kl_free(&other);
    return st;
}

/* Eigenvectors of the nth sector's density matrix; a larger one becomes tridiagonal, and reflections come
   into its place. */
static kl_status diagonalize(const truncation *t, int nth, spectrum *sp, kl_err *err)
{
    enum { WORTH_TURNING = 64 }; /* rows from which it pays to wait until it is known which states are kept */
    kl_status st = KL_OK;
    const int c = t->order[nth], n = sp->rows;
    double *const rho = t->host + t->off[c], *const d = t->diagonal + t->at[nth],
                  *const e = t->beside + t->at[nth];
    double sum = 0;
    for (int r = 0; r < n; r++) sum += rho[(int64_t)r * (n + 1)];
    if (sum == 0) return KL_OK;
    if (n >= WORTH_TURNING) {
        KL_TRY(kl_realloc(&sp->factor, (int64_t)KL_DENSE_PANEL * n, KL_MEM_WORK, err));
        KL_TRY(kl_dense_eig_reduce(n, rho, n, d, e, sp->factor, err));
        sp->turn = rho;
    }
    if (n > KL_DIVIDE_WHOLE) {
        sp->reduced.n = n; /* its vectors are shared out */
        goto out;
    }
    KL_TRY(kl_alloc(&sp->w, n, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&sp->vec, (int64_t)n * n, KL_MEM_WORK, err));
    if (sp->turn) KL_TRY(kl_dense_eig_tridiagonal(n, d, e, sp->w, sp->vec, n, err));
    else {
        memcpy(sp->vec, rho, (size_t)n * (size_t)n * sizeof *rho);
        KL_TRY(kl_dense_eig(n, sp->vec, n, sp->w, err));
    }
    for (int s = 0; s < n; s++) sp->w[s] = sp->w[s] > 0 ? sp->w[s] : 0;
    sp->n = n;
out:
    return st;
}

/* Trace of all the matrices in rho. */
static kl_status trace(const truncation *t, kl_dptr rho, double *sum, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_basis *const mine = &t->mine->basis;
    kl_exec *const ex = t->ex;
    double *host = NULL;
    kl_dptr diagonal = {0};
    kl_batch b;
    kl_batch_init(&b);
    *sum = 0;
    KL_TRY(kl_alloc(&host, mine->total, KL_MEM_WORK, err));
    KL_TRY(ex->vt.alloc(ex, mine->total, &diagonal, err));
    for (int64_t c = 0, at = 0; c < mine->nsec; at += mine->dim[c++]) {
        KL_TRY(kl_batch_open_group(&b, at, mine->dim[c], err));
        KL_TRY(kl_batch_reserve(&b, 1, err));
        *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_ADD,
                                      .at_a = KL_AT_X,
                                      .at_c = KL_AT_Y,
                                      .m = 1,
                                      .n = mine->dim[c],
                                      .lda = mine->dim[c] + 1,
                                      .ldc = 1,
                                      .a = t->off[c],
                                      .c = at,
                                      .alpha = 1};
        kl_batch_close_group(&b, 0);
    }
    b.ny = mine->total;
    KL_TRY(kl_batch_run(&b, ex, rho, diagonal, err));
    KL_TRY(ex->vt.download(ex, host, diagonal, mine->total, err));
    for (int64_t i = 0; i < mine->total; i++) *sum += host[i];
out:
    kl_batch_clear(&b);
    ex->vt.release(ex, &diagonal);
    kl_free(&host);
    return st;
}

/* Noise as a share of the whole weight, whatever the units of the couplings. */
static kl_status add_noise(const truncation *t, kl_dptr psi, const kl_bigop *grown, double share,
                           int64_t length, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dptr noise = {0};
    double of_rho, of_noise;
    const kl_basis *const other = t->side == KL_LEFT ? &t->col->basis : &t->row->basis;
    KL_TRY(t->ex->vt.alloc(t->ex, length, &noise, err));
    KL_TRY(density(t->ex, t->side, t->lay, &t->mine->basis, other, psi, grown, t->nstate, 1, noise, err));
    KL_TRY(trace(t, t->rho, &of_rho, err));
    KL_TRY(trace(t, noise, &of_noise, err));
    if (of_noise > 0) t->ex->vt.axpby(t->ex, length, share * of_rho / of_noise, noise, 1.0, t->rho);
out:
    t->ex->vt.release(t->ex, &noise);
    return st;
}

/* Between what was measured a power of the size; beyond it n^3 by LAPACK, n^2 by the executor, whose time is
   that of memory. */
static double eigen_seconds(const kl_exec *ex, int n, int there)
{
    const kl_eigen_time *const t = ex->eigen_time;
    int i = 0;
    while (i < ex->neigen_time && t[i].n < n) i++;
    const kl_eigen_time *const above = &t[i < ex->neigen_time ? i : i - 1], *const below =
                                                                                &t[i > 0 ? i - 1 : 0];
    const double a = there ? below->there : below->here, b = there ? above->there : above->here;
    if (below->n == above->n) return a * pow((double)n / below->n, there ? n < below->n ? 0 : 2 : 3);
    return a * pow(b / a, log((double)n / below->n) / log((double)above->n / below->n));
}

enum { DRIVERS = 2 }; /* threads that the executor wants for itself while it works */

static int threads_beside(const kl_exec *ex)
{
    return ex->nthread > 2 * DRIVERS ? ex->nthread - DRIVERS : ex->nthread;
}

/* So many that both are done soonest. */
int kl_truncate_share(const kl_exec *ex, const int *dim, int n, double seconds[3])
{
    /* of LAPACK's time: the part behind tridiagonal matrices, whoever made them, which all threads share */
    const double vectors = 0.25;
    const int reduces = !ex->vt.eigen;
    int most = 0, best = 0;
    double rest = 0, there = 0, moved = 0, least = INFINITY;
    seconds[0] = seconds[1] = seconds[2] = 0;
    if (!ex->vt.eigen && !ex->vt.tridiagonal) return 0;
    while (most < n && dim[most] >= ex->eigen_least) most++;
    if (ex->neigen_time == 0) return most;
    for (int i = 0; i < n; i++) rest += eigen_seconds(ex, dim[i], 0);
    for (int k = 0; k <= most; k++) {
        const double one = k < n ? eigen_seconds(ex, dim[k], 0) : 0,
                     here = (1 - vectors) * fmax(one, rest / (k > 0 ? threads_beside(ex) : ex->nthread));
        const double behind = vectors * (rest + (reduces ? moved : 0)) / ex->nthread,
                     time = fmax(here, there) + behind;
        if (k == 0) seconds[2] = time;
        if (time < least) least = time, best = k, seconds[0] = here + behind, seconds[1] = there + behind;
        if (k == n) break;
        rest -= one, moved += one;
        if (!reduces) there += eigen_seconds(ex, dim[k], 1);
        /* each step reads and writes what is left */
        else there += (k == 0 ? ex->reduce_row * dim[0] : 0) + ex->reduce_byte * 16.0 / 3.0 * pow(dim[k], 3);
    }
    return best;
}

/* The same in the course of a run: what opens with the first matrix there takes so long that it has to be
   saved before. */
static int share_so_far(kl_exec *ex, const int *dim, int n)
{
    double seconds[3];
    const int there = kl_truncate_share(ex, dim, n, seconds);
    if (there == 0 || ex->eigen_saved >= ex->eigen_opening) return there;
    ex->eigen_saved += seconds[2] - fmax(seconds[0], seconds[1]);
    return ex->eigen_saved >= ex->eigen_opening ? there : 0;
}

/* Weights of the sectors that are the executor's; their states stay there, in place of the density matrices.
   KL_ENOMEM, KL_EABSENT: it had no memory for it, or no library. */
static kl_status diagonalize_there(truncation *t, kl_err *err)
{
    kl_status st = KL_OK;
    double *w = NULL;
    int *dim = NULL;
    int64_t *off = NULL, at = 0;
    const int64_t total = t->mine->basis.total;
    KL_TRY(kl_alloc(&dim, t->nthere, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&off, t->nthere, KL_MEM_WORK, err));
    for (int i = 0; i < t->nthere; i++) {
        dim[i] = t->mine->basis.dim[t->order[i]];
        off[i] = t->off[t->order[i]];
    }
    if (!t->ex->vt.eigen) {
        KL_TRY(t->ex->vt.tridiagonal(t->ex, t->nthere, dim, off, t->rho, t->diagonal, t->beside, err));
        for (int i = 0; i < t->nthere; i++) t->sp[t->order[i]].rows = t->sp[t->order[i]].reduced.n = dim[i];
        goto out;
    }
    KL_TRY(kl_alloc(&w, total, KL_MEM_WORK, err));
    /* nothing may fail for memory when the density matrices are gone */
    for (int i = 0; i < t->nthere; i++) KL_TRY(kl_alloc(&t->sp[t->order[i]].w, dim[i], KL_MEM_WORK, err));
    KL_TRY(t->ex->vt.eigen(t->ex, t->nthere, dim, off, t->rho, w, err));
    for (int i = 0; i < t->nthere; at += dim[i++]) {
        spectrum *const sp = &t->sp[t->order[i]];
        sp->rows = dim[i];
        if (sp->rows == 0 || !(w[at + sp->rows - 1] > 0)) continue; /* nothing of the wavefunction is here */
        for (int s = 0; s < sp->rows; s++) sp->w[s] = w[at + s] > 0 ? w[at + s] : 0;
        sp->n = sp->rows;
    }
out:
    for (int i = 0; i < t->nthere && st != KL_OK; i++) kl_free(&t->sp[t->order[i]].w);
    kl_free(&w);
    kl_free(&dim);
    kl_free(&off);
    return st;
}

/* Weights of all the matrices that became tridiagonal. */
static kl_status solve_reduced(truncation *t, int nthread, kl_err *err)
{
    kl_status st = KL_OK;
    const int nsec = t->mine->basis.nsec;
    kl_divided *divided = NULL;
    const double **d = NULL, **e = NULL;
    int *n = NULL, *sec = NULL, count = 0;
    KL_TRY(kl_alloc(&divided, nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&d, nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&e, nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&n, nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&sec, nsec, KL_MEM_WORK, err));
    for (int i = 0; i < nsec; i++) {
        if (t->sp[t->order[i]].reduced.n == 0) continue;
        n[count] = t->sp[t->order[i]].reduced.n, sec[count] = t->order[i];
        d[count] = t->diagonal + t->at[i], e[count++] = t->beside + t->at[i];
    }
    KL_TRY(kl_divide(nthread, count, n, d, e, divided, err));
    for (int i = 0; i < count; i++) t->sp[sec[i]].reduced = divided[i];
    for (int i = 0; i < count; i++) {
        spectrum *const sp = &t->sp[sec[i]];
        if (!(sp->reduced.w[n[i] - 1] > 0)) continue; /* nothing of the wavefunction is here */
        KL_TRY(kl_alloc(&sp->w, n[i], KL_MEM_WORK, err));
        for (int s = 0; s < n[i]; s++) sp->w[s] = sp->reduced.w[s] > 0 ? sp->reduced.w[s] : 0;
        sp->n = n[i];
    }
out:
    kl_free(&divided);
    kl_free(&d);
    kl_free(&e);
    kl_free(&n);
    kl_free(&sec);
    return st;
}

/* Density matrices of sectors [from, to) in the order of their sizes, to the host: neighbours in one copy. */
static kl_status fetch(truncation *t, int from, int to, int64_t length, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = t->mine->basis.nsec;
    char *wanted = NULL;
    KL_TRY(kl_alloc(&wanted, n, KL_MEM_WORK, err));
    if (!t->host) KL_TRY(kl_realloc(&t->host, length, KL_MEM_WORK, err));
    for (int i = from; i < to; i++) wanted[t->order[i]] = 1;
    for (int c = 0, end; c < n; c = end) {
        for (end = c + 1; end < n && wanted[end] == wanted[c]; end++) continue;
        const int64_t stop = end < n ? t->off[end] : length;
        if (wanted[c])
            KL_TRY(t->ex->vt.download(t->ex, t->host + t->off[c], kl_dptr_at(t->rho, t->off[c]),
                                      stop - t->off[c], err));
    }
out:
    kl_free(&wanted);
    return st;
}

static void one_sector(truncation *t, int nth)
{
    const int c = t->order[nth];
    t->sp[c].rows = t->mine->basis.dim[c];
    t->status[c] =
        t->svd ? decompose(t, c, &t->sp[c], &t->error[c]) : diagonalize(t, nth, &t->sp[c], &t->error[c]);
}

/* Task 0 is all that the executor does, while other threads take the sectors that are left. */
static void one_task(void *self, int64_t task, int thread)
{
    truncation *const t = self;
    (void)thread;
    if (t->nthere == 0) one_sector(t, (int)task);
    else if (task > 0) one_sector(t, t->nthere + (int)task - 1);
    else t->status_there = diagonalize_there(t, &t->error_there);
}

/* Neighbouring columns of one sector that are kept, and where the isometry has them. */
typedef struct columns {
    const spectrum *sp;
    double *to;
    int first, count;
    kl_status status;
} columns;

static int there(const spectrum *sp) { return !sp->vec && sp->reduced.n == 0; }

/* To their place on the host, unless they are with the executor. */
static void bring_columns(void *self, int64_t task, int thread)
{
    columns *const c = (columns *)self + task;
    const spectrum *const sp = c->sp;
    (void)thread;
    if (there(sp)) return;
    if (sp->vec)
        memcpy(c->to, sp->vec + (int64_t)c->first * sp->rows,
               (size_t)c->count * (size_t)sp->rows * sizeof *c->to);
    else kl_divided_columns(&sp->reduced, c->first, c->count, c->to);
    if (sp->turn)
        c->status = kl_dense_eig_turn(sp->rows, sp->turn, sp->rows, sp->factor, c->count, c->to, NULL);
}

/* Of these runs the ones whose reflections the executor has: they begin at `host` as they do at data. */
static kl_status turn_reduced(const truncation *t, int64_t nrun, const columns *run, const double *host,
                              int64_t ndata, kl_dptr data, kl_err *err)
{
    kl_status st = KL_OK;
    int *n = NULL, *count = NULL, nmat = 0;
    int64_t *off = NULL, *at = NULL;
    const int end = t->mine->basis.nsec - 1, dim = t->mine->basis.dim[end];
    KL_TRY(kl_alloc(&n, t->nthere, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&count, t->nthere, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&off, t->nthere, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&at, t->nthere, KL_MEM_WORK, err));
    const spectrum *last = NULL;
    for (int64_t k = 0; k < nrun; k++) {
        const spectrum *const sp = run[k].sp;
        if (sp->reduced.n == 0 || sp->turn) continue;
        if (sp != last) n[nmat] = sp->rows, off[nmat] = t->off[sp - t->sp], at[nmat++] = run[k].to - host;
        count[nmat - 1] += run[k].count;
        last = sp;
    }
    KL_TRY(
        kl_turn(t->ex, nmat, n, off, t->off[end] + (int64_t)dim * dim, t->rho, count, at, ndata, data, err));
out:
    kl_free(&n);
    kl_free(&count);
    kl_free(&off);
    kl_free(&at);
    return st;
}

/* The kept states, sector by sector: from where they are to where the isometry has them. */
static kl_status gather(const truncation *t, const weight *w, int64_t nw, const kl_isometry *iso,
                        kl_dptr data, kl_err *err)
{
    enum { TOGETHER = 48 }; /* columns a thread turns at a time */
    kl_status st = KL_OK;
    double *host = NULL;
    columns *run = NULL;
    /* numbers of the isometry so far; those behind `from` are still on the host */
    int64_t at = 0, from = 0, nrun = 0;
    int making = 0, turning = 0; /* columns here; with reflections that the executor has */
    KL_TRY(kl_realloc(&host, iso->ndata, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&run, iso->basis.total, KL_MEM_WORK, err));
    for (int64_t i = 0; i < nw; i++) {
        if (!w[i].keep) continue;
        const spectrum *const sp = &t->sp[w[i].sec];
        columns *const last = nrun > 0 ? &run[nrun - 1] : NULL;
        if (last && last->sp == sp && last->first + last->count == w[i].column &&
            (there(sp) || last->count < TOGETHER))
            last->count++;
        else run[nrun++] = (columns){.sp = sp, .to = host + at, .first = w[i].column, .count = 1};
        making |= sp->turn || sp->reduced.n > 0, turning |= sp->reduced.n > 0 && !sp->turn;
        at += sp->rows;
    }
    kl_par_for(making ? t->ex->nthread : 1, nrun, bring_columns, run);
    for (int64_t k = 0; k < nrun; k++) {
        const spectrum *const sp = run[k].sp;
        const int64_t place = run[k].to - host, count = (int64_t)run[k].count * sp->rows;
        if (run[k].status != KL_OK) {
            st = kl_fail(err, run[k].status, "truncation: no memory to turn %d kept states of %d rows",
                         run[k].count, sp->rows);
            goto out;
        }
        if (!there(sp)) continue;
        KL_TRY(t->ex->vt.upload(t->ex, kl_dptr_at(data, from), host + from, place - from, err));
        t->ex->vt.copy(t->ex, count,
                       kl_dptr_at(t->rho, t->off[sp - t->sp] + (int64_t)run[k].first * sp->rows),
                       kl_dptr_at(data, place));
        from = place + count;
    }
    KL_TRY(t->ex->vt.upload(t->ex, kl_dptr_at(data, from), host + from, at - from, err));
    if (turning) KL_TRY(turn_reduced(t, nrun, run, host, iso->ndata, data, err));
out:
    kl_free(&run);
    kl_free(&host);
    return st;
}

kl_status kl_truncate(kl_exec *ex, kl_side side, const kl_layout *lay, const kl_enlarged *row,
                      const kl_enlarged *col, kl_dptr psi, const kl_bigop *grown, const kl_trunc_opts *o,
                      kl_isometry **out, kl_dptr *data, kl_trunc_info *info, kl_err *err)
{
    enum { WORTH_THREADS = 24 }; /* rows of the largest matrix */
    kl_status st = KL_OK;
    const kl_enlarged *const e = side == KL_LEFT ? row : col;
    const kl_basis *const mine = &e->basis, *const other = side == KL_LEFT ? &col->basis : &row->basis;
    const int n = mine->nsec;
    truncation t = {.side = side,
                    .lay = lay,
                    .row = row,
                    .col = col,
                    .mine = e,
                    .svd = o->precise && o->noise == 0,
                    .nstate = o->nstate,
                    .ex = ex};
    int64_t nrho = 0, nw = 0, cap = 0;
    weight *w = NULL, **sorted = NULL; /* w: sector by sector, as their columns come */
    keyed *size = NULL;
    int *have = NULL;
    int *sec = NULL, *dim = NULL;
    kl_enlarged *own = NULL;
    kl_isometry *iso = NULL;
    double sum = 0;
    *info = (kl_trunc_info){0};
    data->addr = 0;

    KL_TRY(kl_alloc(&t.sp, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t.off, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t.order, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t.at, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t.error, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&t.status, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&size, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&have, 3 * (int64_t)n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&sec, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&dim, n, KL_MEM_WORK, err));
    for (int c = 0; c < n; c++) {
        size[c] = (keyed){mine->dim[c], c};
        t.off[c] = nrho;
        nrho += (int64_t)mine->dim[c] * mine->dim[c];
    }
    qsort(size, (size_t)n, sizeof *size, by_size);
    for (int c = 0; c < n; c++) {
        t.order[c] = size[c].sec;
        t.at[c] = c > 0 ? t.at[c - 1] + size[c - 1].dim : 0;
    }
    info->matrix_max = n ? size[0].dim : 0;
    if (t.svd) {
        KL_TRY(kl_alloc(&t.host, lay->n * o->nstate, KL_MEM_WORK, err));
        KL_TRY(ex->vt.download(ex, t.host, psi, lay->n * o->nstate, err));
    } else {
        KL_TRY(kl_alloc(&t.diagonal, mine->total, KL_MEM_WORK, err));
        KL_TRY(kl_alloc(&t.beside, mine->total, KL_MEM_WORK, err));
        for (int i = 0; i < n; i++) dim[i] = size[i].dim;
        t.nthere = share_so_far(ex, dim, n); /* only small density matrices come to the host */
        memset(dim, 0, (size_t)n * sizeof *dim);
        KL_TRY(ex->vt.alloc(ex, nrho, &t.rho, err));
        KL_TRY(density(ex, side, lay, mine, other, psi, grown, o->nstate, 0, t.rho, err));
        if (o->noise > 0) KL_TRY(add_noise(&t, psi, grown, o->noise, nrho, err));
        KL_TRY(fetch(&t, t.nthere, n, nrho, err));
        if (t.nthere == 0) ex->vt.release(ex, &t.rho);
    }
    const int nthread = info->matrix_max < WORTH_THREADS ? 1 : ex->nthread, asked = t.nthere;
    kl_par_for(asked > 0 ? threads_beside(ex) : nthread, n - asked + (asked > 0), one_task, &t);
    if (t.status_there == KL_ENOMEM || t.status_there == KL_EABSENT) {
        KL_TRY(fetch(&t, 0, asked, nrho, err));
        t.nthere = 0;
        kl_par_for(nthread, asked, one_task, &t);
    } else if (t.status_there != KL_OK) {
        st = kl_fail(err, t.status_there, "%s", t.error_there.text);
        goto out;
    }
    for (int c = 0; c < n; c++) {
        if (t.status[c] == KL_OK) continue;
        st = kl_fail(err, t.status[c], "%s", t.error[c].text);
        goto out;
    }
    KL_TRY(solve_reduced(&t, nthread, err));
    for (int c = 0; c < n; c++) {
        for (int s = 0; s < t.sp[c].n; s++) {
            KL_TRY(add_weight(&w, &nw, &cap, (weight){.w = t.sp[c].w[s], .sec = c, .column = s}, err));
            sum += t.sp[c].w[s];
        }
    }
    if (!(sum > 0)) {
        st = kl_fail(err, KL_EBROKEN, "truncation: the wavefunction has no weight (norm^2 %g)", sum);
        goto out;
    }
    KL_TRY(kl_realloc(&sorted, nw, KL_MEM_WORK, err));
    for (int64_t i = 0; i < nw; i++) w[i].w /= sum, sorted[i] = &w[i];
    qsort(sorted, (size_t)nw, sizeof *sorted, by_weight);
    info->m = (int)select_states(sorted, nw, n, o,
                                 o->fill ? 0
                                 : t.svd ? 1e-32
                                         : 1e-17,
                                 o->full || ex->space == KL_SPACE_DEVICE, !o->fill && o->discard == 0, have,
                                 have + n, have + 2 * n);
    for (int64_t i = nw - 1; i >= 0; i--) {
        const weight *const x = sorted[i];
        if (!x->keep) info->discarded += x->w;
        if (x->w > 0) info->entropy -= x->w * log(x->w);
        if (x->keep) dim[x->sec]++;
    }
    int nsec = 0;
    for (int c = 0; c < n; c++)
        if (dim[c]) sec[nsec] = c, dim[nsec] = dim[c], nsec++;
    KL_TRY(kl_enlarged_copy(e, &own, err));
    KL_TRY(kl_isometry_shape_take(&own, nsec, sec, dim, &iso, err));
    KL_TRY(ex->vt.alloc(ex, iso->ndata, data, err));
    KL_TRY(gather(&t, w, nw, iso, *data, err));
    info->nsec = nsec;
out:
    ex->vt.release(ex, &t.rho);
    for (int c = 0; t.sp && c < n; c++) {
        kl_free(&t.sp[c].vec);
        kl_free(&t.sp[c].w);
        kl_free(&t.sp[c].factor);
        kl_divided_clear(&t.sp[c].reduced);
    }
    kl_free(&t.sp);
    kl_free(&t.off);
    kl_free(&t.order);
    kl_free(&t.error);
    kl_free(&t.status);
    kl_free(&t.host);
    kl_free(&t.at);
    kl_free(&t.diagonal);
    kl_free(&t.beside);
    kl_free(&size);
    kl_free(&w);
    kl_free(&sorted);
    kl_free(&have);
    kl_free(&sec);
    kl_free(&dim);
    kl_enlarged_destroy(&own);
    if (st != KL_OK) {
        kl_isometry_destroy(&iso);
        ex->vt.release(ex, data);
    }
    *out = iso;
    return st;
}

/* Kept sector of every enlarged one, or -1. */
static kl_status kept_sectors(const kl_isometry *iso, int **out, kl_err *err)
{
    const int n = iso->enlarged->basis.nsec;
    const kl_status st = kl_alloc(out, n, KL_MEM_WORK, err);
    if (st != KL_OK) return st;
    for (int c = 0; c < n; c++) (*out)[c] = -1;
    for (int k = 0; k < iso->basis.nsec; k++) (*out)[iso->sec[k]] = k;
    return KL_OK;
}

kl_status kl_block_grow(kl_exec *ex, const kl_bigop *g, const kl_isometry *iso, kl_dptr iso_data,
                        kl_block **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_block *b = NULL;
    kl_batch batch;
    int *kept = NULL;
    const kl_enlarged *const e = g->enlarged;
    const int n = e->basis.nsec, nk = iso->basis.nsec;
    kl_batch_init(&batch);
    KL_TRY(kept_sectors(iso, &kept, err));
    KL_TRY(kl_block_create(ex, g->block->mpo, g->block->side, g->cut, &iso->basis, &b, err));
    for (int op = 0; op < g->nop; op++) {
        if (kl_bigop_identity(g, op)) continue;
        for (int k = 0; k < nk; k++) {
            const int c = iso->sec[k], to = g->dst[op * n + c];
            const int k2 = b->dst[op * nk + k];
            if (k2 < 0) continue;
            const int rows = e->basis.dim[to], cols = e->basis.dim[c], m = iso->basis.dim[k],
                      m2 = iso->basis.dim[k2];
            const int64_t at = (int64_t)op * n + c, y = b->off[op * nk + k];
            int64_t nwork = 0;
            KL_TRY(kl_batch_open_group(&batch, y, (int64_t)m * m2, err));
            KL_TRY(kl_batch_reserve(&batch, 2 * (g->first[at + 1] - g->first[at]) + 1, err));
            /* parts with the same rows share one product from the left; they follow each other only by
               chance, so gather them */
            for (int64_t i = g->first[at]; i < g->first[at + 1]; i++) {
                const kl_part *const p = &g->part[i];
                int done = 0, more = 0;
                for (int64_t j = g->first[at]; j < g->first[at + 1]; j++) {
                    if (g->part[j].row != p->row) continue;
                    if (j < i) done = 1;
                    if (j > i) more = 1;
                }
                if (done) continue;
                const int64_t o2 = iso->off[k2] + p->row;
                if (!more && p->off < 0) {
                    *kl_batch_push(&batch) = (kl_rec){.kind = KL_REC_GEMM,
                                                      .ta = 1,
                                                      .beta = 1,
                                                      .at_a = KL_AT_X,
                                                      .at_b = KL_AT_X,
                                                      .at_c = KL_AT_Y,
                                                      .m = m2,
                                                      .n = m,
                                                      .k = p->nrow,
                                                      .lda = rows,
                                                      .ldb = cols,
                                                      .ldc = m2,
                                                      .a = o2,
                                                      .b = iso->off[k] + p->col,
                                                      .c = y,
                                                      .alpha = p->coef};
                    continue;
                }
                for (int64_t j = i; j < g->first[at + 1]; j++) {
                    const kl_part *const q = &g->part[j];
                    if (q->row != p->row) continue;
                    *kl_batch_push(&batch) = q->off < 0 ? (kl_rec){.kind = KL_REC_ADD,
                                                                   .beta = j > i,
                                                                   .at_a = KL_AT_X,
                                                                   .at_c = KL_AT_WORK,
                                                                   .m = q->nrow,
                                                                   .n = m,
                                                                   .lda = cols,
                                                                   .ldc = q->nrow,
                                                                   .a = iso->off[k] + q->col,
                                                                   .alpha = q->coef}
                                                        : (kl_rec){.kind = KL_REC_GEMM,
                                                                   .ta = q->dag,
                                                                   .beta = j > i,
                                                                   .at_a = (uint8_t)kl_bigop_at(g, q),
                                                                   .at_b = KL_AT_X,
                                                                   .at_c = KL_AT_WORK,
                                                                   .m = q->nrow,
                                                                   .n = m,
                                                                   .k = q->ncol,
                                                                   .lda = q->ld,
                                                                   .ldb = cols,
                                                                   .ldc = q->nrow,
                                                                   .a = q->off,
                                                                   .b = iso->off[k] + q->col,
                                                                   .alpha = q->coef};
                }
                if ((int64_t)p->nrow * m > nwork) nwork = (int64_t)p->nrow * m;
                *kl_batch_push(&batch) = (kl_rec){.kind = KL_REC_GEMM,
                                                  .ta = 1,
                                                  .beta = 1,
                                                  .at_a = KL_AT_X,
                                                  .at_b = KL_AT_WORK,
                                                  .at_c = KL_AT_Y,
                                                  .m = m2,
                                                  .n = m,
                                                  .k = p->nrow,
                                                  .lda = rows,
                                                  .ldb = p->nrow,
                                                  .ldc = m2,
                                                  .a = o2,
                                                  .c = y,
                                                  .alpha = 1};
            }
            kl_batch_close_group(&batch, nwork);
        }
    }
    batch.zero = 1;
    kl_bigop_bases(g, &batch);
    KL_TRY(kl_batch_run(&batch, ex, iso_data, b->data, err));
out:
    kl_batch_clear(&batch);
    kl_free(&kept);
    if (st != KL_OK) kl_block_destroy(&b);
    *out = b;
    return st;
}

kl_status kl_wave_turn(kl_exec *ex, int direction, int nstate, const kl_layout *lay, const kl_enlarged *row,
                       const kl_enlarged *col, const kl_isometry *made, kl_dptr made_data,
                       const kl_isometry *used, kl_dptr used_data, const kl_enlarged *row_to,
                       const kl_enlarged *col_to, const kl_layout *lay_to, kl_dptr psi, kl_dptr psi_to,
                       kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    ex->vt.fill(ex, nstate * lay_to->n, 0.0, psi_to);
    for (int k = 0; k < made->basis.nsec; k++) {
        const int mk = made->basis.dim[k];
        const int i = direction > 0 ? made->sec[k] : lay->back[made->sec[k]];
        const int j = direction > 0 ? lay->pair[made->sec[k]] : made->sec[k];
        if (i < 0 || j < 0) continue;
        const int di = row->basis.dim[i], dj = col->basis.dim[j];
        for (int v = 0; v < nstate; v++) {
            const int64_t x = v * lay->n + lay->off[i], y0 = v * lay_to->n;
            KL_TRY(kl_batch_open_group(&b, 0, 0, err));
            KL_TRY(kl_batch_reserve(&b, 1 + row->d + col->d, err));
            if (direction > 0) {
                /* C = O_k^T psi; then column part (s, r) of C, opened by the isometry of site c+2, is row
                   part (k, s) of the next centre */
                *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                              .ta = 1,
                                              .at_a = KL_AT_LEFT,
                                              .at_b = KL_AT_X,
                                              .at_c = KL_AT_WORK,
                                              .m = mk,
                                              .n = dj,
                                              .k = di,
                                              .lda = di,
                                              .ldb = di,
                                              .ldc = mk,
                                              .a = made->off[k],
                                              .b = x,
                                              .alpha = 1};
                for (int s = 0; s < col->d; s++) {
                    const int r = col->part_sec[j * col->d + s], to = row_to->home[k * col->d + s];
                    if (r < 0 || to < 0 || lay_to->pair[to] < 0) continue;
                    const int wide = used->enlarged->basis.dim[used->sec[r]], ld = row_to->basis.dim[to];
                    *kl_batch_push(&b) =
                        (kl_rec){.kind = KL_REC_GEMM,
                                 .tb = 1,
                                 .at_a = KL_AT_WORK,
                                 .at_b = KL_AT_RIGHT,
                                 .at_c = KL_AT_Y,
                                 .m = mk,
                                 .n = wide,
                                 .k = used->basis.dim[r],
                                 .lda = mk,
                                 .ldb = wide,
                                 .ldc = ld,
                                 .a = (int64_t)col->part_off[j * col->d + s] * mk,
                                 .b = used->off[r],
                                 .c = y0 + lay_to->off[to] + row_to->part_off[to * row_to->d + s],
                                 .alpha = 1};
                }
                kl_batch_close_group(&b, (int64_t)mk * dj);
            } else {
                *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                              .at_a = KL_AT_X,
                                              .at_b = KL_AT_RIGHT,
                                              .at_c = KL_AT_WORK,
                                              .m = di,
                                              .n = mk,
                                              .k = dj,
                                              .lda = di,
                                              .ldb = dj,
                                              .ldc = di,
                                              .a = x,
                                              .b = made->off[k],
                                              .alpha = 1};
                for (int s = 0; s < row->d; s++) {
                    const int l = row->part_sec[i * row->d + s], to = col_to->home[k * row->d + s];
                    if (l < 0 || to < 0 || lay_to->back[to] < 0) continue;
                    const int ito = lay_to->back[to], tall = used->enlarged->basis.dim[used->sec[l]];
                    *kl_batch_push(&b) = (kl_rec){.kind = KL_REC_GEMM,
                                                  .at_a = KL_AT_LEFT,
                                                  .at_b = KL_AT_WORK,
                                                  .at_c = KL_AT_Y,
                                                  .m = tall,
                                                  .n = mk,
                                                  .k = used->basis.dim[l],
                                                  .lda = tall,
                                                  .ldb = di,
                                                  .ldc = tall,
                                                  .a = used->off[l],
                                                  .b = row->part_off[i * row->d + s],
                                                  .c = y0 + lay_to->off[ito] +
                                                       (int64_t)col_to->part_off[to * col_to->d + s] * tall,
                                                  .alpha = 1};
                }
                kl_batch_close_group(&b, (int64_t)di * mk);
            }
        }
    }
    b.base[KL_AT_LEFT] = direction > 0 ? made_data : used_data;
    b.base[KL_AT_RIGHT] = direction > 0 ? used_data : made_data;
    KL_TRY(kl_batch_run(&b, ex, psi, psi_to, err));
out:
    kl_batch_clear(&b);
    return st;
}
