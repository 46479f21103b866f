/* Nearly degenerate and otherwise hard ground states with known energies: what a run says of its error has to
   hold for each, whatever the seed. Energies: Bethe ansatz, free fermions in 40 digits, `kronlat ed`, or
   several states averaged at an m where nothing counts any more.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TEST_BARS_H
#define KL_TEST_BARS_H
#include "core.h"
#include "kl_test.h"

typedef struct bars_case {
    const char *model, *variant, *lattice, *order, *sets, *charge;
    double energy, digits; /* and what it is known to */
    int quick; /* 1: for every run of the tests; of the others test_bars.c has some to 1e-9, overnight all */
} bars_case;

static const bars_case bars[] = {
    /* edge spins: singlet and triplet, 5e-2 to 5e-8 apart */
    {"heisenberg", "S=1", "chain:16", NULL, NULL, "Sz=0", -21.25021799416, 1e-11, 1},
    {"heisenberg", "S=1", "chain:24", NULL, NULL, "Sz=0", -32.43714774749, 1e-11, 0},
    {"heisenberg", "S=1", "chain:32", NULL, NULL, "Sz=0", -43.6418575757, 1e-10, 0},
    {"heisenberg", "S=1", "chain:40", NULL, NULL, "Sz=0", -54.85176339098, 1e-10, 1},
    {"heisenberg", "S=1", "chain:48", NULL, NULL, "Sz=0", -66.0631076453, 1e-10, 0},
    {"heisenberg", "S=1", "chain:64", NULL, NULL, "Sz=0", -88.48667423515, 1e-10, 1},
    {"heisenberg", "S=1", "chain:80", NULL, NULL, "Sz=0", -110.9104063039, 1e-9, 0},
    {"heisenberg", "S=1", "chain:100", NULL, NULL, "Sz=0", -138.9400861665, 1e-9, 0},
    {"heisenberg", "S=1", "chain:128", NULL, NULL, "Sz=0", -178.18163922349, 2e-12, 0},
    {"heisenberg", "S=2", "chain:16", NULL, NULL, "Sz=0", -72.12301991999, 1e-10, 0},
    /* AKLT; beta = 1/3 is cut to ten digits */
    {"blbq", "S=1", "chain:24", NULL, NULL, "Sz=0", -46.0 / 3, 1e-8, 1},
    /* dimers */
    {"j1j2", "S=1/2", "chain:24", NULL, "J2=0.5", "Sz=0", -9, 1e-12, 1},
    {"j1j2", "S=1/2", "chain:32", NULL, "J2=0.5", "Sz=0", -12, 1e-12, 0},
    {"j1j2", "S=1/2", "chain:24", NULL, "J2=0.6", "Sz=0", -9.1237730046858, 1e-12, 1},
    {"j1j2", "S=1/2", "chain:32", NULL, "J2=0.6", "Sz=0", -12.1702519268, 1e-10, 0},
    /* order without the charge that parts its two or three states; 16 sites are solved as a whole */
    {"plain_ising", NULL, "chain:16", NULL, "g=0.3", NULL, -15.407596426510260867, 1e-14, 1},
    {"plain_ising", NULL, "chain:20", NULL, "g=0.3", NULL, -19.498114482308, 1e-12, 0},
    {"plain_ising", NULL, "chain:17", NULL, "g=0.5", NULL, -17.209589643776370, 1e-14, 0},
    {"plain_ising", NULL, "chain:18", NULL, "g=0.5", NULL, -18.273131192817673, 1e-14, 0},
    {"plain_ising", NULL, "chain:20", NULL, "g=0.5", NULL, -20.400217867027, 1e-12, 0},
    {"plain_ising", NULL, "chain:20", NULL, "g=0.8", NULL, -22.715507607116, 1e-12, 1},
    {"potts", NULL, "chain:12", NULL, "g=0.2", NULL, -11.650745462302, 1e-11, 1},
    /* two odd chains that hardly know of each other */
    {"coupled_chains", NULL, "ladder:11x2", NULL, "Jr=1e-4", "Sz=0", -9.2642664871017, 1e-12, 1},
    {"coupled_chains", NULL, "ladder:11x2", NULL, "Jr=1e-6", "Sz=0", -9.2641874033356, 1e-12, 0},
    {"coupled_chains", NULL, "ladder:11x2", NULL, "Jr=0", "Sz=0", -9.2641866047192, 1e-12, 0},
    /* rungs that make spins of one: edge spins, 0.11 and 0.05 apart */
    {"coupled_chains", NULL, "ladder:10x2", NULL, "Jr=-2", "Sz=0", -12.054905723305, 1e-12, 1},
    {"coupled_chains", NULL, "ladder:16x2", NULL, "Jr=-2", "Sz=0", -19.576468591474, 1e-11, 0},
    /* and others that sweeps find hard */
    {"kondo", "S=1/2", "chain:8", NULL, "J=0.2", "N=8", -9.54817978876, 1e-10, 0},
    {"kondo", "S=1/2", "chain:6", NULL, "J=0.4", "N=5 Sz=1/2", -6.7409867657415, 1e-12, 0},
    {"hubbard", "F=1/2", "ladder:6x2", NULL, "U=8", "N_up=6 N_dn=5", -6.2363365365884, 1e-12, 0},
    /* one magnon on a ferromagnet: its levels are -(N - 1) / 4 + 1 - cos(pi k / N), k = 0, 1, ... */
    {"heisenberg", "S=1/2", "chain:30", NULL, "J=-1", "Sz=14", -29.0 / 4, 1e-12, 1},
    /* ordinary ones */
    {"heisenberg", "S=1/2", "chain:100", NULL, NULL, "Sz=0", -44.127739893296235, 1e-13, 0},
    {"hubbard", "F=1/2", "chain:32", NULL, "U=8", "N_up=14 N_dn=14", -16.433831592745582, 1e-13, 0},
};
enum { NBARS = sizeof bars / sizeof *bars };

/* One run by the automatic schedule: its error bar holds, and what it calls converged is. */
static void bars_check(const bars_case *c, kl_sites sites, double accuracy, uint64_t seed)
{
    core_job j;
    core_open(&j, core_model(c->model, c->variant), c->lattice, c->order, c->sets);
    core_run r = core_auto(accuracy, core_charge(j.model, c->charge), 1, KL_STRATEGY_AUTO);
    r.opts.seed = seed;
    r.opts.sites = sites;
    core_go(&j, &r);
    kl_test_case("%s %s to %g, seed %llu, sites %s", j.name, c->sets ? c->sets : "", accuracy,
                 (unsigned long long)seed, kl_sites_name[sites]);
    const double off = fabs(r.res.energy[0] - c->energy),
                 known = fmax(c->digits * fabs(c->energy), 1e-14 * fabs(c->energy));
    expect_true(off <= r.res.error_estimate + known);
    expect_true(r.res.stop == KL_STOP_CONVERGED &&
                r.res.error_estimate <= fmax(accuracy * fabs(c->energy), 1e-12) * (1 + 1e-9));
    /* the state, not the energy alone */
    expect_true(r.res.energy_kept[0] - c->energy <= 2 * accuracy * fabs(c->energy) + known);
    core_drop(&r);
    core_close(&j);
    core_no_memory();
}

#endif
