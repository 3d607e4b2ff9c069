#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "faults.glsl"

// ROPE and ROPE_BACK in all modes: an invocation for each element that starts a pair, and for each
// that is not turned.
layout(constant_id = 1) const int TYPE_X = TYPE_F32;
layout(constant_id = 2) const int TYPE_Y = TYPE_F32;
layout(constant_id = 3) const int STORES = 0;  // heads of a token lie side by side in a row of src[3] that src[4] names

// For every pair: the fraction of a turn per unit of position, as 64 bits after the point, and which
// of a token's positions it goes by. Positions times the fraction wrap around as angles do, so that
// nothing is lost however large they are.
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Turns {
    uint64_t fraction;
    int axis;
    int padding;
};

void put_turned(ivec4 at, float value) {
    if (STORES == 0) {
        put(args.y, at, value, TYPE_Y);
        return;
    }
    const Operand cache = args.src[3];
    const int row = get_index(args.src[4], ivec4(at.z, 0, 0, 0));
    if (is_inside(row, cache.extent.y)) put(cache, ivec4(at.x + at.y * args.y.extent.x, row, 0, 0), value, TYPE_Y);
}

void main() {
    const uint i = element_number();
    if (i >= args.count) return;
    const Operand x = args.src[0], factors = args.src[2];
    const ivec4 at = unravel(i, args.y.extent);
    const int first = args.i[0], pairs = args.i[1], distance = args.i[2], tokens = args.i[3];
    const int offset = at.x - first;
    if (offset < 0 || offset >= 2 * pairs) {
        put_turned(at, get(x, at, TYPE_X));
        return;
    }
    const bool is_adjacent = args.i[4] != 0;
    if (is_adjacent ? offset % 2 != 0 : offset >= pairs) return;
    const int pair = is_adjacent ? offset / 2 : offset;
    Turns turn = Turns(args.extra + uint64_t(pair) * 16);
    const int position = get_index(args.src[1], ivec4(at.z + turn.axis * tokens, 0, 0, 0));
    uint64_t fraction = turn.fraction;
    if (is_there(factors)) {
        const float factor = get_f32(factors, ivec4(pair, 0, 0, 0));
        if (factor != 1) fraction = uint64_t(int64_t(float(int64_t(fraction >> 1)) / factor)) << 1;
    }
    const int64_t turned = int64_t(fraction * uint64_t(int64_t(position)));
    const float angle = float(turned) * 3.4061215800865545e-19;  // of a turn / 2^64
    const float cosine = args.f[0] * cos(angle), sine = args.f[1] * sin(angle);
    const ivec4 other = at + ivec4(distance, 0, 0, 0);
    const float a = get(x, at, TYPE_X), b = get(x, other, TYPE_X);
    put_turned(at, a * cosine - b * sine);
    put_turned(other, a * sine + b * cosine);
}
