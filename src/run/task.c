/* From options to the objects of a run.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "run/task.h"
#include "base/infile.h"
#include "base/par.h"
#include "comm/share.h"
#include "run/optiontable.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exec/hybrid.h"
#include "exec/joined.h"
#include "run/job.h"
#include "run/runfile.h"
#include "base/mem.h"
#include "model/modelread.h"

static uint64_t seed_of(const kl_options *o) { return o->seed > 0 ? (uint64_t)o->seed : 1; }

int kl_task_threads(const kl_options *o)
{
    const kl_comm *const c = kl_comm_world();
    const int cpus = kl_par_cpus(), sharing = c != NULL ? c->sharing : 1;
    if (o->threads > 0) return (int)o->threads;
    return kl_par_threads(cpus > sharing ? cpus / sharing : 1);
}

/* All ranks work on one problem, so all have read the same. Exact diagonalization spreads its vectors; DMRG
   divides lists on whole ones. */
static kl_status join_ranks(const kl_options *o, kl_exec *ex, kl_err *err)
{
    kl_status st = KL_OK;
    kl_comm *const c = kl_comm_world();
    const int ed = o->command == KL_CMD_ED;
    char line[64];
    if (c == NULL || (!ed && o->command != KL_CMD_DMRG && (o->command != KL_CMD_CI || o->plan))) return KL_OK;
    if (ed && !ex->vt.rows_take)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "--exec %s: it cannot share vectors between ranks; allowed: host cuda auto", o->exec));
    if (o->command == KL_CMD_CI && ex->space != KL_SPACE_HOST)
        KL_TRY(kl_fail(err, KL_EINPUT, "--exec %s: ci on several ranks is on the host; allowed: host auto",
                       o->exec));
    if (o->hybrid)
        KL_TRY(kl_fail(err, KL_EINPUT, "--hybrid %s: with several ranks a rank is its device or its host",
                       o->hybrid));
    snprintf(line, sizeof line, "contents of the files that are read=%016llx\n",
             (unsigned long long)kl_infile_digest());
    KL_TRY(kl_comm_same(c, line, err));
    KL_TRY(ed ? kl_ranks_join(ex, c, err) : kl_share_join(ex, c, err));
out:
    return st;
}

/* The choice of --exec auto for runs that are not asked again before each sweep: the executor that is done
   first with their products, or with a sweep of their number of states. *host NULL on return: it is *out. */
static kl_status choose_exec(const kl_options *o, int64_t nwork, const kl_work *work, kl_exec **host,
                             kl_exec **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_placement *p = NULL;
    const kl_command command = kl_command_of(o);
    const int widest = kl_options_widest(o);
    if (kl_comm_world() != NULL) {
        KL_TRY(kl_placement_ranks(o, nwork, work, *host, out, err));
    } else if (work != NULL) {
        KL_TRY(kl_placement_work(o, nwork, work, *host, out, err));
    } else if (command == KL_CMD_ED || command == KL_CMD_CI || command == KL_CMD_BENCH_ED ||
               command == KL_CMD_BENCH_CI) {
        snprintf((*host)->chosen, sizeof(*host)->chosen, "host: single products are made where one asks");
    } else {
        KL_TRY(kl_placement_create(o, *host, &p, err));
        if (o->command != KL_CMD_DMRG || o->infinite) *out = kl_placement_at(p, widest > 0 ? widest : 1024);
        if (*out == p->device) p->device = NULL; /* the caller's now */
        else *out = NULL;
        snprintf((*host)->chosen, sizeof(*host)->chosen, "%.199s", p->why);
    }
out:
    kl_placement_destroy(&p);
    if (!*out) *out = *host, *host = NULL;
    return st;
}

/* What the tune table, where there is one, says of --projection auto and of layouts of sparse matrices. */
static kl_status measured_ways(kl_exec *device, kl_err *err)
{
    kl_tune *t = NULL;
    kl_err none;
    const kl_status st = kl_alloc(&t, 1, KL_MEM_MISC, err);
    if (st == KL_OK && kl_tune_read(NULL, t, &none) == KL_OK) kl_tune_ways(t, device);
    kl_free(&t);
    return st;
}

kl_status kl_task_exec(const kl_options *o, kl_exec **out, kl_err *err)
{
    return kl_task_exec_work(o, 0, NULL, out, err);
}

kl_status kl_task_exec_work(const kl_options *o, int64_t nwork, const kl_work *work, kl_exec **out,
                            kl_err *err)
{
    const int offload = o->exec != NULL && strcmp(o->exec, "offload") == 0,
              cuda = o->exec != NULL && strcmp(o->exec, "cuda") == 0;
    const int joins = !cuda && o->projection != NULL && strcmp(o->projection, "concat") == 0;
    if (!cuda && o->projection && (!joins || kl_placement_automatic(o)))
        return kl_fail(err, KL_EINPUT,
                       "--projection %s: it says how CUDA runs lists; allowed: with --exec cuda%s",
                       o->projection, joins ? ", host or offload" : "");
    if (joins && kl_comm_world() != NULL)
        return kl_fail(err, KL_EINPUT, "--projection concat: ranks share lists as they are, on --exec %s",
                       o->exec);
    if (!offload && !cuda && o->hybrid)
        return kl_fail(err, KL_EINPUT,
                       "--hybrid %s: there is no device to share with; allowed: with --exec cuda or offload",
                       o->hybrid);
    if (!offload && !cuda && (o->device >= 0 || o->device_memory > 0) && !kl_placement_automatic(o))
        return kl_fail(err, KL_EINPUT,
                       "--device%s: --exec %s takes none; allowed: with --exec cuda or offload",
                       o->device >= 0 ? "" : "-memory", o->exec);
    kl_status st = KL_OK;
    kl_exec *device = NULL, *host = NULL;
    *out = NULL;
    if (!offload && !cuda) {
        KL_TRY(kl_exec_open_host(kl_task_threads(o), &host, err));
        if (kl_placement_automatic(o)) KL_TRY(choose_exec(o, nwork, work, &host, out, err));
        else if (joins) KL_TRY(kl_exec_open_joined_take(&host, out, err));
        else *out = host, host = NULL;
        goto out;
    }
    if (cuda) KL_TRY(kl_exec_open_cuda(kl_placement_device(o), &device, err));
    else KL_TRY(kl_exec_open_offload(kl_placement_device(o), 0, &device, err));
    device->nthread = kl_ranks_threads(kl_task_threads(o), o->threads > 0); /* LAPACK's part of truncation */
    device->most_bytes = (int64_t)o->device_memory;
    for (int p = 0; o->projection && p < KL_NPROJECTION; p++)
        if (!strcmp(o->projection, kl_projection_name[p])) device->projection = (kl_projection)p;
    KL_TRY(measured_ways(device, err));
    if (joins) {
        kl_exec *inner = device;
        device = NULL;
        st = kl_exec_open_joined_take(&inner, &device, err);
        kl_exec_close(&inner);
        KL_TRY(st);
    }
    if (o->hybrid) KL_TRY(kl_exec_open_hybrid_take(&device, kl_task_threads(o), o->hybrid, out, err));
    else *out = device, device = NULL;
out:
    if (st == KL_OK) st = join_ranks(o, *out, err);
    if (st != KL_OK) kl_exec_close(out);
    kl_exec_close(&device);
    kl_exec_close(&host);
    return st;
}

kl_status kl_task_settle(kl_task *t, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_task_exec(t->o, &t->ex, err));
    if (!kl_placement_automatic(t->o) || t->ex->ranks) goto out;
    KL_TRY(kl_placement_create(t->o, t->ex, &t->placement, err));
    kl_placement_plan(t->placement, &t->terms, &t->dmrg);
out:
    return st;
}

/* ---------------------------------------------------------------- model */

/* 1 when a name given by --parameter chose the tables of the model (its variant), so that it is no run-time
   parameter. */
int kl_task_structural(const kl_model *m, const char *name)
{
    const size_t length = strlen(name);
    for (const char *p = m->variant; *p != '\0';) {
        if (strncmp(p, name, length) == 0 && p[length] == '=') return 1;
        p += strcspn(p, ",; ");
        p += strspn(p, ",; ");
    }
    return 0;
}

static kl_status make_tables(const kl_options *o, kl_task_given given, int spin, kl_tables **out, kl_err *err)
{
    kl_status st = KL_OK;
    const char **setting = NULL;
    if (given.model_text == NULL) KL_TRY(kl_runfile_no_model(o->model, err));
    KL_TRY(kl_alloc(&setting, o->parameter.n + 1, KL_MEM_MISC, err));
    for (int i = 0; i < o->parameter.n; i++) setting[i] = o->parameter.text[i];
    if (spin)
        KL_TRY(kl_modelread_spin(o->model, given.model_text, given.model_text ? given.model_size : 0, setting,
                                 out, err));
    else if (given.model_text != NULL)
        KL_TRY(kl_modelread_text(o->model, given.model_text, given.model_size, setting, out, err));
    else KL_TRY(kl_modelread_find(o->model, setting, out, err));
out:
    kl_free(&setting);
    return st;
}

/* --charge S=... means the total spin where the model has no charge of that name. */
static int asks_for_spin(const kl_options *o, const kl_model *m)
{
    int asked = 0;
    for (int i = 0; i < o->charge.n; i++) asked |= strncmp(o->charge.text[i], "S=", 2) == 0;
    for (int c = 0; c < m->ncharge; c++) asked &= strcmp(m->charge[c].name, "S") != 0;
    return asked;
}

/* The tables of the variant that --charge asks for; *twin: NULL, or those without the total spin. */
static kl_status choose_tables(const kl_options *o, kl_task_given given, kl_tables **out, kl_tables **twin,
                               kl_err *err)
{
    kl_status st = KL_OK;
    *twin = NULL;
    KL_TRY(make_tables(o, given, 0, out, err));
    if (!asks_for_spin(o, (*out)->model)) goto out;
    *twin = *out;
    *out = NULL;
    KL_TRY(make_tables(o, given, 1, out, err));
out:
    return st;
}

kl_status kl_task_model(const kl_options *o, kl_tables **out, kl_err *err)
{
    kl_tables *twin = NULL;
    const kl_status st = choose_tables(o, (kl_task_given){0}, out, &twin, err);
    kl_tables_destroy(&twin);
    return st;
}

kl_status kl_task_twin(kl_task *t, kl_err *err)
{
    kl_status st = KL_OK;
    if (t->twin != NULL) return KL_OK;
    if (t->molecule != NULL) return kl_moleculetask_other(t->molecule, &t->twin, err);
    if (t->twin_tables == NULL)
        KL_TRY(make_tables(t->o, t->given, kl_model_spin(t->model) < 0, &t->twin_tables, err));
    KL_TRY(kl_terms_create_sites(t->twin_tables->model, t->lat, &t->twin, err));
out:
    return st;
}

/* ---------------------------------------------------------------- lattice, parameters, terms */

kl_status kl_task_lattice(const kl_options *o, const kl_task_given *given, int nsite_only, kl_lattice **out,
                          kl_err *err)
{
    kl_status st = KL_OK;
    const char *spec = o->lattice;
    const size_t length = spec == NULL ? 0 : strlen(spec);
    if (nsite_only > 0) return kl_lattice_create("chain", nsite_only, 0, out, err);
    if (given != NULL && given->lattice != NULL) {
        if (spec != NULL || o->sites > 0 || o->double_bonds)
            return kl_fail(err, KL_EINPUT, "--%s: the lattice is given by its sites and bonds",
                           spec != NULL      ? "lattice"
                           : o->double_bonds ? "double-bonds"
                                             : "sites");
        KL_TRY(given->lattice(given->self, out, err));
    } else if (length > 4 && strcmp(spec + length - 4, ".lua") == 0) {
        if (o->sites > 0)
            return kl_fail(err, KL_EINPUT,
                           "--sites: %lld was given, but a lattice file (%s) lists its own sites",
                           (long long)o->sites, spec);
        if (o->double_bonds)
            return kl_fail(err, KL_EINPUT, "--double-bonds: a lattice file (%s) lists its own bonds", spec);
        KL_TRY(kl_job_lattice(spec, out, err));
    } else if (spec == NULL && o->sites == 0) {
        return kl_fail(
            err, KL_EINPUT,
            "--sites or --lattice is missing; allowed: --sites N, --lattice ring (with --sites), "
            "ladder:LxW, square:LxW, cylinder:LxW, torus:LxW, kagome:YC6x8 and the like, FILE.lua");
    } else {
        KL_TRY(kl_option_says(
            spec != NULL ? "lattice" : "sites",
            kl_lattice_create(spec != NULL ? spec : "chain", (int)o->sites, o->double_bonds, out, err), err));
    }
    if ((*out)->nsite < 2)
        KL_TRY(kl_fail(err, KL_EINPUT, "--%s: lattice %s has %d site; at least 2 are needed",
                       spec != NULL ? "lattice" : "sites", (*out)->spec, (*out)->nsite));
    if (o->order != NULL) KL_TRY(kl_option_says("order", kl_lattice_reorder(*out, o->order, err), err));
out:
    if (st != KL_OK) kl_lattice_destroy(out);
    return st;
}

static const kl_param_def *find_param(const kl_model *m, const char *name, size_t length)
{
    for (int i = 0; i < m->nparam; i++)
        if (strlen(m->param[i].name) == length && memcmp(m->param[i].name, name, length) == 0)
            return &m->param[i];
    return NULL;
}

/* Lists run-time and structural parameters alike: to the user they are one kind. */
static kl_status refuse_param(const kl_model *m, const char *name, kl_err *err)
{
    enum {
        MOST = 64,
        LONGEST = 64,
    };
    char word[MOST][LONGEST], list[512] = "none";
    const char *candidate[MOST + 1];
    int n = 0;
    size_t used = 0;
    for (int i = 0; i < m->nparam && n < MOST; i++) snprintf(word[n++], LONGEST, "%s", m->param[i].name);
    for (const char *p = m->variant; *p != '\0' && n < MOST;) {
        snprintf(word[n++], LONGEST, "%.*s", (int)strcspn(p, "="), p);
        p += strcspn(p, ",; ");
        p += strspn(p, ",; ");
    }
    for (int i = 0; i < n && used < sizeof(list); i++) {
        candidate[i] = word[i];
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? " " : "", word[i]);
    }
    candidate[n] = NULL;
    const char *near = kl_closest(name, candidate);
    return kl_fail(err, KL_EINPUT, "--parameter: model %s has no parameter '%s'%s%s%s; allowed: %s", m->name,
                   name, near != NULL ? ", did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : "", list);
}

/* Structural parameters chose the tables already; of the rest scalars come first, so that uniform(-W,W) finds
   its W. */
static kl_status set_params(kl_task *t, kl_err *err)
{
    const kl_options *o = t->o;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < o->parameter.n; i++) {
            char name[128];
            const char *text = o->parameter.text[i];
            const size_t length = kl_split_name(text);
            snprintf(name, sizeof(name), "%.*s", (int)(length < sizeof(name) ? length : sizeof(name) - 1),
                     text);
            if (kl_task_structural(t->model, name)) continue;
            const kl_param_def *def = find_param(t->model, text, length);
            if (def == NULL) return refuse_param(t->model, name, err);
            if ((def->kind == KL_PARAM_SCALAR) != (pass == 0)) continue;
            const kl_status st = kl_option_says(
                "parameter", kl_params_set(t->params, name, text + length + 1, seed_of(o), err), err);
            if (st != KL_OK) return st;
        }
    return KL_OK;
}

/* "Sz@0*Sz@5=-0.5" adds -0.5 Sz(0) Sz(5). */
static kl_status add_pin(kl_task *t, const char *pin, kl_err *err)
{
    kl_op_at at[KL_MAX_FACTOR];
    char text[512];
    double value = 0;
    int n = 0;
    const size_t length = kl_split_name(pin);
    if (length >= sizeof(text)) return kl_fail(err, KL_EINPUT, "--pin: '%.60s...' is too long", pin);
    memcpy(text, pin, length);
    text[length] = '\0';
    if (!kl_parse_double(pin + length + 1, &value))
        return kl_fail(err, KL_EINPUT, "--pin %s: '%s' is not a number", text, pin + length + 1);
    char *next = text;
    for (char *word = strsep(&next, "*"); word != NULL; word = strsep(&next, "*")) {
        char *site_text = strchr(word, '@');
        if (site_text == NULL || site_text == word)
            return kl_fail(err, KL_EINPUT, "--pin: '%s' in '%s' is not OP@SITE, as in Sz@0", word, pin);
        *site_text++ = '\0';
        if (n == KL_MAX_FACTOR)
            return kl_fail(err, KL_EINPUT, "--pin: '%s' has more than %d operators", pin, KL_MAX_FACTOR);
        const int site = kl_lattice_site(t->lat, site_text);
        if (site < 0)
            return kl_fail(err, KL_EINPUT, "--pin: there is no site '%s' in '%s'; allowed: 0 to %d",
                           site_text, pin, t->lat->nsite - 1);
        at[n].pos = t->lat->position[site];
        const kl_site_type *type = t->terms->type[at[n].pos];
        at[n].op = kl_site_op_find(type, word);
        if (at[n].op < 0) {
            char list[256] = "";
            size_t used = 0;
            for (int k = 0; k < type->nop && used < sizeof(list); k++)
                if (type->op[k].named)
                    used += (size_t)snprintf(list + used, sizeof(list) - used, " %s", type->op[k].name);
            return kl_fail(err, KL_EINPUT, "--pin: site %s has no operator '%s' in '%s'; allowed:%s",
                           site_text, word, pin, list);
        }
        n++;
    }
    const kl_status st = kl_terms_add(t->terms, value, n, at, 0, err);
    return st == KL_OK ? st : kl_fail(err, st, "--pin %s: %s", pin, err != NULL ? err->text : "");
}

static kl_status make_terms(kl_task *t, kl_err *err)
{
    kl_status st = KL_OK;
    kl_terms_destroy(&t->terms);
    KL_TRY(kl_terms_create(t->model, t->lat, t->params, &t->terms, err));
    for (int i = 0; i < t->o->pin.n; i++) KL_TRY(add_pin(t, t->o->pin.text[i], err));
    if (t->o->pin.n > 0) {
        KL_TRY(kl_option_says("pin", kl_terms_merge(t->terms, err), err));
    }
out:
    return st;
}

kl_status kl_task_set(kl_task *t, const char *name, double value, kl_err *err)
{
    char text[40];
    snprintf(text, sizeof(text), "%.17g", value);
    kl_status st = kl_params_set(t->params, name, text, seed_of(t->o), err);
    if (st != KL_OK) return kl_fail(err, st, "--sweep-parameter: %s", err != NULL ? err->text : "");
    return make_terms(t, err);
}

/* ---------------------------------------------------------------- start states */

static kl_qn start_charge(const kl_task *t)
{
    kl_qn sum = kl_qn_zero();
    for (int p = 0; p < t->terms->nsite; p++)
        sum = kl_qn_add(t->model, sum, kl_qn_of(t->model, t->terms->type[p]->state_charge[t->start[p]]));
    return sum;
}

/* Two states that alternate along the positions and together have the target; of several pairs the one that
   differs most. */
static kl_status neel_start(kl_task *t, kl_err *err)
{
    const kl_site_type *type = t->terms->type[0];
    int best = -1, best_a = 0, best_b = 0;
    for (int p = 1; p < t->terms->nsite; p++)
        if (t->terms->type[p]->dim != type->dim)
            return kl_fail(err, KL_EINPUT,
                           "--start: neel needs sites of one kind; give product:STATE,STATE,...");
    for (int a = 0; a < type->dim; a++)
        for (int b = 0; b < type->dim; b++) {
            int differ = 0;
            for (int p = 0; p < t->terms->nsite; p++) t->start[p] = p % 2 == 0 ? a : b;
            if (a == b || kl_qn_cmp(start_charge(t), t->dmrg.target) != 0) continue;
            for (int c = 0; c < t->model->ncharge; c++) {
                const int d = type->state_charge[a][c] - type->state_charge[b][c];
                differ += d < 0 ? -d : d;
            }
            if (differ > best) {
                best = differ;
                best_a = a;
                best_b = b;
            }
        }
    if (best < 0) {
        char want[256];
        return kl_fail(err, KL_EINPUT,
                       "--start: no two states taking turns have %s; give product:STATE,STATE,...",
                       kl_qn_print(t->model, t->dmrg.target, want, sizeof(want)));
    }
    for (int p = 0; p < t->terms->nsite; p++) t->start[p] = p % 2 == 0 ? best_a : best_b;
    return KL_OK;
}

/* "product:up,dn*3,0": states of lattice sites 0, 1, ...; a list that is too short is repeated. */
static kl_status product_start(kl_task *t, const char *list, kl_err *err)
{
    int site = 0;
    const int n = t->lat->nsite;
    while (site < n) {
        for (const char *p = list; site < n;) {
            char word[128];
            int64_t count = 1;
            const size_t length = strcspn(p, ",");
            snprintf(word, sizeof(word), "%.*s", (int)(length < sizeof(word) ? length : sizeof(word) - 1), p);
            char *star = strchr(word, '*');
            if (star != NULL) {
                *star++ = '\0';
                if (!kl_parse_int(star, &count) || count < 1)
                    return kl_fail(err, KL_EINPUT,
                                   "--start: '%s*%s': allowed: STATE*COUNT with a count from 1 on", word,
                                   star);
            }
            for (int64_t k = 0; k < count; k++, site++) {
                if (site == n)
                    return kl_fail(err, KL_EINPUT, "--start: product: lists more than the %d sites", n);
                const int pos = t->lat->position[site];
                const kl_site_type *type = t->terms->type[pos];
                int s = 0;
                while (s < type->dim && strcmp(type->state_name[s], word) != 0) s++;
                if (s == type->dim) {
                    char allowed[256] = "";
                    for (int i = 0; i < type->dim; i++) {
                        const size_t at = strlen(allowed);
                        snprintf(allowed + at, sizeof(allowed) - at, " %s", type->state_name[i]);
                    }
                    return kl_fail(err, KL_EINPUT, "--start: site %d has no state '%s'; allowed:%s", site,
                                   word, allowed);
                }
                t->start[pos] = s;
            }
            p += length;
            if (*p == '\0') break;
            p++;
        }
    }
    const kl_qn sum = start_charge(t);
    if (kl_qn_cmp(sum, t->dmrg.target) != 0) {
        char have[256], want[256];
        return kl_fail(err, KL_EINPUT, "--start: the product state has %s, but the run is for %s",
                       kl_qn_print(t->model, sum, have, sizeof(have)),
                       kl_qn_print(t->model, t->dmrg.target, want, sizeof(want)));
    }
    return KL_OK;
}

kl_status kl_task_aim(kl_task *t, kl_qn target, kl_err *err)
{
    const char *list;
    const kl_start start = kl_start_of(t->o->start, &list);
    t->dmrg.target = target;
    t->dmrg.start = NULL;
    kl_status st = KL_OK;
    if (t->molecule != NULL) {
        if (t->start == NULL)
            st = kl_alloc(&t->start, (int64_t)KL_MOLECULE_STARTS * t->terms->nsite, KL_MEM_MISC, err);
        if (st == KL_OK)
            st = kl_moleculetask_start(t->molecule, kl_molecule_irrep(t->molecule->m, target), t->dmrg.nstate,
                                       t->start, &t->dmrg.nstart, err);
        if (st == KL_OK && t->dmrg.nstart > 0) t->dmrg.start = t->start;
        return st;
    }
    if (start == KL_START_NONE || start == KL_START_FILE) return KL_OK;
    if (t->start == NULL) st = kl_alloc(&t->start, t->terms->nsite, KL_MEM_MISC, err);
    if (st == KL_OK)
        st = start == KL_START_NEEL   ? neel_start(t, err)
             : start == KL_START_PATH ? kl_task_path_start(t, list, err)
                                      : product_start(t, list, err);
    if (st == KL_OK) t->dmrg.start = t->start;
    return st;
}

/* ---------------------------------------------------------------- all of it */

/* Where sectors have few states, records count for more than the products that they ask for: LR has a
   fiftieth of them, for up to twice the products and the memory. On a GPU, whose lists the host makes,
   sectors are small for longer. */
static int has_small_sectors(const kl_task *t)
{
    enum {
        STATES = 250, /* in all, for each irrep */
        DEVICE_STATES = 500,
        USUAL = 1000 /* where options say no m */
    };
    const kl_options *const o = t->o;
    const int device = o->exec != NULL && (strcmp(o->exec, "cuda") == 0 || strcmp(o->exec, "offload") == 0);
    int64_t m = o->m > 0 ? o->m : USUAL;
    for (int i = 0; i < o->nschedule; i++)
        if (i == 0 || o->schedule_row[i].m > m) m = o->schedule_row[i].m;
    return m <= (device ? DEVICE_STATES : STATES) * (int64_t)t->model->ntype;
}

static kl_status dmrg_options(kl_task *t, kl_err *err)
{
    const kl_options *o = t->o;
    kl_dmrg_opts *d = &t->dmrg;
    kl_status st = KL_OK;
    d->strategy = o->strategy == NULL || strcmp(o->strategy, "auto") == 0 ? KL_STRATEGY_AUTO
                  : strcmp(o->strategy, "lr") == 0                        ? KL_STRATEGY_LR
                                                                          : KL_STRATEGY_L11R;
    d->solver =
        o->solver != NULL && strcmp(o->solver, "lanczos") == 0 ? KL_SOLVER_LANCZOS : KL_SOLVER_DAVIDSON;
    d->nstate = o->states > 0 ? (int)o->states : 1;
    d->accuracy = o->accuracy;
    if (t->molecule != NULL) {
        const double usual = 1e-5;
        d->accuracy = 0;
        d->many_sectors = 1;
        if (d->strategy == KL_STRATEGY_AUTO && has_small_sectors(t)) d->strategy = KL_STRATEGY_LR;
        d->error = o->accuracy > 0 ? o->accuracy : usual;
    }
    d->m_max = (int)o->m;
    d->m_min = (int)o->m_min;
    d->discard = o->discard;
    d->max_sweep = (int)o->max_sweeps;
    d->measured = o->measure.n > 0;
    d->seed = seed_of(o);
    d->max_basis = (int)o->basis;
    d->max_apply = (int)o->max_products;
    d->full = o->full_sectors;
    d->truncation = o->truncation == NULL || strcmp(o->truncation, "auto") == 0 ? KL_TRUNCATION_AUTO
                    : strcmp(o->truncation, "exact") == 0                       ? KL_TRUNCATION_EXACT
                                                                                : KL_TRUNCATION_PRODUCTS;
    const char *const sites = o->sites_per_step;
    d->whole_sweeps = o->inversion != NULL && strcmp(o->inversion, "off") == 0;
    d->sites = sites == NULL || strcmp(sites, "auto") == 0 ? KL_SITES_AUTO
               : strcmp(sites, "1") == 0                   ? KL_SITES_ONE
                                                           : KL_SITES_TWO;
    /* one site loses charges that a molecule needs: N2 of 250 states ends 11 millihartree higher */
    if (t->molecule != NULL && d->sites == KL_SITES_AUTO) d->sites = KL_SITES_TWO;
    d->records = o->save_records;
    d->host_bytes = kl_mem_ours_of(o->host_memory), d->lr_bytes = kl_mem_half_of(o->host_memory);
    d->scratch = o->scratch;
    if (o->nschedule > 0) {
        st = kl_alloc(&t->sweep, o->nschedule, KL_MEM_MISC, err);
        if (st != KL_OK) return st;
        for (int i = 0; i < o->nschedule; i++)
            t->sweep[i] =
                (kl_dmrg_sweep){o->schedule_row[i].m, o->schedule_row[i].noise, o->schedule_row[i].tol};
        d->sweep = t->sweep;
        d->nsweep = o->nschedule;
    }
    return st;
}

/* The orbitals are the sites; a molecule has no parameters. */
static kl_status make_molecule(kl_task *t, const kl_task_given *given, kl_err *err)
{
    kl_status st = KL_OK;
    const char *const name = t->o->file != NULL ? t->o->file : "molecule";
    KL_TRY(kl_moleculetask_create(t->o, given != NULL ? given->integrals : NULL, &t->molecule, err));
    t->model = &t->molecule->m->model;
    t->terms = t->molecule->m->terms;
    t->molecule->m->terms = NULL;
    KL_TRY(kl_moleculetask_sites(t->molecule, name, &t->lat, err));
    if (kl_model_spin(t->model) >= 0) KL_TRY(kl_task_twin(t, err));
    KL_TRY(kl_params_create(t->model, t->lat, &t->params, err));
out:
    return st;
}

/* model: NULL where the options name it or it is given. */
static kl_status create(const kl_options *o, const kl_model *model, const kl_task_given *given,
                        int nsite_only, kl_task **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_task *t = NULL;
    const int64_t before = kl_mem_live_total();
    *out = NULL;
    KL_TRY(kl_alloc(&t, 1, KL_MEM_MISC, err));
    t->o = o;
    if (given != NULL) t->given = *given;
    if (o->molecule) {
        KL_TRY(make_molecule(t, given, err));
        goto made;
    }
    if (model == NULL) KL_TRY(choose_tables(o, t->given, &t->tables, &t->twin_tables, err));
    t->model = model != NULL ? model : t->tables->model;
    KL_TRY(kl_task_check_spin(t, err));
    KL_TRY(kl_task_lattice(o, given, nsite_only, &t->lat, err));
    if (t->twin_tables != NULL) KL_TRY(kl_task_twin(t, err));
    KL_TRY(kl_params_create(t->model, t->lat, &t->params, err));
    KL_TRY(set_params(t, err));
    KL_TRY(make_terms(t, err));
made:
    KL_TRY(dmrg_options(t, err));
    t->dmrg.held_bytes = kl_mem_live_total() - before;
    *out = t;
    t = NULL;
out:
    kl_task_destroy(&t);
    return st;
}

kl_status kl_task_create(const kl_options *o, int nsite_only, kl_task **out, kl_err *err)
{
    return create(o, NULL, NULL, nsite_only, out, err);
}

kl_status kl_task_create_given(const kl_options *o, const kl_task_given *given, kl_task **out, kl_err *err)
{
    return create(o, NULL, given, 0, out, err);
}

kl_status kl_task_chain(const kl_task *whole, int nsite, kl_task **out, kl_err *err)
{
    return create(whole->o, whole->model, NULL, nsite, out, err);
}

void kl_task_destroy(kl_task **task)
{
    kl_task *t = *task;
    if (t == NULL) return;
    kl_terms_destroy(&t->twin);
    kl_tables_destroy(&t->twin_tables);
    kl_terms_destroy(&t->terms);
    kl_params_destroy(&t->params);
    kl_lattice_destroy(&t->lat);
    kl_placement_destroy(&t->placement);
    kl_exec_close(&t->ex);
    kl_free(&t->sweep);
    kl_free(&t->start);
    kl_tables_destroy(&t->tables);
    kl_moleculetask_destroy(&t->molecule);
    kl_free(task);
}
