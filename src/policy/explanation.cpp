#include "policy/explanation.hpp"

#include <array>
#include <string_view>

#include "policy/number_text.hpp"

namespace ioweave::policy {
namespace {

constexpr std::array<std::string_view, 6> kPhases{"none",   "fixed",    "learning",
                                                  "chosen", "climbing", "settled"};

/// The length of the UTF-8 sequence at the beginning of `text`, 0 where there is none.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) {
    return 1;
  }
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) {
    return 0;
  }
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return 0;
    }
  }
  const unsigned second = byte(1);  // Overlong forms, surrogates, beyond U+10FFFF.
  const bool bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
                   (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
  return bad ? 0 : length;
}

/// Writes objects and arrays with commas where they belong.
class Json {
 public:
  explicit Json(std::string& out) : out_(out) {}

  Json& begin(char bracket) {
    separate();
    out_ += bracket;
    first_ = true;
    return *this;
  }
  Json& end(char bracket) {
    out_ += bracket;
    first_ = false;
    return *this;
  }
  Json& key(std::string_view name) {
    separate();
    quote(name);
    out_ += ':';
    first_ = true;
    return *this;
  }
  Json& text(std::string_view value) {
    separate();
    quote(value);
    return *this;
  }
  template <class Number>
  Json& number(Number value) {
    separate();
    append_number(out_, value);
    return *this;
  }
  Json& flag(bool value) {
    separate();
    out_ += value ? "true" : "false";
    return *this;
  }
  Json& null() {
    separate();
    out_ += "null";
    return *this;
  }

 private:
  void separate() {
    out_ += first_ ? "" : ",";
    first_ = false;
  }

  void quote(std::string_view text) {
    out_ += '"';
    while (!text.empty()) {
      const size_t length = utf8_length(text);
      const auto c = static_cast<unsigned char>(text[0]);
      if (length == 0) {
        out_ += "\xEF\xBF\xBD";
      } else if (c == '"' || c == '\\') {
        out_ += '\\';
        out_ += text[0];
      } else if (c < 0x20) {
        constexpr std::string_view kHex = "0123456789abcdef";
        out_ += "\\u00";
        out_ += kHex[c >> 4];
        out_ += kHex[c & 15];
      } else {
        out_ += text.substr(0, length);
      }
      text.remove_prefix(length == 0 ? 1 : length);
    }
    out_ += '"';
  }

  std::string& out_;
  bool first_ = true;
};

void append(Json& json, const Explanation::Epoch& epoch) {
  json.key("constraint_mb_per_s").number(epoch.constraint_mb_per_s);
  json.key("limit").number(epoch.limit);
  json.key("tasks").number(epoch.tasks);
  json.key("mean_s").number(epoch.mean_s);
  json.key("registered").flag(epoch.registered);
  json.key("why").text(epoch.why);
}

void append(Json& json, const Explanation::Registered& known) {
  json.key("constraint_mb_per_s").number(known.constraint_mb_per_s);
  json.key("limit").number(known.limit);
  json.key("mean_s").number(known.mean_s);
}

void append(Json& json, const Explanation::Estimate& estimate) {
  json.key("constraint_mb_per_s").number(estimate.constraint_mb_per_s);
  json.key("seconds").number(estimate.seconds);
}

void append(Json& json, const Explanation::Heard& heard) {
  json.key("now_ns").number(heard.now_ns);
  json.key("limit").number(heard.limit);
  json.key("mb_per_s").number(heard.mb_per_s);
  json.key("used").flag(heard.used);
  json.key("why").text(heard.why);
}

template <class T>
void append_all(Json& json, std::string_view key, const std::vector<T>& all);

void append(Json& json, const Explanation::Choice& choice) {
  json.key("now_ns").number(choice.now_ns);
  json.key("waiting").number(choice.waiting);
  json.key("constraint_mb_per_s").number(choice.constraint_mb_per_s);
  append_all(json, "estimates", choice.estimates);
}

template <class T>
void append_all(Json& json, std::string_view key, const std::vector<T>& all) {
  json.key(key).begin('[');
  for (const T& one : all) {
    json.begin('{');
    append(json, one);
    json.end('}');
  }
  json.end(']');
}

}  // namespace

std::string to_json(const Explanation& explanation) {
  std::string out;
  Json json(out);
  json.begin('{');
  json.key("flow").text(explanation.flow);
  json.key("device").text(explanation.device);
  json.key("policy").text(explanation.policy);
  json.key("phase").text(kPhases[static_cast<size_t>(explanation.phase)]);
  json.key("constraint_mb_per_s").number(explanation.constraint_mb_per_s);
  json.key("limit").number(explanation.limit);
  json.key("nodes").number(explanation.nodes);
  json.key("learning_node");
  explanation.learning_node ? json.number(*explanation.learning_node) : json.null();
  json.key("keeps_others_out").flag(explanation.keeps_others_out);
  json.key("epoch_full").flag(explanation.epoch_full);
  append_all(json, "epochs", explanation.epochs);
  append_all(json, "registry", explanation.registry);
  append_all(json, "choices", explanation.choices);
  append_all(json, "samples", explanation.samples);
  json.key("samples_heard").number(explanation.samples_heard);
  json.end('}');
  return out;
}

}  // namespace ioweave::policy
