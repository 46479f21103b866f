/* Matrix Market files, and the formats that their matrices are brought into.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fuzz.h"
#include "sparse/mmfile.h"

const char *const kl_fuzz_words[] = {"%%MatrixMarket matrix coordinate ",
                                     "real ",
                                     "integer ",
                                     "pattern ",
                                     "complex ",
                                     "general\n",
                                     "symmetric\n",
                                     "hermitian\n",
                                     "skew\n",
                                     "array ",
                                     "%\n",
                                     "\n",
                                     " ",
                                     "\r\n",
                                     "1 1 1\n",
                                     "2 1 0.5\n",
                                     "0 0 0\n",
                                     "-1 2 3\n",
                                     "2147483648",
                                     "1e309",
                                     "nan",
                                     "inf",
                                     "1e-300",
                                     "9999999 9999999 1\n",
                                     "0",
                                     "-",
                                     "3 3 2000000000\n",
                                     "\xff",
                                     NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kl_err err = {""};
    kl_spmat *m = NULL;
    const kl_status st = kl_mmfile_read(kl_fuzz_file(data, size), &m, &err);
    for (int format = 0; st == KL_OK && format < KL_NSP && m->nrow < 1000; format++) {
        kl_spmat *other = NULL;
        kl_err refused = {""};
        const kl_spopts opts = {.format = (kl_spformat)format, .height = 4, .sigma = 2};
        const kl_status converted = kl_spmat_convert(m, &opts, &other, &refused);
        kl_spmat_destroy(&other);
        if (converted != KL_OK && refused.text[0] == '\0') abort();
    }
    kl_spmat_destroy(&m);
    kl_fuzz_check(st != KL_OK, err.text);
    return 0;
}
