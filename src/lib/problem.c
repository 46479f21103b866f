/* Problems: what is set is kept as text, and becomes options, model, lattice and terms when a run wants them.
   See kronlat.h. Runs nothing.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strsep */
#endif
#include "lib/handles.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "run/dmrgrun.h"
#include "run/edrun.h"
#include "run/optiontable.h"

#define WHERE "kronlat_problem_set" /* opens messages on options */

/* What a value is set for; a command takes what its rows say. */
static const struct {
    kl_command command;
    int molecule; /* 1: of a molecule */
} commands[] = {{KL_CMD_DMRG, 0}, {KL_CMD_DMRG, 1}, {KL_CMD_ED, 0}, {KL_CMD_CI, 0}};
enum { NCOMMAND = sizeof commands / sizeof *commands };

/* ---------------------------------------------------------------- scenes */

void kl_scene_release(kl_scene **scene)
{
    kl_scene *const s = *scene;
    *scene = NULL;
    if (s == NULL || --s->nuser > 0) return;
    if (!s->borrowed) {
        kl_result_destroy(&s->done);
        kl_task_destroy(&s->t);
        kl_options_destroy(&s->o);
    }
    kl_scene *gone = s;
    kl_free(&gone);
}

kl_scene *kl_scene_keep(kl_scene *s)
{
    if (s != NULL) s->nuser++;
    return s;
}

static kl_status new_scene(kl_options **o, kl_task **t, kl_result **done, int borrowed, kl_scene **out,
                           kl_err *err)
{
    const kl_status st = kl_alloc(out, 1, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    (*out)->nuser = 1;
    (*out)->borrowed = borrowed;
    (*out)->o = *o;
    (*out)->t = *t;
    (*out)->done = *done;
    *o = NULL;
    *t = NULL;
    *done = NULL;
    return KL_OK;
}

kl_status kl_problem_borrow(kl_options *o, kl_task *t, kl_result *done, const kl_watch *watch,
                            kronlat_problem **out, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(out, 1, KL_MEM_MISC, err));
    KL_TRY(new_scene(&o, &t, &done, 1, &(*out)->scene, err));
    (*out)->made_for = (*out)->scene->o->command;
    (*out)->watch = watch;
out:
    if (st != KL_OK) kl_free(out);
    return st;
}

/* ---------------------------------------------------------------- making and unmaking */

static void drop_lattice(kl_given_lattice **lattice)
{
    kl_given_lattice *const l = *lattice;
    if (l == NULL) return;
    for (int i = 0; i < l->nsite && l->site_class != NULL; i++) kl_free(&l->site_class[i]);
    for (int64_t b = 0; b < l->nbond && l->bond_class != NULL; b++) kl_free(&l->bond_class[b]);
    kl_free(&l->site_class);
    kl_free(&l->bond_class);
    kl_free(&l->name);
    kl_free(&l->xy);
    kl_free(&l->bond);
    kl_free(lattice);
}

void kronlat_problem_destroy(kronlat_problem *problem)
{
    kronlat_problem *p = problem;
    if (p == NULL) return;
    kl_scene_release(&p->scene);
    for (int i = 0; i < p->nsetting; i++) {
        kl_free(&p->setting[i].name);
        kl_free(&p->setting[i].value);
    }
    kl_free(&p->setting);
    kl_free(&p->model);
    kl_free(&p->model_text);
    kl_free(&p->fcidump);
    kl_fcidump_destroy(&p->integrals);
    drop_lattice(&p->lattice);
    kl_free(&p);
}

static kl_status copy_text(const char *text, const char *what, char **out, kl_err *err)
{
    if (text == NULL) return kl_fail(err, KL_EINPUT, "%s is NULL", what);
    kl_free(out);
    *out = kl_strdup(text);
    return *out != NULL ? KL_OK : kl_fail(err, KL_ENOMEM, "no memory for %s", what);
}

/* A problem with its three texts, each of which may be NULL. */
static kronlat_status create(const char *model, const char *text, const char *fcidump, kronlat_problem **out,
                             kronlat_error *error)
{
    kl_status st = KL_OK;
    kl_err err = {{0}};
    kronlat_problem *p = NULL;
    const kl_visit v = kl_visit_begin(NULL);
    *out = NULL;
    KL_TRY(kl_alloc(&p, 1, KL_MEM_MISC, &err));
    if (model != NULL) KL_TRY(copy_text(model, "the name of the model", &p->model, &err));
    if (text != NULL) KL_TRY(copy_text(text, "the text of the model", &p->model_text, &err));
    if (fcidump != NULL) KL_TRY(copy_text(fcidump, "the name of the file", &p->fcidump, &err));
    if (model == NULL && fcidump == NULL)
        KL_TRY(kl_fail(&err, KL_EINPUT, "the name of the model or of the file is NULL"));
    *out = p;
    p = NULL;
out:
    kronlat_problem_destroy(p);
    return kl_visit_end(v, st, &err, error);
}

kronlat_status kronlat_problem_create(const char *model, kronlat_problem **out, kronlat_error *error)
{
    return create(model, NULL, NULL, out, error);
}

kronlat_status kronlat_problem_create_text(const char *name, const char *text, kronlat_problem **out,
                                           kronlat_error *error)
{
    return create(name, text != NULL ? text : "", NULL, out, error);
}

kronlat_status kronlat_problem_create_fcidump(const char *path, kronlat_problem **out, kronlat_error *error)
{
    return create(NULL, NULL, path, out, error);
}

/* ---------------------------------------------------------------- settings */

/* "U" of "U=4"; 0: the value has no name. */
static int same_entry(const char *a, const char *b)
{
    const size_t n = kl_split_name(a), m = kl_split_name(b);
    return n == m && memcmp(a, b, n) == 0 && n > 0;
}

static void drop_setting(kronlat_problem *p, int i)
{
    kl_free(&p->setting[i].name);
    kl_free(&p->setting[i].value);
    memmove(&p->setting[i], &p->setting[i + 1], (size_t)(p->nsetting - i - 1) * sizeof *p->setting);
    p->nsetting--;
}

/* The option of command c of this list; NULL: it has no such one. */
static const kl_option_row *row_of(int c, const char *name)
{
    const kl_command command =
        commands[c].molecule ? kl_command_of_molecule(commands[c].command) : commands[c].command;
    return kl_option_find(name, strlen(name), kl_commands_taken(command));
}

/* Of an option that no command here takes: as of a text. */
static kl_value_kind kind_of(const char *name)
{
    for (int c = 0; c < NCOMMAND; c++) {
        const kl_option_row *const row = row_of(c, name);
        if (row != NULL) return row->kind;
    }
    return KL_VALUE_TEXT;
}

/* "measure": values are added up. */
static int is_added_to(const char *name) { return kind_of(name) == KL_VALUE_LIST; }

/* "charge": a value takes the place of the one that has its name before '='. */
static int is_named(const char *name) { return kind_of(name) == KL_VALUE_NAMED; }

int kronlat_option_is_list(const char *option)
{
    const char *const name = option == NULL ? "" : strcmp(option, "p") == 0 ? "parameter" : option;
    return is_added_to(name) || is_named(name);
}

/* "device_memory" as "device-memory". */
static void spell(const char *option, char name[80])
{
    snprintf(name, 80, "%s", option == NULL ? "" : strcmp(option, "p") == 0 ? "parameter" : option);
    for (char *c = name; *c != '\0'; c++)
        if (*c == '_') *c = '-';
}

int kronlat_option_is_of(const char *option, const char *method)
{
    char name[80];
    spell(option, name);
    for (int c = 0; c < NCOMMAND && method != NULL; c++)
        if (strcmp(kl_command_name(commands[c].command), method) == 0 && row_of(c, name) != NULL) return 1;
    return 0;
}

/* What only a command line has. */
static int is_of_commands(const char *name)
{
    static const char *const word[] = {"command",  "model",  "fcidump",         "json", "verbose", "plan",
                                       "infinite", "method", "sweep-parameter", "csv",  "gap"};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        if (!strcmp(name, word[i])) return 1;
    return 0;
}

/* Whether some command takes this value; its refusal is the last one's that knows the name. *kind: of the
   option. */
static kl_status try_value(const char *name, const char *value, kl_option_kind *kind, kl_err *err)
{
    kl_status st = KL_OK, seen = KL_EINPUT;
    kl_err why, last = {{0}};
    for (int c = 0; c < NCOMMAND && seen != KL_OK; c++) {
        kl_options *o = NULL;
        KL_TRY(kl_options_create(commands[c].command, &o, err));
        o->molecule = commands[c].molecule;
        if (kl_options_kind(o, WHERE, name, kind, &why) == KL_OK) {
            const int flag_off = *kind == KL_OPTION_FLAG && value != NULL && !strcmp(value, "false");
            seen = value == NULL || flag_off
                       ? KL_OK
                       : kl_options_set(o, WHERE, name, *kind == KL_OPTION_FLAG ? "" : value, &last);
        } else if (last.text[0] == '\0') last = why;
        kl_options_destroy(&o);
    }
    if (seen != KL_OK) KL_TRY(kl_fail(err, KL_EINPUT, "%s", last.text));
    if (*kind == KL_OPTION_FLAG && value != NULL && strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
        KL_TRY(kl_fail(err, KL_EINPUT, WHERE ": %s: '%.60s' was given; allowed: true or false", name, value));
out:
    return st;
}

static kl_status set(kronlat_problem *p, const char *option, const char *value, kl_err *err)
{
    kl_status st = KL_OK;
    char name[80];
    kl_option_kind kind;
    kl_setting fresh = {NULL, NULL};
    if (option == NULL) return kl_fail(err, KL_EINPUT, WHERE ": the name of the option is NULL");
    spell(option, name);
    if (is_of_commands(name))
        return kl_fail(err, KL_EINPUT, WHERE ": %.60s belongs to the command line, not to a problem", option);
    KL_TRY(try_value(name, value, &kind, err));
    const int off = value == NULL || (kind == KL_OPTION_FLAG && strcmp(value, "false") == 0);
    if (!off) {
        KL_TRY(copy_text(name, "an option", &fresh.name, err));
        KL_TRY(copy_text(value, "an option", &fresh.value, err));
        KL_TRY(kl_realloc(&p->setting, p->nsetting + 1, KL_MEM_MISC, err));
    }
    for (int i = p->nsetting - 1; i >= 0; i--) {
        const kl_setting *const s = &p->setting[i];
        if (strcmp(s->name, name) != 0) continue;
        const int keeps = !off && ((is_added_to(name) && strcmp(s->value, value) != 0) ||
                                   (is_named(name) && !same_entry(s->value, value)));
        if (!keeps) drop_setting(p, i);
    }
    if (!off) p->setting[p->nsetting++] = fresh;
    fresh = (kl_setting){NULL, NULL};
    kl_scene_release(&p->scene);
out:
    kl_free(&fresh.name);
    kl_free(&fresh.value);
    return st;
}

kronlat_status kronlat_problem_set(kronlat_problem *problem, const char *option, const char *value,
                                   kronlat_error *error)
{
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(problem);
    return kl_visit_end(v, set(problem, option, value, &err), &err, error);
}

static kl_status set_numbers(kronlat_problem *p, const char *name, int64_t n, const double *value,
                             kl_err *err)
{
    kl_status st = KL_OK;
    char *text = NULL;
    const int64_t room = 32 * n + (int64_t)strlen(name) + 2;
    if (n < 1) return kl_fail(err, KL_EINPUT, "parameter %.60s: %lld values", name, (long long)n);
    KL_TRY(kl_alloc(&text, room, KL_MEM_MISC, err));
    int64_t used = snprintf(text, (size_t)room, "%s=", name);
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(value[i]))
            KL_TRY(kl_fail(err, KL_EINPUT, "parameter %.60s: value %lld is not finite", name, (long long)i));
        used += snprintf(text + used, (size_t)(room - used), "%s%.17g", i > 0 ? "," : "", value[i]);
    }
    KL_TRY(set(p, "parameter", text, err));
out:
    kl_free(&text);
    return st;
}

kronlat_status kronlat_problem_set_parameter(kronlat_problem *problem, const char *name, int64_t n,
                                             const double *value, kronlat_error *error)
{
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(problem);
    const kl_status st = name == NULL || value == NULL
                             ? kl_fail(&err, KL_EINPUT, "the name or the values of a parameter are NULL")
                             : set_numbers(problem, name, n, value, &err);
    return kl_visit_end(v, st, &err, error);
}

kronlat_status kronlat_problem_set_charge(kronlat_problem *problem, const char *name, int64_t numerator,
                                          int64_t denominator, kronlat_error *error)
{
    kl_err err = {{0}};
    char text[256];
    kl_status st;
    const kl_visit v = kl_visit_begin(problem);
    const int64_t g = kl_gcd(numerator, denominator) * (denominator < 0 ? -1 : 1);
    if (name == NULL || denominator == 0)
        st = kl_fail(&err, KL_EINPUT, "a charge has no name, or the denominator 0");
    else {
        snprintf(text, sizeof text, denominator / g == 1 ? "%.160s=%lld" : "%.160s=%lld/%lld", name,
                 (long long)(numerator / g), (long long)(denominator / g));
        st = set(problem, "charge", text, &err);
    }
    return kl_visit_end(v, st, &err, error);
}

/* ---------------------------------------------------------------- lattice */

static int has_control(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 127) return 1;
    return 0;
}

static kl_status copy_lattice(const char *name, int nsite, const double *xy, const char *const *site_class,
                              int64_t nbond, const int *bond, const char *const *bond_class,
                              kl_given_lattice **out, kl_err *err)
{
    enum { MOST_SITES = 1000000 };
    kl_status st = KL_OK;
    kl_given_lattice *l = NULL;
    if (name == NULL || has_control(name))
        return kl_fail(err, KL_EINPUT, "the lattice has no name, or one with control characters");
    if (nsite < 2 || nsite > MOST_SITES)
        return kl_fail(err, KL_EINPUT, "lattice %.60s has %d sites; allowed: 2 to %d", name, nsite,
                       (int)MOST_SITES);
    if (nbond < 0 || (nbond > 0 && bond == NULL))
        return kl_fail(err, KL_EINPUT, "lattice %.60s: %lld bonds are given at NULL", name, (long long)nbond);
    KL_TRY(kl_alloc(&l, 1, KL_MEM_MISC, err));
    l->nsite = nsite;
    KL_TRY(copy_text(name, "the lattice's name", &l->name, err));
    if (xy != NULL) {
        KL_TRY(kl_alloc(&l->xy, 2 * (int64_t)nsite, KL_MEM_MISC, err));
        for (int64_t i = 0; i < 2 * (int64_t)nsite; i++) {
            if (!isfinite(xy[i]))
                KL_TRY(kl_fail(err, KL_EINPUT, "lattice %.60s: a place of site %lld is not finite", name,
                               (long long)i / 2));
            l->xy[i] = xy[i];
        }
    }
    if (site_class != NULL) KL_TRY(kl_alloc(&l->site_class, nsite, KL_MEM_MISC, err));
    for (int i = 0; i < nsite && site_class != NULL; i++) {
        if (site_class[i] == NULL || site_class[i][0] == '\0') continue;
        if (has_control(site_class[i]) || kl_is_position_class(site_class[i]))
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "lattice %.60s: site %d: the class holds a control character, or means places on "
                           "every lattice (first, last, ends, even, odd)",
                           name, i));
        KL_TRY(copy_text(site_class[i], "a class", &l->site_class[i], err));
    }
    KL_TRY(kl_alloc(&l->bond, 2 * nbond, KL_MEM_MISC, err));
    if (bond_class != NULL) KL_TRY(kl_alloc(&l->bond_class, nbond, KL_MEM_MISC, err));
    l->nbond = nbond;
    for (int64_t b = 0; b < nbond; b++) {
        l->bond[2 * b] = bond[2 * b];
        l->bond[2 * b + 1] = bond[2 * b + 1];
        if (bond_class == NULL) continue;
        if (bond_class[b] != NULL && has_control(bond_class[b]))
            KL_TRY(kl_fail(err, KL_EINPUT, "lattice %.60s: bond %lld: its class holds a control character",
                           name, (long long)b));
        KL_TRY(copy_text(bond_class[b] != NULL ? bond_class[b] : "nn", "a class", &l->bond_class[b], err));
    }
    *out = l;
    l = NULL;
out:
    drop_lattice(&l);
    return st;
}

/* Adds bond b with its classes, separated by blanks. */
static kl_status add_bond(const kl_given_lattice *g, int64_t b, kl_lattice *lat, kl_err *err)
{
    kl_status st = KL_OK;
    const int i = g->bond[2 * b], j = g->bond[2 * b + 1];
    const int inside = i >= 0 && i < g->nsite && j >= 0 && j < g->nsite;
    const double r = g->xy == NULL || !inside || i == j
                         ? 1.0
                         : hypot(g->xy[2 * i] - g->xy[2 * j], g->xy[2 * i + 1] - g->xy[2 * j + 1]);
    const char *cls[KL_MAX_BOND_CLASS + 1] = {"nn"};
    char *words = NULL;
    int n = 1;
    if (g->bond_class != NULL) {
        words = kl_strdup(g->bond_class[b]);
        if (words == NULL) return kl_fail(err, KL_ENOMEM, "no memory for the class of a bond");
        n = 0;
        char *rest = words;
        for (char *w = strsep(&rest, " "); w != NULL && n <= KL_MAX_BOND_CLASS; w = strsep(&rest, " "))
            if (w[0] != '\0') cls[n++] = w;
    }
    KL_TRY(kl_lattice_add_bond(lat, i, j, r, cls, n, err));
out:
    kl_free(&words);
    return st;
}

static kl_status make_lattice(void *self, kl_lattice **out, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_given_lattice *const g = self;
    KL_TRY(kl_lattice_create_empty(g->name, g->nsite, out, err));
    for (int i = 0; i < g->nsite; i++) {
        (*out)->has_xy = g->xy != NULL;
        for (int k = 0; k < 2 && g->xy != NULL; k++) (*out)->xy[i][k] = g->xy[2 * i + k];
        if (g->site_class == NULL || g->site_class[i] == NULL) continue;
        KL_TRY(copy_text(g->site_class[i], "a class", &(*out)->site_class[i], err));
    }
    for (int64_t b = 0; b < g->nbond; b++) KL_TRY(add_bond(g, b, *out, err));
    KL_TRY(kl_lattice_finish(*out, err));
out:
    if (st != KL_OK) kl_lattice_destroy(out);
    return st;
}

kronlat_status kronlat_problem_set_lattice(kronlat_problem *problem, const char *name, int nsite,
                                           const double *xy, const char *const *site_class, int64_t nbond,
                                           const int *bond, const char *const *bond_class,
                                           kronlat_error *error)
{
    kl_status st = KL_OK;
    kl_err err = {{0}};
    kl_given_lattice *l = NULL;
    kl_lattice *tried = NULL;
    const kl_visit v = kl_visit_begin(problem);
    KL_TRY(copy_lattice(name, nsite, xy, site_class, nbond, bond, bond_class, &l, &err));
    KL_TRY(make_lattice(l, &tried, &err));
    drop_lattice(&problem->lattice);
    problem->lattice = l;
    l = NULL;
    kl_scene_release(&problem->scene);
out:
    kl_lattice_destroy(&tried);
    drop_lattice(&l);
    return kl_visit_end(v, st, &err, error);
}

/* ---------------------------------------------------------------- from settings to a run's objects */

kl_status kl_problem_options(const kronlat_problem *p, kl_command command, kl_options **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_options *o = NULL;
    *out = NULL;
    KL_TRY(kl_options_create(command, &o, err));
    KL_TRY(copy_text("(library)", "the options", &o->command_line, err));
    if (p->model != NULL) KL_TRY(kl_options_set(o, WHERE, "model", p->model, err));
    if (p->fcidump != NULL || p->integrals != NULL)
        KL_TRY(copy_text(p->fcidump != NULL ? p->fcidump : "(integrals in memory)", "the options", &o->file,
                         err));
    o->molecule = o->file != NULL && command == KL_CMD_DMRG;
    for (int i = 0; i < p->nsetting; i++) {
        const kl_setting *const s = &p->setting[i];
        kl_option_kind kind;
        if (kl_options_foreign(o, s->name)) continue; /* another method's */
        KL_TRY(kl_options_kind(o, WHERE, s->name, &kind, err));
        KL_TRY(kl_options_set(o, WHERE, s->name, kind == KL_OPTION_FLAG ? "" : s->value, err));
    }
    *out = o;
    o = NULL;
out:
    kl_options_destroy(&o);
    return st;
}

static kl_task_given given_by(const kronlat_problem *p)
{
    return (kl_task_given){.model_text = p->model_text,
                           .model_size = p->model_text != NULL ? (int64_t)strlen(p->model_text) : 0,
                           .integrals = p->integrals,
                           .self = p->lattice,
                           .lattice = p->lattice != NULL ? make_lattice : NULL};
}

kl_status kl_problem_new_scene(const kronlat_problem *p, kl_command command, kl_scene **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_options *o = NULL;
    kl_task *t = NULL;
    kl_result *done = NULL;
    const kl_task_given given = given_by(p);
    if (p->model == NULL && command != KL_CMD_DMRG)
        return kl_fail(err, KL_EINPUT,
                       "the problem is a molecule, which kronlat_ci and kronlat_dmrg are for");
    KL_TRY(kl_problem_options(p, command, &o, err));
    if (command == KL_CMD_DMRG) KL_TRY(kl_dmrgrun_open(o, &given, &t, &done, err));
    else KL_TRY(kl_edrun_open(o, &given, &t, &done, err));
    KL_TRY(new_scene(&o, &t, &done, 0, out, err));
out:
    kl_result_destroy(&done);
    kl_task_destroy(&t);
    kl_options_destroy(&o);
    return st;
}

kl_status kl_problem_scene(kronlat_problem *p, kl_command command, kl_err *err)
{
    if (p->scene != NULL && (p->made_for == command || p->scene->borrowed)) return KL_OK;
    kl_scene_release(&p->scene);
    const kl_status st = kl_problem_new_scene(p, command, &p->scene, err);
    if (st == KL_OK) p->made_for = command;
    return st;
}

kl_status kl_problem_system(kronlat_problem *p, kl_task **t, kl_err *err)
{
    kl_status st = KL_OK;
    kl_options *o = NULL;
    kl_task *made = NULL;
    kl_result *none = NULL;
    kl_task_given given = given_by(p);
    given.no_run = 1;
    if (p->scene == NULL || p->scene->t == NULL) {
        if (p->model == NULL) return kl_fail(err, KL_EINPUT, "the problem is a molecule, and has no lattice");
        kl_scene_release(&p->scene);
        KL_TRY(kl_problem_options(p, KL_CMD_ED, &o, err));
        KL_TRY(kl_task_create_given(o, &given, &made, err));
        KL_TRY(new_scene(&o, &made, &none, 0, &p->scene, err));
        p->made_for = KL_NCMD_ALL; /* no run's */
    }
    *t = p->scene->t;
out:
    kl_task_destroy(&made);
    kl_options_destroy(&o);
    return st;
}

/* ---------------------------------------------------------------- what there is */

static kl_status find_system(kronlat_problem *p, int site, kl_task **t, const kl_site_type **type,
                             kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_problem_system(p, t, err));
    if (type == NULL) return KL_OK;
    if (site < 0 || site >= (*t)->lat->nsite)
        return kl_fail(err, KL_EINPUT, "there is no site %d; allowed: 0 to %d", site, (*t)->lat->nsite - 1);
    const kl_terms *const plain = kl_task_plain(*t);
    *type = (plain != NULL ? plain : (*t)->terms)->type[(*t)->lat->position[site]];
out:
    return st;
}

kronlat_status kronlat_problem_sites(kronlat_problem *problem, int *nsite, kronlat_error *error)
{
    kl_err err = {{0}};
    kl_task *t;
    const kl_visit v = kl_visit_begin(problem);
    const kl_status st = find_system(problem, 0, &t, NULL, &err);
    *nsite = st == KL_OK ? t->lat->nsite : 0;
    return kl_visit_end(v, st, &err, error);
}

kronlat_status kronlat_problem_charges(kronlat_problem *problem, int *ncharge, kronlat_error *error)
{
    kl_err err = {{0}};
    kl_task *t;
    const kl_visit v = kl_visit_begin(problem);
    const kl_status st = find_system(problem, 0, &t, NULL, &err);
    *ncharge = st == KL_OK ? t->model->ncharge : 0;
    return kl_visit_end(v, st, &err, error);
}

kl_status kl_tell_charge(const kl_model *m, int c, const char **name, int *numerator, int *denominator,
                         int *modulus, kl_err *err)
{
    if (c < 0 || c >= m->ncharge)
        return kl_fail(err, KL_EINPUT, "there is no charge %d; the model has %d", c, m->ncharge);
    const kl_charge *const q = &m->charge[c];
    if (name != NULL) *name = q->name;
    if (numerator != NULL) *numerator = q->unit_num;
    if (denominator != NULL) *denominator = q->unit_den;
    if (modulus != NULL) *modulus = q->modulus;
    return KL_OK;
}

kronlat_status kronlat_problem_charge(kronlat_problem *problem, int c, const char **name, int *numerator,
                                      int *denominator, int *modulus, kronlat_error *error)
{
    kl_err err = {{0}};
    kl_task *t;
    const kl_visit v = kl_visit_begin(problem);
    kl_status st = find_system(problem, 0, &t, NULL, &err);
    if (st == KL_OK) st = kl_tell_charge(t->model, c, name, numerator, denominator, modulus, &err);
    return kl_visit_end(v, st, &err, error);
}

kronlat_status kronlat_problem_site_dimension(kronlat_problem *problem, int site, int *dimension,
                                              kronlat_error *error)
{
    kl_err err = {{0}};
    kl_task *t;
    const kl_site_type *type = NULL;
    const kl_visit v = kl_visit_begin(problem);
    const kl_status st = find_system(problem, site, &t, &type, &err);
    *dimension = st == KL_OK ? type->dim : 0;
    return kl_visit_end(v, st, &err, error);
}

kronlat_status kronlat_problem_site_state(kronlat_problem *problem, int site, int state, const char **name,
                                          kronlat_error *error)
{
    kl_err err = {{0}};
    kl_task *t;
    const kl_site_type *type = NULL;
    const kl_visit v = kl_visit_begin(problem);
    kl_status st = find_system(problem, site, &t, &type, &err);
    if (st == KL_OK && (state < 0 || state >= type->dim))
        st =
            kl_fail(&err, KL_EINPUT, "site %d has no state %d; allowed: 0 to %d", site, state, type->dim - 1);
    *name = st == KL_OK ? type->state_name[state] : NULL;
    return kl_visit_end(v, st, &err, error);
}

/* ---------------------------------------------------------------- callbacks */

void kronlat_problem_on_progress(kronlat_problem *problem,
                                 void (*told)(void *self, const kronlat_progress *progress), void *self)
{
    problem->told = told;
    problem->told_self = self;
}

void kronlat_problem_on_cancel(kronlat_problem *problem, int (*asked)(void *self), void *self)
{
    problem->asked = asked;
    problem->asked_self = self;
}

void kronlat_problem_on_note(kronlat_problem *problem, void (*told)(void *self, const char *text), void *self)
{
    problem->noted = told;
    problem->noted_self = self;
}

void kronlat_problem_keep_vectors(kronlat_problem *problem, int keep) { problem->keep_vectors = keep != 0; }
