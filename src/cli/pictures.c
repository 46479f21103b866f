/* See pictures.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/pictures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/prof.h"
#include "cli/plot.h"

static void titled(FILE *to, const kl_report_head *head, const char *what)
{
    char title[512];
    snprintf(title, sizeof title, "%s, %s%s%s%s", head->model->name, head->lattice,
             head->charges[0] != '\0' ? ", " : "", head->charges, what);
    kl_plot_quote(to, title);
}

/* ---------------------------------------------------------------- the work of a plan */

typedef struct plan_picture {
    const kl_report_head *head;
    const kl_dmrg_plan *plan;
    int *place; /* [npair]: the rank of a pair among all, by its position in a vector, that is by charge */
} plan_picture;

/* Shares of the C[I,J] that have so much work, by decades, and of all work that they have. */
static void write_work_bins(FILE *to, const kl_dmrg_plan *p)
{
    enum { NBIN = 20 };
    double count[NBIN] = {0}, work[NBIN] = {0}, all = 0;
    int low = NBIN - 1, high = 0, n = 0;
    for (int k = 0; k < p->ncell; k++) {
        const double flop = p->cell[k].flop;
        if (!(flop > 0)) continue;
        const int bin = (int)fmin(NBIN - 1, fmax(0, log10(flop)));
        count[bin] += 1;
        work[bin] += flop;
        all += flop;
        n++;
        if (bin < low) low = bin;
        if (bin > high) high = bin;
    }
    fprintf(to, "$bins << EOD\n");
    for (int b = low; b <= high; b++)
        fprintf(to, "%d %.9g %.9g\n", b, n > 0 ? 100 * count[b] / n : 0, all > 0 ? 100 * work[b] / all : 0);
    fprintf(to, "EOD\n");
}

static void draw_plan(FILE *to, const void *self, const char *terminal)
{
    const plan_picture *const s = self;
    const kl_dmrg_plan *const p = s->plan;
    char what[64];
    double least = INFINITY, most = 0;
    fprintf(to, "$cells << EOD\n");
    for (int k = 0; k < p->ncell; k++) {
        if (!(p->cell[k].flop > 0)) continue;
        fprintf(to, "%d %d %.9g\n", s->place[p->cell[k].from] + 1, s->place[p->cell[k].to] + 1,
                p->cell[k].flop);
        least = fmin(least, p->cell[k].flop);
        most = fmax(most, p->cell[k].flop);
    }
    fprintf(to, "EOD\n");
    write_work_bins(to, p);
    kl_plot_page(to, terminal, 1040, 480);
    snprintf(what, sizeof what, ", m = %d", p->m);
    fprintf(to, "set multiplot layout 1,2 title ");
    titled(to, s->head, what);
    /* a square of a size that follows from the number of patches */
    const double half = 0.5 + 0.02 * (p->npair > 40);
    fprintf(to,
            "\nset title 'work of one H x by pairs of patches' offset 0,-0.5\nset size ratio 1\n"
            "set xrange [0.5:%g]; set yrange [%g:0.5]\nset xlabel 'patch J, that x is read from'\n"
            "set ylabel 'patch I, that y is added to'\nset cblabel 'flop' offset 1.5\n"
            "set palette defined (0 '#fde725', 0.25 '#5ec962', 0.5 '#21918c', 0.75 '#3b528b', 1 '#440154')\n"
            "set logscale cb; set format cb '10^{%%L}'; set termoption enhanced\n"
            "set style fill solid 1.0 noborder\n",
            p->npair + 0.5, p->npair + 0.5);
    if (least < most) fprintf(to, "set cbrange [%.9g:%.9g]\n", least, most);
    fprintf(to,
            "plot $cells using 1:2:($1-%g):($1+%g):($2-%g):($2+%g):3 with boxxyerror fillcolor palette "
            "notitle\n",
            half, half, half, half);
    fprintf(to,
            "set title 'how the work is distributed' offset 0,-0.5\nset size noratio\nset grid\n"
            "set xlabel 'work of a pair of patches, flop'; set xrange [*:*]; set format x '10^{%%g}'\n"
            "set xtics 1; set ylabel 'share, %%'; set yrange [0:*]; set key top left\n"
            "plot $bins using ($1+0.3):2:(0.36) with boxes linecolor rgb '#5ec962' title 'of pairs', $bins "
            "using ($1+0.7):3:(0.36) with boxes linecolor rgb '#3b528b' title 'of the work'\n"
            "unset multiplot\nunset output\n");
}

kl_status kl_picture_plan(const kl_report_head *head, const kl_dmrg_plan *plan, const char *output,
                          kl_err *err)
{
    kl_status st = KL_OK;
    plan_picture s = {head, plan, NULL};
    if (plan->ncell == 0) return kl_fail(err, KL_EINPUT, "--plot: H has no work at the middle bond");
    KL_TRY(kl_alloc(&s.place, plan->npair, KL_MEM_MISC, err));
    for (int i = 0; i < plan->npair; i++)
        for (int k = 0; k < plan->npair; k++) s.place[i] += plan->pair[k].at < plan->pair[i].at;
    KL_TRY(kl_plot_run(draw_plan, &s, "--plot", output, err));
out:
    kl_free(&s.place);
    return st;
}

/* ---------------------------------------------------------------- growth */

typedef struct growth_picture {
    const kl_report_head *head;
    int n;
    const kl_infinite_row *row;
} growth_picture;

static void write_growth(FILE *to, const growth_picture *s)
{
    double line[KL_NLINE] = {0}, part[KL_NPART] = {0}, all = 0, lines = 0;
    fprintf(to, "$row << EOD\n");
    for (int i = 0; i < s->n; i++) {
        const kl_infinite_row *const r = &s->row[i];
        const double apply = r->seconds_part[KL_PART_APPLY];
        fprintf(to, "%d %d %.9g %lld %lld %.9g %.9g %.9g %lld %.9g", i + 1, r->m, r->dim_all,
                (long long)r->dim, (long long)r->sector_max, r->seconds, r->seconds_part[KL_PART_SOLVE],
                apply, (long long)r->matrix_max, apply > 0 && r->flop > 0 ? 1e-9 * r->flop / apply : NAN);
        const kl_list_cost *const c = &r->list;
        const double always = (double)(c->operator_bytes + c->vector_bytes);
        fprintf(to, " %.9g %.9g %.9g %.9g %.9g %.9g\n", 1e-6 * (always + (double)c->all_work_bytes),
                1e-6 * (always + (double)c->one_work_bytes), 1e-6 * (always + (double)c->run_bytes),
                1e-6 * (double)c->basis_bytes, c->free_bytes > 0 ? 1e-6 * (double)c->free_bytes : NAN,
                100 * c->share);
        for (int k = 0; k < KL_NLINE; k++) line[k] += r->seconds_line[k];
        for (int k = 0; k < KL_NPART; k++) part[k] += r->seconds_part[k];
        all += r->seconds;
    }
    for (int k = 0; k < KL_NLINE; k++) lines += line[k];
    const double rest = part[KL_PART_SOLVE] - lines, known = part[KL_PART_SOLVE] + part[KL_PART_PLAN] +
                                                             part[KL_PART_TRUNCATE] + part[KL_PART_GROW];
    fprintf(to, "EOD\n$part << EOD\n");
    int n = 0;
    for (int k = 0; k < KL_NLINE; k++) {
        fprintf(to, "%d ", n++);
        kl_plot_quote(to, kl_line_name[k]);
        fprintf(to, " %.9g\n", line[k]);
    }
    fprintf(to,
            "%d \"rest of the solver\" %.9g\n%d \"operators, lists\" %.9g\n%d \"truncation\" %.9g\n%d "
            "\"growth of blocks\" %.9g\n%d \"all else\" %.9g\nEOD\n",
            n, rest, n + 1, part[KL_PART_PLAN], n + 2, part[KL_PART_TRUNCATE], n + 3, part[KL_PART_GROW],
            n + 4, all - known);
}

static void draw_memory(FILE *to, const growth_picture *s)
{
    int device = 0;
    for (int i = 0; i < s->n; i++) device |= s->row[i].list.free_bytes > 0;
    fprintf(to,
            "set title 'memory of H_{SB} V and of V (Figs. 5, 12)'\nset ylabel 'MB'\n"
            "plot $row using 1:11 with linespoints pointtype 6 title '4Streams', $row using 1:12 with "
            "linespoints pointtype 7 title 'NoStreams', $row using 1:13 with linespoints pointtype 9 title "
            "'as it is run', $row using 1:14 with linespoints pointtype 5 title 'V and H V'%s\n",
            device ? ", $row using 1:15 with linespoints pointtype 3 title 'free before V'" : "");
    fprintf(to, "set title 'rate of H_{SB} V, share of the device (Figs. 16 to 19)'\n"
                "set ylabel 'GFLOP/s'; set ytics nomirror; set y2label 'share of the device, %%'\n"
                "set y2range [0:105]; set y2tics 0,20; set boxwidth 0.6; set style fill solid 0.3 noborder\n"
                "plot $row using 1:16 axes x1y2 with boxes linecolor rgb '#3b528b' title 'share', $row using "
                "1:10 with linespoints pointtype 7 linecolor rgb '#21918c' title 'GFLOP/s'\n");
}

static void draw_growth(FILE *to, const void *self, const char *terminal)
{
    const growth_picture *const s = self;
    write_growth(to, s);
    kl_plot_page(to, terminal, 1040, 1220);
    fprintf(to, "set termoption enhanced\nset multiplot layout 3,2 title ");
    titled(to, s->head, "");
    fprintf(to,
            "\nset grid\nset key bottom right samplen 2\nset xlabel 'iteration'; set xtics 1\nset xrange "
            "[0.5:%g]\n"
            "set logscale y; set format y '10^{%%L}'\nset title 'size of the superblock (Figs. 1, 2)'\n"
            "set ylabel 'states'\n"
            "plot $row using 1:3 with linespoints pointtype 6 title 'without charges', $row using 1:4 with "
            "linespoints pointtype 7 title 'H_{SB}', $row using 1:5 with linespoints pointtype 9 title "
            "'largest sector'\n",
            s->n + 0.5);
    fprintf(to, "set title 'time of an iteration (Figs. 3, 4)'\nset ylabel 'seconds'\n"
                "plot $row using 1:6 with linespoints pointtype 6 title 'iteration', $row using 1:7 with "
                "linespoints pointtype 7 title 'Davidson', $row using 1:8 with linespoints pointtype 9 title "
                "'H_{SB} V'\n");
    draw_memory(to, s);
    fprintf(to,
            "unset y2tics; unset y2label; set ytics mirror; set logscale y; set yrange [*:*]; set format y "
            "'10^{%%L}'\n"
            "set title 'rate of H_{SB} V (Figs. 14, 15)'\nset ylabel 'GFLOP/s'; set xlabel 'largest matrix'\n"
            "set xrange [*:*]; set xtics autofreq; set logscale x; unset key\n"
            "plot $row using 9:10 with points pointtype 7 notitle\n");
    fprintf(to,
            "set title 'time by parts, all iterations (Figs. 20, 21)'\nunset logscale; set format y '%%g'\n"
            "set ylabel 'seconds'; set yrange [0:*]; set xlabel ''; set xrange [-0.6:%d.6]; set termoption "
            "noenhanced\n"
            "set xtics rotate by -40 left; set boxwidth 0.7; set style fill solid 0.8 noborder\n"
            "plot $part using 1:3:xtic(2) with boxes linecolor rgb '#21918c' notitle\n"
            "unset multiplot\nunset output\n",
            KL_NLINE + 4);
}

kl_status kl_picture_growth(const kl_report_head *head, int n, const kl_infinite_row *row, const char *output,
                            kl_err *err)
{
    const growth_picture s = {head, n, row};
    return kl_plot_run(draw_growth, &s, "--plot", output, err);
}
