#include "tests/campaign/doors/misuse.hpp"

#include <cstdlib>
#include <filesystem>

#include "ggml.h"
#include "heddle/heddle.h"

namespace heddle::campaign {

const std::string& scratch_directory() {
    static const std::string path = [] {
        const auto root = std::filesystem::temp_directory_path() / "heddle-campaign";
        std::error_code ignored;
        std::filesystem::create_directories(root, ignored);
        setenv("XDG_CACHE_HOME", root.c_str(), 1);
        return root.string();
    }();
    return path;
}

void prepare_for_misuse() {
    scratch_directory();
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
}

}  // namespace heddle::campaign
