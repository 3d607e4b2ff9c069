/// Operations as values: their names, and the functions that some of them apply.
///
/// Included by `ggml.h`; programs include that one.
#pragma once

#include "base.h"

#ifndef __cplusplus
#include "op_list.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct ggml_tensor;

#ifdef __cplusplus
/// How a tensor is computed. Most code hands operations on and names none, so it need not see
/// `op_list.h`, nor be compiled again when the list grows. C has no such declarations.
enum ggml_op GGML_ENUM_INT;
#endif

/// Functions of one number, for GGML_OP_UNARY.
enum ggml_unary_op GGML_ENUM_INT {
    GGML_UNARY_OP_ABS = 0,           ///< |x|.
    GGML_UNARY_OP_SGN = 1,           ///< -1, 0 or 1.
    GGML_UNARY_OP_NEG = 2,           ///< -x.
    GGML_UNARY_OP_STEP = 3,          ///< 1 where x > 0, else 0.
    GGML_UNARY_OP_TANH = 4,          ///< Hyperbolic tangent.
    GGML_UNARY_OP_ELU = 5,           ///< x where x > 0, else e^x - 1.
    GGML_UNARY_OP_RELU = 6,          ///< max(x, 0).
    GGML_UNARY_OP_SIGMOID = 7,       ///< 1 / (1 + e^-x).
    GGML_UNARY_OP_GELU = 8,          ///< x * normal distribution of x, by tanh.
    GGML_UNARY_OP_GELU_QUICK = 9,    ///< x * sigmoid(1.702 * x).
    GGML_UNARY_OP_SILU = 10,         ///< x * sigmoid(x).
    GGML_UNARY_OP_HARDSWISH = 11,    ///< x * hardsigmoid(x).
    GGML_UNARY_OP_HARDSIGMOID = 12,  ///< (x + 3) / 6 limited to 0..1.
    GGML_UNARY_OP_EXP = 13,          ///< e^x.
    GGML_UNARY_OP_EXPM1 = 14,        ///< e^x - 1.
    GGML_UNARY_OP_SOFTPLUS = 15,     ///< ln(1 + e^x).
    GGML_UNARY_OP_GELU_ERF = 16,     ///< x * normal distribution of x, exactly.
    GGML_UNARY_OP_XIELU = 17,        ///< See ggml_xielu().
    GGML_UNARY_OP_FLOOR = 18,        ///< Next integer below.
    GGML_UNARY_OP_CEIL = 19,         ///< Next integer above.
    GGML_UNARY_OP_ROUND = 20,        ///< Nearest integer, halves away from zero.
    GGML_UNARY_OP_TRUNC = 21,        ///< Next integer towards zero.
    GGML_UNARY_OP_COUNT = 22,        ///< Number of functions.
};

/// Gated units, for GGML_OP_GLU: an activation of x times a linear factor g.
enum ggml_glu_op GGML_ENUM_INT {
    GGML_GLU_OP_REGLU = 0,        ///< relu(x) * g.
    GGML_GLU_OP_GEGLU = 1,        ///< gelu(x) * g.
    GGML_GLU_OP_SWIGLU = 2,       ///< silu(x) * g.
    GGML_GLU_OP_SWIGLU_OAI = 3,   ///< See ggml_swiglu_oai().
    GGML_GLU_OP_GEGLU_ERF = 4,    ///< gelu_erf(x) * g.
    GGML_GLU_OP_GEGLU_QUICK = 5,  ///< gelu_quick(x) * g.
    GGML_GLU_OP_COUNT = 6,        ///< Number of functions.
};

/// Name of an operation in capitals, such as "MUL_MAT". Static.
GGML_API const char* ggml_op_name(enum ggml_op op);

/// The operation as a formula, such as "x+y". Static.
GGML_API const char* ggml_op_symbol(enum ggml_op op);

/// Name of a unary function in capitals, such as "RELU". Static.
GGML_API const char* ggml_unary_op_name(enum ggml_unary_op op);

/// Name of a gated unit in capitals, such as "SWIGLU". Static.
GGML_API const char* ggml_glu_op_name(enum ggml_glu_op op);

/// The name that says most about `t`: of its unary function or gated unit, else of its operation.
GGML_API const char* ggml_op_desc(const struct ggml_tensor* t);

#ifdef __cplusplus
}
#endif
