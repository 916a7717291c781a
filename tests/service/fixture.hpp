#pragma once

#include <string>

#include <gtest/gtest.h>

#include "service/service.hpp"
#include "support/request.hpp"
#include "support/temp_file.hpp"

namespace ioweave::service {

using test::make_request;

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

  Service::Owner service;
};

inline std::string engine_name(const ::testing::TestParamInfo<engine::Kind>& info) {
  return info.param == engine::Kind::uring ? "uring"
         : info.param == engine::Kind::aio ? "aio"
                                           : "threads";
}

}  // namespace ioweave::service
