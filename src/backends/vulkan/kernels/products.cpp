// MUL_MAT, MUL_MAT_ID and OUT_PROD of weights of any type.

#include "backends/vulkan/kernels/products.hpp"

#include "backends/gpu/conditions/common.hpp"
#include "backends/vulkan/kernels/common.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_reduce.h"
#include "ops/matmul.hpp"

namespace heddle::vulkan {
namespace {

std::string_view weights_objection(const Tensor& a) {
    if (!gpu::has_decoder(a.type)) return "the type of the weights has no decoder";
    if (block_size(a.type) > 1 && a.ne[0] > 0 && a.nb[0] != size_of(a.type)) {
        return "rows of the weights are not dense";
    }
    return {};
}

/// Columns that one workgroup of the GEMV shader has at most.
constexpr std::int64_t kMostColumns = 8;
constexpr std::int64_t kTile = 64;  ///< rows and columns of a workgroup of the GEMM shader

Arguments product_arguments(const Tensor& node) {
    Arguments a = arguments(node);
    const Tensor& weights = *node.src[0];
    a.i[0] = static_cast<std::int32_t>(node.ne[2] / std::max<std::int64_t>(weights.ne[2], 1));
    a.i[1] = static_cast<std::int32_t>(node.ne[3] / std::max<std::int64_t>(weights.ne[3], 1));
    return a;
}

/// Operands that are read sixteen bytes at a time, as shaders/products.glsl has them.
std::int32_t vectors_of(const Tensor& node) {
    const auto is_read_so = [](const Tensor& t) {
        return t.ne[0] % 32 == 0 && has_aligned_rows(t);
    };
    return (is_read_so(*node.src[0]) ? 1 : 0) + (is_read_so(*node.src[1]) ? 2 : 0);
}

// ---- few columns -------------------------------------------------------------------------------

/// Where barriers are expensive every product goes this way: they cost more than reading weights
/// again.
std::string_view few_columns(const Tensor& node, const DeviceFacts& device) {
    if (!device.has_cheap_barriers || node.ne[1] <= kMostColumns) return {};
    return "there are more columns than a GEMV kernel has";
}

/// How rows of weights are dealt out over workgroups.
struct GemvShape {
    int workgroup;
    std::int64_t rows, per_group;  ///< of a subgroup at a time, of a workgroup

    /// Each invocation has a sum for every row and column: 8 at most. GPUs get workgroups enough
    /// for all units; software runs lanes of a subgroup as a vector, subgroups one after another.
    GemvShape(const Tensor& node, std::int64_t columns, const DeviceFacts& device) {
        const auto subgroup = static_cast<int>(device.subgroup);
        workgroup = device.has_cheap_barriers ? std::min(4 * subgroup, 256) : 2 * subgroup;
        const std::int64_t subgroups = workgroup / subgroup;
        rows = std::clamp<std::int64_t>(8 / columns, 1, 4);
        const std::int64_t busy = 4 * std::int64_t{device.units};
        while (rows > 1 && node.ne[0] / (rows * subgroups) < busy) rows /= 2;
        per_group = rows * subgroups;
    }

    Recorder::Work work(const Tensor& node, std::int64_t columns, bool is_by_expert) const {
        return {.shader = Shader::gemv,
                .workgroup = workgroup,
                .values = {type_of(node.src[0]), type_of(node.src[1]),
                           static_cast<std::int32_t>(columns), is_by_expert ? 1 : 0,
                           static_cast<std::int32_t>(rows), static_cast<std::int32_t>(per_group),
                           vectors_of(node)}};
    }
};

/// Columns come in powers of two: fewer shaders are compiled, and reading weights takes longest.
void record_gemv(const Tensor& node, Recorder& recorder) {
    std::int64_t columns = 1;
    while (columns < std::min(node.ne[1], kMostColumns)) columns *= 2;
    const GemvShape shape(node, columns, recorder.device());
    recorder.run_rows(shape.work(node, columns, false), product_arguments(node),
                      quotient_up(node.ne[0], shape.per_group) * quotient_up(node.ne[1], columns) *
                          node.ne[2] * node.ne[3]);
}

// ---- many columns ------------------------------------------------------------------------------

/// Half floats are exact enough unless the caller says otherwise; F32 weights are left as they are.
std::string_view matrix_objection(const Tensor& node) {
    if (const auto words = product_objection(node); !words.empty()) return words;
    if (node.src[0]->type == GGML_TYPE_F32 || node.src[0]->type == GGML_TYPE_BF16) {
        return "weights do not fit into half floats";
    }
    if (unpack<ops::MulMat::Params>(node).precision == GGML_PREC_F32) return "F32 is asked for";
    return {};
}

std::string_view matrix_device_objection(const Tensor&, const DeviceFacts& device) {
    if (!device.has_matrix_units) return "the device has no matrix units";
    return device.shared_memory >= 40960 ? "" : "the device has less than 40 KiB of shared memory";
}

std::int64_t tile_count(const Tensor& node, std::int64_t rows, std::int64_t columns) {
    return quotient_up(node.ne[0], rows) * quotient_up(node.ne[1], columns) * node.ne[2] *
           node.ne[3];
}

void record_gemm_matrix(const Tensor& node, Recorder& recorder) {
    recorder.run_rows({.shader = Shader::gemm_matrix,
                       .workgroup = 128,
                       .values = {type_of(node.src[0]), type_of(node.src[1]), vectors_of(node)}},
                      product_arguments(node), tile_count(node, 128, 128));
}

std::string_view half_device_objection(const Tensor&, const DeviceFacts& device) {
    return device.has_float16 ? "" : "the device has no arithmetic on half floats";
}

void record_gemm_half(const Tensor& node, Recorder& recorder) {
    recorder.run_rows({.shader = Shader::gemm_half,
                       .values = {type_of(node.src[0]), type_of(node.src[1]), vectors_of(node)}},
                      product_arguments(node), tile_count(node, 128, 64));
}

void record_gemm(const Tensor& node, Recorder& recorder) {
    recorder.run_rows({.shader = Shader::gemm,
                       .values = {type_of(node.src[0]), type_of(node.src[1]), 0, vectors_of(node)}},
                      product_arguments(node), tile_count(node, kTile, kTile));
}

// ---- experts -----------------------------------------------------------------------------------

std::string_view few_tokens(const Tensor& node, const DeviceFacts& device) {
    if (!device.has_cheap_barriers || node.ne[2] <= kMostColumns) return {};
    return "there are more tokens than a GEMV kernel has";
}

void record_gemv_id(const Tensor& node, Recorder& recorder) {
    const GemvShape shape(node, 1, recorder.device());
    recorder.run_rows(shape.work(node, 1, true), product_arguments(node),
                      quotient_up(node.ne[0], shape.per_group) * node.ne[1] * node.ne[2]);
}

/// Pairs of slot and token, and where each expert begins.
std::size_t groups_scratch(const Tensor& node, const DeviceFacts&) {
    return static_cast<std::size_t>(node.ne[1] * node.ne[2] + node.src[0]->ne[2] + 1) * 4;
}

/// Tiles are launched for as many columns as an expert can have; most end at once.
void record_gemm_id(const Tensor& node, Recorder& recorder) {
    const std::int64_t experts = node.src[0]->ne[2], pairs = node.ne[1] * node.ne[2];
    const std::int64_t across = quotient_up(node.ne[0], kTile), down = quotient_up(pairs, kTile);
    Arguments a = product_arguments(node);
    a.i[2] = static_cast<std::int32_t>(down);
    recorder.run_rows({.shader = Shader::group_by_expert}, a, experts);
    recorder.barrier();
    recorder.run_rows({.shader = Shader::gemm,
                       .values = {type_of(node.src[0]), type_of(node.src[1]), 1, vectors_of(node)}},
                      a, across * down * experts);
}

// ---- outer products ----------------------------------------------------------------------------

std::string_view out_prod_objection(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (!gpu::has_decoder(a.type)) return "the type of a has no decoder";
    if (b.type != GGML_TYPE_F32) return "b is not F32";
    if (node.type != GGML_TYPE_F32) return "the result is not F32";
    if (a.ne[0] > 0 && a.nb[0] != size_of(a.type)) return "rows of a are not dense";
    return {};
}

void record_out_prod(const Tensor& node, Recorder& recorder) {
    recorder.run_elements(
        {.shader = Shader::out_prod, .workgroup = 64, .values = {type_of(node.src[0])}},
        product_arguments(node), (node.ne[0] + 7) / 8 * node.ne[1] * node.ne[2] * node.ne[3]);
}

constexpr Kernel kKernels[] = {
    {"gemv", GGML_OP_MUL_MAT, product_objection, record_gemv, nullptr, few_columns},
    {"gemm_matrix", GGML_OP_MUL_MAT, matrix_objection, record_gemm_matrix, nullptr,
     matrix_device_objection},
    {"gemm_half", GGML_OP_MUL_MAT, matrix_objection, record_gemm_half, nullptr,
     half_device_objection},
    {"gemm_tiles", GGML_OP_MUL_MAT, product_objection, record_gemm},
    {"gemv_id", GGML_OP_MUL_MAT_ID, product_objection, record_gemv_id, nullptr, few_tokens},
    {"gemm_id_tiles", GGML_OP_MUL_MAT_ID, product_objection, record_gemm_id, groups_scratch},
    {"out_prod", GGML_OP_OUT_PROD, out_prod_objection, record_out_prod},
};

}  // namespace

std::string_view product_objection(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (const auto words = weights_objection(a); !words.empty()) return words;
    if (!gpu::is_float(b)) return "b is not F32, F16 or BF16";
    if (node.type != GGML_TYPE_F32) return "the result is not F32";
    if (node.op == GGML_OP_MUL_MAT_ID && node.src[2]->type != GGML_TYPE_I32) {
        return "ids are not I32";
    }
    return {};
}

std::span<const Kernel> product_kernels() { return kKernels; }

}  // namespace heddle::vulkan
