/* `kronlat bench hx --replay FILE`: the record lists of a run (--save-records) again, with random operands:
   by the processor alone, by a device alone with every projection, by both together, and against the same
   matrix assembled as CSR. Time to prepare, of the first call and of later ones, memory, and the device's
   share of the work: an iteration a list, as in Figs. 14 to 19 of nemes2014. Every result is checked against
   the processor's before its time is printed.
   SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench_hx.h"
#include "record/assemble.h"
#include "exec/hybrid.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/prof.h"
#include "base/random.h"
#include "record/reclist.h"
#include "cli/report.h"
#include "exec/spmv.h"
#include "run/task.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_HYBRID = 8,
    LATER = 5,
};
#define LONG 10.0 /* seconds: a product that takes more is run once */

typedef struct bench {
    const char *file, *exec, *json_file;
    const char *hybrid[MOST_HYBRID];
    int nhybrid, nway, way[KL_NPROJECTION];
    int nthread;
    int64_t only;
    double csr_bytes;
    kl_exec *host;
    int nplace;                       /* the device alone, and with the processor by each of `hybrid` */
    struct place {
        kl_exec *ex;
        kl_dptr operand[KL_NAT];
    } place[MOST_HYBRID + 1];
    const kl_reclist *list;           /* that is replayed */
    double *operand[KL_NAT], *want;   /* on the host; x among them; y by the processor */
    FILE *json_to;
    kl_json json;
} bench;

/* One way of doing it. */
typedef struct result {
    const char *name, *how;
    double prepare, first, later, memory, moved, share, flop, residual;
} result;

static void tell(bench *b, const result *r)
{
    char a[32], c[32];
    printf("  %-9s %-16s prepare %9.3f ms  first %9.3f ms  later %9.3f ms  %9.1f GFLOP/s  device's share "
           "%5.1f %%  memory %9s",
           r->name, r->how, 1e3 * r->prepare, 1e3 * r->first, 1e3 * r->later, 1e-9 * r->flop / r->later,
           100 * r->share, kl_report_bytes(r->memory, a));
    if (r->moved > 0) printf(", %s over the bus", kl_report_bytes(r->moved, c));
    printf(" | resid %.0e PASS\n", r->residual);
    fflush(stdout);
    if (!b->json_to) return;
    kl_json_open(&b->json, NULL, '{');
    kl_json_text(&b->json, "exec", r->name);
    kl_json_text(&b->json, "how", r->how);
    kl_json_real(&b->json, "seconds_prepare", r->prepare);
    kl_json_real(&b->json, "seconds_first", r->first);
    kl_json_real(&b->json, "seconds_later", r->later);
    kl_json_real(&b->json, "flop_per_second", r->flop / r->later);
    kl_json_real(&b->json, "device_share", r->share);
    kl_json_real(&b->json, "memory_bytes", r->memory);
    kl_json_real(&b->json, "moved_bytes", r->moved);
    kl_json_real(&b->json, "residual", r->residual);
    kl_json_close(&b->json, '}');
}

static int by_size(const void *pa, const void *pb)
{
    const double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

/* Largest difference from the processor's answer, relative to the largest number of it. */
static kl_status check(const bench *b, const double *y, const char *what, double *residual, kl_err *err)
{
    double worst = 0, most = 1e-300;
    for (int64_t i = 0; i < b->list->list.ny; i++) {
        const double off = fabs(y[i] - b->want[i]);
        if (!(off <= worst)) worst = off;
        most = fmax(most, fabs(b->want[i]));
    }
    *residual = worst / most;
    return *residual < 1e-11
               ? KL_OK
               : kl_fail(err, KL_EBROKEN, "bench hx: %s by %s differs from the processor by %.1e",
                         b->list->title, what, *residual);
}

/* A list on an executor, its operands there. Missing memory is an answer: later 0. */
static kl_status run_list(bench *b, struct place *at, const char *name, const char *how, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = at ? at->ex : b->host;
    kl_batch list = b->list->list;
    kl_dptr x = {0}, y = {0};
    double *got = NULL, t[LATER], last, spent = 0;
    int n = 0;
    kl_batch_plan plan = {0};
    kl_err why;
    result r = {.name = name, .how = how, .flop = list.flop};
    const int on_host = !at, far = ex->projection == KL_PROJECTION_NOSTORAGE;
    list.lasting = 1;
    list.prepared = NULL;
    for (int k = KL_AT_LEFT; k <= KL_AT_RIGHT_PACK; k++) {
        if (far && b->list->size[k] > 0) kl_exec_move_operators(ex, 1, b->list->size[k], &at->operand[k]);
        list.base[k] = on_host ? (kl_dptr){(uintptr_t)b->operand[k]} : at->operand[k];
    }
    KL_TRY(ex->vt.alloc(ex, list.nx, &x, err));
    KL_TRY(ex->vt.alloc(ex, list.ny + 1, &y, err));
    KL_TRY(ex->vt.upload(ex, x, b->operand[KL_AT_X], list.nx, err));
    ex->vt.fill(ex, list.ny + 1, 0.0, y);
    KL_TRY(ex->vt.download(ex, &last, y, 1, err));
    double t0 = kl_prof_seconds();
    st = ex->vt.batch_prepare(ex, &list, &why);
    if (st == KL_ENOMEM) {
        printf("  %-9s %-16s %s\n", name, how, why.text);
        st = KL_OK;
        goto out;
    }
    if (st != KL_OK) KL_TRY(kl_fail(err, st, "%s", why.text));
    r.prepare = kl_prof_seconds() - t0;
    for (int k = 0; k <= LATER; k++) {
        t0 = kl_prof_seconds();
        KL_TRY(ex->vt.batch_apply(ex, &list, x, y, err));
        if (!on_host) KL_TRY(ex->vt.download(ex, &last, y, 1, err));
        const double dt = kl_prof_seconds() - t0;
        if (k == 0) r.first = dt;
        if (k > 0 || dt > LONG) t[n++] = dt, spent += dt;
        if ((spent > 0.3 && n > 1) || dt > LONG) break;
        if (!on_host) usleep(2000); /* a card slows down under lasting load */
    }
    qsort(t, (size_t)n, sizeof *t, by_size);
    r.later = t[n / 2];
    KL_TRY(kl_realloc(&got, list.ny, KL_MEM_WORK, err));
    KL_TRY(ex->vt.download(ex, got, y, list.ny, err));
    if (!b->want) b->want = got, got = NULL;
    else KL_TRY(check(b, got, how, &r.residual, err));
    for (int k = KL_AT_LEFT; k <= KL_AT_RIGHT_PACK && !far; k++) r.memory += 8.0 * (double)b->list->size[k];
    if (!on_host) {
        ex->vt.batch_explain(ex, &list, &plan);
        r.share = plan.share;
        r.moved = (double)plan.moved_bytes;
        r.memory += (double)(plan.work_bytes + plan.list_bytes);
    } else r.memory += 8.0 * (double)list.nwork * ex->nthread;
    tell(b, &r);
out:
    if (list.prepared) ex->vt.batch_release(ex, &list);
    for (int k = KL_AT_LEFT; k <= KL_AT_RIGHT_PACK && far; k++)
        if (b->list->size[k] > 0) kl_exec_move_operators(ex, 0, b->list->size[k], &at->operand[k]);
    ex->vt.release(ex, &x);
    ex->vt.release(ex, &y);
    kl_free(&got);
    return st;
}

/* The assembled matrix on an executor. */
static kl_status run_csr(bench *b, kl_exec *ex, const kl_spmat *m, double assembled, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_batch *const list = &b->list->list;
    kl_spmv *s = NULL;
    kl_dptr x = {0}, y = {0};
    double *got = NULL, t[LATER], last;
    result r = {.name = ex->name,
                .how = "csr",
                .flop = 2.0 * (double)m->nnz,
                .share = ex != b->host,
                .memory = (double)kl_spmv_bytes(m, 0)};
    KL_TRY(ex->vt.alloc(ex, list->nx, &x, err));
    KL_TRY(ex->vt.alloc(ex, list->ny + 1, &y, err));
    KL_TRY(ex->vt.upload(ex, x, b->operand[KL_AT_X], list->nx, err));
    double t0 = kl_prof_seconds();
    KL_TRY(kl_spmv_create(ex, m, KL_SPMV_MANY, &s, err));
    r.prepare = assembled + kl_prof_seconds() - t0;
    for (int k = 0; k <= LATER; k++) {
        t0 = kl_prof_seconds();
        KL_TRY(kl_spmv_apply(s, 1, x, list->nx, y, list->ny, err));
        if (ex != b->host) KL_TRY(ex->vt.download(ex, &last, y, 1, err));
        const double dt = kl_prof_seconds() - t0;
        if (k == 0) r.first = dt;
        else t[k - 1] = dt;
    }
    qsort(t, LATER, sizeof *t, by_size);
    r.later = t[LATER / 2];
    KL_TRY(kl_realloc(&got, list->ny, KL_MEM_WORK, err));
    KL_TRY(ex->vt.download(ex, got, y, list->ny, err));
    KL_TRY(check(b, got, "csr", &r.residual, err));
    tell(b, &r);
out:
    kl_spmv_destroy(&s);
    ex->vt.release(ex, &x);
    ex->vt.release(ex, &y);
    kl_free(&got);
    return st;
}

static kl_status assembled(bench *b, kl_err *err)
{
    const double each = 12; /* bytes of an element */
    kl_status st = KL_OK;
    kl_spmat *m = NULL;
    char a[32];
    const double most = kl_assemble_elements(&b->list->list);
    if (most < 0) {
        printf("  csr       the list is no sum of A x B\n");
        return KL_OK;
    }
    if (each * most > b->csr_bytes) {
        printf("  csr       not assembled: up to %s\n", kl_report_bytes(each * most, a));
        return KL_OK;
    }
    const double t0 = kl_prof_seconds();
    KL_TRY(kl_assemble(&b->list->list, (const double *const *)b->operand, &m, err));
    const double seconds = kl_prof_seconds() - t0;
    KL_TRY(run_csr(b, b->host, m, seconds, err));
    if (b->nplace > 0 && b->place[0].ex->vt.spmv_prepare) KL_TRY(run_csr(b, b->place[0].ex, m, seconds, err));
out:
    kl_spmat_destroy(&m);
    return st;
}

static kl_status replay(bench *b, const kl_reclist *l, kl_err *err)
{
    kl_status st = KL_OK;
    uint64_t seed = 20140601;
    char a[32];
    b->list = l;
    for (int k = 0; k < KL_NAT; k++) {
        const int64_t n = k == KL_AT_X ? l->list.nx : l->size[k];
        if (n == 0 && k != KL_AT_X) continue;
        KL_TRY(kl_realloc(&b->operand[k], n, KL_MEM_BLOCK, err));
        for (int64_t i = 0; i < n; i++) b->operand[k][i] = kl_random_uniform(&seed);
        for (int p = 0; p < b->nplace && k != KL_AT_X; p++) {
            kl_exec *const ex = b->place[p].ex;
            KL_TRY(ex->vt.alloc(ex, n, &b->place[p].operand[k], err));
            KL_TRY(ex->vt.upload(ex, b->place[p].operand[k], b->operand[k], n, err));
        }
    }
    printf("%s: n = %lld, %lld records in %d groups, mean size %.0f, %s an H x\n", l->title,
           (long long)l->list.nx, (long long)l->list.nrec, l->list.ngroup, kl_batch_mean_size(&l->list),
           kl_report_flop(l->list.flop, a));
    if (b->json_to) {
        kl_json_open(&b->json, NULL, '{');
        kl_json_text(&b->json, "title", l->title);
        kl_json_int(&b->json, "n", l->list.nx);
        kl_json_int(&b->json, "records", l->list.nrec);
        kl_json_real(&b->json, "mean_size", kl_batch_mean_size(&l->list));
        kl_json_real(&b->json, "flop", l->list.flop);
        kl_json_open(&b->json, "ways", '[');
    }
    char threads[24];
    snprintf(threads, sizeof threads, "%d thread%s", b->host->nthread, b->host->nthread == 1 ? "" : "s");
    KL_TRY(run_list(b, NULL, "host", threads, err));
    for (int p = 0; p < b->nplace; p++) {
        kl_exec *const ex = b->place[p].ex;
        const int choice = !strcmp(ex->name, "cuda"); /* of ways; else there is one */
        for (int w = 0; w < b->nway; w++) {
            const int way = b->way[w];
            char how[40];
            if (choice ? p > 0 && way != KL_PROJECTION_GROUPED && way != KL_PROJECTION_NOSTORAGE : w > 0)
                continue;
            snprintf(how, sizeof how, "%s%s%.20s", choice ? kl_projection_name[way] : "regions", p ? " " : "",
                     p ? b->hybrid[p - 1] : "");
            if (choice) ex->projection = (kl_projection)way;
            KL_TRY(run_list(b, &b->place[p], p ? "both" : ex->name, how, err));
        }
    }
    if (b->csr_bytes > 0) KL_TRY(assembled(b, err));
out:
    if (b->json_to) {
        kl_json_close(&b->json, ']');
        kl_json_close(&b->json, '}');
    }
    for (int k = 0; k < KL_NAT; k++) {
        kl_free(&b->operand[k]);
        for (int p = 0; p < b->nplace; p++)
            b->place[p].ex->vt.release(b->place[p].ex, &b->place[p].operand[k]);
    }
    kl_free(&b->want);
    return st;
}

static kl_status take_options(bench *b, const kl_options *o, kl_err *err)
{
    const kl_bench_options *const asked = &o->bench;
    b->file = asked->replay;
    b->exec = o->exec;
    b->json_file = asked->json;
    b->nthread = kl_task_threads(o);
    b->only = asked->list;
    if (kl_options_typed(o, (const char *const[]){"csr", NULL})) b->csr_bytes = 1e9 * asked->csr;
    if (asked->hybrid.n > MOST_HYBRID)
        return kl_fail(err, KL_EINPUT, "--hybrid: at most %d times", MOST_HYBRID);
    for (int i = 0; i < asked->hybrid.n; i++) b->hybrid[b->nhybrid++] = asked->hybrid.text[i];
    for (int i = 0; i < asked->projection.n; i++) {
        int p = KL_PROJECTION_GROUPED;
        while (p < KL_NPROJECTION && strcmp(kl_projection_name[p], asked->projection.text[i]) != 0) p++;
        if (p == KL_NPROJECTION || b->nway == KL_NPROJECTION)
            return kl_fail(err, KL_EINPUT,
                           "--projection: '%.40s' was given; allowed: grouped 4streams concat batched "
                           "nostreams library nostorage",
                           asked->projection.text[i]);
        b->way[b->nway++] = p;
    }
    return KL_OK;
}

kl_status kl_bench_replay(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_reclist *list = NULL;
    int n = 0;
    bench b = {.csr_bytes = 1e9};
    KL_TRY(take_options(&b, o, err));
    KL_TRY(kl_reclist_read(b.file, &n, &list, err));
    if (b.only > n)
        KL_TRY(
            kl_fail(err, KL_EINPUT, "--only: %lld was given; the file has %d lists", (long long)b.only, n));
    KL_TRY(kl_exec_open_host(b.nthread, &b.host, err));
    if (b.exec && b.nhybrid == 0) b.hybrid[b.nhybrid++] = "auto";
    for (int p = 0; b.exec && p <= b.nhybrid; p++) {
        kl_exec *device = NULL;
        KL_TRY(!strcmp(b.exec, "cuda") ? kl_exec_open_cuda(KL_ANY_DEVICE, &device, err)
                                       : kl_exec_open_offload(KL_ANY_DEVICE, 0, &device, err));
        st = p == 0 ? KL_OK
                    : kl_exec_open_hybrid_take(&device, b.nthread, b.hybrid[p - 1], &b.place[p].ex, err);
        if (p == 0) b.place[p].ex = device, device = NULL;
        kl_exec_close(&device);
        if (st != KL_OK) goto out;
        b.nplace++;
    }
    for (int p = b.nway > 0 ? KL_NPROJECTION : 1; p < KL_NPROJECTION; p++) b.way[b.nway++] = p;
    if (b.json_file) {
        b.json_to = fopen(b.json_file, "w");
        if (!b.json_to) KL_TRY(kl_fail(err, KL_EIO, "--json: '%.200s' cannot be written", b.json_file));
        b.json = kl_json_begin(b.json_to);
        kl_json_open(&b.json, NULL, '{');
        kl_json_int(&b.json, "threads", b.nthread);
        kl_json_text(&b.json, "device", b.nplace ? b.place[0].ex->where : NULL);
        kl_json_open(&b.json, "lists", '[');
    }
    printf("host: %s, %d thread%s; device: %s\n", b.host->where, b.nthread, b.nthread == 1 ? "" : "s",
           b.nplace ? b.place[0].ex->where : "none (--exec)");
    for (int i = 0; i < n; i++)
        if (b.only == 0 || b.only == i + 1) KL_TRY(replay(&b, &list[i], err));
    if (b.json_to) {
        kl_json_close(&b.json, ']');
        kl_json_close(&b.json, '}');
        kl_json_end(&b.json);
    }
out:
    if (b.json_to && fclose(b.json_to) != 0 && st == KL_OK)
        st = kl_fail(err, KL_EIO, "--json: '%.200s' cannot be written", b.json_file);
    kl_reclist_destroy(n, &list);
    for (int p = 0; p < b.nplace; p++) kl_exec_close(&b.place[p].ex);
    kl_exec_close(&b.host);
    return st;
}
