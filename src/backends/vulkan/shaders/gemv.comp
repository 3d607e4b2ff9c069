#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "faults.glsl"
#include "formats.glsl"
#include "products.glsl"

// MUL_MAT of few columns, and MUL_MAT_ID of single ones: a subgroup has ROWS rows of the weights at a
// time and COLUMNS columns; its lanes go along the rows, eight elements each.
layout(constant_id = 1) const int TYPE_A = TYPE_F32;
layout(constant_id = 2) const int TYPE_B = TYPE_F32;
layout(constant_id = 3) const int COLUMNS = 1;  // 8 at most
layout(constant_id = 4) const int BY_EXPERT = 0;
layout(constant_id = 5) const int ROWS = 1;
layout(constant_id = 6) const int ROWS_PER_GROUP = 4;  // of all subgroups of a workgroup
layout(constant_id = 7) const int VECTORS = 0;

// What a workgroup multiplies: some rows of a matrix of weights with some columns of activations.
struct Tile {
    int first_row, end_row;
    int first_column, i2, i3;  // of the result
    uint64_t matrix;
    bool has_weights;  // false: the expert is not there
};

// args.i: 0 how many matrices of the result share one of the weights along dimension 2, 1 the same
// along dimension 3.
Tile tile_of(int number, Operand a, Operand y) {
    Tile tile;
    const int tiles_of_rows = (a.extent.y + ROWS_PER_GROUP - 1) / ROWS_PER_GROUP;
    tile.first_row = number % tiles_of_rows * ROWS_PER_GROUP;
    tile.end_row = min(tile.first_row + ROWS_PER_GROUP, a.extent.y);
    tile.has_weights = true;
    int rest = number / tiles_of_rows;
    if (BY_EXPERT != 0) {  // a column is a slot of a token
        tile.first_column = rest % y.extent.y;
        tile.i2 = rest / y.extent.y;
        tile.i3 = 0;
        const int expert = get_index(args.src[2], ivec4(tile.first_column, tile.i2, 0, 0));
        tile.has_weights = is_inside(expert, a.extent.z);
        tile.matrix = address(a, ivec4(0, 0, tile.has_weights ? expert : 0, 0));
        return tile;
    }
    const int tiles_of_columns = (y.extent.y + COLUMNS - 1) / COLUMNS;
    tile.first_column = rest % tiles_of_columns * COLUMNS;
    rest /= tiles_of_columns;
    tile.i2 = rest % y.extent.z;
    tile.i3 = rest / y.extent.z;
    tile.matrix = address(a, ivec4(0, 0, tile.i2 / args.i[0], tile.i3 / args.i[1]));
    return tile;
}

void main() {
    const uint number = group_number();
    if (number >= args.count) return;
    const Operand a = args.src[0], b = args.src[1], y = args.y;
    const Tile tile = tile_of(int(number), a, y);
    uint64_t columns[COLUMNS];
    [[unroll]] for (int c = 0; c < COLUMNS; ++c) {
        const int column = BY_EXPERT != 0 ? tile.first_column % b.extent.y : min(tile.first_column + c, y.extent.y - 1);
        columns[c] = address(b, ivec4(0, column, tile.i2, tile.i3));
    }
    const int lane = int(gl_SubgroupInvocationID), step = int(gl_NumSubgroups) * ROWS;
    for (int row = tile.first_row + int(gl_SubgroupID) * ROWS; row < tile.end_row; row += step) {
        float sums[ROWS * COLUMNS];
        [[unroll]] for (int i = 0; i < ROWS * COLUMNS; ++i) sums[i] = 0;
        for (int k = 8 * lane; k < a.extent.x; k += 8 * int(gl_SubgroupSize)) {
            float w[ROWS * 8], part[8];
            [[unroll]] for (int r = 0; r < ROWS; ++r) {
                const uint64_t weights = tile.matrix + uint64_t(min(row + r, tile.end_row - 1) * a.stride.y);
                load_weights(TYPE_A, VECTORS, a, weights, k, args.codebooks, part);
                [[unroll]] for (int j = 0; j < 8; ++j) w[r * 8 + j] = part[j];
            }
            [[unroll]] for (int c = 0; c < COLUMNS; ++c) {
                load_activations(TYPE_B, VECTORS, b, columns[c], k, part);
                [[unroll]] for (int r = 0; r < ROWS; ++r) {
                    [[unroll]] for (int j = 0; j < 8; ++j) sums[c * ROWS + r] += w[r * 8 + j] * part[j];
                }
            }
        }
        [[unroll]] for (int c = 0; c < COLUMNS; ++c) {
            [[unroll]] for (int r = 0; r < ROWS; ++r) {
                const float total = subgroupAdd(sums[c * ROWS + r]);
                const ivec4 at = ivec4(row + r, tile.first_column + c, tile.i2, tile.i3);
                if (lane != 0 || at.x >= tile.end_row || at.y >= y.extent.y) continue;
                put_f32(y, at, tile.has_weights ? total : 0.0);
            }
        }
    }
}
