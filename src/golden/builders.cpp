#include <array>

#include "ggml/ops.h"
#include "golden/binding.hpp"

// Some builders are deprecated; they are recorded like the others.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace heddle::golden {
namespace {

/// `ggml_new_tensor(f32, [4,3])`: the C function wants the number of dimensions besides.
Result<Value> new_leaf(Context& context, std::span<const Value> given) {
    const auto* type = given.size() == 2 ? std::get_if<Type>(&given[0]) : nullptr;
    const auto* extents = given.size() == 2 ? std::get_if<IntegerList>(&given[1]) : nullptr;
    if (type == nullptr || extents == nullptr) {
        return failure(Errc::corrupt, "wants a type and a list of extents");
    }
    Tensor* leaf =
        ggml_new_tensor(&context, *type, static_cast<int>(extents->size()), extents->data());
    return Value{leaf};
}

// clang-format off
const Builder kBuilders[] = {
    {"ggml_new_tensor", {new_leaf, {Parameter::type, Parameter::list}}},
    {"ggml_view_tensor", bind(ggml_view_tensor)},
    {"ggml_set_input", bind(ggml_set_input)},
    {"ggml_set_output", bind(ggml_set_output)},
    {"ggml_set_param", bind(ggml_set_param)},
    {"ggml_set_loss", bind(ggml_set_loss)},
    {"ggml_build_forward_expand", bind(ggml_build_forward_expand)},
    {"ggml_build_backward_expand", bind(ggml_build_backward_expand)},
    {"ggml_graph_get_grad", bind(ggml_graph_get_grad)},
    {"ggml_new_graph_custom", bind(ggml_new_graph_custom)},
#include "golden/builders_of_ops.inc"  // every function of ggml/ops_*.h, listed by the build
};
// clang-format on

}  // namespace

std::span<const Builder> all_builders() { return kBuilders; }

}  // namespace heddle::golden
