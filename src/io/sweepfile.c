/* The table of sweeps of a result file: one row each, of fixed width.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/sweepfile.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"

typedef struct sweep_record { /* as in kl_dmrg_row, of fixed width */
    int64_t m, m_reached, napply, dim_max;
    double noise, change, discarded, seconds, flop;
    int64_t held, m_start, probed, wait; /* held: 0 in files of version 0.1.0, which have none of these */
    double residual, kept, gap[KL_NGUARD];
    int64_t sites; /* 0: two, and no variance: files from before one-site sweeps */
    double variance, unit; /* unit: 0, which is 1, in such files */
    int64_t states; /* 0: not known */
    int64_t again, folded;
    double energy[KL_MAX_STATE];
} sweep_record;

/* The compound type with nstate energies; in_memory keeps the record's own offsets, on disk it is packed. */
static hid_t sweep_type(int nstate, int in_memory)
{
    static const struct {
        const char *name;
        size_t at;
        int is_int;
    } field[] = {
        {"m", offsetof(sweep_record, m), 1},
        {"m_reached", offsetof(sweep_record, m_reached), 1},
        {"products", offsetof(sweep_record, napply), 1},
        {"dim_max", offsetof(sweep_record, dim_max), 1},
        {"noise", offsetof(sweep_record, noise), 0},
        {"change", offsetof(sweep_record, change), 0},
        {"discarded", offsetof(sweep_record, discarded), 0},
        {"seconds", offsetof(sweep_record, seconds), 0},
        {"flop", offsetof(sweep_record, flop), 0},
        {"held", offsetof(sweep_record, held), 1},
        {"m_start", offsetof(sweep_record, m_start), 1},
        {"probed", offsetof(sweep_record, probed), 1},
        {"wait", offsetof(sweep_record, wait), 1},
        {"residual", offsetof(sweep_record, residual), 0},
        {"kept", offsetof(sweep_record, kept), 0},
        {"gap_1", offsetof(sweep_record, gap[0]), 0},
        {"gap_2", offsetof(sweep_record, gap[1]), 0},
        {"sites", offsetof(sweep_record, sites), 1},
        {"variance", offsetof(sweep_record, variance), 0},
        {"unit", offsetof(sweep_record, unit), 0},
        {"states", offsetof(sweep_record, states), 1},
        {"again", offsetof(sweep_record, again), 1},
        {"folded", offsetof(sweep_record, folded), 1},
    };
    static_assert(KL_NGUARD == 2, "the gaps' names are written out");
    enum { NFIELD = sizeof(field) / sizeof(field[0]) };
    const hsize_t n = (hsize_t)nstate;
    const hid_t energies = H5Tarray_create2(in_memory ? H5T_NATIVE_DOUBLE : H5T_IEEE_F64LE, 1, &n);
    const hid_t type =
        H5Tcreate(H5T_COMPOUND, in_memory ? sizeof(sweep_record) : 8 * (size_t)(NFIELD + nstate));
    for (size_t i = 0; i < NFIELD; i++) {
        const hid_t number = field[i].is_int ? (in_memory ? H5T_NATIVE_INT64 : H5T_STD_I64LE)
                                             : (in_memory ? H5T_NATIVE_DOUBLE : H5T_IEEE_F64LE);
        H5Tinsert(type, field[i].name, in_memory ? field[i].at : 8 * i, number);
    }
    H5Tinsert(type, "energy", in_memory ? offsetof(sweep_record, energy) : 8 * (size_t)NFIELD, energies);
    H5Tclose(energies);
    return type;
}

/* Exact diagonalization may have more states, but has no sweeps. */
static int levels(const kl_dmrg_result *d) { return d->nstate < KL_MAX_STATE ? d->nstate : KL_MAX_STATE; }

kl_status kl_sweepfile_put(kl_h5_out *w, const kl_dmrg_result *d, kl_err *err)
{
    sweep_record *record = NULL;
    kl_status st = kl_alloc(&record, d->nrow, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    for (int i = 0; i < d->nrow; i++) {
        const kl_dmrg_row *r = &d->row[i];
        record[i] = (sweep_record){.m = r->m,
                                   .m_reached = r->m_reached,
                                   .napply = r->napply,
                                   .dim_max = r->dim_max,
                                   .noise = r->noise,
                                   .change = r->change,
                                   .discarded = r->discarded,
                                   .seconds = r->seconds,
                                   .flop = r->flop,
                                   .held = r->held,
                                   .m_start = r->m_start,
                                   .probed = r->probed,
                                   .wait = r->wait,
                                   .residual = r->residual,
                                   .kept = r->kept,
                                   .sites = r->sites,
                                   .variance = r->variance,
                                   .unit = r->unit,
                                   .states = r->states,
                                   .again = r->again,
                                   .folded = r->folded};
        memcpy(record[i].gap, r->gap, sizeof(r->gap));
        memcpy(record[i].energy, r->energy, sizeof(r->energy));
    }
    const hsize_t n = (hsize_t)d->nrow;
    const hid_t on_disk = sweep_type(levels(d), 0), in_memory = sweep_type(levels(d), 1);
    kl_h5_put_array(w, w->file, "sweeps", on_disk, in_memory, 1, &n, record, "one row for each sweep");
    H5Tclose(on_disk);
    H5Tclose(in_memory);
    kl_free(&record);
    return KL_OK;
}

int64_t kl_sweepfile_size(const kl_dmrg_result *d) { return d->nrow * (int64_t)sizeof(sweep_record); }

kl_status kl_sweepfile_get(const kl_h5_in *in, kl_dmrg_result *d, kl_err *err)
{
    kl_status st = KL_OK;
    sweep_record *record = NULL;
    const hid_t in_memory = sweep_type(levels(d), 1);
    int64_t n = -1;
    KL_TRY(kl_h5_get_array(in, in->file, "sweeps", in_memory, 1, &n, KL_MEM_MISC, (void **)&record, err));
    if (n > 0 && d->nstate > KL_MAX_STATE)
        KL_TRY(kl_h5_bad(in, "sweeps", "has rows of too many states", err));
    if (n > 10000000) KL_TRY(kl_h5_bad(in, "sweeps", "has too many rows", err));
    KL_TRY(kl_alloc(&d->row, n, KL_MEM_MISC, err));
    for (int64_t i = 0; i < n; i++) {
        const sweep_record *r = &record[i];
        if (r->m < 0 || r->m > INT32_MAX || r->m_reached < 0 || r->m_reached > INT32_MAX || r->m_start < 0 ||
            r->m_start > INT32_MAX)
            KL_TRY(kl_h5_bad(in, "sweeps", "holds an impossible m", err));
        if (r->held < 0 || r->held > KL_MAX_STATE || r->wait < 0 || r->wait > KL_WAIT_GUARD)
            KL_TRY(kl_h5_bad(in, "sweeps", "holds an impossible row", err));
        kl_dmrg_row *to = &d->row[i];
        to->m = (int)r->m;
        to->m_reached = (int)r->m_reached;
        to->noise = r->noise;
        memcpy(to->energy, r->energy, sizeof(double) * (size_t)d->nstate);
        to->change = r->change;
        to->discarded = r->discarded;
        to->seconds = r->seconds;
        to->napply = r->napply;
        to->dim_max = r->dim_max;
        to->flop = r->flop;
        to->held = (int)r->held;
        to->m_start = (int)r->m_start;
        to->probed = r->probed != 0;
        to->wait = (int)r->wait;
        to->residual = r->held ? r->residual : NAN;
        to->kept = r->held ? r->kept : NAN;
        to->states = r->states > 0 ? r->states : 0;
        to->again = r->again != 0;
        to->folded = r->folded >= KL_NOT_FOLDED && r->folded <= KL_NO_IMAGE ? (int)r->folded : KL_NOT_FOLDED;
        to->sites = r->sites == 1 ? 1 : 2;
        to->variance = r->sites == 1 ? r->variance : NAN;
        to->unit = r->unit > 0 ? r->unit : 1;
        for (int k = 0; k < KL_NGUARD; k++) to->gap[k] = r->held ? r->gap[k] : NAN;
    }
    d->nrow = (int)n;
out:
    H5Tclose(in_memory);
    kl_free(&record);
    return st;
}
