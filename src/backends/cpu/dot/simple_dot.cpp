#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/simple_dot.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/block_dot.hpp"
#include "backends/cpu/dot/levels.hpp"
#include "quant/small_floats.hpp"

/// Formats with one scale for 16 or 32 elements, multiplied by q8_0 or q8_1.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace {

template <class B, int kCount>
struct WithQ8_0 {
    using Block = B;
    using Other = block_q8_0;
    static constexpr int kElements = kCount;
    static constexpr int kGroup = 32;
    static constexpr bool kHasMinimum = false;

    static float scale(const Block& block, int) { return half_to_float(block.d); }
};

template <class B>
struct WithQ8_1 : WithQ8_0<B, 32> {
    using Other = block_q8_1;
    static constexpr bool kHasMinimum = true;
};

struct Q1_0 : WithQ8_0<block_q1_0, QK1_0> {
    static void unpack(const Block& block, std::int16_t* HWY_RESTRICT codes) {
        constexpr std::uint8_t kBit[8] = {1, 2, 4, 8, 16, 32, 64, 128};
        for (int i = 0; i < QK1_0; i += 8) {
            for (int j = 0; j < 8; ++j) codes[i + j] = (block.qs[i / 8] & kBit[j]) != 0 ? 1 : -1;
        }
    }
};

struct Q2_0 : WithQ8_0<block_q2_0, QK2_0> {
    static void unpack(const Block& block, std::int16_t* HWY_RESTRICT codes) {
        for (int i = 0; i < QK2_0; i += 4) {
            const int byte = block.qs[i / 4];
            for (int j = 0; j < 4; ++j) {
                codes[i + j] = static_cast<std::int16_t>((byte >> 2 * j & 3) - 1);
            }
        }
    }
};

/// Bytes that hold elements j and j + 16, less `middle`.
HWY_INLINE void unpack_nibbles(const std::uint8_t (&bytes)[16], int middle,
                               std::int16_t* HWY_RESTRICT codes) {
    for (int j = 0; j < 16; ++j) codes[j] = static_cast<std::int16_t>((bytes[j] & 15) - middle);
    for (int j = 0; j < 16; ++j) {
        codes[j + 16] = static_cast<std::int16_t>((bytes[j] >> 4) - middle);
    }
}

/// Adds 16 where the bit of the element is set.
HWY_INLINE void add_fifth_bits(const std::uint8_t (&bits)[4], std::int16_t* HWY_RESTRICT codes) {
    constexpr std::int16_t kBit[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    for (int i = 0; i < 32; i += 8) {
        const std::int16_t byte = bits[i / 8];
        for (int j = 0; j < 8; ++j) {
            codes[i + j] = static_cast<std::int16_t>(codes[i + j] + ((byte & kBit[j]) != 0 ? 16 : 0));
        }
    }
}

struct Q4_0 : WithQ8_0<block_q4_0, QK4_0> {
    static void unpack(const Block& block, std::int16_t* HWY_RESTRICT codes) {
        unpack_nibbles(block.qs, 8, codes);
    }
};

struct Q5_0 : WithQ8_0<block_q5_0, QK5_0> {
    static void unpack(const Block& block, std::int16_t* HWY_RESTRICT codes) {
        unpack_nibbles(block.qs, 16, codes);
        add_fifth_bits(block.qh, codes);
    }
};

struct Q8_0 : WithQ8_0<block_q8_0, QK8_0> {
    static void unpack(const Block& block, std::int16_t* HWY_RESTRICT codes) {
        for (int i = 0; i < QK8_0; ++i) codes[i] = block.qs[i];
    }
};

struct Q4_1 : WithQ8_1<block_q4_1> {
    static void unpack(const Block& block, std::int16_t* HWY_RESTRICT codes) {
        unpack_nibbles(block.qs, 0, codes);
    }
};

struct Q5_1 : WithQ8_1<block_q5_1> {
    static void unpack(const Block& block, std::int16_t* HWY_RESTRICT codes) {
        unpack_nibbles(block.qs, 0, codes);
        add_fifth_bits(block.qh, codes);
    }
};

struct Iq4Nl : WithQ8_0<block_iq4_nl, QK4_NL> {
    static void unpack(const Block& block, std::int16_t* HWY_RESTRICT codes) {
        look_up_nibbles<16>(kNonlinearLevels, block.qs, codes);
    }
};

struct Mxfp4 : WithQ8_0<block_mxfp4, QK_MXFP4> {
    static float scale(const Block& block, int) { return quant::e8m0_to_f32_half(block.e); }

    static void unpack(const Block& block, std::int16_t* HWY_RESTRICT codes) {
        look_up_nibbles<16>(kFp4Levels, block.qs, codes);
    }
};

struct Nvfp4 : WithQ8_0<block_nvfp4, QK_NVFP4> {
    static constexpr int kGroup = QK_NVFP4_SUB;

    static float scale(const Block& block, int group) {
        return quant::ue4m3_to_f32_half(block.d[group]);
    }

    static void unpack(const Block& block, std::int16_t* HWY_RESTRICT codes) {
        for (int group = 0; group < QK_NVFP4 / QK_NVFP4_SUB; ++group) {
            look_up_nibbles<8>(kFp4Levels, block.qs + 8 * group, codes + 16 * group);
        }
    }
};

constexpr DotEntry kEntries[] = {
    {GGML_TYPE_Q1_0, dot_simple_columns<Q1_0>},     {GGML_TYPE_Q2_0, dot_simple_columns<Q2_0>},
    {GGML_TYPE_Q4_0, dot_simple_columns<Q4_0>},     {GGML_TYPE_Q4_1, dot_simple_columns<Q4_1>},
    {GGML_TYPE_Q5_0, dot_simple_columns<Q5_0>},     {GGML_TYPE_Q5_1, dot_simple_columns<Q5_1>},
    {GGML_TYPE_Q8_0, dot_simple_columns<Q8_0>},     {GGML_TYPE_IQ4_NL, dot_simple_columns<Iq4Nl>},
    {GGML_TYPE_MXFP4, dot_simple_columns<Mxfp4>},   {GGML_TYPE_NVFP4, dot_simple_columns<Nvfp4>},
};

}  // namespace

DotColumns simple_dot(Type type) { return find_dot(kEntries, type); }

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(simple_dot);

DotColumns simple_dot_of(Type type) { return HWY_DYNAMIC_DISPATCH(simple_dot)(type); }

}  // namespace heddle::cpu
#endif
