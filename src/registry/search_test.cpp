#include "registry/search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "registry/test_support.hpp"

namespace heddle {
namespace {

using test::Directory;
using testing::ElementsAre;
using testing::HasSubstr;
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

TEST(Search, LooksBesideTheProgramBeforeTheCurrentDirectory) {
    const auto directories = default_search_directories();
    ASSERT_FALSE(directories.empty());
    EXPECT_EQ(directories.back(), fs::current_path());
    const fs::path program = fs::read_symlink("/proc/self/exe").parent_path();
    EXPECT_NE(std::find(directories.begin(), directories.end(), program), directories.end());
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

TEST(Search, DistrustsFilesThatEverybodyCanWrite) {
    const Directory directory;
    const auto file = directory.write("libggml-cpu.so", "");
    EXPECT_EQ(distrust(file), "");
    fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
    EXPECT_THAT(distrust(file), HasSubstr("can be written by everybody"));
}

TEST(Search, DistrustsOpenDirectoriesUnlessTheyAreSticky) {
    const Directory directory;
    fs::permissions(directory.path(), fs::perms::all);
    EXPECT_THAT(distrust(directory.path()), HasSubstr("can be written by everybody"));
    fs::permissions(directory.path(), fs::perms::all | fs::perms::sticky_bit);
    EXPECT_EQ(distrust(directory.path()), "");
}

TEST(Search, DistrustsFilesOfOtherUsers) {
    const Directory directory;
    const auto file = directory.write("libggml-cpu.so", "");
    if (chown(file.c_str(), 12345, 12345) != 0)
        GTEST_SKIP() << "needs the right to give files away";
    EXPECT_THAT(distrust(file), HasSubstr("belongs to user 12345"));
}

}  // namespace
}  // namespace heddle
