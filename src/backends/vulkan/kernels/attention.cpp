// FLASH_ATTN_EXT: any types of keys and values, any head sizes up to 1024.

#include <numeric>

#include "backends/gpu/conditions/common.hpp"
#include "backends/vulkan/kernels/common.hpp"
#include "ggml/op_list.h"
#include "ops/flash_attn.hpp"

namespace heddle::vulkan {
namespace {

constexpr std::int64_t kWidth = 128;  ///< keys that a workgroup scores at a time

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

/// Heads of queries that share their keys and their values.
std::int64_t heads_of_group(const Tensor& node) {
    const std::int64_t heads = node.src[0]->ne[2];
    return std::gcd(heads / node.src[1]->ne[2], heads / node.src[2]->ne[2]);
}

/// How rows and keys are dealt out over workgroups. Depends on shapes and the device alone, so that
/// results do not change from run to run.
struct Cut {
    std::int64_t group_heads, groups, rows_per_group, row_tiles, splits, share;

    Cut(const Tensor& node, const DeviceFacts& device) {
        const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
        group_heads = heads_of_group(node);
        groups = q.ne[2] / group_heads;
        const std::int64_t rows = q.ne[1] * group_heads;
        const std::int64_t most = k.ne[0] > 256 || v.ne[0] > 256 ? 4 : 8;
        rows_per_group = 1;
        while (2 * rows_per_group <= most && rows_per_group < rows) rows_per_group *= 2;
        row_tiles = (rows + rows_per_group - 1) / rows_per_group;
        const std::int64_t blocks = std::max<std::int64_t>(row_tiles * groups * q.ne[3], 1);
        const std::int64_t tiles = std::max<std::int64_t>((k.ne[1] + kWidth - 1) / kWidth, 1);
        const std::int64_t wanted = 2 * std::int64_t{device.units} / blocks;
        splits = std::clamp<std::int64_t>(wanted, 1, tiles);
        share = (tiles + splits - 1) / splits * kWidth;
        splits = std::max<std::int64_t>((k.ne[1] + share - 1) / share, 1);
    }
};

std::size_t scratch(const Tensor& node, const DeviceFacts& device) {
    const Cut cut(node, device);
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

void record(const Tensor& node, Recorder& recorder) {
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
    const Cut cut(node, recorder.device());
    Arguments a = attention_arguments(node);
    a.i[4] = static_cast<std::int32_t>(cut.splits);
    a.i[5] = static_cast<std::int32_t>(cut.share);
    recorder.run_rows(
        {.shader = Shader::attention,
         .workgroup = static_cast<int>(kWidth),
         .values = {type_of(&k), type_of(&v), static_cast<std::int32_t>(cut.rows_per_group),
                    static_cast<std::int32_t>(k.ne[0]), static_cast<std::int32_t>(v.ne[0]),
                    vectors_of(node)}},
        a, cut.row_tiles * cut.groups * q.ne[3] * cut.splits);
    if (cut.splits == 1) return;
    recorder.barrier();
    recorder.run_rows({.shader = Shader::attention_merge, .workgroup = 64}, a,
                      q.ne[1] * q.ne[2] * q.ne[3]);
}

// ---- many rows ---------------------------------------------------------------------------------

constexpr std::int64_t kMatrixRows = 64;  ///< of a workgroup

std::string_view matrix_objection(const Tensor& node) {
    if (const auto words = objection(node); !words.empty()) return words;
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
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
    {"attention", GGML_OP_FLASH_ATTN_EXT, objection, record, scratch},
};

}  // namespace

std::span<const Kernel> attention_kernels() { return kKernels; }

}  // namespace heddle::vulkan
