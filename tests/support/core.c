/* What the tests of the DMRG core share: see core.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "kl_test.h"
#include "base/dense.h"

extern const kl_model kl_model_loops, kl_model_strange, kl_model_majorana, kl_model_free_spins,
    kl_model_free_spins_1, kl_model_test_hubbard_3_2, kl_model_test_hubbard_1, kl_model_test_heisenberg_3_2,
    kl_model_test_holstein_1, kl_model_test_kondo_1, kl_model_test_longrange_1, kl_model_potts,
    kl_model_plain_ising, kl_model_coupled_chains, kl_model_compass, kl_model_falicov_kimball,
    kl_model_electrons_ising, kl_model_free_fermions, kl_model_test_heisenberg_2;
const kl_model *const core_models[] = {&kl_model_strange,         &kl_model_loops,
                                       &kl_model_majorana,        &kl_model_free_spins,
                                       &kl_model_free_spins_1,    &kl_model_test_hubbard_3_2,
                                       &kl_model_test_hubbard_1,  &kl_model_test_heisenberg_3_2,
                                       &kl_model_test_holstein_1, &kl_model_test_kondo_1,
                                       &kl_model_test_longrange_1};
const int core_nmodel = (int)(sizeof core_models / sizeof *core_models);
/* Found by name alone: for single cases, not for every lattice. */
static const kl_model *const special[] = {&kl_model_potts,           &kl_model_plain_ising,
                                          &kl_model_coupled_chains,  &kl_model_compass,
                                          &kl_model_falicov_kimball, &kl_model_electrons_ising,
                                          &kl_model_free_fermions,   &kl_model_test_heisenberg_2};

const kl_model *core_model(const char *name, const char *variant)
{
    for (int k = 0; k < kl_models_nbuiltin; k++)
        if (!strcmp(kl_models_builtin[k]->name, name) &&
            (!variant || !strcmp(kl_models_builtin[k]->variant, variant)))
            return kl_models_builtin[k];
    for (int k = 0; k < core_nmodel; k++)
        if (!strcmp(core_models[k]->name, name) && (!variant || !strcmp(core_models[k]->variant, variant)))
            return core_models[k];
    for (size_t k = 0; k < sizeof special / sizeof *special; k++)
        if (!strcmp(special[k]->name, name) && (!variant || !strcmp(special[k]->variant, variant)))
            return special[k];
    fail_msg("model %s(%s) is not there", name, variant ? variant : "");
    return NULL;
}

static void open_bare(core_job *j, const kl_model *m, const char *lattice, const char *order)
{
    kl_err err = {""};
    *j = (core_job){.model = m};
    snprintf(j->name, sizeof j->name, "%s(%s) on %s", m->name, m->variant, lattice);
    kl_test_case("%s", j->name);
    expect_ok(kl_lattice_create(lattice, 0, 0, &j->lat, &err), err);
    if (order) expect_ok(kl_lattice_reorder(j->lat, order, &err), err);
    expect_ok(kl_params_create(m, j->lat, &j->par, &err), err);
    expect_ok(kl_exec_open_host(1, &j->ex, &err), err);
}

void core_open(core_job *j, const kl_model *m, const char *lattice, const char *order, const char *sets)
{
    kl_err err = {""};
    open_bare(j, m, lattice, order);
    while (sets && *sets) {
        char name[64], value[512];
        const size_t n = strcspn(sets, "="), v = strcspn(sets + n + 1, " ");
        snprintf(name, sizeof name, "%.*s", (int)n, sets);
        snprintf(value, sizeof value, "%.*s", (int)v, sets + n + 1);
        expect_ok(kl_params_set(j->par, name, value, 7, &err), err);
        sets += n + 1 + v;
        while (*sets == ' ') sets++;
    }
    expect_ok(kl_terms_create(m, j->lat, j->par, &j->terms, &err), err);
}

void core_open_random(core_job *j, const kl_model *m, const char *lattice, const char *order, uint64_t seed)
{
    kl_err err = {""};
    open_bare(j, m, lattice, order);
    const size_t n = strlen(j->name);
    snprintf(j->name + n, sizeof j->name - n, " order %s seed %llu", order ? order : "column",
             (unsigned long long)seed);
    for (int p = 0; p < m->nparam; p++) {
        char text[64] = "normal(0,1)";
        if (m->param[p].kind == KL_PARAM_SCALAR) {
            const double u = kl_test_uniform(&seed);
            snprintf(text, sizeof text, "%.17g", u + copysign(0.5, u));
        }
        expect_ok(kl_params_set(j->par, m->param[p].name, text, seed, &err), err);
    }
    expect_ok(kl_terms_create(m, j->lat, j->par, &j->terms, &err), err);
}

void core_close(core_job *j)
{
    kl_terms_destroy(&j->terms);
    kl_params_destroy(&j->par);
    kl_lattice_destroy(&j->lat);
    kl_exec_close(&j->ex);
}

/* States of the whole lattice, or 0 when more than `most` or when the model has terms on runs of sites, which
   only chains and rings have. */
static int64_t states_of(const kl_model *m, const char *lattice, int64_t most)
{
    kl_err err = {""};
    kl_lattice *lat = NULL;
    int64_t dim = 1;
    for (int t = 0; t < m->nterm; t++)
        if (m->term[t].place == KL_PLACE_RUN && strchr(lattice, 'x')) return 0;
    expect_ok(kl_lattice_create(lattice, 0, 0, &lat, &err), err);
    for (int i = 0; i < lat->nsite && dim > 0; i++) {
        dim *= kl_model_type_at(m, lat, i)->dim;
        if (dim > most) dim = 0;
    }
    kl_lattice_destroy(&lat);
    return dim;
}

/* A random order of the sites in the form that kl_lattice_reorder reads. */
static void random_order(int nsite, uint64_t seed, char *text, size_t size)
{
    int p[64];
    size_t n = 0;
    for (int i = 0; i < nsite; i++) p[i] = i;
    for (int i = nsite - 1; i > 0; i--) {
        const int k = (int)(kl_test_bits(&seed) % (uint64_t)(i + 1)), swap = p[i];
        p[i] = p[k];
        p[k] = swap;
    }
    for (int i = 0; i < nsite; i++) n += (size_t)snprintf(text + n, size - n, i ? ",%d" : "%d", p[i]);
}

/* A seed that is a model's own. */
static uint64_t seed_of(const kl_model *m)
{
    uint64_t seed = 0xcbf29ce484222325u;
    for (const char *c = m->name; *c; c++) seed = (seed ^ (unsigned char)*c) * 0x100000001b3u;
    for (const char *c = m->variant; *c; c++) seed = (seed ^ (unsigned char)*c) * 0x100000001b3u;
    return seed;
}

void core_every_lattice(const kl_model *const *models, int nmodel, const char *const *lattices, int64_t most,
                        core_orders orders, core_check *check)
{
    for (int k = 0; k < nmodel; k++) {
        uint64_t seed = seed_of(models[k]); /* not its hash, which every comment in the generator changes */
        for (int l = 0; lattices[l] != NULL; l++) {
            if (!states_of(models[k], lattices[l], most)) continue;
            const char *const colon = strchr(lattices[l], ':') + 1, *const x = strchr(colon, 'x');
            char shuffled[64];
            random_order(x ? atoi(colon) * atoi(x + 1) : atoi(colon), kl_test_bits(&seed), shuffled,
                         sizeof shuffled);
            const char *const order[] = {"column", shuffled, x ? "snake" : NULL};
            const int first = orders == CORE_EVERY_ORDER ? 0 : l % 2,
                      last = orders == CORE_EVERY_ORDER ? 3 : first + 1;
            for (int w = first; w < last && order[w]; w++) {
                core_job j;
                core_open_random(&j, models[k], lattices[l], order[w], kl_test_bits(&seed) % 1000000);
                check(&j, kl_test_bits(&seed));
                core_close(&j);
            }
        }
        core_no_memory();
    }
}

kl_qn *core_sectors(const core_job *j, int most, int *n)
{
    kl_err err = {""};
    kl_qn *q = NULL;
    int64_t all = 0;
    expect_ok(kl_dmrg_sectors(j->terms, &q, &all, &err), err);
    *n = all < most ? (int)all : most;
    for (int k = 0; k < *n; k++) q[k] = q[*n == 1 ? all / 2 : k * (all - 1) / (*n - 1)];
    return q;
}

void core_no_memory(void)
{
    kl_dense_release();
    expect_eq(kl_mem_live_total(), 0);
}

void core_refused(kl_status st, const kl_err *err, const char *const *words)
{
    if (st != KL_EINPUT) fail_msg("status %d (%s), expected a refusal", (int)st, err->text);
    for (; *words != NULL; words++)
        if (strstr(err->text, *words) == NULL) fail_msg("\"%s\" does not say \"%s\"", err->text, *words);
    assert_null(strchr(err->text, '\n'));
}

static void *get(int64_t n, size_t size)
{
    void *const p = calloc(n > 0 ? (size_t)n : 1, size);
    assert_non_null(p);
    return p;
}

static core_space *space_new(int64_t dim, int64_t ncol, int64_t nval)
{
    core_space *const s = get(1, sizeof *s);
    *s = (core_space){dim, ncol, get(ncol + 1, sizeof *s->first), get(nval, sizeof *s->idx),
                      get(nval, sizeof *s->val)};
    return s;
}

core_space *core_space_edge(void)
{
    core_space *const s = space_new(1, 1, 1);
    s->first[1] = 1;
    s->val[0] = 1;
    return s;
}

void core_space_free(core_space **s)
{
    if (!*s) return;
    free((*s)->first);
    free((*s)->idx);
    free((*s)->val);
    free(*s);
    *s = NULL;
}

/* First column of every sector. */
static int64_t *column_of(const kl_basis *b)
{
    int64_t *const c = get(b->nsec + 1, sizeof *c);
    for (int i = 0; i < b->nsec; i++) c[i + 1] = c[i] + b->dim[i];
    return c;
}

core_space *core_space_enlarge(const core_space *block, const kl_enlarged *e, kl_side side)
{
    core_space *const s = space_new(block->dim * e->d, e->basis.total, block->first[block->ncol] * e->d);
    int64_t *const from = column_of(&e->block), at = 0, n = 0;
    for (int c = 0; c < e->basis.nsec; c++) {
        int rows = 0;
        for (int t = 0; t < e->d; t++) {
            const int i = e->part_sec[c * e->d + t];
            if (i < 0) continue;
            expect_eq(e->part_off[c * e->d + t], rows);
            rows += e->block.dim[i];
            for (int k = 0; k < e->block.dim[i]; k++) {
                s->first[n++] = at;
                for (int64_t x = block->first[from[i] + k]; x < block->first[from[i] + k + 1]; x++, at++) {
                    s->idx[at] = side == KL_LEFT ? block->idx[x] * e->d + t : t * block->dim + block->idx[x];
                    s->val[at] = block->val[x];
                }
            }
        }
        expect_eq(e->basis.dim[c], rows);
    }
    s->first[n] = at;
    expect_eq(n, s->ncol);
    free(from);
    return s;
}

core_space *core_space_truncate(const core_space *enlarged, const kl_isometry *iso)
{
    int64_t *const from = column_of(&iso->enlarged->basis), at = 0, n = 0, most = 0;
    double *const sum = get(enlarged->dim, sizeof *sum);
    for (int k = 0; k < iso->basis.nsec; k++)
        for (int64_t c = from[iso->sec[k]]; c < from[iso->sec[k] + 1]; c++)
            most += iso->basis.dim[k] * (enlarged->first[c + 1] - enlarged->first[c]);
    core_space *const s = space_new(enlarged->dim, iso->basis.total, most);
    for (int k = 0; k < iso->basis.nsec; k++) {
        const int rows = iso->enlarged->basis.dim[iso->sec[k]];
        expect_eq(kl_qn_cmp(iso->basis.q[k], iso->enlarged->basis.q[iso->sec[k]]), 0);
        for (int c = 0; c < iso->basis.dim[k]; c++) {
            s->first[n++] = at;
            for (int r = 0; r < rows; r++) {
                const double o = iso->data[iso->off[k] + r + (int64_t)c * rows];
                const int64_t col = from[iso->sec[k]] + r;
                for (int64_t x = enlarged->first[col]; o != 0.0 && x < enlarged->first[col + 1]; x++)
                    sum[enlarged->idx[x]] += o * enlarged->val[x];
            }
            for (int r = 0; r < rows; r++) { /* take them up again, each once */
                const int64_t col = from[iso->sec[k]] + r;
                for (int64_t x = enlarged->first[col]; x < enlarged->first[col + 1]; x++) {
                    if (sum[enlarged->idx[x]] == 0.0) continue;
                    s->idx[at] = enlarged->idx[x];
                    s->val[at++] = sum[enlarged->idx[x]];
                    sum[enlarged->idx[x]] = 0.0;
                }
            }
        }
    }
    s->first[n] = at;
    free(from);
    free(sum);
    return s;
}

typedef void visit(double *x, double *full, double weight);
static void to_full(double *x, double *full, double weight) { *full += *x * weight; }
static void to_x(double *x, double *full, double weight) { *x += *full * weight; }

static void walk(const kl_layout *lay, const kl_basis *row_basis, const kl_basis *col_basis,
                 const core_space *row, const core_space *col, double *x, double *full, visit *act)
{
    int64_t *const r0 = column_of(row_basis), *const c0 = column_of(col_basis);
    for (int i = 0; i < row_basis->nsec; i++) {
        const int j = lay->pair[i];
        if (j < 0) continue;
        for (int c = 0; c < col_basis->dim[j]; c++)
            for (int r = 0; r < row_basis->dim[i]; r++) {
                double *const at = &x[lay->off[i] + r + (int64_t)c * row_basis->dim[i]];
                for (int64_t a = row->first[r0[i] + r]; a < row->first[r0[i] + r + 1]; a++)
                    for (int64_t b = col->first[c0[j] + c]; b < col->first[c0[j] + c + 1]; b++)
                        act(at, &full[row->idx[a] * col->dim + col->idx[b]], row->val[a] * col->val[b]);
            }
    }
    free(r0);
    free(c0);
}

void core_expand(const kl_layout *lay, const kl_basis *row_basis, const kl_basis *col_basis,
                 const core_space *row, const core_space *col, const double *x, double *full)
{
    memset(full, 0, (size_t)(row->dim * col->dim) * sizeof *full);
    walk(lay, row_basis, col_basis, row, col, (double *)(uintptr_t)x, full, to_full);
}

void core_project(const kl_layout *lay, const kl_basis *row_basis, const kl_basis *col_basis,
                  const core_space *row, const core_space *col, const double *full, double *x)
{
    memset(x, 0, (size_t)lay->n * sizeof *x);
    walk(lay, row_basis, col_basis, row, col, x, (double *)(uintptr_t)full, to_x);
}

static void extend(core_space **s, const kl_isometry *iso, kl_side side)
{
    core_space *e = core_space_enlarge(*s, iso->enlarged, side);
    core_space_free(s);
    *s = core_space_truncate(e, iso);
    core_space_free(&e);
}

double *core_state_vector(const kl_state *s, int i)
{
    core_space *left = core_space_edge(), *right = core_space_edge();
    for (int p = 0; p < s->centre; p++) extend(&left, s->left[p], KL_LEFT);
    for (int p = s->nsite - 1; p > s->centre + 1; p--) extend(&right, s->right[p], KL_RIGHT);
    core_space *row = core_space_enlarge(left, s->row, KL_LEFT),
               *col = core_space_enlarge(right, s->col, KL_RIGHT);
    double *const full = get(row->dim * col->dim, sizeof *full);
    const kl_layout lay = {.nsec = s->row->basis.nsec, .pair = s->pair, .off = s->psi_off, .n = s->npsi};
    core_expand(&lay, &s->row->basis, &s->col->basis, row, col, s->psi + i * s->npsi, full);
    core_space_free(&left);
    core_space_free(&right);
    core_space_free(&row);
    core_space_free(&col);
    return full;
}

double *core_engine_vectors(const kl_engine *e, int64_t dim)
{
    kl_err err = {""};
    kl_state *s = NULL;
    double energy[KL_MAX_STATE] = {0};
    double *const all = malloc((size_t)(e->nstate * dim) * sizeof *all);
    expect_ok(kl_engine_state(e, energy, &s, &err), err);
    for (int i = 0; i < e->nstate; i++) {
        double *const one = core_state_vector(s, i);
        memcpy(all + i * dim, one, (size_t)dim * sizeof *all);
        free(one);
    }
    kl_state_destroy(&s);
    return all;
}

static int falling(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x > y ? -1 : x < y;
}

int core_cut_weights(const kl_canonical *c, int cut, double *w)
{
    const kl_basis *const b = kl_canonical_left(c, cut);
    const int spin = kl_model_spin(c->model);
    int n = 0;
    for (int k = 0, at = 0; k < b->nsec; k++)
        for (int i = 0; i < b->dim[k]; i++, at++) {
            const int copies = spin < 0 ? 1 : b->q[k].v[spin] + 1;
            for (int copy = 0; copy < copies && c->schmidt[cut][at] > 0; copy++)
                w[n++] = c->schmidt[cut][at] * c->schmidt[cut][at] / copies;
        }
    qsort(w, (size_t)n, sizeof *w, falling);
    return n;
}

core_full core_full_open(const core_job *j)
{
    return core_full_take(oracle_create(j->model, j->lat, j->par));
}

core_full core_full_take(oracle *o)
{
    core_full f = {.o = o};
    f.s = oracle_sector_create(f.o, NULL);
    double *const sum = get(f.s->dim, sizeof *sum);
    for (int64_t e = 0; e < f.s->nelem; e++) sum[f.s->col[e]] += fabs(f.s->value[e]);
    for (int64_t c = 0; c < f.s->dim; c++) f.norm = fmax(f.norm, sum[c]);
    free(sum);
    return f;
}

void core_full_close(core_full *f)
{
    oracle_sector_destroy(&f->s);
    oracle_destroy(&f->o);
}

kl_qn core_charge(const kl_model *m, const char *text)
{
    kl_err err = {""};
    kl_qn q = kl_qn_zero();
    while (text && *text) {
        char name[64], value[64];
        const size_t n = strcspn(text, "="), v = strcspn(text + n + 1, " ");
        snprintf(name, sizeof name, "%.*s", (int)n, text);
        snprintf(value, sizeof value, "%.*s", (int)v, text + n + 1);
        expect_ok(kl_qn_set(m, &q, name, value, &err), err);
        text += n + 1 + v;
        while (*text == ' ') text++;
    }
    return q;
}

core_integers core_of(kl_qn q)
{
    core_integers i;
    for (int c = 0; c < KL_MAX_CHARGE; c++) i.charge[c] = q.v[c];
    return i;
}

core_run core_exact(int m, kl_qn target, int nstate, kl_strategy strategy)
{
    enum { SWEEPS = 6 };
    kl_dmrg_sweep *const s = get(SWEEPS, sizeof *s);
    for (int k = 0; k < SWEEPS; k++) s[k] = (kl_dmrg_sweep){m, k == 0 ? 1e-4 : k == 1 ? 1e-6 : 0.0, 1e-300};
    return (core_run){.opts = {.strategy = strategy,
                               .nstate = nstate,
                               .target = target,
                               .nsweep = SWEEPS,
                               .sweep = s,
                               .max_apply = 200,
                               .seed = 1}};
}

core_run core_auto(double accuracy, kl_qn target, int nstate, kl_strategy strategy)
{
    return (core_run){
        .opts = {.strategy = strategy, .nstate = nstate, .target = target, .accuracy = accuracy, .seed = 1}};
}

void core_go(const core_job *j, core_run *r)
{
    kl_err err = {""};
    kl_dmrg_result_clear(&r->res);
    expect_ok(kl_dmrg_run(j->terms, j->ex, &r->opts, NULL, &r->state, &r->res, &err), err);
    if (r->opts.nsweep > 0 || r->res.stop != KL_STOP_CONVERGED) return;
    /* trap: stopping with noise on, or because m has yet to grow: the last two sweeps are free of noise, and
       the error is one of extrapolation */
    const kl_dmrg_row *const last = &r->res.row[r->res.nrow - 1];
    expect_true(r->res.nrow >= 3 && last->noise == 0 && last[-1].noise == 0 &&
                isfinite(r->res.error_estimate));
}

void core_drop(core_run *r)
{
    free(r->opts.sweep);
    kl_dmrg_result_clear(&r->res);
    kl_state_destroy(&r->state);
}

static void count_step(void *self, const kl_dmrg_step *s)
{
    ((core_watcher *)self)->step++;
    expect_true(s->istep >= 1 && s->istep <= s->nstep + 1 && s->bond >= 0 && s->dim > 0);
}

static int stop_now(void *self)
{
    const core_watcher *const w = self;
    return w->step >= w->stop_after;
}

kl_dmrg_monitor core_watch(core_watcher *w)
{
    return (kl_dmrg_monitor){.self = w, .step = count_step, .interrupted = stop_now};
}

void core_known_check(const core_known *k)
{
    core_job j;
    core_open(&j, core_model(k->model, k->variant), k->lattice, k->order, k->sets);
    const kl_qn target = core_charge(j.model, k->charge);
    core_run r = k->m ? core_exact(k->m, target, 1, KL_STRATEGY_AUTO)
                      : core_auto(0.1 * k->allowed, target, 1, KL_STRATEGY_AUTO);
    if (k->m) r.opts.max_apply = 30;
    core_go(&j, &r);
    kl_test_case("%s %s", j.name, k->sets ? k->sets : "");
    expect_near(r.res.energy[0], k->energy, k->allowed * fabs(k->energy));
    /* variational, to the digits that are known */
    expect_true(r.res.energy[0] > k->energy - 0.1 * k->allowed * fabs(k->energy));
    if (!k->m) expect_eq(r.res.stop, KL_STOP_CONVERGED);
    core_drop(&r);
    core_close(&j);
    core_no_memory();
}

double core_dot(int64_t n, const double *a, const double *b)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

kl_dptr core_upload(kl_exec *ex, int64_t n, const double *x)
{
    kl_err err = {""};
    kl_dptr p = {0};
    expect_ok(ex->vt.alloc(ex, n, &p, &err), err);
    expect_ok(ex->vt.upload(ex, p, x, n, &err), err);
    return p;
}

void core_download(kl_exec *ex, int64_t n, kl_dptr p, double *x)
{
    kl_err err = {""};
    expect_ok(ex->vt.download(ex, x, p, n, &err), err);
}

kl_spmat *core_sparse(int64_t nrow, int64_t ncol, int64_t mean, int64_t dense, uint64_t seed)
{
    kl_err err;
    int64_t *off = NULL, n = 0;
    uint32_t *column = NULL;
    double *value = NULL;
    kl_spmat *m = NULL;
    const int64_t most = nrow * (2 * mean + 1);
    expect_ok(kl_alloc(&off, nrow + 1, KL_MEM_MATRIX, &err), err);
    expect_ok(kl_alloc(&column, most, KL_MEM_MATRIX, &err), err);
    expect_ok(kl_alloc(&value, most, KL_MEM_MATRIX, &err), err);
    for (int64_t i = 0; i < nrow; i++) {
        const int64_t wanted = i % 9 == 4 ? 0 : (int64_t)(kl_test_bits(&seed) % (uint64_t)(2 * mean + 1));
        int64_t c = -1;
        for (int64_t k = 0; k < wanted; k++) {
            const int64_t gap = k < wanted / 3 && dense > 0    ? dense / (mean + 1) + 1
                                : kl_test_bits(&seed) % 5 == 0 ? ncol / (mean + 1)
                                                               : 3;
            c += 1 + (int64_t)(kl_test_bits(&seed) % (uint64_t)(2 * gap));
            if (c >= ncol) break;
            column[n] = (uint32_t)c;
            value[n++] = kl_test_uniform(&seed);
        }
        off[i + 1] = n;
    }
    expect_ok(kl_spmat_take_csr(nrow, ncol, 0, &off, &column, &value, &m, &err), err);
    return m;
}

kl_spmat *core_whole(const kl_spmat *half)
{
    kl_err err;
    int64_t *off = NULL, *const fill = get(half->nrow + 1, sizeof *fill);
    uint32_t *column = NULL;
    double *value = NULL;
    kl_spmat *m = NULL;
    expect_true(half->format == KL_SP_CSR && half->symmetric);
    expect_ok(kl_alloc(&off, half->nrow + 1, KL_MEM_MATRIX, &err), err);
    for (int64_t i = 0; i < half->nrow; i++)
        for (int64_t k = kl_sp_offset(half, half->start, i); k < kl_sp_offset(half, half->start, i + 1);
             k++) {
            const int64_t j = kl_sp_column(half, half->rest_column, k);
            off[i + 1]++;
            if (j != i) off[j + 1]++;
        }
    for (int64_t i = 0; i < half->nrow; i++) fill[i + 1] = off[i + 1] += off[i];
    expect_ok(kl_alloc(&column, off[half->nrow], KL_MEM_MATRIX, &err), err);
    expect_ok(kl_alloc(&value, off[half->nrow], KL_MEM_MATRIX, &err), err);
    /* By rows of the half: a row's own columns come when it is reached, its mirrored ones, all larger, later
       and in order. */
    for (int64_t i = 0; i < half->nrow; i++)
        for (int64_t k = kl_sp_offset(half, half->start, i); k < kl_sp_offset(half, half->start, i + 1);
             k++) {
            const int64_t j = kl_sp_column(half, half->rest_column, k);
            column[fill[i]] = (uint32_t)j;
            value[fill[i]++] = half->rest_value[k];
            if (j == i) continue;
            column[fill[j]] = (uint32_t)i;
            value[fill[j]++] = half->rest_value[k];
        }
    free(fill);
    expect_ok(kl_spmat_take_csr(half->nrow, half->ncol, 0, &off, &column, &value, &m, &err), err);
    return m;
}

/* ---- a device with little memory ---- */

typedef struct small_block {
    double *p;
    int64_t n;
    int far;
} small_block;

typedef struct small {
    kl_exec ex; /* first: what callers hold */
    kl_exec *host;
    int64_t live, far;
    int nblock;
    small_block block[4096];
} small;

static kl_status small_take(small *s, int64_t n, int far, kl_dptr *out, kl_err *err)
{
    const int64_t bytes = 8 * n;
    if (!far && s->ex.most_bytes < INT64_MAX && s->live + bytes > s->ex.most_bytes)
        return kl_fail(err, KL_ENOMEM, "the device has no %lld bytes", (long long)bytes);
    if (s->nblock == 4096) return kl_fail(err, KL_ENOMEM, "too many blocks");
    double *p = NULL;
    const kl_status st = kl_alloc(&p, n, KL_MEM_BLOCK, err);
    if (st != KL_OK) return st;
    for (int64_t i = 0; i < n; i++) p[i] = NAN;
    s->block[s->nblock++] = (small_block){p, n, far};
    if (far) s->far += bytes;
    else s->live += bytes;
    out->addr = (uintptr_t)p;
    return KL_OK;
}

static kl_status small_alloc(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err)
{
    return small_take((small *)ex, n, 0, out, err);
}
static kl_status small_alloc_far(kl_exec *ex, int64_t n, kl_dptr *out, kl_err *err)
{
    return small_take((small *)ex, n, 1, out, err);
}

static void small_release(kl_exec *ex, kl_dptr *p)
{
    small *const s = (small *)ex;
    for (int i = 0; i < s->nblock && p->addr; i++)
        if ((uintptr_t)s->block[i].p == p->addr) {
            if (!s->block[i].far) s->live -= 8 * s->block[i].n;
            kl_free(&s->block[i].p);
            s->block[i] = s->block[--s->nblock];
            break;
        }
    p->addr = 0;
}

static int small_is_far(kl_exec *ex, kl_dptr p)
{
    const small *const s = (const small *)ex;
    for (int i = 0; i < s->nblock; i++)
        if (p.addr >= (uintptr_t)s->block[i].p && p.addr < (uintptr_t)(s->block[i].p + s->block[i].n))
            return s->block[i].far;
    return 0;
}

static int64_t small_room(kl_exec *ex)
{
    const small *const s = (const small *)ex;
    return ex->most_bytes == INT64_MAX ? INT64_MAX : ex->most_bytes - s->live;
}

static int small_copy_async(kl_exec *ex, int64_t n, kl_dptr src, kl_dptr dst, int after)
{
    (void)ex, (void)after; /* all that was asked for before is done */
    if (n > 0) memcpy((double *)dst.addr, (const double *)src.addr, (size_t)n * sizeof(double));
    return 3;
}

static void small_join(kl_exec *ex, int ticket, int host)
{
    (void)ex, (void)host;
    assert_int_equal(ticket, 3);
}

static void small_close(kl_exec *ex)
{
    small *const s = (small *)ex;
    assert_int_equal(s->nblock, 0);
    kl_exec_close(&s->host);
}

kl_status core_open_small(int64_t most, kl_exec **out, kl_err *err)
{
    small *s = NULL;
    kl_status st = kl_alloc(&s, 1, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    st = kl_exec_open_host(1, &s->host, err);
    if (st != KL_OK) {
        kl_free(&s);
        return st;
    }
    s->ex = *s->host;
    s->ex.most_bytes = most;
    s->ex.vt.alloc = small_alloc;
    s->ex.vt.release = small_release;
    s->ex.vt.alloc_far = small_alloc_far;
    s->ex.vt.is_far = small_is_far;
    s->ex.vt.copy_async = small_copy_async;
    s->ex.vt.join = small_join;
    s->ex.vt.room = small_room;
    s->ex.vt.close = small_close;
    *out = &s->ex;
    return KL_OK;
}

int64_t core_small_far(const kl_exec *ex) { return ((const small *)ex)->far; }
