#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"

// FILL, ARANGE, TIMESTEP_EMBEDDING, TRI, DIAG, DIAG_MASK_INF and DIAG_MASK_ZERO.
layout(constant_id = 1) const int FUNCTION = 0;
layout(constant_id = 2) const int TYPE_X = TYPE_F32;
layout(constant_id = 3) const int TYPE_Y = TYPE_F32;

const int FILL = 0, ARANGE = 1, TIMESTEP = 2, TRI = 3, DIAG = 4, MASK = 5;

// Cosines first, then sines; an odd last element is 0.
float timestep(ivec4 at) {
    const int half_size = args.i[0];
    if (at.x >= 2 * half_size) return 0;
    const int j = at.x < half_size ? at.x : at.x - half_size;
    const float frequency = exp(-args.f[0] * float(j) / float(half_size));
    const float angle = get_f32(args.src[0], ivec4(at.y, 0, 0, 0)) * frequency;
    return at.x < half_size ? cos(angle) : sin(angle);
}

bool is_kept(int column, int row) {
    switch (args.i[0]) {
        case 0: return column >= row;
        case 1: return column > row;
        case 2: return column <= row;
        default: return column < row;
    }
}

float value_at(ivec4 at) {
    switch (FUNCTION) {
        case FILL: return args.f[0];
        case ARANGE: return args.f[0] + args.f[1] * float(at.x);
        case TIMESTEP: return timestep(at);
        case TRI: return is_kept(at.x, at.y) ? get(args.src[0], at, TYPE_X) : 0.0;
        case DIAG: return at.x == at.y ? get(args.src[0], ivec4(at.x, 0, at.zw), TYPE_X) : 0.0;
        default: return at.x > args.i[0] + at.y ? args.f[0] : get(args.src[0], at, TYPE_X);
    }
}

void main() {
    const uint i = element_number();
    if (i >= args.count) return;
    const ivec4 at = unravel(i, args.y.extent);
    put(args.y, at, value_at(at), TYPE_Y);
}
