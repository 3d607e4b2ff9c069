// The plug-in as programs have it: opened and closed while they run. Nothing of it is linked here.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "ggml-alloc.h"
#include "ggml-backend-impl.h"
#include "ggml-cpp.h"
#include "ggml/ops_math.h"

namespace {

constexpr const char* kSoftwareDriver = "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json";

/// Computes 3 * 3 on a device of the plug-in and lets everything go.
bool computes(void* plugin) {
    const auto init = reinterpret_cast<ggml_backend_init_t>(dlsym(plugin, "ggml_backend_init"));
    ggml_backend_reg_t registration = init != nullptr ? init() : nullptr;
    if (registration == nullptr || ggml_backend_reg_dev_count(registration) == 0) return false;
    const ggml_backend_ptr stream(
        ggml_backend_dev_init(ggml_backend_reg_dev_get(registration, 0), nullptr));
    if (stream == nullptr) return false;
    const ggml_context_ptr context(ggml_init({1 << 20, nullptr, true}));
    ggml_tensor* x = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 1);
    ggml_tensor* y = ggml_sqr(context.get(), x);
    ggml_cgraph* graph = ggml_new_graph(context.get());
    ggml_build_forward_expand(graph, y);
    const ggml_backend_buffer_ptr memory(
        ggml_backend_alloc_ctx_tensors(context.get(), stream.get()));
    float value = 3;
    ggml_backend_tensor_set(x, &value, 0, sizeof value);
    if (ggml_backend_graph_compute(stream.get(), graph) != GGML_STATUS_SUCCESS) return false;
    ggml_backend_tensor_get(y, &value, 0, sizeof value);
    return value == 9;
}

TEST(VulkanPlugIn, MayBeUnloadedWithItsPipelinesAndLoadedAgain) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (!std::filesystem::exists(kSoftwareDriver))
        GTEST_SKIP() << "there is no " << kSoftwareDriver;
    const auto child = [] {
        setenv("VK_ICD_FILENAMES", kSoftwareDriver, 1);
        setenv("VK_DRIVER_FILES", kSoftwareDriver, 1);
        setenv("GGML_VK_VISIBLE_DEVICES", "0", 1);
        bool is_so = true;
        for (int i = 0; i < 2 && is_so; ++i) {
            void* const plugin = dlopen(HEDDLE_VULKAN_PLUGIN, RTLD_NOW | RTLD_LOCAL);
            is_so = plugin != nullptr && computes(plugin) && dlclose(plugin) == 0;
        }
        std::exit(is_so ? 0 : 1);  // what the plug-in and the driver do at the end, too
    };
    EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

}  // namespace
