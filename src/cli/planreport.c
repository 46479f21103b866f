/* What a plan says: sizes, where the work is, and what each way of a device takes.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/report.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/json.h"
#include "cli/reporttext.h"
#include "config.h"

void kl_report_title(FILE *to, const kl_report_head *head)
{
    const kl_model *m = head->model;
    fprintf(to, "%s%s%s%s   %s\n%s %s\n", m->name, m->variant[0] != '\0' ? "(" : "", m->variant,
            m->variant[0] != '\0' ? ")" : "", m->formula,
            strcmp(m->name, "molecule") == 0 ? "orbitals    " : "lattice     ", head->lattice);
    if (head->charges[0] != '\0') fprintf(to, "charges      %s\n", head->charges);
}

enum {
    MAP_COLUMNS = 48,
    MAP_ROWS = 24,
};

/* Share of the work by the first two charges of the left patch; each left patch has one right partner, its
   charge being the rest of the target's. */
static void print_map(FILE *to, const kl_model *m, const kl_dmrg_plan *plan)
{
    static const char shade[] = " .:-=+*#%@";
    double cell[MAP_ROWS][MAP_COLUMNS] = {{0}}, largest = 0;
    int low[2] = {0, 0}, high[2] = {0, 0}, step[2] = {0, 0};
    if (m->ncharge == 0 || plan->npair == 0) return;
    for (int k = 0; k < 2 && k < m->ncharge; k++) {
        low[k] = high[k] = plan->pair[0].left.v[k];
        for (int i = 1; i < plan->npair; i++) {
            const int v = plan->pair[i].left.v[k];
            if (v < low[k]) low[k] = v;
            if (v > high[k]) high[k] = v;
        }
        for (int i = 0; i < plan->npair; i++)
            step[k] = (int)kl_gcd(step[k], plan->pair[i].left.v[k] - low[k]);
    }
    for (int k = 0; k < 2; k++)
        if (step[k] == 0) step[k] = 1;
    const int span[2] = {(high[0] - low[0]) / step[0] + 1, (high[1] - low[1]) / step[1] + 1};
    const int columns = span[0] < MAP_COLUMNS ? span[0] : MAP_COLUMNS,
              rows = span[1] < MAP_ROWS ? span[1] : MAP_ROWS;
    for (int i = 0; i < plan->npair; i++) {
        const kl_qn q = plan->pair[i].left;
        const int x = (int)((int64_t)((q.v[0] - low[0]) / step[0]) * columns / span[0]),
                  y = (int)((int64_t)((q.v[1] - low[1]) / step[1]) * rows / span[1]);
        cell[y][x] += plan->pair[i].flop;
        largest = fmax(largest, cell[y][x]);
    }
    char left[256], right[256];
    kl_qn a = kl_qn_zero(), b = kl_qn_zero();
    for (int k = 0; k < 2; k++) {
        a.v[k] = (int16_t)low[k];
        b.v[k] = (int16_t)high[k];
    }
    kl_model of_two = *m; /* the others are summed over */
    if (of_two.ncharge > 2) of_two.ncharge = 2;
    kl_qn_print(&of_two, a, left, sizeof(left));
    kl_qn_print(&of_two, b, right, sizeof(right));
    fprintf(to, "\nwork by charge of the left patch, from %s (%s) to %s (%s); %s across%s%s%s\n", left,
            rows > 1 ? "bottom left" : "left", right, rows > 1 ? "top right" : "right", m->charge[0].name,
            rows > 1 ? ", " : "", rows > 1 ? m->charge[1].name : "", rows > 1 ? " up" : "");
    for (int y = rows - 1; y >= 0; y--) {
        fprintf(to, "  |");
        for (int x = 0; x < columns; x++) {
            const double share = largest > 0 ? cell[y][x] / largest : 0;
            fputc(share <= 0 ? ' ' : shade[1 + (int)fmin(8, 9 * share)], to);
        }
        fprintf(to, "|\n");
    }
}

/* Patch pairs and their work by the size of the patch pair, in powers of four. */
static void print_histogram(FILE *to, const kl_dmrg_plan *plan)
{
    enum { NBIN = 32 };
    const double bar = 40;
    int64_t count[NBIN] = {0};
    double work[NBIN] = {0}, total = 0;
    int most = 0;
    for (int i = 0; i < plan->npair; i++) {
        const double size = (double)plan->pair[i].rows * (double)plan->pair[i].cols;
        int bin = size < 1 ? 0 : (int)(log2(size) / 2);
        if (bin >= NBIN) bin = NBIN - 1;
        count[bin]++;
        work[bin] += plan->pair[i].flop;
        total += plan->pair[i].flop;
        if (bin > most) most = bin;
    }
    fprintf(to, "\npatch pairs by size (rows x columns), and their share of the work\n");
    for (int b = 0; b <= most; b++) {
        const double share = total > 0 ? work[b] / total : 0;
        fprintf(to, "  up to %12.0f %6lld pairs %5.1f %% ", ldexp(1, 2 * b + 2) - 1, (long long)count[b],
                100 * share);
        for (int k = 0; k < (int)(share * bar + 0.5); k++) fputc('#', to);
        fputc('\n', to);
    }
}

void kl_report_ways(FILE *to, const kl_dmrg_plan *p)
{
    char a[32], b[32], c[32], d[32];
    if (p->nway == 0) return;
    fprintf(to,
            "\nmemory of the device for one H x, m = %d, with the least an eigensolver wants besides (%s "
            "of vectors)",
            p->m, kl_report_bytes((double)p->least_bytes, a));
    if (p->room_bytes > 0) fprintf(to, "; it has %s", kl_report_bytes((double)p->room_bytes, a));
    fprintf(to,
            "\n--projection      operators  lists, intermediates  from the host each time       in all\n");
    for (int i = 0; i < p->nway; i++) {
        const struct kl_dmrg_way *const w = &p->way[i];
        fprintf(to, "  %-12s %12s %21s %24s %12s%s%s\n", w->name,
                kl_report_bytes((double)w->operator_bytes, a), kl_report_bytes((double)w->list_bytes, b),
                w->moved_bytes > 0 ? kl_report_bytes((double)w->moved_bytes, c) : "-",
                kl_report_bytes((double)w->total_bytes, d), w->taken ? "  taken" : "",
                w->fits ? "" : "  does not fit");
    }
    fprintf(to, "operators of LR: %s%s\n", kl_report_bytes(8.0 * (double)p->dense_doubles, a),
            p->lr_too_large ? ", which do not fit: l-1-1-r is taken" : "");
}

void kl_report_beyond(FILE *to, const kl_dmrg_plan *p)
{
    char a[32], b[32], c[32], d[32];
    const kl_plan_beyond *const e = &p->beyond;
    if (p->bus.up <= 0) return;
    if (e->nstreamed == 0 && e->carried_bytes <= 0) {
        fprintf(to, "all of a sweep fits: nothing crosses the bus during it\n");
        return;
    }
    fprintf(to, "a sweep takes about %.2f times as long as where everything fits: ",
            p->seconds_sweep / fmax(1e-9, p->seconds_sweep - e->seconds));
    if (e->nstreamed > 0)
        fprintf(to,
                "at %d of %d bonds operators come over the bus in every product (at the middle %s for %s), ",
                e->nstreamed, p->nsite - 1, kl_report_time(e->apply_seconds, a),
                kl_report_time(p->apply_seconds, b));
    fprintf(to, "blocks of %s go out and come back, at %s/s and %s/s\n", kl_report_bytes(e->carried_bytes, a),
            kl_report_bytes(p->bus.down, c), kl_report_bytes(p->bus.up, d));
    if (e->lock_seconds > 0)
        fprintf(to, "of it %s, in the first sweep of so many states, for %s of the host's memory, at %s/s\n",
                kl_report_time(e->lock_seconds, a), kl_report_bytes(e->locked_bytes, b),
                kl_report_bytes(p->bus.lock, c));
}

void kl_report_ways_json(kl_json *j, const kl_dmrg_plan *p)
{
    kl_json_open(j, "projections", '[');
    for (int i = 0; i < p->nway; i++) {
        const struct kl_dmrg_way *const w = &p->way[i];
        kl_json_open(j, NULL, '{');
        kl_json_text(j, "projection", w->name);
        kl_json_int(j, "operator_bytes", w->operator_bytes);
        kl_json_int(j, "list_bytes", w->list_bytes);
        kl_json_int(j, "moved_bytes", w->moved_bytes);
        kl_json_int(j, "total_bytes", w->total_bytes);
        kl_json_bool(j, "fits", w->fits);
        kl_json_bool(j, "taken", w->taken);
        kl_json_close(j, '}');
    }
    kl_json_close(j, ']');
    kl_json_int(j, "lr_operator_bytes", 8 * p->dense_doubles);
    kl_json_bool(j, "lr_does_not_fit", p->lr_too_large);
}

void kl_report_plan(FILE *to, const kl_report_head *head, int n, const kl_dmrg_plan *plan)
{
    char a[32], b[32], c[32];
    kl_report_title(to, head);
    const int spin = kl_model_spin(head->model) >= 0;
    fprintf(
        to,
        "\n     m %s    size of H  pairs    records  operators at a cut   one H x       memory    a sweep\n",
        spin ? " states" : "");
    for (int i = 0; i < n; i++) {
        const kl_dmrg_plan *p = &plan[i];
        fprintf(to, "%6d ", p->m);
        if (spin) fprintf(to, "%7lld", (long long)p->states);
        fprintf(to, "%13lld %6d %10lld   %6d (middle %d) %12s %12s %10s\n", (long long)p->dim, p->nsector,
                (long long)p->nrecord, p->bond_op_max, p->bond_op_mid, kl_report_flop(p->flop_apply, a),
                kl_report_bytes((double)p->memory_bytes, b), kl_report_time(p->seconds_sweep, c));
    }
    if (n == 0) return;
    if (spin) fprintf(to, "m counts multiplets of the total spin, of so many states\n");
    const kl_dmrg_plan *const last = &plan[n - 1];
    if (last->device_bytes > 0)
        fprintf(to,
                "memory of the device that is in use at a time; with blocks that wait for the next who wants "
                "as much, m = %d takes %s at most\n",
                last->m, kl_report_bytes((double)last->device_bytes, a));
    if (last->process_bytes > 0)
        fprintf(to, "the whole process takes about %s then, its program and gaps between blocks included\n",
                kl_report_bytes((double)last->process_bytes, a));
    if (last->sites == 1)
        fprintf(to,
                "one site at a time, in sweeps without noise: the other one is in a block of %d states, its "
                "basis expanded\n",
                last->absorbed);
    if (last->halves)
        fprintf(to,
                "times are of sweeps over half of the lattice, of which the other half is the image; those "
                "that carry guard states take twice as long\n");
    if (last->seconds_settled > 0)
        fprintf(to, "a sweep that repeats m = %d neither expands nor truncates on its way back: about %s\n",
                last->m, kl_report_time(last->seconds_settled, a));
    print_map(to, head->model, &plan[n - 1]);
    print_histogram(to, &plan[n - 1]);
    kl_report_ways(to, &plan[n - 1]);
    kl_report_beyond(to, &plan[n - 1]);
}

void kl_report_rankplan(FILE *to, const char *unit, const kl_rankrate *between, int n, const kl_rankplan *row)
{
    char a[32], b[32], c[32];
    if (n == 0) return;
    fprintf(to, "\nranks    a %-8s memory a rank   it receives  efficiency\n", unit);
    for (int i = 0; i < n; i++) {
        fprintf(to, "%5d %12s %14s %13s %10.0f %%", row[i].ranks, kl_report_time(row[i].seconds, a),
                kl_report_bytes(row[i].bytes, b), kl_report_bytes(row[i].traffic, c),
                100 * row[i].efficiency);
        if (row[i].idle > 0) fprintf(to, "   %d idle: there is no more to share", row[i].idle);
        fputc('\n', to);
    }
    fprintf(to, "as many threads each; %s/s from the others, %.2g s an exchange",
            kl_report_bytes(between->rate, a), between->latency);
    if (between->ranks > 0)
        fprintf(to, " (measured, %d ranks on %d machine%s)", between->ranks, between->hosts,
                between->hosts == 1 ? "" : "s");
    fprintf(to, ", nothing overlaps\n");
}

void kl_report_rankplan_json(kl_json *j, int n, const kl_rankplan *row)
{
    if (n == 0) return;
    kl_json_open(j, "ranks", '[');
    for (int i = 0; i < n; i++) {
        kl_json_open(j, NULL, '{');
        kl_json_int(j, "ranks", row[i].ranks);
        kl_json_int(j, "idle", row[i].idle);
        kl_json_real(j, "seconds", row[i].seconds);
        kl_json_real(j, "memory_bytes", row[i].bytes);
        kl_json_real(j, "received_bytes", row[i].traffic);
        kl_json_real(j, "efficiency", row[i].efficiency);
        kl_json_close(j, '}');
    }
    kl_json_close(j, ']');
}

void kl_report_planned_take(kl_report_planned *p, const kl_dmrg_plan *plan)
{
    p->m = plan->m;
    p->npair = plan->nsector;
    p->states = plan->states;
    p->dim = plan->dim;
    p->nrecord = plan->nrecord;
    p->memory_bytes = plan->memory_bytes;
    p->flop_apply = plan->flop_apply;
    p->seconds_sweep = plan->seconds_sweep;
}

void kl_report_plan_open(kl_json *j, const kl_report_head *head)
{
    kl_report_json_open(j, KL_VERSION, "plan");
    kl_json_text(j, "method", "dmrg");
    kl_json_text(j, "model", head->model->name);
    kl_json_text(j, "variant", head->model->variant);
    kl_json_text(j, "lattice", head->lattice);
}

void kl_report_planned_json(kl_json *j, const kl_report_planned *p)
{
    kl_json_int(j, "m", p->m);
    kl_json_int(j, "states", p->states);
    kl_json_int(j, "dim", p->dim);
    kl_json_int(j, "sector_pairs", p->npair);
    kl_json_int(j, "records", p->nrecord);
    kl_json_real(j, "flop_apply", p->flop_apply);
    kl_json_int(j, "memory_bytes", p->memory_bytes);
    kl_json_real(j, "seconds_sweep", p->seconds_sweep);
}

void kl_report_plan_json(FILE *to, const kl_report_head *head, int n, const kl_dmrg_plan *plan, int nrank,
                         const kl_rankplan *ranks)
{
    char text[256];
    kl_json j = kl_json_begin(to);
    kl_report_plan_open(&j, head);
    kl_json_text(&j, "charges", head->charges);
    kl_json_open(&j, "plans", '[');
    for (int i = 0; i < n; i++) {
        const kl_dmrg_plan *p = &plan[i];
        kl_report_planned sizes;
        kl_json_open(&j, NULL, '{');
        kl_report_planned_take(&sizes, p);
        kl_report_planned_json(&j, &sizes);
        kl_json_int(&j, "sites", p->nsite);
        kl_json_int(&j, "sites_per_step", p->sites);
        kl_json_bool(&j, "half_of_the_lattice", p->halves);
        kl_json_int(&j, "operators_largest", p->bond_op_max);
        kl_json_int(&j, "operators_middle", p->bond_op_mid);
        if (p->device_bytes > 0) kl_json_int(&j, "device_bytes", p->device_bytes);
        if (p->process_bytes > 0) kl_json_int(&j, "process_bytes", p->process_bytes);
        kl_json_open(&j, "seconds_by_part", '{');
        for (int k = 0; k < KL_NPLAN; k++) kl_json_real(&j, kl_plan_part_name[k], p->seconds_part[k]);
        kl_json_close(&j, '}');
        if (p->nway > 0) kl_report_ways_json(&j, p);
        if (p->bus.up > 0) {
            kl_json_open(&j, "beyond", '{');
            kl_json_real(&j, "seconds", p->beyond.seconds);
            kl_json_real(&j, "apply_seconds", p->beyond.apply_seconds);
            kl_json_real(&j, "apply_seconds_inside", p->apply_seconds);
            kl_json_int(&j, "bonds_streamed", p->beyond.nstreamed);
            kl_json_real(&j, "carried_bytes", p->beyond.carried_bytes);
            kl_json_real(&j, "locked_bytes", p->beyond.locked_bytes);
            kl_json_real(&j, "lock_seconds", p->beyond.lock_seconds);
            kl_json_real(&j, "bytes_per_second_up", p->bus.up);
            kl_json_real(&j, "bytes_per_second_down", p->bus.down);
            kl_json_close(&j, '}');
        }
        kl_json_open(&j, "pairs", '[');
        for (int k = 0; k < p->npair; k++) {
            kl_json_open(&j, NULL, '{');
            kl_json_text(&j, "left", kl_qn_print(head->model, p->pair[k].left, text, sizeof(text)));
            kl_json_text(&j, "right", kl_qn_print(head->model, p->pair[k].right, text, sizeof(text)));
            kl_json_int(&j, "rows", p->pair[k].rows);
            kl_json_int(&j, "cols", p->pair[k].cols);
            kl_json_real(&j, "flop", p->pair[k].flop);
            kl_json_close(&j, '}');
        }
        kl_json_close(&j, ']');
        kl_json_open(&j, "work_between_pairs", '[');
        for (int k = 0; k < p->ncell; k++) {
            const struct kl_dmrg_cell *const c = &p->cell[k];
            kl_json_open(&j, NULL, '{');
            kl_json_int(&j, "to", c->to);
            kl_json_int(&j, "from", c->from);
            kl_json_int(&j, "records", c->records);
            kl_json_real(&j, "flop", c->flop);
            kl_json_close(&j, '}');
        }
        kl_json_close(&j, ']');
        kl_json_close(&j, '}');
    }
    kl_json_close(&j, ']');
    kl_report_rankplan_json(&j, nrank, ranks);
    kl_json_close(&j, '}');
    kl_json_end(&j);
}
