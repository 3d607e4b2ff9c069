#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "formats.glsl"

// OUT_PROD: rows are summed over dimension 1. An invocation has eight elements of the result.
layout(constant_id = 1) const int TYPE_A = TYPE_F32;

// args.i: 0 how many matrices of the result share one of `a` along dimension 2, 1 the same along
// dimension 3.
void main() {
    const uint i = element_number();
    if (i >= args.count) return;
    const Operand a = args.src[0], b = args.src[1], y = args.y;
    ivec4 at = unravel(i, ivec4((y.extent.x + 7) / 8, y.extent.yzw));
    at.x *= 8;
    float sums[8] = float[8](0, 0, 0, 0, 0, 0, 0, 0);
    for (int k = 0; k < b.extent.y; ++k) {
        const uint64_t row = address(a, ivec4(0, k, at.z / args.i[0], at.w / args.i[1]));
        const float factor = get_f32(b, ivec4(at.y, k, at.zw));
        float values[8];
        if (block_elements(TYPE_A) > 1 || at.x + 8 <= y.extent.x) {
            decode8(TYPE_A, row, at.x, args.codebooks, values);
        } else {
            [[unroll]] for (int j = 0; j < 8; ++j) {
                values[j] = at.x + j < y.extent.x ? load_float(row + uint64_t((at.x + j) * a.stride.x), TYPE_A) : 0.0;
            }
        }
        [[unroll]] for (int j = 0; j < 8; ++j) sums[j] += values[j] * factor;
    }
    [[unroll]] for (int j = 0; j < 8; ++j) {
        if (at.x + j < y.extent.x) put_f32(y, at + ivec4(j, 0, 0, 0), sums[j]);
    }
}
