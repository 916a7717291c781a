/*
 * The C half of ioweave_openmp.f90: openmp.h for Fortran. Compile it with -fopenmp into the program
 * or library whose tasks do the I/O, because the guards of openmp.h cover only that one.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_DIRECT */
#endif
#include <fcntl.h>

#include <ioweave/openmp.h>
#include <string.h>

int iow_fortran_omp_check(char* why, size_t bytes);
int iow_fortran_omp_begin(iow_service* service, intptr_t event);
int iow_fortran_omp_end(iow_service* service);
int iow_fortran_direct_flag(void);

int iow_fortran_omp_check(char* why, size_t bytes) {
  const char* text = "";
  const int error = iow_omp_check(&text);
  const size_t length = strlen(text);
  memset(why, ' ', bytes);
  memcpy(why, text, length < bytes ? length : bytes);
  return error;
}

int iow_fortran_omp_begin(iow_service* service, intptr_t event) {
  return iow_omp_begin(service, (omp_event_handle_t)event);
}

int iow_fortran_omp_end(iow_service* service) {
  return iow_omp_end(service);
}

int iow_fortran_direct_flag(void) {
  return O_DIRECT;
}
