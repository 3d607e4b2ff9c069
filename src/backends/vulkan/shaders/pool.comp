#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"

// POOL_1D, POOL_2D and POOL_2D_BACK.
layout(constant_id = 1) const int FUNCTION = 0;
layout(constant_id = 2) const int IS_MAX = 0;
layout(constant_id = 3) const int TYPE_A = TYPE_F32;
layout(constant_id = 4) const int TYPE_B = TYPE_F32;
layout(constant_id = 5) const int TYPE_Y = TYPE_F32;

const int POOL_1D = 0, POOL_2D = 1, POOL_2D_BACK = 2;
const float LEAST = -3.402823466e38;

// args.i: 0, 1 taps; 2, 3 strides; 4, 5 paddings.

// Positions of window `o` that lie inside the image: from x to before y.
ivec2 window(int d, int o, int extent) {
    const int begin = o * args.i[2 + d] - args.i[4 + d];
    return ivec2(max(begin, 0), min(begin + args.i[d], extent));
}

// Outputs whose window covers position `i`.
ivec2 covering(int d, int i, int count) {
    const int at = i + args.i[4 + d], taps = args.i[d], step = args.i[2 + d];
    return ivec2(at < taps ? 0 : (at - taps) / step + 1, min(at < 0 ? 0 : at / step + 1, count));
}

// Padding does not count.
float pool_1d(ivec4 at) {
    const Operand x = args.src[0];
    const ivec2 inside = window(0, at.x, x.extent.x);
    float largest = LEAST, total = 0;
    for (int j = inside.x; j < inside.y; ++j) {
        const float value = get(x, ivec4(j, at.yzw), TYPE_A);
        largest = max(largest, value);
        total += value;
    }
    const int count = max(inside.y - inside.x, 0);
    return IS_MAX != 0 ? largest : count == 0 ? 0.0 : total / float(count);
}

// Unlike in one dimension, padding counts as zeros.
float pool_2d(ivec4 at) {
    const Operand x = args.src[0];
    const ivec2 wide = window(0, at.x, x.extent.x), high = window(1, at.y, x.extent.y);
    float largest = LEAST, total = 0;
    for (int row = high.x; row < high.y; ++row) {
        for (int column = wide.x; column < wide.y; ++column) {
            const float value = get(x, ivec4(column, row, at.zw), TYPE_A);
            largest = max(largest, value);
            total += value;
        }
    }
    return IS_MAX != 0 ? largest : total / args.f[0];
}

// Whether `at` is the first of the largest elements of a window.
bool wins(Operand image, ivec2 wide, ivec2 high, ivec4 at) {
    float largest = LEAST;
    ivec2 winner = ivec2(-1);
    for (int row = high.x; row < high.y; ++row) {
        for (int column = wide.x; column < wide.y; ++column) {
            const float value = get(image, ivec4(column, row, at.zw), TYPE_B);
            if (value <= largest) continue;
            largest = value;
            winner = ivec2(column, row);
        }
    }
    return winner == at.xy;
}

// Every element gathers from the windows it lies in, in order.
float pool_2d_back(ivec4 at) {
    const Operand gradient = args.src[0], image = args.src[1];
    const ivec2 across = covering(0, at.x, gradient.extent.x), down = covering(1, at.y, gradient.extent.y);
    float total = 0;
    for (int oy = down.x; oy < down.y; ++oy) {
        for (int ox = across.x; ox < across.y; ++ox) {
            const float given = get(gradient, ivec4(ox, oy, at.zw), TYPE_A);
            if (IS_MAX == 0) {
                total += given / args.f[0];
            } else if (wins(image, window(0, ox, image.extent.x), window(1, oy, image.extent.y), at)) {
                total += given;
            }
        }
    }
    return total;
}

void main() {
    const uint i = element_number();
    if (i >= args.count) return;
    const ivec4 at = unravel(i, args.y.extent);
    const float value = FUNCTION == POOL_1D ? pool_1d(at) : FUNCTION == POOL_2D ? pool_2d(at) : pool_2d_back(at);
    put(args.y, at, value, TYPE_Y);
}
