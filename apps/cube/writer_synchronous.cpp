#include "output_file.hpp"
#include "result_writer.hpp"

namespace cube {
namespace {

class SynchronousWriter : public ResultWriter {
 public:
  explicit SynchronousWriter(const WriterOptions& options)
      : file_(options.path, options.bytes, options.write_path),
        buffers_(options.buffers),
        item_bytes_(options.buffers.bytes),
        is_pinned_(options.is_pinned) {}

  Item begin() override { return {{buffers_.take(), item_bytes_}}; }
  void hand_over(const Item& item, size_t bytes, uint64_t offset) override {
    try {
      file_.write(item.data.first(bytes), offset);
    } catch (...) {
      drop(item);
      throw;
    }
    drop(item);
  }
  void drop(const Item& item) override { buffers_.give_back(item.data.data()); }
  void finish() override {}
  void sync() override { file_.sync(); }
  [[nodiscard]] std::vector<std::string> notes() const override {
    if (!is_pinned_) return {};
    return {"--pin: the synchronous mode has no threads for I/O; computing threads are pinned"};
  }

 private:
  OutputFile file_;
  Buffers buffers_;
  size_t item_bytes_;
  bool is_pinned_;
};

}  // namespace

std::unique_ptr<ResultWriter> make_synchronous_writer(const WriterOptions& options) {
  return std::make_unique<SynchronousWriter>(options);
}

}  // namespace cube
