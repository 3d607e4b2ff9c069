#include "tests/campaign/doors/misuse.hpp"

#include <cstdlib>

#include "ggml.h"
#include "heddle/heddle.h"
#include "tests/campaign/settings.hpp"

namespace heddle::campaign {

void prepare_for_misuse() {
    setenv("XDG_CACHE_HOME", settings().scratch.c_str(), 1);
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
}

}  // namespace heddle::campaign
