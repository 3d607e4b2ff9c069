#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "ggml-backend-dl.h"
#include "ggml-backend.h"
#include "heddle/heddle.h"
#include "heddle/plugins.h"
#include "registry/test_support.hpp"

namespace heddle {
namespace {

using test::Directory;
using testing::HasSubstr;

heddle_plugin_info info_of(const std::string& path) {
    heddle_plugin_info info{};
    for (size_t i = 0; heddle_plugin_get(i, &info, sizeof info); ++i) {
        if (info.path == path) return info;
    }
    ADD_FAILURE() << "no record of " << path;
    return {};
}

TEST(RegistryApi, BuiltInBackendsAreThereWithTheCpuLast) {
    size_t built_in = 0;
    heddle_plugin_info info{};
    for (size_t i = 0; heddle_plugin_get(i, &info, sizeof info); ++i) {
        built_in += info.status == HEDDLE_PLUGIN_BUILT_IN;
    }
    ASSERT_GE(ggml_backend_reg_count(), built_in);
#ifdef GGML_USE_CPU
    EXPECT_STREQ(ggml_backend_reg_name(ggml_backend_reg_get(built_in - 1)), "CPU");
    EXPECT_NE(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU), nullptr);
    EXPECT_EQ(ggml_backend_dev_by_name("cpu"),
              ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
#endif
}

TEST(RegistryApi, LoadsByPathAndUnloads) {
    const Directory directory;
    const auto path = directory.put("good", "good.so");
    const size_t devices = ggml_backend_dev_count();
    const ggml_backend_reg_t loaded = ggml_backend_load(path.c_str());
    ASSERT_NE(loaded, nullptr) << heddle_last_error();
    EXPECT_EQ(ggml_backend_reg_by_name("Good"), loaded);
    EXPECT_EQ(ggml_backend_reg_get(ggml_backend_reg_count() - 1), loaded);
    EXPECT_EQ(ggml_backend_dev_count(), devices + 2);
    EXPECT_STREQ(info_of(path).name, "good");
    ggml_backend_unload(loaded);
    EXPECT_EQ(ggml_backend_dev_count(), devices);
    EXPECT_EQ(info_of(path).status, HEDDLE_PLUGIN_UNLOADED);
    ggml_backend_unload(loaded);   // unknown now
    ggml_backend_unload(nullptr);  // never known
}

TEST(RegistryApi, StartsStreamsByName) {
    const Directory directory;
    const ggml_backend_reg_t loaded = ggml_backend_load(directory.put("good", "good.so").c_str());
    ASSERT_NE(loaded, nullptr);
    const ggml_backend_t stream = ggml_backend_init_by_name("GOOD0", nullptr);
    ASSERT_NE(stream, nullptr);
    EXPECT_STREQ(ggml_backend_name(stream), "good0");
    ggml_backend_free(stream);
    EXPECT_EQ(ggml_backend_init_by_name("nothing", nullptr), nullptr);
    EXPECT_EQ(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_META, nullptr), nullptr);
    ggml_backend_unload(loaded);
}

TEST(RegistryApi, FailuresAreNullAndASentence) {
    EXPECT_EQ(ggml_backend_load("/no/such/plugin.so"), nullptr);
    EXPECT_STREQ(heddle_last_error(), "/no/such/plugin.so: there is no such file");
    EXPECT_EQ(ggml_backend_load(nullptr), nullptr);
    EXPECT_STREQ(heddle_last_error(), "ggml_backend_load: the path is NULL");
    EXPECT_EQ(ggml_backend_dev_get(9999), nullptr);
    EXPECT_THAT(heddle_last_error(), HasSubstr("ggml_backend_dev_get: index 9999 of "));
    EXPECT_EQ(ggml_backend_reg_get(9999), nullptr);
    EXPECT_EQ(ggml_backend_dev_by_name(nullptr), nullptr);
    heddle_clear_error();
    EXPECT_EQ(ggml_backend_dev_by_name("nothing"), nullptr);  // a question, not a failure
    EXPECT_STREQ(heddle_last_error(), "");
    ggml_backend_register(nullptr);
    ggml_backend_device_register(nullptr);
}

TEST(RegistryApi, LoadsADirectoryAndTheFileNamedInTheEnvironment) {
    const Directory directory, elsewhere;
    directory.put("good", "libggml-cuda.so");
    const auto extra = elsewhere.put("other", "anything.so");
    setenv("GGML_BACKEND_PATH", extra.c_str(), 1);
    ggml_backend_load_all_from_path(directory.path().c_str());
    unsetenv("GGML_BACKEND_PATH");
    const ggml_backend_reg_t good = ggml_backend_reg_by_name("good");
    const ggml_backend_reg_t other = ggml_backend_reg_by_name("other");
    EXPECT_NE(good, nullptr);
    EXPECT_NE(other, nullptr);
    ggml_backend_unload(good);
    ggml_backend_unload(other);
}

TEST(RegistryApi, DoesNotLookForWhatTheEnvironmentSwitchesOff) {
    const Directory directory;
    directory.put("good", "libggml-vulkan.so");
    setenv("GGML_DISABLE_VULKAN", "", 1);
    ggml_backend_load_all_from_path(directory.path().c_str());
    unsetenv("GGML_DISABLE_VULKAN");
    EXPECT_EQ(ggml_backend_reg_by_name("good"), nullptr);
    ggml_backend_load_all_from_path(directory.path().c_str());
    const ggml_backend_reg_t good = ggml_backend_reg_by_name("good");
    EXPECT_NE(good, nullptr);
    ggml_backend_unload(good);
}

TEST(RegistryApi, LoadsEveryFileOfAListButTheBrokenOnes) {
    const Directory directory, elsewhere;
    const auto good = elsewhere.put("good", "good.so"), other = elsewhere.put("other", "a:b.so"),
               aborting = elsewhere.put("aborting", "aborting.so");
    setenv("GGML_BACKEND_PATH",
           (aborting.native() + ":/no/such/plugin.so::" + good.native()).c_str(), 1);
    ggml_backend_load_all_from_path(directory.path().c_str());
    setenv("GGML_BACKEND_PATH", other.c_str(), 1);  // one file, whatever its name
    ggml_backend_load_all_from_path(directory.path().c_str());
    unsetenv("GGML_BACKEND_PATH");
    EXPECT_EQ(info_of("/no/such/plugin.so").status, HEDDLE_PLUGIN_REJECTED);
    EXPECT_THAT(info_of(aborting).reason, HasSubstr("ended with SIGABRT while it was loaded"));
    for (const char* name : {"good", "other"}) {
        const ggml_backend_reg_t loaded = ggml_backend_reg_by_name(name);
        EXPECT_NE(loaded, nullptr) << name;
        ggml_backend_unload(loaded);
    }
}

TEST(RegistryApi, ListsWithoutLoadingWhatIsThereOnRequest) {
    const Directory directory;
    const auto path = directory.put("good", "libggml-blas.so");
    ggml_backend_load_all_from_path(directory.path().c_str());
    EXPECT_EQ(info_of(path).status, HEDDLE_PLUGIN_ON_REQUEST);
    EXPECT_STREQ(info_of(path).name, "blas");
    EXPECT_EQ(ggml_backend_reg_by_name("good"), nullptr);
    EXPECT_STREQ(heddle_plugin_status_name(HEDDLE_PLUGIN_ON_REQUEST), "on request");
    EXPECT_STREQ(heddle_plugin_status_name(HEDDLE_PLUGIN_PASSED_OVER), "passed over");
}

TEST(RegistryApi, RefusesTablesThatLackWhatIsRequired) {
    test::FakeBackend backend("Incomplete");
    backend.handle()->iface.get_device = nullptr;
    ggml_backend_register(backend.handle());
    EXPECT_STREQ(heddle_last_error(),
                 "ggml_backend_register: this backend: has no get_device in its table of the "
                 "backend");
    EXPECT_EQ(ggml_backend_reg_by_name("Incomplete"), nullptr);
    test::FakeBackend other("Other");
    const ggml_backend_dev_t device = other.device(0);
    device->iface.get_buffer_type = nullptr;
    ggml_backend_device_register(device);
    EXPECT_STREQ(heddle_last_error(),
                 "ggml_backend_device_register: this device: has no get_buffer_type in its table "
                 "of the device");
    EXPECT_EQ(ggml_backend_dev_by_name("Other0"), nullptr);
}

TEST(RegistryApi, SurvivesADirectoryFullOfRubbish) {
    const Directory directory;
    directory.write("libggml-cuda.so", "text");
    directory.write("libggml-cpu-x.so", "");
    directory.put("no_init", "libggml-vulkan.so");
    directory.put("old_version", "libggml-rpc.so");
    const auto cut = directory.put("good", "libggml-metal.so");
    std::filesystem::resize_file(cut, 4096);
    const size_t before = ggml_backend_reg_count();
    ggml_backend_load_all_from_path(directory.path().c_str());
    EXPECT_EQ(ggml_backend_reg_count(), before);
    EXPECT_EQ(info_of(cut).status, HEDDLE_PLUGIN_REJECTED);
    EXPECT_THAT(info_of(cut).reason, HasSubstr("is cut off"));
}

TEST(RegistryApi, RecordsFitCallersWithASmallerStruct) {
    ASSERT_EQ(ggml_backend_load("/no/such/plugin.so"), nullptr);
    heddle_plugin_info info{};
    info.api_version = 77;
    EXPECT_TRUE(heddle_plugin_get(heddle_plugin_count() - 1, &info,
                                  offsetof(heddle_plugin_info, api_version)));
    EXPECT_NE(info.path, nullptr);
    EXPECT_EQ(info.api_version, 77);
    EXPECT_FALSE(heddle_plugin_get(heddle_plugin_count(), &info, sizeof info));
    EXPECT_FALSE(heddle_plugin_get(0, &info, SIZE_MAX));
    EXPECT_STREQ(heddle_plugin_status_name(HEDDLE_PLUGIN_REJECTED), "rejected");
}

TEST(SharedLibraryFunctions, OpenFindAndSayWhyNot) {
    const Directory directory;
    const dl_handle_ptr handle(dl_load_library(directory.put("good", "good.so")));
    ASSERT_NE(handle, nullptr);
    EXPECT_NE(dl_get_sym(handle.get(), "ggml_backend_init"), nullptr);
    EXPECT_EQ(dl_get_sym(handle.get(), "no_such_symbol"), nullptr);
    EXPECT_EQ(dl_load_library("/no/such/library.so"), nullptr);
    EXPECT_THAT(dl_error(), HasSubstr("/no/such/library.so"));
}

}  // namespace
}  // namespace heddle
