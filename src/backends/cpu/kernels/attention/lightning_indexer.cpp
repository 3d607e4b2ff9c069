#include "ops/lightning_indexer.hpp"

#include <algorithm>

#include "backends/cpu/dot/multiplier.hpp"
#include "backends/cpu/kernel.hpp"
#include "core/half.hpp"
#include "ggml/op_list.h"
#include "quant/codec.hpp"

namespace heddle::cpu {
namespace {

/// Keys, heads and tokens that are worked on together. Keys of block formats are decoded once for
/// all of the tokens.
constexpr std::int64_t kKeys = 64;
constexpr std::int64_t kHeads = 16;
constexpr std::int64_t kTokens = 16;

std::int64_t blocks_of(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

std::string_view objection(const Tensor& node) {
    const Tensor &q = *node.src[0], &k = *node.src[1], &weights = *node.src[2],
                 &mask = *node.src[3];
    if (q.type != GGML_TYPE_F32 || weights.type != GGML_TYPE_F32) return "q or weights are not f32";
    if (mask.type != GGML_TYPE_F16) return "the mask is not f16";
    if (!plain_multiply_of(k.type) && quant::codec_of(k.type) == nullptr)
        return "keys have a type that cannot be decoded";
    for (const Tensor* rows : {&q, &k, &weights, &mask}) {
        if (rows->nb[0] != size_of(rows->type)) return "rows of an operand are not dense";
    }
    if (node.type != GGML_TYPE_F32 || node.nb[0] != sizeof(float)) {
        return "the result is not dense f32";
    }
    return {};
}

std::size_t decoded_size(const Tensor& k) {
    if (quant::codec_of(k.type) == nullptr) return 0;
    return (static_cast<std::size_t>(kKeys * k.ne[0]) * sizeof(float) + 63) / 64 * 64;
}

std::int64_t unit_count(const Tensor& node) {
    return blocks_of(node.ne[0], kKeys) * blocks_of(node.ne[1], kTokens) * node.ne[3];
}

Demand demand(const Tensor& node, int threads) {
    const Tensor &q = *node.src[0], &k = *node.src[1];
    const double flops = 2.0 * static_cast<double>(element_count(node)) *
                         static_cast<double>(q.ne[0]) * static_cast<double>(q.ne[1]);
    const int tasks = worthwhile_tasks(0, flops, unit_count(node), threads);
    return {.tasks = tasks, .scratch = static_cast<std::size_t>(tasks) * decoded_size(k)};
}

/// y[j] = mask[j] + the sum over heads of weight * max(0, q . k[j]), for the keys of a view.
void score_token(const Tensor& node, const MatrixView& keys, MultiplyRows multiply,
                 std::int64_t first, std::int64_t token, std::int64_t batch) {
    const Tensor &q = *node.src[0], &weights = *node.src[2], &mask = *node.src[3];
    float* y = at<float>(node, first, token, 0, batch);
    const auto* m = at<const std::uint16_t>(mask, first, token, 0, batch % mask.ne[3]);
    float sums[kKeys] = {};
    for (std::int64_t head = 0; head < q.ne[1]; head += kHeads) {
        const int count = static_cast<int>(std::min(kHeads, q.ne[1] - head));
        float scores[kHeads][kKeys];
        const std::byte* columns[kHeads];
        float* out[kHeads];
        for (int h = 0; h < count; ++h) {
            columns[h] = at(q, 0, head + h, token, batch);
            out[h] = scores[h];
        }
        multiply(keys, columns, out, count);
        for (int h = 0; h < count; ++h) {
            const float weight = *at<const float>(weights, head + h, token, 0, batch);
            for (std::int64_t j = 0; j < keys.count; ++j) {
                // Written so that a NaN stays one.
                sums[j] += weight * (scores[h][j] < 0 ? 0 : scores[h][j]);
            }
        }
    }
    for (std::int64_t j = 0; j < keys.count; ++j) y[j] = sums[j] + f16_to_f32(m[j]);
}

void run(const Tensor& node, const Task& task) {
    const Tensor &q = *node.src[0], &k = *node.src[1];
    if (is_empty(node)) return;
    const quant::Codec* codec = quant::codec_of(k.type);
    const MultiplyRows multiply = plain_multiply_of(codec != nullptr ? GGML_TYPE_F32 : k.type);
    const std::int64_t key_blocks = blocks_of(k.ne[2], kKeys);
    const std::int64_t token_blocks = blocks_of(q.ne[2], kTokens);
    auto* decoded = reinterpret_cast<float*>(task.scratch + static_cast<std::size_t>(task.index) *
                                                                decoded_size(k));
    const Range range = task.share(unit_count(node));
    for (std::int64_t unit = range.begin; unit < range.end; ++unit) {
        const std::int64_t first = unit % key_blocks * kKeys;
        const std::int64_t token = unit / key_blocks % token_blocks * kTokens;
        const std::int64_t batch = unit / (key_blocks * token_blocks);
        MatrixView keys{k.type, at(k, 0, 0, first, batch), k.nb[2],
                        std::min(kKeys, k.ne[2] - first), k.ne[0]};
        if (codec != nullptr) {
            for (std::int64_t j = 0; j < keys.count; ++j) {
                codec->decode(at(k, 0, 0, first + j, batch), decoded + j * k.ne[0], k.ne[0]);
            }
            keys.type = GGML_TYPE_F32;
            keys.rows = reinterpret_cast<const std::byte*>(decoded);
            keys.pitch = static_cast<std::size_t>(k.ne[0]) * sizeof(float);
        }
        for (std::int64_t t = token; t < std::min(token + kTokens, q.ne[2]); ++t) {
            score_token(node, keys, multiply, first, t, batch);
        }
    }
}

}  // namespace

extern const Kernel kLightningIndexer{.name = "lightning_indexer",
                                      .op = GGML_OP_LIGHTNING_INDEXER,
                                      .objection = objection,
                                      .run = run,
                                      .demand = demand};

}  // namespace heddle::cpu
