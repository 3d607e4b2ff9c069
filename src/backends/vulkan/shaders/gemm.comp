#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "formats.glsl"
#include "products.glsl"

// MUL_MAT of many columns: a workgroup of 256 has a tile of 64 rows and 64 columns, an invocation 4
// times 4 of it. Both operands pass through shared memory, 32 elements deep. BY_EXPERT: columns are
// those of one expert, in the order that group_by_expert.comp has left in the scratch memory.
layout(constant_id = 1) const int TYPE_A = TYPE_F32;
layout(constant_id = 2) const int TYPE_B = TYPE_F32;
layout(constant_id = 3) const int BY_EXPERT = 0;
layout(constant_id = 4) const int VECTORS = 0;

const int TILE = 64, DEPTH = 32, PITCH = TILE + 4;

shared float tile_a[DEPTH * PITCH];
shared float tile_b[DEPTH * PITCH];

// args.i: 0 how many matrices of the result share one of the weights along dimension 2, 1 the same
// along dimension 3; for experts 2 tiles of columns that are launched for each.

// Column `c` of the tile as a slot and a token, for experts; column and zero else.
ivec2 column_of(int c, int start, int slots) {
    if (BY_EXPERT == 0) return ivec2(c, 0);
    const int pair = int(load32(args.scratch + uint64_t(start + c) * 4));
    return ivec2(pair % slots, pair / slots);
}

void main() {
    const uint number = group_number();
    if (number >= args.count) return;
    const Operand a = args.src[0], b = args.src[1], y = args.y;
    const int rows = a.extent.y, tiles_of_rows = (rows + TILE - 1) / TILE;
    const int first_row = int(number) % tiles_of_rows * TILE;
    int rest = int(number) / tiles_of_rows;
    int columns = y.extent.y, start = 0, i2 = 0, i3 = 0;
    uint64_t matrix;
    const int tiles_of_columns = BY_EXPERT != 0 ? args.i[2] : (columns + TILE - 1) / TILE;
    const int first_column = rest % tiles_of_columns * TILE;
    rest /= tiles_of_columns;
    if (BY_EXPERT != 0) {
        const uint64_t starts = args.scratch + uint64_t(y.extent.y * y.extent.z) * 4;
        start = int(load32(starts + uint64_t(rest) * 4));
        columns = int(load32(starts + uint64_t(rest + 1) * 4)) - start;
        if (first_column >= columns) return;  // as for all invocations of the workgroup
        matrix = address(a, ivec4(0, 0, rest, 0));
    } else {
        i2 = rest % y.extent.z;
        i3 = rest / y.extent.z;
        matrix = address(a, ivec4(0, 0, i2 / args.i[0], i3 / args.i[1]));
    }
    const int line = int(gl_LocalInvocationID.x) % TILE, part = int(gl_LocalInvocationID.x) / TILE * 8;
    const int row = first_row + line, column = first_column + line;
    const uint64_t weights = matrix + uint64_t(row * a.stride.y);
    uint64_t activations = 0;
    if (column < columns) {
        const ivec2 place = column_of(column, start, y.extent.y);
        activations = BY_EXPERT != 0 ? address(b, ivec4(0, place.x % b.extent.y, place.y, 0))
                                     : address(b, ivec4(0, column, i2, i3));
    }
    const int across = int(gl_LocalInvocationID.x) % 16 * 4, down = int(gl_LocalInvocationID.x) / 16 * 4;
    vec4 sums[4];
    [[unroll]] for (int c = 0; c < 4; ++c) sums[c] = vec4(0);
    for (int k0 = 0; k0 < a.extent.x; k0 += DEPTH) {
        const int k = k0 + part;
        float w[8] = float[8](0, 0, 0, 0, 0, 0, 0, 0), x[8] = float[8](0, 0, 0, 0, 0, 0, 0, 0);
        if (row < rows && k < a.extent.x) load_weights(TYPE_A, VECTORS, a, weights, k, args.codebooks, w);
        if (column < columns && k < a.extent.x) load_activations(TYPE_B, VECTORS, b, activations, k, x);
        barrier();
        [[unroll]] for (int j = 0; j < 8; ++j) {
            tile_a[(part + j) * PITCH + line] = w[j];
            tile_b[(part + j) * PITCH + line] = x[j];
        }
        barrier();
        [[unroll]] for (int d = 0; d < DEPTH; ++d) {
            const int at = d * PITCH;
            const vec4 r = vec4(tile_a[at + across], tile_a[at + across + 1], tile_a[at + across + 2], tile_a[at + across + 3]);
            [[unroll]] for (int c = 0; c < 4; ++c) sums[c] += r * tile_b[at + down + c];
        }
    }
    [[unroll]] for (int c = 0; c < 4; ++c) {
        if (first_column + down + c >= columns) continue;
        const ivec2 place = column_of(first_column + down + c, start, y.extent.y);
        [[unroll]] for (int r = 0; r < 4; ++r) {
            const int to = first_row + across + r;
            if (to >= rows) continue;
            put_f32(y, BY_EXPERT != 0 ? ivec4(to, place, 0) : ivec4(to, first_column + down + c, i2, i3), sums[c][r]);
        }
    }
}
