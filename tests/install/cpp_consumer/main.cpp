// A user's C++ program: nothing of the source tree, only what find_package(ioweave) names.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#include <ioweave/ioweave.hpp>

int main() {
  const std::string_view text = "woven through computation";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  if (!file) return EXIT_FAILURE;
  const int fd = fileno(file.get());

  ioweave::Service service;
  service.write(fd, std::as_bytes(std::span(text)), 0);
  std::array<char, 64> copy{};
  auto reading = ioweave::Request::read(fd, std::as_writable_bytes(std::span(copy)), 0);
  service.submit(reading);
  const size_t bytes = service.wait(reading);
  if (std::string_view(copy.data(), bytes) != text) return EXIT_FAILURE;

  std::puts(iow_version_string());
  return EXIT_SUCCESS;
}
