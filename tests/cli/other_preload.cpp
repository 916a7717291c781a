// A library that somebody else preloads: it does nothing, and leaves no segment.

extern "C" __attribute__((visibility("default"))) int ioweave_other_preload_marker() {
  return 1;
}
