// Builders of the ops that make values, resize images or call the caller back.

#include <vector>

#include "capi/boundary.hpp"
#include "ggml.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_train.h"
#include "ops/custom.hpp"
#include "ops/generate.hpp"
#include "ops/triangle.hpp"
#include "ops/upscale.hpp"

using namespace heddle;
using capi::node;
using capi::node_in_place;

// ---- values ------------------------------------------------------------------------------------

ggml_tensor* ggml_arange(ggml_context* ctx, float start, float stop, float step) {
    return node<ops::Arange>(ctx, {.start = start, .stop = stop, .step = step}, {});
}
ggml_tensor* ggml_timestep_embedding(ggml_context* ctx, ggml_tensor* timesteps, int dim,
                                     int max_period) {
    return node<ops::TimestepEmbedding>(ctx, {.dim = dim, .max_period = max_period}, {timesteps});
}
ggml_tensor* ggml_fill(ggml_context* ctx, ggml_tensor* a, float c) {
    return node<ops::Fill>(ctx, {c}, {a});
}
ggml_tensor* ggml_fill_inplace(ggml_context* ctx, ggml_tensor* a, float c) {
    return node_in_place<ops::Fill>(ctx, {c}, {a});
}
ggml_tensor* ggml_diag(ggml_context* ctx, ggml_tensor* a) { return node<ops::Diag>(ctx, {}, {a}); }
ggml_tensor* ggml_tri(ggml_context* ctx, ggml_tensor* a, ggml_tri_type type) {
    return node<ops::Tri>(ctx, {static_cast<std::int32_t>(type)}, {a});
}

// ---- images ------------------------------------------------------------------------------------

ggml_tensor* ggml_upscale(ggml_context* ctx, ggml_tensor* a, int scale_factor,
                          ggml_scale_mode mode) {
    return capi::made([&]() -> Result<Tensor*> {
        HEDDLE_TRY(capi::require(ctx, "upscale", "the context"));
        HEDDLE_TRY(capi::require(a, "upscale", "operand x"));
        HEDDLE_TRY_ASSIGN(const auto args, ops::Upscale::by_factor(
                                               *a, scale_factor, static_cast<std::int32_t>(mode)));
        return build<ops::Upscale>(*ctx, args, {a});
    });
}
ggml_tensor* ggml_interpolate(ggml_context* ctx, ggml_tensor* a, int64_t ne0, int64_t ne1,
                              int64_t ne2, int64_t ne3, uint32_t mode) {
    return node<ops::Upscale>(
        ctx, {.params = {static_cast<std::int32_t>(mode)}, .extent = {ne0, ne1, ne2, ne3}}, {a});
}
ggml_tensor* ggml_upscale_ext(ggml_context* ctx, ggml_tensor* a, int ne0, int ne1, int ne2, int ne3,
                              ggml_scale_mode mode) {
    return ggml_interpolate(ctx, a, ne0, ne1, ne2, ne3, static_cast<uint32_t>(mode));
}

// ---- functions of the caller's -----------------------------------------------------------------

ggml_tensor* ggml_map_custom1(ggml_context* ctx, ggml_tensor* a, ggml_custom1_op_t fun, int n_tasks,
                              void* userdata) {
    return node<ops::MapCustom1>(ctx, {.function = fun, .n_tasks = n_tasks, .user_data = userdata},
                                 {a});
}
ggml_tensor* ggml_map_custom1_inplace(ggml_context* ctx, ggml_tensor* a, ggml_custom1_op_t fun,
                                      int n_tasks, void* userdata) {
    return node_in_place<ops::MapCustom1>(
        ctx, {.function = fun, .n_tasks = n_tasks, .user_data = userdata}, {a});
}
ggml_tensor* ggml_map_custom2(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b,
                              ggml_custom2_op_t fun, int n_tasks, void* userdata) {
    return node<ops::MapCustom2>(ctx, {.function = fun, .n_tasks = n_tasks, .user_data = userdata},
                                 {a, b});
}
ggml_tensor* ggml_map_custom2_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b,
                                      ggml_custom2_op_t fun, int n_tasks, void* userdata) {
    return node_in_place<ops::MapCustom2>(
        ctx, {.function = fun, .n_tasks = n_tasks, .user_data = userdata}, {a, b});
}
ggml_tensor* ggml_map_custom3(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, ggml_tensor* c,
                              ggml_custom3_op_t fun, int n_tasks, void* userdata) {
    return node<ops::MapCustom3>(ctx, {.function = fun, .n_tasks = n_tasks, .user_data = userdata},
                                 {a, b, c});
}
ggml_tensor* ggml_map_custom3_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b,
                                      ggml_tensor* c, ggml_custom3_op_t fun, int n_tasks,
                                      void* userdata) {
    return node_in_place<ops::MapCustom3>(
        ctx, {.function = fun, .n_tasks = n_tasks, .user_data = userdata}, {a, b, c});
}

namespace {

/// `first`, if the node works in place, then those of the caller's array.
Result<std::vector<Tensor*>> custom_operands(Tensor* first, Tensor* const* args, int n_args) {
    std::vector<Tensor*> operands;
    if (first != nullptr) operands.push_back(first);
    const std::size_t room = ops::Custom::sources.size() - operands.size();
    if (n_args < 0 || static_cast<std::size_t>(n_args) > room) {
        return invalid("custom: ", n_args, " operands, not 0 to ", room);
    }
    if (n_args > 0) {
        HEDDLE_TRY(capi::require(args, "custom", "the array of operands"));
        operands.insert(operands.end(), args, args + n_args);
    }
    return operands;
}

}  // namespace

ggml_tensor* ggml_custom_4d(ggml_context* ctx, ggml_type type, int64_t ne0, int64_t ne1,
                            int64_t ne2, int64_t ne3, ggml_tensor** args, int n_args,
                            ggml_custom_op_t fun, int n_tasks, void* userdata) {
    return capi::made([&]() -> Result<Tensor*> {
        HEDDLE_TRY(capi::require(ctx, "custom", "the context"));
        HEDDLE_TRY_ASSIGN(const auto operands, custom_operands(nullptr, args, n_args));
        const ops::Custom::Args given{
            .params = {.function = fun, .n_tasks = n_tasks, .user_data = userdata},
            .type = type,
            .extent = {ne0, ne1, ne2, ne3}};
        return build_node(*ctx, kOpInfo<ops::Custom>, &given, &given.params, operands, false);
    });
}
ggml_tensor* ggml_custom_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor** args, int n_args,
                                 ggml_custom_op_t fun, int n_tasks, void* userdata) {
    return capi::made([&]() -> Result<Tensor*> {
        HEDDLE_TRY(capi::require(ctx, "custom", "the context"));
        HEDDLE_TRY(capi::require(a, "custom", "operand x0"));
        HEDDLE_TRY_ASSIGN(const auto operands, custom_operands(a, args, n_args));
        const ops::Custom::Args given{
            .params = {.function = fun, .n_tasks = n_tasks, .user_data = userdata},
            .type = a->type,
            .extent = extents_of(*a)};
        return build_node(*ctx, kOpInfo<ops::Custom>, &given, &given.params, operands, true);
    });
}
