/* The total spin in a task: what it does not go with, the variant without it, starts by a path of multiplets.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/task.h"

#include <string.h>

const kl_terms *kl_task_plain(const kl_task *t) { return kl_model_spin(t->model) < 0 ? NULL : t->twin; }

const kl_model *kl_task_named(const kl_task *t)
{
    return kl_model_spin(t->model) < 0 ? t->model : t->twin->model;
}

kl_status kl_task_check_spin(const kl_task *t, kl_err *err)
{
    const kl_options *const o = t->o;
    if (kl_model_spin(t->model) < 0) return KL_OK;
    const int ed = o->command == KL_CMD_ED || o->command == KL_CMD_PLAN_ED ||
                   o->command == KL_CMD_EXPLAIN_ED || o->command == KL_CMD_BENCH_ED ||
                   (o->method != NULL && strcmp(o->method, "ed") == 0);
    if (ed)
        return kl_fail(err, KL_EINPUT,
                       "--charge S=: exact diagonalization works with Sz; the levels of a total spin S are "
                       "among those of --charge Sz=S (for electrons N_up - N_dn = 2 S), but not of Sz=S+1");
    if (o->infinite || o->command == KL_CMD_GROWTH)
        return kl_fail(err, KL_EINPUT, "--charge S=: growth of the lattice works with Sz, not with S");
    if (o->pin.n > 0)
        return kl_fail(err, KL_EINPUT,
                       "--charge S=: --pin %.100s is no scalar of the total spin; give Sz in place of S",
                       o->pin.text[0]);
    if (o->start != NULL && (strcmp(o->start, "neel") == 0 || strncmp(o->start, "product:", 8) == 0))
        return kl_fail(err, KL_EINPUT,
                       "--charge S=: --start %.100s has no definite total spin; leave --start out, or give "
                       "Sz in place of S",
                       o->start);
    return KL_OK;
}
