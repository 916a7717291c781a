#include "calls/libc/real.hpp"

namespace ioweave::calls::real {

constinit Table table{};

#define IOWEAVE_RESOLVE(name, ...) \
  table.name = reinterpret_cast<decltype(table.name)>(dlsym(RTLD_NEXT, #name));

void resolve() noexcept {
  IOWEAVE_WRAPPED_CALLS(IOWEAVE_RESOLVE, IOWEAVE_SKIP, IOWEAVE_SKIP)
}

void resolve_exposures() noexcept {
  IOWEAVE_EXPOSURES(IOWEAVE_RESOLVE, IOWEAVE_SKIP, IOWEAVE_SKIP)
  IOWEAVE_CREDENTIALS(IOWEAVE_RESOLVE, IOWEAVE_SKIP, IOWEAVE_SKIP)
  IOWEAVE_HANDOVERS(IOWEAVE_RESOLVE, IOWEAVE_SKIP, IOWEAVE_SKIP)
}

#undef IOWEAVE_RESOLVE

}  // namespace ioweave::calls::real
