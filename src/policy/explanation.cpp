#include "policy/explanation.hpp"

#include <array>
#include <string_view>

#include "base/json_string.hpp"
#include "policy/number_text.hpp"

namespace ioweave::policy {
namespace {

constexpr std::array<std::string_view, 6> kPhases{"none",   "fixed",    "learning",
                                                  "chosen", "climbing", "settled"};

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
    append_json_string(out_, name);
    out_ += ':';
    first_ = true;
    return *this;
  }
  Json& text(std::string_view value) {
    separate();
    append_json_string(out_, value);
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
