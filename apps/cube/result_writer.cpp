#include "result_writer.hpp"

namespace cube {

std::string_view mode_name(Mode mode) {
  return mode == Mode::kIoweave ? "ioweave" : mode == Mode::kAio ? "aio" : "synchronous";
}

std::unique_ptr<ResultWriter> make_writer(const WriterOptions& options) {
  switch (options.mode) {
    case Mode::kAio:
      return make_aio_writer(options);
    case Mode::kIoweave:
      return make_ioweave_writer(options);
    default:
      return make_synchronous_writer(options);
  }
}

}  // namespace cube
