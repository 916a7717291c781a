#include "device/learned.hpp"

#include <cerrno>

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/proc_text.hpp"

namespace ioweave::device {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKind = "ioweave-learned/1";
constexpr size_t kMostBytes = 64u << 20;

bool has_folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  struct stat status {};
  return stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool has_text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string();
}

/// Returns what is wrong with the document; empty if it is good.
std::string fault_of(const Json& document) {
  if (document.is_discarded()) return "it is not JSON";
  if (!document.is_object() || !has_text(document, "kind")) return "it has no kind";
  const auto& kind = document["kind"].get_ref<const std::string&>();
  if (kind != kKind) return "its kind is '" + kind + "', not '" + kKind + "'";
  const auto flows = document.find("flows");
  if (flows == document.end() || !flows->is_array()) return "it has no list of flows";
  for (const Json& row : *flows) {
    for (const char* const key : {"task", "device", "learned"}) {
      if (!row.is_object() || !has_text(row, key)) return std::string("a flow has no ") + key;
    }
  }
  return {};
}

}  // namespace

int read_learned(const std::string& path, Learned& learned, std::string& why) {
  std::string text;
  const int error = read_proc_text(path.c_str(), kMostBytes, text);
  // A missing folder is an error now, since writing the file at the end would fail, too.
  if (error == -ENOENT && has_folder(path)) return 0;
  if (error != 0) return error;
  const Json document = Json::parse(text, nullptr, false);
  why = fault_of(document);
  if (!why.empty()) return -EBADMSG;
  for (const Json& row : document["flows"]) {
    learned[{row["task"].get<std::string>(), row["device"].get<std::string>()}] =
        row["learned"].get<std::string>();
  }
  return 0;
}

int write_learned(const std::string& path, const Learned& learned) {
  Json flows = Json::array();
  for (const auto& [flow, text] : learned) {
    flows.push_back({{"task", flow.first}, {"device", flow.second}, {"learned", text}});
  }
  const Json document = {{"kind", kKind}, {"flows", std::move(flows)}};
  const std::string text = document.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
  return write_atomically(path, text);
}

}  // namespace ioweave::device
