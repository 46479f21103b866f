/* How results of exact diagonalization are printed: the same from a run and from
   `kronlat show'.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EDREPORT_H
#define KL_EDREPORT_H
#include "cli/report.h"
#include "run/edresult.h"

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
    const kl_gaptable *gaps;
} kl_edreport_scan;
/* The same as JSON, into an object that is open. */
void kl_edreport_scan_json(kl_json *j, const kl_edreport_scan *scan);
void kl_edreport_table(FILE *to, const char *title, const kl_edreport_scan *scan, int json);
/* What is told as the error of a sector's lowest energy. */
double kl_edreport_error(const kl_edreport_item *item);

#endif
