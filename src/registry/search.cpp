#include "registry/search.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "core/error.hpp"

namespace heddle {
namespace fs = std::filesystem;

std::vector<fs::path> default_search_directories() {
    std::vector<fs::path> directories;
    std::error_code code;
#ifdef GGML_BACKEND_DIR
    directories.emplace_back(GGML_BACKEND_DIR);
#endif
    if (fs::path program = fs::read_symlink("/proc/self/exe", code); !code) {
        directories.push_back(program.parent_path());
    }
    if (fs::path current = fs::current_path(code); !code) directories.push_back(current);

    // A program started in its own directory has it once.
    std::vector<fs::path> distinct;
    for (fs::path& directory : directories) {
        if (std::find(distinct.begin(), distinct.end(), directory) == distinct.end()) {
            distinct.push_back(std::move(directory));
        }
    }
    return distinct;
}

fs::path own_directory() {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&own_directory), &info) == 0 || info.dli_fname == nullptr) {
        return {};
    }
    std::error_code code;
    return fs::absolute(info.dli_fname, code).parent_path();
}

std::string plugin_file_name(std::string_view name) { return text("libggml-", name, ".so"); }

std::vector<fs::path> variants_in(const fs::path& directory, std::string_view name) {
    const std::string beginning = text("libggml-", name, "-");
    std::vector<fs::path> found;
    std::error_code code;
    for (fs::directory_iterator entry(directory, code), end; !code && entry != end;
         entry.increment(code)) {
        const fs::path& path = entry->path();
        std::error_code ignored;
        if (path.extension() == ".so" && path.filename().native().starts_with(beginning) &&
            entry->is_regular_file(ignored)) {
            found.push_back(path);
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

std::string distrust(const fs::path& path) {
    struct stat status;
    if (stat(path.c_str(), &status) != 0) return {};
    if (status.st_uid != 0 && status.st_uid != geteuid()) {
        return text(path.native(), " belongs to user ", status.st_uid,
                    ", neither to the user of this process nor to the administrator");
    }
    // In a directory with the sticky bit nobody can replace the files of others.
    const bool guarded = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;
    if ((status.st_mode & S_IWOTH) != 0 && !guarded) {
        return text(path.native(), " can be written by everybody");
    }
    return {};
}

}  // namespace heddle
