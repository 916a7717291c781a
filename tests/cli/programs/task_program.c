/* A program of tasks, as far as `ioweave doctor` looks at it. */
#include <unistd.h>

int nosv_init(void);
int nosv_fake(void);
int nodes_fake(void);

int main(void) {
  int result = 0;
#ifdef CALLS_INIT
  result += nosv_init();
#endif
#ifdef CALLS_NOSV
  result += nosv_fake();
#endif
#ifdef CALLS_NODES
  result += nodes_fake();
#endif
  char byte = 0;
  return result + (int)pread(0, &byte, 1, 0) + fsync(0);
}
