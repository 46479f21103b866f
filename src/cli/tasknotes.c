/* What of a model stands nowhere on its lattice: see tasknotes.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/tasknotes.h"

#include <stdio.h>
#include <string.h>

#include "cli/rankscli.h"
#include "cli/report.h"

static int bonds_of(const kl_lattice *lat, const char *name)
{
    const int cls = kl_lattice_class(lat, name);
    int n = 0;
    for (int b = 0; b < lat->nbond; b++)
        for (int c = 0; c < lat->bond[b].nclass; c++) n += lat->bond[b].cls[c] == cls;
    return n;
}

/* 1: a term before this one is for the same bonds, or runs of as many sites. */
static int is_again(const kl_model *m, int term)
{
    const kl_term_def *const d = &m->term[term];
    for (int k = 0; k < term; k++) {
        const kl_term_def *const e = &m->term[k];
        if (e->check || e->place != d->place || e->nslot != d->nslot) continue;
        if (d->place != KL_PLACE_BOND || strcmp(e->where, d->where) == 0) return 1;
    }
    return 0;
}

/* What there is to say of a term; "": nothing. twice: the lattice, pairs that are joined both ways around
   counting twice; or NULL. */
static void note_of(const kl_task *t, const kl_term_def *d, const kl_lattice *twice, char *note, size_t size)
{
    const kl_lattice *const lat = t->lat;
    const int bond = d->place == KL_PLACE_BOND;
    const int n = bond ? bonds_of(lat, d->where) : lat->nsite - d->nslot + 1;
    const int more = bond && twice != NULL ? bonds_of(twice, d->where) - n : 0;
    note[0] = 0;
    if (bond && n == 0)
        snprintf(note, size,
                 "%s:%d: %.100s of %d sites has no bond of class %s: what stands on them adds nothing",
                 t->model->source, d->line, lat->spec, lat->nsite, d->where);
    else if (!bond && n < 1)
        snprintf(note, size, "%s:%d: %.100s has no %d sites in a row: what stands on them adds nothing",
                 t->model->source, d->line, lat->spec, d->nslot);
    else if (more > 0)
        snprintf(note, size,
                 "%.100s joins pairs of class %s both ways around (%d): such a pair counts once, with "
                 "--double-bonds twice",
                 lat->spec, d->where, more);
}

/* 1: the values of parameter k were listed one by one, or in a file. */
static int is_listed(const kl_options *o, const char *name)
{
    int listed = 0;
    for (int i = 0; i < o->parameter.n; i++) {
        const char *const text = o->parameter.text[i];
        const size_t n = kl_split_name(text);
        if (strlen(name) != n || memcmp(text, name, n) != 0) continue;
        const char *const value = text + n + (text[n] != 0);
        listed = value[0] == '@' || (strchr("0123456789+-.", value[0]) != NULL && strpbrk(value, ", ;\n"));
    }
    return listed;
}

/* The bonds that listed values of parameter k belong to, where they are no walk along the sites: a list in
   the order in which a file names its bonds, or with the bond that closes a ring as the last one, would be
   another Hamiltonian. "": there is nothing to say. */
static void note_order(const kl_task *t, int k, char *note, size_t size)
{
    enum { SHOWN = 4 };
    const kl_params *const p = t->params;
    const kl_param_def *const def = &t->model->param[k];
    int walk = 1;
    note[0] = 0;
    if (def->kind != KL_PARAM_BOND || !is_listed(t->o, def->name)) return;
    char pair[64], list[400] = "";
    for (int e = 0; e < p->nentry[k]; e++) {
        const kl_bond *const b = &t->lat->bond[p->entry[k][e]];
        const int skipped = e >= SHOWN && e < p->nentry[k] - 1;
        walk &= b->i == e && b->j == e + 1;
        snprintf(pair, sizeof pair, skipped ? "%s..." : "%s%d-%d", e > 0 ? ", " : "", b->i, b->j);
        if (!skipped || e == SHOWN) strcat(list, pair);
    }
    if (!walk)
        snprintf(note, size, "the values of %.80s go to the bonds by the lower site, then by the higher: %s",
                 def->name, list);
}

kl_status kl_tasknotes(const kl_task *t, kl_err *err)
{
    static char told[1000]; /* of the call before */
    char all[sizeof told] = ""; /* a note a line */
    kl_lattice *twice = NULL;
    kl_status st = KL_OK;
    const kl_lattice *const lat = t->lat;
    if (t->molecule != NULL || t->o->resume != NULL || !kl_rankscli_tells()) return KL_OK;
    if (lat->kind != KL_LATTICE_FILE && !t->o->double_bonds)
        KL_TRY(kl_lattice_create(lat->spec, lat->nsite, 1, &twice, err));
    for (int k = 0; k < t->model->nterm; k++) {
        const kl_term_def *const d = &t->model->term[k];
        char note[300];
        if (d->check || (d->place != KL_PLACE_BOND && d->place != KL_PLACE_RUN) || is_again(t->model, k))
            continue;
        note_of(t, d, twice, note, sizeof note);
        const size_t used = strlen(all);
        if (note[0] != 0 && used + strlen(note) + 2 < sizeof all) sprintf(all + used, "%s\n", note);
    }
    for (int k = 0; k < t->model->nparam; k++) {
        char note[600];
        note_order(t, k, note, sizeof note);
        const size_t used = strlen(all);
        if (note[0] != 0 && used + strlen(note) + 2 < sizeof all) sprintf(all + used, "%s\n", note);
    }
    const int again = strcmp(all, told) == 0;
    memcpy(told, all, sizeof told);
    for (char *line = strtok(all, "\n"); line != NULL && !again; line = strtok(NULL, "\n"))
        kl_report_note(line);
out:
    kl_lattice_destroy(&twice);
    return st;
}
