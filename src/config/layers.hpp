#pragma once

// Where settings come from: the environment and up to three ioweave.toml files.

#include <string>
#include <string_view>
#include <vector>

#include "config/settings.hpp"

namespace ioweave::config {

/// The site's file. It is compiled in: a variable that moved it would undo its locks.
inline constexpr std::string_view kSiteFile = "/etc/ioweave/ioweave.toml";

struct ConfigPlaces {
  std::string working_directory;  ///< absolute; holds ./ioweave.toml, and relative rules start here
  std::string user_file;          ///< empty: none
  std::string site_file;
};

/// The places of this process, from its working directory, XDG_CONFIG_HOME and HOME.
[[nodiscard]] ConfigPlaces config_places();

/// What IOWEAVE_* says. Variables with other names are only warned of where they look like a
/// setting's misspelt: other parts of Ioweave, and sites, have variables of their own.
[[nodiscard]] Layer environment_layer(const char* const* environment,
                                      const std::string& working_directory);

/// What the file at an absolute path says; an absent one says nothing. `shown` is its name in
/// messages; rules with a relative glob start in `directory`, and relative paths of devices beside
/// the file. In LayerKind::directory a file that belongs to neither the user nor root is ignored
/// with a warning: working in a folder must not mean obeying its owner.
[[nodiscard]] Layer file_layer(LayerKind kind, const std::string& path, const std::string& shown,
                               const std::string& directory);

/// The same from a file's text.
[[nodiscard]] Layer toml_layer(LayerKind kind, std::string_view text, const std::string& shown,
                               const std::string& directory);

/// All layers below the command line's, highest first.
[[nodiscard]] std::vector<Layer> all_layers(Layer command_line, const char* const* environment,
                                            const ConfigPlaces& places);

}  // namespace ioweave::config
