/* The C library's streams, on the same files and descriptors that all else works on. */
#include <sys/stat.h>

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { kStreams = 4, kBufferBytes = 8192 };

static FILE* streams[kStreams];
/* Their place in a page decides whether a direct transfer is possible: malloc's would be chance. */
static char buffers[kStreams][kBufferBytes] __attribute__((aligned(4096)));
static int writes_now[kStreams]; /* 1 or 0 once it has written or read, else -1 */

/* C asks for a seek between reading and writing. */
static void turn_to(int which, int writes) {
  if (writes_now[which] == !writes)
    report("  turn", which, 0, 0, DO(fseek)(streams[which], 0, SEEK_CUR));
  writes_now[which] = writes;
}

/* A stream flushes any number of bytes, which a direct write may cut anywhere. */
void make_streams_cached(void) {
  for (int i = 0; i < kStreams; ++i) {
    const int fd = streams[i] != NULL ? fileno(streams[i]) : -1;
    const int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && (flags & O_DIRECT) != 0 && (flags & O_ACCMODE) != O_RDONLY)
      fcntl(fd, F_SETFL, flags & ~O_DIRECT);
  }
}

static const char* any_mode(void) {
  static const char* const modes[] = {"r", "r+", "w", "w+", "a", "a+", "r+e", "wx"};
  return modes[below(8)];
}

static void give_buffer(int which) {
  static const int modes[] = {_IOFBF, _IOFBF, _IOLBF, _IONBF};
  if (streams[which] == NULL) return;
  const int mode = modes[below(4)];
  const size_t size = below(2) != 0 ? 4096 : (size_t)(1 + below(4000));
  char* const at = buffers[which] + (below(3) == 0 ? 8 : 0);
  report("setvbuf", which, mode, (long)size, DO(setvbuf)(streams[which], at, mode, size));
}

static void open_stream(int which) {
  const int slot = any_slot();
  const char* const mode = any_mode();
  const long kind = below(4);
  writes_now[which] = -1;
  if (kind == 0) {
    const int copy = DO(dup)(slots[slot]);
    streams[which] = copy < 0 ? NULL : DO(fdopen)(copy, mode);
    const int error = errno;
    if (copy >= 0 && streams[which] == NULL) DO(close)(copy);
    errno = error;
  } else if (kind == 1 && slots[slot] > 2) {
    streams[which] = DO(fdopen)(slots[slot], mode); /* both own it: either may close it first */
  } else {
    streams[which] = DO(fopen)(any_name(), mode);
  }
  report("stream", which, kind, 0, streams[which] == NULL ? -1 : fileno(streams[which]));
  give_buffer(which);
}

static long any_piece(void) {
  return below(3) == 0 ? below(20000) : below(600);
}

static void transfer(FILE* stream, int which, int writes) {
  const long piece = any_piece();
  size_t moved = 0;
  turn_to(which, writes);
  if (writes) {
    fill_bytes(bytes, piece);
    moved = DO(fwrite)(bytes, 1, (size_t)piece, stream);
  } else {
    memset(bytes, 0, (size_t)piece);
    moved = DO(fread)(bytes, 1, (size_t)piece, stream);
  }
  report(writes ? "fwrite" : "fread", which, piece, ferror(stream) * 2 + feof(stream), (long)moved);
  if (!writes) report("  bytes", (long)hash_of(bytes, piece), 0, 0, 0);
  clearerr(stream);
}

void stream_somehow(void) {
  const int which = (int)below(kStreams);
  if (streams[which] == NULL) open_stream(which);
  make_streams_cached();
  FILE* const stream = streams[which];
  if (stream == NULL) return;
  switch (below(14)) {
    case 0:
      report("fclose", which, 0, 0, DO(fclose)(stream));
      streams[which] = NULL;
      break;
    case 1:
      writes_now[which] = -1;
      streams[which] = DO(freopen)(any_name(), any_mode(), stream);
      report("freopen", which, 0, 0, streams[which] == NULL ? -1 : fileno(streams[which]));
      give_buffer(which);
      break;
    case 2:
      report("fflush", which, 0, 0, DO(fflush)(stream));
      break;
    case 3:
    case 4:
      report("fseek", which, 0, 0,
             DO(fseek)(stream, below(2) != 0 ? any_offset() : below(200) - 100,
                       below(2) != 0 ? SEEK_SET : SEEK_CUR));
      break;
    case 5:
      report("ftell", which, 0, 0, DO(ftell)(stream));
      break;
    case 6: {
      turn_to(which, 0);
      const int byte = DO(fgetc)(stream);
      report("fgetc", which, 0, 0, byte);
      if (byte != EOF && below(2) != 0) report("ungetc", which, 0, 0, DO(ungetc)(byte, stream));
      clearerr(stream);
      break;
    }
    case 7:
      turn_to(which, 1);
      report("fprintf", which, 0, 0, DO(fprintf)(stream, "line %ld of %d\n", step_now, which));
      break;
    case 8: {
      const int slot = any_slot();
      const int copy = DO(dup)(fileno(stream));
      report_on(copy, "dup of stream", which, 0, copy);
      keep(slot, copy);
      break;
    }
    case 9:
    case 10:
    case 11:
      transfer(stream, which, 1);
      break;
    default:
      transfer(stream, which, 0);
      break;
  }
}
