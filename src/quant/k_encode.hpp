#pragma once

#include "ggml-common.h"
#include "quant/rows.hpp"

/// Encoders of the K formats, one block at a time. The second form of each is told how important
/// every element is.
namespace heddle::quant {

block_q2_K encode_q2_K(Floats<QK_K> x);
block_q3_K encode_q3_K(Floats<QK_K> x);
block_q4_K encode_q4_K(Floats<QK_K> x);
block_q5_K encode_q5_K(Floats<QK_K> x);
block_q6_K encode_q6_K(Floats<QK_K> x);

block_q2_K encode_q2_K_weighted(Floats<QK_K> x, Floats<QK_K> importance);
block_q3_K encode_q3_K_weighted(Floats<QK_K> x, Floats<QK_K> importance);
block_q4_K encode_q4_K_weighted(Floats<QK_K> x, Floats<QK_K> importance);
block_q5_K encode_q5_K_weighted(Floats<QK_K> x, Floats<QK_K> importance);
block_q6_K encode_q6_K_weighted(Floats<QK_K> x, Floats<QK_K> importance);

}  // namespace heddle::quant
