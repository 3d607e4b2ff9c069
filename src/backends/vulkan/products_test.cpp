// Products on every path that a device may take, also those that the driver for the CPU would not
// choose by itself. The widths of subgroups are the driver's (LP_NATIVE_VECTOR_WIDTH).

#include <gtest/gtest.h>

#include <random>

#include "backends/vulkan/test_support.hpp"
#include "ggml/ops_reduce.h"
#include "heddle/backend/nodes.hpp"

namespace heddle::vulkan {
namespace {

struct Path {
    const char* name;
    Options options;
};

std::vector<Path> paths() {
    std::vector<Path> all(4);
    all[0].name = "Gemv";
    all[1].name = "HalfTiles";
    all[1].options.forces_gpu_kernels = true;
    all[2].name = "FloatTiles";
    all[2].options.forces_gpu_kernels = true;
    all[2].options.uses_float16 = false;
    all[3].name = "Bytes";
    all[3].options.forces_integer_dot = true;
    all[3].options.forces_gpu_kernels = true;
    return all;
}

std::vector<float> random_values(std::int64_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = uniform(random);
    return values;
}

/// Fills a tensor with random numbers of its type; what they are after rounding.
std::vector<float> fill(ggml_tensor* tensor, unsigned seed) {
    std::vector<float> values = random_values(ggml_nelements(tensor), seed);
    if (tensor->type == GGML_TYPE_F32) {
        ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
        return values;
    }
    std::vector<std::byte> bytes(ggml_nbytes(tensor));
    ggml_quantize_chunk(tensor->type, values.data(), bytes.data(), 0, ggml_nrows(tensor),
                        tensor->ne[0], nullptr);
    ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
    ggml_get_type_traits(tensor->type)
        ->to_float(bytes.data(), values.data(), tensor->ne[0] * ggml_nrows(tensor));
    return values;
}

/// Mean square of the differences, as a share of the mean square of what is right.
class Error {
public:
    void add(double right, double found) {
        difference_ += (right - found) * (right - found);
        size_ += right * right;
    }
    double value() const { return difference_ / size_; }

private:
    double difference_ = 0, size_ = 0;
};

double dot(const float* a, const float* b, std::int64_t n) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += double{a[i]} * b[i];
    return sum;
}

// Bytes have an error of 1/254 of a block's largest element, half floats one of 1/2048: squares of
// these are below it.
constexpr double kAllowed = 1e-4;

class VulkanProducts : public testing::TestWithParam<Path> {};

TEST_P(VulkanProducts, AgreeWithDoubleSums) {
    struct Shape {
        std::int64_t depth, rows, columns;
    };
    for (const ggml_type type :
         {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K}) {
        for (const Shape& shape : {Shape{256, 140, 1},
                                   {1088, 70, 1},
                                   {8256, 20, 1},
                                   {512, 70, 3},
                                   {256, 130, 70},
                                   {41, 9, 10}}) {
            if (shape.depth % ggml_blck_size(type) != 0) continue;
            HEDDLE_BENCH(bench, GetParam().options);
            ggml_tensor* a = ggml_new_tensor_2d(bench.context(), type, shape.depth, shape.rows);
            ggml_tensor* b =
                ggml_new_tensor_2d(bench.context(), GGML_TYPE_F32, shape.depth, shape.columns);
            ggml_tensor* y = ggml_mul_mat(bench.context(), a, b);
            ggml_cgraph* graph = bench.graph(y);
            ASSERT_TRUE(bench.allocate());
            const std::vector<float> weights = fill(a, 1), activations = fill(b, 2);
            ASSERT_EQ(ggml_backend_graph_compute(bench.stream(), graph), GGML_STATUS_SUCCESS);
            const std::vector<float> found = values_of(y);
            Error error;
            for (std::int64_t i = 0; i < ggml_nelements(y); ++i) {
                const std::int64_t row = i % shape.rows, column = i / shape.rows;
                error.add(
                    dot(&weights[static_cast<std::size_t>(row * shape.depth)],
                        &activations[static_cast<std::size_t>(column * shape.depth)], shape.depth),
                    found[static_cast<std::size_t>(i)]);
            }
            EXPECT_LT(error.value(), kAllowed) << ggml_type_name(type) << ", " << shape.depth
                                               << " x " << shape.rows << " x " << shape.columns;
        }
    }
}

TEST_P(VulkanProducts, OfExpertsAgreeWithDoubleSums) {
    constexpr std::int64_t depth = 64, rows = 70, experts = 3, slots = 2, tokens = 40;
    HEDDLE_BENCH(bench, GetParam().options);
    ggml_tensor* a = ggml_new_tensor_3d(bench.context(), GGML_TYPE_Q4_0, depth, rows, experts);
    ggml_tensor* b = ggml_new_tensor_3d(bench.context(), GGML_TYPE_F32, depth, slots, tokens);
    ggml_tensor* ids = ggml_new_tensor_2d(bench.context(), GGML_TYPE_I32, slots, tokens);
    ggml_tensor* y = ggml_mul_mat_id(bench.context(), a, b, ids);
    ggml_cgraph* graph = bench.graph(y);
    ASSERT_TRUE(bench.allocate());
    const std::vector<float> weights = fill(a, 3), activations = fill(b, 4);
    std::vector<std::int32_t> chosen;
    for (std::int32_t i = 0; i < slots * tokens; ++i) chosen.push_back(i * i % experts);
    ggml_backend_tensor_set(ids, chosen.data(), 0, ggml_nbytes(ids));
    ASSERT_EQ(ggml_backend_graph_compute(bench.stream(), graph), GGML_STATUS_SUCCESS);
    const std::vector<float> found = values_of(y);
    Error error;
    for (std::int64_t i = 0; i < ggml_nelements(y); ++i) {
        const std::int64_t row = i % rows, pair = i / rows;
        const std::int64_t expert = chosen[static_cast<std::size_t>(pair)];
        error.add(dot(&weights[static_cast<std::size_t>((expert * rows + row) * depth)],
                      &activations[static_cast<std::size_t>(pair * depth)], depth),
                  found[static_cast<std::size_t>(i)]);
    }
    EXPECT_LT(error.value(), kAllowed);
}

TEST(VulkanProducts, InBytesAreOfOperandsAtMultiplesOf16Bytes) {
    const ggml_context_ptr context(ggml_init({1 << 16, nullptr, true}));
    ggml_tensor* a = ggml_new_tensor_2d(context.get(), GGML_TYPE_Q4_0, 64, 8);
    ggml_tensor* b = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 64);
    const ggml_tensor* y = ggml_mul_mat(context.get(), a, b);
    DeviceFacts device;
    device.has_integer_dot = true;
    const auto kernel_at = [&](std::uintptr_t weights, std::uintptr_t column) {
        a->data = reinterpret_cast<void*>(weights);
        b->data = reinterpret_cast<void*>(column);
        const Kernel* kernel = choose_kernel(*y, device);
        return std::string(kernel != nullptr ? kernel->name : "none");
    };
    EXPECT_EQ(kernel_at(0, 0), "gemv_int8") << "they have no memory yet";
    EXPECT_EQ(kernel_at(0x1000, 0x2000), "gemv_int8");
    EXPECT_EQ(kernel_at(0x1002, 0x2000), "gemv");
    EXPECT_EQ(kernel_at(0x1000, 0x2004), "gemv");
}

TEST(VulkanProducts, InHalfFloatsDoNotOverflow) {
    Options options;
    options.forces_gpu_kernels = true;
    HEDDLE_BENCH(bench, options);
    ggml_tensor* a = ggml_new_tensor_2d(bench.context(), GGML_TYPE_F16, 64, 16);
    ggml_tensor* b = ggml_new_tensor_2d(bench.context(), GGML_TYPE_F32, 64, 16);
    ggml_tensor* y = ggml_mul_mat(bench.context(), a, b);
    ggml_cgraph* graph = bench.graph(y);
    ASSERT_TRUE(bench.allocate());
    const std::vector<ggml_fp16_t> ones(64 * 16, ggml_fp32_to_fp16(1));
    const std::vector<float> large(64 * 16, 1e6f);
    ggml_backend_tensor_set(a, ones.data(), 0, ggml_nbytes(a));
    ggml_backend_tensor_set(b, large.data(), 0, ggml_nbytes(b));
    ASSERT_EQ(ggml_backend_graph_compute(bench.stream(), graph), GGML_STATUS_SUCCESS);
    EXPECT_NEAR(values_of(y)[255], 64e6f, 64e6f / 2048);
}

INSTANTIATE_TEST_SUITE_P(EveryPath, VulkanProducts, testing::ValuesIn(paths()),
                         [](const auto& path) { return std::string(path.param.name); });

}  // namespace
}  // namespace heddle::vulkan
