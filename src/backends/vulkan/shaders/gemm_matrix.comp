#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#include "arguments.glsl"
#include "formats.glsl"
#include "products.glsl"

// MUL_MAT of many columns on matrix units: a workgroup of 256 (eight subgroups of 32) has a tile of
// 128 rows and 128 columns, a subgroup 32 times 64 of it. Both operands are rounded to half floats in
// shared memory, 32 elements deep; the next ones are read while these are multiplied. Sums are F32.
//
// Debian's glslc knows the matrices of NVIDIA's extension, not yet those of Khronos'.
layout(constant_id = 1) const int TYPE_A = TYPE_F16;
layout(constant_id = 2) const int TYPE_B = TYPE_F32;
layout(constant_id = 3) const int VECTORS = 0;

const int TILE = 128, DEPTH = 32, PITCH = DEPTH + 8;  // rows of halves that start in other banks

shared float16_t tile_a[TILE * PITCH];
shared float16_t tile_b[TILE * PITCH];
shared float tile_y[8 * 16 * 16];

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

    // An invocation brings 16 elements of a row, and of a column, at a time.
    const int me = int(gl_LocalInvocationID.x), line = me / 2, part = me % 2 * 16;
    const int row = min(first_row + line, rows - 1), column = min(first_column + line, columns - 1);
    const uint64_t weights = address(a, ivec4(0, row, i2 / args.i[0], i3 / args.i[1]));
    const uint64_t activations = address(b, ivec4(0, column, i2, i3));
    const int warp = int(gl_SubgroupID), warp_row = warp % 4 * 32, warp_column = warp / 4 * 64;

    fcoopmatNV<32, gl_ScopeSubgroup, 16, 16> sums[2 * 4];
    [[unroll]] for (int i = 0; i < 8; ++i) sums[i] = fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>(0.0);
    float w[16], x[16];
    [[unroll]] for (int h = 0; h < 2; ++h) {
        float some[8];
        load_weights(TYPE_A, VECTORS, a, weights, part + 8 * h, args.codebooks, some);
        [[unroll]] for (int j = 0; j < 8; ++j) w[8 * h + j] = some[j];
        load_activations(TYPE_B, VECTORS, b, activations, part + 8 * h, some);
        [[unroll]] for (int j = 0; j < 8; ++j) x[8 * h + j] = some[j];
    }
    for (int k = 0; k < depth; k += DEPTH) {
        barrier();  // the tiles before are still read
        [[unroll]] for (int j = 0; j < 16; ++j) {
            tile_a[line * PITCH + part + j] = float16_t(w[j]);
            tile_b[line * PITCH + part + j] = float16_t(clamp(x[j], -65504.0, 65504.0));
        }
        barrier();
        if (k + DEPTH < depth) {
            [[unroll]] for (int h = 0; h < 2; ++h) {
                float some[8];
                load_weights(TYPE_A, VECTORS, a, weights, k + DEPTH + part + 8 * h, args.codebooks, some);
                [[unroll]] for (int j = 0; j < 8; ++j) w[8 * h + j] = some[j];
                load_activations(TYPE_B, VECTORS, b, activations, k + DEPTH + part + 8 * h, some);
                [[unroll]] for (int j = 0; j < 8; ++j) x[8 * h + j] = some[j];
            }
        }
        [[unroll]] for (int d = 0; d < DEPTH; d += 16) {
            fcoopmatNV<16, gl_ScopeSubgroup, 16, 16> ma[2], mb;
            [[unroll]] for (int r = 0; r < 2; ++r) {
                coopMatLoadNV(ma[r], tile_a, uint((warp_row + 16 * r) * PITCH + d), uint(PITCH), false);
            }
            [[unroll]] for (int c = 0; c < 4; ++c) {
                coopMatLoadNV(mb, tile_b, uint((warp_column + 16 * c) * PITCH + d), uint(PITCH), true);
                [[unroll]] for (int r = 0; r < 2; ++r) {
                    sums[c * 2 + r] = coopMatMulAddNV(ma[r], mb, sums[c * 2 + r]);
                }
            }
        }
    }
    // Through shared memory, one matrix of each subgroup after the other: tiles may be cut off.
    const int lane = int(gl_SubgroupInvocationID);
    [[unroll]] for (int i = 0; i < 8; ++i) {
        const int to_row = first_row + warp_row + i % 2 * 16, to_column = first_column + warp_column + i / 2 * 16;
        coopMatStoreNV(sums[i], tile_y, uint(warp * 256), 16u, true);
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        for (int e = lane; e < 256; e += 32) {
            const ivec4 at = ivec4(to_row + e % 16, to_column + e / 16, i2, i3);
            if (at.x < rows && at.y < columns) put_f32(y, at, tile_y[warp * 256 + e]);
        }
        subgroupBarrier();
    }
}
