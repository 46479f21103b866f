/* `kronlat plot': results become a figure, which is drawn, or written as numbers.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/plotcli.h"

#include <stdio.h>
#include <string.h>

#include "base/atomicfile.h"
#include "base/mem.h"
#include "figure/panels.h"
#include "cli/plottable.h"
#include "cli/resultcli.h"
#include "run/outputs.h"

/* "a.svg" of "a.h5" and "a.csv". */
static void name_picture(const kl_options *o, char *path, size_t size)
{
    const size_t length = strlen(o->file);
    const int table = kl_plottable_is(o->file);
    const int cut = table ? 4 : length > 3 && strcmp(o->file + length - 3, ".h5") == 0 ? 3 : 0;
    if (o->output != NULL) snprintf(path, size, "%s", o->output);
    else snprintf(path, size, "%.*s.svg", (int)(length - (size_t)cut), o->file);
}

/* "-" is stdout. */
static kl_status write_csv(const kl_figure *f, const char *path, kl_err *err)
{
    kl_status st = KL_OK;
    if (strcmp(path, "-") == 0) {
        kl_figure_csv(f, stdout);
        return KL_OK;
    }
    kl_atomic_file to = {.fd = -1};
    FILE *file = NULL;
    KL_TRY(kl_atomic_open(path, &to, err));
    file = kl_atomic_stream(&to);
    if (file == NULL) KL_TRY(kl_fail(err, KL_EIO, "--csv: %.300s cannot be written", path));
    kl_figure_csv(f, file);
    const int bad = ferror(file);
    if (fclose(file) != 0 || bad)
        KL_TRY(kl_fail(err, KL_EIO, "--csv: %.300s cannot be written; is the disk full?", path));
    KL_TRY(kl_atomic_publish(&to, err));
out:
    kl_atomic_drop(&to);
    return st;
}

static kl_status of_results(const kl_options *o, const char *path, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = 1 + o->more.n;
    kronlat_result **loaded = NULL;
    kl_result **r = NULL;
    const char **name = NULL;
    kl_figure f = {.npanel = 0};
    const int drawn = o->output != NULL || (o->csv == NULL && !o->json);
    KL_TRY(kl_alloc(&loaded, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&r, n, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&name, n, KL_MEM_MISC, err));
    for (int i = 0; i < n; i++) {
        name[i] = i == 0 ? o->file : o->more.text[i - 1];
        KL_TRY(kl_resultcli_load(name[i], 1, &loaded[i], err));
        r[i] = loaded[i]->r;
        if (r[i] == NULL && n > 1)
            KL_TRY(
                kl_fail(err, KL_EINPUT,
                        "%.300s: holds a result of ci, which is drawn by itself; of dmrg and ed several are "
                        "drawn together",
                        name[i]));
    }
    if (r[0] == NULL) KL_TRY(kl_panels_ci(&loaded[0]->ci, &f, err));
    else if (n == 1) KL_TRY(kl_panels_one(r[0], &f, err));
    else KL_TRY(kl_panels_many(n, r, name, &f, err));
    if (drawn) {
        const kl_figure_look look = {o->columns > 0 ? (int)o->columns : 2,
                                     o->theme != NULL && strcmp(o->theme, "dark") == 0};
        KL_TRY(kl_figure_draw(&f, look, path, err));
    }
    if (o->csv != NULL) KL_TRY(write_csv(&f, o->csv, err));
    if (o->json) {
        kl_figure_json(&f, stdout);
        goto out;
    }
    if (o->csv != NULL && strcmp(o->csv, "-") == 0) goto out; /* the numbers alone */
    for (int k = 0; k < f.nleft; k++) printf("left out: %s\n", f.left[k]);
    printf("%s\n", drawn ? path : o->csv);
out:
    kl_figure_clear(&f);
    for (int i = 0; loaded != NULL && i < n; i++) kronlat_result_destroy(loaded[i]);
    kl_free(&loaded);
    kl_free(&r);
    kl_free(&name);
    return st;
}

kl_status kl_plotcli_run(const kl_options *o, kl_err *err)
{
    kl_status st = KL_OK;
    char path[1024];
    name_picture(o, path, sizeof path);
    KL_TRY(kl_outputs_check(o, NULL, err));
    if (!kl_plottable_is(o->file)) return of_results(o, path, err);
    if (o->more.n > 0 || o->csv != NULL || o->json)
        return kl_fail(err, KL_EINPUT, "plot: %.200s is a table, which is drawn by itself", o->file);
    KL_TRY(kl_plottable_run(o->file, o->columns > 0 ? (int)o->columns : 2, path, err));
    printf("%s\n", path);
out:
    return st;
}
