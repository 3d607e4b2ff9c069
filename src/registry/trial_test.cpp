#include "registry/trial.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>

#include "registry/backend_list.hpp"
#include "registry/loader.hpp"
#include "registry/test_support.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using test::Directory;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr auto kPatience = 30s;  ///< for what must come back
constexpr auto kShort = 2s;      ///< for what never does; a busy machine starts it in that

std::string refusal(const fs::path& path, std::chrono::milliseconds limit = kPatience) {
    const auto outcome = try_loading(path, limit);
    return outcome ? "" : outcome.error().message;
}

TEST(Trial, LetsAPluginPassThatComesBackWhateverItSays) {
    const Directory directory;
    for (const char* plugin : {"good", "no_init", "null_init", "old_version", "throwing", "score_0",
                               "no_count", "unnamed", "half_table", "many", "zeros", "zero_devices",
                               "name_throws", "count_throws", "endless"}) {
        EXPECT_EQ(refusal(directory.put(plugin, std::string(plugin) + ".so")), "") << plugin;
    }
    EXPECT_EQ(refusal(directory.path() / "missing.so"), "");
}

TEST(Trial, SaysWhichSignalEndedItWhereAndItsLastWords) {
    const Directory directory;
    const auto path = directory.put("aborting", "aborting.so");
    EXPECT_EQ(refusal(path),
              "ended with SIGABRT while it was loaded (in ggml_backend_init); it said: of another "
              "age");
    EXPECT_FALSE(test::is_open(path));
}

TEST(Trial, NoticesARegistrationThatIsNone) {
    const Directory directory;
    EXPECT_EQ(refusal(directory.put("nonsense", "nonsense.so")),
              "ended with SIGSEGV while it was loaded (while its tables were read)");
}

TEST(Trial, EndsAPluginThatHangs) {
    const Directory directory;
    EXPECT_EQ(refusal(directory.put("hanging", "hanging.so"), kShort),
              "was not done after 2 s while it was loaded (in ggml_backend_init)");
}

TEST(Trial, APluginThatCallsExitEndsTheChildAlone) {
    const Directory directory;
    // A handler of the program's would write this file if the child ran it.
    static std::string witness;
    witness = (directory.path() / "witness").native();
    std::atexit([] { std::ofstream(witness) << "here"; });
    EXPECT_EQ(refusal(directory.put("leaving", "leaving.so")),
              "ended the process while it was loaded (in ggml_backend_init)");
    EXPECT_FALSE(fs::exists(witness));
}

TEST(Trial, LeavesNoChildBehind) {
    const Directory directory;
    (void)refusal(directory.put("good", "good.so"));
    (void)refusal(directory.put("aborting", "aborting.so"));
    (void)refusal(directory.put("hanging", "hanging.so"), kShort);
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
}

TEST(Trial, WorksInAProgramThatReapsItsChildrenItself) {
    const Directory directory;
    const auto before = std::signal(SIGCHLD, SIG_IGN);
    EXPECT_EQ(refusal(directory.put("good", "good.so")), "");
    EXPECT_THAT(refusal(directory.put("aborting", "aborting.so")),
                testing::StartsWith("ended while it was loaded (in ggml_backend_init)"));
    std::signal(SIGCHLD, before);
}

/// While it lives, the process can open no more files.
class NoMoreFiles {
public:
    NoMoreFiles() {
        getrlimit(RLIMIT_NOFILE, &before_);
        const rlimit none = {0, before_.rlim_max};
        setrlimit(RLIMIT_NOFILE, &none);
    }
    ~NoMoreFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
    NoMoreFiles(const NoMoreFiles&) = delete;
    NoMoreFiles& operator=(const NoMoreFiles&) = delete;

private:
    rlimit before_;
};

TEST(Trial, WhereThereIsNoChildNothingPasses) {
    const Directory directory;
    const auto path = directory.put("good", "good.so");
    {
        const NoMoreFiles no_more;
        const auto outcome = try_loading(path, kPatience);
        ASSERT_FALSE(outcome);
        EXPECT_EQ(outcome.error().code, Errc::io);
        EXPECT_EQ(outcome.error().message,
                  "cannot be tried in a child process: no pipe can be made (Too many open files); "
                  "HEDDLE_PLUGIN_TRIAL=0 loads it without a trial");
    }
    EXPECT_EQ(refusal(path), "");
}

/// A loader that tries every plug-in first.
class LoaderWithTrials : public testing::Test {
protected:
    std::string refusal_of(const fs::path& path) {
        const auto loaded = loader_.load(path);
        return loaded ? "" : loaded.error().message;
    }

    Directory directory_;
    Registry registry_;
    PluginReport report_;
    Loader loader_{registry_, report_, nullptr, {kShort, nullptr}};
};

TEST_F(LoaderWithTrials, RejectsWhatWouldEndTheProcessAndLoadsTheRest) {
    const auto aborting = directory_.put("aborting", "libggml-cuda.so");
    const auto leaving = directory_.put("leaving", "libggml-metal.so");
    const auto hanging = directory_.put("hanging", "libggml-rpc.so");
    directory_.put("good", "libggml-vulkan.so");
    const std::vector<fs::path> directories{directory_.path()};
    loader_.load_all(plugins_found(), directories);
    EXPECT_NE(registry_.find_registration("good"), nullptr);
    EXPECT_EQ(registry_.picture()->entries.size(), 1u);
    for (const PluginRecord& record : report_.records()) {
        if (record.name == "good") continue;
        EXPECT_EQ(record.status, HEDDLE_PLUGIN_REJECTED);
        EXPECT_THAT(record.reason, HasSubstr("while it was loaded")) << record.path;
        EXPECT_FALSE(test::is_open(record.path));
    }
    EXPECT_EQ(report_.records().size(), 4u);
}

TEST_F(LoaderWithTrials, NamesTheFile) {
    const auto path = directory_.put("aborting", "aborting.so");
    EXPECT_THAT(refusal_of(path), testing::StartsWith(path.native() + ": ended with SIGABRT"));
}

TEST_F(LoaderWithTrials, TriesAFileAgainOnlyWhenItHasChanged) {
    const auto path = directory_.put("hanging", "plugin.so");
    const std::string first = refusal_of(path);
    EXPECT_THAT(first, HasSubstr("was not done"));
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i) EXPECT_EQ(refusal_of(path), first);
    EXPECT_LT(std::chrono::steady_clock::now() - begin,
              100 * kShort);  // else it has hung 100 times
    fs::remove(path);
    directory_.put("good", "plugin.so");
    EXPECT_EQ(refusal_of(path), "");
}

TEST_F(LoaderWithTrials, AVariantThatDoesNotComeBackGivesWayToTheNext) {
    const auto aborting = directory_.put("aborting", "libggml-cpu-a.so");
    directory_.put("score_5", "libggml-cpu-b.so");
    const std::vector<fs::path> directories{directory_.path()};
    const auto chosen = loader_.load_best("cpu", directories);
    ASSERT_NE(chosen, nullptr);
    EXPECT_EQ(name_of(chosen), "score_5");
}

TEST_F(LoaderWithTrials, PluginsOfOurOwnNeedNone) {
    const auto path = directory_.put("good", "good.so");
    static int asked;
    asked = 0;
    Loader trusting(registry_, report_, nullptr, {1ms, [](const fs::path&) {
                                                      ++asked;
                                                      return true;
                                                  }});
    EXPECT_TRUE(trusting.load(path));
    EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace heddle
