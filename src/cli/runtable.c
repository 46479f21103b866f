/* See runtable.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cli/runtable.h"

#include <math.h>
#include <string.h>

#include "base/atomicfile.h"
#include "base/mem.h"
#include "cli/rankscli.h"
#include "run/dmrgrun.h"
#include "run/edresult.h"
#include "run/requestread.h"

/* What a measurement of this name comes to in one number. 0: nothing, as it is many. */
static int number_of(const kl_result *r, const char *name, kl_request_kind kind, double *value)
{
    for (int i = 0; i < r->nmeasured; i++) {
        const kl_measured *const m = &r->measured[i];
        if (strcmp(m->name, name) != 0) continue;
        const int by_place = kind == KL_REQUEST_LOCAL || kind == KL_REQUEST_BOND;
        if (m->rank == 0) *value = m->data[0];
        else if (m->rank == 1 && kind == KL_REQUEST_ENTROPY) *value = m->data[(m->shape[0] - 1) / 2];
        else if (m->rank == 1 && by_place) {
            *value = 0;
            for (int64_t k = 0; k < m->shape[0]; k++) *value += m->data[k] / (double)m->shape[0];
        } else continue;
        return 1;
    }
    return 0;
}

/* Of states that cannot be told apart their mean. */
static int value_of(const kl_task *t, const kl_result *r, const char *text, double *value)
{
    kl_request q;
    kl_err ignored;
    char name[KL_REQUEST_TEXT + 64];
    int found = 0;
    if (kl_request_read(text, kl_task_named(t), t->lat, &q, &ignored) != KL_OK) return 0;
    kl_request_name(&q, "manifold/", "", name, sizeof name);
    found = number_of(r, name, q.kind, value);
    kl_request_name(&q, "", "", name, sizeof name);
    found = found || number_of(r, name, q.kind, value);
    kl_request_clear(&q);
    return found;
}

/* What stopped a run of exact diagonalization, in the words of DMRG. */
static kl_dmrg_stop exact_stop(const kl_result *r)
{
    for (int i = 0; i < r->nmeasured; i++)
        if (strcmp(r->measured[i].name, "ed/run") == 0) {
            const int stop = (int)r->measured[i].data[KL_EDRUN_STOP];
            return stop == KL_ED_CONVERGED || stop == KL_ED_STAGNATED ? KL_STOP_CONVERGED
                   : stop == KL_ED_INTERRUPTED                        ? KL_STOP_INTERRUPTED
                                                                      : KL_STOP_MAX_SWEEP;
        }
    return KL_STOP_CONVERGED; /* thermodynamics */
}

kl_report_item kl_runtable_item(const kl_task *t, const kl_result *r, const char *label, const char *output)
{
    const kl_text_list *const asked = &t->o->measure;
    const kl_dmrg_result *const d = &r->dmrg;
    const int exact = kl_edresult_is(r);
    kl_report_item item = {.nstate = d->nstate < KL_MAX_STATE ? d->nstate : KL_MAX_STATE,
                           .error_estimate = d->error_estimate,
                           .discarded = d->discarded,
                           .exact = exact,
                           .lowest = -1,
                           .m = d->nrow > 0 ? d->row[d->nrow - 1].m_reached : 0,
                           .stop = exact ? exact_stop(r) : d->stop,
                           .wait = exact ? KL_WAIT_NOTHING : d->wait};
    item.energy_converged = exact ? item.stop == KL_STOP_CONVERGED : kl_dmrgrun_energy_converged(d);
    item.converged = exact ? item.energy_converged : kl_dmrgrun_converged(d);
    snprintf(item.label, sizeof(item.label), "%s", label);
    snprintf(item.output, sizeof(item.output), "%.500s", output);
    memcpy(item.energy, d->energy, sizeof(double) * (size_t)item.nstate);
    item.cut = kl_request_cutoff(r, &item.cut_weight, &item.cut_site);
    for (int i = 0; i < asked->n && item.nvalue < KL_REPORT_VALUES; i++) {
        if (strcmp(asked->text[i], "energy") == 0) continue; /* stands there already */
        snprintf(item.name[item.nvalue], sizeof item.name[0], "%.*s", (int)sizeof item.name[0] - 1,
                 asked->text[i]);
        item.nvalue += value_of(t, r, asked->text[i], &item.value[item.nvalue]);
    }
    return item;
}

/* "a,b" is one field. */
static void put_field(FILE *to, const char *text)
{
    const int quoted = strpbrk(text, ",\"\n") != NULL;
    if (quoted) fputc('"', to);
    for (; *text != '\0'; text++) {
        if (*text == '"') fputc('"', to);
        fputc(*text, to);
    }
    if (quoted) fputc('"', to);
}

/* "sites=16 Sz=1/2": the names, or the values, a field each. */
static void put_label(FILE *to, const char *label, int values)
{
    char word[128];
    for (const char *p = label; *p != '\0'; p += *p == ' ') {
        const size_t n = strcspn(p, " "), name = strcspn(p, "= ");
        const size_t from = values && name < n ? name + 1 : 0, end = values ? n : name;
        snprintf(word, sizeof word, "%.*s", (int)(end - from), p + from);
        put_field(to, word);
        fputc(',', to);
        p += n;
    }
}

void kl_runtable_print(FILE *to, int n, const kl_report_item *item, const kl_gaptable *gaps)
{
    const int ngap = gaps->value != NULL ? gaps->nformula : 0;
    int most = 1;
    for (int i = 0; i < n; i++)
        if (item[i].nstate > most) most = item[i].nstate;
    for (int i = 0; i < n; i++) {
        const kl_report_item *const row = &item[i];
        if (i == 0) {
            put_label(to, row->label, 0);
            fputs("energy", to);
            for (int k = 1; k < most; k++) fprintf(to, ",energy_%d", k);
            fputs(",error,m,discarded", to);
            for (int k = 0; k < row->nvalue; k++) {
                fputc(',', to);
                put_field(to, row->name[k]);
            }
            for (int k = 0; k < ngap; k++) {
                fputc(',', to);
                put_field(to, gaps->formula[k]);
                fprintf(to, ",error_of_gap_%d", k + 1);
            }
            fputs(row->lowest >= 0 ? ",lowest,file\n" : ",file\n", to);
        }
        put_label(to, row->label, 1);
        fprintf(to, "%.17g", row->energy[0]);
        for (int k = 1; k < most; k++)
            if (k < row->nstate) fprintf(to, ",%.17g", row->energy[k]);
            else fputc(',', to);
        if (row->exact) fprintf(to, ",%.17g,,", row->error_estimate);
        else fprintf(to, ",%.17g,%d,%.17g", row->error_estimate, row->m, row->discarded);
        for (int k = 0; k < row->nvalue; k++) fprintf(to, ",%.17g", row->value[k]);
        for (int k = 0; k < ngap; k++) {
            const double gap = gaps->value[(int64_t)k * n + i], error = gaps->error[(int64_t)k * n + i];
            if (isnan(gap)) fputs(",,", to);
            else fprintf(to, ",%.17g,%.17g", gap, error);
        }
        if (item[0].lowest >= 0) fprintf(to, ",%d", row->lowest);
        fputc(',', to);
        put_field(to, row->output);
        fputc('\n', to);
    }
}

int kl_runtable_piped(const kl_options *o) { return o->csv != NULL && strcmp(o->csv, "-") == 0; }

kl_status kl_runtable_check(const kl_options *o, int many, kl_err *err)
{
    if (kl_runtable_piped(o) && o->json)
        return kl_fail(err, KL_EINPUT, "--csv -: stdout has what --json prints; name a file");
    if ((o->csv == NULL && o->gap.n == 0) || many) return kl_gaptable_check(o->gap.n, o->gap.text, NULL, err);
    return kl_fail(err, KL_EINPUT,
                   "--%s %.300s: one run makes no table of runs; allowed: with --sweep-parameter, or with "
                   "--charge scan without --temperatures",
                   o->csv != NULL ? "csv" : "gap", o->csv != NULL ? o->csv : o->gap.text[0]);
}

kl_status kl_runtable_csv(const kl_options *o, int n, const kl_report_item *item, const kl_gaptable *gaps,
                          kl_err *err)
{
    kl_status st = KL_OK;
    kl_atomic_file to = {.fd = -1};
    kl_err why;
    if (o->csv == NULL || kl_runtable_piped(o)) return KL_OK;
    st = kl_atomic_open(o->csv, &to, &why);
    if (st != KL_OK) KL_TRY(kl_fail(err, st, "--csv: %.300s cannot be written: %s", o->csv, why.text));
    FILE *const file = kl_atomic_stream(&to);
    if (file == NULL) KL_TRY(kl_fail(err, KL_EIO, "--csv: %.300s cannot be written", o->csv));
    kl_runtable_print(file, n, item, gaps);
    const int bad = ferror(file);
    if (fclose(file) != 0 || bad)
        KL_TRY(kl_fail(err, KL_EIO, "--csv: %.300s cannot be written; is the disk full?", o->csv));
    KL_TRY(kl_atomic_publish(&to, err));
out:
    kl_atomic_drop(&to);
    return st;
}

kl_status kl_runtable_tell(const kl_options *o, const char *title, int n, const kl_report_item *item,
                           int levels, kl_err *err)
{
    kl_status st = KL_OK;
    kl_gaptable_row *row = NULL;
    kl_gaptable gaps = {0};
    char text[480];
    KL_TRY(kl_alloc(&row, n, KL_MEM_MISC, err));
    for (int i = 0; i < n; i++)
        row[i] = (kl_gaptable_row){item[i].label, item[i].energy[0], item[i].error_estimate};
    KL_TRY(kl_gaptable_create(o->gap.n, o->gap.text, n, row, &gaps, err));
    if (o->gap.n > 0 && n > 0 && kl_rankscli_tells()) KL_TRY(kl_runtable_csv(o, n, item, &gaps, err));
    if (o->json) {
        kl_report_table_json(stdout, title, n, item, levels, &gaps);
    } else if (kl_runtable_piped(o)) {
        kl_runtable_print(stdout, n, item, &gaps);
        if (kl_report_cut_rows(n, item, text, sizeof text)) kl_report_note(text);
    } else {
        kl_report_table(stdout, title, n, item, levels);
        kl_gaptable_print(stdout, &gaps);
    }
    fflush(stdout);
out:
    kl_gaptable_clear(&gaps);
    kl_free(&row);
    return st;
}
