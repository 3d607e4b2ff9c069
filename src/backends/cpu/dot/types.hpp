#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "backends/cpu/dot/convert.hpp"
#include "core/type.hpp"

/// The types of weights, a row for each. Every list of types that products need is made from these.
namespace heddle::cpu {

/// Types that are unpacked and multiplied alike.
enum class Family {
    plain,   ///< numbers
    simple,  ///< blocks of 32 to 128 elements with scales of their own
    k,       ///< super-blocks of 256 elements, evenly spaced levels (and iq4_xs)
    grid,    ///< super-blocks that name rows of a codebook
};

struct TypeRow {
    Type type;
    Family family;
    Type dot_type;  ///< what columns are rounded to

    /// Null: the codec's own; grid formats are too slow to encode to be offered.
    void (*encode)(const float* from, void* to, std::int64_t n) = nullptr;
};

/// A block format besides has a header in dot/formats, `BlockFormat<type>`.
inline constexpr TypeRow kTypeRows[] = {
    {GGML_TYPE_F32, Family::plain, GGML_TYPE_F32, copy_f32_row},
    {GGML_TYPE_F16, Family::plain, GGML_TYPE_F16, f32_to_f16_row},
    {GGML_TYPE_BF16, Family::plain, GGML_TYPE_BF16, f32_to_bf16_row},

    {GGML_TYPE_Q1_0, Family::simple, GGML_TYPE_Q8_0},
    {GGML_TYPE_Q2_0, Family::simple, GGML_TYPE_Q8_0},
    {GGML_TYPE_Q4_0, Family::simple, GGML_TYPE_Q8_0, encode_q4_0_row},
    {GGML_TYPE_Q4_1, Family::simple, GGML_TYPE_Q8_1, encode_q4_1_row},
    {GGML_TYPE_Q5_0, Family::simple, GGML_TYPE_Q8_0, encode_q5_0_row},
    {GGML_TYPE_Q5_1, Family::simple, GGML_TYPE_Q8_1, encode_q5_1_row},
    {GGML_TYPE_Q8_0, Family::simple, GGML_TYPE_Q8_0, encode_q8_0_row},
    {GGML_TYPE_IQ4_NL, Family::simple, GGML_TYPE_Q8_0, encode_iq4_nl_row},
    {GGML_TYPE_MXFP4, Family::simple, GGML_TYPE_Q8_0},
    {GGML_TYPE_NVFP4, Family::simple, GGML_TYPE_Q8_0},

    {GGML_TYPE_Q2_K, Family::k, GGML_TYPE_Q8_K},
    {GGML_TYPE_Q3_K, Family::k, GGML_TYPE_Q8_K},
    {GGML_TYPE_Q4_K, Family::k, GGML_TYPE_Q8_K},
    {GGML_TYPE_Q5_K, Family::k, GGML_TYPE_Q8_K},
    {GGML_TYPE_Q6_K, Family::k, GGML_TYPE_Q8_K},
    {GGML_TYPE_IQ4_XS, Family::k, GGML_TYPE_Q8_K},
    {GGML_TYPE_TQ1_0, Family::k, GGML_TYPE_Q8_K},
    {GGML_TYPE_TQ2_0, Family::k, GGML_TYPE_Q8_K},

    {GGML_TYPE_IQ1_S, Family::grid, GGML_TYPE_Q8_K},
    {GGML_TYPE_IQ1_M, Family::grid, GGML_TYPE_Q8_K},
    {GGML_TYPE_IQ2_XXS, Family::grid, GGML_TYPE_Q8_K},
    {GGML_TYPE_IQ2_XS, Family::grid, GGML_TYPE_Q8_K},
    {GGML_TYPE_IQ2_S, Family::grid, GGML_TYPE_Q8_K},
    {GGML_TYPE_IQ3_XXS, Family::grid, GGML_TYPE_Q8_K},
    {GGML_TYPE_IQ3_S, Family::grid, GGML_TYPE_Q8_K},
};

/// `make.operator()<type>()`, if `type` is of one of the families; else a default Result.
template <class Result, Family... kFamilies>
struct ByType {
    template <std::size_t kRow = 0, class Make>
    static Result find(Type type, Make make) {
        if constexpr (kRow < std::size(kTypeRows)) {
            constexpr TypeRow kThis = kTypeRows[kRow];
            if constexpr (((kThis.family == kFamilies) || ...)) {
                if (kThis.type == type) return make.template operator()<kThis.type>();
            }
            return find<kRow + 1>(type, make);
        } else {
            return {};
        }
    }
};

/// What is there for each type: `find_by_type<Result, families...>(type, []<Type kType>() {...})`.
template <class Result, Family... kFamilies, class Make>
Result find_by_type(Type type, Make make) {
    return ByType<Result, kFamilies...>::find(type, make);
}

}  // namespace heddle::cpu
