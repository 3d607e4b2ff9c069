// Products of many columns with what is around them in a layer, on every CUDA device there is: they
// run together there, and must give what the CPU gives node by node.

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml-cuda.h"
#include "ggml/op_list.h"
#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"

namespace heddle::cuda {
namespace {

constexpr int kWidth = 512, kHidden = 1024, kKeys = 256;

std::vector<int> all_devices() {
    std::vector<int> numbers;
    for (int i = 0; i < ggml_backend_cuda_get_device_count(); ++i) numbers.push_back(i);
    return numbers;
}

/// Types of the weights: of queries, keys and the gate, and of values and what leads back.
struct Types {
    ggml_type most, others;
};

/// Queries, keys, values and the end of a layer, one after the other.
std::vector<float> compute(ggml_backend_t backend, Types types, int columns, float size) {
    const ggml_init_params params{64 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr,
                                  true};
    const ggml_context_ptr context(ggml_init(params));
    ggml_context* c = context.get();
    const auto matrix = [&](ggml_type type, int depth, int rows) {
        return ggml_new_tensor_2d(c, type, depth, rows);
    };
    ggml_tensor* x = matrix(GGML_TYPE_F32, kWidth, columns);
    ggml_tensor* norm = ggml_new_tensor_1d(c, GGML_TYPE_F32, kWidth);
    ggml_tensor* normed = ggml_mul(c, ggml_rms_norm(c, x, 1e-5F), norm);
    std::vector<ggml_tensor*> results;
    for (const auto& [type, rows] : {std::pair{types.most, kWidth}, std::pair{types.most, kKeys},
                                     std::pair{types.others, kKeys}})
        results.push_back(ggml_mul_mat(c, matrix(type, kWidth, rows), normed));
    ggml_tensor* raw = matrix(GGML_TYPE_F32, kWidth, columns);
    ggml_tensor* gate = ggml_mul_mat(c, matrix(types.most, kWidth, kHidden), raw);
    ggml_tensor* up = ggml_mul_mat(c, matrix(types.most, kWidth, kHidden), raw);
    ggml_tensor* down =
        ggml_mul_mat(c, matrix(types.others, kHidden, kWidth), ggml_swiglu_split(c, gate, up));
    results.push_back(ggml_add(c, down, x));
    ggml_cgraph* graph = ggml_new_graph(c);
    for (ggml_tensor* result : results) {
        ggml_set_output(result);
        ggml_build_forward_expand(graph, result);
    }
    const ggml_backend_buffer_ptr memory(ggml_backend_alloc_ctx_tensors(c, backend));
    std::mt19937 random(7);
    for (ggml_tensor* t = ggml_get_first_tensor(c); t != nullptr; t = ggml_get_next_tensor(c, t)) {
        if (t->op != GGML_OP_NONE) continue;
        const float most = t == raw ? size : t == x ? 1.0F : 0.1F;
        std::uniform_real_distribution<float> uniform(-most, most);
        std::vector<float> values(static_cast<std::size_t>(ggml_nelements(t)));
        for (float& value : values) value = uniform(random);
        std::vector<std::uint8_t> bytes(ggml_nbytes(t));
        ggml_quantize_chunk(t->type, values.data(), bytes.data(), 0, ggml_nrows(t), t->ne[0],
                            nullptr);
        ggml_backend_tensor_set(t, bytes.data(), 0, bytes.size());
    }
    EXPECT_EQ(ggml_backend_graph_compute(backend, graph), GGML_STATUS_SUCCESS);
    std::vector<float> all;
    for (const ggml_tensor* result : results) {
        std::vector<float> values(static_cast<std::size_t>(ggml_nelements(result)));
        ggml_backend_tensor_get(result, values.data(), 0, values.size() * sizeof(float));
        all.insert(all.end(), values.begin(), values.end());
    }
    return all;
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
    double error = 0, square = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        error += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
        square += double{b[i]} * b[i];
    }
    return error / square;
}

class ProductsTogether : public testing::TestWithParam<int> {
protected:
    ggml_backend_ptr device_{ggml_backend_cuda_init(GetParam())}, cpu_{ggml_backend_cpu_init()};

    void expect_near(Types types, int columns, float size) {
        ASSERT_NE(device_, nullptr);
        const auto expected = compute(cpu_.get(), types, columns, size);
        const auto result = compute(device_.get(), types, columns, size);
        const std::string words = std::string(ggml_type_name(types.most)) + " and " +
                                  ggml_type_name(types.others) + ", " + std::to_string(columns);
        // The CPU rounds activations for K formats to eight bits with a scale for 256, the device
        // to f16: 1.3e-4 is what that comes to here.
        EXPECT_LT(difference(result, expected), 3e-4) << words;
        EXPECT_EQ(result, compute(device_.get(), types, columns, size)) << words;
    }
};

TEST_P(ProductsTogether, GiveWhatTheCpuGivesNodeByNode) {
    for (const Types types :
         {Types{GGML_TYPE_Q4_0, GGML_TYPE_Q4_0}, Types{GGML_TYPE_Q8_0, GGML_TYPE_Q8_0},
          Types{GGML_TYPE_Q4_K, GGML_TYPE_Q6_K}, Types{GGML_TYPE_Q5_K, GGML_TYPE_IQ4_XS},
          Types{GGML_TYPE_F16, GGML_TYPE_F16}, Types{GGML_TYPE_BF16, GGML_TYPE_F16}})
        for (const int columns : {9, 40, 200}) expect_near(types, columns, 1);
}

TEST_P(ProductsTogether, KeepActivationsThatF16CannotHold) {
    // The gated unit comes to 5e5, of which an f16 holds the 127th part: the CPU's scales.
    for (const ggml_type type : {GGML_TYPE_Q4_0, GGML_TYPE_Q8_0})
        expect_near({type, type}, 200, 300);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ProductsTogether);
INSTANTIATE_TEST_SUITE_P(EveryDevice, ProductsTogether, testing::ValuesIn(all_devices()));

}  // namespace
}  // namespace heddle::cuda
