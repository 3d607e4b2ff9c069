#include "golden/compare.hpp"

#include <gtest/gtest.h>

#include <cfloat>
#include <limits>

namespace heddle::golden {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <class T>
Elements row(Type type, const std::vector<T>& values) {
    return Elements::dense(type, {static_cast<std::int64_t>(values.size()), 1, 1, 1},
                           std::as_bytes(std::span(values)));
}

Comparison judge(Rule rule, double tolerance, const std::vector<float>& result,
                 const std::vector<float>& recorded) {
    return *compare(rule, tolerance, row(GGML_TYPE_F32, result), row(GGML_TYPE_F32, recorded));
}

TEST(Compare, NmseIsRelativeToTheResult) {
    const Comparison comparison = judge(Rule::nmse, 0.01, {2, 0, 0}, {2, 0, 0.2f});
    EXPECT_NEAR(comparison.error, 0.01, 1e-9);  // 0.2f is not quite 0.2
    EXPECT_FALSE(judge(Rule::nmse, 0.009, {2, 0, 0}, {2, 0, 0.2f}).passed);
    EXPECT_TRUE(judge(Rule::nmse, 0.011, {2, 0, 0}, {2, 0, 0.2f}).passed);
}

TEST(Compare, NmseNamesTheElementThatIsToBlame) {
    const Comparison comparison = judge(Rule::nmse, 1e-6, {1, 2, 3}, {1, 2, 4});
    ASSERT_TRUE(comparison.first);
    EXPECT_EQ(comparison.first->index, 2);
    EXPECT_EQ(comparison.first->result, 3);
    EXPECT_EQ(comparison.first->recorded, 4);
}

TEST(Compare, ZerosAgainstZerosAreNoError) {
    EXPECT_TRUE(judge(Rule::nmse, 0, {0, 0}, {0, 0}).passed);
    EXPECT_FALSE(judge(Rule::nmse, 1, {0, 0}, {0, 1}).passed);
}

TEST(Compare, NanMustMeetNan) {
    EXPECT_TRUE(judge(Rule::nmse, 0, {kNaN, 1}, {kNaN, 1}).passed);
    EXPECT_FALSE(judge(Rule::nmse, 1, {kNaN, 1}, {1, kNaN}).passed);
    EXPECT_TRUE(judge(Rule::exact, 0, {kNaN, 1}, {kNaN, 1}).passed);
    EXPECT_FALSE(judge(Rule::exact, 0, {kNaN, 1}, {1, 1}).passed);
}

TEST(Compare, InfinityMustMeetInfinityOfTheSameSign) {
    EXPECT_TRUE(judge(Rule::nmse, 0, {kInfinity, 1}, {FLT_MAX, 1}).passed);
    EXPECT_FALSE(judge(Rule::nmse, 1, {kInfinity, 1}, {-kInfinity, 1}).passed);
    EXPECT_FALSE(judge(Rule::nmse, 1, {kInfinity, 1}, {5, 1}).passed);
}

TEST(Compare, ExactCountsWhatDiffers) {
    const Comparison comparison = judge(Rule::exact, 0, {1, 2, 3, -0.0f}, {1, 5, 6, 0.0f});
    EXPECT_FALSE(comparison.passed);
    EXPECT_EQ(comparison.error, 2);
    EXPECT_EQ(comparison.first->index, 1);
}

TEST(Compare, ExactSeesTheLastBitOfLargeIntegers) {
    const std::vector<std::int64_t> a{(std::int64_t{1} << 62) + 1}, b{std::int64_t{1} << 62};
    EXPECT_FALSE(compare(Rule::exact, 0, row(GGML_TYPE_I64, a), row(GGML_TYPE_I64, b))->passed);
    EXPECT_TRUE(compare(Rule::exact, 0, row(GGML_TYPE_I64, a), row(GGML_TYPE_I64, a))->passed);
}

TEST(Compare, IndexSetsAreFreeInOrderWithinARow) {
    const std::vector<std::int32_t> a{1, 2, 3, 4}, swapped{2, 1, 4, 3}, moved{1, 3, 2, 4};
    const auto as_rows = [](const std::vector<std::int32_t>& values) {
        return Elements::dense(GGML_TYPE_I32, {2, 2, 1, 1}, std::as_bytes(std::span(values)));
    };
    EXPECT_TRUE(compare(Rule::index_set, 0, as_rows(a), as_rows(swapped))->passed);
    EXPECT_FALSE(compare(Rule::index_set, 0, as_rows(a), as_rows(moved))->passed);
}

TEST(Compare, RefusesMemoryThatIsTooSmall) {
    const std::vector<float> three{1, 2, 3}, four{1, 2, 3, 4};
    const Elements small =
        Elements::dense(GGML_TYPE_F32, {4, 1, 1, 1}, std::as_bytes(std::span(three)));
    const auto comparison = compare(Rule::nmse, 0, small, row(GGML_TYPE_F32, four));
    ASSERT_FALSE(comparison);
    EXPECT_EQ(comparison.error().message, "compare: f32[4,1,1,1] needs 16 bytes, there are 12");
}

TEST(Compare, NothingBesideAViewMayBeWritten) {
    OpCase golden;
    golden.rule = Rule::exact;
    golden.result.layout = {GGML_TYPE_F32, {2, 1, 1, 1}, {4, 8, 8, 8}, 4};
    golden.result.view_of = 0;
    golden.result.content = Recorded::Content::storage;
    const std::vector<float> recorded{1, 2, 3, 4};
    const auto bytes = std::as_bytes(std::span(recorded));
    golden.result.bytes.assign(bytes.begin(), bytes.end());
    std::vector<float> result = recorded;
    EXPECT_TRUE(compare_result(golden, std::as_bytes(std::span(result)))->passed);
    result[3] = 5;
    const auto comparison = compare_result(golden, std::as_bytes(std::span(result)));
    EXPECT_FALSE(comparison->passed);
    EXPECT_EQ(comparison->first->index, 14);  // 4.0f and 5.0f differ from their third byte on
}

}  // namespace
}  // namespace heddle::golden
