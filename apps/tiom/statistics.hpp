#pragma once

#include <span>
#include <vector>

namespace tiom {

/// Median and quartiles, interpolated linearly between the values around them.
struct Quartiles {
  double first = 0;
  double median = 0;
  double third = 0;
};

/// Of at least one value, in any order.
Quartiles quartiles(std::vector<double> values);

double median(std::vector<double> values);

}  // namespace tiom
