#pragma once

#include "backends/cuda/formats/fp4.cuh"
#include "backends/cuda/formats/nonlinear.cuh"

/// Plain encoders of the formats that caches and copies are written in: 32 floats of one thread to
/// one block. The bytes are those of `quant`'s plain encoders.
namespace heddle::cuda {

template <ggml_type kType>
struct Encoder;  ///< static void encode(const float (&x)[32], std::uint8_t* block)

HEDDLE_HD void store16(std::uint8_t* p, unsigned value) {
    *reinterpret_cast<std::uint16_t*>(p) = static_cast<std::uint16_t>(value);
}

HEDDLE_HD float magnitude(float v) { return bits_to_float(float_to_bits(v) & 0x7fffffffu); }

/// The element of largest magnitude, with its sign; the first one where several are equal.
HEDDLE_HD float extreme_of(const float (&x)[32]) {
    float largest = 0, extreme = 0;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        if (magnitude(x[i]) > largest) {
            largest = magnitude(x[i]);
            extreme = x[i];
        }
    }
    return extreme;
}

/// 1 / d, and 0 for the scale of a block of zeros.
HEDDLE_HD float inverse(float d) { return d != 0 ? 1.0f / d : 0.0f; }

/// `v` cut down to an integer in [low, high]; a NaN gives `low`.
HEDDLE_HD int truncate_to(float v, int low, int high) {
    const float least = static_cast<float>(low), most = static_cast<float>(high);
    const float bounded = v > least ? v : least;
    return static_cast<int>(bounded < most ? bounded : most);
}

/// The nearest integer, ties away from zero, held within [low, high]; a NaN gives `low`.
HEDDLE_HD int round_away_to(float v, int low, int high) {
    const float half = bits_to_float(0x3effffffu | (float_to_bits(v) & 0x80000000u));
    return truncate_to(add(v, half), low, high);
}

/// Codes j and j + 16 share a byte.
HEDDLE_HD void store_nibbles(const int (&codes)[32], std::uint8_t* to) {
#pragma unroll
    for (int j = 0; j < 16; j += 2) {
        const int low = (codes[j] & 15) | (codes[j + 16] & 15) << 4;
        const int high = (codes[j + 1] & 15) | (codes[j + 17] & 15) << 4;
        store16(to + j, static_cast<unsigned>(low | high << 8));
    }
}

/// The fifth bits, in the order of elements.
HEDDLE_HD void store_high_bits(const int (&codes)[32], std::uint8_t* to) {
    std::uint32_t bits = 0;
#pragma unroll
    for (int j = 0; j < 32; ++j) bits |= static_cast<std::uint32_t>(codes[j] >> 4 & 1) << j;
    store16(to, bits & 0xffffu);
    store16(to + 2, bits >> 16);
}

/// Codes of levels around zero; the extreme element has code 0. Returns the scale.
HEDDLE_HD float encode_symmetric(const float (&x)[32], int levels, int (&codes)[32]) {
    const float half = static_cast<float>(levels) * 0.5f;
    const float d = extreme_of(x) / -half, r = inverse(d);
#pragma unroll
    for (int j = 0; j < 32; ++j)
        codes[j] = truncate_to(add(mul(x[j], r), half + 0.5f), 0, levels - 1);
    return d;
}

template <>
struct Encoder<GGML_TYPE_Q4_0> {
    HEDDLE_HD static void encode(const float (&x)[32], std::uint8_t* block) {
        int codes[32];
        store16(block, float_to_half_bits(encode_symmetric(x, 16, codes)));
        store_nibbles(codes, block + 2);
    }
};

template <>
struct Encoder<GGML_TYPE_Q5_0> {
    HEDDLE_HD static void encode(const float (&x)[32], std::uint8_t* block) {
        int codes[32];
        store16(block, float_to_half_bits(encode_symmetric(x, 32, codes)));
        store_high_bits(codes, block + 2);
        store_nibbles(codes, block + 6);
    }
};

/// Codes of levels from the minimum up; stores scale and minimum.
HEDDLE_HD void encode_affine(const float (&x)[32], int max_code, int (&codes)[32],
                             std::uint8_t* block) {
    float low = x[0], high = x[0];
#pragma unroll
    for (int j = 1; j < 32; ++j) {
        low = x[j] < low ? x[j] : low;
        high = high < x[j] ? x[j] : high;
    }
    const float d = sub(high, low) / static_cast<float>(max_code), r = inverse(d);
#pragma unroll
    for (int j = 0; j < 32; ++j)
        codes[j] = truncate_to(add(mul(sub(x[j], low), r), 0.5f), 0, max_code);
    store16(block, float_to_half_bits(d));
    store16(block + 2, float_to_half_bits(low));
}

template <>
struct Encoder<GGML_TYPE_Q4_1> {
    HEDDLE_HD static void encode(const float (&x)[32], std::uint8_t* block) {
        int codes[32];
        encode_affine(x, 15, codes, block);
        store_nibbles(codes, block + 4);
    }
};

template <>
struct Encoder<GGML_TYPE_Q5_1> {
    HEDDLE_HD static void encode(const float (&x)[32], std::uint8_t* block) {
        int codes[32];
        encode_affine(x, 31, codes, block);
        store_high_bits(codes, block + 4);
        store_nibbles(codes, block + 8);
    }
};

template <>
struct Encoder<GGML_TYPE_Q8_0> {
    HEDDLE_HD static void encode(const float (&x)[32], std::uint8_t* block) {
        const float d = magnitude(extreme_of(x)) / 127.0f, r = inverse(d);
        store16(block, float_to_half_bits(d));
#pragma unroll
        for (int j = 0; j < 32; j += 2) {
            const int low = round_away_to(mul(x[j], r), -127, 127);
            const int high = round_away_to(mul(x[j + 1], r), -127, 127);
            store16(block + 2 + j, static_cast<unsigned>((low & 255) | (high & 255) << 8));
        }
    }
};

/// The code of the level nearest to v; of two as near the upper one.
HEDDLE_HD int nearest_nonlinear_code(float v) {
    int code = 0;
#pragma unroll
    for (int upper = 1; upper < 16; ++upper) {
        const float middle =
            0.5f * static_cast<float>(nonlinear_level(upper - 1) + nonlinear_level(upper));
        code += v >= middle ? 1 : 0;
    }
    return code;
}

template <>
struct Encoder<GGML_TYPE_IQ4_NL> {
    /// One guess: the extreme element at level -127, then the scale that suits the codes.
    HEDDLE_HD static void encode(const float (&x)[32], std::uint8_t* block) {
        const float extreme = extreme_of(x);
        const bool is_nothing = magnitude(extreme) < 1e-15f;
        const float r = is_nothing ? 0.0f : 1.0f / (extreme / -127.0f);
        int codes[32];
        float along = 0, square = 0;
#pragma unroll
        for (int j = 0; j < 32; ++j) {
            codes[j] = is_nothing ? 0 : nearest_nonlinear_code(mul(r, x[j]));
            const auto level = static_cast<float>(nonlinear_level(codes[j]));
            const float weighed = mul(mul(x[j], x[j]), level);
            along = add(along, mul(weighed, x[j]));
            square = add(square, mul(weighed, level));
        }
        const float d = !is_nothing && square > 0 ? along / square : 0.0f;
        store16(block, float_to_half_bits(d));
        store_nibbles(codes, block + 2);
    }
};

template <>
struct Encoder<GGML_TYPE_MXFP4> {
    HEDDLE_HD static void encode(const float (&x)[32], std::uint8_t* block) {
        const int exponent = static_cast<int>(float_to_bits(magnitude(extreme_of(x))) >> 23) - 2;
        block[0] = static_cast<std::uint8_t>(exponent < 0 ? 0 : exponent);
        const float d = e8m0_to_float_half(block[0]);
#pragma unroll
        for (int j = 0; j < 16; ++j)
            block[1 + j] = static_cast<std::uint8_t>(nearest(x[j], d) | nearest(x[j + 16], d) << 4);
    }

private:
    /// Of equals the lower code, so -0 is never chosen.
    HEDDLE_HD static int nearest(float value, float d) {
        int code = 0;
        float least = magnitude(value);
#pragma unroll
        for (int c = 1; c < 16; ++c) {
            const float error = magnitude(sub(mul(doubled_e2m1(c), d), value));
            if (error < least) {
                least = error;
                code = c;
            }
        }
        return code;
    }
};

/// Calls `body(Encoder<type>{})` and says whether there is such an encoder.
template <class Body>
bool dispatch_encoder(ggml_type type, Body&& body) {
    switch (type) {
        case GGML_TYPE_Q4_0:
            return body(Encoder<GGML_TYPE_Q4_0>{}), true;
        case GGML_TYPE_Q4_1:
            return body(Encoder<GGML_TYPE_Q4_1>{}), true;
        case GGML_TYPE_Q5_0:
            return body(Encoder<GGML_TYPE_Q5_0>{}), true;
        case GGML_TYPE_Q5_1:
            return body(Encoder<GGML_TYPE_Q5_1>{}), true;
        case GGML_TYPE_Q8_0:
            return body(Encoder<GGML_TYPE_Q8_0>{}), true;
        case GGML_TYPE_IQ4_NL:
            return body(Encoder<GGML_TYPE_IQ4_NL>{}), true;
        case GGML_TYPE_MXFP4:
            return body(Encoder<GGML_TYPE_MXFP4>{}), true;
        default:
            return false;
    }
}

/// Whether kernels can encode the type.
inline bool has_encoder(ggml_type type) {
    return dispatch_encoder(type, [](auto) {});
}

}  // namespace heddle::cuda
