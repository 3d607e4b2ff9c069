/// The list of operations that tensors can be computed with.
///
/// Included by `ggml.h`; programs include that one.
#pragma once

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// How a tensor is computed from its operands. The functions that build such tensors say more.
enum ggml_op GGML_ENUM_INT {
    GGML_OP_NONE = 0,                      ///< Given data: inputs, weights, constants.
    GGML_OP_DUP = 1,                       ///< Copy.
    GGML_OP_ADD = 2,                       ///< a + b.
    GGML_OP_ADD_ID = 3,                    ///< Add a row chosen by index.
    GGML_OP_ADD1 = 4,                      ///< Add a scalar.
    GGML_OP_ACC = 5,                       ///< Add into a region.
    GGML_OP_SUB = 6,                       ///< a - b.
    GGML_OP_MUL = 7,                       ///< a * b.
    GGML_OP_DIV = 8,                       ///< a / b.
    GGML_OP_SQR = 9,                       ///< x * x.
    GGML_OP_SQRT = 10,                     ///< Square root.
    GGML_OP_LOG = 11,                      ///< Natural logarithm.
    GGML_OP_SIN = 12,                      ///< Sine.
    GGML_OP_COS = 13,                      ///< Cosine.
    GGML_OP_SUM = 14,                      ///< Sum of all elements.
    GGML_OP_SUM_ROWS = 15,                 ///< Sum of each row.
    GGML_OP_CUMSUM = 16,                   ///< Running sum along each row.
    GGML_OP_MEAN = 17,                     ///< Mean of each row.
    GGML_OP_ARGMAX = 18,                   ///< Index of the largest element of each row.
    GGML_OP_COUNT_EQUAL = 19,              ///< Number of equal elements.
    GGML_OP_REPEAT = 20,                   ///< Tile.
    GGML_OP_REPEAT_BACK = 21,              ///< Gradient of REPEAT.
    GGML_OP_CONCAT = 22,                   ///< Join two tensors.
    GGML_OP_SILU_BACK = 23,                ///< Gradient of SILU.
    GGML_OP_NORM = 24,                     ///< Layer normalisation.
    GGML_OP_RMS_NORM = 25,                 ///< Root-mean-square normalisation.
    GGML_OP_RMS_NORM_BACK = 26,            ///< Gradient of RMS_NORM.
    GGML_OP_GROUP_NORM = 27,               ///< Normalisation of groups of channels.
    GGML_OP_L2_NORM = 28,                  ///< Normalisation to length 1.
    GGML_OP_MUL_MAT = 29,                  ///< Matrix product.
    GGML_OP_MUL_MAT_ID = 30,               ///< Matrix product with matrices chosen by index.
    GGML_OP_OUT_PROD = 31,                 ///< Sum of outer products.
    GGML_OP_SCALE = 32,                    ///< s * a + b.
    GGML_OP_SET = 33,                      ///< Write into a region.
    GGML_OP_CPY = 34,                      ///< Copy with conversion.
    GGML_OP_CONT = 35,                     ///< Make dense.
    GGML_OP_RESHAPE = 36,                  ///< Other extents, same data.
    GGML_OP_VIEW = 37,                     ///< Part of a tensor.
    GGML_OP_PERMUTE = 38,                  ///< Reorder dimensions.
    GGML_OP_TRANSPOSE = 39,                ///< Swap dimensions 0 and 1.
    GGML_OP_GET_ROWS = 40,                 ///< Gather rows.
    GGML_OP_GET_ROWS_BACK = 41,            ///< Gradient of GET_ROWS.
    GGML_OP_SET_ROWS = 42,                 ///< Scatter rows.
    GGML_OP_DIAG = 43,                     ///< Vector to diagonal matrix.
    GGML_OP_DIAG_MASK_INF = 44,            ///< -infinity above the diagonal.
    GGML_OP_DIAG_MASK_ZERO = 45,           ///< Zero above the diagonal.
    GGML_OP_SOFT_MAX = 46,                 ///< Soft-max of each row.
    GGML_OP_SOFT_MAX_BACK = 47,            ///< Gradient of SOFT_MAX.
    GGML_OP_ROPE = 48,                     ///< Rotary position embedding.
    GGML_OP_ROPE_BACK = 49,                ///< Its inverse rotation.
    GGML_OP_CLAMP = 50,                    ///< Limit to a range.
    GGML_OP_CONV_TRANSPOSE_1D = 51,        ///< Transposed convolution of a signal.
    GGML_OP_IM2COL = 52,                   ///< Patches to columns.
    GGML_OP_IM2COL_BACK = 53,              ///< Gradient of IM2COL.
    GGML_OP_IM2COL_3D = 54,                ///< Patches of a volume to columns.
    GGML_OP_COL2IM_1D = 55,                ///< Columns added up to a signal.
    GGML_OP_CONV_2D = 56,                  ///< Convolution of images.
    GGML_OP_CONV_3D = 57,                  ///< Convolution of volumes.
    GGML_OP_CONV_2D_DW = 58,               ///< Convolution of images, channel by channel.
    GGML_OP_CONV_TRANSPOSE_2D = 59,        ///< Transposed convolution of images.
    GGML_OP_POOL_1D = 60,                  ///< Pooling of a signal.
    GGML_OP_POOL_2D = 61,                  ///< Pooling of images.
    GGML_OP_POOL_2D_BACK = 62,             ///< Gradient of POOL_2D.
    GGML_OP_UPSCALE = 63,                  ///< Resize images.
    GGML_OP_PAD = 64,                      ///< Pad with zeros or around.
    GGML_OP_PAD_REFLECT_1D = 65,           ///< Pad by reflection.
    GGML_OP_ROLL = 66,                     ///< Shift around.
    GGML_OP_ARANGE = 67,                   ///< Evenly spaced numbers.
    GGML_OP_TIMESTEP_EMBEDDING = 68,       ///< Sinusoidal embedding.
    GGML_OP_ARGSORT = 69,                  ///< Sorting order of each row.
    GGML_OP_TOP_K = 70,                    ///< Indices of the largest elements of each row.
    GGML_OP_LEAKY_RELU = 71,               ///< Max(x, 0) + slope * min(x, 0).
    GGML_OP_TRI = 72,                      ///< Triangular part of a matrix.
    GGML_OP_FILL = 73,                     ///< a constant everywhere.
    GGML_OP_FLASH_ATTN_EXT = 74,           ///< Attention in one step.
    GGML_OP_FLASH_ATTN_BACK = 75,          ///< Reserved: no builder makes it.
    GGML_OP_SSM_CONV = 76,                 ///< Causal convolution of state-space models.
    GGML_OP_SSM_SCAN = 77,                 ///< Selective scan of state-space models.
    GGML_OP_WIN_PART = 78,                 ///< Cut into windows.
    GGML_OP_WIN_UNPART = 79,               ///< Put windows together.
    GGML_OP_GET_REL_POS = 80,              ///< Table of relative positions.
    GGML_OP_ADD_REL_POS = 81,              ///< Add relative positions.
    GGML_OP_RWKV_WKV6 = 82,                ///< Recurrence of RWKV 6.
    GGML_OP_GATED_LINEAR_ATTN = 83,        ///< Gated linear attention.
    GGML_OP_RWKV_WKV7 = 84,                ///< Recurrence of RWKV 7.
    GGML_OP_SOLVE_TRI = 85,                ///< Solve a triangular system.
    GGML_OP_GATED_DELTA_NET = 86,          ///< Gated delta rule.
    GGML_OP_LIGHTNING_INDEXER = 87,        ///< Scores of a sparse-attention indexer.
    GGML_OP_DSV4_HC_COMB = 88,             ///< Hyper-connections: mixing matrix.
    GGML_OP_DSV4_HC_PRE = 89,              ///< Hyper-connections: weighted sum of streams.
    GGML_OP_DSV4_HC_POST = 90,             ///< Hyper-connections: update of streams.
    GGML_OP_UNARY = 91,                    ///< a function of ggml_unary_op.
    GGML_OP_MAP_CUSTOM1 = 92,              ///< The program's function of one tensor.
    GGML_OP_MAP_CUSTOM2 = 93,              ///< The program's function of two tensors.
    GGML_OP_MAP_CUSTOM3 = 94,              ///< The program's function of three tensors.
    GGML_OP_CUSTOM = 95,                   ///< The program's function of any tensors.
    GGML_OP_CROSS_ENTROPY_LOSS = 96,       ///< Cross entropy, mean over rows.
    GGML_OP_CROSS_ENTROPY_LOSS_BACK = 97,  ///< Its gradient.
    GGML_OP_OPT_STEP_ADAMW = 98,           ///< a step of AdamW.
    GGML_OP_OPT_STEP_SGD = 99,             ///< a step of gradient descent.
    GGML_OP_GLU = 100,                     ///< a gated unit of ggml_glu_op.
    GGML_OP_COUNT = 101,                   ///< Number of operations.
};

#ifdef __cplusplus
}
#endif
