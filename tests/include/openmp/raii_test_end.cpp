// The other source of raii_test.cpp.
#include "ioweave/openmp.h"

int end_in_other_source(iow_service* service);

int end_in_other_source(iow_service* service) {
  return iow_omp_end(service);
}
