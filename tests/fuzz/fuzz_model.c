/* Model files, and their variants with the total spin.
   SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "model/modelread.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int spin = 0; spin < 2; spin++) {
        kl_err err = {""};
        kl_tables *tables = NULL;
        const char *const text = (const char *)data;
        const kl_status st = spin ? kl_modelread_spin("fuzz.lua", text, (int64_t)size, NULL, &tables, &err)
                                  : kl_modelread_text("fuzz.lua", text, (int64_t)size, NULL, &tables, &err);
        kl_tables_destroy(&tables);
        kl_fuzz_check(st != KL_OK, err.text);
        if (st != KL_OK) break; /* the variant with the total spin begins with the other one */
    }
    return 0;
}
