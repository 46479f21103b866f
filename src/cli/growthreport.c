/* Infinite-lattice growth, as in Table 5 and Figs. 1 and 2 of nemes2014.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/report.h"

#include <math.h>
#include <string.h>

#include "base/prof.h"
#include "base/json.h"
#include "cli/reporttext.h"
#include "config.h"

typedef struct growth_totals {
    double flop, seconds, sectors, products;
    int64_t dim, sector, matrix, memory;
} growth_totals;

static growth_totals growth_sum(int n, const kl_infinite_row *row)
{
    growth_totals t = {0};
    for (int i = 0; i < n; i++) {
        t.flop += row[i].flop;
        t.seconds += row[i].seconds;
        t.sectors += row[i].nsector;
        t.products += row[i].napply;
        if (row[i].dim > t.dim) t.dim = row[i].dim;
        if (row[i].sector_max > t.sector) t.sector = row[i].sector_max;
        if (row[i].matrix_max > t.matrix) t.matrix = row[i].matrix_max;
        if (row[i].memory_bytes > t.memory) t.memory = row[i].memory_bytes;
    }
    return t;
}

/* What nemes2014 prints of its two runs: Tables 1 to 5; [0] Xeon E5 alone, [1] with a K20. */
typedef struct paper {
    const char *model;
    double seconds[2], nostreams, flop, dim, sector, sectors, matrix, memory, products, line[KL_NLINE][2];
} paper;

static const paper *paper_of(const kl_report_head *head, int n, const kl_infinite_row *row)
{
    static const paper known[] = {
        {"heisenberg",
         {789.65, 227.33},
         244.67,
         1.22e14,
         12.24e6,
         4.00e6,
         9.36,
         1704.23,
         950.47,
         60.79,
         {[KL_LINE_PROJECT] = {20.21, 4.64},
          [KL_LINE_RITZ] = {19.07, 10.45},
          [KL_LINE_OVERLAP] = {20.05, 5.94},
          [KL_LINE_REMOVE] = {17.55, 9.68}}},
        {"hubbard",
         {3433.16, 1012.56},
         1056.33,
         4.89e14,
         15.32e6,
         3.47e6,
         50.71,
         1145.24,
         1155.48,
         122.43,
         {[KL_LINE_PROJECT] = {113.80, 22.66},
          [KL_LINE_RITZ] = {94.29, 54.22},
          [KL_LINE_OVERLAP] = {114.00, 37.67},
          [KL_LINE_REMOVE] = {87.29, 50.21}}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(head->model->name, known[i].model) == 0 && n == 14 && row[n - 1].nsite == 30 &&
            row[n - 1].m >= 4000 && row[n - 1].m < 4200)
            return &known[i];
    return NULL;
}

/* The paper's number, in brackets, or nothing. */
static const char *of_paper(const paper *p, double x, const char *unit, char out[32])
{
    out[0] = '\0';
    if (p) snprintf(out, 32, "   (%.4g%s)", x, unit);
    return out;
}

void kl_report_infinite(FILE *to, const kl_report_head *head, int n, const kl_infinite_row *row)
{
    char a[32];
    kl_report_title(to, head);
    fprintf(to,
            "\niteration sites      m without charges   size of H  largest sector  matrix sectors products "
            "%22s discarded    seconds  H x: seconds  GFLOP/s\n",
            "energy");
    for (int i = 0; i < n; i++) {
        const kl_infinite_row *r = &row[i];
        fprintf(to, "%9d %5d %6d %15.0f %11lld %15lld %7lld %7d %8d %22.13f %9.2e %10.3f %13.3f %8.2f\n",
                i + 1, r->nsite, r->m, r->dim_all, (long long)r->dim, (long long)r->sector_max,
                (long long)r->matrix_max, r->nsector, r->napply, r->energy, r->discarded, r->seconds,
                r->seconds_part[KL_PART_APPLY],
                r->seconds_part[KL_PART_APPLY] > 0 ? 1e-9 * r->flop / r->seconds_part[KL_PART_APPLY] : 0.0);
    }
    if (n == 0) return;
    const growth_totals t = growth_sum(n, row);
    double part[KL_NPART] = {0};
    for (int i = 0; i < n; i++)
        for (int k = 0; k < KL_NPART; k++) part[k] += row[i].seconds_part[k];
    const paper *const p = paper_of(head, n, row);
    char c[32];
    fprintf(to, "\nin the form of nemes2014, Table 5%s\n",
            p ? "; next to it the paper's (Xeon E5 and K20)" : "");
    double reached = 0;
    for (int i = 0; i < n; i++) reached = fmax(reached, row[i].residual > row[i].tol ? row[i].residual : 0);
    fprintf(to, "  residual asked for            %.0e\n", row[n - 1].tol);
    if (reached > 0)
        fprintf(to, "  residual reached              %.0e at worst: as far as the eigensolver came\n",
                reached);
    fprintf(to, "  work                          %-12s%s\n", kl_report_flop(t.flop, a),
            of_paper(p, p ? p->flop : 0, " flop", c));
    fprintf(to, "  largest H_SB                  %-12.4g%s\n", (double)t.dim,
            of_paper(p, p ? p->dim : 0, "", c));
    fprintf(to, "  largest sector                %-12.4g%s\n", (double)t.sector,
            of_paper(p, p ? p->sector : 0, "", c));
    fprintf(to, "  sectors, average              %-12.2f%s\n", t.sectors / n,
            of_paper(p, p ? p->sectors : 0, "", c));
    fprintf(to, "  largest matrix                %-12lld%s\n", (long long)t.matrix,
            of_paper(p, p ? p->matrix : 0, "", c));
    fprintf(to, "  memory                        %s", kl_report_bytes((double)t.memory, a));
    if (row[n - 1].device_bytes > 0)
        fprintf(to, ", device %s%s", kl_report_bytes((double)row[n - 1].device_bytes, a),
                of_paper(p, p ? p->memory : 0, " MB", c));
    fprintf(to, "\n  Davidson iterations, average  %-12.1f%s\n", t.products / n,
            of_paper(p, p ? p->products : 0, "", c));
    fprintf(to, "  time                          %-12s%s", kl_report_time(t.seconds, a),
            of_paper(p, p ? p->seconds[1] : 0, " s", c));
    if (p) fprintf(to, ", without GPU %.0f s; NoStreams, Table 2: %.0f s", p->seconds[0], p->nostreams);
    int nlarge = 0;
    for (int i = 0; i < n; i++) nlarge += row[i].lr_too_large;
    if (nlarge > 0)
        fprintf(to,
                "\n  l-1-1-r instead of LR         %d iterations, whose operators of LR the device had no "
                "room for",
                nlarge);
    fprintf(to, "\n\ntime by parts, as in Figs. 3, 4, 20 and 21 and, lines 3 to 13, Table 1%s\n",
            p ? "                      Xeon E5     and K20" : "");
    double lines = 0, known = 0;
    for (int k = 0; k < KL_NLINE; k++) {
        double seconds = 0;
        for (int i = 0; i < n; i++) seconds += row[i].seconds_line[k];
        lines += seconds;
        fprintf(to, "  Alg. 3, line %-24s %10.4f s %5.1f %%", kl_line_name[k], seconds,
                100 * seconds / t.seconds);
        if (p && p->line[k][0] > 0) fprintf(to, " %38.2f s %9.2f s", p->line[k][0], p->line[k][1]);
        fprintf(to, "\n");
    }
    const double rest[] = {part[KL_PART_SOLVE] - lines, part[KL_PART_PLAN], part[KL_PART_TRUNCATE],
                           part[KL_PART_GROW]};
    static const char *const rest_name[] = {"rest of the eigensolver", "operators, lists, diagonal",
                                            "truncation", "growth of blocks"};
    for (int k = 0; k < 4; k++) {
        known += rest[k];
        fprintf(to, "  %-37s %10.4f s %5.1f %%\n", rest_name[k], rest[k], 100 * rest[k] / t.seconds);
    }
    fprintf(to, "  %-37s %10.4f s %5.1f %%\n", "terms, bases, all else", t.seconds - lines - known,
            100 * (t.seconds - lines - known) / t.seconds);
}

void kl_report_infinite_json(FILE *to, const kl_report_head *head, int n, const kl_infinite_row *row)
{
    kl_json j = kl_json_begin(to);
    kl_report_json_open(&j, KL_VERSION, "growth");
    kl_json_text(&j, "method", "dmrg");
    kl_json_text(&j, "model", head->model->name);
    kl_json_text(&j, "variant", head->model->variant);
    kl_json_text(&j, "charges", head->charges);
    kl_json_real(&j, "residual_asked", n > 0 ? row[n - 1].tol : 0);
    kl_json_open(&j, "iterations", '[');
    for (int i = 0; i < n; i++) {
        const kl_infinite_row *r = &row[i];
        kl_json_open(&j, NULL, '{');
        kl_json_int(&j, "sites", r->nsite);
        kl_json_int(&j, "m", r->m);
        kl_json_real(&j, "dim_without_charges", r->dim_all);
        kl_json_int(&j, "dim", r->dim);
        kl_json_int(&j, "sector_max", r->sector_max);
        kl_json_int(&j, "matrix_max", r->matrix_max);
        kl_json_int(&j, "sectors", r->nsector);
        kl_json_int(&j, "products", r->napply);
        kl_json_real(&j, "energy", r->energy);
        kl_json_real(&j, "residual", r->residual);
        kl_json_real(&j, "discarded", r->discarded);
        kl_json_real(&j, "flop", r->flop);
        kl_json_real(&j, "seconds", r->seconds);
        kl_json_real(&j, "seconds_apply", r->seconds_part[KL_PART_APPLY]);
        kl_json_real(&j, "seconds_solve", r->seconds_part[KL_PART_SOLVE]);
        kl_json_real(&j, "seconds_plan", r->seconds_part[KL_PART_PLAN]);
        kl_json_real(&j, "seconds_truncate", r->seconds_part[KL_PART_TRUNCATE]);
        kl_json_real(&j, "seconds_grow", r->seconds_part[KL_PART_GROW]);
        kl_json_open(&j, "seconds_lines", '{');
        for (int k = 0; k < KL_NLINE; k++) kl_json_real(&j, kl_line_name[k], r->seconds_line[k]);
        kl_json_close(&j, '}');
        kl_json_bool(&j, "lr_did_not_fit", r->lr_too_large);
        kl_json_int(&j, "memory_bytes", r->memory_bytes);
        kl_json_int(&j, "device_bytes", r->device_bytes);
        kl_json_open(&j, "list", '{');
        kl_json_int(&j, "operator_bytes", r->list.operator_bytes);
        kl_json_int(&j, "vector_bytes", r->list.vector_bytes);
        kl_json_int(&j, "all_work_bytes", r->list.all_work_bytes);
        kl_json_int(&j, "one_work_bytes", r->list.one_work_bytes);
        kl_json_int(&j, "run_bytes", r->list.run_bytes);
        kl_json_int(&j, "moved_bytes", r->list.moved_bytes);
        kl_json_int(&j, "basis_bytes", r->list.basis_bytes);
        kl_json_int(&j, "free_bytes", r->list.free_bytes);
        kl_json_real(&j, "device_share", r->list.share);
        kl_json_close(&j, '}');
        kl_json_close(&j, '}');
    }
    kl_json_close(&j, ']');
    const growth_totals t = growth_sum(n, row);
    kl_json_open(&j, "table5", '{');
    kl_json_real(&j, "flop", t.flop);
    kl_json_int(&j, "dim_max", t.dim);
    kl_json_int(&j, "sector_max", t.sector);
    kl_json_real(&j, "sectors_mean", n > 0 ? t.sectors / n : 0);
    kl_json_int(&j, "matrix_max", t.matrix);
    kl_json_int(&j, "memory_bytes", t.memory);
    kl_json_real(&j, "products_mean", n > 0 ? t.products / n : 0);
    kl_json_real(&j, "seconds", t.seconds);
    kl_json_close(&j, '}');
    kl_json_close(&j, '}');
    kl_json_end(&j);
}
