#include "calls/libc/real.hpp"

namespace ioweave::calls::real {

constinit Table table{};

void resolve() noexcept {
#define IOWEAVE_RESOLVE(name, ...) \
  table.name = reinterpret_cast<decltype(table.name)>(dlsym(RTLD_NEXT, #name));
  IOWEAVE_WRAPPED_CALLS(IOWEAVE_RESOLVE, IOWEAVE_SKIP, IOWEAVE_SKIP)
#undef IOWEAVE_RESOLVE
}

}  // namespace ioweave::calls::real
