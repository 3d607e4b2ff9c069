#include "registry/search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "registry/test_support.hpp"

namespace heddle {
namespace {

using test::Directory;
using testing::ElementsAre;
namespace fs = std::filesystem;

TEST(Search, FindsVariantsByTheirExactNamePattern) {
    const Directory directory;
    const auto b = directory.write("libggml-cpu-b.so", "");
    const auto a = directory.write("libggml-cpu-a.so", "");
    for (const char* other : {"libggml-cpu.so", "libggml-cpu-a.so.0", "ggml-cpu-a.so",
                              "libggml-cpux-a.so", "libggml-cpu-a.SO", "libggml-cuda-a.so"}) {
        directory.write(other, "");
    }
    fs::create_directory(directory.path() / "libggml-cpu-c.so");
    fs::create_symlink(a, directory.path() / "libggml-cpu-link.so");
    EXPECT_THAT(variants_in(directory.path(), "cpu"),
                ElementsAre(a, b, directory.path() / "libggml-cpu-link.so"));
}

TEST(Search, AMissingDirectoryHasNoPlugins) {
    EXPECT_THAT(variants_in("/no/such/directory", "cpu"), ElementsAre());
}

TEST(Search, LooksBesideTheProgramAndNotInTheCurrentDirectory) {
    const Directory elsewhere;
    const fs::path before = fs::current_path();
    fs::current_path(elsewhere.path());
    const auto directories = default_search_directories();
    fs::current_path(before);
    EXPECT_EQ(directories.back(), fs::read_symlink("/proc/self/exe").parent_path());
    for (const fs::path& directory : directories) {
        EXPECT_TRUE(directory.is_absolute()) << directory;
        EXPECT_NE(directory, elsewhere.path());
    }
}

#ifdef HEDDLE_PLUGIN_SUBDIRECTORY  // a static library has no place of its own
TEST(Search, LooksInTheDirectoryOfThisVersionBesideTheLibraryFirst) {
    const auto directories = default_search_directories();
    const auto ours = std::find(directories.begin(), directories.end(),
                                own_directory() / HEDDLE_PLUGIN_SUBDIRECTORY);
    const auto program = std::find(directories.begin(), directories.end(),
                                   fs::read_symlink("/proc/self/exe").parent_path());
    ASSERT_NE(ours, directories.end());
    EXPECT_LT(ours, program);
}
#endif

}  // namespace
}  // namespace heddle
