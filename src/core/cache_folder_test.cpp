#include "core/cache_folder.hpp"

#include <gtest/gtest.h>

namespace heddle {
namespace {

TEST(CacheFolder, IsTheOneForCachesOrLiesInTheOneOfTheUser) {
    EXPECT_EQ(cache_folder("/var/c", "/h/a"), "/var/c/heddle");
    EXPECT_EQ(cache_folder(nullptr, "/h/a"), "/h/a/.cache/heddle");
    EXPECT_EQ(cache_folder("/var/c", nullptr), "/var/c/heddle");
    EXPECT_EQ(cache_folder(nullptr, nullptr), "");
}

TEST(CacheFolder, IsNotMadeOfWhatIsEmptyOrRelative) {
    EXPECT_EQ(cache_folder("", "/h/a"), "/h/a/.cache/heddle");
    EXPECT_EQ(cache_folder("here", "/h/a"), "/h/a/.cache/heddle");
    EXPECT_EQ(cache_folder("", ""), "");
    EXPECT_EQ(cache_folder("here", "there"), "");
}

}  // namespace
}  // namespace heddle
