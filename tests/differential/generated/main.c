/* differential_fuzz SEED STEPS [OPTIONS] makes the random steps that the seed decides, in the
 * current folder, and tells what it saw. fuzz.h says how it works. Options:
 *
 *   --bytes FILE      the bytes of a file decide instead, 16 for each step; SEED and STEPS are
 *                     ignored
 *   --only LIST       only these steps, such as 0-17,20
 *   --print           print each call with its answer, and not a hash of all
 *   --counts          print how often each call was made
 *   --state FILE      leave the memory that its processes share in this file
 *
 * An executed child is called by --child FILE.
 */
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

int slots[kSlots];
char* bytes;
int depth;
int workers_exist;
long step_now, resume_at, last_step, theme;

static char program[4096];
static char state_file[4096];
static const char* chosen_steps; /* NULL: all */

enum { kDescriptors = 1024, kBlock = 500, kHandlerDescriptor = 1001 };

/* ---- Steps ---------------------------------------------------------------------------------- */

static int is_chosen(long number) {
  if (chosen_steps == NULL) return 1;
  const char* at = chosen_steps;
  while (*at != '\0') {
    char* end = NULL;
    const long first = strtol(at, &end, 10);
    const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
    if (number >= first && number <= last) return 1;
    at = *end == ',' ? end + 1 : end;
    if (end == at && *end != '\0') return 0; /* not a list */
  }
  return 0;
}

static void step(void) {
  static const struct {
    int weight;
    void (*run)(void);
  } kinds[] = {
      {200, read_somehow},   {220, write_somehow},    {100, open_somehow}, {40, close_somehow},
      {60, copy_descriptor}, {50, change_descriptor}, {50, seek_somehow},  {60, move_bytes},
      {50, change_size},     {40, change_names},      {30, look_somehow},  {20, lock_somehow},
      {15, make_ends},       {10, surroundings},      {50, map_somehow},   {60, stream_somehow},
      {20, verify_file},     {25, check_times},       {8, sparse_file},    {10, listen_somehow},
      {8, wrong_somehow},    {2, stream_file},        {4, run_at_once},    {5, in_child}};
  enum { kKinds = sizeof kinds / sizeof kinds[0] };
  int sum = 0;
  for (int i = 0; i < kKinds; ++i) sum += kinds[i].weight;
  long choice = below(sum);
  int kind = 0;
  for (; choice >= kinds[kind].weight; ++kind) choice -= kinds[kind].weight;
  kinds[kind].run();
}

void simple_step(void) {
  static void (*const kinds[])(void) = {read_somehow,  write_somehow,   open_somehow,
                                        close_somehow, copy_descriptor, seek_somehow};
  kinds[below(6)]();
}

/* Threads that make one step each when told. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn = -1;

static void* work(void* argument) {
  const int number = (int)(intptr_t)argument;
  pthread_mutex_lock(&mutex);
  for (;;) {
    while (turn != number) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    step();
    pthread_mutex_lock(&mutex);
    turn = -1;
    pthread_cond_broadcast(&changed);
  }
  return NULL;
}

static void begin_workers(void) {
  for (int i = 0; i < kWorkers; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, (void*)(intptr_t)i) != 0) exit(5);
    pthread_detach(thread);
  }
  workers_exist = 1;
}

static void let_worker_step(int number) {
  pthread_mutex_lock(&mutex);
  turn = number;
  pthread_cond_broadcast(&changed);
  while (turn != -1) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
}

/* What was seen so far: a difference shows near where it arose. */
static void tell_block(long number) {
  char line[64];
  if (prints || depth > 0) return;
  const int length = snprintf(line, sizeof line, "until %ld: %016lx\n", number, shared->hash);
  (void)!syscall(SYS_write, 1, line, (size_t)length);
}

void run_steps(long from, long until) {
  long block = from / kBlock;
  const long last = last_step;
  last_step = until;
  for (long i = from; i < until; i = resume_at) {
    resume_at = i + 1;
    if (!is_chosen(i)) continue;
    step_now = i;
    choose_for_step(i);
    const long who = below(6);
    if (who < kWorkers && workers_exist)
      let_worker_step((int)who);
    else
      step();
    if (resume_at / kBlock != block) tell_block(resume_at);
    block = resume_at / kBlock;
  }
  last_step = last;
}

/* ---- Surroundings --------------------------------------------------------------------------- */

/* A handler may read, too. */
static void on_alarm(int number) {
  (void)number;
  const int saved = errno;
  char there[512] __attribute__((aligned(512)));
  (void)!pread(kHandlerDescriptor, there, sizeof there, 0);
  errno = saved;
}

volatile long excesses;

static void on_excess(int number) {
  (void)number;
  ++excesses;
}

static void switch_alarms(int how) {
  sigset_t timers;
  sigemptyset(&timers);
  sigaddset(&timers, SIGALRM);
  pthread_sigmask(how, &timers, NULL);
}

void hold_alarms(void) {
  switch_alarms(SIG_BLOCK);
}

void let_alarms(void) {
  const int saved = errno;
  switch_alarms(SIG_UNBLOCK);
  errno = saved;
}

const char* own_path(void) {
  return program;
}

const char* state_path(void) {
  return state_file;
}

void begin_as_child(void) {
  ++depth;
  workers_exist = 0;
  let_alarms();
}

static void prepare(void) {
  bytes = aligned_alloc(4096, kBytes + 4096);
  if (bytes == NULL) exit(4);
  memset(bytes, 0, kBytes + 4096);
  if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) exit(4);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  action.sa_handler = on_excess;
  sigaction(SIGXFSZ, &action, NULL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGIO, SIG_IGN);
  catch_bus_errors();
  let_alarms();
}

/* The same memory file, whatever the limit on descriptors is now. */
static int attach(const char* path) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  const struct rlimit most = {limit.rlim_max, limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &most);
  const int attached = open_journal(path, 0);
  setrlimit(RLIMIT_NOFILE, &limit);
  return attached;
}

struct options {
  uint64_t seed;
  long steps;
  const char* file;
  const char* state;
  int counts;
};

static struct options read_options(int count, char** arguments) {
  struct options options = {0, 0, NULL, NULL, 0};
  int position = 0;
  for (int i = 1; i < count; ++i) {
    const char* const word = arguments[i];
    if (strcmp(word, "--print") == 0) {
      prints = 1;
    } else if (strcmp(word, "--counts") == 0) {
      options.counts = 1;
    } else if (strncmp(word, "--", 2) == 0 && i + 1 < count) {
      const char* const value = arguments[++i];
      if (strcmp(word, "--only") == 0) chosen_steps = value;
      if (strcmp(word, "--bytes") == 0) options.file = value;
      if (strcmp(word, "--state") == 0) options.state = value;
    } else if (position++ == 0) {
      options.seed = strtoull(word, NULL, 10);
    } else {
      options.steps = strtol(word, NULL, 10);
    }
  }
  return options;
}

static int use_choices(struct options* options) {
  choose_by_seed(options->seed);
  return options->file == NULL || choose_by_file(options->file, &options->steps);
}

/* An executed child finds the words of the command in the environment. */
static char* words_of_environment(void) {
  char* const words = getenv("DIFFERENTIAL_FUZZ");
  return words != NULL ? strdup(words) : NULL;
}

static int go_on_as_child(const char* path) {
  char* arguments[32] = {NULL};
  int count = 1;
  char* words = words_of_environment();
  for (char* word = words != NULL ? strtok(words, " ") : NULL; word != NULL && count < 31;
       word = strtok(NULL, " "))
    arguments[count++] = word;
  struct options options = read_options(count, arguments);
  if (!attach(path) || !use_choices(&options)) return 6;
  snprintf(state_file, sizeof state_file, "%s", path);
  prepare();
  memcpy(slots, shared->slots, sizeof slots);
  depth = shared->depth;
  theme = shared->theme;
  last_step = shared->until;
  run_steps(shared->from, shared->until);
  return depth;
}

static void remember_words(int count, char** arguments) {
  static char words[4000];
  for (int i = 1; i < count; ++i) {
    strncat(words, arguments[i], sizeof words - strlen(words) - 2);
    strcat(words, " ");
  }
  setenv("DIFFERENTIAL_FUZZ", words, 1);
}

static void open_handler_file(void) {
  const int fd = open("h9", O_RDWR | O_CREAT | ((theme & kThemeWorkers) != 0 ? O_DIRECT : 0), 0600);
  (void)!pwrite(fd, bytes, 4096, 0);
  dup2(fd, kHandlerDescriptor);
  close(fd);
}

/* What whoever started us left open is none of the program's. */
static void close_inherited(void) {
  int open_ones = 0;
  for (int fd = 3; fd < kDescriptors; ++fd) open_ones += syscall(SYS_fcntl, fd, F_GETFD) >= 0;
  say("inherits %d descriptors", open_ones);
  syscall(SYS_close_range, 3, ~0U, 0);
}

int main(int count, char** arguments) {
  if (count == 3 && strcmp(arguments[1], "--child") == 0) return go_on_as_child(arguments[2]);
  if (count < 3) return 2;
  struct options options = read_options(count, arguments);
  remember_words(count, arguments);
  if (options.state != NULL)
    snprintf(state_file, sizeof state_file, "%s", options.state);
  else if (getcwd(state_file, sizeof state_file - 8) != NULL)
    strcat(state_file, "/.state");
  if (!open_journal(state_file, 1) || !use_choices(&options)) return 3;
  const struct rlimit files = {kDescriptors, kDescriptors};
  if (setrlimit(RLIMIT_NOFILE, &files) != 0) return 4;
  prepare();
  for (int i = 0; i < kSlots; ++i) slots[i] = -1;
  step_now = -1;
  close_inherited();
  choose_for_step(-1);
  theme = (below(3) != 0 ? kThemeWorkers : 0) | (below(8) == 0 ? kThemeListens : 0) |
          (below(3) == 0 ? kThemeAlarms : 0) | (below(4) == 0 ? kThemeBig : 0) |
          (below(8) == 0 ? kThemeUnshares : 0) | (below(3) == 0 ? kThemeDirect : 0);
  open_handler_file();
  if ((theme & kThemeWorkers) != 0) begin_workers();
  if (mkdir("d0", 0750) != 0 || mkdir("d1", 0750) != 0) return 4;
  for (int i = 0; i < 6; ++i) open_somehow();
  run_steps(0, options.steps);
  for (int i = 0; i < kSlots; ++i)
    report("at the end", i, slots[i], 0, syscall(SYS_lseek, slots[i], 0, SEEK_CUR));
  tell_block(options.steps);
  make_streams_cached();
  if (options.counts) print_counts();
  if (options.state == NULL) unlink(state_file);
  return 0;
}
