#include "options.hpp"

#include <cstdlib>
#include <utility>

#include <CLI/CLI.hpp>

namespace ioweave::bench {
namespace {

CLI::Option& cli(void* option) {
  return *static_cast<CLI::Option*>(option);
}

}  // namespace

Option Option::required() {
  cli(option_).required();
  return *this;
}
Option Option::excludes(const Option& other) {
  cli(option_).excludes(&cli(other.option_));
  return *this;
}
Option Option::positive() {
  cli(option_).check(CLI::PositiveNumber);
  return *this;
}
Option Option::not_negative() {
  cli(option_).check(CLI::NonNegativeNumber);
  return *this;
}
Option Option::between(double least, double most) {
  cli(option_).check(CLI::Range(least, most));
  return *this;
}
Option Option::one_of(std::vector<std::string> words) {
  cli(option_).check(CLI::IsMember(std::move(words)));
  return *this;
}
Option Option::existing_file() {
  cli(option_).check(CLI::ExistingFile);
  return *this;
}
Option Option::existing_directory() {
  cli(option_).check(CLI::ExistingDirectory);
  return *this;
}

struct Options::Parser {
  explicit Parser(const std::string& about) : app(about) {}
  CLI::App app;
  std::vector<std::unique_ptr<Integer>> numbers;
};

Options::Options(const std::string& about) : parser_(std::make_unique<Parser>(about)) {}
Options::~Options() = default;

Option Options::add(const std::string& name, std::string& value, const std::string& help) {
  return Option(parser_->app.add_option(name, value, help));
}
Option Options::add(const std::string& name, double& value, const std::string& help) {
  return Option(parser_->app.add_option(name, value, help));
}
Option Options::add(const std::string& name, std::vector<std::string>& values,
                    const std::string& help) {
  return Option(parser_->app.add_option(name, values, help));
}
Option Options::add_flag(const std::string& name, bool& value, const std::string& help) {
  return Option(parser_->app.add_flag(name, value, help));
}

Option Options::add_number(const std::string& name, std::unique_ptr<Integer> number,
                           const std::string& help) {
  Integer& to = *parser_->numbers.emplace_back(std::move(number));
  to.name = name;
  const std::function<void(const int64_t&)> set = [&to](const int64_t& value) {
    if (!to.set(value)) {
      throw CLI::ValidationError(to.name, std::to_string(value) + " is out of range");
    }
  };
  CLI::Option* const option = parser_->app.add_option_function<int64_t>(name, set, help);
  option->default_str(std::to_string(to.get()));
  return Option(option);
}

void Options::parse(int argc, char** argv) {
  try {
    parser_->app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(parser_->app.exit(error));
  }
}

}  // namespace ioweave::bench
