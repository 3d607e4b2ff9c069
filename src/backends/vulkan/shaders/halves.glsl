// Operands of products as half floats; included behind products.glsl.

// Eight halves; what is too large for one becomes the largest.
uvec4 pack_halves(float v[8]) {
    [[unroll]] for (int j = 0; j < 8; ++j) v[j] = clamp(v[j], -65504.0, 65504.0);
    return uvec4(packHalf2x16(vec2(v[0], v[1])), packHalf2x16(vec2(v[2], v[3])),
                 packHalf2x16(vec2(v[4], v[5])), packHalf2x16(vec2(v[6], v[7])));
}

// The last two bytes of four, each plus `origin`, times `d`. 1024 plus a byte is the half whose last
// bits are the byte: nothing has to be converted.
uint scale_bytes(uint bytes, float16_t origin, f16vec2 d) {
    return packFloat2x16((unpackFloat2x16((bytes & 0xffu) | (bytes & 0xff00u) << 8 | 0x64006400u) - f16vec2(origin)) * d);
}

uvec4 scale_bytes(uvec2 bytes, float16_t origin, uint d) {
    const f16vec2 both = unpackFloat2x16(d | d << 16);
    return uvec4(scale_bytes(bytes.x, origin, both), scale_bytes(bytes.x >> 16, origin, both),
                 scale_bytes(bytes.y, origin, both), scale_bytes(bytes.y >> 16, origin, both));
}

// Eight elements of a row of weights as halves, as load_weights has them.
uvec4 load_weight_halves(int type, int vectors, Operand a, uint64_t row, int k, uint64_t books) {
    if (type == TYPE_Q4_0) {
        const uint64_t block = row + uint64_t(k / 32 * 18);
        return scale_bytes(nibbles(type, block + 2, k % 32), float16_t(1032), load16(block));
    }
    if (type == TYPE_Q8_0) {
        const uint64_t block = row + uint64_t(k / 32 * 34);
        return scale_bytes(load64_even(block + (2 + k % 32)) ^ 0x80808080u, float16_t(1152), load16(block));
    }
    if (type == TYPE_F16 && (vectors & WEIGHT_VECTORS) != 0) return Quads(row + uint64_t(k * 2)).v;
    float w[8];
    load_weights(type, vectors, a, row, k, books, w);
    return pack_halves(w);
}

uvec4 load_activation_halves(int type, int vectors, Operand b, uint64_t row, int k) {
    if (type == TYPE_F16 && (vectors & ACTIVATION_VECTORS) != 0) return Quads(row + uint64_t(k * 2)).v;
    float x[8];
    load_activations(type, vectors, b, row, k, x);
    return pack_halves(x);
}

// What is read of sixteen weights of a row before it is made halves of, when it has come: elements k to
// k + 7 and k + 16 to k + 23 of a group of 32, which in blocks of four bits share bytes.
struct RawWeights {
    uvec4 low, high;
};

// What is read of sixteen activations, likewise.
struct RawActivations {
    uvec4 quads[4];
};

struct HalfParts {
    uvec4 low, high;
};

RawWeights read_weights(int type, int vectors, Operand a, uint64_t row, int k, uint64_t books) {
    RawWeights raw;
    if (type == TYPE_Q4_0) {
        const uint64_t block = row + uint64_t(k / 32 * 18);
        raw.low = uvec4(load64_even(block + (2 + k % 32)), load16(block), 0u);
    } else if (type == TYPE_Q8_0) {
        const uint64_t block = row + uint64_t(k / 32 * 34);
        raw.low = uvec4(load64_even(block + (2 + k % 32)), load64_even(block + (18 + k % 32)));
        raw.high.x = load16(block);
    } else {
        raw.low = load_weight_halves(type, vectors, a, row, k, books);
        raw.high = load_weight_halves(type, vectors, a, row, k + 16, books);
    }
    return raw;
}

HalfParts halves_of(int type, RawWeights raw) {
    if (type == TYPE_Q4_0) {
        return HalfParts(scale_bytes(raw.low.xy & 0x0f0f0f0fu, float16_t(1032), raw.low.z),
                         scale_bytes(raw.low.xy >> 4 & 0x0f0f0f0fu, float16_t(1032), raw.low.z));
    }
    if (type == TYPE_Q8_0) {
        return HalfParts(scale_bytes(raw.low.xy ^ 0x80808080u, float16_t(1152), raw.high.x),
                         scale_bytes(raw.low.zw ^ 0x80808080u, float16_t(1152), raw.high.x));
    }
    return HalfParts(raw.low, raw.high);
}

RawActivations read_activations(int type, int vectors, Operand b, uint64_t row, int k) {
    RawActivations raw;
    if (type == TYPE_F32 && (vectors & ACTIVATION_VECTORS) != 0) {
        [[unroll]] for (int n = 0; n < 4; ++n) raw.quads[n] = Quads(row + uint64_t((k + n / 2 * 16 + n % 2 * 4) * 4)).v;
    } else {
        raw.quads[0] = load_activation_halves(type, vectors, b, row, k);
        raw.quads[1] = load_activation_halves(type, vectors, b, row, k + 16);
    }
    return raw;
}

uvec4 pack_quads(uvec4 first, uvec4 second) {
    const vec4 a = clamp(uintBitsToFloat(first), -65504.0, 65504.0), b = clamp(uintBitsToFloat(second), -65504.0, 65504.0);
    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), packHalf2x16(b.zw));
}

HalfParts halves_of(int type, int vectors, RawActivations raw) {
    if (type == TYPE_F32 && (vectors & ACTIVATION_VECTORS) != 0) {
        return HalfParts(pack_quads(raw.quads[0], raw.quads[1]), pack_quads(raw.quads[2], raw.quads[3]));
    }
    return HalfParts(raw.quads[0], raw.quads[1]);
}
