/* A run's operations with the shapes they will have, each asked of the executor; nothing is solved.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/explain.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/cirun.h"
#include "run/edrun.h"
#include "ci/cisector.h"
#include "base/json.h"
#include "base/mem.h"
#include "exec/eigshare.h"
#include "cli/report.h"
#include "dmrg/leading.h"
#include "dmrg/settle.h"
#include "run/runfile.h"
#include "run/task.h"
#include "run/tune.h"
#include "config.h"

enum { MOST = 16 };

typedef struct row {
    char name[40], shape[80], measured[160]; /* measured: what the tune table says of it; "" nothing */
    kl_choice choice;
} row;

typedef struct table {
    kl_exec *ex;
    kl_tune tune;
    int tuned;       /* 1: there is a tune table, of this device */
    int n;
    row row[MOST];
    kl_dmrg_plan plan; /* of DMRG: the ways to run its list */
    /* predicted: operators and tables, vectors, lists and intermediates, what the executor could still give
       (0: not known) */
    double bytes[4];
} table;

/* The tune table's line of the same operation at the nearest size: of a list its mean product. */
static void measured(const table *t, row *r, const kl_call *call)
{
    int64_t size;
    kl_timed what;
    if (t->tuned && kl_tune_of(call, &what, &size))
        kl_tune_choose(&t->tune, what, size, r->measured, sizeof r->measured);
}

static kl_status ask(table *t, const char *name, const char *shape, const kl_call *call, kl_err *err)
{
    row *const r = &t->row[t->n++];
    snprintf(r->name, sizeof r->name, "%s", name ? name : kl_op_name[call->op]);
    snprintf(r->shape, sizeof r->shape, "%s", shape);
    measured(t, r, call);
    return kl_exec_explain(t->ex, call, &r->choice, err);
}

static void host_work(table *t, const char *name, const char *shape, const char *kernel, const char *why)
{
    row *const r = &t->row[t->n++];
    snprintf(r->name, sizeof r->name, "%s", name);
    snprintf(r->shape, sizeof r->shape, "%s", shape);
    r->choice = (kl_choice){.exec = "host", .kernel = kernel};
    snprintf(r->choice.why, sizeof r->choice.why, "%s", why);
}

static kl_status vector_rows(table *t, int64_t n, int width, kl_err *err)
{
    kl_status st = KL_OK;
    char shape[80];
    snprintf(shape, sizeof shape, "n = %lld", (long long)n);
    const kl_op plain[] = {KL_OP_COPY, KL_OP_AXPBY, KL_OP_PRECONDITION};
    for (int i = 0; i < 3; i++) KL_TRY(ask(t, NULL, shape, &(kl_call){.op = plain[i], .n = n}, err));
    for (int i = 0; i < 2; i++) {
        snprintf(shape, sizeof shape, "n = %lld, width 1 to %d", (long long)n, width);
        KL_TRY(ask(t, NULL, shape, &(kl_call){.op = i ? KL_OP_COMBINE : KL_OP_DOTS, .n = n, .nvec = width},
                   err));
    }
out:
    return st;
}

static kl_status list_row(table *t, const char *name, const kl_batch *b, kl_err *err)
{
    char shape[80];
    snprintf(shape, sizeof shape, "%lld records in %d groups", (long long)b->nrec, b->ngroup);
    return ask(t, name, shape, &(kl_call){.op = KL_OP_BATCH, .n = b->nx, .batch = b}, err);
}

static kl_status transfer_row(table *t, const char *name, kl_op op, int64_t n, kl_err *err)
{
    char shape[80];
    snprintf(shape, sizeof shape, "%lld numbers", (long long)n);
    return ask(t, name, shape, &(kl_call){.op = op, .n = n}, err);
}

static int descending(const void *pa, const void *pb)
{
    const int a = *(const int *)pa, b = *(const int *)pb;
    return (a < b) - (a > b);
}

/* Who diagonalizes which density matrices: one of dim^2 numbers stands behind each group of their list. */
static kl_status eigen_rows(table *t, const kl_exec *ex, const kl_batch *density, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = density->ngroup;
    char shape[80];
    int *dim = NULL;
    KL_TRY(kl_alloc(&dim, n, KL_MEM_MISC, err));
    for (int i = 0; i < n; i++) dim[i] = (int)sqrt((double)density->group[i].ny + 0.5);
    qsort(dim, (size_t)n, sizeof *dim, descending);
    const kl_eigen_share share = kl_eigen_share_best(ex, dim, n, 0);
    const int there = share.there;
    for (int k = 0; k < 2; k++) {
        const int from = k ? there : 0, to = k ? n : there;
        if (from == to) continue;
        snprintf(shape, sizeof shape, "%d of %d to %d rows", to - from, dim[from], dim[to - 1]);
        host_work(t, "their eigenvectors", shape,
                  k              ? "LAPACK"
                  : ex->vt.eigen ? "cuSOLVER syevd"
                                 : "reflections, then divide and conquer",
                  k              ? "one sector a thread; vectors of large ones, and kept states, by all"
                  : ex->vt.eigen ? "one sector a thread"
                                 : "all tridiagonal side by side, a launch a row; their vectors by all "
                                   "threads; kept states turned there");
        row *const r = &t->row[t->n - 1];
        if (!k) {
            r->choice.exec = ex->name;
            const int length = snprintf(r->choice.why, sizeof r->choice.why,
                                        "the largest, while %d threads have the others", ex->nthread);
            if (ex->eigen.opening > 0)
                snprintf(r->choice.why + length, sizeof r->choice.why - (size_t)length,
                         "; once the %.1f s are saved that it takes to open", ex->eigen.opening);
        }
        if (there > 0 && ex->eigen.ntime > 0)
            snprintf(r->measured, sizeof r->measured, "%.3g ms here, %.3g ms there at once",
                     share.here_seconds * 1e3, share.there_seconds * 1e3);
        else if (t->tuned && !k)
            kl_tune_choose(&t->tune, KL_TIMED_EIGEN, dim[0] > 0 ? dim[0] : 1, r->measured,
                           sizeof r->measured);
    }
out:
    kl_free(&dim);
    return st;
}

/* Sectors that a sweep of as many states as the one before does by products instead: about m / rows of all of
   each are kept. */
static void products_row(table *t, const kl_task *task, const kl_dmrg_plan *p)
{
    char shape[80], why[160];
    int64_t all = 0, rows = 0;
    int count = 0, width = 0;
    for (int i = 0; i < p->npair; i++) all += p->pair[i].rows;
    for (int i = 0; i < p->npair; i++) {
        const int64_t kept = p->pair[i].rows * p->m / (all > p->m ? all : p->m);
        const kl_sector_case c = {.way = task->dmrg.truncation,
                                  .rows = (int)p->pair[i].rows,
                                  .wide = task->dmrg.nstate * (int)p->pair[i].cols,
                                  .known = (int)kept,
                                  .growth = 1,
                                  .narrow = p->sites == 1,
                                  .there = t->ex->space == KL_SPACE_DEVICE,
                                  .full = t->ex->space == KL_SPACE_DEVICE};
        const kl_sector_way way = kl_sector_choose(&c);
        if (!way.products) continue;
        count++;
        if (way.width > width) width = way.width;
        if (p->pair[i].rows > rows) rows = p->pair[i].rows;
    }
    if (count == 0) return;
    snprintf(shape, sizeof shape, "%d of %d sectors, %d columns of %lld rows at most", count, p->npair, width,
             (long long)rows);
    snprintf(why, sizeof why,
             "in place of density matrices, in sweeps that know the basis of the one before "
             "(--truncation %s)",
             kl_truncation_name[task->dmrg.truncation]);
    host_work(t, "truncation by products", shape, "products and Gram matrices", why);
    t->row[t->n - 1].choice.exec = t->ex->name;
}

/* States that a block keeps: m, or all that it has where these are fewer. */
static int64_t kept_states(const kl_dmrg_plan *p)
{
    int64_t all = 0;
    for (int i = 0; i < p->npair; i++) all += p->pair[i].rows;
    return all < p->m ? all : p->m;
}

/* What comes before a one-site step. */
static void expansion_row(table *t, const kl_dmrg_plan *p)
{
    char shape[80];
    if (p->sites != 1) return;
    snprintf(shape, sizeof shape, "from %lld states to %d", (long long)kept_states(p), p->absorbed);
    host_work(t, "bond expansion", shape, "products with random rows; small ones by LAPACK",
              "in sweeps without noise (--sites-per-step 1)");
    t->row[t->n - 1].choice.exec = t->ex->name;
}

/* Instead of both, where a sweep repeats its m. */
static void settling_row(table *t, const kl_task *task, const kl_dmrg_plan *p)
{
    char shape[80];
    if (p->sites != 1 || !kl_settle_planned(&task->dmrg, p->m)) return;
    snprintf(shape, sizeof shape, "%lld states stay", (long long)kept_states(p));
    host_work(t, "way back, same m", shape, "products and Cholesky factors",
              "no expansion and no truncation, where the sweep before had as many states (--schedule)");
    t->row[t->n - 1].choice.exec = t->ex->name;
}

static kl_status explain_dmrg(const kl_options *o, const kl_task *t, table *out, char *what, size_t size,
                              kl_err *err)
{
    kl_status st = KL_OK;
    kl_dmrg_plan p = {0};
    const int widest = kl_options_widest(o), m = widest > 0 ? widest : 1024;
    KL_TRY(kl_dmrg_make_plan(t->terms, t->ex, &t->dmrg, m, &p, err));
    if (kl_model_spin(t->model) < 0) snprintf(what, size, "dmrg, m = %d, the middle bond", m);
    else
        snprintf(what, size, "dmrg, m = %d multiplets of %lld states, the middle bond", m,
                 (long long)p.states);
    KL_TRY(list_row(out, "y = H x", &p.apply, err));
    KL_TRY(vector_rows(out, p.dim, p.max_basis, err));
    KL_TRY(list_row(out, "density matrices", &p.density, err));
    KL_TRY(eigen_rows(out, t->ex, &p.density, err));
    products_row(out, t, &p);
    expansion_row(out, &p);
    settling_row(out, t, &p);
    KL_TRY(transfer_row(out, "density matrices, down", KL_OP_DOWNLOAD, p.density.ny, err));
    KL_TRY(transfer_row(out, "isometries, up", KL_OP_UPLOAD, kept_states(&p) * p.matrix_max, err));
    out->bytes[0] = 8.0 * (double)p.operator_doubles;
    out->bytes[1] = 8.0 * (double)(p.solver_doubles + 3 * p.dim);
    for (int i = 0; i < out->n; i++)
        if ((double)out->row[i].choice.memory_bytes > out->bytes[2])
            out->bytes[2] = (double)out->row[i].choice.memory_bytes;
    out->plan = p, p = (kl_dmrg_plan){0};
out:
    kl_dmrg_plan_clear(&p);
    return st;
}

/* y = H x by a stored matrix, whose non-zeros are known about. */
static kl_status matrix_row(table *t, const kl_spmat *m, int64_t products, kl_err *err)
{
    char shape[80];
    snprintf(shape, sizeof shape, "%lld rows, about %.3g non-zeros", (long long)m->nrow, (double)m->nnz);
    t->bytes[0] += 12 * (double)m->nnz;
    return ask(t, "y = H x", shape,
               &(kl_call){.op = KL_OP_SPMV, .n = m->nrow, .matrix = m, .products = products}, err);
}

static kl_status explain_ed(const kl_options *o, const kl_task *t, table *out, char *what, size_t size,
                            kl_err *err)
{
    kl_status st = KL_OK;
    kl_ed_opts opts;
    kl_ed_plan p;
    char shape[80];
    kl_edrun_opts(t, &opts);
    KL_TRY(kl_ed_make_plan(t->terms, t->target, kl_edrun_form(o), &opts, t->ex->nthread, &p, err));
    const int64_t n = (int64_t)p.size.n;
    snprintf(what, size, "exact diagonalization, halves are %s",
             p.size.flavours ? "the two flavours" : "sites");
    snprintf(shape, sizeof shape, "n = %lld", (long long)n);
    if (o->store != NULL && strcmp(o->store, "matrix") == 0) {
        const kl_spmat m = {.nrow = n, .ncol = n, .nnz = (int64_t)(p.size.n * p.row_nonzeros)};
        KL_TRY(matrix_row(out, &m, 100, err));
    } else KL_TRY(ask(out, "y = H x", shape, &(kl_call){.op = KL_OP_KRON, .n = n}, err));
    KL_TRY(ask(out, NULL, "Lanczos: 3 in, 1 out, 1 product",
               &(kl_call){.op = KL_OP_FUSE, .n = n, .nvec = 3, .nout = 1}, err));
    KL_TRY(vector_rows(out, n, p.nvector, err));
    out->bytes[0] += p.table_bytes;
    out->bytes[1] = p.vector_bytes * p.nvector;
out:
    return st;
}

/* The largest irrep of the run. */
static kl_status explain_ci(const kl_cirun *x, table *out, char *what, size_t size, kl_err *err)
{
    kl_status st = KL_OK;
    kl_ci_size s;
    char shape[80];
    int g = 0;
    KL_TRY(kl_ci_measure(x->integrals, &x->opts, &s, err));
    for (int k = 1; k < 8; k++)
        if (s.ndet[k] > s.ndet[g]) g = k;
    const int64_t n = (int64_t)s.ndet[g];
    const int direct = kl_ci_is_direct(&x->opts), width = x->opts.max_basis > 0 ? x->opts.max_basis : 20;
    snprintf(what, size, "configuration interaction, irrep %d", g + 1);
    snprintf(shape, sizeof shape, "%lld determinants", (long long)n);
    const double stored = kl_ci_stored_share(&x->opts, s.ndet[g] * s.connected[g]);
    char why[160];
    if (direct) snprintf(why, sizeof why, "nothing is stored; elements are made as they are needed");
    else
        snprintf(why, sizeof why,
                 "at least %.0f %% of the matrix are stored; the rest is made as it is needed",
                 floor(100 * stored));
    if (direct && x->opts.full)
        KL_TRY(ask(out, "y = H x", shape, &(kl_call){.op = KL_OP_SIGMA, .n = n}, err));
    else if (!direct) {
        const kl_spmat m = {.format = x->opts.format.format,
                            .symmetric = x->opts.half,
                            .nrow = n,
                            .ncol = n,
                            .nnz = (int64_t)(s.ndet[g] * s.connected[g] * stored)};
        KL_TRY(matrix_row(out, &m, KL_CISECTOR_PRODUCTS * (int64_t)x->opts.nroot, err));
    }
    if (stored < 1 && !(direct && x->opts.full)) {
        const int there = x->ex->vt.dets_apply != NULL && x->ex->ranks == NULL;
        host_work(out, "y = H x, not stored", shape, there ? "a thread an element" : "strings", why);
        if (there) out->row[out->n - 1].choice.exec = x->ex->name;
    }
    KL_TRY(vector_rows(out, n, width, err));
    out->bytes[1] = s.vector_bytes[g];
out:
    return st;
}

/* A column for `text' too, unless that is longer than `most'. */
static void widen(int *width, const char *text, int most)
{
    const int n = (int)strlen(text);
    if (n > *width && n <= most) *width = n;
}

static void print_text(const table *t)
{
    enum { WIDEST = 30 }; /* a kernel's name that is longer shifts its own line */
    char a[32], b[32];
    int name = 24, shape = 34, kernel = 21;
    for (int i = 0; i < t->n; i++) {
        widen(&name, t->row[i].name, INT_MAX);
        widen(&shape, t->row[i].shape, INT_MAX);
        widen(&kernel, t->row[i].choice.kernel, WIDEST);
    }
    printf("\n%-*s %-*s %-8s %-*s %8s %10s %10s  %s\n", name, "operation", shape, "shape", "on", kernel,
           "kernel", "launches", "moves", "flop", "why");
    for (int i = 0; i < t->n; i++) {
        const kl_choice *const c = &t->row[i].choice;
        printf("%-*s %-*s %-8s %-*s %8d %10s %10s  %s\n", name, t->row[i].name, shape, t->row[i].shape,
               c->exec, kernel, c->kernel, c->nlaunch, c->bytes > 0 ? kl_report_bytes(c->bytes, a) : "-",
               c->flop > 0 ? kl_report_flop(c->flop, b) : "-", c->why);
        if (t->row[i].measured[0]) printf("%-*s measured: %s\n", name, "", t->row[i].measured);
    }
    printf("\nmemory       %s of operators or tables, ", kl_report_bytes(t->bytes[0], a));
    printf("%s of vectors, ", kl_report_bytes(t->bytes[1], a));
    printf("%s of lists and intermediates", kl_report_bytes(t->bytes[2], a));
    if (t->bytes[3] > 0) printf("; the device has %s free", kl_report_bytes(t->bytes[3], a));
    if (t->bytes[3] > 0 && t->bytes[0] + t->bytes[1] + t->bytes[2] > t->bytes[3])
        printf(": a part of the eigensolver's basis stays on the host");
    printf("\n");
    kl_report_ways(stdout, &t->plan);
    kl_report_beyond(stdout, &t->plan);
}

/* task NULL: of a molecule by configuration interaction. */
static void print_json(const kl_options *o, const kl_task *task, const char *what, const table *t)
{
    static const char *const key[4] = {"operator_bytes", "vector_bytes", "work_bytes", "free_bytes"};
    char charges[256];
    kl_json j = kl_json_begin(stdout);
    kl_report_json_open(&j, KL_VERSION, "explain");
    if (task != NULL) {
        kl_json_text(&j, "model", task->model->name);
        kl_json_text(&j, "lattice", task->lat->spec);
        kl_json_text(&j, "charges", kl_qn_print(task->model, task->target, charges, sizeof charges));
    } else {
        kl_json_text(&j, "file", o->file);
        kl_json_text(&j, "space", o->space != NULL ? o->space : "cisd");
    }
    kl_json_text(&j, "method", what);
    kl_json_text(&j, "exec", t->ex->name);
    kl_json_text(&j, "where", t->ex->where);
    kl_json_text(&j, "chosen", t->ex->chosen[0] ? t->ex->chosen : NULL);
    kl_json_open(&j, "operations", '[');
    for (int i = 0; i < t->n; i++) {
        const kl_choice *const c = &t->row[i].choice;
        kl_json_open(&j, NULL, '{');
        kl_json_text(&j, "operation", t->row[i].name);
        kl_json_text(&j, "shape", t->row[i].shape);
        kl_json_text(&j, "exec", c->exec);
        kl_json_text(&j, "kernel", c->kernel);
        kl_json_int(&j, "launches", c->nlaunch);
        kl_json_int(&j, "memory_bytes", c->memory_bytes);
        kl_json_real(&j, "bytes", c->bytes);
        kl_json_real(&j, "flop", c->flop);
        kl_json_text(&j, "why", c->why);
        kl_json_text(&j, "measured", t->row[i].measured[0] ? t->row[i].measured : NULL);
        kl_json_close(&j, '}');
    }
    kl_json_close(&j, ']');
    for (int i = 0; i < 4; i++)
        if (i < 3 || t->bytes[i] > 0) kl_json_real(&j, key[i], t->bytes[i]);
    if (t->plan.nway > 0) kl_report_ways_json(&j, &t->plan);
    kl_json_close(&j, '}');
    kl_json_end(&j);
}

/* The executor is there: its memory, and its tune table. */
static void begin(table *t, kl_exec *ex)
{
    kl_err none;
    t->ex = ex;
    /* of this device, or of no device where there is none */
    t->tuned = kl_tune_read(NULL, &t->tune, &none) == KL_OK;
    for (int e = 1; e < KL_TUNE_NEXEC && t->tuned; e++)
        t->tuned = strcmp(ex->name, kl_tune_exec[e]) != 0 || strcmp(ex->where, t->tune.where[e]) == 0;
    const int64_t room = ex->vt.room(ex);
    if (room < INT64_MAX) t->bytes[3] = (double)room;
}

static kl_status explain_molecule(kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_fcidump *f = NULL;
    table out = {0};
    char what[128];
    kl_cirun x;
    KL_TRY(kl_cirun_open(o, &x, err));
    KL_TRY(kl_runfile_integrals(o->file, &f, err));
    x.integrals = f;
    KL_TRY(kl_cirun_begin(&x, err));
    begin(&out, x.ex);
    KL_TRY(explain_ci(&x, &out, what, sizeof what, err));
    if (o->json) print_json(o, NULL, what, &out);
    else {
        printf("%s, space %s: %s\n--exec %s: %s\n", o->file, o->space != NULL ? o->space : "cisd", what,
               x.ex->name, x.ex->where);
        if (x.ex->chosen[0]) printf("%s%s\n", kl_placement_automatic(o) ? "--exec auto: " : "", x.ex->chosen);
        print_text(&out);
    }
out:
    kl_cirun_clear(&x);
    kl_fcidump_destroy(&f);
    return st;
}

static kl_status open_exec(kl_task *t, int exact, kl_err *err)
{
    return exact ? kl_edrun_exec(t, err) : kl_task_exec(t->o, &t->ex, err);
}

kl_status kl_explain_command(kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *t = NULL;
    table out = {0};
    char charges[256], what[128];
    const int exact = o->method != NULL && strcmp(o->method, "ed") == 0;
    if (o->method != NULL && strcmp(o->method, "ci") == 0) return explain_molecule(o, err);
    KL_TRY(kl_options_check(o, err));
    KL_TRY(kl_task_create(o, 0, &t, err));
    KL_TRY(kl_task_charges(t, err));
    KL_TRY(kl_task_one_sector(t, "operations are explained for", err));
    KL_TRY(kl_task_aim(t, t->target, err));
    KL_TRY(open_exec(t, exact, err));
    begin(&out, t->ex);
    if (exact) KL_TRY(explain_ed(o, t, &out, what, sizeof what, err));
    else KL_TRY(explain_dmrg(o, t, &out, what, sizeof what, err));
    if (o->json) print_json(o, t, what, &out);
    else {
        printf("%s, %s, %d sites, %s: %s\n--exec %s: %s\n", t->model->name, t->lat->spec, t->lat->nsite,
               kl_qn_print(t->model, t->target, charges, sizeof charges), what, t->ex->name, t->ex->where);
        if (t->ex->chosen[0])
            printf("%s%s\n", kl_placement_automatic(o) ? "--exec auto: " : "", t->ex->chosen);
        print_text(&out);
    }
out:
    kl_dmrg_plan_clear(&out.plan);
    kl_task_destroy(&t);
    return st;
}
