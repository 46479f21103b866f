/* What the tests of the total spin share: a model on a lattice with it or without, and its levels by
   DMRG.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef SPIN_KIT_H
#define SPIN_KIT_H
#include "core.h"
#include "dmrg/dmrg.h"
#include "kl_test.h"
#include "model/modelread.h"

typedef struct system { /* a model on a lattice, with the total spin or without */
    kl_tables *tables;
    const kl_model *model;
    kl_lattice *lat;
    kl_params *par;
    kl_terms *terms;
} system_t;

static void set_all(kl_params *par, const kl_model *m, const char *const *setting)
{
    kl_err err;
    for (; *setting != NULL; setting++) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*setting, "="), *setting);
        for (int k = 0; k < m->nparam; k++)
            if (strcmp(m->param[k].name, name) == 0)
                expect_ok(kl_params_set(par, name, strchr(*setting, '=') + 1, 1, &err), err);
    }
}

/* text: NULL, or the model's instead of a file. */
static void open_system(system_t *s, const char *what, const char *text, int spin, const char *lattice, int n,
                        const char *const *setting)
{
    kl_err err;
    *s = (system_t){0};
    const int64_t size = text != NULL ? (int64_t)strlen(text) : 0;
    if (spin) expect_ok(kl_modelread_spin(what, text, size, setting, &s->tables, &err), err);
    else if (text != NULL) expect_ok(kl_modelread_text(what, text, size, setting, &s->tables, &err), err);
    else expect_ok(kl_modelread_find(what, setting, &s->tables, &err), err);
    s->model = s->tables->model;
    expect_ok(kl_lattice_create(lattice, strchr(lattice, ':') != NULL ? 0 : n, 0, &s->lat, &err), err);
    expect_ok(kl_params_create(s->model, s->lat, &s->par, &err), err);
    set_all(s->par, s->model, setting);
    expect_ok(kl_terms_create(s->model, s->lat, s->par, &s->terms, &err), err);
}

static void close_system(system_t *s)
{
    kl_terms_destroy(&s->terms);
    kl_params_destroy(&s->par);
    kl_lattice_destroy(&s->lat);
    kl_tables_destroy(&s->tables);
}

/* Lowest energies of a sector by DMRG that leaves nothing out. */
static void levels(const system_t *s, kl_qn target, kl_strategy strategy, int nstate, double *energy,
                   kl_state **state)
{
    kl_err err;
    kl_exec *ex = NULL;
    kl_dmrg_result r = {0};
    const kl_dmrg_opts o = {.strategy = strategy,
                            .solver = KL_SOLVER_DAVIDSON,
                            .nstate = nstate,
                            .target = target,
                            .accuracy = 1e-13,
                            .m_max = 1000,
                            .max_sweep = 12,
                            .seed = 3};
    expect_ok(kl_exec_open_host(1, &ex, &err), err);
    expect_ok(kl_dmrg_run(s->terms, ex, &o, NULL, state, &r, &err), err);
    for (int k = 0; k < nstate; k++) energy[k] = (*state)->energy[k];
    kl_dmrg_result_clear(&r);
    kl_exec_close(&ex);
}

#endif
