#include "calls/preload/real.hpp"

namespace ioweave::calls::real {

constinit Table table{};

void resolve() noexcept {
#define IOWEAVE_RESOLVE(result, name, ...) \
  table.name = reinterpret_cast<decltype(table.name)>(dlsym(RTLD_NEXT, #name));
  IOWEAVE_REAL_CALLS(IOWEAVE_RESOLVE)
  IOWEAVE_REAL_LIBRARY_CALLS(IOWEAVE_RESOLVE)
#undef IOWEAVE_RESOLVE
}

}  // namespace ioweave::calls::real
