#include "backends/vulkan/fusion.hpp"

#include "backends/gpu/hazards.hpp"
#include "ggml/op_list.h"

namespace heddle::vulkan {
namespace {

gpu::Range range_of(const Tensor& tensor) {
    const auto begin = reinterpret_cast<std::uint64_t>(tensor.data);
    return {begin, begin + byte_size(tensor)};
}

bool has_same_place(const Tensor& a, const Tensor& b) {
    return a.data == b.data && std::equal(std::begin(a.nb), std::end(a.nb), std::begin(b.nb));
}

bool is_fused(const Step& norm, const Step& product, const Graph& graph) {
    if (norm.node->op != GGML_OP_RMS_NORM || product.node->op != GGML_OP_MUL) return false;
    if ((norm.node->flags & GGML_TENSOR_FLAG_OUTPUT) != 0) return false;
    if (use_count(graph, *norm.node) != 1) return false;
    return scaled_norm_objection(*norm.node, *product.node).empty();
}

}  // namespace

std::string_view scaled_norm_objection(const Tensor& norm, const Tensor& product) {
    const bool is_first = product.src[0] == &norm;
    if (!is_first && product.src[1] != &norm) return "the product does not read the norm";
    const Tensor &x = *norm.src[0], &factor = *product.src[is_first ? 1 : 0];
    if (&factor == &norm) return "the norm is squared";
    if (factor.type != GGML_TYPE_F32 || product.type != GGML_TYPE_F32) return "it is not F32";
    if (!same_shape(product, norm)) return "shapes differ";
    // Each element is read before it is written, if they lie in the same place.
    if (range_of(product).overlaps(range_of(x)) && !has_same_place(product, x)) {
        return "the result overlaps the operand";
    }
    if (range_of(product).overlaps(range_of(factor))) return "the result overlaps the factor";
    return {};
}

void fuse(std::vector<Step>& steps, const Graph& graph) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        Step step = steps[i];
        if (i + 1 < steps.size() && is_fused(step, steps[i + 1], graph)) {
            step.product = steps[i + 1].node;
            ++i;
        }
        steps[kept++] = step;
    }
    steps.resize(kept);
}

}  // namespace heddle::vulkan
