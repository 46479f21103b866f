/* The pace of checkpoints: see pace.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/pace.h"

#include <math.h>
#include <stdio.h>

#include "base/prof.h"

kl_pace kl_pace_begin(double every, const kl_watch *watch)
{
    return (kl_pace){.every = every, .last = kl_prof_seconds(), .watch = watch};
}

int kl_pace_due(const kl_pace *p) { return kl_prof_seconds() - p->last >= fmax(p->every, 10.0 * p->cost); }

void kl_pace_done(kl_pace *p, double start, kl_status written, const kl_err *why)
{
    if (written != KL_OK && !p->warned) {
        char text[sizeof(why->text) + 64];
        snprintf(text, sizeof(text), "checkpoint not written, the run goes on: %s", why->text);
        kl_watch_note(p->watch, text);
        p->warned = 1;
    }
    if (written == KL_OK) p->kept = 1;
    p->last = kl_prof_seconds();
    p->cost = p->last - start;
}
