#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#include "arguments.glsl"
#include "formats.glsl"
#include "products.glsl"
#include "halves.glsl"
#include "matrices.glsl"

// MUL_MAT of many columns on matrix units: a workgroup of 128 (four subgroups of 32) has a tile of 128
// rows and 128 columns, a subgroup 64 times 64 of it. Both operands are rounded to half floats in shared
// memory, 32 elements deep, in two places by turns: the next ones are read while these are multiplied,
// and rounded afterwards, so that no product waits for them. Sums are F32.
layout(constant_id = 1) const int TYPE_A = TYPE_F16;
layout(constant_id = 2) const int TYPE_B = TYPE_F32;
layout(constant_id = 3) const int VECTORS = 0;

const int TILE = 128, DEPTH = 32;
const int PITCH = DEPTH / 8 + 1;  // in eights of halves; lines that start in other banks
const int PLACE = 2 * TILE * PITCH;  // rows of weights, then columns of activations

shared uvec4 tiles[2 * PLACE];

layout(buffer_reference, std430, buffer_reference_align = 16) buffer FloatArray { float v[]; };

// args.i: 0 how many matrices of the result share one of the weights along dimension 2, 1 the same
// along dimension 3.
void main() {
    const uint number = group_number();
    if (number >= args.count) return;
    const Operand a = args.src[0], b = args.src[1], y = args.y;
    const int rows = y.extent.x, columns = y.extent.y, depth = a.extent.x;
    // Tiles of the same rows follow each other: weights are decoded while they are in the L2 cache.
    const int tiles_of_columns = (columns + TILE - 1) / TILE, tiles_of_rows = (rows + TILE - 1) / TILE;
    const int first_column = int(number) % tiles_of_columns * TILE;
    int rest = int(number) / tiles_of_columns;
    const int first_row = rest % tiles_of_rows * TILE;
    rest /= tiles_of_rows;
    const int i2 = rest % y.extent.z, i3 = rest / y.extent.z;

    // An invocation brings 16 elements of two rows, and of two columns, at a time.
    const int me = int(gl_LocalInvocationID.x), line = me / 2, part = me % 2;
    uint64_t weights[2], activations[2];
    [[unroll]] for (int n = 0; n < 2; ++n) {
        weights[n] = address(a, ivec4(0, min(first_row + line + 64 * n, rows - 1), i2 / args.i[0], i3 / args.i[1]));
        activations[n] = address(b, ivec4(0, min(first_column + line + 64 * n, columns - 1), i2, i3));
    }
    const int warp = int(gl_SubgroupID), warp_row = warp % 2 * 64, warp_column = warp / 2 * 64;

    SumMatrix sums[4 * 4];
    [[unroll]] for (int i = 0; i < 16; ++i) sums[i] = SumMatrix(0.0);
    RawWeights w[2];
    RawActivations x[2];
    [[unroll]] for (int n = 0; n < 2; ++n) {
        w[n] = read_weights(TYPE_A, VECTORS, a, weights[n], 8 * part, args.codebooks);
        x[n] = read_activations(TYPE_B, VECTORS, b, activations[n], 8 * part);
    }
    int place = 0;
    for (int k = 0; k < depth; k += DEPTH) {
        [[unroll]] for (int n = 0; n < 2; ++n) {
            const int to = place + (line + 64 * n) * PITCH + part;
            const HalfParts rows_of = halves_of(TYPE_A, w[n]), columns_of = halves_of(TYPE_B, VECTORS, x[n]);
            tiles[to] = rows_of.low;
            tiles[to + 2] = rows_of.high;
            tiles[to + TILE * PITCH] = columns_of.low;
            tiles[to + TILE * PITCH + 2] = columns_of.high;
        }
        barrier();  // the other place is no longer read, either
        if (k + DEPTH < depth) {
            [[unroll]] for (int n = 0; n < 2; ++n) {
                w[n] = read_weights(TYPE_A, VECTORS, a, weights[n], k + DEPTH + 8 * part, args.codebooks);
                x[n] = read_activations(TYPE_B, VECTORS, b, activations[n], k + DEPTH + 8 * part);
            }
        }
        [[unroll]] for (int d = 0; d < DEPTH / 8; d += 2) {
            LeftMatrix left[4];
            RightMatrix right;
            [[unroll]] for (int r = 0; r < 4; ++r) {
                coopMatLoadNV(left[r], tiles, uint(place + (warp_row + 16 * r) * PITCH + d), uint(PITCH), false);
            }
            [[unroll]] for (int c = 0; c < 4; ++c) {
                coopMatLoadNV(right, tiles, uint(place + (TILE + warp_column + 16 * c) * PITCH + d), uint(PITCH), true);
                [[unroll]] for (int r = 0; r < 4; ++r) {
                    sums[c * 4 + r] = coopMatMulAddNV(left[r], right, sums[c * 4 + r]);
                }
            }
        }
        place = PLACE - place;
    }
    const uint64_t corner = address(y, ivec4(first_row + warp_row, first_column + warp_column, i2, i3));
    // Columns of matrices are stored at multiples of 16 bytes only.
    const bool is_aligned = y.stride.x == 4 && ((corner | uint64_t(y.stride.y)) & 15) == 0;
    if (first_row + TILE <= rows && first_column + TILE <= columns && is_aligned) {
        FloatArray to = FloatArray(corner);
        const uint stride = uint(y.stride.y / 4);
        [[unroll]] for (int i = 0; i < 16; ++i) {
            coopMatStoreNV(sums[i], to.v, uint(i / 4 * 16) * stride + uint(i % 4 * 16), stride, true);
        }
        return;
    }
    // Cut off or not aligned: through shared memory, one matrix of each subgroup after the other.
    barrier();
    const int lane = int(gl_SubgroupInvocationID);
    [[unroll]] for (int i = 0; i < 16; ++i) {
        const int to_row = first_row + warp_row + i % 4 * 16, to_column = first_column + warp_column + i / 4 * 16;
        coopMatStoreNV(sums[i], tiles, uint(warp * 64), 4u, true);
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        [[unroll]] for (int n = 0; n < 8; ++n) {
            const int e = n * 32 + lane;
            const ivec4 at = ivec4(to_row + e % 16, to_column + e / 16, i2, i3);
            if (at.x < rows && at.y < columns) put_f32(y, at, uintBitsToFloat(tiles[warp * 64 + e / 4][e % 4]));
        }
        subgroupBarrier();
    }
}
