#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "backends/blas/products.hpp"
#include "ggml-backend.h"
#include "ggml-blas.h"
#include "ggml-impl.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "heddle/heddle.h"
#include "plugin/ggml-backend-impl.h"
#include "quant/traits.hpp"

namespace heddle::blas {
namespace {

/// A context with memory of its own, a stream, and a source of numbers.
class BlasTest : public testing::Test {
protected:
    BlasTest() : stream_(ggml_backend_blas_init(), ggml_backend_free) {}

    Tensor* make(ggml_type type, std::vector<std::int64_t> extent) {
        Tensor* tensor =
            ggml_new_tensor(context_.get(), type, static_cast<int>(extent.size()), extent.data());
        std::vector<float> values(static_cast<std::size_t>(ggml_nelements(tensor)));
        for (float& value : values) value = uniform_(random_);
        if (type == GGML_TYPE_F32) {
            std::copy(values.begin(), values.end(), static_cast<float*>(tensor->data));
        } else {
            ggml_quantize_chunk(type, values.data(), tensor->data, 0, ggml_nrows(tensor),
                                tensor->ne[0], nullptr);
        }
        return tensor;
    }

    ggml_status compute(Tensor* node) {
        ggml_cgraph* graph = ggml_new_graph(context_.get());
        ggml_build_forward_expand(graph, node);
        return ggml_backend_graph_compute(stream_.get(), graph);
    }

    bool supports(const Tensor* node) {
        return ggml_backend_dev_supports_op(ggml_backend_get_device(stream_.get()), node);
    }

    std::unique_ptr<ggml_context, decltype(&ggml_free)> context_{
        ggml_init({.mem_size = 64 << 20, .mem_buffer = nullptr, .no_alloc = false}), ggml_free};
    std::unique_ptr<ggml_backend, decltype(&ggml_backend_free)> stream_;
    std::mt19937 random_{1};
    std::uniform_real_distribution<float> uniform_{-1, 1};
};

/// A tensor in f32, whatever its type.
class Floats {
public:
    explicit Floats(const Tensor& tensor) : data_(tensor.data), stride_(strides_of(tensor)) {
        if (tensor.type == GGML_TYPE_F32) return;
        values_.resize(static_cast<std::size_t>(ggml_nelements(&tensor)));
        quant::traits_of(tensor.type)
            .to_float(tensor.data, values_.data(), ggml_nelements(&tensor));
        data_ = values_.data();
        stride_ = dense_strides(GGML_TYPE_F32, extents_of(tensor));
    }

    double at(std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) const {
        const std::int64_t index[] = {i0, i1, i2, i3};
        std::size_t offset = 0;
        for (std::size_t d = 0; d < 4; ++d)
            offset += static_cast<std::size_t>(index[d]) * stride_[d];
        return *reinterpret_cast<const float*>(static_cast<const std::byte*>(data_) + offset);
    }

private:
    const void* data_;
    Strides stride_;
    std::vector<float> values_;
};

/// Compares every 7th element of the node with the sum it is defined as.
void expect_product(const Tensor& y, bool over_rows) {
    const Tensor &a = *y.src[0], &b = *y.src[1];
    const Floats in_a(a), in_b(b), in_y(y);
    const std::int64_t depth = over_rows ? a.ne[1] : a.ne[0];
    for (std::int64_t n = 0; n < ggml_nelements(&y); n += 7) {
        const auto [i, j, i2, i3] = unravel(y, n);
        const std::int64_t a2 = i2 / (b.ne[2] / a.ne[2]), a3 = i3 / (b.ne[3] / a.ne[3]);
        double sum = 0;
        for (std::int64_t p = 0; p < depth; ++p) {
            sum += over_rows ? in_a.at(i, p, a2, a3) * in_b.at(j, p, i2, i3)
                             : in_a.at(p, i, a2, a3) * in_b.at(p, j, i2, i3);
        }
        // Each of `depth` terms is below 1 and rounded to f32 a few times.
        ASSERT_NEAR(in_y.at(i, j, i2, i3), sum, 1e-6 * static_cast<double>(depth))
            << "element " << n;
    }
}

TEST_F(BlasTest, IsAnAcceleratorWithTheCpusMemory) {
    const ggml_backend_dev_t device = ggml_backend_get_device(stream_.get());
    ggml_backend_dev_props props;
    ggml_backend_dev_get_props(device, &props);
    EXPECT_STREQ(props.name, "BLAS");
    EXPECT_EQ(props.type, GGML_BACKEND_DEVICE_TYPE_ACCEL);
    EXPECT_EQ(props.memory_total, 0u);
    EXPECT_FALSE(props.caps.async);
    EXPECT_FALSE(props.caps.events);
    EXPECT_TRUE(props.caps.buffer_from_host_ptr);
    EXPECT_TRUE(props.caps.mmap_support);
    EXPECT_EQ(ggml_backend_dev_buffer_type(device), ggml_backend_cpu_buffer_type());
    EXPECT_TRUE(ggml_backend_dev_supports_buft(device, ggml_backend_cpu_buffer_type()));
    EXPECT_TRUE(ggml_backend_is_blas(stream_.get()));
    EXPECT_FALSE(ggml_backend_is_blas(nullptr));
    EXPECT_NE(
        ggml_backend_reg_get_proc_address(ggml_backend_blas_reg(), "ggml_backend_set_n_threads"),
        nullptr);
}

TEST_F(BlasTest, MultipliesMatricesOfEveryKindOfType) {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
        SCOPED_TRACE(ggml_type_name(type));
        Tensor* node =
            ggml_mul_mat(context_.get(), make(type, {256, 40}), make(GGML_TYPE_F32, {256, 33}));
        ASSERT_TRUE(supports(node));
        ASSERT_EQ(compute(node), GGML_STATUS_SUCCESS);
        expect_product(*node, false);
    }
}

TEST_F(BlasTest, OneMatrixServesAGroupOfMatrices) {
    struct Batch {
        std::int64_t a2, a3, b2, b3;
    };
    for (const Batch& batch : {Batch{1, 1, 3, 2}, Batch{2, 1, 4, 3}, Batch{2, 2, 4, 4},
                               Batch{3, 2, 3, 2}, Batch{1, 2, 2, 4}}) {
        for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
            Tensor* node = ggml_mul_mat(context_.get(), make(type, {32, 35, batch.a2, batch.a3}),
                                        make(GGML_TYPE_F32, {32, 32, batch.b2, batch.b3}));
            ASSERT_TRUE(supports(node));
            ASSERT_EQ(compute(node), GGML_STATUS_SUCCESS);
            expect_product(*node, false);
        }
    }
}

TEST_F(BlasTest, ConvertsLargeMatricesWithSeveralThreads) {
    ggml_backend_blas_set_n_threads(stream_.get(), 3);
    Tensor* node = ggml_mul_mat(context_.get(), make(GGML_TYPE_F16, {1024, 1031}),
                                make(GGML_TYPE_F32, {1024, 32}));
    ASSERT_EQ(compute(node), GGML_STATUS_SUCCESS);
    expect_product(*node, false);
}

TEST_F(BlasTest, ComputesOuterProducts) {
    Tensor* plain =
        ggml_out_prod(context_.get(), make(GGML_TYPE_F32, {17, 9}), make(GGML_TYPE_F32, {12, 9}));
    Tensor* turned = ggml_out_prod(context_.get(), make(GGML_TYPE_F32, {17, 9}),
                                   ggml_transpose(context_.get(), make(GGML_TYPE_F32, {9, 12})));
    for (Tensor* node : {plain, turned}) {
        ASSERT_TRUE(supports(node));
        ASSERT_EQ(compute(node), GGML_STATUS_SUCCESS);
        expect_product(*node, true);
    }
}

TEST_F(BlasTest, DeclinesWhatIsNotWorthItOrNotItsBusiness) {
    ggml_context* context = context_.get();
    Tensor* small = make(GGML_TYPE_F32, {31, 64});
    EXPECT_FALSE(supports(ggml_mul_mat(context, small, make(GGML_TYPE_F32, {31, 64}))));
    Tensor* a = make(GGML_TYPE_F32, {64, 64});
    EXPECT_FALSE(supports(ggml_mul_mat(context, a, make(GGML_TYPE_F32, {64, 31}))));
    EXPECT_FALSE(supports(ggml_mul_mat(context, a, make(GGML_TYPE_F16, {64, 64}))));
    EXPECT_FALSE(supports(ggml_mul_mat(context, a, ggml_transpose(context, a))));
    EXPECT_FALSE(supports(ggml_add(context, a, a)));
    EXPECT_TRUE(supports(ggml_transpose(context, a)));
    Tensor* hadamard = ggml_mul_mat(context, a, a);
    hadamard->op_params[1] = GGML_HINT_SRC0_IS_HADAMARD;
    EXPECT_FALSE(supports(hadamard));
    EXPECT_FALSE(supports(
        ggml_out_prod(context, make(GGML_TYPE_F32, {4, 4, 2}), make(GGML_TYPE_F32, {4, 4, 2}))));
}

TEST_F(BlasTest, LeavesBlockFormatsToTheCpu) {
    int formats = 0;
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<ggml_type>(i);
        if (ggml_blck_size(type) == 0 || !ggml_is_quantized(type)) continue;
        Tensor* a = ggml_new_tensor_2d(context_.get(), type, 512, 64);
        Tensor* node = ggml_mul_mat(context_.get(), a, make(GGML_TYPE_F32, {512, 64}));
        EXPECT_FALSE(supports(node)) << ggml_type_name(type);
        ++formats;
    }
    EXPECT_GT(formats, 20);
}

TEST_F(BlasTest, AnotherOpIsAnErrorWithASentence) {
    Tensor* a = make(GGML_TYPE_F32, {64, 64});
    heddle_clear_error();
    EXPECT_EQ(compute(ggml_add(context_.get(), a, a)), GGML_STATUS_FAILED);
    EXPECT_NE(std::string(heddle_last_error()).find("ADD: only products of matrices"),
              std::string::npos)
        << heddle_last_error();
}

TEST_F(BlasTest, NodesThatWereWrittenToAreRefused) {
    Tensor* a = make(GGML_TYPE_F32, {64, 64});
    Tensor* product = ggml_mul_mat(context_.get(), a, a);
    EXPECT_EQ(compute(product), GGML_STATUS_SUCCESS) << heddle_last_error();
    const Tensor built = *product;
    product->ne[0] = product->ne[1] = 128;
    product->nb[1] = 512, product->nb[2] = product->nb[3] = 65536;
    EXPECT_FALSE(supports(product));
    EXPECT_EQ(compute(product), GGML_STATUS_FAILED);
    *product = built;
    product->data = nullptr;
    heddle_clear_error();
    EXPECT_EQ(compute(product), GGML_STATUS_FAILED);
    EXPECT_NE(std::string(heddle_last_error()).find("has no memory"), std::string::npos)
        << heddle_last_error();
}

TEST_F(BlasTest, AProductBeforeItsOperandIsRefused) {
    Tensor* w = make(GGML_TYPE_F32, {64, 64});
    Tensor* first = ggml_mul_mat(context_.get(), w, make(GGML_TYPE_F32, {64, 64}));
    ggml_cgraph* graph = ggml_new_graph(context_.get());
    ggml_build_forward_expand(graph, ggml_mul_mat(context_.get(), w, first));
    ASSERT_EQ(ggml_backend_graph_compute(stream_.get(), graph), GGML_STATUS_SUCCESS);
    std::swap(graph->nodes[0], graph->nodes[1]);
    EXPECT_EQ(ggml_backend_graph_compute(stream_.get(), graph), GGML_STATUS_FAILED);
    EXPECT_NE(std::string(heddle_last_error()).find("which is computed later, as number 1"),
              std::string::npos)
        << heddle_last_error();
}

TEST(Workspace, SaysThatItCannotGrow) {
    Workspace workspace;
    const auto memory = workspace.reserve(std::size_t{1} << 62);
    ASSERT_FALSE(memory);
    EXPECT_EQ(memory.error().code, Errc::out_of_memory);
    EXPECT_TRUE(workspace.reserve(10));
}

}  // namespace
}  // namespace heddle::blas
