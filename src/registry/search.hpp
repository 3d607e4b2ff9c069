#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

/// Directories for plug-ins of this very version: the one chosen when the library was built, and
/// the one beside the library that carries its version. Whatever plug-in lies there is meant for
/// us.
std::vector<std::filesystem::path> plugin_directories();

/// Where plug-ins are looked for if no directory is given: `plugin_directories()` and the program's
/// own. Not the current one: who unpacks an archive and works there has not chosen to run what is
/// in it. Those that cannot be found out are left out.
std::vector<std::filesystem::path> default_search_directories();

/// The file of this library, or of the program it is part of; empty if the system does not say.
std::filesystem::path own_file();

/// The directory this library lies in; empty likewise.
std::filesystem::path own_directory();

/// The file name of the plug-in `name`: "libggml-cuda.so".
std::string plugin_file_name(std::string_view name);

/// Files in `directory` that are variants of the plug-in `name` ("libggml-cpu-haswell.so" of
/// "cpu"), sorted by name, so that the same directory always gives the same choice. A missing
/// directory has none.
std::vector<std::filesystem::path> variants_in(const std::filesystem::path& directory,
                                               std::string_view name);

/// All files in `directory` that are named like plug-ins ("libggml-loom.so"), sorted by name.
std::vector<std::filesystem::path> plugin_files_in(const std::filesystem::path& directory);

/// The short name in a plug-in's file name: "loom" of "libggml-loom.so"; empty for other names.
std::string plugin_name_in(const std::filesystem::path& path);

}  // namespace heddle
