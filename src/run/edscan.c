/* Sectors of a scan in a file: see edscan.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/edscan.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "comm/ranks.h"
#include "config.h"
#include "io/result.h"
#include "model/qn.h"
#include "run/runfile.h"

/* A row of a sector: its charges, then these. */
enum {
    NSTATE = KL_MAX_CHARGE,
    DIM,
    LENGTH,
    ATTAINABLE,
    OPEN_MULTIPLET,
    STOP,
    SOLVER,
    NSECTOR,
};

/* A row of a state. */
enum {
    ENERGY,
    RESIDUAL,
    ERROR,
    MULTIPLET,
    NSTATE_ROW,
};

static const char *const sector_name = "ed/scan/sectors", *const state_name = "ed/scan/states";

void kl_edscan_clear(kl_edscan *s)
{
    kl_free(&s->sector);
    kl_free(&s->state);
    s->n = 0;
    s->nstate = 0;
}

static kl_status copy(double **to, const kl_measured *m, int64_t width, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(to, m->shape[0] * width, KL_MEM_MISC, err));
    memcpy(*to, m->data, sizeof(double) * (size_t)(m->shape[0] * width));
out:
    return st;
}

/* 1: the rows are whole, and of these sectors. */
static int is_sound(const kl_edscan *s, int64_t n, const kl_qn *sector)
{
    int64_t nstate = 0;
    if (s->n > n) return 0;
    for (int k = 0; k < s->n; k++) {
        const double *const row = s->sector + (int64_t)k * NSECTOR;
        for (int c = 0; c < KL_MAX_CHARGE; c++)
            if (row[c] != sector[k].v[c]) return 0;
        if (!(row[NSTATE] >= 1 && row[NSTATE] <= (double)s->nstate)) return 0;
        nstate += (int64_t)row[NSTATE];
    }
    return nstate == s->nstate;
}

static const kl_measured *find(const kl_result *r, const char *name, int64_t width)
{
    for (int i = 0; i < r->nmeasured; i++) {
        const kl_measured *const m = &r->measured[i];
        if (strcmp(m->name, name) == 0 && m->rank == 2 && m->shape[1] == width) return m;
    }
    return NULL;
}

kl_status kl_edscan_read(const kl_task *t, const char *path, int64_t n, const kl_qn *sector, kl_edscan *s,
                         kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *r = NULL;
    char *text = NULL;
    kl_err ignored;
    *s = (kl_edscan){.n = 0};
    if (access(path, R_OK) != 0) return KL_OK;
    if (kl_result_read(path, &r, &ignored) != KL_OK) return KL_OK; /* it will be replaced */
    KL_TRY(kl_runfile_options(t->o, t, NULL, &text, err));
    const kl_measured *const sectors = find(r, sector_name, NSECTOR), *const states =
                                                                          find(r, state_name, NSTATE_ROW);
    const int same = sectors != NULL && states != NULL && strcmp(text, r->options) == 0 &&
                     strcmp(r->program, KL_VERSION) == 0 &&
                     kl_result_match(path, r, t->model, t->lat, t->params, t->dmrg.target, KL_MATCH_RUN,
                                     &ignored) == KL_OK;
    if (!same) goto out;
    KL_TRY(copy(&s->sector, sectors, NSECTOR, err));
    KL_TRY(copy(&s->state, states, NSTATE_ROW, err));
    s->n = (int)sectors->shape[0];
    s->nstate = states->shape[0];
    if (!is_sound(s, n, sector)) kl_edscan_clear(s);
out:
    if (st != KL_OK) kl_edscan_clear(s);
    kl_free(&text);
    kl_result_destroy(&r);
    return st;
}

kl_status kl_edscan_take(const kl_edscan *s, int k, kl_ed_result *to, kl_err *err)
{
    kl_status st = KL_OK;
    const double *const row = s->sector + (int64_t)k * NSECTOR;
    int64_t first = 0;
    for (int i = 0; i < k; i++) first += (int64_t)s->sector[(int64_t)i * NSECTOR + NSTATE];
    KL_TRY(kl_ed_result_states(to, (int)row[NSTATE], err));
    to->dim = (int64_t)row[DIM];
    to->n = (int64_t)row[LENGTH];
    to->attainable = row[ATTAINABLE];
    to->open_multiplet = (int)row[OPEN_MULTIPLET];
    to->stop = (kl_ed_stop)row[STOP];
    to->solver = (kl_ed_solver)row[SOLVER];
    for (int i = 0; i < to->nstate; i++) {
        const double *const x = s->state + (first + i) * NSTATE_ROW;
        to->energy[i] = x[ENERGY];
        to->residual[i] = x[RESIDUAL];
        to->error[i] = x[ERROR];
        to->multiplet[i] = (int)x[MULTIPLET];
    }
out:
    return st;
}

static kl_status write_file(const kl_task *t, const char *path, const kl_edscan *s, kl_err *err)
{
    kl_status st = KL_OK;
    kl_result *r = NULL;
    char *text = NULL;
    const int64_t sectors[2] = {s->n, NSECTOR}, states[2] = {s->nstate, NSTATE_ROW};
    KL_TRY(kl_runfile_options(t->o, t, NULL, &text, err));
    const kl_result_origin origin = {KL_VERSION, t->o->command_line, text};
    KL_TRY(kl_result_create(t->model, t->lat, t->params, t->dmrg.target, t->dmrg.seed, &origin, &r, err));
    KL_TRY(kl_result_add(
        r, sector_name,
        "sectors of a scan that are done: 8 charges, states told, dimension, length of vectors, "
        "attainable error, open multiplet, why it stopped, solver",
        2, sectors, s->sector, err));
    KL_TRY(kl_result_add(r, state_name, "their states: energy, residual, error, multiplet", 2, states,
                         s->state, err));
    KL_TRY(kl_result_write(path, r, NULL, err));
out:
    kl_free(&text);
    kl_result_destroy(&r);
    return st;
}

kl_status kl_edscan_add(const kl_task *t, const char *path, kl_qn sector, const kl_ed_result *found,
                        kl_edscan *s, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_realloc(&s->sector, ((int64_t)s->n + 1) * NSECTOR, KL_MEM_MISC, err));
    KL_TRY(kl_realloc(&s->state, (s->nstate + found->nstate) * NSTATE_ROW, KL_MEM_MISC, err));
    double *const row = s->sector + (int64_t)s->n * NSECTOR;
    for (int c = 0; c < KL_MAX_CHARGE; c++) row[c] = sector.v[c];
    row[NSTATE] = found->nstate;
    row[DIM] = (double)found->dim;
    row[LENGTH] = (double)found->n;
    row[ATTAINABLE] = found->attainable;
    row[OPEN_MULTIPLET] = found->open_multiplet;
    row[STOP] = (double)found->stop;
    row[SOLVER] = (double)found->solver;
    for (int i = 0; i < found->nstate; i++) {
        double *const x = s->state + (s->nstate + i) * NSTATE_ROW;
        x[ENERGY] = found->energy[i];
        x[RESIDUAL] = found->residual[i];
        x[ERROR] = found->error[i];
        x[MULTIPLET] = found->multiplet[i];
    }
    s->n++;
    s->nstate += found->nstate;
    if (kl_ranks_first(t->ex)) KL_TRY(write_file(t, path, s, err));
out:
    return st;
}
