// How tensors are cut: what programs may say, and where bytes and views are then.

#include "runtime/meta/split.hpp"

#include "runtime/meta/layout.hpp"
#include "runtime/meta/test_support.hpp"

namespace heddle::meta {
namespace {

using testing::HasSubstr;

Tensor dense(Type type, const Extents& extents) {
    Tensor tensor{};
    tensor.type = type;
    std::ranges::copy(extents, tensor.ne);
    std::ranges::copy(dense_strides(type, extents), tensor.nb);
    return tensor;
}

Tensor view_of(Tensor& root, const Extents& extents, const Strides& strides, std::size_t offset) {
    Tensor view = dense(root.type, extents);
    std::ranges::copy(strides, view.nb);
    view.view_src = &root;
    view.view_offs = offset;
    return view;
}

Split split_of(const Tensor& tensor, const ggml_backend_meta_split_state& state,
               std::size_t devices = 2) {
    auto made = checked(state, tensor, devices);
    EXPECT_TRUE(made) << made.error().message;
    return *made;
}

TEST(Split, HasNamesForItsAxes) {
    EXPECT_STREQ(ggml_backend_meta_split_axis_name(GGML_BACKEND_SPLIT_AXIS_2), "2");
    EXPECT_STREQ(ggml_backend_meta_split_axis_name(GGML_BACKEND_SPLIT_AXIS_MIRRORED), "MIRRORED");
    EXPECT_STREQ(ggml_backend_meta_split_axis_name(GGML_BACKEND_SPLIT_AXIS_PARTIAL), "PARTIAL");
    EXPECT_STREQ(ggml_backend_meta_split_axis_name(GGML_BACKEND_SPLIT_AXIS_NONE), "NONE");
    EXPECT_STREQ(ggml_backend_meta_split_axis_name(GGML_BACKEND_SPLIT_AXIS_UNKNOWN), "UNKNOWN");
}

TEST(Split, IsToldInWords) {
    const Tensor fused = dense(GGML_TYPE_F32, {16, 3, 1, 1});
    const auto state = state_of(GGML_BACKEND_SPLIT_AXIS_0, {{1, {6, 2}}, {2, {3, 1}}});
    EXPECT_EQ(describe(split_of(fused, state), 2), "axis 0 (6|2 2x3|1)");
    EXPECT_EQ(describe(mirrored(), 2), "MIRRORED");
}

TEST(Split, IsTheSameHoweverItsSegmentsAreWritten) {
    const Tensor x = dense(GGML_TYPE_F32, {8, 1, 1, 1});
    EXPECT_EQ(split_of(x, state_of(GGML_BACKEND_SPLIT_AXIS_0, {{2, {1, 3}}})),
              split_of(x, state_of(GGML_BACKEND_SPLIT_AXIS_0, {{1, {1, 3}}, {1, {1, 3}}})));
}

TEST(Split, MustFitTheTensor) {
    const Tensor x = dense(GGML_TYPE_F32, {8, 4, 1, 1});
    const Tensor packed = dense(GGML_TYPE_Q4_0, {64, 4, 1, 1});
    EXPECT_THAT(checked(cut(0, {4, 5}), x, 2).error().message, HasSubstr("add up to 9, not to 8"));
    EXPECT_THAT(checked(cut(0, {9, -1}), x, 2).error().message, HasSubstr("share of -1"));
    EXPECT_THAT(checked(cut(0, {48, 16}), packed, 2).error().message, HasSubstr("blocks of 32"));
    EXPECT_TRUE(checked(cut(0, {32, 32}), packed, 2));
    EXPECT_THAT(checked(state_of(GGML_BACKEND_SPLIT_AXIS_NONE), x, 2).error().message,
                HasSubstr("98 is no axis"));
    auto many = cut(0, {4, 4});
    many.n_segments = 17;
    EXPECT_THAT(checked(many, x, 2).error().message, HasSubstr("17 segments"));
}

// ---- views -------------------------------------------------------------------------------------

TEST(CutView, OfAFusedMatrixFindsItsSegments) {
    // Rows of 4 query heads and 2 x 2 heads of keys and values, of 2 elements each.
    Tensor fused = dense(GGML_TYPE_F32, {16, 3, 1, 1});
    const Split split =
        split_of(fused, state_of(GGML_BACKEND_SPLIT_AXIS_0, {{1, {6, 2}}, {2, {2, 2}}}));
    const Tensor keys = view_of(fused, {2, 2, 3, 1}, {4, 8, 64, 192}, 32);
    const auto found = cut_view(fused, split, keys, -1);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(describe(found->split, 2), "axis 1 (1|1)");
    EXPECT_EQ(found->devices[0].offset, 24u);
    EXPECT_EQ(found->devices[1].offset, 8u);
    EXPECT_EQ(found->devices[0].stride, (Strides{4, 8, 40, 120}));
    EXPECT_EQ(found->devices[1].stride, (Strides{4, 8, 24, 72}));

    const Tensor across = view_of(fused, {2, 2, 3, 1}, {4, 8, 64, 192}, 8);
    EXPECT_THAT(cut_view(fused, split, across, -1).error().message,
                HasSubstr("lie across the cuts"));
}

TEST(CutView, FollowsRepeatedHeads) {
    // [head size, heads, 3, tokens] of rows that hold three equal cuts.
    Tensor fused = dense(GGML_TYPE_F32, {24, 5, 1, 1});
    const Split split = split_of(fused, state_of(GGML_BACKEND_SPLIT_AXIS_0, {{3, {6, 2}}}));
    const Tensor heads = view_of(fused, {2, 4, 3, 5}, {4, 8, 32, 96}, 0);
    const auto found = cut_view(fused, split, heads, -1);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(describe(found->split, 2), "axis 1 (3|1)");
    EXPECT_EQ(found->devices[0].stride, (Strides{4, 8, 24, 72}));
    EXPECT_EQ(found->devices[1].stride, (Strides{4, 8, 8, 24}));
}

TEST(CutView, MayTakePartOfEachHead) {
    Tensor heads = dense(GGML_TYPE_F32, {4, 6, 2, 1});
    const Split split = split_of(heads, cut(1, {4, 2}));
    const Tensor halves = view_of(heads, {2, 6, 2, 1}, {4, 16, 96, 192}, 8);
    const auto found = cut_view(heads, split, halves, 1);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(describe(found->split, 2), "axis 1 (4|2)");
    EXPECT_EQ(found->devices[1].offset, 8u);
    EXPECT_EQ(found->devices[1].stride[2], 32u);
}

TEST(CutView, ShapesAreCountedOn) {
    const Split heads = split_of(dense(GGML_TYPE_F32, {2, 6, 5, 1}), cut(1, {4, 2}));
    EXPECT_EQ(describe(*reshaped(heads, {2, 6, 5, 1}, {12, 5, 1, 1}), 2), "axis 0 (8|4)");
    EXPECT_EQ(describe(*reshaped(heads, {2, 6, 5, 1}, {2, 30, 1, 1}), 2), "axis 1 (5x4|2)");
    EXPECT_EQ(describe(*reshaped(heads, {2, 6, 5, 1}, {2, 2, 3, 5}), 2), "axis 2 (2|1)");
    EXPECT_FALSE(reshaped(heads, {2, 6, 5, 1}, {2, 3, 2, 5}));
    const Split one = split_of(dense(GGML_TYPE_F32, {12, 5, 1, 1}), cut(0, {0, 12}));
    EXPECT_EQ(describe(*reshaped(one, {12, 5, 1, 1}, {2, 6, 5, 1}), 2), "axis 1 (0|6)");
}

// ---- ranges ------------------------------------------------------------------------------------

TEST(Layout, EveryByteOfARangeIsInOneRun) {
    const Tensor fused = dense(GGML_TYPE_F32, {8, 5, 2, 1});
    const Split split =
        split_of(fused, state_of(GGML_BACKEND_SPLIT_AXIS_0, {{1, {1, 0, 3}}, {2, {0, 1, 1}}}), 3);
    const auto layout = layout_of(fused, split);
    ASSERT_TRUE(layout);
    // The definition: element by element, to whom it belongs and where it is there.
    std::vector<std::pair<std::size_t, std::size_t>> owner;
    std::array<std::size_t, 3> filled{};
    for (int row = 0; row < 10; ++row) {
        for (const std::size_t device : {0, 2, 2, 2, 1, 2, 1, 2}) {
            for (int byte = 0; byte < 4; ++byte) owner.emplace_back(device, filled[device]++);
        }
    }
    for (std::size_t begin = 0; begin < owner.size(); begin += 7) {
        for (std::size_t end = begin; end <= owner.size(); end += 13) {
            std::vector<int> seen(end - begin);
            ASSERT_TRUE(for_each_run(*layout, begin, end - begin, [&](const meta::Run& run) {
                for (std::size_t i = 0; i < run.count * run.size; ++i) {
                    const std::size_t piece = i / run.size, byte = i % run.size;
                    const std::size_t at = run.offset + piece * run.stride + byte;
                    EXPECT_EQ(owner[begin + at].first, run.device);
                    EXPECT_EQ(owner[begin + at].second,
                              run.device_offset + piece * run.device_stride + byte);
                    ++seen[at];
                }
                return ok();
            }));
            ASSERT_THAT(seen, testing::Each(1)) << begin << " to " << end;
        }
    }
}

}  // namespace
}  // namespace heddle::meta
