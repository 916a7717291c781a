#pragma once

// A service of the core's own classes, with tasks and with whatever back end a test chooses.

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "service/service.hpp"
#include "support/workers.hpp"

namespace ioweave::test {

inline service::Options service_options_for(HostUnderTest host) {
  service::Options options;
  options.tasks = host == HostUnderTest::begun ? tasking::HostKind::none
                  : host == HostUnderTest::tbb ? tasking::HostKind::tbb
                                               : tasking::HostKind::alpi;
  options.reap_in_task = host == HostUnderTest::alpi_task;
  return options;
}

inline iow_task_stats stats_of(const service::Service& service) {
  iow_task_stats stats{};
  service.task_statistics(stats);
  return stats;
}

/// Workers and a service of a host.
struct Host {
  explicit Host(HostUnderTest which, unsigned worker_count, const service::Options& options,
                const char* alpi_modes = "")
      : workers(make_workers(which, worker_count, alpi_modes)) {
    int error = 0;
    std::string why;
    service = service::Service::open(options, error, why);
    EXPECT_NE(service, nullptr) << why;
    workers->brackets().begin = [this](void (*done)(void*), void* user) {
      return service->begin_task(done, user);
    };
    workers->brackets().end = [this] { return service->end_task(); };
  }
  ~Host() {
    workers->wait();
    service.reset();
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  std::unique_ptr<Workers> workers;
  service::Service::Owner service;
};

}  // namespace ioweave::test
