/*
 * The ALPI test provider: a small task runtime with ALPI's interface (alpi.h), and with faults that
 * a real runtime shows rarely or never. It stands in for nOS-V, Nanos6 and NODES in Ioweave's tests
 * and examples, where none of these is installed.
 *
 * How it works. There are N virtual CPUs, and a thread runs task code only while it holds one. A
 * task that blocks keeps its thread, with its stack, and gives its CPU to another: to a task that
 * was resumed if there is one, else to the oldest new task, on a thread of the pool or a new one.
 * So a task stays on one thread from its begin to its end, as on nOS-V and Nanos6, while the CPU
 * may change at each block; a runtime that moves tasks between threads cannot be simulated.
 * Completions run on the thread that took the last event away, or on the task's own after its body.
 *
 * Libraries, from the same sources:
 *   libalpi_test.so             ALPI 1.2
 *   libalpi_test_1_0.so         ALPI 1.0: without the functions of 1.1 and 1.2
 *   libalpi_test_1_1.so         ALPI 1.1: without the functions of 1.2
 *   libalpi_test_major2.so      says that it is ALPI 2.0
 *   libalpi_test_no_unblock.so  ALPI 1.2 without alpi_task_unblock()
 * They may be loaded together; each is a runtime of its own. Link to one, dlopen() it or preload
 * it.
 *
 * Environment:
 *   ALPI_TEST_CPUS  CPUs of a runtime that alpi_task_spawn() starts; default: those online
 *   ALPI_TEST_BIND  1 binds the thread of a CPU to a processor of its own, as nOS-V does: where
 *                   threads take turns on two processors the kernel leaves one idle now and then
 *   ALPI_TEST_MODE  fault modes, as for alpi_test_set_mode(); read when the library is loaded
 *   ALPI_TEST_SEED  seed of the random delays, read at each start; default 1
 *
 * As on nOS-V, tasks that several threads may run at once cannot block: those whose label is
 * "parallel", though here one thread runs them. nosv_get_task_degree(), nOS-V's own, tells.
 *
 * Not for a forked child: its copy has no threads, and alpi_task_self() ends it, as nOS-V does.
 */
#ifndef IOWEAVE_TESTS_ALPI_TEST_H
#define IOWEAVE_TESTS_ALPI_TEST_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/*
 * Starts the runtime; the counters are zero then. Returns ALPI_SUCCESS, ALPI_ERR_PARAMETER for CPUs
 * outside 1..4096, or ALPI_ERR_UNKNOWN if it runs already. A program that never calls it gets a
 * runtime from its first alpi_task_spawn(), and need not stop it.
 */
int alpi_test_start(unsigned cpus);

/* Returns when every spawned task has completed and its completion has returned. Not in a task. */
void alpi_test_wait_idle(void);

/* alpi_test_wait_idle(), then ends and joins all threads. The runtime may be started again. */
void alpi_test_stop(void);

/*
 * Sets the fault modes, in place of those set before: comma-separated words, "" or NULL for none.
 * Set them while no task runs. An unknown word ends the program with a message.
 *
 *   late_unblock       An unblock takes effect after 0..2 ms, by the timer's thread.
 *   immediate_unblock  An unblock gives the task a CPU at once, one more than there are if need be,
 *                      and returns when the task has run on: it waits up to 1 ms for the task's
 *                      next pause or end. Finds who touches what the task owns after the unblock.
 *   relaxed_unblock    An unblock orders nothing before what the resumed task does after its block.
 *   relaxed_decrease   A decrease that is not the last orders nothing before the completion.
 *   relaxed            Both; see below.
 *   assert_double_unblock
 *                      The default, by name: misuse ends the program with a message. Misuse is a
 *                      second unblock before a block, an unblock that no block matched when the
 *                      body ended, an unblock or a decrease of a task that is done, and a decrease
 *                      by more events than the task has.
 *   count_unblocks     As on nOS-V, a second unblock before a block is none: two blocks return
 * then. count_misuse       Misuse is counted instead (alpi_test_stats), and the call returns
 *                      ALPI_ERR_PARAMETER where there is a call.
 *   refuse_foreign_decrease, refuse_foreign_unblock
 *                      These calls return ALPI_ERR_OUTSIDE_TASK on a thread that runs no task.
 *   no_blocking        alpi_task_block(), _unblock() and _waitfor_ns() return
 *                      ALPI_ERR_FEATURE_UNKNOWN (ALPI_ERR_UNKNOWN before 1.2, which lacks that
 *                      error), and alpi_feature_check() says so.
 *   no_events          The same for alpi_task_events_*().
 *   spawn_fails        alpi_task_spawn() returns ALPI_ERR_OUT_OF_MEMORY.
 *   block_fails        alpi_task_block() returns ALPI_ERR_UNKNOWN and does not block.
 *   increase_fails     alpi_task_events_increase() returns ALPI_ERR_UNKNOWN and changes nothing.
 *   yields             nosv_yield(), nOS-V's own, lets a ready task run; else it fails.
 *   parallel_unseen    nosv_get_task_degree() calls every task one of a single thread.
 *
 * What `relaxed` can simulate, and what not. ALPI promises no memory ordering, and nOS-V's counters
 * are relaxed atomics: whoever hands a result over must order it with atomics of his own. In this
 * mode the word that tells whether a task is blocked and the count of its events change by relaxed
 * atomics too. On x86-64 such instructions are no weaker than others, and a task that really slept
 * is woken through a lock, which orders; so a plain build shows next to nothing. Under
 * ThreadSanitizer the unblocking thread is made to leave no trace in that lock
 * (AnnotateIgnoreSyncBegin and its like; the runtime's own accesses there are not checked in this
 * mode), so that ThreadSanitizer reports what was handed over by the unblock alone. It still misses
 * a race where the two threads met otherwise in time, in the runtime's lock for example. What stays
 * ordered: the spawn before the body, the body before the completion, the last decrease before the
 * completion (it runs there), the completion before alpi_test_wait_idle() returns. Mind that with
 * relaxed_decrease the completion of a task whose body ends last is ordered after no decrease at
 * all, and nothing on top of ALPI can mend that where the successor reads a plain variable.
 */
void alpi_test_set_mode(const char* words);

/* Counts since the start. */
struct alpi_test_stats {
  uint64_t tasks;             /* completed */
  uint64_t blocks;            /* alpi_task_block() that found nothing wrong */
  uint64_t sleeps;            /* of these, gave up their CPU, as no unblock had come */
  uint64_t unblocks;          /* that took effect */
  uint64_t most_threads;      /* of the pool, alive at once */
  uint64_t most_blocked;      /* tasks asleep in alpi_task_block() at once */
  uint64_t increases;         /* events added */
  uint64_t decreases;         /* events taken away */
  uint64_t foreign_unblocks;  /* calls on a thread that ran no task */
  uint64_t foreign_decreases; /* calls on a thread that ran no task */
  uint64_t extra_cpus;        /* CPUs beyond N that immediate_unblock gave out */
  uint64_t misuses;           /* with count_misuse */
  uint64_t waits;             /* alpi_task_waitfor_ns() of more than 0 ns, in a task */
  uint64_t shortest_wait_ns;  /* that such a call asked for; 0: there was none */
  uint64_t longest_wait_ns;
};

void alpi_test_stats_get(struct alpi_test_stats* stats);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* IOWEAVE_TESTS_ALPI_TEST_H */
