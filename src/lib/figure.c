/* Results as figures, for other programs to draw.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "figure/panels.h"
#include "lib/handles.h"

static void write_json(const void *self, FILE *to) { kl_figure_json(self, to); }

static kl_status make(int n, kronlat_result *const *results, const char *const *names, kl_figure *f,
                      kl_err *err)
{
    kl_status st = KL_OK;
    kl_result **r = NULL;
    if (n < 1) return kl_fail(err, KL_EINPUT, "a figure of %d results; 1 at least", n);
    KL_TRY(kl_alloc(&r, n, KL_MEM_MISC, err));
    for (int i = 0; i < n; i++) {
        if (results[i] == NULL || (n > 1 && (results[i]->r == NULL || names == NULL || names[i] == NULL)))
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "a figure of several results takes those of dmrg and ed, each with a name"));
        r[i] = results[i]->r;
    }
    if (r[0] == NULL) KL_TRY(kl_panels_ci(&results[0]->ci, f, err));
    else if (n == 1) KL_TRY(kl_panels_one(r[0], f, err));
    else KL_TRY(kl_panels_many(n, r, names, f, err));
out:
    kl_free(&r);
    return st;
}

kronlat_status kronlat_result_figure(int n, kronlat_result *const *results, const char *const *names,
                                     const char **json, kronlat_error *error)
{
    kl_status st = KL_OK;
    kl_err err = {{0}};
    kl_figure f = {.npanel = 0};
    const kl_visit v = kl_visit_begin(NULL);
    *json = NULL;
    KL_TRY(make(n, results, names, &f, &err));
    kl_free(&results[0]->figure);
    KL_TRY(kl_text_written(write_json, &f, &results[0]->figure, &err));
    *json = results[0]->figure;
out:
    kl_figure_clear(&f);
    return kl_visit_end(v, st, &err, error);
}
