#include "backends/cpu/type_traits.hpp"

#include <array>

#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/dot/dot.hpp"
#include "quant/codec.hpp"

namespace heddle::cpu {
namespace {

/// One dot product; the instruction set is asked for anew at each call, because programs take these
/// pointers before they choose one.
template <Type kType>
void vec_dot(int n, float* result, std::size_t, const void* x, std::size_t, const void* y,
             std::size_t, int) {
    dot_columns_of(kType)(n, x, &y, result, 1);
}

/// `encoder` null: the format's own.
template <Type kType>
ggml_type_traits_cpu row(Type dot_type, ggml_from_float_t encoder = nullptr) {
    const quant::Codec* codec = quant::codec_of(kType);
    const bool wants_importance = codec != nullptr && codec->needs_importance;
    if (encoder == nullptr && codec != nullptr && !wants_importance) encoder = codec->encode;
    return {.from_float = encoder, .vec_dot = vec_dot<kType>, .vec_dot_type = dot_type, .nrows = 1};
}

/// Grid formats are too slow to encode to be offered here.
template <Type kType>
ggml_type_traits_cpu grid_row() {
    return {.from_float = nullptr,
            .vec_dot = vec_dot<kType>,
            .vec_dot_type = GGML_TYPE_Q8_K,
            .nrows = 1};
}

using Table = std::array<ggml_type_traits_cpu, GGML_TYPE_COUNT>;

Table make_table() {
    Table table{};
    table[GGML_TYPE_F32] = row<GGML_TYPE_F32>(GGML_TYPE_F32, copy_f32_row);
    table[GGML_TYPE_F16] = row<GGML_TYPE_F16>(GGML_TYPE_F16, f32_to_f16_row);
    table[GGML_TYPE_BF16] = row<GGML_TYPE_BF16>(GGML_TYPE_BF16, f32_to_bf16_row);

    table[GGML_TYPE_Q1_0] = row<GGML_TYPE_Q1_0>(GGML_TYPE_Q8_0);
    table[GGML_TYPE_Q2_0] = row<GGML_TYPE_Q2_0>(GGML_TYPE_Q8_0);
    table[GGML_TYPE_Q4_0] = row<GGML_TYPE_Q4_0>(GGML_TYPE_Q8_0, encode_q4_0_row);
    table[GGML_TYPE_Q5_0] = row<GGML_TYPE_Q5_0>(GGML_TYPE_Q8_0, encode_q5_0_row);
    table[GGML_TYPE_Q8_0] = row<GGML_TYPE_Q8_0>(GGML_TYPE_Q8_0, encode_q8_0_row);
    table[GGML_TYPE_MXFP4] = row<GGML_TYPE_MXFP4>(GGML_TYPE_Q8_0);
    table[GGML_TYPE_NVFP4] = row<GGML_TYPE_NVFP4>(GGML_TYPE_Q8_0);
    table[GGML_TYPE_IQ4_NL] = row<GGML_TYPE_IQ4_NL>(GGML_TYPE_Q8_0, encode_iq4_nl_row);

    table[GGML_TYPE_Q4_1] = row<GGML_TYPE_Q4_1>(GGML_TYPE_Q8_1, encode_q4_1_row);
    table[GGML_TYPE_Q5_1] = row<GGML_TYPE_Q5_1>(GGML_TYPE_Q8_1, encode_q5_1_row);

    table[GGML_TYPE_Q2_K] = row<GGML_TYPE_Q2_K>(GGML_TYPE_Q8_K);
    table[GGML_TYPE_Q3_K] = row<GGML_TYPE_Q3_K>(GGML_TYPE_Q8_K);
    table[GGML_TYPE_Q4_K] = row<GGML_TYPE_Q4_K>(GGML_TYPE_Q8_K);
    table[GGML_TYPE_Q5_K] = row<GGML_TYPE_Q5_K>(GGML_TYPE_Q8_K);
    table[GGML_TYPE_Q6_K] = row<GGML_TYPE_Q6_K>(GGML_TYPE_Q8_K);
    table[GGML_TYPE_TQ1_0] = row<GGML_TYPE_TQ1_0>(GGML_TYPE_Q8_K);
    table[GGML_TYPE_TQ2_0] = row<GGML_TYPE_TQ2_0>(GGML_TYPE_Q8_K);
    table[GGML_TYPE_IQ4_XS] = row<GGML_TYPE_IQ4_XS>(GGML_TYPE_Q8_K);

    table[GGML_TYPE_IQ1_S] = grid_row<GGML_TYPE_IQ1_S>();
    table[GGML_TYPE_IQ1_M] = grid_row<GGML_TYPE_IQ1_M>();
    table[GGML_TYPE_IQ2_XXS] = grid_row<GGML_TYPE_IQ2_XXS>();
    table[GGML_TYPE_IQ2_XS] = grid_row<GGML_TYPE_IQ2_XS>();
    table[GGML_TYPE_IQ2_S] = grid_row<GGML_TYPE_IQ2_S>();
    table[GGML_TYPE_IQ3_XXS] = grid_row<GGML_TYPE_IQ3_XXS>();
    table[GGML_TYPE_IQ3_S] = grid_row<GGML_TYPE_IQ3_S>();

    // Second operands, and the one integer type that floats are cast to.
    table[GGML_TYPE_Q8_1] = {.from_float = encode_q8_1_row,
                             .vec_dot = nullptr,
                             .vec_dot_type = GGML_TYPE_Q8_1,
                             .nrows = 1};
    table[GGML_TYPE_Q8_K].from_float = encode_q8_K_row;
    table[GGML_TYPE_I32].from_float = f32_to_i32_row;
    return table;
}

}  // namespace

const ggml_type_traits_cpu& cpu_traits_of(Type type) {
    static const Table table = make_table();
    static constexpr ggml_type_traits_cpu kNothing{};
    const auto number = static_cast<std::size_t>(type);
    return number < table.size() ? table[number] : kNothing;
}

}  // namespace heddle::cpu
