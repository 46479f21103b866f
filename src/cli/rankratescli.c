/* See rankratescli.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/rankratescli.h"

#include "base/mem.h"
#include "cli/report.h"
#include "run/rankrates.h"
#include "run/task.h"
#include "run/tune.h"

static kl_rankrates found;

kl_status kl_rankratescli_measure(kl_err *err) { return kl_rankrates_measure(kl_comm_world(), &found, err); }

void kl_rankratescli_print(FILE *to)
{
    char a[32];
    if (found.host.ranks == 0) return;
    fprintf(to, "          %s/s from the others, all at once; a sum over all in %.2g s\n",
            kl_report_bytes(found.host.rate, a), found.host.latency);
    if (found.where == NULL) return;
    for (int r = 0; r < found.device.ranks; r++) fprintf(to, "  rank %-4d%s\n", r, found.where[r]);
    if (found.device.rate > 0)
        fprintf(to, "          %s/s from the other devices, the smallest exchange in %.2g s\n",
                kl_report_bytes(found.device.rate, a), found.device.latency);
    if (found.link > 0)
        fprintf(to, "          %s/s from the host to each device, all at once\n",
                kl_report_bytes(found.link, a));
}

static void put_rate(kl_json *j, const char *name, const kl_rankrate *r)
{
    kl_json_open(j, name, '{');
    kl_json_real(j, "received_per_second", r->rate);
    kl_json_real(j, "seconds_smallest", r->latency);
    kl_json_close(j, '}');
}

void kl_rankratescli_json(kl_json *j)
{
    if (found.host.ranks == 0) return;
    put_rate(j, "between_ranks", &found.host);
    if (found.where == NULL || !(found.device.rate > 0)) return;
    put_rate(j, "between_devices", &found.device);
    kl_json_real(j, "host_link_per_second", found.link);
    kl_json_open(j, "rank_devices", '[');
    for (int r = 0; r < found.device.ranks; r++) kl_json_text(j, NULL, found.where[r]);
    kl_json_close(j, ']');
}

kl_status kl_rankratescli_keep(const char *path, kl_err *err)
{
    kl_status st = KL_OK;
    kl_tune *t = NULL;
    kl_err none;
    KL_TRY(kl_alloc(&t, 1, KL_MEM_MISC, err));
    if (kl_tune_read(path, t, &none) != KL_OK) {
        *t = (kl_tune){.n = 0};
        t->nthread = kl_comm_world()->size;
    }
    kl_tune_keep_rate(t, 0, &found.host);
    if (found.device.rate > 0) kl_tune_keep_rate(t, 1, &found.device);
    KL_TRY(kl_tune_write(t, path, err));
    printf("ranks     %d\n", found.host.ranks);
    kl_rankratescli_print(stdout);
    printf("written to %s; kronlat plan --ranks asks it from now on\n", t->path);
out:
    kl_free(&t);
    return st;
}
