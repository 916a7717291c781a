#pragma once

// The options of a benchmark program. CLI11 is behind it, compiled once: it takes a compiler longer
// than all the rest of a program.

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ioweave::bench {

/// One option. Each call narrows what it may be, and returns the option.
class Option {
 public:
  Option required();
  Option excludes(const Option& other);
  /// Greater than 0, or at least 0.
  Option positive();
  Option not_negative();
  Option between(double least, double most);
  Option one_of(std::vector<std::string> words);
  Option existing_file();
  Option existing_directory();

 private:
  friend class Options;
  explicit Option(void* option) : option_(option) {}
  void* option_;  ///< a CLI::Option
};

/// Reads the command line into variables, which have the defaults.
class Options {
 public:
  explicit Options(const std::string& about);
  ~Options();
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  Option add(const std::string& name, std::string& value, const std::string& help = {});
  Option add(const std::string& name, double& value, const std::string& help = {});
  /// May be given several times.
  Option add(const std::string& name, std::vector<std::string>& values,
             const std::string& help = {});
  template <std::integral Number>
  Option add(const std::string& name, Number& value, const std::string& help = {}) {
    return add_number(name, std::make_unique<NumberInto<Number>>(value), help);
  }
  Option add_flag(const std::string& name, bool& value, const std::string& help = {});

  /// Prints help or what is wrong, and ends the program, where it has to.
  void parse(int argc, char** argv);

 private:
  /// A whole number of some type.
  struct Integer {
    virtual ~Integer() = default;
    /// False if it does not fit.
    virtual bool set(int64_t number) = 0;
    [[nodiscard]] virtual int64_t get() const = 0;
    std::string name;  ///< of the option
  };
  template <std::integral Number>
  struct NumberInto final : Integer {
    explicit NumberInto(Number& to) : value(to) {}
    bool set(int64_t number) override {
      value = static_cast<Number>(number);
      return std::in_range<Number>(number);
    }
    [[nodiscard]] int64_t get() const override { return static_cast<int64_t>(value); }
    Number& value;
  };
  struct Parser;

  Option add_number(const std::string& name, std::unique_ptr<Integer> number,
                    const std::string& help);

  const std::unique_ptr<Parser> parser_;
};

}  // namespace ioweave::bench
