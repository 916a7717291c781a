/* A user's C program: nothing of the source tree, only what `pkg-config ioweave` names. */
#include <unistd.h>

#include <ioweave/ioweave.h>
#include <stdio.h>
#include <string.h>

static int round_trip(iow_service* service, int fd) {
  char text[] = "woven through computation";
  char copy[sizeof text] = "";
  iow_request write_it = {.op = IOW_OP_WRITE, .fd = fd, .buffer = text, .bytes = sizeof text};
  iow_request read_it = {.op = IOW_OP_READ, .fd = fd, .buffer = copy, .bytes = sizeof copy};
  iow_request* to_write = &write_it;
  iow_request* to_read = &read_it;

  if (iow_submit(service, &to_write, 1) != 1 || iow_wait(service, to_write, -1) != 0) return 1;
  if (iow_submit(service, &to_read, 1) != 1 || iow_wait(service, to_read, -1) != 0) return 2;
  if (write_it.result != sizeof text || read_it.result != sizeof copy) return 3;
  return memcmp(text, copy, sizeof text) == 0 ? 0 : 4;
}

int main(void) {
  iow_service* service = NULL;
  FILE* file = tmpfile();
  if (file == NULL || iow_service_open(&service, NULL, NULL) != 0) return 5;
  int status = round_trip(service, fileno(file));
  printf("%s\n", iow_version_string());
  iow_service_close(service);
  fclose(file);
  return status;
}
