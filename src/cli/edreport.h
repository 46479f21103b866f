/* Results of exact diagonalization in a result file, and how they are printed: the same from a run and from
   `kronlat show'.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EDREPORT_H
#define KL_EDREPORT_H
#include "ed/ed.h"
#include "ed/edspectral.h"
#include "ed/edthermal.h"
#include "cli/report.h"

/* Energies, residuals, errors and what the run was. */
kl_status kl_edreport_add(kl_result *r, const kl_ed *ed, const kl_ed_result *found,
                          kl_err *err) KL_MUST_CHECK;
/* A curve under the name of its operator; several states of a multiplet are averaged by the caller. */
kl_status kl_edreport_add_spectral(kl_result *r, const char *name, double broadening, const kl_ed_spectral *s,
                                   kl_err *err) KL_MUST_CHECK;
/* Rows by temperature; chi of the charges that are in scan[]. */
kl_status kl_edreport_add_thermal(kl_result *r, const kl_model *m, const int scan[KL_MAX_CHARGE], int nsample,
                                  const kl_thermal_facts *facts, int n, const kl_thermal_row *row,
                                  kl_err *err) KL_MUST_CHECK;

/* 1: r is of exact diagonalization. */
int kl_edreport_is(const kl_result *r);
/* facts may be NULL (`show'). */
void kl_edreport_text(FILE *to, const kl_result *r, const kl_run_facts *facts);
void kl_edreport_json(FILE *to, const kl_result *r, const kl_run_facts *facts);

/* A scan: one row for each sector. */
typedef struct kl_edreport_item {
    char label[128];
    kl_ed_result found;
} kl_edreport_item;
typedef struct kl_edreport_scan {
    int n, lowest;
    const kl_edreport_item *item; /* [n] */
} kl_edreport_scan;
void kl_edreport_scan_json(kl_json *j, const kl_edreport_scan *scan); /* into an object that is open */
void kl_edreport_table(FILE *to, const char *title, int n, const kl_edreport_item *item, int lowest,
                       int json);

#endif
