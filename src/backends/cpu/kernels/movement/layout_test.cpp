#include "backends/cpu/kernels/movement/layout.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace heddle::cpu {
namespace {

Layout make_layout(std::initializer_list<Axis> axes, std::size_t unit = 4) {
    Layout layout;
    layout.unit = unit;
    for (const Axis& axis : axes) layout.add(axis);
    layout.close();
    return layout;
}

std::vector<std::int64_t> extents_of(const Layout& layout) {
    std::vector<std::int64_t> extents;
    for (std::size_t d = 0; d < layout.rank; ++d) extents.push_back(layout.axes[d].extent);
    return extents;
}

std::vector<std::int64_t> strides_of(const Layout& layout) {
    std::vector<std::int64_t> strides;
    for (std::size_t d = 0; d < layout.rank; ++d) strides.push_back(layout.axes[d].stride);
    return strides;
}

using Numbers = std::vector<std::int64_t>;

TEST(Layout, JoinsAxesThatContinueEachOther) {
    EXPECT_EQ(extents_of(make_layout({{3, 4}, {5, 12}, {7, 60}})), Numbers{105});
    EXPECT_EQ(extents_of(make_layout({{3, 4}, {5, 16}, {7, 80}})), (Numbers{3, 35}));
    EXPECT_EQ(extents_of(make_layout({{3, 20}, {5, 4}})), (Numbers{3, 5}));
}

TEST(Layout, IgnoresStridesOfSingleElements) {
    const Layout layout = make_layout({{1, 999}, {5, 4}, {1, 1}, {2, 20}});
    EXPECT_EQ(extents_of(layout), Numbers{10});
    EXPECT_TRUE(layout.is_dense());
    EXPECT_EQ(make_layout({{1, 999}}).count(), 1);
}

TEST(Layout, GroupsDenseUnitsOnly) {
    Layout rows = make_layout({{64, 4}, {3, 512}});
    EXPECT_TRUE(rows.group(32));
    EXPECT_EQ(rows.unit, 128u);
    EXPECT_EQ(extents_of(rows), (Numbers{2, 3}));
    EXPECT_FALSE(make_layout({{48, 4}, {3, 512}}).group(32));
    EXPECT_FALSE(make_layout({{64, 8}}).group(32));
}

TEST(Layout, GroupsWholeRowsIntoOneAxis) {
    Layout rows = make_layout({{32, 4}, {3, 512}});
    EXPECT_TRUE(rows.group(32));
    EXPECT_EQ(extents_of(rows), Numbers{3});
    EXPECT_EQ(strides_of(rows), Numbers{512});
}

TEST(Layout, AlignsShapesByTheirCommonDivisors) {
    Layout from = make_layout({{6, 100}, {35, 4}}), to = make_layout({{210, 4}});
    EXPECT_TRUE(align(from, to));
    EXPECT_EQ(extents_of(from), (Numbers{6, 35}));
    EXPECT_EQ(strides_of(from), (Numbers{100, 4}));
    EXPECT_EQ(strides_of(to), (Numbers{4, 24}));
}

TEST(Layout, PutsTheAxisThatIsWrittenMostCloselyFirst) {
    Layout from = make_layout({{6, 4}, {5, 100}}), to = make_layout({{6, 20}, {5, 4}});
    EXPECT_TRUE(align(from, to));
    EXPECT_EQ(extents_of(to), (Numbers{5, 6}));
    EXPECT_EQ(strides_of(from), (Numbers{100, 4}));
}

TEST(Layout, LeavesShapesThatDoNotMeetAlone) {
    Layout from = make_layout({{3, 20}, {5, 4}}), to = make_layout({{5, 12}, {3, 4}});
    EXPECT_FALSE(align(from, to));
    EXPECT_EQ(extents_of(from), (Numbers{3, 5}));
    EXPECT_EQ(extents_of(to), (Numbers{5, 3}));
}

TEST(Cursor, WalksEveryUnitFromAnywhere) {
    std::vector<std::byte> memory(4000);
    Layout layout = make_layout({{3, 40}, {5, 4}, {2, 1000}});
    layout.data = memory.data();
    const auto offset = [](std::int64_t e) { return e % 3 * 40 + e / 3 % 5 * 4 + e / 15 * 1000; };
    for (std::int64_t start = 0; start < layout.count(); ++start) {
        Cursor cursor(layout, start);
        for (std::int64_t e = start; e < layout.count();) {
            ASSERT_EQ(cursor.here() - memory.data(), offset(e)) << "unit " << e;
            ASSERT_EQ(cursor.left(), 3 - e % 3);
            const std::int64_t step = e % 2 == 0 ? cursor.left() : 1;
            cursor.advance(step);
            e += step;
        }
    }
}

}  // namespace
}  // namespace heddle::cpu
