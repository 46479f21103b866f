/* `kronlat show' and `kronlat measure', by the library: see resultcli.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/resultcli.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cicli.h"
#include "cli/edreport.h"
#include "cli/report.h"
#include "io/checked.h"
#include "run/dmrgrun.h"
#include "run/edresult.h"
#include "run/runfile.h"

kl_status kl_resultcli_load(const char *path, int ci, kronlat_result **r, kl_err *err)
{
    kl_status st = KL_OK;
    kronlat_error *const why = kronlat_error_create();
    if (why == NULL) return kl_fail(err, KL_ENOMEM, "no memory for a result");
    KL_TRY(kl_status_of(kronlat_result_load(NULL, path, r, why), why, err));
    if ((*r)->r == NULL && !ci)
        KL_TRY(kl_fail(err, KL_EINPUT, "%.300s: holds 'ci'; a result of dmrg or ed is wanted here", path));
out:
    if (st != KL_OK) {
        kronlat_result_destroy(*r);
        *r = NULL;
    }
    kronlat_error_destroy(why);
    return st;
}

kl_status kl_resultcli_show(const kl_options *o, kl_err *err)
{
    kronlat_result *r = NULL;
    const kl_status st = kl_resultcli_load(o->file, 1, &r, err);
    if (st != KL_OK) return st;
    const int is_ed = r->r != NULL && kl_edresult_is(r->r);
    if (r->r == NULL) kl_cicli_show(o, &r->ci);
    else if (o->json) (is_ed ? kl_edreport_json : kl_report_result_json)(stdout, r->r, NULL);
    else (is_ed ? kl_edreport_text : kl_report_result)(stdout, r->r, NULL);
    kronlat_result_destroy(r);
    return KL_OK;
}

/* ---------------------------------------------------------------- measuring */

/* The options of the file's run; what that run was asked to measure is in the file already. */
static kl_status adopt(kl_options *o, const kl_result *r, kl_err *err)
{
    const kl_text_list asked = o->measure;
    o->command = KL_CMD_DMRG;
    o->measure = (kl_text_list){0};
    const kl_status st = kl_runfile_adopt(o, r, err);
    for (int i = 0; i < o->measure.n; i++) kl_free(&o->measure.text[i]);
    kl_free(&o->measure.text);
    o->measure = asked;
    return st;
}

/* The task of the file's run, for one sector, and its executor. */
static kl_status open_task(const kl_options *o, kl_task **t, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_task_create(o, 0, t, err));
    KL_TRY(kl_dmrgrun_check_measure(*t, err));
    KL_TRY(kl_task_charges(*t, err));
    KL_TRY(kl_task_exec(o, &(*t)->ex, err));
out:
    return st;
}

/* All that is asked for, in one call: preparing the state is most of the work. */
static kl_status measure_all(const kl_text_list *asked, kronlat_result *r, kronlat_error *why, kl_err *err)
{
    kl_status st = KL_OK;
    char *lines = NULL;
    size_t size = 0, used = 0;
    for (int i = 0; i < asked->n; i++) size += strlen(asked->text[i]) + 1;
    KL_TRY(kl_alloc(&lines, (int64_t)size, KL_MEM_MISC, err));
    for (int i = 0; i < asked->n; i++) {
        const size_t n = strlen(asked->text[i]);
        memcpy(lines + used, asked->text[i], n);
        used += n;
        lines[used++] = i + 1 < asked->n ? '\n' : '\0';
    }
    KL_TRY(kl_status_of(kronlat_result_measure(r, lines, why), why, err));
out:
    kl_free(&lines);
    return st;
}

static void print(const kl_options *o, const kl_result *r, const kl_run_facts *facts)
{
    if (o->json) kl_report_result_json(stdout, r, facts);
    else kl_report_result(stdout, r, facts);
}

kl_status kl_resultcli_measure(kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    char *path = o->file; /* a molecule's result brings the name of its FCIDUMP file along */
    o->file = NULL;
    kl_task *t = NULL;
    kronlat_problem *problem = NULL;
    kronlat_result *r = NULL;
    kronlat_error *const why = kronlat_error_create();
    const double started = kl_clock();
    int held = -1;
    if (why == NULL) KL_TRY(kl_fail(err, KL_ENOMEM, "no memory to begin"));
    if (o->measure.n == 0)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "measure: --measure is missing; `kronlat measure --help' lists what can be measured"));
    held = kl_checked_hold(path); /* or what others measure meanwhile would be lost */
    if (kl_interrupted())
        KL_TRY(kl_fail(err, KL_EIO, "%.300s: interrupted while another program had the file", path));
    KL_TRY(kl_resultcli_load(path, 0, &r, err));
    KL_TRY(adopt(o, r->r, err));
    KL_TRY(open_task(o, &t, err));
    KL_TRY(kl_problem_borrow(o, t, NULL, NULL, &problem, err));
    KL_TRY(kl_handle_state(problem, path, r, err));
    KL_TRY(measure_all(&o->measure, r, why, err));
    st = kl_status_of(kronlat_result_save(r, path, why), why, err);
    if (held >= 0) close(held);
    held = -1;
    const kl_run_facts facts = {.exec = t->ex->name,
                                .nthread = t->ex->nthread,
                                .output = st == KL_OK ? path : NULL,
                                .seconds = kl_clock() - started,
                                .command = "measure"};
    print(o, r->r, &facts);
out:
    if (held >= 0) close(held);
    kronlat_result_destroy(r);
    kronlat_problem_destroy(problem);
    kronlat_error_destroy(why);
    kl_task_destroy(&t);
    kl_free(&path);
    return st;
}
