// What is decided once for a process: whether there is a loader, a driver, a device. Each test is a
// process of its own.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "ggml-alloc.h"
#include "ggml-backend-impl.h"
#include "ggml-cpp.h"
#include "ggml-vulkan.h"

namespace {

constexpr const char* kSoftwareDriver = "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json";

void choose_drivers(const char* files) {
    setenv("VK_ICD_FILENAMES", files, 1);
    setenv("VK_DRIVER_FILES", files, 1);
}

/// Every function of the header answers without a registration.
bool has_nothing() {
    size_t free = 1, total = 1;
    char description[8] = "unset";
    ggml_backend_vk_get_device_memory(0, &free, &total);
    ggml_backend_vk_get_device_description(0, description, sizeof description);
    return ggml_backend_vk_reg() == nullptr && ggml_backend_vk_get_device_count() == 0 &&
           ggml_backend_vk_init(0) == nullptr && ggml_backend_vk_buffer_type(0) == nullptr &&
           ggml_backend_vk_host_buffer_type() == nullptr && free == 0 && total == 0 &&
           description[0] == '\0';
}

class VulkanLife : public testing::Test {
protected:
    VulkanLife() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

/// The status of a child: 0 if what it looked at is so.
[[noreturn]] void end_with(bool is_so) { std::_Exit(is_so ? 0 : 1); }

TEST_F(VulkanLife, WithoutALoaderThereIsNoRegistration) {
    const auto child = [] {
        setenv("HEDDLE_VK_LOADER", "libno-such-loader.so.1", 1);
        end_with(has_nothing());
    };
    EXPECT_EXIT(child(), testing::ExitedWithCode(0), "Vulkan: there is no Vulkan loader: ");
}

TEST_F(VulkanLife, WithoutADriverThereIsNoRegistration) {
    const auto child = [] {
        choose_drivers("/no/such/driver.json");
        end_with(has_nothing());
    };
    EXPECT_EXIT(child(), testing::ExitedWithCode(0), "Vulkan: ");
}

TEST_F(VulkanLife, ASelectionThatIsNotThereLeavesNoRegistration) {
    const auto child = [] {
        setenv("GGML_VK_VISIBLE_DEVICES", "0,99", 1);
        end_with(has_nothing());
    };
    EXPECT_EXIT(child(), testing::ExitedWithCode(0), "Vulkan: ");
}

TEST_F(VulkanLife, SoftwareThatIsNotNamedLeavesARegistrationWithoutDevices) {
    if (!std::filesystem::exists(kSoftwareDriver))
        GTEST_SKIP() << "there is no " << kSoftwareDriver;
    const auto child = [] {
        choose_drivers(kSoftwareDriver);
        unsetenv("GGML_VK_VISIBLE_DEVICES");
        ggml_backend_buffer_type_t host = ggml_backend_vk_host_buffer_type();
        const ggml_backend_buffer_ptr memory(
            host != nullptr ? ggml_backend_buft_alloc_buffer(host, 64) : nullptr);
        end_with(ggml_backend_vk_reg() != nullptr && ggml_backend_vk_get_device_count() == 0 &&
                 ggml_backend_vk_init(0) == nullptr && memory != nullptr &&
                 ggml_backend_buffer_is_host(memory.get()));
    };
    EXPECT_EXIT(child(), testing::ExitedWithCode(0), "device 0 is not one of the 0 Vulkan devices");
}

}  // namespace
