/* Another program for comparison with a benchmark.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench/beside.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

kl_status kl_beside_run(const char *command, double *rate, double *energy, double *cpu, kl_err *err)
{
    char line[1024], number[64];
    double own = 0.0;
    struct rusage before, after;
    *rate = *energy = *cpu = 0.0;
    getrusage(RUSAGE_CHILDREN, &before);
    FILE *const f = popen(command, "r");
    if (!f) return kl_fail(err, KL_EIO, "bench: '%s' cannot be run", command);
    while (fgets(line, sizeof line, f)) {
        printf("    beside: %s", line);
        const char *const unit = strstr(line, " M states/s"), *at = unit;
        while (at && at > line && at[-1] != ' ') at--;
        if (unit && !strncmp(line, "H v", 3)) {
            snprintf(number, sizeof number, "%.*s", (int)(unit - at), at);
            (void)kl_parse_double(number, rate);
        }
        if (sscanf(line, "E %63s", number) != 1) continue;
        (void)kl_parse_double(number, energy);
        const char *const said = strstr(line, " cpu ");
        if (said && sscanf(said + 5, "%63s", number) == 1) (void)kl_parse_double(number, &own);
    }
    const int status = pclose(f);
    getrusage(RUSAGE_CHILDREN, &after);
    *cpu = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec -
                    before.ru_stime.tv_sec) +
           1e-6 * (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec -
                           before.ru_stime.tv_usec);
    if (own > 0.0) *cpu = own;
    return status == 0 ? KL_OK : kl_fail(err, KL_EIO, "bench: '%s' ended with status %d", command, status);
}
