/* FCIDUMP files.
   SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "chem/fcidump.h"

const char *const kl_fuzz_words[] = {
    "&FCI ",     "&END",        "/",         "NORB=",      "NORB=1000,", "NELEC=",   "NELEC=1,2,3,",
    "MS2=",      "MS2=-1,",     "ISYM=",     "ORBSYM=",    "1,1,1,1,",   "0,1,2,3,", "9*1,",
    "IUHF=1,",   "UHF=.TRUE.,", ".FALSE.,",  "\n",         " ",          "\t",       "\r\n",
    "0 0 0 0\n", "1 1 1 1\n",   "2 1 0 0\n", "-1 1 1 1",   "1e309",      "-1.0D+00", "nan",
    "inf",       "0.5",         "1e-300",    "2147483648", "-99999999",  "!",        "'",
    "\xff",      ",",           "=",         NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kl_err err = {""};
    kl_fcidump *f = NULL;
    const kl_status st = kl_fcidump_read(kl_fuzz_file(data, size), &f, &err);
    if (st == KL_OK) (void)kl_fcidump_hash(f);
    kl_fcidump_destroy(&f);
    kl_fuzz_check(st != KL_OK, err.text);
    return 0;
}
