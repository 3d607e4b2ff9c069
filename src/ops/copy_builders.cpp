#include "ops/copy_builders.hpp"

#include "ops/build.hpp"
#include "ops/repeat.hpp"
#include "ops/rows.hpp"
#include "ops/view_builders.hpp"

namespace heddle {
namespace {

Result<Extents> extents_lent_by(const Tensor* shape, std::string_view op) {
    if (shape == nullptr) return invalid(op, ": the tensor that lends its shape is missing");
    return extents_of(*shape);
}

}  // namespace

Result<Tensor*> cast(Context& context, Tensor* x, Type type) {
    if (x == nullptr) return invalid("cast: operand x is missing");
    const TensorSpec spec = TensorSpec::dense(type, extents_of(*x));
    if (auto checked = check_extents(type, spec.extent); !checked) {
        return std::move(checked).error().within("cast");
    }
    auto node = new_tensor(context, spec);
    if (!node) return std::move(node).error().within("cast");
    (*node)->op = ops::Cpy::id;
    (*node)->src[0] = x;
    (*node)->src[1] = *node;
    name_after(**node, *x, " (copy)");
    return *node;
}

Result<Tensor*> cont_nd(Context& context, Tensor* x, std::initializer_list<std::int64_t> extents) {
    auto full = full_extents(extents);
    if (!full) return std::move(full).error().within("cont");
    return build<ops::Cont>(context, {.params = {}, .extent = *full}, {x});
}

Result<Tensor*> repeat_like(Context& context, Tensor* x, const Tensor* shape) {
    HEDDLE_TRY_ASSIGN(const Extents extent, extents_lent_by(shape, "repeat"));
    if (x != nullptr && is_empty(*x) && !is_empty(*shape)) {
        return invalid("repeat: ", describe(*x), " is empty and cannot fill ", describe(*shape));
    }
    return build<ops::Repeat>(context, {.params = {}, .extent = extent}, {x});
}

Result<Tensor*> repeat_back_like(Context& context, Tensor* x, const Tensor* shape) {
    HEDDLE_TRY_ASSIGN(const Extents extent, extents_lent_by(shape, "repeat_back"));
    return build<ops::RepeatBack>(context, {.params = {}, .extent = extent}, {x});
}

Result<Tensor*> get_rows_back_like(Context& context, Tensor* x, Tensor* rows, const Tensor* shape) {
    HEDDLE_TRY_ASSIGN(const Extents extent, extents_lent_by(shape, "get_rows_back"));
    return build<ops::GetRowsBack>(context, {.params = {}, .extent = extent}, {x, rows});
}

}  // namespace heddle
