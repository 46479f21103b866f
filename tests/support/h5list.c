/* Lists what HDF5 files hold, for a test of the documented layout: a line for every group, data set (with its
   extents), column of a table and attribute (with its value where it is one number).
   SPDX-License-Identifier: Apache-2.0 */
#define H5_USE_110_API
#include <hdf5.h>

#include <stdio.h>
#include <string.h>

typedef struct where {
    char path[1000];
} where;

static herr_t list_attribute(hid_t object, const char *name, const H5A_info_t *info, void *self)
{
    const where *const w = self;
    const hid_t a = H5Aopen(object, name, H5P_DEFAULT), type = H5Aget_type(a), space = H5Aget_space(a);
    double value;
    (void)info;
    printf("%s@%s", w->path, name);
    if (H5Tget_class(type) != H5T_STRING && H5Sget_simple_extent_npoints(space) == 1 &&
        H5Aread(a, H5T_NATIVE_DOUBLE, &value) >= 0)
        printf(" %.17g", value);
    printf("\n");
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(a);
    return 0;
}

/* Columns of a table, as PATH/NAME. */
static void list_columns(hid_t data, const where *w)
{
    const hid_t type = H5Dget_type(data);
    const int n = H5Tget_class(type) == H5T_COMPOUND ? H5Tget_nmembers(type) : 0;
    for (int k = 0; k < n; k++) {
        char *const name = H5Tget_member_name(type, (unsigned)k);
        printf("%s/%s column\n", w->path, name);
        H5free_memory(name);
    }
    H5Tclose(type);
}

static herr_t list_object(hid_t file, const char *name, const H5O_info_t *info, void *self)
{
    where w;
    hsize_t n = 0;
    (void)self;
    snprintf(w.path, sizeof w.path, "/%s", strcmp(name, ".") == 0 ? "" : name);
    const hid_t object = H5Oopen(file, name, H5P_DEFAULT);
    printf("%s %s", w.path, info->type == H5O_TYPE_DATASET ? "data" : "group");
    if (info->type == H5O_TYPE_DATASET) {
        hsize_t dim[8] = {0};
        const hid_t space = H5Dget_space(object);
        const int rank = H5Sget_simple_extent_dims(space, dim, NULL);
        for (int k = 0; k < rank; k++) printf("%s%llu", k == 0 ? " " : ",", (unsigned long long)dim[k]);
        H5Sclose(space);
    }
    printf("\n");
    if (info->type == H5O_TYPE_DATASET) list_columns(object, &w);
    H5Aiterate(object, H5_INDEX_NAME, H5_ITER_INC, &n, list_attribute, &w);
    H5Oclose(object);
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const hid_t file = H5Fopen(argv[i], H5F_ACC_RDONLY, H5P_DEFAULT);
        if (file < 0) return 1;
        printf("file %s\n", argv[i]);
        H5Ovisit(file, H5_INDEX_NAME, H5_ITER_INC, list_object, NULL);
        H5Fclose(file);
    }
    return 0;
}
