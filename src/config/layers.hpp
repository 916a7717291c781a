#pragma once

// Where settings come from: the environment and up to three ioweave.toml files.

#include <string>
#include <string_view>
#include <vector>

#include "config/settings.hpp"

namespace ioweave::config {

/// The site's file. Its path is compiled in, since a variable that moved it would undo its locks.
inline constexpr std::string_view kSiteFile = "/etc/ioweave/ioweave.toml";

struct ConfigPlaces {
  std::string working_directory;  ///< absolute; holds ./ioweave.toml, and relative rules start here
  std::string user_file;          ///< empty: none
  std::string site_file;
};

/// Returns the places of this process, from its working directory, XDG_CONFIG_HOME and HOME.
[[nodiscard]] ConfigPlaces config_places();

/// Returns the settings of IOWEAVE_* variables. It warns of other variables only if they look like
/// misspelt ones, since other parts of Ioweave, and sites, have variables of their own.
[[nodiscard]] Layer environment_layer(const char* const* environment,
                                      const std::string& working_directory);

/// Returns the settings of the file at an absolute path; none if it does not exist. `shown` is its
/// name in messages. Rules with a relative glob start in `directory`, relative paths of devices in
/// the file's folder. In LayerKind::directory a file that belongs to neither the user nor root is
/// ignored with a warning, so that working in a folder does not mean obeying its owner.
[[nodiscard]] Layer file_layer(LayerKind kind, const std::string& path, const std::string& shown,
                               const std::string& directory);

/// Returns the settings in the text of a file.
[[nodiscard]] Layer toml_layer(LayerKind kind, std::string_view text, const std::string& shown,
                               const std::string& directory);

/// Returns `command_line` and all layers below it, highest first.
[[nodiscard]] std::vector<Layer> all_layers(Layer command_line, const char* const* environment,
                                            const ConfigPlaces& places);

}  // namespace ioweave::config
