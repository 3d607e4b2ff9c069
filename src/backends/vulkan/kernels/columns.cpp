// MUL_MAT of a single column in bytes, alone or with its neighbours.

#include <limits>

#include "backends/vulkan/kernels/common.hpp"
#include "backends/vulkan/kernels/products.hpp"
#include "backends/vulkan/step.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_nn.h"
#include "ops/glu.hpp"
#include "ops/matmul.hpp"
#include "ops/norm.hpp"

namespace heddle::vulkan {
namespace {

std::string_view objection(const Tensor& node) {
    if (const auto words = product_objection(node); !words.empty()) return words;
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (a.type != GGML_TYPE_Q4_0 && a.type != GGML_TYPE_Q8_0) return "weights are not Q4_0 or Q8_0";
    if (b.type != GGML_TYPE_F32) return "b is not F32";
    if (node.ne[1] * node.ne[2] * node.ne[3] != 1) return "there are several columns";
    if (a.ne[0] % 64 != 0 || a.nb[1] % 4 != 0) return "rows are no pairs of blocks";
    const auto is_odd = [](const Tensor& t) {
        return t.view_offs % 16 != 0 || reinterpret_cast<std::uintptr_t>(t.data) % 16 != 0;
    };
    if (is_odd(a) || is_odd(b)) return "an operand does not begin at a multiple of 16 bytes";
    if (!is_contiguous(b) || !is_contiguous(node)) return "b or the result is not contiguous";
    if (unpack<ops::MulMat::Params>(node).precision == GGML_PREC_F32) return "F32 is asked for";
    return {};
}

std::string_view device_objection(const Tensor& node, const DeviceFacts& device) {
    if (!device.has_integer_dot) return "the device has no products of bytes";
    if (device.subgroup < 8) return "subgroups have less than 8 lanes";
    // A byte for each element, a scale and a sum for every 32; sums over the workgroup.
    const std::int64_t shared = node.src[0]->ne[0] + node.src[0]->ne[0] / 4 + 1024;
    if (shared > std::int64_t{device.shared_memory}) return "the column is too long";
    return {};
}

/// What is made of the products, as shaders/gemv_int8.comp has it; from 0 on it is the GLU's
/// function.
enum End : std::int32_t { nothing = -1, addition = -2 };

void record(const Tensor& node, Recorder& recorder) {
    record_columns({.products = {&node}, .count = 1}, recorder);
}

constexpr Kernel kKernels[] = {
    {"gemv_int8", GGML_OP_MUL_MAT, objection, record, nullptr, device_objection},
};

/// How rows of the products are dealt out over workgroups, as was fastest on an H200: a lane reads
/// four blocks at a time. Long columns take long to round, so that larger workgroups do it.
struct Deal {
    int workgroup = 256;
    std::int64_t rows = 1, chunk = 1;  ///< rows of a subgroup, blocks of each for a lane
    std::int64_t per_group;
    std::array<std::int64_t, 3> groups{};  ///< of each product

    Deal(const ColumnGroup& group, const DeviceFacts& device) {
        const std::int64_t depth = group.first().src[0]->ne[0];
        const bool is_gated = group.gate != nullptr;
        if (depth > 8192 && device.workgroup >= 512) workgroup = 512, rows = is_gated ? 1 : 2;
        const std::int64_t lanes = device.subgroup, subgroups = workgroup / lanes;
        std::int64_t all = 0;
        for (int i = 0; i < (is_gated ? 1 : group.count); ++i) all += rows_of(group, i);
        while (chunk * rows * (is_gated ? 2 : 1) < 4 && 2 * chunk * lanes * 32 <= depth) chunk *= 2;
        per_group = rows * subgroups;
        // Rounding once for twice as many rows pays off where enough workgroups are left.
        if (rows == 1 && 2 * all >= 3 * 2 * per_group * std::int64_t{device.units}) per_group *= 2;
        for (int i = 0; i < (is_gated ? 1 : group.count); ++i) {
            groups[static_cast<std::size_t>(i)] = quotient_up(rows_of(group, i), per_group);
        }
    }

    static std::int64_t rows_of(const ColumnGroup& group, int i) {
        return group.products[static_cast<std::size_t>(i)]->ne[0];
    }
};

}  // namespace

bool is_column_kernel(const Kernel* kernel) { return kernel == &kKernels[0]; }

void record_columns(const ColumnGroup& group, Recorder& recorder) {
    const Tensor& weights = *group.first().src[0];
    const Deal deal(group, recorder.device());
    Arguments a;
    a.src[0] = operand(&weights);
    a.src[1] = operand(&group.activations());
    a.y = operand(&group.first());
    std::int32_t end = nothing;
    if (group.norm != nullptr) {
        a.src[2] = operand(&ScaledNorm{group.norm, group.scale}.weights());
        a.f[0] = unpack<ops::RmsNorm::Params>(*group.norm).eps;
    }
    if (group.count > 1) a.src[3] = operand(group.products[1]->src[0]);
    if (group.gate != nullptr) {
        const auto params = unpack<ops::Glu::Params>(*group.gate);
        end = params.function;
        a.f[1] = params.alpha, a.f[2] = params.limit;
        a.y = operand(group.gate);
    } else if (group.sum != nullptr) {
        end = addition;
        a.src[3] = operand(&group.addend());
        a.y = operand(group.sum);
    } else if (group.count > 1) {
        a.src[4] = operand(group.products[1]);
        if (group.count > 2) {
            a.src[5] = operand(group.products[2]->src[0]);
            a.src[6] = operand(group.products[2]);
        }
    }
    a.i[0] = static_cast<std::int32_t>(deal.groups[0]);
    a.i[1] = static_cast<std::int32_t>(deal.groups[0] + deal.groups[1]);
    recorder.run_rows(
        {.shader = Shader::gemv_int8,
         .workgroup = deal.workgroup,
         .values = {type_of(&weights), static_cast<std::int32_t>(weights.ne[0]),
                    static_cast<std::int32_t>(deal.rows), static_cast<std::int32_t>(deal.per_group),
                    group.norm != nullptr ? 1 : 0, end, static_cast<std::int32_t>(deal.chunk)}},
        a, deal.groups[0] + deal.groups[1] + deal.groups[2]);
}

std::span<const Kernel> column_kernels() { return kKernels; }

}  // namespace heddle::vulkan
