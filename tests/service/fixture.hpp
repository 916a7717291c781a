#pragma once

#include <string>

#include <gtest/gtest.h>

#include "service/service.hpp"
#include "support/temp_file.hpp"

namespace ioweave::service {

inline iow_request make_request(iow_op op, int fd, void* buffer, uint64_t bytes, int64_t offset) {
  iow_request request{};
  request.op = static_cast<uint8_t>(op);
  request.fd = fd;
  request.buffer = buffer;
  request.bytes = bytes;
  request.offset = offset;
  return request;
}

inline int submit_one(Service& service, iow_request& request) {
  iow_request* const one = &request;
  return service.submit({&one, 1});
}

/// Every engine in turn: what a service promises does not depend on it.
class EveryEngine : public ::testing::TestWithParam<engine::Kind> {
 protected:
  void SetUp() override { open({}); }

  void open(Options options) {
    options.engine = GetParam();
    options.required = true;
    int error = 0;
    std::string why;
    service = Service::open(options, error, why);
    if (service == nullptr) {
      GTEST_SKIP() << why;
    }
  }

  std::unique_ptr<Service> service;
};

inline std::string engine_name(const ::testing::TestParamInfo<engine::Kind>& info) {
  return info.param == engine::Kind::uring ? "uring"
         : info.param == engine::Kind::aio ? "aio"
                                           : "threads";
}

}  // namespace ioweave::service
