#include "backends/cuda/kernels/attention/attention_ring_launch.cuh"

/// Further formats of `attention_ring`.
namespace heddle::cuda {

template bool launch_ring<GGML_TYPE_Q5_1>(const Tensor&, const AttentionArguments&, const Launch&);
template bool launch_ring<GGML_TYPE_Q5_0>(const Tensor&, const AttentionArguments&, const Launch&);
template bool launch_ring<GGML_TYPE_Q4_1>(const Tensor&, const AttentionArguments&, const Launch&);
template bool launch_ring<GGML_TYPE_IQ4_NL>(const Tensor&, const AttentionArguments&,
                                            const Launch&);

}  // namespace heddle::cuda
