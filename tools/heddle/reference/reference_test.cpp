#include "reference/reference.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "golden/compare.hpp"

namespace heddle::tool::reference {
namespace {

/// The recorded cases that come with the sources, or those of the directory that is named.
std::string golden_directory() {
    const char* named = std::getenv("HEDDLE_GOLDEN_DIR");
    return named != nullptr ? named : HEDDLE_TEST_DATA "/golden";
}

std::vector<std::string> case_files() {
    auto files = golden::list_case_files(golden_directory());
    return files ? *std::move(files) : std::vector<std::string>{};
}

std::string stem_of(const std::string& path) { return std::filesystem::path(path).stem().string(); }

class Recorded : public testing::TestWithParam<std::string> {};

TEST_P(Recorded, ResultsFollowFromThePlainDefinition) {
    auto cases = golden::read_case_file(GetParam());
    ASSERT_TRUE(cases) << cases.error().message;
    for (const golden::OpCase& recorded : cases->ops) {
        SCOPED_TRACE(recorded.name + " (" + recorded.description + ")");
        golden::OpCase ours = recorded;
        const auto filled = fill_expected(ours);
        ASSERT_TRUE(filled) << filled.error().message;
        const auto comparison = golden::compare_result(recorded, ours.result.bytes);
        ASSERT_TRUE(comparison) << comparison.error().message;
        EXPECT_TRUE(comparison->passed) << comparison->what;
        for (const golden::Source& source : recorded.sources) {
            if (!source.after) continue;
            const golden::Source* changed = ours.source(source.slot);
            ASSERT_TRUE(changed->after) << "slot " << source.slot << " should change";
            const auto after = golden::compare_after(recorded, source, *changed->after);
            ASSERT_TRUE(after) << after.error().message;
            EXPECT_TRUE(after->passed) << "slot " << source.slot << ": " << after->what;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, Recorded, testing::ValuesIn(case_files()),
                         [](const auto& info) { return stem_of(info.param); });

TEST(Values, ReadAndWriteStridedElements) {
    const golden::Layout layout{GGML_TYPE_F16, {2, 2, 1, 1}, {4, 12, 24, 24}, 2};
    golden::Bytes storage(24, std::byte{0x55});
    Values written({2, 2, 1, 1});
    written.data() = {1, -2, 0.5, 4};
    ASSERT_TRUE(write_values(written, layout, storage));
    const auto read = read_values(layout, storage);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->data(), written.data());
    EXPECT_EQ(storage[0], std::byte{0x55}) << "bytes between the elements must stay";
}

TEST(Values, RefuseAStorageThatIsTooSmall) {
    const golden::Layout layout{GGML_TYPE_F32, {4, 1, 1, 1}, {4, 16, 16, 16}, 4};
    const auto read = read_values(layout, golden::Bytes(16));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().message, "reference: f32[4,1,1,1] ends at byte 20 of a storage of 16");
}

}  // namespace
}  // namespace heddle::tool::reference
