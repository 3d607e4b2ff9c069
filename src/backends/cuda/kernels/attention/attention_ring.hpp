#pragma once

#include "backends/cuda/kernels/attention/attention.hpp"

/// What `attention_ring` and its launches share.
namespace heddle::cuda {

/// Heads of blocks that lie side by side in a row are units of it, others are matrices.
inline bool are_heads_in_rows(const Tensor& t) {
    return t.type != GGML_TYPE_F16 && t.nb[2] < t.nb[1];
}

/// Launches the kernel for keys and values of a type. False if the copy engine cannot read them as
/// they lie.
template <ggml_type kType>
bool launch_ring(const Tensor& node, const AttentionArguments& a, const Launch& launch);

}  // namespace heddle::cuda
