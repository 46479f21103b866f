/* What is there to compute, and with what: the models, one model in detail, and the machine. Reads the
   tables; runs nothing.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "comm/comm.h"
#include "cli/listing.h"
#include "cli/rankratescli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/blas.h"
#include "model/embedded.h"
#include "base/gemm.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/report.h"
#include "run/task.h"
#include "config.h"

/* ---------------------------------------------------------------- models */

/* Line 1 of a shipped model without its comment mark. */
static void first_line(const char *text, char *line, size_t size)
{
    text += strspn(text, "- ");
    snprintf(line, size, "%.*s", (int)strcspn(text, "\r\n"), text);
}

static int is_builtin(const char *name)
{
    int known = 0;
    for (int i = 0; i < kl_models_nbuiltin; i++) known |= strcmp(kl_models_builtin[i]->name, name) == 0;
    return known;
}

static void charge_names(const kl_model *m, char *buf, size_t size)
{
    size_t used = 0;
    buf[0] = '\0';
    for (int c = 0; c < m->ncharge && used < size; c++) {
        used += (size_t)snprintf(buf + used, size - used, "%s%s", c > 0 ? ", " : "", m->charge[c].name);
        if (m->charge[c].modulus > 0 && used < size)
            used += (size_t)snprintf(buf + used, size - used, " (Z%d)", m->charge[c].modulus);
    }
}

static void list_models(const kl_options *o)
{
    char charges[256], line[256];
    kl_json j = kl_json_begin(stdout);
    if (o->json) kl_json_open(&j, NULL, '[');
    for (int i = 0; i < kl_models_nbuiltin; i++) {
        const kl_model *m = kl_models_builtin[i];
        charge_names(m, charges, sizeof(charges));
        if (o->json) {
            kl_json_open(&j, NULL, '{');
            kl_json_text(&j, "name", m->name);
            kl_json_text(&j, "variant", m->variant);
            kl_json_text(&j, "formula", m->formula);
            kl_json_text(&j, "charges", charges);
            kl_json_bool(&j, "built_in", 1);
            kl_json_close(&j, '}');
        } else {
            snprintf(line, sizeof(line), "%s%s%s%s", m->name, m->variant[0] != '\0' ? "(" : "", m->variant,
                     m->variant[0] != '\0' ? ")" : "");
            printf("%-24s %s%s%s\n", line, m->formula, charges[0] != '\0' ? "   charges " : "", charges);
        }
    }
    for (const kl_embedded *m = kl_embedded_models; m->name != NULL; m++) {
        if (is_builtin(m->name)) continue;
        first_line(m->text, line, sizeof(line));
        if (o->json) {
            kl_json_open(&j, NULL, '{');
            kl_json_text(&j, "name", m->name);
            kl_json_text(&j, "formula", line);
            kl_json_bool(&j, "built_in", 0);
            kl_json_close(&j, '}');
        } else {
            printf("%-24s %s\n", m->name, line);
        }
    }
    if (o->json) {
        kl_json_close(&j, ']');
        kl_json_end(&j);
    } else {
        printf("\n`kronlat models NAME' shows one; a file of your own goes by its path: kronlat dmrg "
               "./mine.lua\n");
    }
}

/* in the short form; --json has all */
enum {
    MOST_CUTS = 6,
    MOST_KEPT = 16,
};

/* Where a cut may split a term's factors: "sign left | right". Terms with the same records show them once. */
static void show_cuts(const kl_model *m, int term)
{
    const kl_term_def *d = &m->term[term];
    const int all = (1 << d->nfactor) - 1;
    if (d->nfactor < 2) return;
    for (int t = 0; t < term; t++)
        if (m->term[t].split == d->split) return;
    for (int mask = 1; mask < all && mask <= MOST_CUTS; mask++) {
        const kl_split *s = &d->split[mask];
        printf("%s%s%s | %s", mask > 1 ? ",  " : "        ", s->sign < 0 ? "- " : "", m->kept[s->kept].name,
               m->kept[d->split[all - mask].kept].name);
    }
    if (all - 1 > MOST_CUTS) printf(",  ... (%d cuts)", all - 1);
    printf("\n");
}

/* Kept at a cut that splits a term, or adjoint to what is. */
static int is_kept(const kl_model *m, int i)
{
    for (int t = 0; t < m->nterm; t++)
        for (int mask = 1; mask < (1 << m->term[t].nfactor) - 1; mask++) {
            const int here = m->term[t].split[mask].kept;
            if (here == i || (m->term[t].plus_hc && m->kept[here].adjoint == i)) return 1;
        }
    return 0;
}

static void show_kept(const kl_model *m)
{
    char charges[256];
    int n = 0;
    printf("\nblocks keep, besides 1 and H\n");
    for (int i = 1; i < m->nkept; i++) {
        const kl_kept *k = &m->kept[i];
        if (!is_kept(m, i) || ++n > MOST_KEPT) continue;
        printf("  %s: %s%s%sadjoint ", k->name,
               kl_qn_print(m, kl_qn_of(m, k->shift), charges, sizeof charges), m->ncharge > 0 ? ", " : "",
               k->odd ? "fermionic, " : "");
        if (k->adjoint_factor != 1.0) printf("%g ", k->adjoint_factor);
        printf("%s\n", m->kept[k->adjoint].name);
    }
    if (n > MOST_KEPT) printf("  ... (%d; --json has all)\n", n);
    if (n == 0) printf("  nothing\n");
}

static void show_model(const kl_model *m)
{
    static const char *const kind[] = {"", " (an array, by site)", " (an array, by bond)"};
    printf("%s%s%s%s   %s\n", m->name, m->variant[0] != '\0' ? "(" : "", m->variant,
           m->variant[0] != '\0' ? ")" : "", m->formula);
    printf("\ncharges\n");
    for (int c = 0; c < m->ncharge; c++) {
        const kl_charge *q = &m->charge[c];
        printf("  %s: ", q->name);
        if (q->modulus > 0) printf("Z%d, 0 to %d\n", q->modulus, q->modulus - 1);
        else if (q->unit_den == 1) printf("U(1), multiples of %d\n", q->unit_num);
        else printf("U(1), multiples of %d/%d\n", q->unit_num, q->unit_den);
    }
    if (m->ncharge == 0) printf("  none\n");
    printf("\nparameters (-p NAME=VALUE)\n");
    for (int i = 0; i < m->nparam; i++)
        printf("  %s = %.10g%s\n", m->param[i].name, m->param[i].value, kind[m->param[i].kind]);
    if (m->variant[0] != '\0')
        printf("  %s: structural, chooses another variant of the tables\n", m->variant);
    for (int k = 0; k < m->ntype; k++) {
        const kl_site_type *type = &m->type[k];
        printf("\nsite %s%s%s, %d states (for --start product:):", type->name,
               type->where != NULL ? ", " : "", type->where != NULL ? type->where : "", type->dim);
        for (int s = 0; s < type->dim; s++) printf(" %s", type->state_name[s]);
        printf("\n  operators:");
        for (int a = 0; a < type->nop; a++)
            if (type->op[a].named) printf(" %s", type->op[a].name);
        printf("\n");
    }
    printf("\nterms (line of %s), and what a left | a right block keeps where a cut splits them\n",
           m->source);
    for (int i = 0; i < m->nterm; i++) {
        printf("  %4d  %s\n", m->term[i].line, m->term[i].text);
        show_cuts(m, i);
    }
    show_kept(m);
}

static void show_model_json(const kl_model *m)
{
    kl_json j = kl_json_begin(stdout);
    kl_report_json_open(&j, KL_VERSION, "models");
    kl_json_text(&j, "name", m->name);
    kl_json_text(&j, "variant", m->variant);
    kl_json_text(&j, "formula", m->formula);
    kl_json_open(&j, "charges", '[');
    for (int c = 0; c < m->ncharge; c++) {
        kl_json_open(&j, NULL, '{');
        kl_json_text(&j, "name", m->charge[c].name);
        kl_json_int(&j, "modulus", m->charge[c].modulus);
        kl_json_real(&j, "unit", (double)m->charge[c].unit_num / m->charge[c].unit_den);
        kl_json_close(&j, '}');
    }
    kl_json_close(&j, ']');
    kl_json_open(&j, "parameters", '{');
    for (int i = 0; i < m->nparam; i++) kl_json_real(&j, m->param[i].name, m->param[i].value);
    kl_json_close(&j, '}');
    kl_json_open(&j, "sites", '[');
    for (int k = 0; k < m->ntype; k++) {
        kl_json_open(&j, NULL, '{');
        kl_json_text(&j, "name", m->type[k].name);
        kl_json_text(&j, "where", m->type[k].where);
        kl_json_open(&j, "states", '[');
        for (int s = 0; s < m->type[k].dim; s++) kl_json_text(&j, NULL, m->type[k].state_name[s]);
        kl_json_close(&j, ']');
        kl_json_open(&j, "operators", '[');
        for (int a = 0; a < m->type[k].nop; a++)
            if (m->type[k].op[a].named) kl_json_text(&j, NULL, m->type[k].op[a].name);
        kl_json_close(&j, ']');
        kl_json_close(&j, '}');
    }
    kl_json_close(&j, ']');
    kl_json_open(&j, "terms", '[');
    for (int i = 0; i < m->nterm; i++) kl_json_text(&j, NULL, m->term[i].text);
    kl_json_close(&j, ']');
    kl_json_open(&j, "kept", '[');
    for (int i = 0; i < m->nkept; i++) {
        kl_json_open(&j, NULL, '{');
        kl_json_text(&j, "name", m->kept[i].name);
        kl_json_open(&j, "shift", '[');
        for (int c = 0; c < m->ncharge; c++) kl_json_int(&j, NULL, m->kept[i].shift[c]);
        kl_json_close(&j, ']');
        kl_json_int(&j, "odd", m->kept[i].odd);
        kl_json_int(&j, "adjoint", m->kept[i].adjoint);
        kl_json_real(&j, "adjoint_factor", m->kept[i].adjoint_factor);
        kl_json_close(&j, '}');
    }
    kl_json_close(&j, ']');
    kl_json_open(&j, "records", '[');
    for (int i = 0; i < m->nterm; i++) {
        kl_json_open(&j, NULL, '[');
        for (int mask = 0; mask < 1 << m->term[i].nfactor; mask++) {
            const kl_split *s = &m->term[i].split[mask];
            kl_json_open(&j, NULL, '{');
            kl_json_int(&j, "kept", s->kept);
            kl_json_int(&j, "sign", s->sign);
            kl_json_int(&j, "left_minus", s->left_minus);
            kl_json_int(&j, "right_minus", s->right_minus);
            kl_json_close(&j, '}');
        }
        kl_json_close(&j, ']');
    }
    kl_json_close(&j, ']');
    kl_json_close(&j, '}');
    kl_json_end(&j);
}

kl_status kl_list_models(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_tables *tables = NULL;
    if (o->model == NULL) {
        list_models(o);
        return KL_OK;
    }
    KL_TRY(kl_task_model(o, &tables, err));
    if (o->json) show_model_json(tables->model);
    else show_model(tables->model);
out:
    kl_tables_destroy(&tables);
    return st;
}

/* ---------------------------------------------------------------- devices */

static void processor_name(char *name, int size)
{
    char line[256];
    snprintf(name, (size_t)size, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "re");
    if (f == NULL) return;
    while (fgets(line, sizeof(line), f) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
        snprintf(name, (size_t)size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    fclose(f);
}

/* An executor of devices: what it runs on here, or the reason that it runs on nothing. */
typedef struct executor {
    const char *name;
    char where[160];
    double room; /* bytes that it can still give; < 0: not known, or not here */
    kl_err why;
} executor;

/* Opens each once and closes it again. */
static void open_executors(const kl_options *o, executor found[2])
{
    for (int i = 0; i < 2; i++) {
        kl_exec *ex = NULL;
        executor *const f = &found[i];
        *f = (executor){.name = i == 0 ? "cuda" : "offload", .room = -1};
        const kl_status st = i == 0 ? kl_exec_open_cuda(kl_placement_device(o), &ex, &f->why)
                                    : kl_exec_open_offload(kl_placement_device(o), 0, &ex, &f->why);
        if (st != KL_OK) continue;
        const int64_t room = ex->vt.room(ex);
        memcpy(f->where, ex->where, sizeof f->where);
        if (room < INT64_MAX) f->room = (double)room;
        kl_exec_close(&ex);
    }
}

static void print_executors(const executor found[2])
{
    printf("--exec    host\n");
    for (int i = 0; i < 2; i++) {
        const executor *const f = &found[i];
        char room[48] = "";
        if (f->room >= 0) snprintf(room, sizeof room, ", %.1f GB free", 1e-9 * f->room);
        if (f->where[0]) printf("          %s: %s%s\n", f->name, f->where, room);
        else printf("          %s\n", f->why.text);
    }
}

static void executors_json(kl_json *j, const executor found[2])
{
    kl_json_open(j, "exec", '[');
    kl_json_text(j, NULL, "host");
    for (int i = 0; i < 2; i++)
        if (found[i].where[0]) kl_json_text(j, NULL, found[i].name);
    kl_json_close(j, ']');
    kl_json_open(j, "executors", '[');
    for (int i = 0; i < 2; i++) {
        kl_json_open(j, NULL, '{');
        kl_json_text(j, "name", found[i].name);
        if (found[i].where[0]) kl_json_text(j, "where", found[i].where);
        else kl_json_text(j, "absent", found[i].why.text);
        if (found[i].room >= 0) kl_json_real(j, "free_bytes", found[i].room);
        kl_json_close(j, '}');
    }
    kl_json_close(j, ']');
}

kl_status kl_list_devices(const kl_options *o, kl_err *err)
{
    (void)err;
    executor found[2];
    char processor[256];
    const double memory = kl_mem_machine_bytes();
    const char *kernels = NULL;
    (void)kl_gemm_choose(&kernels);
    processor_name(processor, sizeof(processor));
    open_executors(o, found);
    enum { MOST = 16 };
    char loaded[MOST][512];
    const kl_blas_info *const about = kl_blas_about();
    const int nloaded = kl_blas_loaded(MOST, loaded);
    if (o->json) {
        kl_json j = kl_json_begin(stdout);
        kl_report_json_open(&j, KL_VERSION, "devices");
        if (kl_comm_world() != NULL) kl_json_int(&j, "ranks", kl_comm_world()->size);
        kl_rankratescli_json(&j);
        kl_json_text(&j, "processor", processor);
        kl_json_int(&j, "cores", kl_task_threads(o));
        kl_json_real(&j, "memory_bytes", memory);
        kl_json_text(&j, "kernels", kernels);
        kl_json_text(&j, "blas", about->blas_path);
        kl_json_text(&j, "blas_version", about->blas_version);
        kl_json_text(&j, "blas_kernel", about->kernel);
        kl_json_text(&j, "lapack", about->lapack_path);
        kl_json_text(&j, "openmp", about->openmp_path);
        kl_json_open(&j, "loaded", '[');
        for (int i = 0; i < nloaded && i < MOST; i++) kl_json_text(&j, NULL, loaded[i]);
        kl_json_close(&j, ']');
        executors_json(&j, found);
        kl_json_close(&j, '}');
        kl_json_end(&j);
        return KL_OK;
    }
    const kl_comm *const c = kl_comm_world();
    if (c != NULL)
        printf("ranks     %d on %d machine%s, %d here (%s)\n", c->size, c->nhost, c->nhost == 1 ? "" : "s",
               c->nlocal, c->library);
    kl_rankratescli_print(stdout);
    printf("host      %s, %d cores for this process, %.1f GB of memory\n", processor, kl_task_threads(o),
           1e-9 * memory);
    printf("kernels   %s (small products)\n", kernels);
    printf("BLAS      %s%s%s%s%s\n", about->blas_path, about->blas_version[0] ? ", " : "",
           about->blas_version, about->kernel[0] ? ", kernels " : "", about->kernel);
    if (about->steered[0]) printf("          %s\n", about->steered);
    printf("LAPACK    %s\nOpenMP    %s\n", about->lapack_path, about->openmp_path);
    for (int i = 0; i < nloaded && i < MOST; i++)
        if (strcmp(loaded[i], about->blas_path) && strcmp(loaded[i], about->lapack_path) &&
            strcmp(loaded[i], about->openmp_path))
            printf("loaded    %s, which is not called\n", loaded[i]);
    print_executors(found);
    return KL_OK;
}
