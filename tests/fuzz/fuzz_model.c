/* Model files.
   SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "model/modelread.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kl_err err = {""};
    kl_tables *tables = NULL;
    const kl_status st =
        kl_modelread_text("fuzz.lua", (const char *)data, (int64_t)size, NULL, &tables, &err);
    kl_tables_destroy(&tables);
    kl_fuzz_check(st != KL_OK, err.text);
    return 0;
}
