/* Results of exact diagonalization in a result file: energies, spectral functions, thermodynamics.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EDRESULT_H
#define KL_EDRESULT_H
#include "ed/ed.h"
#include "ed/edspectral.h"
#include "ed/edthermal.h"
#include "io/result.h"

/* ORDER of "ed/run", a list of numbers */
enum {
    KL_EDRUN_DIM,
    KL_EDRUN_LENGTH,
    KL_EDRUN_FLAVOURS,
    KL_EDRUN_LEFT,
    KL_EDRUN_RIGHT,
    KL_EDRUN_NVECTOR,
    KL_EDRUN_TABLES,
    KL_EDRUN_MATRIX,
    KL_EDRUN_SOLVER,
    KL_EDRUN_NAPPLY,
    KL_EDRUN_NRESTART,
    KL_EDRUN_ATTAINABLE,
    KL_EDRUN_OPEN,
    KL_EDRUN_STOP,
    KL_EDRUN_SECONDS,
    KL_EDRUN_SECONDS_PRODUCTS,
    KL_EDRUN_SECONDS_BUILD,
    KL_NEDRUN
};
/* Energies, residuals, errors and what the run was. */
kl_status kl_edresult_add(kl_result *r, const kl_ed *ed, const kl_ed_result *found,
                          kl_err *err) KL_MUST_CHECK;
/* A list of at least n numbers under this name; NULL: there is none. */
const double *kl_edresult_list(const kl_result *r, const char *name, int64_t n);
/* What kl_edresult_add has put there of states: energies, residuals, errors, multiplets, and how the run
   ended; not all energies of a sector, nor its work. EINPUT: r is of no such run. */
kl_status kl_edresult_states(const kl_result *r, kl_ed_result *found, kl_err *err) KL_MUST_CHECK;
/* The states of the lowest multiplet, where there are several and all were found; else 0. */
int kl_edresult_whole(const kl_ed_result *found);
/* A curve under the name of its operator; several states of a multiplet are averaged by the caller. */
kl_status kl_edresult_add_spectral(kl_result *r, const char *name, double broadening, const kl_ed_spectral *s,
                                   kl_err *err) KL_MUST_CHECK;
/* Rows by temperature; chi of what is made of charges in scan[] alone (kl_thermal_charges). */
kl_status kl_edresult_add_thermal(kl_result *r, const kl_model *m, const int scan[KL_MAX_CHARGE], int nsample,
                                  const kl_thermal_facts *facts, int n, const kl_thermal_row *row,
                                  kl_err *err) KL_MUST_CHECK;

/* 1: r is of exact diagonalization. */
int kl_edresult_is(const kl_result *r);
#endif
