#pragma once

#include "ggml-impl.h"
#include "ggml/op_list.h"
#include "ggml/ops_train.h"
#include "ops/rules.hpp"

namespace heddle::ops {

/// A function of the caller's, how many threads call it, and what it is handed.
///
/// Laid out as the structs that plug-ins read it with, but with the gap between the members named:
/// parameters are compared as bytes.
template <class Function>
struct CustomParams {
    Function function = nullptr;
    std::int32_t n_tasks = GGML_N_TASKS_MAX;
    std::int32_t gap = 0;
    void* user_data = nullptr;
};
static_assert(sizeof(CustomParams<ggml_custom_op_t>) == sizeof(ggml_custom_op_params));
static_assert(offsetof(CustomParams<ggml_custom_op_t>, n_tasks) ==
              offsetof(ggml_custom_op_params, n_tasks));
static_assert(offsetof(CustomParams<ggml_custom_op_t>, user_data) ==
              offsetof(ggml_custom_op_params, userdata));

template <class Function>
struct CallersFunction {
    using Params = CustomParams<Function>;
    static constexpr std::array fields{ParamField{"function", 0, ParamField::Kind::pointer},
                                       ParamField{"n_tasks", 2},
                                       ParamField{"user_data", 4, ParamField::Kind::pointer}};
    static constexpr bool can_run_in_place = true;
    static constexpr unsigned may_be_empty = ~0u;

    static Result<> check_function(const Params& params) {
        if (params.function == nullptr) return invalid("the function is NULL");
        return ok();
    }
};

/// Calls a function that makes a tensor like a.
template <class Function>
struct MapCustom : CallersFunction<Function> {
    using Params = CustomParams<Function>;

    static Result<TensorSpec> infer(const Params& params, Sources src) {
        HEDDLE_TRY(CallersFunction<Function>::check_function(params));
        if (params.n_tasks != GGML_N_TASKS_MAX && params.n_tasks <= 0) {
            return invalid(params.n_tasks, " tasks, not at least 1 or ", GGML_N_TASKS_MAX,
                           " for one per thread");
        }
        return TensorSpec::like(src[0]);
    }
};

/// Whether `op` runs a function of the caller's, which may do anything to any of its operands.
constexpr bool runs_callers_function(Op op) {
    return op == GGML_OP_MAP_CUSTOM1 || op == GGML_OP_MAP_CUSTOM2 || op == GGML_OP_MAP_CUSTOM3 ||
           op == GGML_OP_CUSTOM;
}

struct MapCustom1 : MapCustom<ggml_custom1_op_t> {
    static constexpr Op id = GGML_OP_MAP_CUSTOM1;
    static constexpr std::string_view name = "MAP_CUSTOM1";
    static constexpr std::string_view symbol = "map_custom(x)";
    static constexpr std::string_view summary =
        "y, like a, as a function of the caller's makes it.";
    static constexpr std::array sources{"a"};
};

struct MapCustom2 : MapCustom<ggml_custom2_op_t> {
    static constexpr Op id = GGML_OP_MAP_CUSTOM2;
    static constexpr std::string_view name = "MAP_CUSTOM2";
    static constexpr std::string_view symbol = "map_custom(x,y)";
    static constexpr std::string_view summary =
        "y, like a, as a function of the caller's makes it of a and b.";
    static constexpr std::array sources{"a", "b"};
};

struct MapCustom3 : MapCustom<ggml_custom3_op_t> {
    static constexpr Op id = GGML_OP_MAP_CUSTOM3;
    static constexpr std::string_view name = "MAP_CUSTOM3";
    static constexpr std::string_view symbol = "map_custom(x,y,z)";
    static constexpr std::string_view summary =
        "y, like a, as a function of the caller's makes it of a, b and c.";
    static constexpr std::array sources{"a", "b", "c"};
};

/// In place, the operand that is written over stands in slot 0 and the others follow.
struct Custom : CallersFunction<ggml_custom_op_t> {
    static constexpr Op id = GGML_OP_CUSTOM;
    static constexpr std::string_view name = "CUSTOM";
    static constexpr std::string_view symbol = "custom(x)";
    static constexpr std::string_view summary =
        "A tensor of any type and extents, as a function of the caller's makes it of the operands.";
    static constexpr std::array sources{"x0?", "x1?", "x2?", "x3?", "x4?",
                                        "x5?", "x6?", "x7?", "x8?"};

    struct Args {
        Params params{};
        Type type = GGML_TYPE_F32;
        Extents extent{1, 1, 1, 1};
    };

    static Args recover(const Tensor& node) {
        return {.params = unpack<Params>(node), .type = node.type, .extent = extents_of(node)};
    }

    static Result<TensorSpec> infer(const Args& args, Sources) {
        HEDDLE_TRY(check_function(args.params));
        return TensorSpec::dense(args.type, args.extent);
    }
};

}  // namespace heddle::ops
