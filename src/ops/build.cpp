#include "ops/build.hpp"

#include <algorithm>

#include "ops/check.hpp"

namespace heddle {
namespace {

Result<> check_sources(const OpInfo& op, std::span<Tensor* const> src) {
    if (src.size() > op.sources.size()) {
        return invalid(lower_name(op), ": ", src.size(), " operands, at most ", op.sources.size());
    }
    for (std::size_t slot = 0; slot < op.sources.size(); ++slot) {
        if (slot < src.size() && src[slot] != nullptr) continue;
        if (!is_optional(op, slot)) return missing_operand(op, slot);
    }
    return ok();
}

Result<Tensor*> place_result(Context& context, const TensorSpec& spec, std::span<Tensor* const> src,
                             bool in_place) {
    if (in_place) return new_view(context, TensorSpec::view(*src[0], 0), *src[0], 0);
    if (spec.view_of >= 0) {
        return new_view(context, spec, *src[static_cast<std::size_t>(spec.view_of)],
                        spec.view_offset);
    }
    HEDDLE_TRY(check_extents(spec.type, spec.extent));
    return new_tensor(context, spec);
}

void name_result(const OpInfo& op, const TensorSpec& spec, std::span<Tensor* const> src,
                 bool in_place, Tensor& node) {
    if (op.name_result != nullptr && !in_place) {
        op.name_result(node, Sources(src));
    } else if (in_place || spec.view_of >= 0) {
        const auto slot = static_cast<std::size_t>(in_place ? 0 : spec.view_of);
        name_after(node, *src[slot], " (view)");
    }
}

}  // namespace

Result<Tensor*> build_node(Context& context, const OpInfo& op, const void* args, const void* params,
                           std::span<Tensor* const> src, bool in_place) {
    HEDDLE_TRY(check_sources(op, src));
    auto spec = op.infer(args, Sources(src));
    if (!spec) return std::move(spec).error().within(lower_name(op));
    if (in_place && (spec->type != src[0]->type || spec->extent != extents_of(*src[0]))) {
        return invalid(lower_name(op), ": the result ", name_of(spec->type), describe(spec->extent),
                       " cannot be stored in ", describe(*src[0]));
    }
    auto node = place_result(context, *spec, src, in_place);
    if (!node) return std::move(node).error().within(lower_name(op));
    (*node)->op = op.id;
    if (op.param_bytes > 0) set_params(**node, params, op.param_bytes);
    std::copy(src.begin(), src.end(), (*node)->src);
    name_result(op, *spec, src, in_place, **node);
    return *node;
}

}  // namespace heddle
