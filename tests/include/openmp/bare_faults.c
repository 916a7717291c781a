/*
 * The faults of OpenMP libraries that ioweave/openmp.h goes round, without Ioweave: to look whether
 * a new version still has them. Not a test, since what it shows is not ours and depends on timing:
 *
 *   timeout 20 bare_faults CASE; echo $?      (0: not seen; 124: it hung; else: it crashed)
 *
 * docs/decisions/0007-openmp-detach.md lists what was seen with which version.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A thread that is not OpenMP's and fulfils events in order, as an I/O service does ---- */

typedef struct entry {
  omp_event_handle_t event;
  struct entry* next;
} entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static entry* first;
static entry** last = &first;

static void fulfil_later(omp_event_handle_t event) {
  entry* const added = (entry*)malloc(sizeof *added);
  if (added == NULL) abort();
  *added = (entry){event, NULL};
  pthread_mutex_lock(&lock);
  *last = added;
  last = &added->next;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

static void* fulfil_all(void* pause_us) {
  for (;;) {
    pthread_mutex_lock(&lock);
    while (first == NULL) pthread_cond_wait(&changed, &lock);
    entry* const taken = first;
    first = taken->next;
    if (first == NULL) last = &first;
    pthread_mutex_unlock(&lock);
    if (*(int*)pause_us > 0) usleep((unsigned)*(int*)pause_us);
    omp_fulfill_event(taken->event);
    free(taken);
  }
  return NULL;
}

/* ---- The faults ---- */

/* libgomp 12: "event is invalid or has already been fulfilled", or a crash. */
static void taskwait_depend(void) {
  int x = 0;
  (void)x; /* only its address is used */
#pragma omp parallel num_threads(2)
#pragma omp single
  for (int i = 0; i < 200; ++i) {
    omp_event_handle_t event = 0;
#pragma omp task detach(event) depend(out : x)
    fulfil_later(event);
#pragma omp taskwait depend(in : x)
  }
}

/* libgomp 12: the same, above 64 tasks for each thread. */
static void many_tasks(void) {
  enum { CHAINS = 100 };
  int chains[CHAINS] = {0};
#pragma omp parallel num_threads(1)
#pragma omp single
  for (int i = 0; i < 2000; ++i) {
    int* const chain = &chains[i % CHAINS];
    omp_event_handle_t event = 0;
#pragma omp task detach(event) depend(inout : chain[0])
    fulfil_later(event);
#pragma omp task depend(in : chain[0])
    (void)chain;
  }
}

/* libgomp 12: the barrier at the end sleeps for ever. */
static void barrier(void) {
  for (int round = 0; round < 3000; ++round) {
#pragma omp parallel num_threads(2)
#pragma omp single
    {
      omp_event_handle_t event = 0;
#pragma omp task detach(event)
      fulfil_later(event);
    }
  }
}

/* libomp 16 and 19: an assertion ("n >= 0" in kmp_taskdeps.h), or tasks that never run. */
static void two_windows_in_a_region(void) {
  enum { TASKS = 64 };
  int done[TASKS] = {0};
  (void)done; /* only their addresses are used */
  for (int round = 0; round < 2000; ++round) {
#pragma omp parallel num_threads(2)
    {
#pragma omp single
      for (int i = 0; i < TASKS; ++i) {
        omp_event_handle_t event = 0;
#pragma omp task detach(event) depend(out : done[i])
        fulfil_later(event);
      }
#pragma omp single nowait
      for (int i = 0; i < TASKS; ++i) {
        omp_event_handle_t event = 0;
#pragma omp task detach(event) depend(out : done[i])
        fulfil_later(event);
      }
    }
  }
}

/* libomp 16: an assertion in kmp_runtime.cpp, or a hang at the end of the larger region. */
static void team_of_one(void) {
  omp_event_handle_t event = 0;
#pragma omp task detach(event)
  omp_fulfill_event(event);
#pragma omp parallel num_threads(2)
#pragma omp masked
  {
#pragma omp task
    (void)event;
  }
  int x = 0;
#pragma omp parallel num_threads(3)
#pragma omp masked
  {
#pragma omp task depend(out : x)
    (void)x;
#pragma omp task depend(in : x)
    (void)x;
  }
}

/* libomp 16: an assertion ("n >= 0" in kmp_taskdeps.h), or a crash, without any event. */
static void taskwait_depend_plainly(void) {
  int x[4] = {0};
  (void)x; /* GCC does not count the tasks' uses */
#pragma omp parallel num_threads(4)
#pragma omp single
  for (int round = 0; round < 300000; ++round) {
    for (int k = 0; k < 4; ++k) {
#pragma omp task depend(out : x[k])
      x[k] = round;
    }
    for (int k = 3; k >= 0; --k) {
#pragma omp taskwait depend(in : x[k])
    }
  }
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    int pause_us;
    void (*run)(void);
  } cases[] = {{"taskwait_depend", 50, taskwait_depend},
               {"many_tasks", 50, many_tasks},
               {"barrier", 20, barrier},
               {"two_windows_in_a_region", 0, two_windows_in_a_region},
               {"team_of_one", 0, team_of_one},
               {"taskwait_depend_plainly", 0, taskwait_depend_plainly}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    if (argc < 2) puts(cases[i].name);
    if (argc < 2 || strcmp(argv[1], cases[i].name) != 0) continue;
    int pause_us = cases[i].pause_us;
    pthread_t thread;
    if (pthread_create(&thread, NULL, fulfil_all, &pause_us) != 0) return 2;
    cases[i].run();
    _exit(0);
  }
  return argc < 2 ? 0 : 2;
}
