/* The charges of a task: what may be asked for, and the sectors of a scan.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/task.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "model/mirror.h"

enum { MAX_SCAN = 10000 };

typedef struct charge_range { /* of the whole lattice, in stored units: low, low + step, ..., high */
    int64_t low, high, step;
} charge_range;

static charge_range range_of(const kl_terms *terms, int c)
{
    const int modulus = terms->model->charge[c].modulus;
    charge_range r = {0, 0, 0};
    for (int p = 0; p < terms->nsite; p++) {
        const kl_site_type *type = terms->type[p];
        int low = type->state_charge[0][c], high = low;
        for (int s = 1; s < type->dim; s++) {
            const int v = type->state_charge[s][c];
            if (v < low) low = v;
            if (v > high) high = v;
            r.step = kl_gcd(r.step, v - type->state_charge[0][c]);
        }
        r.low += low;
        r.high += high;
    }
    if (modulus > 0) {
        r.step = kl_gcd(r.step, modulus);
        r.low %= r.step > 0 ? r.step : modulus;
        r.high = r.step > 0 ? r.low + (modulus - 1 - r.low) / r.step * r.step : r.low;
    }
    if (r.step == 0) r.step = 1;
    if (terms->model->charge[c].spin) r.low = r.high % r.step;
    return r;
}

/* A stored value in the user's unit. */
static const char *value_text(const kl_charge *c, int64_t v, char buf[32])
{
    const int64_t num = v * c->unit_num;
    const int64_t g = kl_gcd(num, c->unit_den);
    if (g == 0 || num % c->unit_den == 0) snprintf(buf, 32, "%lld", (long long)(num / c->unit_den));
    else snprintf(buf, 32, "%lld/%lld", (long long)(num / g), (long long)(c->unit_den / g));
    return buf;
}

/* "Sz: -16 to 16 by 1" */
static const char *range_text(const kl_charge *c, charge_range r, char buf[128])
{
    char low[32], high[32], step[32];
    value_text(c, r.low, low);
    value_text(c, r.high, high);
    value_text(c, r.step, step);
    if (r.low == r.high) snprintf(buf, 128, "%s: %s", c->name, low);
    else if (r.step == 1) snprintf(buf, 128, "%s: %s to %s", c->name, low, high);
    else snprintf(buf, 128, "%s: %s to %s in steps of %s", c->name, low, high, step);
    return buf;
}

/* The middle of every range; of the total spin the smallest that goes with the other charges. */
static kl_qn likely_charges(const kl_task *t)
{
    const kl_model *m = t->model;
    kl_qn q = kl_qn_zero();
    int spin = -1;
    for (int c = 0; c < m->ncharge; c++) {
        const charge_range r = range_of(t->terms, c);
        if (m->charge[c].spin) spin = c;
        q.v[c] = (int16_t)(m->charge[c].spin ? r.low : r.low + (r.high - r.low) / r.step / 2 * r.step);
    }
    kl_reach all = {0};
    if (spin < 0) return q;
    if (kl_reach_create(m, t->terms->type, 0, t->terms->nsite, 4096, &all, NULL) != KL_OK)
        return q; /* an example is not worth a failure */
    if (kl_reach_find(&all, q) < 0) q.v[spin]++;
    kl_reach_clear(&all);
    return q;
}

static kl_status refuse_missing(const kl_task *t, const int *given, kl_err *err)
{
    const kl_model *m = t->model;
    const kl_qn likely = likely_charges(t);
    char missing[128] = "", allowed[384] = "", example[256] = "", one[128], value[32];
    for (int c = 0; c < m->ncharge; c++) {
        const charge_range r = range_of(t->terms, c);
        const size_t at = strlen(missing), in = strlen(allowed), ex = strlen(example);
        if (!given[c])
            snprintf(missing + at, sizeof(missing) - at, "%s%s", at > 0 ? ", " : "", m->charge[c].name);
        if (!given[c])
            snprintf(allowed + in, sizeof(allowed) - in, "%s%s", in > 0 ? "; " : "",
                     range_text(&m->charge[c], r, one));
        snprintf(example + ex, sizeof(example) - ex, " --charge %s=%s", m->charge[c].name,
                 value_text(&m->charge[c], likely.v[c], value));
    }
    return kl_fail(err, KL_EINPUT,
                   "--charge: %s of model %s %s not given; allowed on %d sites: %s; for example%s, or "
                   "--charge scan to try all",
                   missing, m->name, strchr(missing, ',') != NULL ? "are" : "is", t->terms->nsite, allowed,
                   example);
}

/* Of a molecule electrons and irrep say all. */
static kl_status molecule_charges(kl_task *t, kl_err *err)
{
    const kl_moleculetask *const x = t->molecule;
    const int all = x->irrep < 0;
    for (int c = 0; c < t->model->ncharge && all; c++)
        if (t->model->charge[c].modulus > 0) t->scan[c] = t->scanning = 1;
    return kl_molecule_target(x->m, x->nup, x->ndn, all ? 0 : x->irrep, &t->target, err);
}

static int fits_range(charge_range r, int64_t v)
{
    return v >= r.low && v <= r.high && (v - r.low) % r.step == 0;
}

/* The value at *text, which moves behind it and its separator; *then: that separator, 0 at the end. */
static kl_status next_value(const kl_task *t, int c, const char **text, int *value, char *then, kl_err *err)
{
    char one[64];
    kl_qn q = kl_qn_zero();
    const size_t n = strcspn(*text, ":,");
    snprintf(one, sizeof one, "%.*s", (int)(n < sizeof one ? n : sizeof one - 1), *text);
    const kl_status st =
        kl_option_says("charge", kl_qn_set(t->model, &q, t->model->charge[c].name, one, err), err);
    *value = q.v[c];
    *then = (*text)[n];
    *text += n + (*then != '\0');
    return st;
}

/* Whether charge c, which is scanned, may be v: in FROM:TO[:STEP], or one of A,B,... */
static kl_status is_wanted(const kl_task *t, int c, int v, int *wanted, kl_err *err)
{
    kl_status st = KL_OK;
    const char *text = t->scan_values[c];
    int value, to, step = 1;
    char then = ',';
    *wanted = text == NULL;
    if (text == NULL) return KL_OK;
    KL_TRY(next_value(t, c, &text, &value, &then, err));
    if (then == ':') {
        KL_TRY(next_value(t, c, &text, &to, &then, err));
        if (then == ':') KL_TRY(next_value(t, c, &text, &step, &then, err));
        if (then != '\0' || step <= 0 || to < value)
            return kl_fail(err, KL_EINPUT,
                           "--charge: %s=%s is no range; it is FROM:TO or FROM:TO:STEP, rising",
                           t->model->charge[c].name, t->scan_values[c]);
        *wanted = v >= value && v <= to && (v - value) % step == 0;
        return KL_OK;
    }
    for (;;) {
        *wanted |= v == value;
        if (then == '\0') return KL_OK;
        KL_TRY(next_value(t, c, &text, &value, &then, err));
        if (then == ':')
            return kl_fail(err, KL_EINPUT, "--charge: %s=%s is a range or a list, not both",
                           t->model->charge[c].name, t->scan_values[c]);
    }
out:
    return st;
}

/* A range or a list: its values have to be such that a state could have. */
static kl_status check_values(const kl_task *t, int c, const char *text, kl_err *err)
{
    kl_status st = KL_OK;
    const charge_range r = range_of(t->terms, c);
    const int range = strchr(text, ':') != NULL;
    char then = ',', allowed[128];
    int wanted;
    KL_TRY(is_wanted(t, c, 0, &wanted, err));
    for (int k = 0; then != '\0' && !(range && k == 2); k++) {
        const char *const from = text;
        int value;
        KL_TRY(next_value(t, c, &text, &value, &then, err));
        if (!fits_range(r, value))
            return kl_fail(err, KL_EINPUT, "--charge: %s=%.*s cannot be had on %d sites; allowed: %s",
                           t->model->charge[c].name, (int)strcspn(from, ":,"), from, t->terms->nsite,
                           range_text(&t->model->charge[c], r, allowed));
    }
out:
    return st;
}

/* "sites/2", "3*sites/4": a part of the number of sites, as a fraction; other texts as they are. */
static const char *part_of_sites(const kl_task *t, const char *text, char out[64])
{
    const char *const word = strstr(text, "sites");
    int64_t times = 1, by = 1;
    if (word == NULL) return text;
    const char *const behind = word + strlen("sites");
    snprintf(out, 64, "%.*s", (int)(word > text ? word - text - 1 : 0), text);
    if (word > text && (word[-1] != '*' || !kl_parse_int(out, &times))) return text;
    if (*behind != '\0' && (*behind != '/' || !kl_parse_int(behind + 1, &by) || by < 1)) return text;
    const int64_t whole = times * t->lat->nsite, g = kl_gcd(whole, by);
    if (whole % by == 0) snprintf(out, 64, "%lld", (long long)(whole / by));
    else snprintf(out, 64, "%lld/%lld", (long long)(whole / g), (long long)(by / g));
    return out;
}

kl_status kl_task_charges(kl_task *t, kl_err *err)
{
    const kl_model *m = t->model;
    int given[KL_MAX_CHARGE] = {0}, scan_all = 0;
    t->target = kl_qn_zero();
    if (t->molecule != NULL) return molecule_charges(t, err);
    for (int i = 0; i < t->o->charge.n; i++) {
        const char *text = t->o->charge.text[i];
        const size_t length = kl_split_name(text);
        if (length == 0) {
            scan_all = 1;
            continue;
        }
        char name[128];
        snprintf(name, sizeof(name), "%.*s", (int)(length < sizeof(name) ? length : sizeof(name) - 1), text);
        int c = 0;
        while (c < m->ncharge && strcmp(m->charge[c].name, name) != 0) c++;
        if (c < m->ncharge && strcmp(text + length + 1, "scan") == 0) {
            t->scan[c] = 1;
            given[c] = 1;
            continue;
        }
        if (c < m->ncharge && strpbrk(text + length, ":,") != NULL) {
            t->scan[c] = 1;
            given[c] = 1;
            t->scan_values[c] = text + length + 1;
            const kl_status good = check_values(t, c, text + length + 1, err);
            if (good != KL_OK) return good;
            continue;
        }
        char part[64];
        const kl_status st = kl_option_says(
            "charge", kl_qn_set(m, &t->target, name, part_of_sites(t, text + length + 1, part), err), err);
        if (st != KL_OK) return st;
        const charge_range r = range_of(t->terms, c);
        const int v = t->target.v[c];
        if (!fits_range(r, v)) {
            char allowed[128];
            return kl_fail(err, KL_EINPUT, "--charge: %s cannot be had on %d sites; allowed: %s", text,
                           t->terms->nsite, range_text(&m->charge[c], r, allowed));
        }
        given[c] = 1;
    }
    for (int c = 0; c < m->ncharge; c++) {
        if (!given[c] && !scan_all) return refuse_missing(t, given, err);
        if (!given[c]) t->scan[c] = 1;
        t->scanning |= t->scan[c];
    }
    return KL_OK;
}

kl_status kl_task_one_sector(const kl_task *t, const char *what, kl_err *err)
{
    return t->scanning
               ? kl_fail(err, KL_EINPUT, "--charge scan: %s one sector; give each charge a value", what)
               : KL_OK;
}

kl_status kl_task_sectors(const kl_task *t, int64_t *n, kl_qn **sector, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t all = 0, kept = 0;
    KL_TRY(kl_dmrg_sectors(t->terms, sector, &all, err));
    for (int64_t i = 0; i < all; i++) {
        int fits = 1;
        for (int c = 0; c < t->model->ncharge && fits; c++) {
            const int v = (*sector)[i].v[c];
            if (t->scan[c]) KL_TRY(is_wanted(t, c, v, &fits, err));
            else fits = v == t->target.v[c];
        }
        if (fits) (*sector)[kept++] = (*sector)[i];
    }
    if (kept == 0) KL_TRY(kl_fail(err, KL_EINPUT, "--charge: no state has these charges together"));
    if (kept > MAX_SCAN)
        KL_TRY(
            kl_fail(err, KL_EINPUT,
                    "--charge scan: %lld sectors are more than %d; fix some charges by --charge NAME=VALUE",
                    (long long)kept, (int)MAX_SCAN));
    *n = kept;
out:
    if (st != KL_OK) kl_free(sector);
    return st;
}

kl_status kl_task_images(const kl_task *t, int64_t n, const kl_qn *sector, int64_t *image, kl_err *err)
{
    kl_status st = KL_OK;
    kl_mirror by;
    int found = 0;
    for (int64_t i = 0; i < n; i++) image[i] = -1;
    if (t->molecule == NULL && n > 1) KL_TRY(kl_mirror_find(t->terms, &found, &by, err));
    for (int64_t i = 0; found && i < n; i++) {
        const kl_qn other = kl_mirror_image(t->model, &by, sector[i]);
        int64_t low = 0, high = i; /* sectors ascend */
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (kl_qn_cmp(sector[middle], other) < 0) low = middle + 1;
            else high = middle;
        }
        if (low < i && kl_qn_cmp(sector[low], other) == 0) image[i] = low;
    }
out:
    return st;
}
