#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/recurrent/ssm_conv.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/block_lanes.hpp"
#include "backends/cpu/kernel.hpp"

#ifndef HEDDLE_CPU_SSM_CONV_ONCE
#define HEDDLE_CPU_SSM_CONV_ONCE
namespace heddle::cpu {

/// Channels of a cache line of the result, which is written as a whole.
inline constexpr std::int64_t kChannelsOfLine = 16;

/// The operands of one sequence and its result, which has channels where x has tokens.
struct SsmConv {
    const Tensor &node, &x, &kernel;
    std::int64_t sequence, taps, tokens;

    SsmConv(const Tensor& result, std::int64_t which)
        : node(result),
          x(*result.src[0]),
          kernel(*result.src[1]),
          sequence(which),
          taps(kernel.ne[0]),
          tokens(result.ne[1]) {}

    const float* inputs(std::int64_t channel, std::int64_t token) const {
        return at<const float>(x, token, channel, sequence);
    }
    const float* weights(std::int64_t channel) const { return at<const float>(kernel, 0, channel); }
    float* output(std::int64_t channel, std::int64_t token) const {
        return at<float>(node, channel, token, sequence);
    }
};

}  // namespace heddle::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

void convolve_one(const SsmConv& conv, std::int64_t channel) {
    const float* weights = conv.weights(channel);
    for (std::int64_t token = 0; token < conv.tokens; ++token) {
        const float* from = conv.inputs(channel, token);
        float sum = 0;
        for (std::int64_t k = 0; k < conv.taps; ++k) sum += from[k] * weights[k];
        *conv.output(channel, token) = sum;
    }
}

#if HWY_TARGET != HWY_SCALAR

constexpr std::int64_t kLanes = kBlockLanes;
constexpr std::int64_t kTokens = 128;   // at a time: short enough for L1
constexpr std::int64_t kMostTaps = 16;  // models have 4

/// Four elements of every fourth row.
template <class D>
HWY_INLINE hn::Vec<D> load_fours(D d, const float* row, std::int64_t pitch) {
    if constexpr (hn::MaxLanes(D()) == 4) {
        return hn::LoadU(d, row);
    } else {
        const hn::Half<D> half;
        const auto rows = static_cast<std::int64_t>(hn::MaxLanes(half));
        return hn::Combine(d, load_fours(half, row + rows * pitch, pitch),
                           load_fours(half, row, pitch));
    }
}

/// The first `count` elements of as many rows as there are lanes: element i of all rows in vector
/// i. Rows are `pitch` elements apart.
HWY_INLINE void transpose_rows(const float* rows, std::int64_t pitch, std::int64_t count,
                               float* to) {
    const BlockFloats d;
    const hn::RepartitionToWide<BlockFloats> pairs;
    std::int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        const auto row0 = load_fours(d, rows + i, pitch);
        const auto row1 = load_fours(d, rows + i + pitch, pitch);
        const auto row2 = load_fours(d, rows + i + 2 * pitch, pitch);
        const auto row3 = load_fours(d, rows + i + 3 * pitch, pitch);
        const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, row0, row1));
        const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, row2, row3));
        const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, row0, row1));
        const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, row2, row3));
        float* four = to + i * kLanes;
        hn::Store(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, four);
        hn::Store(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, four + kLanes);
        hn::Store(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, four + 2 * kLanes);
        hn::Store(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, four + 3 * kLanes);
    }
    for (; i < count; ++i) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane) {
            to[i * kLanes + lane] = rows[lane * pitch + i];
        }
    }
}

std::int64_t pitch_of(const Tensor& t) {
    return static_cast<std::int64_t>(t.nb[1] / sizeof(float));
}

/// `count` tokens of a line of channels.
HWY_INLINE void convolve_line(const SsmConv& conv, std::int64_t channel, std::int64_t token,
                              std::int64_t count) {
    const BlockFloats d;
    constexpr int kParts = kChannelsOfLine / kLanes;
    alignas(64) float weights[kParts][kMostTaps * kLanes];
    alignas(64) float inputs[kParts][(kTokens + kMostTaps) * kLanes];
    for (int p = 0; p < kParts; ++p) {
        const std::int64_t first = channel + p * kLanes;
        transpose_rows(conv.weights(first), pitch_of(conv.kernel), conv.taps, weights[p]);
        transpose_rows(conv.inputs(first, token), pitch_of(conv.x), count + conv.taps - 1,
                       inputs[p]);
    }
    float* out = conv.output(channel, token);
    const std::int64_t pitch = pitch_of(conv.node);
    const auto slide = [&](std::int64_t taps) HWY_ATTR {
        for (std::int64_t t = 0; t < count; ++t) {
            HWY_UNROLL(4)
            for (int p = 0; p < kParts; ++p) {
                auto sum = hn::Zero(d);
                for (std::int64_t k = 0; k < taps; ++k) {
                    sum = hn::MulAdd(hn::Load(d, inputs[p] + (t + k) * kLanes),
                                     hn::Load(d, weights[p] + k * kLanes), sum);
                }
                hn::StoreU(sum, d, out + t * pitch + p * kLanes);
            }
        }
    };
    conv.taps == 4 ? slide(4) : slide(conv.taps);  // 4: its weights stay in registers
}

#endif

}  // namespace

void convolve(const SsmConv& conv, Range channels) {
    std::int64_t first = channels.begin;
#if HWY_TARGET != HWY_SCALAR
    if (conv.taps <= kMostTaps) {
        const std::int64_t lines = (channels.end - first) / kChannelsOfLine;
        const std::int64_t end = first + lines * kChannelsOfLine;
        for (std::int64_t token = 0; token < conv.tokens; token += kTokens) {
            const std::int64_t left = conv.tokens - token;
            for (std::int64_t channel = first; channel < end; channel += kChannelsOfLine) {
                convolve_line(conv, channel, token, left < kTokens ? left : kTokens);
            }
        }
        first = end;
    }
#endif
    for (; first < channels.end; ++first) convolve_one(conv, first);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "backends/cpu/kernels/node_flops.hpp"
#include "ggml/op_list.h"
#include "ops/state_space.hpp"

namespace heddle::cpu {
HWY_EXPORT(convolve);
namespace {

std::string_view objection(const Tensor& node) {
    const Tensor &x = *node.src[0], &kernel = *node.src[1];
    if (x.type != GGML_TYPE_F32 || kernel.type != GGML_TYPE_F32) return "only f32";
    if (x.nb[0] != sizeof(float) || kernel.nb[0] != sizeof(float)) return "rows are not dense";
    return {};
}

std::int64_t lines_of(const Tensor& node) {
    return (node.ne[0] + kChannelsOfLine - 1) / kChannelsOfLine;
}

/// Channels are parted, not tokens: when text is generated there is one token at a time.
void run(const Tensor& node, const Task& task) {
    const Range lines = task.share(lines_of(node));
    const Range channels{lines.begin * kChannelsOfLine,
                         std::min(lines.end * kChannelsOfLine, node.ne[0])};
    for (std::int64_t sequence = 0; sequence < node.ne[2]; ++sequence) {
        HWY_DYNAMIC_DISPATCH(convolve)(SsmConv(node, sequence), channels);
    }
}

Demand demand(const Tensor& node, int threads) {
    return flops_demand<ops::SsmConv>(node, lines_of(node), threads);
}

}  // namespace

extern const Kernel kSsmConv{.name = "ssm_conv_f32",
                             .op = GGML_OP_SSM_CONV,
                             .objection = objection,
                             .run = run,
                             .demand = demand};

}  // namespace heddle::cpu
#endif
