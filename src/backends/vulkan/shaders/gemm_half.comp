#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "arguments.glsl"
#include "formats.glsl"
#include "products.glsl"
#include "halves.glsl"

// MUL_MAT of many columns in half floats, two at once: a workgroup of 256 has a tile of 128 rows and 64
// columns, an invocation 8 times 4 of it. Both operands pass through shared memory, 64 elements deep;
// the next ones are read while these are multiplied. Sums over a tile's depth are half floats, those
// over the whole depth F32. Each column of a tile is scaled to at most 1, so that no sum overflows.
layout(constant_id = 1) const int TYPE_A = TYPE_F16;
layout(constant_id = 2) const int TYPE_B = TYPE_F32;
layout(constant_id = 3) const int VECTORS = 0;

const int TILE_ROWS = 128, TILE_COLUMNS = 64, DEPTH = 64;
const int PITCH = DEPTH / 8 + 1;  // in eights of halves; lines that start in other banks

shared uvec4 tile_a[TILE_ROWS * PITCH];
shared uvec4 tile_b[TILE_COLUMNS * PITCH];
shared float scales[TILE_COLUMNS];

// 32 elements of a row of weights from k on; zeros from `depth` on.
void read_32_weights(Operand a, uint64_t row, int k, out uvec4 packed[4]) {
    [[unroll]] for (int h = 0; h < 4; ++h) {
        packed[h] = uvec4(0);
        if (k + 8 * h < a.extent.x) packed[h] = load_weight_halves(TYPE_A, VECTORS, a, row, k + 8 * h, args.codebooks);
    }
}

// 16 elements of a column of activations from k on, divided by the largest of the 64 that this
// invocation and its three neighbours read; returns what they were divided by.
float read_scaled(Operand b, uint64_t column, int k, out uvec4 packed[2]) {
    float x[16], part[8];
    float largest = 0;
    [[unroll]] for (int h = 0; h < 2; ++h) {
        part = float[8](0, 0, 0, 0, 0, 0, 0, 0);
        if (k + 8 * h < b.extent.x) load_activations(TYPE_B, VECTORS, b, column, k + 8 * h, part);
        [[unroll]] for (int j = 0; j < 8; ++j) {
            x[8 * h + j] = part[j];
            largest = max(largest, abs(part[j]));
        }
    }
    largest = max(largest, subgroupShuffleXor(largest, 1u));
    largest = max(largest, subgroupShuffleXor(largest, 2u));
    const float factor = largest > 1e-30 ? 1 / largest : 0.0;
    [[unroll]] for (int h = 0; h < 2; ++h) {
        [[unroll]] for (int j = 0; j < 8; ++j) part[j] = x[8 * h + j] * factor;
        packed[h] = pack_halves(part);
    }
    return largest;
}

// args.i: 0 how many matrices of the result share one of the weights along dimension 2, 1 the same
// along dimension 3.
void main() {
    const uint number = group_number();
    if (number >= args.count) return;
    const Operand a = args.src[0], b = args.src[1], y = args.y;
    const int rows = y.extent.x, columns = y.extent.y, depth = a.extent.x;
    // Tiles of the same rows follow each other: weights are decoded while they are in the L2 cache.
    const int tiles_of_columns = (columns + TILE_COLUMNS - 1) / TILE_COLUMNS, tiles_of_rows = (rows + TILE_ROWS - 1) / TILE_ROWS;
    const int first_column = int(number) % tiles_of_columns * TILE_COLUMNS;
    int rest = int(number) / tiles_of_columns;
    const int first_row = rest % tiles_of_rows * TILE_ROWS;
    rest /= tiles_of_rows;
    const int i2 = rest % y.extent.z, i3 = rest / y.extent.z;

    // What this invocation brings: half of a row's tile, a quarter of a column's.
    const int me = int(gl_LocalInvocationID.x), line_a = me / 2, part_a = me % 2 * 32, line_b = me / 4, part_b = me % 4 * 16;
    const uint64_t weights = address(a, ivec4(0, min(first_row + line_a, rows - 1), i2 / args.i[0], i3 / args.i[1]));
    const uint64_t activations = address(b, ivec4(0, min(first_column + line_b, columns - 1), i2, i3));
    // What it multiplies: every 16th row and every 16th column. Lanes side by side have rows side by side.
    const int my_row = me % 8 + me / 32 % 2 * 8, my_column = me / 8 % 4 + me / 64 * 4;

    float totals[8 * 4];
    [[unroll]] for (int i = 0; i < 32; ++i) totals[i] = 0;
    uvec4 next_a[4], next_b[2];
    read_32_weights(a, weights, part_a, next_a);
    float next_scale = read_scaled(b, activations, part_b, next_b);
    for (int k = 0; k < depth; k += DEPTH) {
        barrier();  // the tiles before are still read
        [[unroll]] for (int h = 0; h < 4; ++h) tile_a[line_a * PITCH + part_a / 8 + h] = next_a[h];
        [[unroll]] for (int h = 0; h < 2; ++h) tile_b[line_b * PITCH + part_b / 8 + h] = next_b[h];
        if (part_b == 0) scales[line_b] = next_scale;
        barrier();
        if (k + DEPTH < depth) {
            read_32_weights(a, weights, k + DEPTH + part_a, next_a);
            next_scale = read_scaled(b, activations, k + DEPTH + part_b, next_b);
        }
        f16vec2 sums[8 * 4];
        [[unroll]] for (int i = 0; i < 32; ++i) sums[i] = f16vec2(0);
        [[unroll]] for (int d = 0; d < DEPTH / 8; ++d) {
            uvec4 eights[8];
            [[unroll]] for (int r = 0; r < 8; ++r) eights[r] = tile_a[(my_row + 16 * r) * PITCH + d];
            [[unroll]] for (int c = 0; c < 4; ++c) {
                const uvec4 x = tile_b[(my_column + 16 * c) * PITCH + d];
                [[unroll]] for (int r = 0; r < 8; ++r) {
                    [[unroll]] for (int j = 0; j < 4; ++j) {
                        sums[c * 8 + r] += unpackFloat2x16(eights[r][j]) * unpackFloat2x16(x[j]);
                    }
                }
            }
        }
        [[unroll]] for (int c = 0; c < 4; ++c) {
            const float scale = scales[my_column + 16 * c];
            [[unroll]] for (int r = 0; r < 8; ++r) {
                const vec2 both = vec2(sums[c * 8 + r]);
                totals[c * 8 + r] += (both.x + both.y) * scale;
            }
        }
    }
    [[unroll]] for (int c = 0; c < 4; ++c) {
        [[unroll]] for (int r = 0; r < 8; ++r) {
            const ivec4 at = ivec4(first_row + my_row + 16 * r, first_column + my_column + 16 * c, i2, i3);
            if (at.x < rows && at.y < columns) put_f32(y, at, totals[c * 8 + r]);
        }
    }
}
