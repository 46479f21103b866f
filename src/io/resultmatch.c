/* Whether a result fits what is asked now: model, lattice, charges and parameters; and how these are told.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/result.h"

#include <stdio.h>
#include <string.h>

uint64_t kl_lattice_fingerprint(const kl_lattice *lat)
{
    uint64_t h = kl_hash_mix(KL_HASH_EMPTY, (uint64_t)lat->nsite);
    for (int p = 0; p < lat->nsite; p++) h = kl_hash_mix(h, (uint64_t)lat->order[p]);
    for (int b = 0; b < lat->nbond; b++) {
        const kl_bond *bond = &lat->bond[b];
        uint64_t r;
        memcpy(&r, &bond->r, sizeof(r));
        h = kl_hash_mix(kl_hash_mix(kl_hash_mix(kl_hash_mix(h, (uint64_t)bond->i), (uint64_t)bond->j),
                                    (uint64_t)bond->reversed),
                        r);
        for (int c = 0; c < bond->nclass; c++)
            for (const char *p = lat->bond_class[bond->cls[c]]; *p != '\0'; p++)
                h = kl_hash_mix(h, (unsigned char)*p);
    }
    for (int i = 0; i < lat->nsite && lat->site_class != NULL; i++)
        if (lat->site_class[i] != NULL) {
            h = kl_hash_mix(h, (uint64_t)i);
            for (const char *p = lat->site_class[i]; *p != '\0'; p++) h = kl_hash_mix(h, (unsigned char)*p);
        }
    return h;
}

int64_t kl_result_param_count(const kl_result_param *p) { return p->some ? p->nused : p->n; }

double kl_result_param_at(const kl_result_param *p, int64_t k) { return p->value[p->some ? p->used[k] : k]; }

int kl_result_param_even(const kl_result_param *p)
{
    const int64_t n = kl_result_param_count(p);
    for (int64_t k = 1; k < n; k++)
        if (kl_result_param_at(p, k) != kl_result_param_at(p, 0)) return 0;
    return n > 0;
}

char *kl_result_print_charges(const kl_result *r, char *buf, size_t size)
{
    size_t at = 0;
    buf[0] = '\0';
    for (int c = 0; c < r->ncharge && at < size; c++) {
        const kl_result_charge *q = &r->charge[c];
        const int64_t num = (int64_t)q->value * q->unit_num;
        const char *gap = c > 0 ? " " : "";
        int irrep = 1, bit;
        if (kl_charge_irrep_bit(q->name) == 0) {
            for (; c < r->ncharge && (bit = kl_charge_irrep_bit(r->charge[c].name)) >= 0; c++)
                irrep += r->charge[c].value << bit;
            c--;
            at += (size_t)snprintf(buf + at, size - at, "%sirrep=%d", gap, irrep);
            continue;
        }
        if (num % q->unit_den == 0)
            at += (size_t)snprintf(buf + at, size - at, "%s%s=%lld", gap, q->name,
                                   (long long)(num / q->unit_den));
        else
            at += (size_t)snprintf(buf + at, size - at, "%s%s=%lld/%d", gap, q->name, (long long)num,
                                   q->unit_den);
    }
    return buf;
}

int kl_result_has_spin(const kl_result *r)
{
    static const char tail[] = "spin=SU(2)"; /* of gen/tables.lua */
    const size_t n = strlen(r->variant);
    return n >= sizeof tail - 1 && strcmp(r->variant + n - (sizeof tail - 1), tail) == 0;
}

int kl_result_components(const kl_result *r)
{
    for (int c = 0; c < r->ncharge && kl_result_has_spin(r); c++)
        if (strcmp(r->charge[c].name, "S") == 0) return (int)r->charge[c].value + 1;
    return 1;
}

kl_status kl_result_match(const char *path, const kl_result *r, const kl_model *m, const kl_lattice *lat,
                          const kl_params *p, kl_qn target, kl_match use, kl_err *err)
{
    if (strcmp(r->model, m->name) != 0 || strcmp(r->variant, m->variant) != 0)
        return kl_fail(err, KL_EINPUT, "%.300s: holds a state of model %s(%s), not of %s(%s)", path, r->model,
                       r->variant, m->name, m->variant);
    if (r->model_hash != m->hash && r->hash_of_text && use != KL_MATCH_START)
        return kl_fail(
            err, KL_EINPUT,
            "%.300s: kronlat %.40s told models apart by their text, so that today's %s may be another "
            "one (show and plot read the file, and dmrg can --start from a state in it)",
            path, r->program, m->name);
    if (r->model_hash != m->hash && strcmp(m->source, "FCIDUMP") == 0)
        return kl_fail(err, KL_EINPUT,
                       "%.300s: was made from other integrals than those of %.300s (fingerprint %016llx, now "
                       "%016llx)",
                       path, lat->spec, (unsigned long long)r->model_hash, (unsigned long long)m->hash);
    if (r->model_hash != m->hash && !r->hash_of_text)
        return kl_fail(err, KL_EINPUT,
                       "%.300s: was made with another version of model %s (fingerprint %016llx, now %016llx)",
                       path, m->name, (unsigned long long)r->model_hash, (unsigned long long)m->hash);
    if (r->nsite != lat->nsite)
        return kl_fail(err, KL_EINPUT, "%.300s: holds a state of %d sites (%s); this lattice has %d", path,
                       r->nsite, r->lattice, lat->nsite);
    if (memcmp(r->order, lat->order, sizeof(int) * (size_t)r->nsite) != 0)
        return kl_fail(err, KL_EINPUT,
                       "%.300s: holds a state of another order of the sites; give the same --order", path);
    if (use == KL_MATCH_RUN && r->lattice_hash != kl_lattice_fingerprint(lat))
        return kl_fail(err, KL_EINPUT, "%.300s: was made on lattice %s, whose bonds differ from those of %s",
                       path, r->lattice, lat->spec);
    for (int c = 0; c < m->ncharge; c++)
        for (int k = 0; k < r->ncharge; k++) /* what is not among them was summed over */
            if (strcmp(r->charge[k].name, m->charge[c].name) == 0 && r->charge[k].value != target.v[c]) {
                char have[256], want[256];
                return kl_fail(err, KL_EINPUT, "%.300s: holds a state with %s, not %s", path,
                               kl_result_print_charges(r, have, sizeof(have)),
                               kl_qn_print(m, target, want, sizeof(want)));
            }
    for (int i = 0; i < m->nparam && use == KL_MATCH_RUN; i++) {
        const kl_result_param *have = NULL;
        for (int k = 0; k < r->nparam; k++)
            if (strcmp(r->param[k].name, m->param[i].name) == 0) have = &r->param[k];
        if (have == NULL)
            return kl_fail(err, KL_EINPUT, "%.300s: has no value of parameter %s", path, m->param[i].name);
        if (m->param[i].kind == KL_PARAM_SCALAR) {
            if (have->n != 1 || have->value[0] != p->scalar[i])
                return kl_fail(err, KL_EINPUT,
                               "%.300s: was made with %s=%.17g, not %.17g; to start from it with another "
                               "value give --start",
                               path, have->name, have->n > 0 ? have->value[0] : 0.0, p->scalar[i]);
        } else if (have->n != (m->param[i].kind == KL_PARAM_SITE ? p->nsite : p->nbond) ||
                   (have->n > 0 && memcmp(have->value, p->array[i], sizeof(double) * (size_t)have->n) != 0)) {
            const kl_result_param now = {.n = m->param[i].kind == KL_PARAM_SITE ? p->nsite : p->nbond,
                                         .value = p->array[i]};
            if (kl_result_param_even(have) && kl_result_param_even(&now))
                return kl_fail(err, KL_EINPUT,
                               "%.300s: was made with %s=%.17g, not %.17g; to start from it with another "
                               "value give --start",
                               path, have->name, kl_result_param_at(have, 0), now.value[0]);
            return kl_fail(
                err, KL_EINPUT,
                "%.300s: was made with other values of the array %s; to start from it give --start", path,
                have->name);
        }
    }
    return KL_OK;
}
