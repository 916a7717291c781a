/*
 * The checkpointing stencil as OpenMP tasks. The dependencies of stencil.h are written down as
 * they are; the task that writes a block ends when the block is written, so the step that computes
 * into the same memory again waits for that and for nothing else.
 *
 *   stencil_openmp [--size N] [--steps N] [--every N] [--blocks N] [--direct] [--recompute] FILE
 */
#define _GNU_SOURCE
#include <ioweave/openmp.h>

#include "stencil.h"

static void compute_in_task(const stencil* plate, int step, int block) {
  const int last = plate->options.blocks - 1;
  double* const above = stencil_block(plate, step - 1, block > 0 ? block - 1 : 0);
  double* const here = stencil_block(plate, step - 1, block);
  double* const below = stencil_block(plate, step - 1, block < last ? block + 1 : last);
  double* const to = stencil_block(plate, step, block);
  (void)above, (void)here, (void)below, (void)to; /* only their addresses are used */
#pragma omp task depend(in : above[0], here[0], below[0]) depend(out : to[0])
  stencil_compute(plate, step, block);
}

static void write_in_task(const stencil* plate, iow_service* service, int fd, int step, int block) {
  const int checkpoint = stencil_checkpoint_of(plate, step);
  double* const from = stencil_block(plate, step, block);
  ssize_t* const result = stencil_result(plate, checkpoint, block);
  omp_event_handle_t event = 0;
#pragma omp task detach(event) depend(in : from[0])
  {
    *result = iow_omp_begin(service, event);
    if (*result == 0) {
      iow_ta_pwrite(service, fd, from, plate->block_bytes, stencil_offset(plate, checkpoint, block),
                    result);
    }
    iow_omp_end(service);
  }
}

static void all_steps(const stencil* plate, iow_service* service, int fd) {
#pragma omp parallel
#pragma omp single
  for (int step = 1; step <= plate->options.steps; ++step) {
    for (int block = 0; block < plate->options.blocks; ++block) {
      compute_in_task(plate, step, block);
    }
    if (stencil_checkpoint_of(plate, step) < 0) continue;
    for (int block = 0; block < plate->options.blocks; ++block) {
      write_in_task(plate, service, fd, step, block);
    }
  }
}

/* Returns the exit status. */
static int run(const stencil* plate, int fd) {
  if (plate->options.blocking) {
    fprintf(stderr, "stencil_openmp: OpenMP cannot pause tasks; leave --blocking out\n");
    return 2;
  }
  const char* why = NULL;
  if (iow_omp_check(&why) != 0) {
    fprintf(stderr, "stencil_openmp: %s\n", why);
    return 1;
  }
  iow_service* service = NULL;
  char* error_text = NULL;
  const int error = iow_service_open(&service, NULL, &error_text);
  if (error != 0) {
    fprintf(stderr, "stencil_openmp: no service: %s\n",
            error_text != NULL ? error_text : strerror(-error));
    free(error_text);
    return 1;
  }
  all_steps(plate, service, fd);
  iow_service_close(service);
  return stencil_finish(plate, fd);
}

int main(int argc, char** argv) {
  return stencil_main(argc, argv, run);
}
