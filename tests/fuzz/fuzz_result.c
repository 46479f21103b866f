/* Result files of all commands, and what is gone on from. A file that is sealed gets its seal anew, or every
   change of a byte would end at the checksum.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "base/mem.h"
#include "io/cifile.h"
#include "io/result.h"
#include "io/checked.h"
#include "model/modelread.h"

const char *const kl_fuzz_words[] = {"kronlat result",
                                     "\x89HDF\r\n\x1a\n",
                                     "TREE",
                                     "HEAP",
                                     "SNOD",
                                     "OHDR",
                                     "OCHK",
                                     "FRHP",
                                     "FSHD",
                                     "FADB",
                                     "BTHD",
                                     "GCOL",
                                     "state",
                                     "energy",
                                     "sweep",
                                     "\xff\xff\xff\xff\xff\xff\xff\xff",
                                     "\x7f",
                                     "1e309",
                                     NULL};

static kl_status take(void *self, int vector, int64_t first, int64_t count, double *host, kl_err *err)
{
    (void)self, (void)vector, (void)first, (void)count, (void)host, (void)err;
    return KL_OK;
}

/* The state of four spins, which the corpus holds. */
static kl_status read_state(const char *path, kl_err *err)
{
    kl_status st = KL_OK;
    kl_tables *tables = NULL;
    kl_lattice *lat = NULL;
    kl_params *params = NULL;
    kl_terms *terms = NULL;
    kl_state *state = NULL;
    KL_TRY(kl_modelread_find("heisenberg", NULL, &tables, err));
    KL_TRY(kl_lattice_create("chain", 4, 0, &lat, err));
    KL_TRY(kl_params_create(tables->model, lat, &params, err));
    KL_TRY(kl_terms_create(tables->model, lat, params, &terms, err));
    KL_TRY(kl_result_read_state(path, terms, &state, err));
out:
    kl_state_destroy(&state);
    kl_terms_destroy(&terms);
    kl_params_destroy(&params);
    kl_lattice_destroy(&lat);
    kl_tables_destroy(&tables);
    return st;
}

static kl_status read_run(const char *path, kl_err *err)
{
    kl_result_run run = {.part = take, .count = INT32_MAX};
    const kl_status st = kl_result_read_run(path, &run, err);
    kl_free(&run.number);
    kl_free(&run.n);
    return st;
}

static kl_status read_ci(const char *path, kl_err *err)
{
    enum {
        MOST = 4,
        N = 400,
    };
    static double x[MOST * N];
    kl_ci_record record = {0};
    int nvec = 0;
    kl_status st = KL_OK;
    kl_result_run run = {.part = take, .count = INT32_MAX};
    KL_TRY(kl_cifile_read(path, &record, err));
    if (record.has_run) KL_TRY(kl_cifile_read_run(path, &run, err));
    KL_TRY(kl_cifile_vectors(path, 0, MOST, N, &nvec, x, err));
out:
    kl_free(&run.number);
    kl_free(&run.n);
    kl_cifile_clear(&record);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int begun = 0;
    if (!begun++) kl_h5_of_program();
    const char *const path = kl_fuzz_file(data, size);
    kl_err err = {""};
    if (size > 512 && memcmp(data, "kronlat result", 14) == 0 && kl_checked_renew(path, &err) != KL_OK)
        abort();
    kl_result *r = NULL;
    kl_status st = kl_result_read(path, &r, &err);
    kl_result_destroy(&r);
    kl_fuzz_check(st != KL_OK, err.text);
    st = read_state(path, &err);
    kl_fuzz_check(st != KL_OK, err.text);
    st = read_run(path, &err);
    kl_fuzz_check(st != KL_OK, err.text);
    st = kl_cifile_is(path) ? read_ci(path, &err) : KL_OK;
    kl_fuzz_check(st != KL_OK, err.text);
    return 0;
}
