// A backend without devices.
#include <ggml-backend-impl.h>

#ifndef PLUGIN_API_VERSION
#define PLUGIN_API_VERSION GGML_BACKEND_API_VERSION
#endif

namespace {

ggml_backend_reg registration = {
    PLUGIN_API_VERSION,
    {
        [](ggml_backend_reg_t) { return PLUGIN_NAME; },
        [](ggml_backend_reg_t) -> size_t { return 0; },
        [](ggml_backend_reg_t, size_t) -> ggml_backend_dev_t { return nullptr; },
        nullptr,
    },
    nullptr,
};

ggml_backend_reg_t itself() { return &registration; }

}  // namespace

GGML_BACKEND_DL_IMPL(itself)
