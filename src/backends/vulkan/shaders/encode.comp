#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "faults.glsl"
#include "formats.glsl"

// Plain numbers to blocks of 32, one block for an invocation: CPY, and SET_ROWS where indices say
// which rows. The bytes are those of the plain encoders of `quant`, so nothing may be contracted.
layout(constant_id = 1) const int TYPE_X = TYPE_F32;
layout(constant_id = 2) const int TYPE_Y = TYPE_Q8_0;
layout(constant_id = 3) const int SCATTERS = 0;

float x[32];
int codes[32];

// The element of largest magnitude, with its sign; the first one where several are equal.
float extreme() {
    float largest = 0, found = 0;
    for (int i = 0; i < 32; ++i) {
        if (abs(x[i]) > largest) {
            largest = abs(x[i]);
            found = x[i];
        }
    }
    return found;
}

float inverse_of(float d) { return d != 0 ? 1 / d : 0.0; }

// Cut down to an integer in [low, high]; a NaN gives `low`.
int truncate_to(float v, int low, int high) {
    const float bounded = v > float(low) ? v : float(low);
    return int(bounded < float(high) ? bounded : float(high));
}

void store_nibbles(uint64_t to) {
    for (int j = 0; j < 16; j += 2) {
        const int low = (codes[j] & 15) | (codes[j + 16] & 15) << 4;
        const int high = (codes[j + 1] & 15) | (codes[j + 17] & 15) << 4;
        store16(to + j, uint(low | high << 8));
    }
}

void store_high_bits(uint64_t to) {
    uint bits = 0u;
    for (int j = 0; j < 32; ++j) bits |= uint(codes[j] >> 4 & 1) << j;
    store16(to, bits & 0xffffu);
    store16(to + 2, bits >> 16);
}

// Levels around zero; the extreme element has code 0.
void encode_symmetric(uint64_t block, int levels) {
    const float middle = float(levels) * 0.5;
    precise float d = extreme() / -middle;
    precise float r = inverse_of(d);
    for (int j = 0; j < 32; ++j) {
        precise float scaled = x[j] * r;
        precise float moved = scaled + (middle + 0.5);
        codes[j] = truncate_to(moved, 0, levels - 1);
    }
    store16(block, float_to_half(d));
    if (levels == 32) store_high_bits(block + 2);
    store_nibbles(block + (levels == 32 ? 6 : 2));
}

// Levels from the minimum up.
void encode_affine(uint64_t block, int max_code) {
    float low = x[0], high = x[0];
    for (int j = 1; j < 32; ++j) {
        low = x[j] < low ? x[j] : low;
        high = high < x[j] ? x[j] : high;
    }
    precise float d = (high - low) / float(max_code);
    precise float r = inverse_of(d);
    for (int j = 0; j < 32; ++j) {
        precise float scaled = (x[j] - low) * r;
        precise float moved = scaled + 0.5;
        codes[j] = truncate_to(moved, 0, max_code);
    }
    store16(block, float_to_half(d));
    store16(block + 2, float_to_half(low));
    if (max_code == 31) store_high_bits(block + 4);
    store_nibbles(block + (max_code == 31 ? 8 : 4));
}

// The nearest integer, ties away from zero.
int round_away_to(float v, int low, int high) {
    const float nudge = uintBitsToFloat(0x3effffffu | (floatBitsToUint(v) & 0x80000000u));
    precise float moved = v + nudge;
    return truncate_to(moved, low, high);
}

void encode_q8_0(uint64_t block) {
    precise float d = abs(extreme()) / 127.0;
    precise float r = inverse_of(d);
    store16(block, float_to_half(d));
    for (int j = 0; j < 32; j += 2) {
        precise float first = x[j] * r;
        precise float second = x[j + 1] * r;
        const int low = round_away_to(first, -127, 127), high = round_away_to(second, -127, 127);
        store16(block + (2 + j), uint((low & 255) | (high & 255) << 8));
    }
}

// The code of the level nearest to v; of two as near the upper one.
int nearest_nonlinear_code(float v) {
    int code = 0;
    for (int upper = 1; upper < 16; ++upper) {
        code += v >= 0.5 * float(nonlinear_level(upper - 1) + nonlinear_level(upper)) ? 1 : 0;
    }
    return code;
}

// One guess: the extreme element at level -127, then the scale that suits the codes.
void encode_iq4_nl(uint64_t block) {
    const float found = extreme();
    const bool is_nothing = abs(found) < 1e-15;
    precise float r = is_nothing ? 0.0 : 1 / (found / -127.0);
    precise float along = 0;
    precise float square = 0;
    for (int j = 0; j < 32; ++j) {
        precise float scaled = r * x[j];
        codes[j] = is_nothing ? 0 : nearest_nonlinear_code(scaled);
        const float level = float(nonlinear_level(codes[j]));
        precise float weighed = x[j] * x[j] * level;
        precise float first = weighed * x[j];
        precise float second = weighed * level;
        along += first;
        square += second;
    }
    precise float d = !is_nothing && square > 0 ? along / square : 0.0;
    store16(block, float_to_half(d));
    store_nibbles(block + 2);
}

// Of equals the lower code, so -0 is never chosen.
uint nearest_e2m1(float value, float d) {
    uint code = 0u;
    float least = abs(value);
    for (uint c = 1u; c < 16u; ++c) {
        precise float error = abs(doubled_e2m1(c) * d - value);
        if (error < least) {
            least = error;
            code = c;
        }
    }
    return code;
}

void encode_mxfp4(uint64_t block) {
    const int exponent = int(floatBitsToUint(abs(extreme())) >> 23) - 2;
    const uint scale = uint(max(exponent, 0));
    const float d = e8m0_to_float_half(scale);
    store8(block, scale);
    for (int j = 0; j < 16; ++j) {
        store8(block + (1 + j), nearest_e2m1(x[j], d) | nearest_e2m1(x[j + 16], d) << 4);
    }
}

void encode(uint64_t block) {
    switch (TYPE_Y) {
        case TYPE_Q4_0: encode_symmetric(block, 16); break;
        case TYPE_Q5_0: encode_symmetric(block, 32); break;
        case TYPE_Q4_1: encode_affine(block, 15); break;
        case TYPE_Q5_1: encode_affine(block, 31); break;
        case TYPE_Q8_0: encode_q8_0(block); break;
        case TYPE_IQ4_NL: encode_iq4_nl(block); break;
        default: encode_mxfp4(block);
    }
}

void main() {
    const uint i = element_number();
    if (i >= args.count) return;
    const Operand from = args.src[0], y = args.y;
    ivec4 to = unravel(i, y.extent);
    if (SCATTERS != 0) {
        const Operand indices = args.src[1];
        const ivec4 at = unravel(i, ivec4(y.extent.x, from.extent.yzw));
        const int row = get_index(indices, ivec4(at.y, at.z % indices.extent.y, at.w % indices.extent.z, 0));
        if (!is_inside(row, y.extent.y)) return;
        for (int j = 0; j < 32; ++j) x[j] = get(from, ivec4(32 * at.x + j, at.yzw), TYPE_X);
        to = ivec4(at.x, row, at.zw);
    } else {
        for (int j = 0; j < 32; ++j) x[j] = get(from, unravel(32u * i + uint(j), from.extent), TYPE_X);
    }
    encode(address(y, to));
}
