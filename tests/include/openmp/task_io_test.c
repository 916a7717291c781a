/*
 * ioweave/openmp.h on the OpenMP library that the program runs on: `task_io_test CASE`, or without
 * one the names of all. Each case is run with teams of 1, 2 and 4 threads. The status is 0, 1 after
 * a message, or 77 where the case cannot be had here, with the reason.
 *
 * The cases named after a fault of a run-time library crash, hang or fail without what openmp.h
 * does about it; bare_faults.c shows them without Ioweave.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/time.h>
#include <unistd.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ioweave/plans.h"
#include "ioweave/tasks.h"

/* Errors of the beginning that cannot be had otherwise: the next begins fail with this one. */
static int begin_error;
static int task_begin(iow_service* service, void (*done)(void* user), void* user) {
  return begin_error != 0 ? begin_error : iow_task_begin(service, done, user);
}
#define iow_task_begin task_begin
#include "ioweave/openmp.h"

enum { BLOCK = 4096, BLOCKS = 64, SKIPPED = 77 };

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

static iow_service* service;
static int file = -1;   /* BLOCKS blocks, block b full of the byte b + 1 */
static int direct = -1; /* the same file past the page cache, or -1 */
static int threads;     /* of the team that the case is to make */

static unsigned char (*make_blocks(int count))[BLOCK] {
  void* const blocks = aligned_alloc(BLOCK, (size_t)count * BLOCK);
  CHECK(blocks != NULL);
  memset(blocks, 0, (size_t)count * BLOCK);
  return (unsigned char(*)[BLOCK])blocks;
}

static int holds(const unsigned char* block, int byte) {
  for (int i = 0; i < BLOCK; ++i) {
    if (block[i] != (unsigned char)byte) return 0;
  }
  return 1;
}

/* Transfers of odd blocks are direct ones: pending when the task ends, while cached ones are not.
 */
static int descriptor_of(int block) {
  return direct >= 0 && block % 2 == 1 ? direct : file;
}

static void read_block(unsigned char* into, int block, ssize_t* result) {
  CHECK(iow_ta_pread(service, descriptor_of(block), into, BLOCK, (off_t)block * BLOCK, result) ==
        0);
}

/* ---- What tasks are for ---- */

static void several_transfers_in_one_task(void) {
  unsigned char(*blocks)[BLOCK] = make_blocks(BLOCKS);
  ssize_t results[BLOCKS];
#pragma omp parallel num_threads(threads)
#pragma omp single
  {
    omp_event_handle_t event;
#pragma omp task detach(event) depend(out : blocks[0])
    {
      CHECK(iow_omp_begin(service, event) == 0);
      for (int b = 0; b < BLOCKS; ++b) read_block(blocks[b], b, &results[b]);
      CHECK(iow_omp_end(service) == 0);
    }
#pragma omp task depend(in : blocks[0])
    for (int b = 0; b < BLOCKS; ++b) CHECK(results[b] == BLOCK && holds(blocks[b], b + 1));
  }
  free(blocks);
}

/* Each task reads what the one before it wrote, by way of the file. */
static void successors_see_the_data(void) {
  enum { LINKS = 100 };
  const int fd =
      open("chain", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | (direct >= 0 ? O_DIRECT : 0), 0600);
  CHECK(fd >= 0);
  unsigned char(*blocks)[BLOCK] = make_blocks(1);
  unsigned char* const block = blocks[0];
  ssize_t results[LINKS];
  int wrong = 0;
#pragma omp parallel num_threads(threads)
#pragma omp single
  for (int i = 0; i < LINKS; ++i) {
#pragma omp task depend(inout : blocks[0]) shared(wrong)
    {
      if (i > 0 && (results[i - 1] != BLOCK || !holds(block, i - 1))) ++wrong;
      memset(block, i, BLOCK);
    }
    omp_event_handle_t event;
#pragma omp task detach(event) depend(inout : blocks[0])
    {
      CHECK(iow_omp_begin(service, event) == 0);
      CHECK(iow_ta_pwrite(service, fd, block, BLOCK, 0, &results[i]) == 0);
      CHECK(iow_omp_end(service) == 0);
    }
#pragma omp task depend(inout : blocks[0]) shared(wrong)
    {
      if (results[i] != BLOCK) ++wrong;
      memset(block, 255, BLOCK);
    }
#pragma omp task detach(event) depend(inout : blocks[0])
    {
      CHECK(iow_omp_begin(service, event) == 0);
      CHECK(iow_ta_pread(service, fd, block, BLOCK, 0, &results[i]) == 0);
      CHECK(iow_omp_end(service) == 0);
    }
  }
  CHECK(wrong == 0);
  CHECK(holds(block, LINKS - 1));
  close(fd);
  free(blocks);
}

/* A read of a plan waits with its thread, so the task needs no event. */
static void tasks_read_a_plan(void) {
  unsigned char(*blocks)[BLOCK] = make_blocks(BLOCKS);
  ssize_t results[BLOCKS];
  int wrong = 0;
  iow_plan* plan = NULL;
  CHECK(iow_plan_open(service, &plan, NULL, NULL) == 0);
  for (int b = 0; b < BLOCKS; ++b) {
    CHECK(iow_plan_add(plan, descriptor_of(b), (int64_t)b * BLOCK, BLOCK) == 0);
  }
#pragma omp parallel num_threads(threads)
#pragma omp single
  for (int i = 0; i < BLOCKS; ++i) {
    const int b = i * 37 % BLOCKS;
#pragma omp task depend(out : blocks[b])
    results[b] = iow_plan_read(plan, descriptor_of(b), blocks[b], BLOCK, (off_t)b * BLOCK);
#pragma omp task depend(in : blocks[b]) shared(wrong)
    if (results[b] != BLOCK || !holds(blocks[b], b + 1)) {
#pragma omp atomic
      ++wrong;
    }
  }
  CHECK(wrong == 0);
  iow_plan_stats stats;
  stats.size = sizeof stats;
  CHECK(iow_plan_get_stats(plan, &stats) == 0);
  CHECK(stats.reads == BLOCKS && stats.unplanned_reads == 0);
  iow_plan_close(plan);
  free(blocks);
}

static void errors_reach_their_result(void) {
  unsigned char(*blocks)[BLOCK] = make_blocks(2);
  ssize_t results[3] = {1, 1, 1};
#pragma omp parallel num_threads(threads)
#pragma omp single
  {
    omp_event_handle_t event;
#pragma omp task detach(event)
    {
      CHECK(iow_omp_begin(service, event) == 0);
      CHECK(iow_ta_pread(service, -1, blocks[0], BLOCK, 0, &results[0]) == 0);
      CHECK(iow_ta_pread(service, file, blocks[1], BLOCK, 0, &results[1]) == 0);
      CHECK(iow_ta_fsync(service, -1, &results[2]) == 0);
      CHECK(iow_ta_fsync(service, file, NULL) == -EINVAL);
      CHECK(iow_omp_end(service) == 0);
    }
  }
  CHECK(results[0] == -EBADF);
  CHECK(results[1] == BLOCK && holds(blocks[1], 1));
  CHECK(results[2] == -EBADF);
  free(blocks);
}

static void a_task_without_transfers_ends(void) {
  int order = 0;
#pragma omp parallel num_threads(threads)
#pragma omp single
  {
    omp_event_handle_t event;
#pragma omp task detach(event) depend(inout : order)
    {
      CHECK(iow_omp_begin(service, event) == 0);
      CHECK(iow_omp_end(service) == 0);
      order = 1;
    }
#pragma omp task depend(inout : order)
    CHECK(order == 1);
  }
}

static void outside_a_task_is_refused(void) {
  unsigned char(*blocks)[BLOCK] = make_blocks(1);
  ssize_t result = 1;
#pragma omp parallel num_threads(threads)
  {
    CHECK(iow_ta_pread(service, file, blocks[0], BLOCK, 0, &result) == -ESRCH);
    CHECK(iow_omp_end(service) == -ESRCH);
#pragma omp single
    {
      omp_event_handle_t event;
#pragma omp task detach(event)
      {
        CHECK(iow_omp_begin(service, event) == 0);
        CHECK(iow_omp_end(service) == 0);
        CHECK(iow_omp_end(service) == -ESRCH);
        CHECK(iow_ta_pread(service, file, blocks[0], BLOCK, 0, &result) == -ESRCH);
      }
    }
  }
  CHECK(result == -ESRCH);
  free(blocks);
}

static void a_beginning_that_fails_still_ends_the_task(void) {
  unsigned char(*blocks)[BLOCK] = make_blocks(1);
  ssize_t result = 1;
  int order = 0;
  begin_error = -ENOMEM;
#pragma omp parallel num_threads(threads)
#pragma omp single
  {
    omp_event_handle_t event;
#pragma omp task detach(event) depend(inout : order)
    {
      CHECK(iow_omp_begin(service, event) == -ENOMEM);
      CHECK(iow_ta_pread(service, file, blocks[0], BLOCK, 0, &result) == -ESRCH);
      CHECK(iow_omp_end(service) == -ESRCH);
      order = 1;
    }
#pragma omp task depend(inout : order)
    CHECK(order == 1);
  }
  begin_error = 0;
  CHECK(result == -ESRCH);
  free(blocks);
}

static void tasks_nest(void) {
  enum { OUTER = 8, INNER = 8 };
  unsigned char(*blocks)[BLOCK] = make_blocks(OUTER * INNER);
  unsigned char(*own)[BLOCK] = make_blocks(OUTER);
  ssize_t results[OUTER][INNER];
  ssize_t own_results[OUTER];
#pragma omp parallel num_threads(threads)
#pragma omp single
#pragma omp taskgroup
  for (int o = 0; o < OUTER; ++o) {
    omp_event_handle_t event;
#pragma omp task detach(event)
    {
      CHECK(iow_omp_begin(service, event) == 0);
      for (int i = 0; i < INNER; ++i) {
        omp_event_handle_t inner;
#pragma omp task detach(inner) firstprivate(o, i)
        {
          CHECK(iow_omp_begin(service, inner) == 0);
          read_block(blocks[o * INNER + i], o * INNER + i, &results[o][i]);
          CHECK(iow_omp_end(service) == 0);
        }
      }
#pragma omp taskwait
      for (int i = 0; i < INNER; ++i) CHECK(results[o][i] == BLOCK);
      read_block(own[o], o, &own_results[o]); /* goes to this task, not to one that ran inside it */
      CHECK(iow_omp_end(service) == 0);
    }
  }
  for (int o = 0; o < OUTER; ++o) {
    CHECK(own_results[o] == BLOCK && holds(own[o], o + 1));
    for (int i = 0; i < INNER; ++i) CHECK(holds(blocks[o * INNER + i], o * INNER + i + 1));
  }
  free(blocks);
  free(own);
}

/* ---- Ways to wait ---- */

static void read_in_tasks(unsigned char (*blocks)[BLOCK], ssize_t* results, int from, int to) {
  for (int b = from; b < to; ++b) {
    omp_event_handle_t event = 0; /* Clang takes the clause for a use of it */
#pragma omp task detach(event) depend(out : blocks[b])
    {
      CHECK(iow_omp_begin(service, event) == 0);
      read_block(blocks[b], b, &results[b]);
      CHECK(iow_omp_end(service) == 0);
    }
  }
}

static void read_all_in_tasks(unsigned char (*blocks)[BLOCK], ssize_t* results) {
  read_in_tasks(blocks, results, 0, BLOCKS);
}

static void check_all(unsigned char (*blocks)[BLOCK], ssize_t* results) {
  for (int b = 0; b < BLOCKS; ++b) CHECK(results[b] == BLOCK && holds(blocks[b], b + 1));
  memset(blocks, 0, (size_t)BLOCKS * BLOCK);
  memset(results, 0, BLOCKS * sizeof *results);
}

static void a_taskwait_waits_for_transfers(void) {
  unsigned char(*blocks)[BLOCK] = make_blocks(BLOCKS);
  ssize_t results[BLOCKS];
#pragma omp parallel num_threads(threads)
#pragma omp single
  for (int round = 0; round < 20; ++round) {
    read_all_in_tasks(blocks, results);
#pragma omp taskwait
    check_all(blocks, results);
  }
  free(blocks);
}

static void a_taskgroup_waits_for_transfers(void) {
  unsigned char(*blocks)[BLOCK] = make_blocks(BLOCKS);
  ssize_t results[BLOCKS];
#pragma omp parallel num_threads(threads)
#pragma omp single
  for (int round = 0; round < 20; ++round) {
#pragma omp taskgroup
    read_all_in_tasks(blocks, results);
    check_all(blocks, results);
  }
  free(blocks);
}

/* Some tasks are dropped; those that began have their data when the group ends. */
static void a_cancelled_taskgroup_waits_for_transfers(void) {
  unsigned char(*blocks)[BLOCK] = make_blocks(BLOCKS);
  CHECK(omp_get_cancellation());
  for (int round = 0; round < 20; ++round) {
    ssize_t results[BLOCKS] = {0};
    int begun[BLOCKS] = {0};
#pragma omp parallel num_threads(threads)
#pragma omp single
    {
#pragma omp taskgroup
      for (int b = 0; b < BLOCKS; ++b) {
        omp_event_handle_t event = 0;
#pragma omp task detach(event) shared(results, begun)
        {
          CHECK(iow_omp_begin(service, event) == 0);
          begun[b] = 1;
          read_block(blocks[b], b, &results[b]);
          CHECK(iow_omp_end(service) == 0);
          if (b == BLOCKS / 2) {
#pragma omp cancel taskgroup
          }
        }
      }
      for (int b = 0; b < BLOCKS; ++b) {
        CHECK(begun[b] ? results[b] == BLOCK && holds(blocks[b], b + 1) : results[b] == 0);
      }
    }
    memset(blocks, 0, (size_t)BLOCKS * BLOCK);
  }
  free(blocks);
}

/* libgomp: the barrier sleeps for ever when the last event is fulfilled from outside the team. */
static void a_barrier_waits_for_transfers(void) {
  unsigned char(*blocks)[BLOCK] = make_blocks(BLOCKS);
  ssize_t results[BLOCKS];
  for (int round = 0; round < 100; ++round) {
#pragma omp parallel num_threads(threads)
    {
#pragma omp single
      read_all_in_tasks(blocks, results);
#pragma omp single
      check_all(blocks, results);
#pragma omp single nowait
      read_all_in_tasks(blocks, results);
    }
    check_all(blocks, results);
  }
  free(blocks);
}

/* libomp: the barrier does not wait for a task whose parent has ended. */
static void a_barrier_waits_for_transfers_of_grandchildren(void) {
  unsigned char(*blocks)[BLOCK] = make_blocks(BLOCKS);
  for (int round = 0; round < 50; ++round) {
    ssize_t results[BLOCKS] = {0};
#pragma omp parallel num_threads(threads)
    {
#pragma omp single
      {
#pragma omp task shared(results)
        for (int b = 0; b < BLOCKS; b += 4) {
#pragma omp task shared(results) firstprivate(b)
          read_in_tasks(blocks, results, b, b + 4);
        }
      }
#pragma omp single
      check_all(blocks, results);
#pragma omp single nowait
#pragma omp task shared(results)
      read_in_tasks(blocks, results, 0, BLOCKS);
    }
    check_all(blocks, results);
  }
  free(blocks);
}

/* Now and then the thread that a signal finds stands still, as if the kernel had preempted it. */
static void stand_still(int signal) {
  static unsigned calls;
  const unsigned mixed = __atomic_add_fetch(&calls, 2654435761U, __ATOMIC_RELAXED) >> 16;
  const int error = errno;
  (void)signal;
  if (mixed % 4 == 0) {
    const struct timespec pause = {0, 1000000};
    nanosleep(&pause, NULL);
  }
  errno = error;
}

/* libomp: a thread that runs the rest of a task is met by the next region. */
static void regions_follow_while_threads_stand_still(void) {
  enum { ROUNDS = 600, EACH = 6 };
  unsigned char(*blocks)[BLOCK] = make_blocks(BLOCKS);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = stand_still;
  action.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  int there = 0;
#pragma omp parallel num_threads(threads) reduction(+ : there)
  there += 1;
  CHECK(there == threads); /* they take the signals: this one does not */
  sigset_t alarms;
  sigset_t before;
  CHECK(sigemptyset(&alarms) == 0 && sigaddset(&alarms, SIGALRM) == 0);
  CHECK(pthread_sigmask(SIG_BLOCK, &alarms, &before) == 0);
  struct itimerval every = {{0, 100}, {0, 100}};
  CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
  for (int round = 0; round < ROUNDS; ++round) {
    ssize_t results[EACH] = {0};
    const int count = round == 0 ? 0 : EACH; /* nothing shows, at first, that the region has any */
#pragma omp parallel num_threads(threads)
#pragma omp master
    read_in_tasks(blocks, results, 0, count);
    for (int b = 0; b < count; ++b) CHECK(results[b] == BLOCK && holds(blocks[b], b + 1));
  }
  memset(&every, 0, sizeof every);
  CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
  CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0); /* one that came in between is taken */
  free(blocks);
}

/* libomp: regions are called through a function of the header. */
static void regions_have_their_variables(void) {
  int a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, i = 9, j = 10, k = 11, l = 12, m = 13,
      n = 14, o = 15, p = 16, q = 17, r = 18;
  long double wide = 0.5L;
  int sums[4] = {0};
#pragma omp parallel num_threads(threads)
  {
#pragma omp atomic
    sums[0] += a;
  }
#pragma omp parallel num_threads(threads) firstprivate(b)
  {
#pragma omp atomic
    sums[1] += a + b + c + d + e + f + g;
  }
#pragma omp parallel num_threads(threads) firstprivate(wide, r)
  {
#pragma omp atomic
    sums[2] += a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p + q + r;
#pragma omp atomic
    sums[3] += (int)(wide * 2);
  }
  CHECK(sums[0] == threads && sums[1] == 28 * threads && sums[2] == 171 * threads);
  CHECK(sums[3] == threads);
  a = b = c = d = e = f = g = h = i = j = k = l = m = n = o = p = q = r = 0;
}

static void a_single_transfer_ends_a_region(void) {
  unsigned char(*blocks)[BLOCK] = make_blocks(1);
  for (int round = 0; round < 500; ++round) {
    ssize_t result = 0;
#pragma omp parallel num_threads(threads)
#pragma omp single
    {
      omp_event_handle_t event;
#pragma omp task detach(event)
      {
        CHECK(iow_omp_begin(service, event) == 0);
        read_block(blocks[0], 1, &result);
        CHECK(iow_omp_end(service) == 0);
      }
    }
    CHECK(result == BLOCK && holds(blocks[0], 2));
  }
  free(blocks);
}

/* libgomp: `taskwait depend` releases the tasks that it runs with their bodies. */
static void a_taskwait_with_depend_waits_for_transfers(void) {
  unsigned char(*blocks)[BLOCK] = make_blocks(BLOCKS);
  ssize_t results[BLOCKS];
#pragma omp parallel num_threads(threads)
#pragma omp single
  for (int round = 0; round < 20; ++round) {
    read_all_in_tasks(blocks, results);
    for (int b = BLOCKS - 1; b >= 0; --b) {
#pragma omp taskwait depend(in : blocks[b])
      CHECK(results[b] == BLOCK && holds(blocks[b], b + 1));
    }
#pragma omp taskwait
    check_all(blocks, results);
  }
  free(blocks);
}

/* libomp: `taskwait depend` crashes, with tasks of any kind. */
static void many_taskwaits_with_depend(void) {
  int x[4] = {0};
  /* As many as there is time for: where other programs have the cores, each waits for its turn. */
  const double end = omp_get_wtime() + 30;
#pragma omp parallel num_threads(threads)
#pragma omp single
  for (int round = 1; round <= 60000 && omp_get_wtime() < end; ++round) {
    for (int k = 0; k < 4; ++k) {
#pragma omp task depend(out : x[k])
      x[k] = round;
    }
    for (int k = 3; k >= 0; --k) {
#pragma omp taskwait depend(in : x[k])
      CHECK(x[k] == round);
    }
  }
}

/* ---- Where tasks are run ---- */

/*
 * libgomp: above 64 tasks for each thread the one that creates them runs others meanwhile, and
 * releases those with their bodies.
 */
static void ten_thousand_tasks(void) {
  enum { TASKS = 10000, CHAINS = 500 };
  unsigned char(*blocks)[BLOCK] = make_blocks(CHAINS);
  ssize_t* const results = (ssize_t*)calloc(TASKS, sizeof *results);
  int* const order = (int*)calloc(CHAINS, sizeof *order);
  CHECK(results != NULL && order != NULL);
  int wrong = 0;
#pragma omp parallel num_threads(threads)
#pragma omp single
  for (int i = 0; i < TASKS / 2; ++i) {
    const int chain = i % CHAINS;
    const int turn = i / CHAINS;
    omp_event_handle_t event;
#pragma omp task detach(event) depend(inout : order[chain]) shared(wrong)
    {
      CHECK(iow_omp_begin(service, event) == 0);
      if (__atomic_load_n(&order[chain], __ATOMIC_RELAXED) != 2 * turn) {
        __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
      }
      read_block(blocks[chain], chain % BLOCKS, &results[2 * i]);
      __atomic_add_fetch(&order[chain], 1, __ATOMIC_RELAXED);
      CHECK(iow_omp_end(service) == 0);
    }
#pragma omp task depend(inout : order[chain]) shared(wrong)
    {
      if (results[2 * i] != BLOCK || !holds(blocks[chain], chain % BLOCKS + 1)) {
        __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
      }
      memset(blocks[chain], 0, BLOCK);
      __atomic_add_fetch(&order[chain], 1, __ATOMIC_RELAXED);
    }
  }
  CHECK(wrong == 0);
  for (int c = 0; c < CHAINS; ++c) CHECK(order[c] == TASKS / CHAINS);
  free(blocks);
  free(results);
  free(order);
}

static void ten_thousand_independent_tasks(void) {
  enum { TASKS = 10000 };
  unsigned char(*blocks)[BLOCK] = make_blocks(BLOCKS);
  ssize_t* const results = (ssize_t*)calloc(TASKS, sizeof *results);
  CHECK(results != NULL);
#pragma omp parallel num_threads(threads)
#pragma omp for schedule(dynamic, 16)
  for (int i = 0; i < TASKS; ++i) {
    omp_event_handle_t event;
#pragma omp task detach(event)
    {
      CHECK(iow_omp_begin(service, event) == 0);
      read_block(blocks[i % BLOCKS], i % BLOCKS, &results[i]); /* the same bytes again */
      CHECK(iow_omp_end(service) == 0);
    }
  }
  for (int i = 0; i < TASKS; ++i) CHECK(results[i] == BLOCK);
  for (int b = 0; b < BLOCKS; ++b) CHECK(holds(blocks[b], b + 1));
  free(blocks);
  free(results);
}

/* libomp: `if(0)` does not wait for the event. */
static void undeferred_tasks_wait(void) {
  unsigned char(*blocks)[BLOCK] = make_blocks(2);
#pragma omp parallel num_threads(threads)
#pragma omp single
  for (int round = 0; round < 50; ++round) {
    ssize_t results[2] = {0, 0};
    omp_event_handle_t event;
#pragma omp task if (0) detach(event) shared(results)
    {
      CHECK(iow_omp_begin(service, event) == 0);
      read_block(blocks[0], 1, &results[0]);
      CHECK(iow_omp_end(service) == 0);
    }
    CHECK(results[0] == BLOCK && holds(blocks[0], 2));
    memset(blocks[0], 0, BLOCK);
#pragma omp task final(1) detach(event) shared(results)
    {
      CHECK(iow_omp_begin(service, event) == 0);
      read_block(blocks[1], 3, &results[1]);
      CHECK(iow_omp_end(service) == 0);
    }
#pragma omp taskwait
    CHECK(results[1] == BLOCK && holds(blocks[1], 4));
    memset(blocks[1], 0, BLOCK);
  }
  free(blocks);
}

/* libomp before 19: `detach` in a team of one thread makes a later, larger team hang or abort. */
static void teams_of_one_thread_come_before_larger_ones(void) {
  unsigned char(*blocks)[BLOCK] = make_blocks(BLOCKS);
  ssize_t results[BLOCKS];
  read_all_in_tasks(blocks, results); /* outside a parallel region */
#pragma omp taskwait
  check_all(blocks, results);
  for (int team = 1; team <= 4; ++team) {
#pragma omp parallel num_threads(1)
    {
      read_all_in_tasks(blocks, results);
#pragma omp parallel num_threads(1)
      CHECK(omp_get_num_threads() == 1);
#pragma omp taskwait
    }
    check_all(blocks, results);
#pragma omp parallel num_threads(team)
#pragma omp single
    read_all_in_tasks(blocks, results);
    check_all(blocks, results);
  }
  free(blocks);
}

/* ---- A program built by GCC on LLVM's library ---- */

/* Returns the exit status; to be run with libomp loaded before libgomp. */
static int detach_that_is_ignored_is_refused(void) {
  const char* why = NULL;
  if (iow_omp_check(&why) == 0) {
    fprintf(stderr, "this library does not ignore detach: nothing to refuse\n");
    return 1;
  }
  CHECK(iow_omp_check(NULL) == -ENOTSUP);
  CHECK(strstr(why, "built by GCC") != NULL && strstr(why, "use libgomp") != NULL);
  CHECK(iow_service_open(&service, NULL, NULL) == 0);
  char buffer[1];
  ssize_t result = 1;
  int order = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
  {
    omp_event_handle_t event = 0;
#pragma omp task detach(event) depend(inout : order)
    {
      CHECK(iow_omp_begin(service, event) == -ENOTSUP);
      CHECK(iow_ta_pread(service, 0, buffer, 1, 0, &result) == -ESRCH);
      CHECK(iow_omp_end(service) == -ESRCH);
      order = 1;
    }
#pragma omp task depend(inout : order)
    CHECK(order == 1);
  }
  CHECK(result == -ESRCH);
  iow_service_close(service);
  return 0;
}

/* ---- Running them ---- */

static const struct {
  const char* name;
  void (*run)(void);
} cases[] = {
#define CASE(name) \
  { #name, name }
    CASE(several_transfers_in_one_task),
    CASE(successors_see_the_data),
    CASE(tasks_read_a_plan),
    CASE(errors_reach_their_result),
    CASE(a_task_without_transfers_ends),
    CASE(outside_a_task_is_refused),
    CASE(a_beginning_that_fails_still_ends_the_task),
    CASE(tasks_nest),
    CASE(a_taskwait_waits_for_transfers),
    CASE(a_taskgroup_waits_for_transfers),
    CASE(a_cancelled_taskgroup_waits_for_transfers),
    CASE(a_barrier_waits_for_transfers),
    CASE(a_barrier_waits_for_transfers_of_grandchildren),
    CASE(regions_follow_while_threads_stand_still),
    CASE(regions_have_their_variables),
    CASE(a_single_transfer_ends_a_region),
    CASE(a_taskwait_with_depend_waits_for_transfers),
    CASE(many_taskwaits_with_depend),
    CASE(ten_thousand_tasks),
    CASE(ten_thousand_independent_tasks),
    CASE(undeferred_tasks_wait),
    CASE(teams_of_one_thread_come_before_larger_ones),
#undef CASE
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* The file, its descriptors and the service, in a directory of their own that is the current one.
 */
static void set_up(char* directory) {
  CHECK(mkdtemp(directory) != NULL && chdir(directory) == 0);
  file = open("blocks", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  CHECK(file >= 0);
  unsigned char block[BLOCK];
  for (int b = 0; b < BLOCKS; ++b) {
    memset(block, b + 1, BLOCK);
    CHECK(pwrite(file, block, BLOCK, (off_t)b * BLOCK) == BLOCK);
  }
  CHECK(fsync(file) == 0);
  direct = open("blocks", O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (direct < 0) printf("no O_DIRECT here (%s): all transfers are cached\n", strerror(errno));
  CHECK(iow_service_open(&service, NULL, NULL) == 0);
}

static void tear_down(const char* directory) {
  iow_service_close(service);
  CHECK(unlink("blocks") == 0);
  unlink("chain");
  CHECK(chdir("/") == 0 && rmdir(directory) == 0);
}

static int run(void (*test)(void)) {
  const char* why = NULL;
  if (iow_omp_check(&why) != 0) {
    printf("skipped: %s\n", why);
    return SKIPPED;
  }
  char directory[] = "/tmp/ioweave-openmp-XXXXXX";
  set_up(directory);
  for (threads = 1; threads <= 4; threads *= 2) test();
  tear_down(directory);
  return 0;
}

int main(int argc, char** argv) {
  for (int i = 0; i < CASES; ++i) {
    if (argc < 2) puts(cases[i].name);
    if (argc < 2 || strcmp(argv[1], cases[i].name) != 0) continue;
    if (cases[i].run == a_cancelled_taskgroup_waits_for_transfers && IOW_OMP_LLVM) {
      puts(
          "skipped: libomp waits for ever for the events of tasks that it dropped, also without "
          "us");
      return SKIPPED;
    }
    if (cases[i].run == a_cancelled_taskgroup_waits_for_transfers && !omp_get_cancellation()) {
      /* The library looks for it when the program starts. */
      setenv("OMP_CANCELLATION", "true", 1);
      execv("/proc/self/exe", argv);
    }
    return run(cases[i].run);
  }
  if (argc < 2) return 0;
  if (strcmp(argv[1], "detach_that_is_ignored_is_refused") == 0) {
    return detach_that_is_ignored_is_refused();
  }
  fprintf(stderr, "no case '%s'\n", argv[1]);
  return 2;
}
