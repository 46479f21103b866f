/* Lattice files.
   SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "run/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kl_err err = {""};
    kl_lattice *lat = NULL;
    const kl_status st = kl_job_lattice(kl_fuzz_file(data, size), &lat, &err);
    kl_lattice_destroy(&lat);
    kl_fuzz_check(st != KL_OK, err.text);
    return 0;
}
