#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/type.hpp"

/// Block formats: how rows of a quantised type are read, written and judged. One file per family;
/// `codec_list.cpp` names them all.
namespace heddle::quant {

/// One block format. Rows are whole blocks and need no alignment; `n` counts elements.
struct Codec {
    Type type;

    /// Bit for bit the same on every machine: no fused multiply-add, subnormals kept.
    void (*decode)(const void* blocks, float* values, std::int64_t n);

    /// The plain encoder, where the format has one that needs nothing but the values.
    void (*encode)(const float* values, void* blocks, std::int64_t n) = nullptr;

    /// The careful encoder of one row. `importance` has one weight per element of the row, or is
    /// null. Null here: `encode` does, and importance is ignored.
    void (*encode_row)(const float* row, void* blocks, std::int64_t n,
                       const float* importance) = nullptr;

    bool needs_importance = false;  ///< `encode_row` makes no sense without

    /// The first block whose scales are not finite numbers, or -1.
    /// Null: any bytes are good.
    std::int64_t (*first_bad_block)(const void* blocks, std::int64_t count) = nullptr;

    /// The format serves dot products as their second operand and is no way to store weights:
    /// `encode_rows` refuses it.
    bool is_operand = false;
};

/// Every block format there is.
std::span<const Codec> all_codecs();

/// The codec of `type`, or null for types that are not block formats.
const Codec* codec_of(Type type);

// Each family's rows, in its own file.
std::span<const Codec> simple_codecs();        ///< q1_0 q2_0 q4_0 q4_1 q5_0 q5_1 q8_0 q8_1 q8_K
std::span<const Codec> fp4_codecs();           ///< mxfp4 nvfp4
std::span<const Codec> ternary_codecs();       ///< tq1_0 tq2_0
std::span<const Codec> k_codecs();             ///< q2_K q3_K q4_K q5_K q6_K
std::span<const Codec> nonlinear_codecs();     ///< iq4_nl iq4_xs
std::span<const Codec> grid_codecs();          ///< iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s
std::span<const Codec> ternary_grid_codecs();  ///< iq1_s iq1_m

/// Builds (or drops) the search tables of the grid formats. Encoders build what they miss.
void prepare_search(Type type);
void drop_search_tables();

/// Encodes rows of any type that can be encoded: block formats, F16, BF16, F32. `importance` has
/// one weight per column, the same for every row, or is null. Fails if the type has no encoder,
/// needs an importance it was not given, or rows are not whole blocks; then nothing is written.
Result<> encode_rows(Type type, const float* values, void* blocks, std::int64_t rows,
                     std::int64_t columns, const float* importance);

/// Fails with the place of the first value or scale that is not a finite number.
Result<> validate(Type type, std::span<const std::byte> data);

}  // namespace heddle::quant
