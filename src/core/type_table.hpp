#pragma once

#include <array>

#include "core/type.hpp"

/// The list of types itself, for code that must not even pay for a call of `type_info`.
namespace heddle::detail {

constexpr auto make_type_table() {
    std::array<TypeInfo, GGML_TYPE_COUNT> table{};
    const auto plain = [&](Type type, const char* name, std::size_t bytes) {
        table[type] = {name, 1, bytes, false};
    };
    const auto blocks = [&](Type type, const char* name, std::int64_t block, std::size_t bytes) {
        if ((block & (block - 1)) != 0) throw "blocks must be powers of two";
        table[type] = {name, block, bytes, true};
    };
    // A removed type keeps its number and says what to use instead.
    const auto removed = [&](int number, const char* name) { table[number].name = name; };

    plain(GGML_TYPE_F32, "f32", 4);
    plain(GGML_TYPE_F16, "f16", 2);
    plain(GGML_TYPE_BF16, "bf16", 2);
    plain(GGML_TYPE_F64, "f64", 8);
    plain(GGML_TYPE_I8, "i8", 1);
    plain(GGML_TYPE_I16, "i16", 2);
    plain(GGML_TYPE_I32, "i32", 4);
    plain(GGML_TYPE_I64, "i64", 8);

    blocks(GGML_TYPE_Q1_0, "q1_0", 128, 18);
    blocks(GGML_TYPE_Q2_0, "q2_0", 64, 18);
    blocks(GGML_TYPE_Q4_0, "q4_0", 32, 18);
    blocks(GGML_TYPE_Q4_1, "q4_1", 32, 20);
    blocks(GGML_TYPE_Q5_0, "q5_0", 32, 22);
    blocks(GGML_TYPE_Q5_1, "q5_1", 32, 24);
    blocks(GGML_TYPE_Q8_0, "q8_0", 32, 34);
    blocks(GGML_TYPE_Q8_1, "q8_1", 32, 36);
    blocks(GGML_TYPE_MXFP4, "mxfp4", 32, 17);
    blocks(GGML_TYPE_NVFP4, "nvfp4", 64, 36);
    blocks(GGML_TYPE_Q2_K, "q2_K", 256, 84);
    blocks(GGML_TYPE_Q3_K, "q3_K", 256, 110);
    blocks(GGML_TYPE_Q4_K, "q4_K", 256, 144);
    blocks(GGML_TYPE_Q5_K, "q5_K", 256, 176);
    blocks(GGML_TYPE_Q6_K, "q6_K", 256, 210);
    blocks(GGML_TYPE_Q8_K, "q8_K", 256, 292);
    blocks(GGML_TYPE_TQ1_0, "tq1_0", 256, 54);
    blocks(GGML_TYPE_TQ2_0, "tq2_0", 256, 66);
    blocks(GGML_TYPE_IQ1_S, "iq1_s", 256, 50);
    blocks(GGML_TYPE_IQ1_M, "iq1_m", 256, 56);
    blocks(GGML_TYPE_IQ2_XXS, "iq2_xxs", 256, 66);
    blocks(GGML_TYPE_IQ2_XS, "iq2_xs", 256, 74);
    blocks(GGML_TYPE_IQ2_S, "iq2_s", 256, 82);
    blocks(GGML_TYPE_IQ3_XXS, "iq3_xxs", 256, 98);
    blocks(GGML_TYPE_IQ3_S, "iq3_s", 256, 110);
    blocks(GGML_TYPE_IQ4_NL, "iq4_nl", 32, 18);
    blocks(GGML_TYPE_IQ4_XS, "iq4_xs", 256, 136);

    removed(4, "DEPRECATED");
    removed(5, "DEPRECATED");
    removed(31, "TYPE_Q4_0_4_4 REMOVED, use Q4_0 with runtime repacking");
    removed(32, "TYPE_Q4_0_4_8 REMOVED, use Q4_0 with runtime repacking");
    removed(33, "TYPE_Q4_0_8_8 REMOVED, use Q4_0 with runtime repacking");
    removed(36, "TYPE_IQ4_NL_4_4 REMOVED, use IQ4_NL with runtime repacking");
    removed(37, "TYPE_IQ4_NL_4_8 REMOVED, use IQ4_NL with runtime repacking");
    removed(38, "TYPE_IQ4_NL_8_8 REMOVED, use IQ4_NL with runtime repacking");
    return table;
}

inline constexpr auto kTypes = make_type_table();
inline constexpr TypeInfo kNoType{"unknown type", 0, 0, false};

inline const TypeInfo& find_type(Type type) {
    const auto number = static_cast<unsigned>(type);
    return number < kTypes.size() ? kTypes[number] : kNoType;
}

}  // namespace heddle::detail
