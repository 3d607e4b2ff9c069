/// Building tensors: losses, optimiser steps, and operations of the program's own.
///
/// Included by `ggml.h`; programs include that one. What holds for all builders stands in
/// `ops_math.h`.
#pragma once

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// ------------------------------------------------------------------------------------------------
// Training

/// Cross entropy of logits `a` and label probabilities `b`, mean over rows: a scalar. F32.
GGML_API struct ggml_tensor* ggml_cross_entropy_loss(struct ggml_context* ctx,
                                                     struct ggml_tensor* a, struct ggml_tensor* b);

/// Its gradient, of the shape of the logits: `a` is the gradient of the loss (a scalar), `b` the
/// logits, `c` the labels.
GGML_API struct ggml_tensor* ggml_cross_entropy_loss_back(struct ggml_context* ctx,
                                                          struct ggml_tensor* a,
                                                          struct ggml_tensor* b,
                                                          struct ggml_tensor* c);

/// A step of AdamW that changes the parameter `a` in place, and its moments `m` and `v` with it.
/// adamw_params: F32 {alpha, beta1, beta2, eps, weight decay, 1 / (1 - beta1^t), 1 / (1 -
/// beta2^t)}. The result is a view of `a`.
GGML_API struct ggml_tensor* ggml_opt_step_adamw(struct ggml_context* ctx, struct ggml_tensor* a,
                                                 struct ggml_tensor* grad, struct ggml_tensor* m,
                                                 struct ggml_tensor* v,
                                                 struct ggml_tensor* adamw_params);

/// A step of gradient descent that changes the parameter `a` in place. sgd_params: F32 {alpha,
/// weight decay}. The result is a view of `a`.
GGML_API struct ggml_tensor* ggml_opt_step_sgd(struct ggml_context* ctx, struct ggml_tensor* a,
                                               struct ggml_tensor* grad,
                                               struct ggml_tensor* sgd_params);

// ------------------------------------------------------------------------------------------------
// Operations of the program's own
//
// Only the CPU can run them. `n_tasks` threads call the function, each once, with numbers `ith`
// from 0 to `nth` - 1; there may be fewer threads than asked for. The function divides the work by
// these numbers. `userdata` is handed through and stays the caller's.

#define GGML_N_TASKS_MAX (-1)  ///< As many threads as there are.

/// A function of one tensor.
typedef void (*ggml_custom1_op_t)(struct ggml_tensor* dst, const struct ggml_tensor* a, int ith,
                                  int nth, void* userdata);

/// A function of two tensors.
typedef void (*ggml_custom2_op_t)(struct ggml_tensor* dst, const struct ggml_tensor* a,
                                  const struct ggml_tensor* b, int ith, int nth, void* userdata);

/// A function of three tensors.
typedef void (*ggml_custom3_op_t)(struct ggml_tensor* dst, const struct ggml_tensor* a,
                                  const struct ggml_tensor* b, const struct ggml_tensor* c, int ith,
                                  int nth, void* userdata);

/// A function of any tensors, which it finds in dst->src.
typedef void (*ggml_custom_op_t)(struct ggml_tensor* dst, int ith, int nth, void* userdata);

/// A tensor like `a`, computed by `fun`.
GGML_API struct ggml_tensor* ggml_map_custom1(struct ggml_context* ctx, struct ggml_tensor* a,
                                              ggml_custom1_op_t fun, int n_tasks, void* userdata);

/// ggml_map_custom1() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_map_custom1_inplace(struct ggml_context* ctx,
                                                      struct ggml_tensor* a, ggml_custom1_op_t fun,
                                                      int n_tasks, void* userdata);

/// A tensor like `a`, computed by `fun` from `a` and `b`.
GGML_API struct ggml_tensor* ggml_map_custom2(struct ggml_context* ctx, struct ggml_tensor* a,
                                              struct ggml_tensor* b, ggml_custom2_op_t fun,
                                              int n_tasks, void* userdata);

/// ggml_map_custom2() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_map_custom2_inplace(struct ggml_context* ctx,
                                                      struct ggml_tensor* a, struct ggml_tensor* b,
                                                      ggml_custom2_op_t fun, int n_tasks,
                                                      void* userdata);

/// A tensor like `a`, computed by `fun` from `a`, `b` and `c`.
GGML_API struct ggml_tensor* ggml_map_custom3(struct ggml_context* ctx, struct ggml_tensor* a,
                                              struct ggml_tensor* b, struct ggml_tensor* c,
                                              ggml_custom3_op_t fun, int n_tasks, void* userdata);

/// ggml_map_custom3() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_map_custom3_inplace(struct ggml_context* ctx,
                                                      struct ggml_tensor* a, struct ggml_tensor* b,
                                                      struct ggml_tensor* c, ggml_custom3_op_t fun,
                                                      int n_tasks, void* userdata);

/// A tensor of any type and extents, computed by `fun` from `n_args` tensors, fewer than
/// GGML_MAX_SRC.
GGML_API struct ggml_tensor* ggml_custom_4d(struct ggml_context* ctx, enum ggml_type type,
                                            int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3,
                                            struct ggml_tensor** args, int n_args,
                                            ggml_custom_op_t fun, int n_tasks, void* userdata);

/// A view of `a`, overwritten by `fun`; dst->src holds `a` and then `args`, `n_args` of them, fewer
/// than GGML_MAX_SRC - 1.
GGML_API struct ggml_tensor* ggml_custom_inplace(struct ggml_context* ctx, struct ggml_tensor* a,
                                                 struct ggml_tensor** args, int n_args,
                                                 ggml_custom_op_t fun, int n_tasks, void* userdata);

#ifdef __cplusplus
}
#endif
