/*
 * Copies a file with several transfers in flight: every read, when it has ended, becomes the write
 * of what it read, and every write the next read. One thread, callbacks on that thread.
 *
 *   copy FROM TO
 */
#include <fcntl.h>
#include <unistd.h>

#include <errno.h>
#include <ioweave/ioweave.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IN_FLIGHT = 8, CHUNK = 256 * 1024 };

struct copy {
  iow_service* service;
  int from, to;
  int64_t next_offset; /* of the next read */
  int error;           /* the first one, as errno */
};

struct slot {
  iow_request request;
  struct copy* copy;
  char* buffer;
};

static void submit(struct slot* slot) {
  iow_request* one = &slot->request;
  const int taken = iow_submit(slot->copy->service, &one, 1);
  if (taken < 0 && slot->copy->error == 0) slot->copy->error = -taken;
}

static void step(iow_request* request, void* user) {
  struct slot* slot = user;
  struct copy* copy = slot->copy;
  if (request->result < 0) {
    if (copy->error == 0) copy->error = (int)-request->result;
    return;
  }
  if (request->op == IOW_OP_READ) {
    if (request->result == 0) return; /* end of file: this slot is done */
    request->op = IOW_OP_WRITE;
    request->fd = copy->to;
    request->bytes = (uint64_t)request->result;
  } else {
    if ((uint64_t)request->result < request->bytes) { /* short: the disk is full, say */
      if (copy->error == 0) copy->error = ENOSPC;
      return;
    }
    request->op = IOW_OP_READ;
    request->fd = copy->from;
    request->bytes = CHUNK;
    request->offset = copy->next_offset;
    copy->next_offset += CHUNK;
  }
  submit(slot);
}

static int fail(const char* what, const char* name, int error) {
  fprintf(stderr, "copy: %s %s: %s\n", what, name, strerror(error));
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s FROM TO\n", argv[0]);
    return 2;
  }
  struct copy copy = {.from = open(argv[1], O_RDONLY | O_CLOEXEC)};
  if (copy.from < 0) return fail("cannot open", argv[1], errno);
  copy.to = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (copy.to < 0) return fail("cannot create", argv[2], errno);

  char* why = NULL;
  const int error = iow_service_open(&copy.service, NULL, &why);
  if (error < 0) return fail("cannot open a service:", why != NULL ? why : "", -error);

  struct slot slots[IN_FLIGHT] = {0};
  for (int i = 0; i < IN_FLIGHT; ++i) {
    slots[i].copy = &copy;
    slots[i].buffer = malloc(CHUNK);
    if (slots[i].buffer == NULL) return fail("no memory for", "buffers", ENOMEM);
    slots[i].request = (iow_request){.op = IOW_OP_READ,
                                     .flags = IOW_CALLBACK_ON_POLL,
                                     .fd = copy.from,
                                     .buffer = slots[i].buffer,
                                     .bytes = CHUNK,
                                     .offset = copy.next_offset,
                                     .callback = step,
                                     .user = &slots[i]};
    copy.next_offset += CHUNK;
    submit(&slots[i]);
  }
  while (iow_poll(copy.service, 1, -1) > 0) { /* runs step(); 0: nothing in flight any more */
  }
  if (copy.error == 0) copy.error = -iow_fsync(copy.service, copy.to);
  printf("copied by %s\n", iow_service_engine(copy.service, NULL));
  iow_service_close(copy.service);
  for (int i = 0; i < IN_FLIGHT; ++i) free(slots[i].buffer);
  return copy.error != 0 ? fail("cannot copy to", argv[2], copy.error) : 0;
}
