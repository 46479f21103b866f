/* See planscan.h. Each sector is planned as by itself, at one m.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/planscan.h"

#include <stdio.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/report.h"
#include "cli/reporttext.h"

enum { COMMON_M = 256 }; /* states where none are asked for */

static kl_status plan_sector(kl_task *t, kl_qn target, int m, kl_report_planned *out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_dmrg_plan p = {0};
    KL_TRY(kl_task_aim(t, target, err));
    KL_TRY(kl_dmrg_make_plan(t->terms, t->ex, &t->dmrg, m, &p, err));
    kl_report_planned_take(out, &p);
out:
    kl_dmrg_plan_clear(&p);
    return st;
}

kl_status kl_planscan(const kl_options *o, kl_task *t, kl_err *err)
{
    kl_status st = KL_OK;
    kl_qn *sector = NULL;
    int64_t n = 0, *image = NULL;
    kl_report_planned *row = NULL;
    char lattice[256];
    const int widest = kl_options_widest(o);
    if (o->bench.plot != NULL || o->ranks > 0)
        KL_TRY(kl_task_one_sector(t, o->ranks > 0 ? "--ranks is for" : "--plot draws", err));
    KL_TRY(kl_task_exec(o, &t->ex, err));
    KL_TRY(kl_task_sectors(t, &n, &sector, err));
    KL_TRY(kl_alloc(&image, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&row, n, KL_MEM_MISC, err));
    KL_TRY(kl_task_images(t, n, sector, image, err));
    for (int64_t i = 0; i < n; i++) {
        kl_qn_print(t->model, sector[i], row[i].charges, sizeof row[i].charges);
        row[i].image = (int)image[i];
        if (image[i] < 0) KL_TRY(plan_sector(t, sector[i], widest > 0 ? widest : COMMON_M, &row[i], err));
    }
    snprintf(lattice, sizeof lattice, "%.200s, %d sites", t->lat->spec, t->lat->nsite);
    const kl_report_head head = {t->model, lattice, ""};
    if (o->json) kl_report_planscan_json(stdout, &head, n, row);
    else kl_report_planscan(stdout, &head, n, row);
out:
    kl_free(&row);
    kl_free(&image);
    kl_free(&sector);
    return st;
}

/* ---------------------------------------------------------------- reports */

/* Of the sectors that are run: seconds of a sweep of each, and the one that takes the most memory. */
static double sum_up(int64_t n, const kl_report_planned *sector, int64_t *nrun, int64_t *most)
{
    double seconds = 0;
    *nrun = *most = 0;
    for (int64_t i = 0; i < n; i++) {
        if (sector[i].image >= 0) continue;
        ++*nrun;
        seconds += sector[i].seconds_sweep;
        if (sector[i].memory_bytes > sector[*most].memory_bytes) *most = i;
    }
    return seconds;
}

void kl_report_planscan(FILE *to, const kl_report_head *head, int64_t n, const kl_report_planned *sector)
{
    char a[32], b[32], c[32];
    int64_t nrun, most;
    const double seconds = sum_up(n, sector, &nrun, &most);
    const int spin = kl_model_spin(head->model) >= 0;
    kl_report_title(to, head);
    fprintf(to,
            "\n%-18s      m %s    size of H  pairs    records   one H x       memory    a sweep\n", "sector",
            spin ? " states" : "");
    for (int64_t i = 0; i < n; i++) {
        const kl_report_planned *const p = &sector[i];
        if (p->image >= 0) {
            fprintf(to, "%-18s  the reflection of %s\n", p->charges, sector[p->image].charges);
            continue;
        }
        fprintf(to, "%-18s %6d ", p->charges, p->m);
        if (spin) fprintf(to, "%7lld", (long long)p->states);
        fprintf(to, "%13lld %6d %10lld %12s %12s %10s\n", (long long)p->dim, p->npair, (long long)p->nrecord,
                kl_report_flop(p->flop_apply, a), kl_report_bytes((double)p->memory_bytes, b),
                kl_report_time(p->seconds_sweep, c));
    }
    if (spin) fprintf(to, "m counts multiplets of the total spin, of so many states\n");
    fprintf(to, "%lld run%s one after the other: %s for a sweep of each; at most %s, of %s\n",
            (long long)nrun, nrun == 1 ? "" : "s", kl_report_time(seconds, a),
            kl_report_bytes((double)sector[most].memory_bytes, b), sector[most].charges);
}

void kl_report_planscan_json(FILE *to, const kl_report_head *head, int64_t n, const kl_report_planned *sector)
{
    int64_t nrun, most;
    const double seconds = sum_up(n, sector, &nrun, &most);
    kl_json j = kl_json_begin(to);
    kl_report_plan_open(&j, head);
    kl_json_int(&j, "runs", nrun);
    kl_json_real(&j, "seconds_sweep", seconds);
    kl_json_int(&j, "memory_bytes", sector[most].memory_bytes);
    kl_json_open(&j, "sectors", '[');
    for (int64_t i = 0; i < n; i++) {
        const kl_report_planned *const p = &sector[i], *const of = p->image >= 0 ? &sector[p->image] : p;
        kl_json_open(&j, NULL, '{');
        kl_json_text(&j, "charges", p->charges);
        if (p->image >= 0) kl_json_text(&j, "reflection_of", of->charges);
        kl_report_planned_json(&j, of);
        kl_json_close(&j, '}');
    }
    kl_json_close(&j, ']');
    kl_json_close(&j, '}');
    kl_json_end(&j);
}
