/* Errors of the library, and what every call does as it begins and ends. See kronlat.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "lib/handles.h"

#include <stdio.h>

#include "base/isa.h"
#include "base/mem.h"
#include "config.h"

/* The header's numbers are ours. */
_Static_assert((int)KRONLAT_OK == (int)KL_OK && (int)KRONLAT_BAD_INPUT == (int)KL_EINPUT &&
                   (int)KRONLAT_NO_MEMORY == (int)KL_ENOMEM && (int)KRONLAT_IO == (int)KL_EIO &&
                   (int)KRONLAT_NOT_CONVERGED == (int)KL_ENOCONV && (int)KRONLAT_ABSENT == (int)KL_EABSENT &&
                   (int)KRONLAT_BROKEN == (int)KL_EBROKEN,
               "ORDER kl_status");

const char *kronlat_version(void) { return KL_VERSION; }

kronlat_error *kronlat_error_create(void)
{
    kronlat_error *e = NULL;
    return kl_alloc(&e, 1, KL_MEM_MISC, NULL) == KL_OK ? e : NULL;
}

void kronlat_error_destroy(kronlat_error *error) { kl_free(&error); }

kronlat_status kronlat_error_status(const kronlat_error *error)
{
    return error != NULL ? error->status : KRONLAT_OK;
}

const char *kronlat_error_message(const kronlat_error *error) { return error != NULL ? error->err.text : ""; }

/* ---------------------------------------------------------------- in and out */

kl_visit kl_visit_begin(const kronlat_problem *p)
{
    const kl_interrupt whom =
        p != NULL && p->asked != NULL ? (kl_interrupt){p->asked, p->asked_self} : (kl_interrupt){NULL, NULL};
    kl_visit v = {.mode = kl_isa_flush_denormals()};
    v.before = kl_on_interrupt(whom);
    if (p != NULL && p->scene != NULL && p->scene->borrowed) (void)kl_on_interrupt(v.before);
    return v;
}

kronlat_status kl_visit_end(kl_visit v, kl_status st, const kl_err *why, kronlat_error *e)
{
    const kronlat_status status =
        st != KL_OK && st != KL_EBROKEN && kl_interrupted() ? KRONLAT_CANCELLED : (kronlat_status)st;
    (void)kl_on_interrupt(v.before);
    kl_isa_restore_mode(v.mode);
    if (e != NULL && status != KRONLAT_OK) {
        e->status = status;
        snprintf(e->err.text, sizeof e->err.text, "%s", why->text);
    }
    return status;
}

kl_status kl_status_of(kronlat_status status, const kronlat_error *e, kl_err *err)
{
    if (status == KRONLAT_OK) return KL_OK;
    return kl_fail(err, status == KRONLAT_CANCELLED ? KL_EIO : (kl_status)status, "%s",
                   kronlat_error_message(e));
}
