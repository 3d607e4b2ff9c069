#include "backends/cpu/type_traits.hpp"

#include <array>
#include <utility>

#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/dot/dot.hpp"
#include "backends/cpu/dot/types.hpp"
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

/// The codec's own, unless it needs importances or is too slow.
ggml_from_float_t encoder_of(const TypeRow& row) {
    if (row.encode != nullptr || row.family == Family::grid) return row.encode;
    const quant::Codec* codec = quant::codec_of(row.type);
    return codec != nullptr && !codec->needs_importance ? codec->encode : nullptr;
}

using Table = std::array<ggml_type_traits_cpu, GGML_TYPE_COUNT>;

template <std::size_t... kRows>
void put_weights(Table& table, std::index_sequence<kRows...>) {
    ((table[kTypeRows[kRows].type] = {.from_float = encoder_of(kTypeRows[kRows]),
                                      .vec_dot = vec_dot<kTypeRows[kRows].type>,
                                      .vec_dot_type = kTypeRows[kRows].dot_type,
                                      .nrows = 1}),
     ...);
}

Table make_table() {
    Table table{};
    put_weights(table, std::make_index_sequence<std::size(kTypeRows)>());
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
