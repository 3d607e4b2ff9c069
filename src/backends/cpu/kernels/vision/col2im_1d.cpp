#include <algorithm>

#include "backends/cpu/kernels/node_flops.hpp"
#include "core/half.hpp"
#include "ops/im2col.hpp"

namespace heddle::cpu {
namespace {

/// Elements of a signal that are summed together.
constexpr std::int64_t kPiece = 512;

std::string_view objection(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.type != GGML_TYPE_F32 && x.type != GGML_TYPE_F16 && x.type != GGML_TYPE_BF16) {
        return "x is not f32, f16 or bf16";
    }
    if (node.type != x.type) return "the result is not of the type of x";
    return {};
}

std::int64_t pieces_per_signal(const Tensor& node) { return (node.ne[0] + kPiece - 1) / kPiece; }

float load(const float* from) { return *from; }
void store(float value, float* to) { *to = value; }

struct F16 {
    std::uint16_t bits;
};
float load(const F16* from) { return f16_to_f32(from->bits); }
void store(float value, F16* to) { to->bits = f32_to_f16(value); }

struct Bf16 {
    std::uint16_t bits;
};
float load(const Bf16* from) { return bf16_to_f32(from->bits); }
void store(float value, Bf16* to) { to->bits = f32_to_bf16(value); }

/// Elements `range` of a signal: sums in single precision, rounded once.
template <class T>
void sum_piece(const Tensor& node, std::int64_t channel, Range range) {
    const auto [stride, channels, padding] = unpack<ops::Col2im1d::Params>(node);
    const Tensor& x = *node.src[0];
    const std::int64_t taps = x.ne[0] / channels;
    // Column t adds its taps to elements t * stride - padding and following.
    const std::int64_t begin = range.begin + padding, end = range.end + padding;
    const std::int64_t first = begin < taps ? 0 : (begin - taps) / stride + 1;
    const std::int64_t last = std::min((end - 1) / stride + 1, x.ne[1]);
    float sums[kPiece] = {};
    for (std::int64_t t = first; t < last; ++t) {
        const T* column = at<const T>(x, channel * taps, t);
        const std::int64_t start = t * stride;
        const std::int64_t from = std::max<std::int64_t>(begin - start, 0);
        const std::int64_t to = std::min(end - start, taps);
        for (std::int64_t k = from; k < to; ++k) sums[start + k - begin] += load(column + k);
    }
    T* out = at<T>(node, range.begin, channel);
    for (std::int64_t i = 0; i < range.end - range.begin; ++i) store(sums[i], out + i);
}

template <class T>
void run_typed(const Tensor& node, const Task& task) {
    const std::int64_t count = pieces_per_signal(node);
    const Range pieces = task.share(count * node.ne[1]);
    for (std::int64_t piece = pieces.begin; piece < pieces.end; ++piece) {
        const std::int64_t first = piece % count * kPiece;
        sum_piece<T>(node, piece / count, {first, std::min(first + kPiece, node.ne[0])});
    }
}

void run(const Tensor& node, const Task& task) {
    if (node.type == GGML_TYPE_F32) return run_typed<float>(node, task);
    if (node.type == GGML_TYPE_F16) return run_typed<F16>(node, task);
    run_typed<Bf16>(node, task);
}

Demand demand(const Tensor& node, int threads) {
    return flops_demand<ops::Col2im1d>(node, pieces_per_signal(node) * node.ne[1], threads);
}

}  // namespace

extern const Kernel kCol2im1d{.name = "col2im_1d",
                              .op = GGML_OP_COL2IM_1D,
                              .objection = objection,
                              .run = run,
                              .demand = demand};

}  // namespace heddle::cpu
