#include "registry/trust.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "registry/search.hpp"
#include "registry/test_support.hpp"

namespace heddle {
namespace {

using test::Directory;
using testing::HasSubstr;
namespace fs = std::filesystem;

class TrustTest : public testing::Test {
protected:
    TrustTest() {
        fs::create_directories(inner_);
        file_ = directory_.write("outer/inner/libggml-cpu.so", "");
        for (const fs::path& path : {directory_.path(), outer_, inner_}) chmod(path.c_str(), 0755);
        chmod(file_.c_str(), 0644);
    }

    Directory directory_;
    fs::path outer_ = directory_.path() / "outer", inner_ = outer_ / "inner", file_;
};

TEST_F(TrustTest, OfFilesThatOnlyTheUserCanWriteIsGiven) { EXPECT_EQ(distrust(file_), ""); }

TEST_F(TrustTest, OfMissingFilesIsNoQuestion) { EXPECT_EQ(distrust(inner_ / "missing.so"), ""); }

TEST_F(TrustTest, IsDeniedIfEverybodyCanWriteTheFileOrADirectoryAboveIt) {
    for (const fs::path& part : {file_, inner_, outer_}) {
        fs::permissions(part, fs::perms::others_write, fs::perm_options::add);
        EXPECT_EQ(distrust(file_), part.native() + " can be written by everybody");
        fs::permissions(part, fs::perms::others_write, fs::perm_options::remove);
    }
    EXPECT_EQ(distrust(file_), "");
}

TEST_F(TrustTest, IsGivenInDirectoriesWithTheStickyBit) {
    fs::permissions(inner_, fs::perms::all | fs::perms::sticky_bit);
    EXPECT_EQ(distrust(file_), "");
}

TEST_F(TrustTest, IsDeniedIfALinkLeadsToWhatOthersCanWrite) {
    const fs::path link = outer_ / "link.so";
    fs::create_symlink(file_, link);
    EXPECT_EQ(distrust(link), "");
    fs::permissions(file_, fs::perms::others_write, fs::perm_options::add);
    EXPECT_THAT(distrust(link), HasSubstr("inner/libggml-cpu.so can be written by everybody"));
}

TEST_F(TrustTest, IsDeniedIfOthersCanChangeTheLink) {
    const Directory trusted;
    chmod(trusted.path().c_str(), 0755);
    const fs::path target = trusted.write("libggml-cpu.so", "");
    const fs::path link = inner_ / "link.so";
    fs::create_symlink(target, link);
    EXPECT_EQ(distrust(link), "");
    fs::permissions(inner_, fs::perms::others_write, fs::perm_options::add);
    EXPECT_EQ(distrust(link), inner_.native() + " can be written by everybody");
}

TEST_F(TrustTest, IsDeniedForFilesOfOtherUsersAndGroups) {
    if (chown(file_.c_str(), 12345, 12345) != 0)
        GTEST_SKIP() << "needs the right to give files away";
    EXPECT_THAT(distrust(file_), HasSubstr("belongs to user 12345"));
    ASSERT_EQ(chown(file_.c_str(), geteuid(), 12345), 0);
    EXPECT_EQ(distrust(file_), "");
    fs::permissions(file_, fs::perms::group_write, fs::perm_options::add);
    EXPECT_EQ(distrust(file_), file_.native() + " can be written by group 12345");
}

TEST_F(TrustTest, OfDirectoriesAboveThisLibraryIsNoQuestion) {
    // Whatever they are: the library runs from there.
    EXPECT_EQ(distrust(own_file()), "");
}

}  // namespace
}  // namespace heddle
