#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "activations.glsl"
#include "faults.glsl"

// ADD, SUB, MUL, DIV and ADD1 with the second operand tiled over the first, ADD_ID, SILU_BACK.
layout(constant_id = 1) const int FUNCTION = 0;
layout(constant_id = 2) const int TYPE_A = TYPE_F32;
layout(constant_id = 3) const int TYPE_B = TYPE_F32;
layout(constant_id = 4) const int TYPE_Y = TYPE_F32;
layout(constant_id = 5) const int TILES = 1;  // 0: the operands have one shape

const int ADD = 0, SUB = 1, MUL = 2, DIV = 3, ADD_ID = 4, SILU_BACK = 5;

float silu_back(float dy, float x) {
    const float s = sigmoid(x);
    return dy * s * (1 + x * (1 - s));
}

float combine(float a, float b) {
    switch (FUNCTION) {
        case SUB: return a - b;
        case MUL: return a * b;
        case DIV: return a / b;
        case SILU_BACK: return silu_back(a, b);
        default: return a + b;
    }
}

void main() {
    const uint i = element_number();
    if (i >= args.count) return;
    const Operand a = args.src[0], b = args.src[1], y = args.y;
    const ivec4 at = unravel(i, y.extent);
    float second = 0;
    if (FUNCTION == ADD_ID) {
        const int row = get_index(args.src[2], ivec4(at.y, at.z, 0, 0));
        if (is_inside(row, b.extent.y)) second = get(b, ivec4(at.x, row, 0, 0), TYPE_B);
    } else {
        second = get(b, TILES != 0 ? at % b.extent : at, TYPE_B);
    }
    put(y, at, combine(get(a, at, TYPE_A), second), TYPE_Y);
}
