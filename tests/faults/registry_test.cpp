// Backends listed, loaded, reported and unloaded while calls to the system fail.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "ggml-backend.h"
#include "heddle/heddle.h"
#include "heddle/plugins.h"
#include "tests/faults/fault_points.hpp"
#include "tests/faults/sweep.hpp"

namespace heddle::faults {
namespace {

using testing::HasSubstr;

void list_backends(Run& run) {
    run.worked("counting backends", [] { return ggml_backend_reg_count() > 0; });
    ggml_backend_dev_t processor = run.made(
        "the processor", [] { return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU); });
    run.worked("the first device", [] { return ggml_backend_dev_get(0) != nullptr; });
    run.worked("the processor by name", [&] {
        return ggml_backend_dev_by_name(ggml_backend_dev_name(processor)) == processor;
    });
    ggml_backend_dev_props properties;
    run.done("its properties", [&] { ggml_backend_dev_get_props(processor, &properties); });
    run.worked("counting records", [] { return heddle_plugin_count() > 0; });
    heddle_plugin_info info;
    run.worked("the first record", [&] { return heddle_plugin_get(0, &info, sizeof info); });
    run.expect("its status", info.status == HEDDLE_PLUGIN_BUILT_IN);
}

TEST(Sweep, ListingBackends) { sweep(list_backends); }

const char* plugin_file() {
    static const std::string path = std::string(HEDDLE_TEST_PLUGINS) + "/good.so";
    return path.c_str();
}

/// What the report says about the plug-in; `none` if it has no record.
enum heddle_plugin_status status_of_plugin(enum heddle_plugin_status none) {
    heddle_plugin_info info;
    for (std::size_t i = 0; heddle_plugin_get(i, &info, sizeof info); ++i) {
        if (std::strcmp(info.path, plugin_file()) == 0) return info.status;
    }
    return none;
}

/// Unloads the plug-in if it is still there. That needs memory, so there is some again.
struct Unload {
    ~Unload() {
        disarm();
        ggml_backend_reg_t loaded = ggml_backend_reg_by_name("good");
        if (loaded != nullptr) ggml_backend_unload(loaded);
    }
};

void load_plugin(Run& run) {
    const Unload afterwards;
    ggml_backend_reg_t loaded =
        run.made("the plug-in", [] { return ggml_backend_load(plugin_file()); });
    run.worked("its devices", [&] { return ggml_backend_reg_dev_count(loaded) == 2; });
    run.worked("finding a device", [] { return ggml_backend_dev_by_name("good1") != nullptr; });
    run.worked("its record",
               [] { return status_of_plugin(HEDDLE_PLUGIN_REJECTED) == HEDDLE_PLUGIN_LOADED; });
    run.done("unloading", [&] { ggml_backend_unload(loaded); });
    run.expect("it is gone", ggml_backend_reg_by_name("good") == nullptr);
    run.worked("the record afterwards",
               [] { return status_of_plugin(HEDDLE_PLUGIN_REJECTED) == HEDDLE_PLUGIN_UNLOADED; });
}

TEST(Sweep, LoadingPlugins) {
    plugin_file();
    sweep(load_plugin);
}

/// It would end this process if it were loaded without a trial.
TEST(Trials, WithoutAChildAPluginThatAbortsIsRefusedAndTriedNextTime) {
    ggml_backend_reg_count();
    ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    constexpr int kPoints = 3;  // two pipes and a child
    for (int number = 1; number <= kPoints; ++number) {
        arm(Kind::process, number, Fault::once);
        EXPECT_EQ(ggml_backend_load(HEDDLE_TEST_PLUGINS "/aborting.so"), nullptr);
        disarm();
        EXPECT_TRUE(fired()) << number;
        EXPECT_THAT(heddle_last_error(), HasSubstr("cannot be tried in a child process"));
    }
    EXPECT_EQ(ggml_backend_load(HEDDLE_TEST_PLUGINS "/aborting.so"), nullptr);
    EXPECT_THAT(heddle_last_error(), HasSubstr("ended with SIGABRT"));
    ggml_log_set(nullptr, nullptr);
}

void load_directory(Run& run) {
    run.done("loading all", [] { ggml_backend_load_all_from_path(HEDDLE_TEST_PLUGINS); });
    run.expect("nothing of that name", ggml_backend_dev_by_name("no such device") == nullptr);
}

TEST(Sweep, LoadingADirectory) { sweep(load_directory); }

}  // namespace
}  // namespace heddle::faults
