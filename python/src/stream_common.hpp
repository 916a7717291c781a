#pragma once

// What the bindings of streams share: texts and errors of the core, words of options, closing.

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include <nanobind/stl/string.h>

#include "file.hpp"
#include "gil.hpp"
#include "ioweave/streams.h"
#include "module.hpp"

namespace ioweave::python {

/// Takes over a text that the library made, and frees it.
inline std::string take_text(char* text) {
  const std::unique_ptr<char, void (*)(void*)> freed(text, &std::free);
  return text != nullptr ? text : "";
}

/// Throws the OSError of an errno with a sentence, or with the system's words.
[[noreturn]] inline void raise_with_text(int error, const std::string& text,
                                         const nb::object& path) {
  if (text.empty()) {
    raise_os_error(error, {path});
  }
  // A path in it may be no UTF-8.
  const nb::object sentence = path_object(text);
  PyErr_SetObject(PyExc_OSError, nb::make_tuple(error, sentence, path).ptr());
  throw nb::python_error();
}

/// Throws the exception of a call that opens something, if it failed; takes over its text.
inline void check_opened(int error, char* text, const nb::object& path) {
  const std::string why = take_text(text);
  if (error == -EINVAL) {
    throw nb::value_error(why.c_str());
  }
  if (error == -ENOMEM) {
    throw std::bad_alloc();
  }
  if (error < 0) {
    raise_with_text(-error, why, path);
  }
}

[[noreturn]] inline void refuse_closed(const nb::object& path) {
  throw nb::value_error((nb::cast<std::string>(nb::repr(path)) + " has ended").c_str());
}

template <class Enum, size_t n>
Enum word_of(const char* what, const std::string& word,
             const std::pair<const char*, Enum> (&known)[n]) {
  std::string all;
  for (const auto& [name, value] : known) {
    if (word == name) {
      return value;
    }
    all += std::string(all.empty() ? "'" : ", '") + name + "'";
  }
  throw nb::value_error(
      (std::string(what) + " must be one of " + all + ", not '" + word + "'").c_str());
}

inline void check_bytes(const char* what, int64_t bytes) {
  if (bytes < 0) {
    throw nb::value_error(
        (std::string(what) + " must be 0 or more, not " + std::to_string(bytes)).c_str());
  }
}

/// After refuse(): waits for the calls under way. A signal ends the wait, and all stays open.
inline void wait_for_calls(Users& users, bool is_inherited) {
  bool unused = is_inherited;  // those that are counted are the parent's
  while (!unused) {
    {
      const WithoutGil released;
      unused = users.sleep_until_none();
    }
    if (PyErr_CheckSignals() != 0) {
      users.admit();
      throw nb::python_error();
    }
  }
}

/// A path as C wants it. Throws ValueError.
inline const char* path_text(const nb::bytes& encoded) {
  if (encoded.size() != std::char_traits<char>::length(encoded.c_str())) {
    throw nb::value_error("the path contains a null byte");
  }
  return encoded.c_str();
}

constexpr std::pair<const char*, iow_write_path> kStreamPaths[] = {
    {"auto", IOW_PATH_AUTO}, {"direct", IOW_PATH_DIRECT}, {"buffered", IOW_PATH_BUFFERED}};

}  // namespace ioweave::python
