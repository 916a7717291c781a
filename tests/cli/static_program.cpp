// Linked statically; ends with the exit code in its first argument, or 0, or becomes the program in
// its second.

#include <cstdlib>

#include <unistd.h>

int main(int argc, char** argv) {
  if (argc > 2) execv(argv[2], argv + 2);
  return argc > 1 ? std::atoi(argv[1]) : 0;
}
