// A library that a user preloads for reasons of their own.
extern "C" __attribute__((visibility("default"))) int tiom_preloaded_marker() {
  return 1;
}
