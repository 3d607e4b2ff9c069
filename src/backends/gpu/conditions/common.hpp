#pragma once

#include <string_view>

#include "core/tensor.hpp"
#include "ops/descriptor.hpp"
#include "quant/codec.hpp"

/// Objections that many kernels share, whatever the GPU is.
namespace heddle::gpu {

inline bool is_float(const Tensor& tensor) {
    return tensor.type == GGML_TYPE_F32 || tensor.type == GGML_TYPE_F16 ||
           tensor.type == GGML_TYPE_BF16;
}

/// Why operands 0 to `count - 1` and the result are not all F32; empty if they are.
inline std::string_view need_f32(const Tensor& node, int count) {
    if (node.type != GGML_TYPE_F32) return "the result is not F32";
    for (int i = 0; i < count; ++i) {
        if (node.src[i] == nullptr) return "an operand is missing";
        if (node.src[i]->type != GGML_TYPE_F32) return "an operand is not F32";
    }
    return {};
}

/// Why operands 0 to `count - 1` and the result are not all plain floats; empty if they are.
inline std::string_view need_floats(const Tensor& node, int count) {
    if (!is_float(node)) return "the result is not F32, F16 or BF16";
    for (int i = 0; i < count; ++i) {
        if (node.src[i] == nullptr) return "an operand is missing";
        if (!is_float(*node.src[i])) return "an operand is not F32, F16 or BF16";
    }
    return {};
}

inline std::string_view need_contiguous(const Tensor& node, int count) {
    if (!is_contiguous(node)) return "the result is not contiguous";
    for (int i = 0; i < count; ++i) {
        if (node.src[i] != nullptr && !is_contiguous(*node.src[i])) {
            return "an operand is not contiguous";
        }
    }
    return {};
}

/// The first of two objections.
inline std::string_view either(std::string_view first, std::string_view second) {
    return first.empty() ? second : first;
}

/// Whether kernels can decode the type.
inline bool has_decoder(Type type) {
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 ||
           (block_size(type) > 1 && quant::codec_of(type) != nullptr);
}

/// Whether kernels can encode the type: those that caches and copies are written in.
inline bool has_encoder(Type type) {
    switch (type) {
        case GGML_TYPE_Q4_0:
        case GGML_TYPE_Q4_1:
        case GGML_TYPE_Q5_0:
        case GGML_TYPE_Q5_1:
        case GGML_TYPE_Q8_0:
        case GGML_TYPE_IQ4_NL:
        case GGML_TYPE_MXFP4:
            return true;
        default:
            return false;
    }
}

}  // namespace heddle::gpu
