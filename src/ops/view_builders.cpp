#include "ops/view_builders.hpp"

#include <algorithm>

#include "ops/build.hpp"

namespace heddle {

Result<Extents> full_extents(std::initializer_list<std::int64_t> extents) {
    if (extents.size() == 0 || extents.size() > kMaxDims) {
        return invalid(extents.size(), " dimensions, not 1 to ", kMaxDims);
    }
    Extents full{1, 1, 1, 1};
    std::copy(extents.begin(), extents.end(), full.begin());
    return full;
}

Result<Tensor*> reshape_nd(Context& context, Tensor* x,
                           std::initializer_list<std::int64_t> extents) {
    auto full = full_extents(extents);
    if (!full) return std::move(full).error().within("reshape");
    return build<ops::Reshape>(context, {.params = {}, .extent = *full}, {x});
}

Result<Tensor*> reshape_like(Context& context, Tensor* x, const Tensor* shape) {
    if (shape == nullptr) return invalid("reshape: the tensor that lends its shape is missing");
    return build<ops::Reshape>(context, {.params = {}, .extent = extents_of(*shape)}, {x});
}

Result<Tensor*> view_nd(Context& context, Tensor* x, std::initializer_list<std::int64_t> extents,
                        std::initializer_list<std::size_t> strides, std::size_t offset) {
    auto full = full_extents(extents);
    if (!full) return std::move(full).error().within("view");
    return build<ops::View>(
        context, {.params = {offset}, .extent = *full, .stride = {strides.begin(), strides.size()}},
        {x});
}

}  // namespace heddle
