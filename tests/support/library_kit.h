/* What the tests of the library share: one error, calls that must succeed or fail with certain words, and
   problems with their options. Each test program has its own.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef LIBRARY_KIT_H
#define LIBRARY_KIT_H
#include "kl_test.h"
#include "kronlat.h"

#include "base/mem.h"

#include <string.h>

static kronlat_error *error;

static void good_at(kronlat_status status, const char *file, int line)
{
    if (status != KRONLAT_OK) print_error("%s:%d: %s\n", file, line, kronlat_error_message(error));
    assert_int_equal(status, KRONLAT_OK);
}
#define good(call) good_at(call, __FILE__, __LINE__)

/* BAD_INPUT, with these words in the message. */
static void bad(kronlat_status status, const char *words)
{
    assert_int_equal(status, KRONLAT_BAD_INPUT);
    assert_int_equal(kronlat_error_status(error), KRONLAT_BAD_INPUT);
    if (strstr(kronlat_error_message(error), words) == NULL)
        fail_msg("'%s' is not in '%s'", words, kronlat_error_message(error));
    assert_null(strchr(kronlat_error_message(error), '\n'));
}

static kronlat_problem *problem_of(const char *model, const char *const *set)
{
    kronlat_problem *p = NULL;
    good(kronlat_problem_create(model, &p, error));
    for (; *set != NULL; set += 2) good(kronlat_problem_set(p, set[0], set[1], error));
    return p;
}

static int make_error(void **state)
{
    (void)state;
    error = kronlat_error_create();
    return error == NULL;
}

static int drop_error(void **state)
{
    (void)state;
    kronlat_error_destroy(error);
    return kl_mem_live_total() != 0;
}

#endif
