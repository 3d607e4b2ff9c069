#pragma once

#include "backends/gpu/conditions/common.hpp"
#include "ops/acc_set.hpp"
#include "ops/concat.hpp"
#include "ops/pad.hpp"
#include "ops/roll.hpp"
#include "ops/window.hpp"

/// What kernels of this family ask of a node, on every GPU.
namespace heddle::gpu::assemble {

inline std::string_view concat_objection(const Tensor& node) {
    if (node.src[0] == nullptr || node.src[1] == nullptr) return "an operand is missing";
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (a.type != node.type || b.type != node.type) return "types differ";
    const int dim = unpack<ops::Concat::Params>(node).dim;
    if (dim < 0 || dim >= kMaxDims) return "there is no such dimension";
    if (dim == 0 && a.ne[0] % block_size(a.type) != 0) return "operand 0 ends within a block";
    for (int d = 0; d < kMaxDims; ++d) {
        const bool fits = d == dim ? node.ne[d] == a.ne[d] + b.ne[d]
                                   : node.ne[d] == a.ne[d] && node.ne[d] == b.ne[d];
        if (!fits) return "shapes do not fit";
    }
    return {};
}

inline std::string_view repeat_objection(const Tensor& node) {
    if (node.src[0] == nullptr) return "the operand is missing";
    if (node.src[0]->type != node.type) return "types differ";
    return can_repeat(*node.src[0], node) ? "" : "the operand does not tile the result";
}

inline std::string_view repeat_back_objection(const Tensor& node) {
    if (const auto words = need_floats(node, 1); !words.empty()) return words;
    return can_repeat(node, *node.src[0]) ? "" : "the result does not tile the operand";
}

inline std::string_view pad_objection(const Tensor& node) {
    if (const auto words = need_floats(node, 1); !words.empty()) return words;
    const auto params = unpack<ops::Pad::Params>(node);
    for (std::size_t d = 0; d < kMaxDims; ++d) {
        const std::int64_t added = std::int64_t{params.amount[d].before} + params.amount[d].after;
        if (node.ne[d] != node.src[0]->ne[d] + added) return "shapes do not fit";
        if (params.circular != 0 && node.src[0]->ne[d] == 0) return "there is nothing to repeat";
    }
    return {};
}

inline std::string_view reflect_objection(const Tensor& node) {
    if (const auto words = need_floats(node, 1); !words.empty()) return words;
    const auto params = unpack<ops::PadReflect1d::Params>(node);
    const std::int64_t n = node.src[0]->ne[0];
    if (params.before < 0 || params.before >= n || params.after < 0 || params.after >= n ||
        node.ne[0] != n + params.before + params.after) {
        return "shapes do not fit";
    }
    return {};
}

inline std::string_view roll_objection(const Tensor& node) {
    if (const auto words = need_floats(node, 1); !words.empty()) return words;
    return same_shape(*node.src[0], node) ? "" : "shapes differ";
}

/// Whether the region lies within the result and is made of whole elements.
inline bool is_inside(const Tensor& node) {
    const auto params = unpack<ops::RegionOp::Params>(node);
    const Tensor& b = *node.src[1];
    if (heddle::is_empty(b)) return true;
    const auto element = static_cast<std::int64_t>(size_of(node.type));
    const auto size = static_cast<std::int64_t>(byte_size(node));
    const std::int32_t strides[] = {params.nb1, params.nb2, params.nb3};
    std::int64_t end = params.offset + b.ne[0] * element;
    if (params.offset < 0 || params.offset % element != 0 || end > size) return false;
    for (int d = 1; d < kMaxDims; ++d) {
        const std::int64_t stride = strides[d - 1];
        if (b.ne[d] == 1 || stride == 0) continue;
        if (stride < 0 || stride % element != 0 || b.ne[d] - 1 > (size - end) / stride) {
            return false;
        }
        end += (b.ne[d] - 1) * stride;
    }
    return true;
}

inline std::string_view region_objection(const Tensor& node) {
    if (node.src[0] == nullptr || node.src[1] == nullptr) return "an operand is missing";
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (a.type != node.type || b.type != node.type) return "a, b and the result differ in type";
    if (!same_shape(a, node)) return "the result does not have the extents of a";
    if (!is_contiguous(a) || !is_contiguous(node)) return "a or the result is not contiguous";
    return is_inside(node) ? "" : "the region is not made of elements of the result";
}

inline std::string_view set_objection(const Tensor& node) {
    if (node.type != GGML_TYPE_F32 && node.type != GGML_TYPE_I32) return "only F32 and I32";
    return region_objection(node);
}

inline std::string_view acc_objection(const Tensor& node) {
    return node.type == GGML_TYPE_F32 ? region_objection(node) : "only F32";
}

inline std::string_view window_objection(const Tensor& node) { return need_floats(node, 1); }

inline std::string_view win_part_objection(const Tensor& node) {
    const auto params = unpack<ops::WinPart::Params>(node);
    if (params.width < 1 || params.across < 1) return "windows are empty";
    return window_objection(node);
}

inline std::string_view win_unpart_objection(const Tensor& node) {
    if (const auto words = window_objection(node); !words.empty()) return words;
    const std::int64_t width = unpack<ops::WinUnpart::Params>(node).width;
    if (width < 1 || node.ne[3] != 1) return "windows are empty";
    const Tensor& x = *node.src[0];
    const std::int64_t across = (node.ne[1] + width - 1) / width;
    const std::int64_t down = (node.ne[2] + width - 1) / width;
    if (x.ne[1] < width || x.ne[2] < width || x.ne[3] < across * down) return "shapes do not fit";
    return {};
}

inline std::string_view get_rel_pos_objection(const Tensor& node) {
    if (const auto words = window_objection(node); !words.empty()) return words;
    if (node.src[0]->ne[1] < node.ne[1] + node.ne[2] - 1 || node.src[0]->ne[0] != node.ne[0]) {
        return "shapes do not fit";
    }
    return {};
}

inline std::string_view add_rel_pos_objection(const Tensor& node) {
    if (const auto words = need_f32(node, 3); !words.empty()) return words;
    if (const auto words = need_contiguous(node, 3); !words.empty()) return words;
    const std::int64_t n = node.src[1]->ne[0];
    if (!same_shape(*node.src[0], node) || !same_shape(*node.src[1], *node.src[2]) ||
        element_count(node) != n * n * row_count(*node.src[1])) {
        return "shapes do not fit";
    }
    return {};
}

}  // namespace heddle::gpu::assemble
