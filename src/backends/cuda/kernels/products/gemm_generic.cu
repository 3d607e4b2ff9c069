#include "backends/cuda/formats/all.cuh"
#include "backends/cuda/kernels/products/operands.cuh"
#include "ggml/op_list.h"

/// Products of any types, strides and sizes in plain f32 arithmetic; OUT_PROD as well.
namespace heddle::cuda {
namespace {

constexpr int kTile = 64, kDepth = 32, kThreads = 256;

/// Which tile of which matrix of the result a block computes.
struct TileNumber {
    std::int64_t row, column, i2, i3;

    __device__ TileNumber(std::int64_t number, std::int64_t rows, std::int64_t columns,
                          std::int64_t extent2) {
        const std::int64_t across = (rows + kTile - 1) / kTile,
                           down = (columns + kTile - 1) / kTile;
        row = number % across * kTile;
        number /= across;
        column = number % down * kTile;
        number /= down;
        i2 = number % extent2;
        i3 = number / extent2;
    }
};

/// Tiles of both operands, depth-major, and the sums of one thread: 4 rows times 4 columns.
struct Tiles {
    float a[kDepth][kTile + 4], b[kDepth][kTile + 4];
};

__device__ void multiply_tiles(const Tiles& tiles, float (&sums)[4][4]) {
    const int x = threadIdx.x % 16 * 4, y = threadIdx.x / 16 * 4;
#pragma unroll 8
    for (int k = 0; k < kDepth; ++k) {
        const float4 a = *reinterpret_cast<const float4*>(&tiles.a[k][x]);
        const float4 b = *reinterpret_cast<const float4*>(&tiles.b[k][y]);
        const float rows[4] = {a.x, a.y, a.z, a.w}, columns[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
        for (int c = 0; c < 4; ++c)
#pragma unroll
            for (int r = 0; r < 4; ++r) sums[c][r] += rows[r] * columns[c];
    }
}

__device__ void store_tile(const float (&sums)[4][4], const TileNumber& tile, float* y,
                           std::int64_t rows, std::int64_t columns) {
    const std::int64_t row = tile.row + threadIdx.x % 16 * 4;
    const std::int64_t column = tile.column + threadIdx.x / 16 * 4;
#pragma unroll
    for (int c = 0; c < 4; ++c)
#pragma unroll
        for (int r = 0; r < 4; ++r)
            if (row + r < rows && column + c < columns)
                y[(column + c) * rows + row + r] = sums[c][r];
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    gemm_generic(Weights a, Activations b, float* y, std::int64_t extent2) {
    __shared__ Tiles tiles;
    const TileNumber tile(blockIdx.x, a.rows, b.extent1, extent2);
    const std::uint8_t* matrix = a.matrix(tile.i2, tile.i3);
    const std::uint8_t* acts = b.data + tile.i2 * b.stride2 + tile.i3 * b.stride3;
    const int line = threadIdx.x % kTile, part = threadIdx.x / kTile * 8;
    float sums[4][4] = {};
    for (std::int64_t k0 = 0; k0 < a.depth; k0 += kDepth) {
        const std::int64_t k = k0 + part;
        const int count = static_cast<int>(max(std::int64_t{0}, min(a.depth - k, std::int64_t{8})));
        float w[8] = {}, x[8] = {};
        if (tile.row + line < a.rows && count > 0) {
            const std::uint8_t* row = matrix + (tile.row + line) * a.row_stride;
            if (F::block_elements > 1 || count == 8)
                decode8_of_row<F>(row, k, w);
            else
                for (int j = 0; j < 8; ++j)
                    if (j < count) w[j] = decode<F>(row + k * F::block_bytes, j);
        }
        if (tile.column + line < b.extent1) {
            const std::uint8_t* row = acts + (tile.column + line) * b.stride1;
#pragma unroll
            for (int j = 0; j < 8; ++j)
                if (j < count) x[j] = b.load(row, k + j);
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            tiles.a[part + j][line] = w[j];
            tiles.b[part + j][line] = x[j];
        }
        __syncthreads();
        multiply_tiles(tiles, sums);
    }
    store_tile(sums, tile, y + (tile.i3 * extent2 + tile.i2) * a.rows * b.extent1, a.rows,
               b.extent1);
}

std::int64_t tile_count(const Tensor& node) {
    return (node.ne[0] + kTile - 1) / kTile * ((node.ne[1] + kTile - 1) / kTile) * node.ne[2] *
           node.ne[3];
}

// ---- outer products ----------------------------------------------------------------------------

/// Rows are summed over dimension 1; b may lie in any way.
struct Columns {
    const std::uint8_t* data;
    std::int64_t stride0, stride1, stride2, stride3, extent0, depth;
};

template <class F>
__global__ void __launch_bounds__(kThreads)
    out_prod(Weights a, Columns b, std::int64_t columns_of_a, float* y, std::int64_t extent2) {
    __shared__ Tiles tiles;
    const TileNumber tile(blockIdx.x, columns_of_a, b.extent0, extent2);
    const std::uint8_t* matrix = a.matrix(tile.i2, tile.i3);
    const std::uint8_t* right = b.data + tile.i2 * b.stride2 + tile.i3 * b.stride3;
    float sums[4][4] = {};
    for (std::int64_t k0 = 0; k0 < b.depth; k0 += kDepth) {
        __syncthreads();
        for (int i = threadIdx.x; i < kDepth * kTile; i += kThreads) {
            const int line = i % kTile, k = i / kTile;
            const bool has_k = k0 + k < b.depth;
            const std::int64_t row = tile.row + line, column = tile.column + line;
            tiles.a[k][line] = has_k && row < columns_of_a
                                   ? decode<F>(matrix + (k0 + k) * a.row_stride +
                                                   row / F::block_elements * F::block_bytes,
                                               static_cast<int>(row % F::block_elements))
                                   : 0.0f;
            tiles.b[k][line] = has_k && column < b.extent0
                                   ? *reinterpret_cast<const float*>(right + column * b.stride0 +
                                                                     (k0 + k) * b.stride1)
                                   : 0.0f;
        }
        __syncthreads();
        multiply_tiles(tiles, sums);
    }
    store_tile(sums, tile, y + (tile.i3 * extent2 + tile.i2) * columns_of_a * b.extent0,
               columns_of_a, b.extent0);
}

std::string_view out_prod_objection(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (!has_format(a.type)) return "the type of a has no decoder";
    if (b.type != GGML_TYPE_F32) return "b is not f32";
    if (node.type != GGML_TYPE_F32 || !is_contiguous(node)) return "the result is not dense f32";
    if (a.ne[0] > 0 && a.nb[0] != size_of(a.type)) return "rows of a are not dense";
    return {};
}

void launch_out_prod(const Tensor& node, const Launch& launch) {
    if (is_empty(node)) return;
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (a.ne[1] == 0) return launch_zeros(node, launch);
    const auto stride = [&](int d) { return static_cast<std::int64_t>(b.nb[d]); };
    const Columns columns{static_cast<const std::uint8_t*>(b.data),
                          stride(0),
                          stride(1),
                          stride(2),
                          stride(3),
                          b.ne[0],
                          b.ne[1]};
    dispatch_format(a.type, [&](auto format) {
        out_prod<decltype(format)>
            <<<static_cast<unsigned>(tile_count(node)), kThreads, 0, launch.stream>>>(
                weights_of(a, node), columns, a.ne[0], static_cast<float*>(node.data), node.ne[2]);
    });
}

}  // namespace

void launch_gemm_generic(const Tensor& node, const Launch& launch) {
    if (is_empty(node)) return;
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (a.ne[0] == 0) return launch_zeros(node, launch);
    dispatch_format(a.type, [&](auto format) {
        gemm_generic<decltype(format)>
            <<<static_cast<unsigned>(tile_count(node)), kThreads, 0, launch.stream>>>(
                weights_of(a, node), activations_of(b), static_cast<float*>(node.data), node.ne[2]);
    });
}

const Kernel kGemmGeneric{"gemm_generic", GGML_OP_MUL_MAT, product_objection, nullptr,
                          launch_gemm_generic};
const Kernel kOutProd{"out_prod_generic", GGML_OP_OUT_PROD, out_prod_objection, nullptr,
                      launch_out_prod};

}  // namespace heddle::cuda
