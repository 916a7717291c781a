#include "support/watched_calls.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <future>
#include <stdexcept>
#include <thread>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ioweave::test {
namespace {

/// Of this thread, for good. The descriptor that tells of the calls, or -1.
int watch_this_thread(const std::vector<long>& numbers) {
  std::vector<sock_filter> filter;
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  for (const long number : numbers) {
    filter.push_back(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), uint8_t{0}, uint8_t{1}));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<uint16_t>(filter.size()), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return static_cast<int>(
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
}

/// Zeros for a structure of the kernel's, which may be longer than the headers' one.
std::vector<uint64_t> room_for(size_t kernels_bytes, size_t our_bytes) {
  return std::vector<uint64_t>((std::max(kernels_bytes, our_bytes) + 7) / 8);
}

/// Looks at one call and lets it go on. False where the kernel does not tell of it.
bool look_at_one(int listener, const std::function<void(const WatchedCall&)>& look) {
  seccomp_notif_sizes sizes{};
  if (::syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) != 0) return false;
  std::vector<uint64_t> request = room_for(sizes.seccomp_notif, sizeof(seccomp_notif));
  std::vector<uint64_t> response = room_for(sizes.seccomp_notif_resp, sizeof(seccomp_notif_resp));
  auto& seen = *reinterpret_cast<seccomp_notif*>(request.data());
  if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &seen) != 0) {
    return errno == EINTR || errno == ENOENT;  // a signal took the call back
  }
  WatchedCall call{seen.data.nr, {}};
  std::copy_n(seen.data.args, call.arguments.size(), call.arguments.begin());
  look(call);
  auto& answer = *reinterpret_cast<seccomp_notif_resp*>(response.data());
  answer.id = seen.id;
  answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  return ::ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0 || errno == ENOENT;
}

}  // namespace

bool run_watched(const std::vector<long>& numbers,
                 const std::function<void(const WatchedCall&)>& look,
                 const std::function<void()>& body) {
  const int ended = ::eventfd(0, EFD_CLOEXEC);
  std::promise<int> listener_told;
  std::thread watched([&] {
    const int listener = watch_this_thread(numbers);
    listener_told.set_value(listener);
    if (listener >= 0) body();
    ::eventfd_write(ended, 1);
  });
  const int listener = listener_told.get_future().get();
  pollfd sources[2] = {{ended, POLLIN, 0}, {listener, POLLIN, 0}};
  bool well = true;
  while (well && (::poll(sources, 2, -1) >= 0 || errno == EINTR)) {
    if ((sources[0].revents & POLLIN) != 0) break;
    if ((sources[1].revents & POLLIN) != 0) well = look_at_one(listener, look);
  }
  if (listener >= 0) ::close(listener);
  watched.join();
  ::close(ended);
  if (!well) throw std::runtime_error("the kernel does not let watched calls go on");
  return listener >= 0;
}

}  // namespace ioweave::test
