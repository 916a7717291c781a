/*
 * Threads write their files with a library that knows nothing of Ioweave (here the C library's
 * stdio; think of HDF5), and Ioweave finds out how many at once the device serves best.
 *
 *   admit FOLDER FILES
 */
#include <pthread.h>

#include <errno.h>
#include <ioweave/ioweave.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = 4 << 20, MOST_FILES = 256 };

struct save {
  iow_service* service;
  const char* folder;
  int64_t result; /* bytes, or -errno */
  uint32_t flow;
  int number;
};

static int64_t write_file(const char* folder, int number) {
  char path[4096];
  snprintf(path, sizeof path, "%s/save.%d", folder, number);
  FILE* file = fopen(path, "wb");
  if (file == NULL) return -errno;
  static const char block[64 << 10];
  int64_t written = 0;
  while (written < FILE_BYTES && fwrite(block, 1, sizeof block, file) == sizeof block) {
    written += (int64_t)sizeof block;
  }
  const int64_t error = written < FILE_BYTES ? -errno : 0;
  return fclose(file) != 0 ? -errno : error != 0 ? error : written;
}

static void* save(void* argument) {
  struct save* const mine = argument;
  const int64_t operation = iow_admit(mine->service, mine->flow, FILE_BYTES);
  if (operation < 0) {
    mine->result = operation;
    return NULL;
  }
  mine->result = write_file(mine->folder, mine->number);
  iow_finish(mine->service, operation, mine->result);
  return NULL;
}

int main(int argc, char** argv) {
  const int files = argc == 3 ? atoi(argv[2]) : 0;
  if (files < 1 || files > MOST_FILES) {
    fprintf(stderr, "usage: %s FOLDER FILES   (1..%d of 4 MiB)\n", argv[0], MOST_FILES);
    return 2;
  }
  iow_service* service = NULL;
  char* why = NULL;
  int status = iow_service_open(&service, NULL, &why);
  iow_flow_options options = {.constraint = "climb"};
  const int flow = status == 0 ? iow_flow_create(service, "saves", &options, &why) : status;
  if (flow < 0) {
    fprintf(stderr, "admit: %s\n", why != NULL ? why : strerror(-flow));
    free(why);
    return 1;
  }
  static struct save saves[MOST_FILES];
  static pthread_t threads[MOST_FILES];
  int started = 0;
  for (; started < files; ++started) {
    saves[started] = (struct save){service, argv[1], 0, (uint32_t)flow, started};
    if (pthread_create(&threads[started], NULL, save, &saves[started]) != 0) break;
  }
  int64_t bytes = 0;
  status = started < files;
  for (int i = 0; i < started; ++i) {
    pthread_join(threads[i], NULL);
    if (saves[i].result < 0) {
      fprintf(stderr, "admit: %s/save.%d: %s\n", argv[1], i, strerror((int)-saves[i].result));
      status = 1;
    } else {
      bytes += saves[i].result;
    }
  }
  iow_stats stats = {.size = sizeof stats};
  iow_service_stats(service, &stats);
  printf("saved %d files, %lld bytes; %llu had to wait for their turn\n", started, (long long)bytes,
         (unsigned long long)stats.held);
  iow_service_close(service);
  return status;
}
