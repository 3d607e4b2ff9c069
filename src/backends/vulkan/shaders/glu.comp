#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "activations.glsl"

// GLU: an activation of one half times the other half, or of one tensor times another.
layout(constant_id = 1) const int FUNCTION = 0;
layout(constant_id = 2) const int TYPE_A = TYPE_F32;
layout(constant_id = 3) const int TYPE_B = TYPE_F32;
layout(constant_id = 4) const int TYPE_Y = TYPE_F32;

void main() {
    const uint i = element_number();
    if (i >= args.count) return;
    const Operand a = args.src[0], b = args.src[1], y = args.y;
    const ivec4 at = unravel(i, y.extent);
    // Where the gate and the linear part begin in their rows.
    const float x = get(a, at + ivec4(args.i[0], 0, 0, 0), TYPE_A);
    const float g = get(b, at + ivec4(args.i[1], 0, 0, 0), TYPE_B);
    put(y, at, glu_of(FUNCTION, x, g, args.f[0], args.f[1]), TYPE_Y);
}
