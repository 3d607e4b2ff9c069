#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "backends/cuda/board.hpp"
#include "core/half.hpp"
#include "quant/codec.hpp"

/// What tests of launches that compute several nodes share: tensors of the device, and the
/// definitions in double precision.
namespace heddle::cuda {

using Doubles = std::vector<double>;

inline std::mt19937 g_random(1);
inline int g_cases = 0, g_failures = 0;

inline void check(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return;
    std::printf("%s: %s\n", what, cudaGetErrorString(error));
    std::exit(2);
}

/// Random numbers, rounded to the type.
inline void fill_floats(Type type, std::vector<float>& values, std::vector<std::uint8_t>& bytes) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = uniform(g_random);
        if (type == GGML_TYPE_F32) {
            std::memcpy(&bytes[4 * i], &values[i], 4);
            continue;
        }
        const bool is_half = type == GGML_TYPE_F16;
        const std::uint16_t bits = is_half ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
        values[i] = is_half ? f16_to_f32(bits) : bf16_to_f32(bits);
        std::memcpy(&bytes[2 * i], &bits, 2);
    }
}

/// A few blocks of a type, which rows are put together from: encoding takes long.
inline std::vector<std::uint8_t> block_pool(Type type) {
    constexpr std::int64_t kBlocks = 16;
    const std::int64_t n = kBlocks * block_size(type);
    std::vector<float> values(static_cast<std::size_t>(n)), ones(values.size(), 1.0F);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float& v : values) v = uniform(g_random);
    std::vector<std::uint8_t> pool(row_size(type, n));
    if (!quant::encode_rows(type, values.data(), pool.data(), 1, n, ones.data())) {
        std::printf("no encoder for %s\n", type_info(type).name);
        std::exit(2);
    }
    return pool;
}

/// Tensors of one case and their memory.
class Workshop {
public:
    ~Workshop() {
        for (void* memory : memory_) cudaFree(memory);
    }

    Tensor& tensor(Type type, std::int64_t n0, std::int64_t n1 = 1, std::int64_t n2 = 1) {
        Tensor& t = tensors_.emplace_back();
        t.type = type;
        t.ne[0] = n0, t.ne[1] = n1, t.ne[2] = n2, t.ne[3] = 1;
        t.nb[0] = size_of(type);
        t.nb[1] = row_size(type, n0);
        t.nb[2] = t.nb[1] * static_cast<std::size_t>(n1);
        t.nb[3] = t.nb[2] * static_cast<std::size_t>(n2);
        void* memory = nullptr;
        check(cudaMalloc(&memory, t.nb[3] + 256), "cudaMalloc");
        check(cudaMemset(memory, 0xff, t.nb[3] + 256), "cudaMemset");
        memory_.push_back(memory);
        t.data = memory;
        return t;
    }

    /// With random contents, and what they are as numbers.
    Tensor& random(Type type, std::int64_t n0, std::int64_t n1, std::vector<float>& values) {
        Tensor& t = tensor(type, n0, n1);
        values.resize(static_cast<std::size_t>(n0 * n1));
        std::vector<std::uint8_t> bytes(t.nb[3]);
        if (block_size(type) == 1) {
            fill_floats(type, values, bytes);
        } else {
            const auto pool = block_pool(type);
            const std::size_t block = size_of(type), count = pool.size() / block;
            for (std::size_t at = 0; at < bytes.size(); at += block)
                std::memcpy(&bytes[at], &pool[g_random() % count * block], block);
            for (std::int64_t r = 0; r < n1; ++r)
                quant::codec_of(type)->decode(&bytes[static_cast<std::size_t>(r) * t.nb[1]],
                                              values.data() + r * n0, n0);
        }
        upload(t, bytes.data());
        return t;
    }

    static void upload(Tensor& t, const void* bytes) {
        check(cudaMemcpy(t.data, bytes, t.nb[3], cudaMemcpyHostToDevice), "up");
    }

    /// A node of an op over sources.
    Tensor& node(Op op, Type type, std::initializer_list<Tensor*> sources, std::int64_t n0,
                 std::int64_t n1 = 1) {
        Tensor& t = tensor(type, n0, n1);
        t.op = op;
        int i = 0;
        for (Tensor* source : sources) t.src[i++] = source;
        return t;
    }

private:
    std::deque<Tensor> tensors_;
    std::vector<void*> memory_;
};

template <class Params>
inline void set_params_of(Tensor& node, const Params& params) {
    std::memcpy(node.op_params, &params, sizeof params);
}

inline std::vector<float> read(const Tensor& t) {
    std::vector<std::uint8_t> bytes(t.nb[3]);
    check(cudaMemcpy(bytes.data(), t.data, bytes.size(), cudaMemcpyDeviceToHost), "down");
    std::vector<float> values(static_cast<std::size_t>(element_count(t)));
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (t.type == GGML_TYPE_F32) {
            std::memcpy(&values[i], &bytes[4 * i], 4);
        } else {
            std::uint16_t half = 0;
            std::memcpy(&half, &bytes[2 * i], 2);
            values[i] = f16_to_f32(half);
        }
    }
    return values;
}

inline Doubles product(const std::vector<float>& w, const Doubles& x) {
    Doubles y(w.size() / x.size());
    for (std::size_t r = 0; r < y.size(); ++r)
        for (std::size_t k = 0; k < x.size(); ++k) y[r] += double{w[r * x.size() + k]} * x[k];
    return y;
}

inline Doubles normed(const std::vector<float>& x, const std::vector<float>& weights) {
    double squares = 0;
    for (const float v : x) squares += double{v} * v;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
    Doubles y(x.size());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i] * scale * weights[i];
    return y;
}

inline const DeviceFacts& device_facts() {
    static const DeviceFacts device = survey_devices({}).boards.at(0).facts;
    return device;
}

/// Launches that leave their results coded for each other.
void run_passed(Type type, std::int64_t depth, std::int64_t width, std::int64_t inner,
                double limit);

/// Attention of one query, so many heads of which share keys, that leaves its result coded.
void run_passed_attention(std::int64_t group_heads);

}  // namespace heddle::cuda
