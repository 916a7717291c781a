#include "config/layers.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/nearest_name.hpp"
#include "config/mpiio_variables.hpp"
#include "config/task_variables.hpp"

namespace ioweave::config {
namespace {

constexpr std::string_view kPrefix = "IOWEAVE_";
constexpr off_t kLargestFile = 1 << 20;

/// Variables that are ours and no settings.
std::vector<std::string_view> other_variables() {
  std::vector<std::string_view> known{kRulesVariable, kRunDirVariable, kPreloadVariable};
  known.insert(known.end(), kTaskVariables.begin(), kTaskVariables.end());
  known.insert(known.end(), kMpiioVariables.begin(), kMpiioVariables.end());
  return known;
}

const Setting* setting_of_variable(std::string_view variable) {
  for (const Setting& each : settings()) {
    if (each.variable == variable) return &each;
  }
  return nullptr;
}

Origin origin_of(std::string_view variable) {
  return {LayerKind::environment, std::string(variable)};
}

/// Unless it is one of the `known`, which are no settings.
void warn_of_misspelt(std::string_view variable, std::vector<std::string_view> known,
                      Layer& layer) {
  if (std::ranges::find(known, variable) != known.end()) return;
  for (const Setting& each : settings()) known.push_back(each.variable);
  // Without the prefix, which all share and which would make everything look near.
  for (std::string_view& name : known) name.remove_prefix(kPrefix.size());
  const std::string_view nearest = nearest_name(variable.substr(kPrefix.size()), known);
  if (nearest.empty()) return;
  layer.warnings.push_back("environment: " + std::string(variable) + " is ignored; did you mean " +
                           std::string(kPrefix) + std::string(nearest) + "?");
}

void add_rules(std::string_view text, const std::string& directory, Layer& layer) {
  const Origin origin = origin_of(kRulesVariable);
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    if (one.empty()) continue;
    if (std::optional<RuleEntry> rule = split_rule(one)) {
      rule->origin = origin;
      rule->directory = directory;
      layer.rules.push_back(std::move(*rule));
    } else {
      layer.warnings.push_back(origin.place + ": '" + std::string(one) +
                               "' is ignored: a rule is GLOB=policy");
    }
  }
}

/// Reads a small regular file. 0 or -errno; -EFBIG beyond kLargestFile.
int read_small_file(int fd, const struct stat& status, std::string& text) {
  if (!S_ISREG(status.st_mode)) return -EINVAL;
  if (status.st_size > kLargestFile) return -EFBIG;
  text.resize(static_cast<size_t>(status.st_size));
  size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = read(fd, text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -errno;
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  text.resize(filled);
  return 0;
}

std::string ignored(const std::string& shown, const std::string& reason) {
  return shown + " is ignored: " + reason;
}

}  // namespace

ConfigPlaces config_places() {
  ConfigPlaces places;
  char directory[PATH_MAX];
  places.working_directory = getcwd(directory, sizeof directory) != nullptr ? directory : "";
  const char* const xdg = std::getenv("XDG_CONFIG_HOME");
  const char* const home = std::getenv("HOME");
  if (xdg != nullptr && xdg[0] == '/') {
    places.user_file = std::string(xdg) + "/ioweave/ioweave.toml";
  } else if (home != nullptr && home[0] == '/') {
    places.user_file = std::string(home) + "/.config/ioweave/ioweave.toml";
  }
  places.site_file = kSiteFile;
  return places;
}

Layer environment_layer(const char* const* environment, const std::string& working_directory) {
  Layer layer;
  layer.kind = LayerKind::environment;
  for (; *environment != nullptr; ++environment) {
    const std::string_view variable(*environment);
    const size_t equals = variable.find('=');
    if (!variable.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    const std::string_view name = variable.substr(0, equals);
    const std::string_view value = variable.substr(equals + 1);
    if (name == kRulesVariable) {
      add_rules(value, working_directory, layer);
    } else if (const Setting* known = setting_of_variable(name)) {
      layer.entries.push_back({std::string(known->name), std::string(value), origin_of(name)});
    } else if (const auto former =
                   std::ranges::find(former_settings(), name, &FormerSetting::variable);
               former != former_settings().end()) {
      layer.entries.push_back({std::string(former->name), "", origin_of(name)});
    } else {
      warn_of_misspelt(name, other_variables(), layer);
    }
  }
  return layer;
}

Layer file_layer(LayerKind kind, const std::string& path, const std::string& shown,
                 const std::string& directory) {
  Layer layer;
  layer.kind = kind;
  if (path.empty()) return layer;
  // O_NONBLOCK: a fifo of that name must not hold the command up.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    layer.error = errno;
    if (layer.error != ENOENT && layer.error != ENOTDIR) {
      layer.warnings.push_back(ignored(shown, std::strerror(layer.error)));
    }
    return layer;
  }
  struct stat status {};
  std::string text;
  int error = fstat(fd, &status) == 0 ? 0 : -errno;
  const bool trusted =
      kind != LayerKind::directory || status.st_uid == geteuid() || status.st_uid == 0;
  if (error == 0 && trusted) error = read_small_file(fd, status, text);
  close(fd);
  if (error != 0) {
    layer.error = -error;
    layer.warnings.push_back(ignored(shown, error == -EINVAL  ? "it is not a regular file"
                                            : error == -EFBIG ? "it is larger than 1 MiB"
                                                              : std::strerror(-error)));
    return layer;
  }
  if (!trusted) {
    layer.error = EPERM;
    layer.warnings.push_back(ignored(shown, "it belongs to another user (uid " +
                                                std::to_string(status.st_uid) +
                                                "); copy it to make it yours"));
    return layer;
  }
  layer = toml_layer(kind, text, shown, directory);
  layer.folder = path.substr(0, path.rfind('/'));
  return layer;
}

std::vector<Layer> all_layers(Layer command_line, const char* const* environment,
                              const ConfigPlaces& places) {
  std::vector<Layer> layers;
  layers.push_back(std::move(command_line));
  layers.push_back(environment_layer(environment, places.working_directory));
  if (!places.working_directory.empty()) {
    layers.push_back(file_layer(LayerKind::directory, places.working_directory + "/ioweave.toml",
                                "./ioweave.toml", places.working_directory));
  }
  layers.push_back(file_layer(LayerKind::user, places.user_file, places.user_file, ""));
  layers.push_back(file_layer(LayerKind::site, places.site_file, places.site_file, ""));
  return layers;
}

}  // namespace ioweave::config
