#pragma once

#include "backends/cuda/formats/fp4.cuh"
#include "backends/cuda/formats/grid.cuh"
#include "backends/cuda/formats/k.cuh"
#include "backends/cuda/formats/nonlinear.cuh"
#include "backends/cuda/formats/plain.cuh"
#include "backends/cuda/formats/simple.cuh"
#include "backends/cuda/formats/ternary.cuh"

namespace heddle::cuda {

/// Calls `body(Format<type>{})` and says whether there is such a format. The one list of them, for
/// host and device code: the body decides where it can run.
#pragma nv_exec_check_disable
template <class Body>
HEDDLE_HD bool dispatch_format(ggml_type type, Body&& body) {
    switch (type) {
#define HEDDLE_CASE(name)                 \
    case GGML_TYPE_##name:                \
        body(Format<GGML_TYPE_##name>{}); \
        return true
        HEDDLE_CASE(F32);
        HEDDLE_CASE(F16);
        HEDDLE_CASE(BF16);
        HEDDLE_CASE(Q1_0);
        HEDDLE_CASE(Q2_0);
        HEDDLE_CASE(Q4_0);
        HEDDLE_CASE(Q4_1);
        HEDDLE_CASE(Q5_0);
        HEDDLE_CASE(Q5_1);
        HEDDLE_CASE(Q8_0);
        HEDDLE_CASE(Q8_1);
        HEDDLE_CASE(Q8_K);
        HEDDLE_CASE(Q2_K);
        HEDDLE_CASE(Q3_K);
        HEDDLE_CASE(Q4_K);
        HEDDLE_CASE(Q5_K);
        HEDDLE_CASE(Q6_K);
        HEDDLE_CASE(TQ1_0);
        HEDDLE_CASE(TQ2_0);
        HEDDLE_CASE(MXFP4);
        HEDDLE_CASE(NVFP4);
        HEDDLE_CASE(IQ4_NL);
        HEDDLE_CASE(IQ4_XS);
        HEDDLE_CASE(IQ2_XXS);
        HEDDLE_CASE(IQ2_XS);
        HEDDLE_CASE(IQ2_S);
        HEDDLE_CASE(IQ3_XXS);
        HEDDLE_CASE(IQ3_S);
        HEDDLE_CASE(IQ1_S);
        HEDDLE_CASE(IQ1_M);
#undef HEDDLE_CASE
        default:
            return false;
    }
}

/// Whether kernels can decode the type.
inline bool has_format(ggml_type type) {
    return dispatch_format(type, [](auto) {});
}

}  // namespace heddle::cuda
