#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "faults.glsl"
#include "formats.glsl"

// Blocks to plain numbers, eight at a time: CPY, and GET_ROWS where indices say which rows.
layout(constant_id = 1) const int TYPE_X = TYPE_Q4_0;
layout(constant_id = 2) const int TYPE_Y = TYPE_F32;
layout(constant_id = 3) const int GATHERS = 0;

void main() {
    const uint i = element_number();
    if (i >= args.count) return;
    const Operand x = args.src[0], y = args.y;
    float values[8] = float[8](0, 0, 0, 0, 0, 0, 0, 0);
    if (GATHERS != 0) {
        ivec4 at = unravel(i, ivec4(y.extent.x / 8, y.extent.yzw));
        at.x *= 8;
        const int row = get_index(args.src[1], ivec4(at.yzw, 0));
        if (is_inside(row, x.extent.y)) {
            decode8(TYPE_X, address(x, ivec4(0, row, at.zw)), at.x, args.codebooks, values);
        }
        [[unroll]] for (int j = 0; j < 8; ++j) put(y, at + ivec4(j, 0, 0, 0), values[j], TYPE_Y);
    } else {
        const ivec4 from = unravel(8u * i, x.extent);
        decode8(TYPE_X, address(x, ivec4(0, from.yzw)), from.x, args.codebooks, values);
        [[unroll]] for (int j = 0; j < 8; ++j) {
            put(y, unravel(8u * i + uint(j), y.extent), values[j], TYPE_Y);
        }
    }
}
