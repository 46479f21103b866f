/* Job files.
   SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "cli/commandline.h"
#include "run/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kl_err err = {""};
    kl_options *o = NULL;
    char run[] = "run", name[] = "fuzz.lua", *words[] = {run, name};
    if (kl_commandline_parse(2, words, &o, &err) != KL_OK) return 0;
    int count;
    const kl_status st = kl_job_load(kl_fuzz_file(data, size), 0, &count, o, &err);
    kl_options_destroy(&o);
    kl_fuzz_check(st != KL_OK, err.text);
    return 0;
}
