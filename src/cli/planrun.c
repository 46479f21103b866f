/* `kronlat plan' and `kronlat growth': what a run would need, and infinite-lattice DMRG on its own.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/planrun.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/edcli.h"
#include "cli/pictures.h"
#include "cli/planscan.h"
#include "run/outputs.h"
#include "cli/report.h"
#include "run/task.h"

kl_status kl_planrun_plan(const kl_options *o, kl_err *err)
{
    static const int ladder[] = {64, 128, 256, 512, 1024};
    enum { NLADDER = sizeof(ladder) / sizeof(ladder[0]) };
    kl_status st = KL_OK;
    kl_task *t = NULL;
    kl_dmrg_plan plan[NLADDER];
    char charges[256], lattice[256];
    kl_rankplan *ranks = NULL;
    int n = 0, nrank = 0;
    memset(plan, 0, sizeof(plan));
    KL_TRY(kl_options_check(o, err));
    if (o->method != NULL && strcmp(o->method, "ed") == 0) return kl_edcli_plan(o, err);
    KL_TRY(kl_task_create(o, (int)o->sites, &t, err));
    KL_TRY(kl_task_charges(t, err));
    if (t->scanning) {
        KL_TRY(kl_planscan(o, t, err));
        goto out;
    }
    KL_TRY(kl_task_aim(t, t->target, err));
    KL_TRY(kl_task_exec(o, &t->ex, err));
    const int widest = kl_options_widest(o);
    for (int i = 0; i < (widest > 0 ? 1 : NLADDER); i++) {
        KL_TRY(kl_dmrg_make_plan(t->terms, t->ex, &t->dmrg, widest > 0 ? widest : ladder[i], &plan[i], err));
        n = i + 1;
    }
    snprintf(lattice, sizeof(lattice), "%.200s, %d sites", t->lat->spec, t->lat->nsite);
    const kl_report_head head = {t->model, lattice,
                                 kl_qn_print(t->model, t->target, charges, sizeof(charges))};
    const int devices = o->exec != NULL && strcmp(o->exec, "cuda") == 0;
    const kl_rankrate between = kl_rankplan_between(devices);
    if (o->ranks > 0)
        KL_TRY(kl_rankplan_dmrg(&plan[n - 1], devices, (int)o->ranks, &between, &nrank, &ranks, err));
    if (o->json) kl_report_plan_json(stdout, &head, n, plan, nrank, ranks);
    else {
        kl_report_plan(stdout, &head, n, plan);
        kl_report_rankplan(stdout, "sweep", &between, nrank, ranks);
    }
    if (o->bench.plot != NULL) KL_TRY(kl_picture_plan(&head, &plan[n - 1], o->bench.plot, err));
out:
    for (int i = 0; i < n; i++) kl_dmrg_plan_clear(&plan[i]);
    kl_free(&ranks);
    kl_task_destroy(&t);
    return st;
}

typedef struct growth {
    const kl_task *whole; /* of the full length */
    kl_qn target;
    int nsite;
} growth;

/* Terms of a chain of nsite sites and the reachable charges nearest to the target's share of it. */
static kl_status growth_terms(void *self, int nsite, kl_terms **out, kl_qn *target, kl_err *err)
{
    const growth *g = self;
    kl_status st = KL_OK;
    kl_task *t = NULL;
    kl_qn *sector = NULL;
    int64_t n = 0;
    const kl_model *const m = g->whole->model;
    KL_TRY(kl_task_chain(g->whole, nsite, &t, err));
    KL_TRY(kl_dmrg_sectors(t->terms, &sector, &n, err));
    double best = INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double far = 0;
        for (int c = 0; c < m->ncharge; c++) {
            const double wanted =
                m->charge[c].modulus > 0 ? g->target.v[c] : (double)g->target.v[c] * nsite / g->nsite;
            far += (sector[i].v[c] - wanted) * (sector[i].v[c] - wanted);
        }
        if (far < best) {
            best = far;
            *target = sector[i];
        }
    }
    *out = t->terms;
    t->terms = NULL;
out:
    kl_free(&sector);
    kl_task_destroy(&t);
    return st;
}

kl_status kl_planrun_growth(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *t = NULL;
    kl_infinite_row *row = NULL;
    char charges[256], lattice[64];
    if (o->sites < 4 || o->sites % 2 != 0)
        return kl_fail(
            err, KL_EINPUT,
            "--sites: growth adds two sites at a time and needs an even number from 4 on, not %lld",
            (long long)o->sites);
    KL_TRY(kl_options_check(o, err));
    KL_TRY(kl_outputs_check(o, NULL, err));
    KL_TRY(kl_task_create(o, 0, &t, err));
    KL_TRY(kl_task_charges(t, err));
    KL_TRY(kl_task_one_sector(t, "growth is for", err));
    for (int i = 0; i < t->model->nparam; i++) {
        const kl_param_kind kind = t->model->param[i].kind;
        const kl_result_param list = {.n = kind == KL_PARAM_SCALAR ? 0
                                           : kind == KL_PARAM_SITE ? t->params->nsite
                                                                   : t->params->nbond,
                                      .value = t->params->array[i]};
        if (list.n > 0 && !kl_result_param_even(&list))
            KL_TRY(kl_fail(
                err, KL_EINPUT,
                "--parameter %s: growth begins with 4 sites and takes one value for all of them, no list",
                t->model->param[i].name));
    }
    KL_TRY(kl_task_exec(o, &t->ex, err));
    const int n = ((int)o->sites - 2) / 2;
    KL_TRY(kl_alloc(&row, n, KL_MEM_MISC, err));
    growth g = {t, t->target, (int)o->sites};
    const kl_infinite_opts opts = {.nsite = (int)o->sites,
                                   .m = o->m > 0 ? (int)o->m : 256,
                                   .strategy = t->dmrg.strategy,
                                   .tol = 1e-8,
                                   .max_basis = o->basis > 0 ? (int)o->basis : 20,
                                   .records = o->save_records,
                                   .seed = t->dmrg.seed,
                                   .self = &g,
                                   .make_terms = growth_terms};
    KL_TRY(kl_dmrg_infinite(&opts, t->ex, row, err));
    snprintf(lattice, sizeof(lattice), "chain, grown from 4 to %d sites, m = %d, %s, %d thread%s", opts.nsite,
             opts.m, t->ex->name, t->ex->nthread, t->ex->nthread == 1 ? "" : "s");
    const kl_report_head head = {t->model, lattice,
                                 kl_qn_print(t->model, t->target, charges, sizeof(charges))};
    if (o->json) kl_report_infinite_json(stdout, &head, n, row);
    else kl_report_infinite(stdout, &head, n, row);
    if (o->bench.plot != NULL) KL_TRY(kl_picture_growth(&head, n, row, o->bench.plot, err));
out:
    kl_free(&row);
    kl_task_destroy(&t);
    return st;
}
