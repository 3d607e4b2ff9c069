#include "registry/loader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "registry/backend_list.hpp"
#include "registry/test_support.hpp"

namespace heddle {
namespace {

using test::Directory;
using testing::HasSubstr;
namespace fs = std::filesystem;

class LoaderTest : public testing::Test {
protected:
    /// The message of a failed load, without the path at its beginning.
    std::string refusal(const fs::path& path) {
        auto loaded = loader_.load(path);
        if (loaded) return "";
        EXPECT_THAT(loaded.error().message, testing::StartsWith(path.native() + ": "));
        return loaded.error().message.substr(path.native().size() + 2);
    }

    ggml_backend_reg_t best(const char* name) {
        const std::vector<fs::path> directories{directory_.path()};
        return loader_.load_best(name, directories);
    }

    PluginRecord record(const fs::path& path) {
        for (const PluginRecord& record : report_.records()) {
            if (record.path == path) return record;
        }
        ADD_FAILURE() << "no record of " << path;
        return {};
    }

    Directory directory_;
    Registry registry_;
    PluginReport report_;
    Loader loader_{registry_, report_};
};

TEST_F(LoaderTest, LoadsAPluginAndRegistersItsDevices) {
    const auto path = directory_.put("good", "anything.so");
    const auto loaded = loader_.load(path);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(registry_.find_registration("GOOD"), *loaded);
    EXPECT_NE(registry_.find_device("good1"), nullptr);
    EXPECT_EQ(record(path).status, HEDDLE_PLUGIN_LOADED);
    EXPECT_EQ(record(path).name, "good");
    EXPECT_EQ(record(path).api_version, GGML_BACKEND_API_VERSION);
    ASSERT_TRUE(loader_.unload(*loaded));
}

TEST_F(LoaderTest, LoadingTwiceGivesTheSameRegistration) {
    const auto path = directory_.put("good", "good.so");
    const auto first = loader_.load(path), second = loader_.load(path);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(*first, *second);
    EXPECT_EQ(registry_.picture()->entries.size(), 1u);
    EXPECT_EQ(registry_.picture()->devices.size(), 2u);
    EXPECT_EQ(report_.records().size(), 1u);
    ASSERT_TRUE(loader_.unload(*first));
    EXPECT_FALSE(test::is_open(path));  // the second load did not leave it open
}

TEST_F(LoaderTest, SaysWhyAPluginIsRefused) {
    EXPECT_EQ(refusal(directory_.put("old_version", "old.so")),
              "was built for version 1 of the plug-in interface, this library has version 2");
    EXPECT_EQ(refusal(directory_.put("no_init", "no_init.so")),
              "is not a plug-in: it does not export ggml_backend_init");
    EXPECT_EQ(refusal(directory_.put("null_init", "null.so")),
              "did not start: ggml_backend_init gave NULL");
    EXPECT_EQ(refusal(directory_.put("throwing", "throwing.so")),
              "ggml_backend_init threw: no driver");
    EXPECT_EQ(refusal(directory_.put("score_0", "score_0.so")),
              "is not supported on this machine (score 0)");
    EXPECT_EQ(refusal(directory_.write("text.so", "hello")), "is not a shared library");
    EXPECT_EQ(refusal(directory_.path() / "missing.so"), "there is no such file");
    EXPECT_TRUE(registry_.picture()->entries.empty());
    EXPECT_EQ(report_.records().size(), 7u);
    EXPECT_EQ(record(directory_.path() / "old.so").api_version, 1);
    for (const PluginRecord& record : report_.records()) {
        EXPECT_EQ(record.status, HEDDLE_PLUGIN_REJECTED);
        EXPECT_NE(record.reason, "");
        EXPECT_FALSE(test::is_open(record.path)) << record.path;
    }
}

TEST_F(LoaderTest, TakesTheVariantWithTheHighestScore) {
    const auto five = directory_.put("score_5", "libggml-cpu-a.so");
    const auto nine = directory_.put("score_9", "libggml-cpu-b.so");
    const auto zero = directory_.put("score_0", "libggml-cpu-c.so");
    const auto unscored = directory_.put("good", "libggml-cpu-d.so");
    directory_.put("other", "libggml-cpu.so");
    const auto chosen = best("cpu");
    ASSERT_NE(chosen, nullptr);
    EXPECT_EQ(name_of(chosen), "score_9");
    EXPECT_EQ(record(nine).score, 9);
    EXPECT_EQ(record(five).status, HEDDLE_PLUGIN_OUTRANKED);
    EXPECT_EQ(record(five).reason, "scores 5; " + nine.native() + " scores 9");
    EXPECT_THAT(record(zero).reason, HasSubstr("score 0"));
    EXPECT_THAT(record(unscored).reason, HasSubstr("does not export ggml_backend_score"));
    EXPECT_TRUE(test::is_open(nine));
    EXPECT_FALSE(test::is_open(five));
    EXPECT_EQ(registry_.find_registration("other"), nullptr);
    ASSERT_TRUE(loader_.unload(chosen));
}

TEST_F(LoaderTest, TakesTheNextVariantIfTheBestDoesNotStart) {
    const auto failing = directory_.put("score_20_null", "libggml-cpu-a.so");
    directory_.put("score_5", "libggml-cpu-b.so");
    const auto chosen = best("cpu");
    ASSERT_NE(chosen, nullptr);
    EXPECT_EQ(name_of(chosen), "score_5");
    EXPECT_EQ(record(failing).status, HEDDLE_PLUGIN_REJECTED);
    EXPECT_EQ(record(failing).score, 20);
    ASSERT_TRUE(loader_.unload(chosen));
}

TEST_F(LoaderTest, TakesThePlainFileWhereNoVariantWorks) {
    directory_.put("score_0", "libggml-cpu-a.so");
    directory_.write("libggml-cpu-b.so", "not a library");
    directory_.put("good", "libggml-cpu.so");
    const auto chosen = best("cpu");
    ASSERT_NE(chosen, nullptr);
    EXPECT_EQ(name_of(chosen), "good");
    ASSERT_TRUE(loader_.unload(chosen));
}

TEST_F(LoaderTest, TheFirstDirectoryWins) {
    const Directory second;
    directory_.put("good", "libggml-cuda.so");
    second.put("other", "libggml-cuda.so");
    const std::vector<fs::path> directories{second.path(), directory_.path()};
    const auto chosen = loader_.load_best("cuda", directories);
    ASSERT_NE(chosen, nullptr);
    EXPECT_EQ(name_of(chosen), "other");
    ASSERT_TRUE(loader_.unload(chosen));
}

TEST_F(LoaderTest, LoadsAllKnownNamesAcceleratorsFirst) {
    directory_.put("good", "libggml-cpu.so");
    directory_.put("other", "libggml-cuda.so");
    directory_.put("score_5", "libggml-unknown.so");
    directory_.put("score_9", "libggml-blas.so");
    const std::vector<fs::path> directories{directory_.path()};
    loader_.load_all(plugins_found(), directories);
    const auto now = registry_.picture();
    ASSERT_EQ(now->entries.size(), 2u);
    EXPECT_EQ(name_of(now->entries[0].registration), "other");
    EXPECT_EQ(name_of(now->entries[1].registration), "good");
    loader_.load_all(plugins_found(), directories);  // once more changes nothing
    EXPECT_EQ(registry_.picture()->entries.size(), 2u);
    EXPECT_EQ(plugins_found().back(), "cpu");
}

TEST_F(LoaderTest, LoadsOtherPluginsOfADirectoryInTheOrderOfTheirNames) {
    directory_.put("other", "libggml-weft.so");
    directory_.put("good", "libggml-loom.so");
    directory_.put("score_5", "libggml-loom-b.so");
    const auto none = directory_.write("libggml-none.so", "text");
    // Looked for by their names, on request, or no plug-ins at all.
    for (const char* known : {"libggml-cuda.so", "libggml-cpu-a.so", "libggml-blas.so",
                              "libggml-sim-b.so", "libggml-base.so", "libggml.so", "loom.so"}) {
        directory_.put("score_9", known);
    }
    const std::vector<fs::path> directories{directory_.path(), "/no/such/directory"};
    loader_.load_others(directories);
    loader_.load_others(directories);  // once more changes nothing
    const auto now = registry_.picture();
    ASSERT_EQ(now->entries.size(), 3u);
    EXPECT_EQ(name_of(now->entries[0].registration), "score_5");
    EXPECT_EQ(name_of(now->entries[1].registration), "good");
    EXPECT_EQ(name_of(now->entries[2].registration), "other");
    EXPECT_EQ(record(none).reason, "is not a shared library");
    EXPECT_EQ(report_.records().size(), 4u);
}

TEST_F(LoaderTest, ListsWhatIsLoadedOnRequestUntilItIs) {
    const std::vector<fs::path> directories{"/no/such/directory", directory_.path()};
    loader_.note_on_request("sim", directories);
    EXPECT_TRUE(report_.records().empty());
    const auto path = directory_.put("sim", "libggml-sim.so");
    loader_.note_on_request("sim", directories);
    EXPECT_EQ(record(path).status, HEDDLE_PLUGIN_ON_REQUEST);
    EXPECT_EQ(record(path).name, "sim");
    EXPECT_FALSE(test::is_open(path));
    ASSERT_NE(best("sim"), nullptr);
    loader_.note_on_request("sim", directories);
    EXPECT_EQ(record(path).status, HEDDLE_PLUGIN_LOADED);
}

TEST_F(LoaderTest, NamesTheMemberThatATableLacks) {
    EXPECT_EQ(refusal(directory_.put("no_count", "no_count.so")),
              "has no get_device_count in its table of the backend");
    EXPECT_EQ(refusal(directory_.put("unnamed", "unnamed.so")), "does not say its name");
    EXPECT_EQ(refusal(directory_.put("many", "many.so")),
              "claims to have 1000000 devices, more than 4096");
    EXPECT_TRUE(registry_.picture()->entries.empty());
}

TEST_F(LoaderTest, NamesWhatIsWrongWithATableThatIsEmptyOrThrows) {
    EXPECT_EQ(refusal(directory_.put("zeros", "zeros.so")),
              "has no get_name in its table of the backend");
    EXPECT_EQ(refusal(directory_.put("name_throws", "name_throws.so")),
              "its table of functions threw something that is no std::exception");
    EXPECT_EQ(refusal(directory_.put("count_throws", "count_throws.so")),
              "its table of functions threw something that is no std::exception");
    EXPECT_EQ(refusal(directory_.put("endless", "endless.so")),
              "claims to have 18446744073709551615 devices, more than 4096");
    EXPECT_TRUE(registry_.picture()->entries.empty());
    const auto path = directory_.put("zero_devices", "zero_devices.so");
    const auto loaded = loader_.load(path);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_TRUE(registry_.picture()->devices.empty());
    EXPECT_EQ(record(path).reason,
              "device 0 of 2 was left out: it has no get_name in its table of the device, and 1 "
              "more");
}

TEST_F(LoaderTest, GoesOnBehindATableThatThrows) {
    directory_.put("name_throws", "libggml-cuda.so");
    directory_.put("good", "libggml-vulkan.so");
    const std::vector<fs::path> directories{directory_.path()};
    loader_.load_all(plugins_found(), directories);
    EXPECT_NE(registry_.find_registration("good"), nullptr);
}

TEST_F(LoaderTest, LeavesOutADeviceWhoseTableLacksSomethingAndKeepsTheOthers) {
    const auto path = directory_.put("half_table", "half_table.so");
    const auto loaded = loader_.load(path);
    ASSERT_TRUE(loaded) << loaded.error().message;
    ASSERT_EQ(registry_.picture()->devices.size(), 1u);
    EXPECT_NE(registry_.find_device("half_table0"), nullptr);
    EXPECT_EQ(record(path).reason,
              "device 1 of 2 was left out: it has no supports_op in its table "
              "of the device");
}

TEST_F(LoaderTest, DoesNotLoadUnaskedWhatIsThereByName) {
    test::FakeBackend built_in("Good");
    registry_.add(built_in.handle());
    const auto path = directory_.put("good", "libggml-cpu.so");
    EXPECT_EQ(best("cpu"), nullptr);
    EXPECT_EQ(record(path).reason, "was not needed: a backend named good is registered already");
    EXPECT_TRUE(loader_.load(path));  // but does when asked
}

TEST_F(LoaderTest, RefusesFilesThatEverybodyCanWriteAskedForOrNot) {
    const auto path = directory_.put("good", "libggml-cpu.so");
    fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
    EXPECT_EQ(best("cpu"), nullptr);
    EXPECT_THAT(record(path).reason, HasSubstr("can be written by everybody"));
    EXPECT_EQ(record(path).status, HEDDLE_PLUGIN_PASSED_OVER);
    EXPECT_EQ(refusal(path), "is not loaded: " + path.native() +
                                 " can be written by everybody (HEDDLE_UNSAFE_PLUGINS=1 loads it "
                                 "all the same)");
    EXPECT_EQ(record(path).status, HEDDLE_PLUGIN_REJECTED);
    EXPECT_FALSE(test::is_open(path));
    EXPECT_TRUE(registry_.picture()->entries.empty());
}

TEST_F(LoaderTest, LoadsFilesThatEverybodyCanWriteIfItIsToldTo) {
    Loader blind(registry_, report_, nullptr, {}, Loader::Trust::blind);
    const auto path = directory_.put("good", "libggml-cpu.so");
    fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
    const auto loaded = blind.load(path);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(record(path).status, HEDDLE_PLUGIN_LOADED);
    ASSERT_TRUE(blind.unload(*loaded));
}

TEST_F(LoaderTest, UnloadsAndLoadsAgain) {
    const auto path = directory_.put("good", "good.so");
    for (int round = 0; round < 3; ++round) {
        const auto loaded = loader_.load(path);
        ASSERT_TRUE(loaded);
        EXPECT_EQ(record(path).status, HEDDLE_PLUGIN_LOADED);
        ASSERT_TRUE(loader_.unload(*loaded));
        EXPECT_FALSE(test::is_open(path));
        EXPECT_EQ(record(path).status, HEDDLE_PLUGIN_UNLOADED);
        EXPECT_TRUE(registry_.picture()->devices.empty());
        EXPECT_EQ(loader_.unload(*loaded).error().code, Errc::not_found);  // it is not touched
    }
}

TEST_F(LoaderTest, AReaderKeepsAnUnloadedLibraryInMemory) {
    const auto path = directory_.put("good", "good.so");
    const auto loaded = loader_.load(path);
    ASSERT_TRUE(loaded);
    {
        const auto picture = registry_.picture();
        ASSERT_TRUE(loader_.unload(*loaded));
        EXPECT_TRUE(test::is_open(path));
        EXPECT_EQ(name_of(picture->entries[0].registration), "good");
    }
    EXPECT_FALSE(test::is_open(path));
}

TEST_F(LoaderTest, AnUnloadedLibraryStaysOpenForBuffersThatAreAlive) {
    const auto path = directory_.put("good", "good.so");
    Loader counting(registry_, report_, [](ggml_backend_reg_t) { return 2L; });
    const auto loaded = counting.load(path);
    ASSERT_TRUE(loaded);
    ASSERT_TRUE(counting.unload(*loaded));
    EXPECT_TRUE(registry_.picture()->entries.empty());
    EXPECT_TRUE(test::is_open(path));
    EXPECT_EQ(record(path).reason,
              "was unloaded; its library stays open, because 2 of its buffers are alive");
}

TEST_F(LoaderTest, ThreadsMayLoadAndUnloadAtOnce) {
    const auto good = directory_.put("good", "good.so"),
               other = directory_.put("other", "other.so");
    std::vector<std::thread> threads;
    for (const fs::path& path : {good, other, good}) {
        threads.emplace_back([&, path] {
            for (int round = 0; round < 50; ++round) {
                const auto loaded = loader_.load(path);
                ASSERT_TRUE(loaded) << loaded.error().message;
                (void)registry_.find_device("good0");
                (void)loader_.unload(*loaded);  // another thread may have been first
            }
        });
    }
    for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace heddle
