#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"

// UPSCALE in all modes. Places of source pixels are divisions in single precision by definition: at
// the borders between pixels the last bit decides, so nothing may be contracted.
layout(constant_id = 1) const int MODE = 0;
layout(constant_id = 2) const int TYPE_X = TYPE_F32;
layout(constant_id = 3) const int TYPE_Y = TYPE_F32;

const int NEAREST = 0, BILINEAR = 1, BICUBIC = 2, ANTIALIASED = 3;

// args.f: 0 .. 3 the factors, 4 the offset of pixel centres.
float factor(int d) { return args.f[d]; }
float offset() { return args.f[4]; }

int inside(int d, int j) { return clamp(j, 0, args.src[0].extent[d] - 1); }

// GLSL's division may be off by a unit in the last place; one step mends it.
float divide(float a, float b) {
    precise float q = a / b;
    precise float rest = fma(-q, b, a);
    precise float mended = fma(rest, 1 / b, q);
    return mended;
}

int nearest(int d, int i) { return inside(d, int(divide(float(i), factor(d)))); }

// Before the offset is taken off again.
float centre(int d, int i) {
    precise float moved = float(i) + offset();
    return divide(moved, factor(d));
}
float place(int d, int i) {
    precise float result = centre(d, i) - offset();
    return result;
}

float pixel(int x, int y, ivec2 far) { return get(args.src[0], ivec4(x, y, far), TYPE_X); }

float bilinear(ivec2 i, ivec2 far) {
    ivec2 low, high;
    vec2 share;
    [[unroll]] for (int d = 0; d < 2; ++d) {
        const float at = place(d, i[d]);
        const int below = int(floor(at));
        low[d] = inside(d, below);
        high[d] = inside(d, below + 1);
        share[d] = clamp(at - float(low[d]), 0.0, 1.0);
    }
    const float top = pixel(low.x, low.y, far) * (1 - share.x) + pixel(high.x, low.y, far) * share.x;
    const float bottom = pixel(low.x, high.y, far) * (1 - share.x) + pixel(high.x, high.y, far) * share.x;
    return top * (1 - share.y) + bottom * share.y;
}

// Triangles as wide as the pixels that fall into one.
float antialiased(ivec2 i, ivec2 far) {
    vec2 middle, reach;
    ivec2 begin, end;
    [[unroll]] for (int d = 0; d < 2; ++d) {
        middle[d] = centre(d, i[d]);
        reach[d] = max(1.0, divide(1, factor(d)));
        precise float low = middle[d] - reach[d];
        precise float high = middle[d] + reach[d];
        precise float first = low + offset();
        precise float last = high + offset();
        begin[d] = max(int(first), 0);
        end[d] = min(int(last), args.src[0].extent[d]);
    }
    float total = 0, weights = 0;
    for (int row = begin.y; row < end.y; ++row) {
        for (int column = begin.x; column < end.x; ++column) {
            const vec2 away = abs((vec2(column, row) - middle + offset()) / reach);
            const float share = max(1 - away.x, 0.0) * max(1 - away.y, 0.0);
            if (share <= 0) continue;
            total += share * pixel(column, row, far);
            weights += share;
        }
    }
    return weights > 0 ? total / weights : 0.0;
}

const float ALPHA = -0.75;
float near_weight(float t) { return ((ALPHA + 2) * t - (ALPHA + 3)) * t * t + 1; }
float far_weight(float t) { return ((ALPHA * t - 5 * ALPHA) * t + 8 * ALPHA) * t - 4 * ALPHA; }

float bicubic(ivec2 i, ivec2 far) {
    ivec2 first;
    vec4 weight[2];
    [[unroll]] for (int d = 0; d < 2; ++d) {
        const float at = place(d, i[d]), t = at - floor(at);
        first[d] = int(floor(at)) - 1;
        weight[d] = vec4(far_weight(t + 1), near_weight(t), near_weight(1 - t), far_weight(2 - t));
    }
    float total = 0;
    [[unroll]] for (int row = 0; row < 4; ++row) {
        float along = 0;
        [[unroll]] for (int column = 0; column < 4; ++column) {
            along += weight[0][column] * pixel(inside(0, first.x + column), inside(1, first.y + row), far);
        }
        total += weight[1][row] * along;
    }
    return total;
}

void main() {
    const uint i = element_number();
    if (i >= args.count) return;
    const ivec4 at = unravel(i, args.y.extent);
    const ivec2 far = ivec2(nearest(2, at.z), nearest(3, at.w));
    float value;
    if (MODE == BICUBIC) {
        value = bicubic(at.xy, far);
    } else if (MODE == NEAREST) {
        value = pixel(nearest(0, at.x), nearest(1, at.y), far);
    } else {
        value = MODE == ANTIALIASED ? antialiased(at.xy, far) : bilinear(at.xy, far);
    }
    put(args.y, at, value, TYPE_Y);
}
