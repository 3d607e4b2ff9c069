#include "registry/search.hpp"

#include <dirent.h>
#include <dlfcn.h>

#include <algorithm>
#include <memory>

#include "core/error.hpp"

namespace heddle {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kBeginning = "libggml-", kEnd = ".so";

/// Regular files in `directory` whose names begin and end like this, sorted.
std::vector<fs::path> files_in(const fs::path& directory, std::string_view beginning) {
    std::vector<fs::path> found;
    // Not a directory_iterator: that one ends the program when it runs out of memory.
    const auto close = [](DIR* open) { closedir(open); };
    const std::unique_ptr<DIR, decltype(close)> open(opendir(directory.c_str()), close);
    while (const dirent* entry = open != nullptr ? readdir(open.get()) : nullptr) {
        const std::string_view name = entry->d_name;
        if (!name.starts_with(beginning) || !name.ends_with(kEnd)) continue;
        fs::path path = directory / name;
        std::error_code ignored;
        if (fs::is_regular_file(path, ignored)) found.push_back(std::move(path));
    }
    std::sort(found.begin(), found.end());
    return found;
}

}  // namespace

std::vector<fs::path> plugin_directories() {
    std::vector<fs::path> directories;
#ifdef GGML_BACKEND_DIR
    directories.emplace_back(GGML_BACKEND_DIR);
#endif
#ifdef HEDDLE_PLUGIN_SUBDIRECTORY
    // It carries the version: another one installed beside this has its own.
    if (fs::path own = own_directory(); !own.empty()) {
        directories.push_back(own / HEDDLE_PLUGIN_SUBDIRECTORY);
    }
#endif
    return directories;
}

std::vector<fs::path> default_search_directories() {
    std::vector<fs::path> directories = plugin_directories();
    std::error_code code;
    if (fs::path program = fs::read_symlink("/proc/self/exe", code); !code) {
        directories.push_back(program.parent_path());
    }

    // A program that lies with its plug-ins has their directory once.
    std::vector<fs::path> distinct;
    for (fs::path& directory : directories) {
        if (std::find(distinct.begin(), distinct.end(), directory) == distinct.end()) {
            distinct.push_back(std::move(directory));
        }
    }
    return distinct;
}

fs::path own_file() {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&own_file), &info) == 0 || info.dli_fname == nullptr) {
        return {};
    }
    std::error_code code;
    return fs::absolute(info.dli_fname, code);
}

fs::path own_directory() { return own_file().parent_path(); }

std::string plugin_file_name(std::string_view name) { return text(kBeginning, name, kEnd); }

std::string plugin_name_in(const fs::path& path) {
    const std::string file = path.filename().native();
    if (!file.starts_with(kBeginning) || !file.ends_with(kEnd)) return {};
    return file.substr(kBeginning.size(), file.size() - kBeginning.size() - kEnd.size());
}

std::vector<fs::path> variants_in(const fs::path& directory, std::string_view name) {
    return files_in(directory, text(kBeginning, name, "-"));
}

std::vector<fs::path> plugin_files_in(const fs::path& directory) {
    return files_in(directory, kBeginning);
}

}  // namespace heddle
