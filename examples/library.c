/* The ground state of the Hubbard chain of 8 sites by the library: cc library.c $(pkg-config --cflags --libs
   kronlat)
   SPDX-License-Identifier: Apache-2.0 */
#include <kronlat.h>
#include <stdio.h>

int main(void)
{
    kronlat_error *const error = kronlat_error_create();
    kronlat_problem *problem = NULL;
    kronlat_result *result = NULL;
    int64_t shape[4];
    const double *density;
    int failed = kronlat_problem_create("hubbard", &problem, error) ||
                 kronlat_problem_set(problem, "sites", "8", error) ||
                 kronlat_problem_set(problem, "parameter", "U=2", error) ||
                 kronlat_problem_set_charge(problem, "N_up", 4, 1, error) ||
                 kronlat_problem_set_charge(problem, "N_dn", 4, 1, error) ||
                 kronlat_problem_set(problem, "measure", "n_up", error) ||
                 kronlat_dmrg(problem, NULL, &result, error) ||
                 kronlat_result_array(result, "local/n_up", NULL, shape, &density, error);
    if (failed) fprintf(stderr, "%s\n", kronlat_error_message(error));
    else printf("E = %.10f, to %.0e\n", kronlat_result_energy(result, 0), kronlat_result_error(result, 0));
    for (int i = 0; !failed && i < (int)shape[0]; i++) printf("<n_up> at site %d: %.6f\n", i, density[i]);
    kronlat_result_destroy(result);
    kronlat_problem_destroy(problem);
    kronlat_error_destroy(error);
    return failed != 0;
}
