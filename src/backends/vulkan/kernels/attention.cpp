// FLASH_ATTN_EXT: any types of keys and values, any head sizes up to 1024.

#include <numeric>

#include "backends/gpu/conditions/common.hpp"
#include "backends/vulkan/kernels/common.hpp"
#include "ggml/op_list.h"
#include "ops/flash_attn.hpp"

namespace heddle::vulkan {
namespace {

constexpr std::int64_t kWidth = 128;  ///< invocations of a workgroup

std::string_view objection(const Tensor& node) {
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
    if (q.type != GGML_TYPE_F32) return "q is not F32";
    if (!gpu::has_decoder(k.type) || !gpu::has_decoder(v.type)) {
        return "the type of k or v has no decoder";
    }
    if (k.ne[0] % 8 != 0 || v.ne[0] % 8 != 0) return "a head size is no multiple of 8";
    if (k.ne[0] > 1024 || v.ne[0] > 1024) return "a head size is above 1024";
    if (k.ne[1] != v.ne[1]) return "k and v differ in length";
    if (k.ne[2] == 0 || v.ne[2] == 0 || q.ne[2] % k.ne[2] != 0 || q.ne[2] % v.ne[2] != 0) {
        return "heads of k or v do not divide those of q";
    }
    for (const Tensor* t : {&q, &k, &v}) {
        if (t->nb[0] != size_of(t->type)) return "rows of q, k or v are not dense";
    }
    if (node.type != GGML_TYPE_F32 || !is_contiguous(node)) return "the result is not dense F32";
    const Tensor* mask = node.src[3];
    if (mask != nullptr) {
        if (mask->type != GGML_TYPE_F16) return "the mask is not F16";
        if (mask->ne[0] < k.ne[1] || mask->ne[1] < q.ne[1]) return "the mask is too small";
        if (mask->ne[2] == 0 || mask->ne[3] == 0) return "the mask is empty";
    }
    if (node.src[4] != nullptr && node.src[4]->type != GGML_TYPE_F32) return "sinks are not F32";
    return {};
}

constexpr std::int64_t kMostSplits = 1024;  ///< that the shader which joins them has room for

/// Heads of queries that share their keys and their values.
std::int64_t heads_of_group(const Tensor& node) {
    const std::int64_t heads = node.src[0]->ne[2];
    return std::gcd(heads / node.src[1]->ne[2], heads / node.src[2]->ne[2]);
}

/// How rows and keys are dealt out over workgroups. Depends on shapes and the device alone, so that
/// results do not change from run to run.
struct Cut {
    std::int64_t group_heads, groups, rows_per_group, row_tiles, splits, share;

    /// `most` rows for a workgroup; shares of the keys are multiples of `unit`.
    Cut(const Tensor& node, const DeviceFacts& device, std::int64_t most, std::int64_t unit) {
        const Tensor &q = *node.src[0], &k = *node.src[1];
        group_heads = heads_of_group(node);
        groups = q.ne[2] / group_heads;
        const std::int64_t rows = q.ne[1] * group_heads;
        rows_per_group = 1;
        while (2 * rows_per_group <= most && rows_per_group < rows) rows_per_group *= 2;
        row_tiles = (rows + rows_per_group - 1) / rows_per_group;
        const std::int64_t blocks = std::max<std::int64_t>(row_tiles * groups * q.ne[3], 1);
        const std::int64_t tiles = std::max<std::int64_t>((k.ne[1] + unit - 1) / unit, 1);
        const std::int64_t wanted = 2 * std::int64_t{device.units} / blocks;
        splits = std::clamp<std::int64_t>(wanted, 1, std::min(tiles, kMostSplits));
        share = (tiles + splits - 1) / splits * unit;
        splits = std::max<std::int64_t>((k.ne[1] + share - 1) / share, 1);
    }
};

/// For the partial results of all splits.
std::size_t scratch_of(const Tensor& node, const Cut& cut) {
    if (cut.splits == 1) return 0;
    const Tensor& q = *node.src[0];
    return static_cast<std::size_t>(q.ne[1] * q.ne[2] * q.ne[3] * cut.splits *
                                    (node.src[2]->ne[0] + 2)) *
           sizeof(float);
}

Arguments attention_arguments(const Tensor& node) {
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
    const auto params = unpack<ops::FlashAttnExt::Params>(node);
    Arguments a = arguments(node);
    a.i[0] = static_cast<std::int32_t>(heads_of_group(node));
    a.i[1] = static_cast<std::int32_t>(q.ne[2] / heads_of_group(node));
    a.i[2] = static_cast<std::int32_t>(q.ne[2] / k.ne[2]);
    a.i[3] = static_cast<std::int32_t>(q.ne[2] / v.ne[2]);
    a.f[0] = params.scale;
    set_alibi(a, params.max_bias, q.ne[2]);
    a.f[5] = params.logit_softcap;
    return a;
}

std::int32_t vectors_of(const Tensor& node) {
    return (has_aligned_rows(*node.src[1]) ? 1 : 0) + (has_aligned_rows(*node.src[2]) ? 2 : 0);
}

void record_cut(const Tensor& node, Recorder& recorder, const Cut& cut, Recorder::Work work) {
    const Tensor& q = *node.src[0];
    Arguments a = attention_arguments(node);
    a.i[4] = static_cast<std::int32_t>(cut.splits);
    a.i[5] = static_cast<std::int32_t>(cut.share);
    work.workgroup = static_cast<int>(kWidth);
    recorder.run_rows(work, a, cut.row_tiles * cut.groups * q.ne[3] * cut.splits);
    if (cut.splits == 1) return;
    recorder.barrier();
    recorder.run_rows({.shader = Shader::attention_merge, .workgroup = 128}, a,
                      q.ne[1] * q.ne[2] * q.ne[3]);
}

// ---- any rows ----------------------------------------------------------------------------------

/// An invocation has a key.
Cut plain_cut(const Tensor& node, const DeviceFacts& device) {
    const bool is_long = node.src[1]->ne[0] > 256 || node.src[2]->ne[0] > 256;
    return {node, device, is_long ? 4 : 8, kWidth};
}

std::size_t scratch(const Tensor& node, const DeviceFacts& device) {
    return scratch_of(node, plain_cut(node, device));
}

void record(const Tensor& node, Recorder& recorder) {
    const Tensor &k = *node.src[1], &v = *node.src[2];
    const Cut cut = plain_cut(node, recorder.device());
    record_cut(node, recorder, cut,
               {.shader = Shader::attention,
                .values = {type_of(&k), type_of(&v), static_cast<std::int32_t>(cut.rows_per_group),
                           static_cast<std::int32_t>(k.ne[0]), static_cast<std::int32_t>(v.ne[0]),
                           vectors_of(node)}});
}

// ---- few rows ----------------------------------------------------------------------------------

constexpr std::int64_t kFewRows = 32;  ///< with the same keys

std::string_view few_objection(const Tensor& node) {
    if (const auto words = objection(node); !words.empty()) return words;
    const std::int64_t size = node.src[1]->ne[0];
    if (size != node.src[2]->ne[0]) return "heads of k and v differ in size";
    if ((size & (size - 1)) != 0) return "the head size is no power of two";
    if (node.src[0]->ne[1] * heads_of_group(node) > kFewRows) return "there are many queries";
    return {};
}

std::string_view few_device_objection(const Tensor& node, const DeviceFacts& device) {
    if (!device.has_cheap_barriers) return "barriers are expensive";
    const std::int64_t lanes = node.src[1]->ne[0] / 8;
    return lanes <= std::int64_t{device.subgroup} ? "" : "a head is longer than a subgroup";
}

/// As many lanes have a key as its elements in eights.
Cut few_cut(const Tensor& node, const DeviceFacts& device) {
    return {node, device, 4, std::max<std::int64_t>(kWidth * 8 / node.src[1]->ne[0], 32)};
}

std::size_t few_scratch(const Tensor& node, const DeviceFacts& device) {
    return scratch_of(node, few_cut(node, device));
}

void record_few(const Tensor& node, Recorder& recorder) {
    const Tensor &k = *node.src[1], &v = *node.src[2];
    const Cut cut = few_cut(node, recorder.device());
    record_cut(node, recorder, cut,
               {.shader = Shader::attention_few,
                .values = {type_of(&k), type_of(&v), static_cast<std::int32_t>(cut.rows_per_group),
                           static_cast<std::int32_t>(k.ne[0]), vectors_of(node)}});
}

// ---- many rows ---------------------------------------------------------------------------------

constexpr std::int64_t kMatrixRows = 64;  ///< of a workgroup

bool fits_halves(const Tensor& t) { return t.type != GGML_TYPE_F32 && t.type != GGML_TYPE_BF16; }

/// Scores and sums are F32 whatever the precision is. F32 and BF16 keys and values may be too large
/// for half floats, so where precision F32 is asked for they are left to other kernels.
std::string_view matrix_objection(const Tensor& node) {
    if (const auto words = objection(node); !words.empty()) return words;
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
    const bool is_exact = unpack<ops::FlashAttnExt::Params>(node).precision == GGML_PREC_F32;
    if (is_exact && !(fits_halves(k) && fits_halves(v))) {
        return "F32 is asked for, and k or v do not fit into half floats";
    }
    if (k.ne[0] % 16 != 0 || v.ne[0] % 32 != 0) return "a head size is no multiple of 32";
    if (k.ne[0] > 128 || v.ne[0] > 128) return "a head size is above 128";
    if (2 * q.ne[1] * heads_of_group(node) < kMatrixRows) return "there are few queries";
    return {};
}

std::string_view matrix_device_objection(const Tensor&, const DeviceFacts& device) {
    if (!device.has_matrix_units) return "the device has no matrix units";
    return device.shared_memory >= 45056 ? "" : "the device has less than 44 KiB of shared memory";
}

void record_matrix(const Tensor& node, Recorder& recorder) {
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
    const Arguments a = attention_arguments(node);
    const std::int64_t tiles = (q.ne[1] * a.i[0] + kMatrixRows - 1) / kMatrixRows;
    recorder.run_rows({.shader = Shader::attention_matrix,
                       .values = {type_of(&k), type_of(&v), static_cast<std::int32_t>(k.ne[0]),
                                  static_cast<std::int32_t>(v.ne[0]), vectors_of(node)}},
                      a, tiles * a.i[1] * q.ne[3]);
}

constexpr Kernel kKernels[] = {
    {"attention_matrix", GGML_OP_FLASH_ATTN_EXT, matrix_objection, record_matrix, nullptr,
     matrix_device_objection},
    {"attention_few", GGML_OP_FLASH_ATTN_EXT, few_objection, record_few, few_scratch,
     few_device_objection},
    {"attention", GGML_OP_FLASH_ATTN_EXT, objection, record, scratch},
};

}  // namespace

std::span<const Kernel> attention_kernels() { return kKernels; }

}  // namespace heddle::vulkan
