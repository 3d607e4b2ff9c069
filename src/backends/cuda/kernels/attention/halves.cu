#include "backends/cuda/formats/all.cuh"
#include "backends/cuda/kernels/attention/attention.hpp"
#include "backends/cuda/kernels/ptx.cuh"

/// Keys and values as f16.
namespace heddle::cuda {
namespace {

/// Decodes all rows of keys or values; they then lie densely, rows before heads before sequences.
template <class F>
__global__ void decode_to_halves(AttentionOperand from, int size, std::int64_t rows,
                                 std::int64_t heads, std::int64_t parts, __half* to) {
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < parts; i += step) {
        const std::int64_t per_row = size / 8, at = i % per_row * 8;
        std::int64_t row = i / per_row;
        const std::int64_t i1 = row % rows, i2 = row / rows % heads, i3 = row / rows / heads;
        float y[8];
        decode8_of_row<F>(from.data + i1 * from.stride1 + i2 * from.stride2 + i3 * from.stride3, at,
                          y);
        *reinterpret_cast<uint4*>(to + row * size + at) =
            uint4{pack_halves(y[0], y[1]), pack_halves(y[2], y[3]), pack_halves(y[4], y[5]),
                  pack_halves(y[6], y[7])};
    }
}

}  // namespace

bool is_ready(const Tensor& t) {
    const auto aligned = [](std::size_t n) { return n % 16 == 0; };
    return t.type == GGML_TYPE_F16 && aligned(t.nb[1]) && aligned(t.nb[2]) && aligned(t.nb[3]) &&
           (t.view_src == nullptr || aligned(t.view_offs));
}

std::size_t halves_bytes(const Tensor& t) {
    return is_ready(t) ? 0 : (static_cast<std::size_t>(element_count(t)) * 2 + 255) / 256 * 256;
}

AttentionOperand as_halves(const Tensor& t, const AttentionOperand& from, std::byte* to,
                           const Launch& launch) {
    if (is_ready(t)) return from;
    const std::int64_t parts = element_count(t) / 8, blocks = (parts + 255) / 256;
    const std::int64_t most = 32LL * launch.device.multiprocessors;
    if (parts > 0)
        dispatch_format(t.type, [&](auto format) {
            decode_to_halves<decltype(format)>
                <<<static_cast<unsigned>(blocks < most ? blocks : most), 256, 0, launch.stream>>>(
                    from, static_cast<int>(t.ne[0]), t.ne[1], t.ne[2], parts,
                    reinterpret_cast<__half*>(to));
        });
    const std::int64_t row = t.ne[0] * 2;
    return {reinterpret_cast<const std::uint8_t*>(to), row, row * t.ne[1], row * t.ne[1] * t.ne[2],
            GGML_TYPE_F16};
}

}  // namespace heddle::cuda
