// What the C API says of tensors: sizes, shapes, layouts, names; and of those that are not there.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ggml-cpp.h"
#include "ggml.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "heddle/heddle.h"

namespace {

class Tensors : public testing::Test {
protected:
    Tensors() { heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN); }
    ~Tensors() override { heddle_set_error_mode(HEDDLE_ERROR_MODE_ABORT); }

    ggml_tensor* make(ggml_type type, const std::vector<std::int64_t>& extents) {
        return ggml_new_tensor(context.get(), type, static_cast<int>(extents.size()),
                               extents.data());
    }

    template <class Call>
    static std::string said(const Call& call) {
        heddle_clear_error();
        call();
        return heddle_last_error();
    }

    ggml_context_ptr context{ggml_init({1 << 20, nullptr, true})};
};

TEST_F(Tensors, OfEveryTypeHaveTheSizeOfTheirRows) {
    for (int number = 0; number < GGML_TYPE_COUNT; ++number) {
        const auto type = static_cast<ggml_type>(number);
        const std::int64_t block = ggml_blck_size(type);
        if (block == 0) {
            EXPECT_EQ(ggml_row_size(type, 256), 0u);
            EXPECT_NE(said([&] { EXPECT_EQ(make(type, {256}), nullptr); }), "");
            continue;
        }
        SCOPED_TRACE(ggml_type_name(type));
        const std::size_t row = 2 * ggml_type_size(type);
        EXPECT_EQ(ggml_row_size(type, 2 * block), row);
        const ggml_tensor* t = make(type, {2 * block, 3, 5});
        EXPECT_EQ(ggml_nbytes(t), 15 * row);
        EXPECT_EQ(ggml_nbytes_pad(t) % GGML_MEM_ALIGN, 0u);
        EXPECT_GE(ggml_nbytes_pad(t), ggml_nbytes(t));
        EXPECT_LT(ggml_nbytes_pad(t), ggml_nbytes(t) + GGML_MEM_ALIGN);
        EXPECT_EQ(ggml_nelements(t), 30 * block);
        EXPECT_EQ(ggml_nrows(t), 15);
        EXPECT_EQ(ggml_element_size(t), ggml_type_size(type));
        EXPECT_EQ(ggml_n_dims(t), 3);
        EXPECT_TRUE(ggml_is_contiguous(t));
        if (block > 1) {
            EXPECT_NE(said([&] { EXPECT_EQ(make(type, {block + 1}), nullptr); }), "");
        }
    }
}

TEST_F(Tensors, AreWhatTheirExtentsSay) {
    const struct {
        std::vector<std::int64_t> extents;
        bool scalar, vector, matrix, three, empty;
    } cases[] = {{{1}, true, true, true, true, false},
                 {{7}, false, true, true, true, false},
                 {{7, 2}, false, false, true, true, false},
                 {{7, 2, 3}, false, false, false, true, false},
                 {{7, 2, 3, 2}, false, false, false, false, false},
                 {{7, 0}, false, false, true, true, true}};
    for (const auto& each : cases) {
        const ggml_tensor* t = make(GGML_TYPE_F32, each.extents);
        SCOPED_TRACE(testing::PrintToString(each.extents));
        EXPECT_EQ(ggml_is_scalar(t), each.scalar);
        EXPECT_EQ(ggml_is_vector(t), each.vector);
        EXPECT_EQ(ggml_is_matrix(t), each.matrix);
        EXPECT_EQ(ggml_is_3d(t), each.three);
        EXPECT_EQ(ggml_is_empty(t), each.empty);
        EXPECT_FALSE(ggml_is_view(t));
    }
}

TEST_F(Tensors, ShowTheirLayout) {
    ggml_tensor* dense = make(GGML_TYPE_F32, {8, 6, 4, 2});
    ggml_tensor* turned = ggml_transpose(context.get(), dense);
    ggml_tensor* channels = ggml_permute(context.get(), dense, 2, 0, 1, 3);
    ggml_tensor* rows = ggml_view_2d(context.get(), dense, 4, 6, 8 * sizeof(float), 0);
    ggml_tensor* gaps =
        ggml_view_3d(context.get(), dense, 8, 3, 4, 8 * sizeof(float), 48 * sizeof(float), 0);
    const struct {
        const ggml_tensor* tensor;
        bool contiguous, one, two, to_1, to_2, to_3, dense_rows, transposed, permuted, view;
    } cases[] = {
        {dense, true, true, true, true, true, true, true, false, false, false},
        {turned, false, false, false, false, false, false, false, true, true, true},
        {rows, false, true, true, true, false, false, true, false, false, true},
        {gaps, false, false, true, true, true, false, true, false, false, true},
    };
    for (const auto& each : cases) {
        const ggml_tensor* t = each.tensor;
        SCOPED_TRACE(&each - cases);
        EXPECT_EQ(ggml_is_contiguous(t), each.contiguous);
        EXPECT_EQ(ggml_is_contiguous_0(t), each.contiguous);
        EXPECT_EQ(ggml_is_contiguous_1(t), each.one);
        EXPECT_EQ(ggml_is_contiguous_2(t), each.two);
        EXPECT_EQ(ggml_is_contiguous_to_1(t), each.to_1);
        EXPECT_EQ(ggml_is_contiguous_to_2(t), each.to_2);
        EXPECT_EQ(ggml_is_contiguous_to_3(t), each.to_3);
        EXPECT_EQ(ggml_is_contiguous_rows(t), each.dense_rows);
        EXPECT_EQ(ggml_is_transposed(t), each.transposed);
        EXPECT_EQ(ggml_is_permuted(t), each.permuted);
        EXPECT_EQ(ggml_is_view(t), each.view);
    }
    EXPECT_TRUE(ggml_is_contiguous_channels(channels));
    EXPECT_FALSE(ggml_is_contiguous_channels(dense));
    EXPECT_TRUE(ggml_is_contiguously_allocated(turned)) << "all bytes, in another order";
    EXPECT_FALSE(ggml_is_contiguously_allocated(gaps));
}

TEST_F(Tensors, AreComparedByShapeAndStride) {
    ggml_tensor* a = make(GGML_TYPE_F32, {4, 6});
    ggml_tensor* same = make(GGML_TYPE_F16, {4, 6});
    ggml_tensor* turned = ggml_transpose(context.get(), make(GGML_TYPE_F32, {6, 4}));
    EXPECT_TRUE(ggml_are_same_shape(a, same));
    EXPECT_TRUE(ggml_are_same_shape(a, turned));
    EXPECT_FALSE(ggml_are_same_shape(a, make(GGML_TYPE_F32, {4, 5})));
    EXPECT_FALSE(ggml_are_same_stride(a, turned));
    EXPECT_FALSE(ggml_are_same_stride(a, same));
    EXPECT_TRUE(ggml_are_same_stride(a, make(GGML_TYPE_F32, {4, 6})));
    EXPECT_TRUE(ggml_can_repeat(make(GGML_TYPE_F32, {2, 3}), a));
    EXPECT_FALSE(ggml_can_repeat(make(GGML_TYPE_F32, {3, 3}), a));
    EXPECT_FALSE(ggml_can_repeat(a, make(GGML_TYPE_F32, {2, 3})));
}

TEST_F(Tensors, CountTheirElementsByIndex) {
    const ggml_tensor* t = make(GGML_TYPE_F32, {3, 4, 5, 6});
    std::int64_t i0 = -1, i1 = -1, i2 = -1, i3 = -1;
    ggml_unravel_index(t, 2 + 3 * (1 + 4 * (4 + 5 * 3)), &i0, &i1, &i2, &i3);
    EXPECT_EQ(i0, 2);
    EXPECT_EQ(i1, 1);
    EXPECT_EQ(i2, 4);
    EXPECT_EQ(i3, 3);
    ggml_unravel_index(t, 1, nullptr, nullptr, &i2, nullptr);
    EXPECT_EQ(i2, 0) << "NULL leaves an index out";
}

TEST_F(Tensors, ThatAreNotThereAreNamedByEveryQuestion) {
    const struct {
        const char* name;
        bool (*is)(const ggml_tensor*);
    } questions[] = {
        {"ggml_is_transposed", ggml_is_transposed},
        {"ggml_is_permuted", ggml_is_permuted},
        {"ggml_is_empty", ggml_is_empty},
        {"ggml_is_view", ggml_is_view},
        {"ggml_is_scalar", ggml_is_scalar},
        {"ggml_is_vector", ggml_is_vector},
        {"ggml_is_matrix", ggml_is_matrix},
        {"ggml_is_3d", ggml_is_3d},
        {"ggml_is_contiguous", ggml_is_contiguous},
        {"ggml_is_contiguous_0", ggml_is_contiguous_0},
        {"ggml_is_contiguous_1", ggml_is_contiguous_1},
        {"ggml_is_contiguous_2", ggml_is_contiguous_2},
        {"ggml_is_contiguous_to_1", ggml_is_contiguous_to_1},
        {"ggml_is_contiguous_to_2", ggml_is_contiguous_to_2},
        {"ggml_is_contiguous_to_3", ggml_is_contiguous_to_3},
        {"ggml_is_contiguously_allocated", ggml_is_contiguously_allocated},
        {"ggml_is_contiguous_channels", ggml_is_contiguous_channels},
        {"ggml_is_contiguous_rows", ggml_is_contiguous_rows},
    };
    for (const auto& each : questions) {
        EXPECT_EQ(said([&] { EXPECT_FALSE(each.is(nullptr)); }),
                  std::string(each.name) + ": the tensor is NULL");
    }
    const std::string missing = ": the tensor is NULL";
    EXPECT_EQ(said([] { EXPECT_EQ(ggml_nelements(nullptr), 0); }), "ggml_nelements" + missing);
    EXPECT_EQ(said([] { EXPECT_EQ(ggml_nrows(nullptr), 0); }), "ggml_nrows" + missing);
    EXPECT_EQ(said([] { EXPECT_EQ(ggml_nbytes(nullptr), 0u); }), "ggml_nbytes" + missing);
    EXPECT_EQ(said([] { EXPECT_EQ(ggml_nbytes_pad(nullptr), 0u); }), "ggml_nbytes_pad" + missing);
    EXPECT_EQ(said([] { EXPECT_EQ(ggml_element_size(nullptr), 0u); }),
              "ggml_element_size" + missing);
    EXPECT_EQ(said([] { EXPECT_EQ(ggml_n_dims(nullptr), 0); }), "ggml_n_dims" + missing);
    std::int64_t at = 9;
    EXPECT_EQ(said([&] { ggml_unravel_index(nullptr, 5, &at, nullptr, nullptr, nullptr); }),
              "ggml_unravel_index" + missing);
    EXPECT_EQ(at, 0);
    const ggml_tensor* t = make(GGML_TYPE_F32, {1});
    const struct {
        const char* name;
        bool (*are)(const ggml_tensor*, const ggml_tensor*);
    } comparisons[] = {{"ggml_are_same_shape", ggml_are_same_shape},
                       {"ggml_are_same_stride", ggml_are_same_stride},
                       {"ggml_can_repeat", ggml_can_repeat}};
    for (const auto& each : comparisons) {
        EXPECT_EQ(said([&] { EXPECT_FALSE(each.are(nullptr, t)); }),
                  std::string(each.name) + ": the first tensor is NULL");
        EXPECT_EQ(said([&] { EXPECT_FALSE(each.are(t, nullptr)); }),
                  std::string(each.name) + ": the second tensor is NULL");
    }
}

TEST_F(Tensors, AreMarkedOnlyAsWhatTheyCanBe) {
    ggml_tensor* x = make(GGML_TYPE_F32, {4});
    ggml_set_name(x, "x");
    ggml_tensor* y = ggml_scale(context.get(), x, 2);
    ggml_set_name(y, "y");
    EXPECT_EQ(said([&] { ggml_set_param(y); }),
              "set param: 'y' f32[4,1,1,1] is the result of an op");
    EXPECT_EQ(said([&] { ggml_set_loss(x); }), "set loss: 'x' f32[4,1,1,1] is not one f32");
    ggml_tensor* half = make(GGML_TYPE_F16, {1});
    EXPECT_NE(said([&] { ggml_set_loss(half); }), "");
    EXPECT_EQ(said([&] { EXPECT_EQ(ggml_get_data_f32(half), nullptr); }),
              "get data: '' f16[1,1,1,1] is not f32");
    EXPECT_EQ(said([&] {
                  ggml_set_param(x);
                  ggml_set_loss(ggml_sum(context.get(), x));
                  EXPECT_EQ(ggml_get_data_f32(x), nullptr);  // it has no memory
              }),
              "");
    ggml_tensor* view = ggml_view_1d(context.get(), x, 2, 0);
    ggml_set_output(view);
    EXPECT_NE(x->flags & GGML_TENSOR_FLAG_OUTPUT, 0) << "who keeps a view keeps its root";
    EXPECT_EQ(said([&] { EXPECT_EQ(ggml_set_name(x, nullptr), x); }),
              "ggml_set_name: the name is NULL");
    EXPECT_STREQ(ggml_get_name(x), "x");
    EXPECT_STREQ(ggml_get_name(ggml_format_name(x, "%s.%d", "blk", 7)), "blk.7");
    EXPECT_EQ(said([&] { make(GGML_TYPE_F32, {1, 1, 1, 1, 1}); }).find("new tensor"), 0u);
    EXPECT_EQ(said([&] { ggml_new_tensor(context.get(), GGML_TYPE_F32, -1, x->ne); }),
              "new tensor: -1 dimensions, not 1 to 4");
}

}  // namespace
