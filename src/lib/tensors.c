/* Tensors of states and of Hamiltonians for a caller: see kronlat.h. They are made in dmrg/tensors.c.
   SPDX-License-Identifier: Apache-2.0 */
#include "lib/handles.h"

#include "base/mem.h"
#include "dmrg/components.h"
#include "dmrg/tensors.h"

struct kronlat_tensors {
    kl_scene *scene; /* owns model and lattice */
    kl_tensors *t;
};

void kronlat_tensors_destroy(kronlat_tensors *tensors)
{
    kronlat_tensors *t = tensors;
    if (t == NULL) return;
    kl_tensors_destroy(&t->t);
    kl_scene_release(&t->scene);
    kl_free(&t);
}

/* A handle around *t, which it takes over. */
static kl_status wrap(kl_scene *scene, kl_tensors **t, kronlat_tensors **out, kl_err *err)
{
    const kl_status st = kl_alloc(out, 1, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    (*out)->scene = kl_scene_keep(scene);
    (*out)->t = *t;
    *t = NULL;
    return KL_OK;
}

static kl_status mps(const kronlat_result *r, int state, int centre, kronlat_tensors **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *ex = NULL;
    kl_state *component = NULL;
    kl_canonical *c = NULL;
    kl_tensors *t = NULL;
    if (r->state == NULL || r->scene == NULL)
        return kl_fail(err, KL_EINPUT, "the result holds no state whose tensors could be given");
    if (state < 0 || state >= r->state->nstate)
        return kl_fail(err, KL_EINPUT, "there is no state %d; allowed: 0 to %d", state, r->state->nstate - 1);
    const kl_terms *const plain = kl_task_plain(r->scene->t);
    KL_TRY(kl_exec_open_host(kl_task_threads(r->scene->t->o), &ex, err));
    if (plain != NULL) {
        KL_TRY(kl_components_create(ex, r->state, state, plain, NULL, &component, err));
        KL_TRY(kl_canonical_create(ex, component, 0, &c, err));
    } else KL_TRY(kl_canonical_create(ex, r->state, state, &c, err));
    KL_TRY(kl_tensors_of_state(c, centre, &t, err));
    KL_TRY(wrap(r->scene, &t, out, err));
out:
    kl_tensors_destroy(&t);
    kl_canonical_destroy(&c);
    kl_state_destroy(&component);
    kl_exec_close(&ex);
    return st;
}

kronlat_status kronlat_result_mps(const kronlat_result *result, int state, int centre, kronlat_tensors **out,
                                  kronlat_error *error)
{
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(NULL);
    *out = NULL;
    return kl_visit_end(v, mps(result, state, centre, out, &err), &err, error);
}

static kl_status mpo(kronlat_problem *p, kronlat_tensors **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *task;
    kl_tensors *t = NULL;
    KL_TRY(kl_problem_system(p, &task, err));
    KL_TRY(kl_tensors_of_terms(task->terms, &t, err));
    KL_TRY(wrap(p->scene, &t, out, err));
out:
    kl_tensors_destroy(&t);
    return st;
}

kronlat_status kronlat_problem_mpo(kronlat_problem *problem, kronlat_tensors **out, kronlat_error *error)
{
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(problem);
    *out = NULL;
    return kl_visit_end(v, mpo(problem, out, &err), &err, error);
}

/* ---------------------------------------------------------------- what they say */

int kronlat_tensors_sites(const kronlat_tensors *tensors) { return tensors->t->nsite; }

static int has_position(const kronlat_tensors *t, int position)
{
    return position >= 0 && position < t->t->nsite;
}

int kronlat_tensors_site(const kronlat_tensors *tensors, int position)
{
    return has_position(tensors, position) ? tensors->scene->t->lat->order[position] : -1;
}

int kronlat_tensors_dimension(const kronlat_tensors *tensors, int position)
{
    return has_position(tensors, position) ? tensors->t->type[position]->dim : -1;
}

int kronlat_tensors_charges(const kronlat_tensors *tensors) { return tensors->t->model->ncharge; }

kronlat_status kronlat_tensors_charge(const kronlat_tensors *tensors, int c, const char **name,
                                      int *numerator, int *denominator, int *modulus, kronlat_error *error)
{
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(NULL);
    const kl_status st = kl_tell_charge(tensors->t->model, c, name, numerator, denominator, modulus, &err);
    return kl_visit_end(v, st, &err, error);
}

int kronlat_tensors_sectors(const kronlat_tensors *tensors, int bond)
{
    return bond >= 0 && bond <= tensors->t->nsite ? tensors->t->bond[bond].nsec : -1;
}

kronlat_status kronlat_tensors_sector(const kronlat_tensors *tensors, int bond, int sector, int *charge,
                                      int64_t *dimension, kronlat_error *error)
{
    kl_status st = KL_OK;
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(NULL);
    const kl_tensors *const t = tensors->t;
    if (bond < 0 || bond > t->nsite)
        KL_TRY(kl_fail(&err, KL_EINPUT, "there is no bond %d; allowed: 0 to %d", bond, t->nsite));
    if (sector < 0 || sector >= t->bond[bond].nsec)
        KL_TRY(kl_fail(&err, KL_EINPUT, "bond %d has no sector %d; allowed: 0 to %d", bond, sector,
                       t->bond[bond].nsec - 1));
    for (int c = 0; c < t->model->ncharge && charge != NULL; c++) charge[c] = t->bond[bond].q[sector].v[c];
    if (dimension != NULL) *dimension = t->bond[bond].dim[sector];
out:
    return kl_visit_end(v, st, &err, error);
}

int64_t kronlat_tensors_blocks(const kronlat_tensors *tensors, int position)
{
    return has_position(tensors, position) ? tensors->t->site[position].nblock : -1;
}

kronlat_status kronlat_tensors_block(const kronlat_tensors *tensors, int position, int64_t i, int *left,
                                     int *state, int *from, int *right, const double **data,
                                     kronlat_error *error)
{
    kl_status st = KL_OK;
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(NULL);
    if (!has_position(tensors, position))
        KL_TRY(kl_fail(&err, KL_EINPUT, "there is no position %d; allowed: 0 to %d", position,
                       tensors->t->nsite - 1));
    const kl_tensor *const s = &tensors->t->site[position];
    if (i < 0 || i >= s->nblock)
        KL_TRY(kl_fail(&err, KL_EINPUT, "position %d has no block %lld; allowed: 0 to %lld", position,
                       (long long)i, (long long)s->nblock - 1));
    const kl_tensor_block *const b = &s->block[i];
    if (left != NULL) *left = b->left;
    if (state != NULL) *state = b->state;
    if (from != NULL) *from = b->from;
    if (right != NULL) *right = b->right;
    if (data != NULL) *data = s->data + b->at;
out:
    return kl_visit_end(v, st, &err, error);
}
