/* Spectral functions of a list of operators.
   1. Each word becomes an operator and its coefficients on the sites. 2. For every operator, state of the
      lowest multiplet and part of a momentum: poles, added to
   those of the operator; when all are there, its curve. 3. A checkpoint holds the states, the poles so far,
   and the current recurrence; curves that are whole stand in the same file's result.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/edprobe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/edresult.h"
#include "ed/edspectral.h"
#include "base/mem.h"

typedef struct probe {
    kl_siteop *op;
    char name[160];     /* in the result file */
    /* 1, or cosine and sine of a momentum: H and O are real, so that their curves add up */
    int npart;
    double *coef[2];    /* [nsite] by position */
} probe;

static void probe_clear(probe *p)
{
    kl_siteop_destroy(&p->op);
    for (int i = 0; i < 2; i++) kl_free(&p->coef[i]);
}

/* "cdag_up@3", "Sz@-1", "Sz@q=2,0" */
static kl_status probe_read(const kl_task *t, const char *text, probe *p, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_lattice *const lat = t->lat;
    const char *const at = strrchr(text, '@');
    char word[128];
    kl_qn shift;
    int odd;
    int64_t m[2] = {0, 0};
    *p = (probe){.npart = 1};
    snprintf(p->name, sizeof(p->name), "%s", text);
    for (char *c = p->name; *c != '\0'; c++)
        if (*c == '/') *c = ':';
    if (at && at - text >= (int)sizeof(word))
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--spectral '%.100s': the text is too long; an operator may have %d characters", text,
                       (int)sizeof(word) - 1));
    if (!at || at == text)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--spectral: '%.100s' is not OPERATOR@SITE, OPERATOR@q=M or OPERATOR@q=MX,MY", text));
    snprintf(word, sizeof(word), "%.*s", (int)(at - text), text);
    KL_TRY(kl_siteop_create(t->model, word, &p->op, err));
    KL_TRY(kl_ed_spectral_shift(p->op, &shift, &odd, err));
    for (int i = 0; i < 2; i++) KL_TRY(kl_alloc(&p->coef[i], lat->nsite, KL_MEM_MISC, err));
    if (strncmp(at, "@q=", 3) != 0) {
        const int i = kl_lattice_site(lat, at + 1);
        if (i < 0)
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "--spectral %.100s: '%.60s' is no site and no momentum; allowed: @SITE, @q=M, "
                           "@q=MX,MY; the lattice has sites 0 to %d, -1 being the last",
                           text, at, lat->nsite - 1));
        if (!p->op->mat[t->terms->type[lat->position[i]] - t->model->type])
            KL_TRY(kl_fail(err, KL_EINPUT, "--spectral %.100s: site %s has no such operator", text, at + 1));
        p->coef[0][lat->position[i]] = 1.0;
        return st;
    }
    const int length[2] = {lat->kind == KL_LATTICE_GRID ? lat->lx : lat->nsite,
                           lat->kind == KL_LATTICE_GRID ? lat->ly : 1};
    const size_t first = strcspn(at + 3, ",");
    char mx[24], half[40];
    snprintf(half, sizeof(half), ", so that @q=%d is pi", length[0] / 2);
    snprintf(mx, sizeof(mx), "%.*s", (int)(first < sizeof(mx) ? first : sizeof(mx) - 1), at + 3);
    if (first >= sizeof(mx) || !kl_parse_int(mx, &m[0]) || llabs(m[0]) > INT32_MAX ||
        (at[3 + first] == ',' && (!kl_parse_int(at + 4 + first, &m[1]) || llabs(m[1]) > INT32_MAX)))
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--spectral %.100s: '%.60s' is no momentum; allowed: @q=M, @q=MX,MY, whole numbers: "
                       "q is 2 pi M / %d%s",
                       text, at, length[0], length[0] % 2 == 0 ? half : ""));
    const int periodic[2] = {lat->kind == KL_LATTICE_RING ||
                                 (lat->kind == KL_LATTICE_GRID && lat->periodic_x),
                             lat->kind == KL_LATTICE_GRID && lat->periodic_y};
    for (int k = 0; k < 2; k++)
        if (m[k] != 0 && !periodic[k])
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "--spectral %.100s: %s is not periodic in direction %c, which has no momentum",
                           text, lat->spec, "xy"[k]));
    double sines = 0.0;
    for (int i = 0; i < lat->nsite; i++) {
        const int x = i / length[1], y = i % length[1];
        const double phase =
            2.0 * 3.14159265358979323846 *
            ((double)(m[0] * x % length[0]) / length[0] + (double)(m[1] * y % length[1]) / length[1]);
        p->coef[0][lat->position[i]] = cos(phase) / sqrt(lat->nsite);
        p->coef[1][lat->position[i]] = sin(phase) / sqrt(lat->nsite);
        sines = fmax(sines, fabs(sin(phase)));
    }
    p->npart = sines > 1e-9 ? 2 : 1;
out:
    if (st != KL_OK) probe_clear(p);
    return st;
}

/* from's poles, `share` of them, into sum. */
static kl_status gather(kl_ed_spectral *sum, const kl_ed_spectral *from, double share, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_realloc(&sum->pole, sum->npole + from->npole, KL_MEM_MISC, err));
    KL_TRY(kl_realloc(&sum->weight, sum->npole + from->npole, KL_MEM_MISC, err));
    for (int i = 0; i < from->npole; i++) {
        sum->pole[sum->npole] = from->pole[i];
        sum->weight[sum->npole++] = share * from->weight[i];
    }
    sum->total += share * from->total;
    sum->nstep = from->nstep > sum->nstep ? from->nstep : sum->nstep;
    sum->converged = sum->converged && from->converged;
    sum->dim = from->dim;
out:
    return st;
}

kl_status kl_edprobe_check(const kl_task *t, const char *text, kl_err *err)
{
    probe p;
    const kl_status st = probe_read(t, text, &p, err);
    if (st == KL_OK) probe_clear(&p);
    return st;
}

/* ---------------------------------------------------------------- 3. */

typedef struct listing {
    const kl_edprobe_opts *opts;
    const kl_ed *ed;
    const kl_ed_result *found;
    kl_dptr x;
    int64_t ldx;
    int place[3];        /* current operator, state, part */
    kl_ed_spectral sum;  /* of that operator, before them */
} listing;

/* ORDER of the numbers: operator, state, part; states, those of the lowest multiplet, whether it is open;
   energies, with room for LEAST at least; then of the sum, counted from there */
enum {
    STATES = 3,
    MULTIPLET,
    OPEN,
    ENERGY,
    LEAST = 16,
};
enum { TOTAL, STEPS, CONVERGED, DIM, NPOLE, NSUM };

static int64_t sum_at(int nstate) { return ENERGY + (nstate > LEAST ? nstate : LEAST); }

static int due(void *self)
{
    const listing *const l = self;
    return l->opts->keep->keeper.due(l->opts->keep);
}

static kl_status write(void *self, const kl_keep *chain, kl_err *err)
{
    kl_status st = KL_OK;
    const listing *const l = self;
    const kl_ed_spectral *const s = &l->sum;
    const int64_t at = sum_at(l->found->nstate), own = at + NSUM + 2 * (int64_t)s->npole;
    double *number = NULL;
    kl_dptr *vector = NULL;
    int64_t *length = NULL;
    const int64_t **begin = NULL;
    kl_keep out = {.nnumber = own + chain->nnumber, .nvector = l->found->nstate + chain->nvector};
    KL_TRY(kl_alloc(&number, out.nnumber, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&vector, out.nvector, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&length, out.nvector, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&begin, out.nvector, KL_MEM_MISC, err));
    for (int i = 0; i < 3; i++) number[i] = l->place[i];
    number[STATES] = l->found->nstate;
    number[MULTIPLET] = l->found->multiplet[0];
    number[OPEN] = l->found->open_multiplet;
    memcpy(number + ENERGY, l->found->energy, sizeof(double) * (size_t)l->found->nstate);
    double *to = number + at;
    to[TOTAL] = s->total;
    to[STEPS] = s->nstep;
    to[CONVERGED] = s->converged;
    to[DIM] = (double)s->dim;
    to[NPOLE] = s->npole;
    to += NSUM;
    const double *const list[2] = {s->pole, s->weight};
    for (int i = 0; i < 2 && s->npole > 0; i++, to += s->npole)
        memcpy(to, list[i], sizeof(double) * (size_t)s->npole);
    memcpy(to, chain->number, sizeof(double) * (size_t)chain->nnumber);
    out.number = number;
    for (int k = 0; k < l->found->nstate; k++) {
        vector[k] = kl_dptr_at(l->x, k * l->ldx);
        length[k] = kl_linop_all(&l->ed->op);
        begin[k] = l->ed->begin;
    }
    for (int v = 0; v < chain->nvector; v++) {
        vector[l->found->nstate + v] = chain->vector[v];
        length[l->found->nstate + v] = chain->n[v];
        begin[l->found->nstate + v] = chain->begin[v];
    }
    out.vector = vector;
    out.n = length;
    out.begin = begin;
    st = l->opts->keep->keeper.write(l->opts->keep, &out, err);
out:
    kl_free(&number);
    kl_free(&vector);
    kl_free(&length);
    kl_free(&begin);
    return st;
}

static kl_status refuse(const kl_edkeep *keep, kl_err *err)
{
    return kl_fail(
        err, KL_EINPUT,
        "--resume: the %lld numbers and %d vectors in %.300s are not those of spectral functions under way",
        (long long)keep->file.from.nnumber, keep->file.from.nvector, keep->path);
}

static int is_count(double x, double most) { return x >= 0.0 && x <= most && x == floor(x); }

kl_status kl_edprobe_states(const kl_edkeep *keep, const kl_ed *ed, kl_ed_result *found, kl_dptr *x,
                            int64_t *ldx, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_keep *const k = &keep->file.from;
    kl_dptr *to = NULL;
    if (k->nnumber <= STATES || !is_count(k->number[STATES], k->nvector) || k->number[STATES] < 1 ||
        k->nnumber < sum_at((int)k->number[STATES]) + NSUM)
        return refuse(keep, err);
    *found = (kl_ed_result){.open_multiplet = (int)k->number[OPEN]};
    KL_TRY(kl_ed_result_states(found, (int)k->number[STATES], err));
    found->multiplet[0] = (int)k->number[MULTIPLET];
    memcpy(found->energy, k->number + ENERGY, sizeof(double) * (size_t)found->nstate);
    *ldx = kl_eig_stride(ed->op.n);
    for (int i = 0; i < found->nstate; i++)
        if (k->n[i] != kl_linop_all(&ed->op)) return refuse(keep, err);
    KL_TRY(ed->ex->vt.alloc(ed->ex, found->nstate * *ldx, x, err));
    KL_TRY(kl_alloc(&to, found->nstate, KL_MEM_WORK, err));
    for (int i = 0; i < found->nstate; i++) to[i] = kl_dptr_at(*x, i * *ldx);
    KL_TRY(kl_keep_take(k, &ed->op, found->nstate, to, err));
out:
    kl_free(&to);
    return st;
}

/* Where a list goes on, and its sum; *chain: its recurrence. */
static kl_status take_up(listing *l, int nop, kl_keep *chain, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_edkeep *const keep = l->opts->keep;
    const kl_keep *const k = &keep->file.from;
    const int64_t at = sum_at(l->found->nstate);
    const double *const f = k->number, *const told = f + at;
    kl_ed_spectral *const s = &l->sum;
    const double room = (double)k->nnumber;
    if (!is_count(f[0], nop - 1) || !is_count(f[1], l->found->nstate - 1) || !is_count(f[2], 1) ||
        !is_count(told[NPOLE], room) || (double)(at + NSUM) + 2 * told[NPOLE] > room)
        return refuse(keep, err);
    for (int i = 0; i < 3; i++) l->place[i] = (int)f[i];
    *s = (kl_ed_spectral){.total = told[TOTAL],
                          .nstep = (int)told[STEPS],
                          .converged = (int)told[CONVERGED],
                          .dim = (int64_t)told[DIM],
                          .npole = (int)told[NPOLE]};
    double **const list[2] = {&s->pole, &s->weight};
    const double *from = told + NSUM;
    for (int i = 0; i < 2 && s->npole > 0; i++, from += s->npole) {
        KL_TRY(kl_alloc(list[i], s->npole, KL_MEM_MISC, err));
        memcpy(*list[i], from, sizeof(double) * (size_t)s->npole);
    }
    *chain = kl_keep_behind(k, from - f, l->found->nstate);
out:
    return st;
}

/* ---------------------------------------------------------------- 2. */

kl_status kl_edprobe_run(const kl_task *t, const kl_ed *ed, const kl_ed_result *found, kl_dptr x, int64_t ldx,
                         const kl_edprobe_opts *opts, kl_result *r, int *stopped, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_options *const o = t->o;
    const int whole = kl_edresult_whole(found), many = whole > 0 ? whole : 1;
    probe p = {0};
    kl_ed_spectral one = {0};
    double *omega = NULL;
    listing l = {.opts = opts, .ed = ed, .found = found, .x = x, .ldx = ldx, .sum = {.converged = 1}};
    kl_keep chain = {0};
    kl_keeper keeper = {.self = &l, .due = due, .write = write};
    kl_ed_spectral_opts common = {.broadening = o->broadening > 0 ? o->broadening : 0.1,
                                  .max_steps = (int)o->steps,
                                  .self = opts->self,
                                  .step = opts->step,
                                  .keeper = opts->keep ? &keeper : NULL};
    *stopped = 0;
    if (o->spectral.n == 0) return KL_OK;
    if (o->frequencies != NULL)
        KL_TRY(kl_options_values("--frequencies", o->frequencies, &common.nomega, &omega, err));
    common.omega = omega;
    if (opts->keep && opts->keep->keeper.from) {
        KL_TRY(take_up(&l, o->spectral.n, &chain, err));
        keeper.from = &chain;
    }
    for (int i = l.place[0]; i < o->spectral.n; i++) {
        KL_TRY(probe_read(t, o->spectral.text[i], &p, err));
        const int first[2] = {keeper.from ? l.place[1] : 0, keeper.from ? l.place[2] : 0};
        for (int k = first[0]; k < many; k++)
            for (int c = k == first[0] ? first[1] : 0; c < p.npart; c++) {
                l.place[0] = i, l.place[1] = k, l.place[2] = c;
                KL_TRY(kl_ed_spectral_run(ed, t->terms, kl_dptr_at(x, k * ldx), found->energy[k], p.op,
                                          p.coef[c], &common, &one, err));
                keeper.from = NULL;
                *stopped = one.stopped;
                if (*stopped) goto out;
                KL_TRY(gather(&l.sum, &one, 1.0 / many, err));
                kl_ed_spectral_clear(&one);
            }
        KL_TRY(kl_ed_spectral_finish(&l.sum, &common, err));
        KL_TRY(kl_edresult_add_spectral(r, p.name, common.broadening, &l.sum, err));
        kl_ed_spectral_clear(&l.sum);
        l.sum = (kl_ed_spectral){.converged = 1};
        probe_clear(&p);
    }
out:
    kl_ed_spectral_clear(&one);
    kl_ed_spectral_clear(&l.sum);
    probe_clear(&p);
    kl_free(&omega);
    return st;
}
