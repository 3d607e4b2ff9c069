// Single elements at indices that are none.

#include <array>
#include <climits>
#include <cstring>

#include "tests/misuse/test_support.hpp"

namespace heddle::misuse {
namespace {

using testing::HasSubstr;

class ElementIndex : public Misuse {
protected:
    Context memory{ggml_init({.mem_size = 1 << 16, .mem_buffer = nullptr, .no_alloc = false})};
};

TEST_F(ElementIndex, BeyondTheEndWritesNothingAndIsNamed) {
    ggml_tensor* x = ggml_new_tensor_1d(memory.get(), GGML_TYPE_F32, 4);
    ggml_tensor* y = ggml_new_tensor_1d(memory.get(), GGML_TYPE_F32, 4);
    ggml_set_name(x, "x");
    ggml_set_f32(y, 3);
    const ggml_tensor before = *y;
    for (int i = 0; i < 400; ++i) ggml_set_f32_1d(x, i, 7);
    EXPECT_STREQ(heddle_last_error(),
                 "element access: number 399 of the 4 elements of tensor 'x' f32[4,1,1,1]");
    EXPECT_EQ(std::memcmp(&before, y, sizeof before), 0) << "the struct behind x's data";
    EXPECT_EQ(ggml_get_f32_1d(y, 3), 3);
    EXPECT_EQ(ggml_get_f32_1d(x, 3), 7);
}

TEST_F(ElementIndex, IsCheckedByEveryFunctionOfEitherKind) {
    ggml_tensor* x = ggml_new_tensor_2d(memory.get(), GGML_TYPE_I32, 3, 2);
    ggml_set_i32(x, 5);
    for (const int i : {-1, 6, INT_MAX, INT_MIN}) {
        heddle_clear_error();
        EXPECT_EQ(ggml_get_i32_1d(x, i), 0);
        EXPECT_THAT(heddle_last_error(), HasSubstr("of the 6 elements")) << i;
        heddle_clear_error();
        EXPECT_EQ(ggml_get_f32_1d(x, i), 0);
        EXPECT_THAT(heddle_last_error(), HasSubstr("of the 6 elements")) << i;
        heddle_clear_error();
        ggml_set_i32_1d(x, i, 9);
        EXPECT_THAT(heddle_last_error(), HasSubstr("of the 6 elements")) << i;
        heddle_clear_error();
        ggml_set_f32_1d(x, i, 9);
        EXPECT_THAT(heddle_last_error(), HasSubstr("of the 6 elements")) << i;
    }
    for (const auto& [i0, i1, i2, i3] :
         {std::array{3, 0, 0, 0}, {-1, 0, 0, 0}, {0, 2, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, INT_MIN}}) {
        heddle_clear_error();
        EXPECT_EQ(ggml_get_i32_nd(x, i0, i1, i2, i3), 0);
        EXPECT_THAT(heddle_last_error(), HasSubstr("in dimension"));
        heddle_clear_error();
        EXPECT_EQ(ggml_get_f32_nd(x, i0, i1, i2, i3), 0);
        EXPECT_THAT(heddle_last_error(), HasSubstr("in dimension"));
        heddle_clear_error();
        ggml_set_i32_nd(x, i0, i1, i2, i3, 9);
        EXPECT_THAT(heddle_last_error(), HasSubstr("in dimension"));
        heddle_clear_error();
        ggml_set_f32_nd(x, i0, i1, i2, i3, 9);
        EXPECT_THAT(heddle_last_error(), HasSubstr("in dimension"));
    }
    for (int i = 0; i < 6; ++i) EXPECT_EQ(ggml_get_i32_1d(x, i), 5);
}

TEST_F(ElementIndex, InMemoryOfADeviceIsRefused) {
    ggml_backend_dev_t device = ggml_backend_dev_by_name("sim:devices=1");
    ASSERT_NE(device, nullptr) << heddle_last_error();
    const Context described(ggml_init({.mem_size = 4096, .mem_buffer = nullptr, .no_alloc = true}));
    ggml_tensor* x = ggml_new_tensor_1d(described.get(), GGML_TYPE_F32, 4);
    const Buffer buffer(ggml_backend_alloc_ctx_tensors_from_buft(
        described.get(), ggml_backend_dev_buffer_type(device)));
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(ggml_get_f32_1d(x, 1), 0);
    EXPECT_THAT(heddle_last_error(), HasSubstr("which the CPU cannot read"));
    heddle_clear_error();
    ggml_set_i32_nd(x, 0, 0, 0, 0, 7);
    EXPECT_THAT(heddle_last_error(), HasSubstr("which the CPU cannot read"));
}

TEST_F(ElementIndex, OfAnEmptyTensorIsNever) {
    ggml_tensor* x = ggml_new_tensor_2d(memory.get(), GGML_TYPE_F32, 4, 0);
    ggml_set_f32_1d(x, 0, 1);
    EXPECT_STRNE(heddle_last_error(), "");
}

}  // namespace
}  // namespace heddle::misuse
