/* Configuration interaction from options to results: see cirun.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/cirun.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/prof.h"
#include "ci/cisector.h"
#include "comm/ranks.h"
#include "config.h"
#include "exec/streamed.h"
#include "io/checked.h"
#include "io/spfile.h"
#include "run/beyond.h"
#include "run/outputs.h"
#include "run/runfile.h"
#include "run/task.h"
#include "sparse/mmfile.h"

/* ---------------------------------------------------------------- what was asked */

static kl_status ask(const kl_options *o, kl_ci_opts *ci, kl_err *err)
{
    kl_status st = KL_OK;
    *ci = (kl_ci_opts){.irrep = -1,
                       .nroot = o->roots > 0 ? (int)o->roots : 1,
                       .frozen = (int)o->frozen,
                       .nelec = (int)o->electrons,
                       .have_ms2 = o->ms2 != KL_NO_MS2,
                       .ms2 = o->ms2 != KL_NO_MS2 ? (int)o->ms2 : 0,
                       .half = o->half,
                       .tol = o->residual,
                       .max_basis = (int)o->basis,
                       .pspace = (int)o->pspace,
                       .seed = o->seed > 0 ? (uint64_t)o->seed : 1,
                       .density = o->density};
    KL_TRY(kl_option_says("space", kl_ci_parse_space(o->space != NULL ? o->space : "cisd", ci, err), err));
    if (o->irrep != NULL && strcmp(o->irrep, "all") != 0) ci->irrep = o->irrep[0] - '1';
    for (int r = 0; r < o->reference.n; r++) ci->lowest |= strcmp(o->reference.text[r], "lowest") == 0;
    if (ci->lowest && o->reference.n > 1)
        return kl_fail(err, KL_EINPUT,
                       "--reference: 'lowest' is one determinant; it does not go with others");
    ci->nref = ci->lowest ? 0 : o->reference.n;
    ci->ref = (const char *const *)o->reference.text;
    if (o->store != NULL)
        ci->store = strcmp(o->store, "matrix") == 0   ? KL_CI_MATRIX
                    : strcmp(o->store, "direct") == 0 ? KL_CI_DIRECT
                    : strcmp(o->store, "mixed") == 0  ? KL_CI_MIXED
                                                      : KL_CI_AUTO;
    if (o->format != NULL && !kl_spformat_parse(o->format, &ci->format.format))
        return kl_fail(err, KL_EINPUT, "--format: '%s' is not known", o->format);
    ci->format.boundary = o->boundary;
    ci->format.height = o->slice;
    ci->format.sigma = o->sigma;
    if (o->boundary > 0 && ci->format.format != KL_SP_HYBRID)
        return kl_fail(err, KL_EINPUT, "--boundary belongs to --format hybrid");
    if ((o->slice > 0 || o->sigma > 0) && ci->format.format != KL_SP_SELL && ci->format.format != KL_SP_SELLR)
        return kl_fail(err, KL_EINPUT, "--slice and --sigma belong to --format sell or sellr");
    if (o->half && ci->format.format != KL_SP_CSR && ci->format.format != KL_SP_HYBRID)
        return kl_fail(err, KL_EINPUT, "--half: format %s holds no symmetric halves; csr and hybrid do",
                       o->format);
    if (o->basis > 0 && o->basis < ci->nroot + 2)
        return kl_fail(err, KL_EINPUT, "--basis: %lld was given; %d roots need at least %d",
                       (long long)o->basis, ci->nroot, ci->nroot + 2);
    const char *const whole = o->matrix != NULL   ? "--matrix"
                              : o->arrays != NULL ? "--arrays"
                              : o->half           ? "--half"
                                                  : NULL;
    if (kl_ci_is_direct(ci) && (whole != NULL || o->format != NULL))
        return kl_fail(err, KL_EINPUT, "%s: %s has no stored matrix; add --store matrix",
                       whole != NULL ? whole : "--format", ci->full ? "a full space" : "--store direct");
    if (ci->store == KL_CI_MIXED && whole != NULL)
        return kl_fail(err, KL_EINPUT, "%s: of --store mixed only a part may be stored; add --store matrix",
                       whole);
    if (whole != NULL) ci->store = KL_CI_MATRIX;
    ci->memory_bytes = o->memory > 0 ? (int64_t)(o->memory * 1e9) : 0;
out:
    return st;
}

/* ---------------------------------------------------------------- who is told, and what is written */

static int on_step(void *self, int irrep, int napply, double energy, double residual)
{
    const kl_watch *const w = ((const kl_cirun *)self)->watch;
    if (w != NULL && w->block_product != NULL) w->block_product(w->self, irrep, napply, energy, residual);
    return kl_ranks_any(((const kl_cirun *)self)->ex, kl_interrupted());
}

static void tell_block(void *self, int irrep, const kl_ci_block *b, int done)
{
    const kl_watch *const w = ((const kl_cirun *)self)->watch;
    if (w != NULL && w->block != NULL) w->block(w->self, irrep, b, done);
}

static void numbered(char *path, size_t size, const char *name, int n)
{
    if (n == 1) snprintf(path, size, "%s", name);
    else snprintf(path, size, "%s-%d", name, n);
}

static kl_status write_matrix(void *self, int irrep, const kl_spmat *csr, kl_err *err)
{
    kl_cirun *const x = self;
    char path[1100], comment[200];
    if (x->o->matrix == NULL || !kl_ranks_first(x->ex)) return KL_OK;
    numbered(path, sizeof(path), x->o->matrix, ++x->nmatrix);
    snprintf(comment, sizeof(comment), "kronlat %s: %.120s, irrep %d", KL_VERSION, x->record.fcidump,
             irrep + 1);
    return kl_option_says("matrix", kl_mmfile_write(path, csr, comment, err), err);
}

static kl_status write_arrays(void *self, int irrep, const kl_spmat *m, kl_err *err)
{
    kl_cirun *const x = self;
    char path[1100];
    (void)irrep;
    if (x->o->arrays == NULL) return KL_OK;
    numbered(path, sizeof(path), x->o->arrays, ++x->narrays);
    return kl_option_says(
        "arrays", kl_spfile_write(path, m, m->format == KL_SP_HYBRID ? m->width : x->boundary, err), err);
}

static int is_due(void *self)
{
    const kl_cirun *const x = self;
    return kl_ranks_any(x->ex, kl_ranks_first(x->ex) && kl_pace_due(&x->pace)); /* by one clock */
}

static kl_status write_file(void *self, const kl_result_run *run, kl_err *err)
{
    const kl_cirun *const x = self;
    return kl_cifile_write(x->path, &x->record, run, err);
}

static kl_status keep(void *self, const kl_keep *kept, kl_err *err)
{
    kl_cirun *const x = self;
    kl_err why;
    (void)err;
    const double start = kl_prof_seconds();
    kl_pace_done(&x->pace, start, kl_keepfile_write(&x->file, 0, kept, &why), &why);
    return KL_OK;
}

static kl_status bring_back(void *self, int irrep, int most, int64_t n, int *nvec, double *v, kl_err *err)
{
    const kl_cirun *const x = self;
    return kl_cifile_vectors(x->path, irrep, most, n, nvec, v, err);
}

/* Tries whether it can be written, before any work. path NULL: it was not asked for. */
static kl_status probe(const char *option, const char *path, kl_err *err)
{
    const kl_status st = path != NULL ? kl_checked_probe(path, err) : KL_OK;
    return st == KL_OK ? st : kl_fail(err, st, "%s: %s", option, err->text);
}

/* The options as lines, for --resume. */
static kl_status options_text(const kl_options *o, char **out, kl_err *err)
{
    const char *name, *value;
    char number[40];
    size_t length = 1;
    for (int i = 0; kl_options_given(o, i, &name, &value, number); i++)
        length += strlen(name) + strlen(value) + 2;
    const kl_status st = kl_alloc(out, (int64_t)length, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    char *p = *out;
    for (int i = 0; kl_options_given(o, i, &name, &value, number); i++)
        p += sprintf(p, "%s=%s\n", name, value);
    return KL_OK;
}

/* What the file says, where the command line says nothing. */
static kl_status adopt(kl_options *o, const kl_ci_record *c, kl_err *err)
{
    kl_status st = KL_OK;
    char *copy = kl_strdup(c->options);
    if (copy == NULL) return kl_fail(err, KL_ENOMEM, "no memory for the options in %.300s", o->resume);
    char *rest = copy, *value;
    for (char *line; (line = kl_runfile_line(&rest, &value)) != NULL;)
        if (strcmp(line, "output") != 0 && strcmp(line, "resume") != 0 && !kl_options_foreign(o, line))
            KL_TRY(kl_options_set(o, o->resume, line, value, err));
    if (o->file == NULL) KL_TRY(kl_options_set(o, o->resume, "fcidump", c->fcidump, err));
out:
    kl_free(&copy);
    return st;
}

static kl_status fill_record(const kl_options *o, kl_ci_record *c, kl_err *err)
{
    c->program = kl_strdup(KL_VERSION);
    c->command_line = kl_strdup(o->command_line);
    c->fcidump = kl_strdup(o->file);
    c->space = kl_strdup(o->space != NULL ? o->space : "cisd");
    if (c->program == NULL || c->command_line == NULL || c->fcidump == NULL || c->space == NULL)
        return kl_fail(err, KL_ENOMEM, "no memory for the result");
    return options_text(o, &c->options, err);
}

/* ---------------------------------------------------------------- the run */

const char *kl_cirun_path(const kl_options *o)
{
    if (o->resume != NULL) return o->resume;
    return o->output != NULL && strcmp(o->output, "none") != 0 ? o->output : NULL;
}

kl_status kl_cirun_open(kl_options *o, kl_cirun *x, kl_err *err)
{
    kl_status st = KL_OK;
    kl_ci_record done = {0};
    *x = (kl_cirun){.o = o, .pace = kl_pace_begin(o->checkpoint_every, NULL)};
    if (o->resume != NULL) {
        KL_TRY(kl_option_says("resume", kl_cifile_read(o->resume, &done, err), err));
        if (done.finished)
            KL_TRY(kl_fail(err, KL_EINPUT, "--resume: the run in %.300s has finished", o->resume));
        KL_TRY(adopt(o, &done, err));
        snprintf(x->begun, sizeof x->begun, "%s", done.integrals);
        x->old = !done.has_run;
    }
    KL_TRY(kl_options_check(o, err));
    KL_TRY(ask(o, &x->opts, err));
    KL_TRY(kl_outputs_check(o, NULL, err));
    x->path = kl_cirun_path(o);
    x->resumed = x->pace.kept = o->resume != NULL;
    x->boundary = o->boundary;
out:
    kl_cifile_clear(&done);
    return st;
}

enum { MOST_WORK = 16 };

/* What the irreps come to. */
static kl_status find_work(const kl_cirun *x, int64_t *n, kl_work work[MOST_WORK], kl_err *err)
{
    kl_status st = KL_OK;
    kl_ci_size size;
    const int direct = kl_ci_is_direct(&x->opts);
    double bytes = 0, kept = 0, least = 0;
    *n = 0;
    KL_TRY(kl_ci_check(&x->opts, err));
    KL_TRY(kl_ci_measure(x->integrals, &x->opts, &size, err));
    for (int g = 0; g < 8; g++) {
        const double ndet = size.ndet[g], whole = ndet * size.connected[g],
                     stored = ndet > 0 ? kl_ci_stored_share(&x->opts, whole) : 0, nonzeros = whole * stored;
        if (!(ndet > 0)) continue;
        /* irreps that hold none of the lowest states are left after about half of the products */
        const double share = *n > 0 ? 0.5 : 1.0;
        bytes += size.vector_bytes[g] + 12 * nonzeros;
        kept += size.kept_bytes[g];
        least = fmax(least, size.least_bytes[g]);
        const double scale = size.connected[g] / kl_optime_connected((int64_t)fmin(ndet, 1e12));
        kl_work *const w = &work[(*n)++];
        *w = (kl_work){.what = !direct        ? KL_TIMED_SPMV
                               : x->opts.full ? KL_TIMED_SIGMA
                                              : KL_TIMED_ROWS,
                       .size = fmax(direct ? ndet : nonzeros / (int)KL_OPTIME_ROW, 1),
                       .scale = direct ? scale : 1,
                       .n = ndet,
                       .products = share * (double)(KL_CISECTOR_PRODUCTS * (int64_t)x->opts.nroot)};
        if (direct || stored == 1) continue;
        /* the rows that are not stored; the vectors are counted already */
        work[(*n)++] = (kl_work){.what = KL_TIMED_ROWS,
                                 .size = fmax(ndet, 1),
                                 .scale = scale * (1 - stored),
                                 .n = 1,
                                 .products = w->products};
    }
    if (*n > 0) { /* all irreps are there at a time */
        work[0].bytes = bytes;
        work[0].least = kept + least;
    }
out:
    return st;
}

static kl_status open_exec(kl_cirun *x, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t n = 0;
    kl_work work[MOST_WORK];
    const int asks = kl_placement_automatic(x->o);
    if (asks || x->o->exec != NULL) KL_TRY(find_work(x, &n, work, err));
    KL_TRY(kl_task_exec_work(x->o, asks ? n : 0, asks ? work : NULL, &x->ex, err));
    KL_TRY(kl_beyond_wrap(n, work, &x->ex, err));
out:
    return st;
}

kl_status kl_cirun_begin(kl_cirun *x, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_options *const o = x->o;
    const kl_comm *const ranks = kl_comm_world();
    if (ranks == NULL || ranks->rank == 0) {
        KL_TRY(probe("--matrix", o->matrix, err));
        KL_TRY(probe("--arrays", o->arrays, err));
        if (x->path != NULL) KL_TRY(kl_checked_probe(x->path, err));
    }
    KL_TRY(fill_record(o, &x->record, err));
    snprintf(x->record.integrals, sizeof(x->record.integrals), "%016llx",
             (unsigned long long)kl_fcidump_hash(x->integrals));
    if (x->begun[0] != '\0' && strcmp(x->begun, x->record.integrals) != 0)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--resume: the integrals in %.300s are not those that %.300s was begun with", o->file,
                       o->resume));
    KL_TRY(open_exec(x, err));
    x->opts.nthread = x->ex->nthread;
out:
    return st;
}

kl_status kl_cirun_go(kl_cirun *x, kl_err *err)
{
    kl_status st = KL_OK;
    kl_ci_result r;
    int stage;
    kl_ci_monitor monitor = {
        .self = x, .block = tell_block, .matrix = write_matrix, .stored = write_arrays, .step = on_step};
    x->pace.watch = x->watch;
    if (x->path != NULL) {
        x->file = (kl_keepfile){
            .ex = x->ex, .path = x->path, .read = kl_cifile_read_run, .write = write_file, .self = x};
        x->keeper = (kl_keeper){.self = x, .due = is_due, .write = keep};
        monitor.keeper = &x->keeper;
    }
    if (x->resumed && x->old) monitor.load = bring_back;
    else if (x->resumed) {
        KL_TRY(kl_keepfile_read(&x->file, &stage, err));
        x->keeper.from = &x->file.from;
    }
    if (kl_streamed_about(x->ex) && x->watch != NULL && x->watch->note != NULL)
        x->watch->note(x->watch->self, x->ex->chosen);
    KL_TRY(kl_ci_run(x->integrals, x->ex, &x->opts, &monitor, &r, err));
    x->record.r = r;
    x->record.finished = !r.stopped;
out:
    kl_keepfile_close(&x->file);
    return st;
}

void kl_cirun_clear(kl_cirun *x)
{
    kl_cifile_clear(&x->record);
    kl_exec_close(&x->ex);
}
