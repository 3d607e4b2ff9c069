// Loads the example as any program would, and computes with it.

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml.h"

namespace {

class PlainBackend : public testing::Test {
protected:
    void SetUp() override {
        // The one built with the tests, unless another file is to be checked.
        const char* file = std::getenv("PLAIN_BACKEND");
        registration_ = ggml_backend_load(file != nullptr ? file : PLAIN_BACKEND);
        ASSERT_NE(registration_, nullptr);
        device_ = ggml_backend_dev_by_name("PLAIN0");
        ASSERT_NE(device_, nullptr);
    }
    void TearDown() override { ggml_backend_unload(registration_); }

    ggml_backend_reg_t registration_ = nullptr;
    ggml_backend_dev_t device_ = nullptr;
};

TEST_F(PlainBackend, AddsAndMultiplies) {
    const ggml_context_ptr context(ggml_init({1 << 20, nullptr, true}));
    ggml_tensor* a = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 5);
    ggml_tensor* b = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 5);
    ggml_tensor* y = ggml_mul(context.get(), ggml_add(context.get(), a, b), b);
    ggml_cgraph* graph = ggml_new_graph(context.get());
    ggml_build_forward_expand(graph, y);

    const ggml_backend_ptr stream(ggml_backend_dev_init(device_, nullptr));
    const ggml_backend_buffer_ptr buffer(
        ggml_backend_alloc_ctx_tensors(context.get(), stream.get()));
    ASSERT_NE(buffer, nullptr);
    EXPECT_STREQ(ggml_backend_buffer_name(buffer.get()), "Plain");
    const std::vector<float> a_values{1, 2, 3, 4, 5}, b_values{5, 4, 3, 2, 1};
    ggml_backend_tensor_set(a, a_values.data(), 0, ggml_nbytes(a));
    ggml_backend_tensor_set(b, b_values.data(), 0, ggml_nbytes(b));
    ASSERT_EQ(ggml_backend_graph_compute(stream.get(), graph), GGML_STATUS_SUCCESS);
    std::vector<float> result(5);
    ggml_backend_tensor_get(y, result.data(), 0, ggml_nbytes(y));
    EXPECT_EQ(result, (std::vector<float>{30, 24, 18, 12, 6}));
}

TEST_F(PlainBackend, DeclinesNodesThatWereChangedAfterTheyWereBuilt) {
    const ggml_context_ptr context(ggml_init({1 << 20, nullptr, true}));
    ggml_tensor* a = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 4);
    ggml_tensor* y = ggml_add(context.get(), a, a);
    ggml_cgraph* graph = ggml_new_graph(context.get());
    ggml_build_forward_expand(graph, y);
    const ggml_backend_ptr stream(ggml_backend_dev_init(device_, nullptr));
    const ggml_backend_buffer_ptr buffer(
        ggml_backend_alloc_ctx_tensors(context.get(), stream.get()));
    y->src[1] = nullptr;
    EXPECT_FALSE(ggml_backend_dev_supports_op(device_, y));
    EXPECT_EQ(ggml_backend_graph_compute(stream.get(), graph), GGML_STATUS_FAILED);
    y->src[1] = a;
    y->ne[0] = 1 << 20;
    EXPECT_FALSE(ggml_backend_dev_supports_op(device_, y));
    EXPECT_EQ(ggml_backend_graph_compute(stream.get(), graph), GGML_STATUS_FAILED);
}

TEST_F(PlainBackend, DeclinesWhatItCannotDo) {
    const ggml_context_ptr context(ggml_init({1 << 20, nullptr, true}));
    ggml_tensor* a = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 4);
    ggml_tensor* half = ggml_new_tensor_1d(context.get(), GGML_TYPE_F16, 4);
    ggml_tensor* one = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 1);
    EXPECT_TRUE(ggml_backend_dev_supports_op(device_, ggml_add(context.get(), a, a)));
    EXPECT_FALSE(ggml_backend_dev_supports_op(device_, ggml_sub(context.get(), a, a)));
    EXPECT_FALSE(ggml_backend_dev_supports_op(device_, ggml_add(context.get(), half, half)));
    EXPECT_FALSE(ggml_backend_dev_supports_op(device_, ggml_add(context.get(), a, one)));
}

}  // namespace
