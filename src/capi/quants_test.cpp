// The row functions of the block formats under the names that plug-ins link: each does what the
// table of types says of its own type, in the room that its type has, and names itself when it
// refuses.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "ggml-quants.h"
#include "heddle/heddle.h"

namespace {

struct Encoder {
    const char* name;
    ggml_type type;
    void (*encode)(const float* values, void* blocks, std::int64_t n);
};
struct Decoder {
    const char* name;
    ggml_type type;
    void (*decode)(const void* blocks, float* values, std::int64_t n);
};
struct RowsEncoder {
    const char* name;
    ggml_type type;
    std::size_t (*encode)(const float* values, void* blocks, std::int64_t rows,
                          std::int64_t columns, const float* importance);
};

// The functions differ in the type of their blocks.
#define ENCODER(suffix, type)                                                       \
    Encoder {                                                                       \
        "quantize_row_" #suffix "_ref", GGML_TYPE_##type,                           \
            [](const float* x, void* y, std::int64_t n) {                           \
                quantize_row_##suffix##_ref(x, static_cast<block_##suffix*>(y), n); \
            }                                                                       \
    }
#define DECODER(suffix, type)                                                                      \
    Decoder {                                                                                      \
        "dequantize_row_" #suffix, GGML_TYPE_##type, [](const void* x, float* y, std::int64_t n) { \
            dequantize_row_##suffix(static_cast<const block_##suffix*>(x), y, n);                  \
        }                                                                                          \
    }
#define ROWS_ENCODER(suffix, type) \
    RowsEncoder { "quantize_" #suffix, GGML_TYPE_##type, quantize_##suffix }

const Encoder kEncoders[] = {
    ENCODER(q1_0, Q1_0),       ENCODER(q2_0, Q2_0),     ENCODER(q4_0, Q4_0),
    ENCODER(q4_1, Q4_1),       ENCODER(q5_0, Q5_0),     ENCODER(q5_1, Q5_1),
    ENCODER(q8_0, Q8_0),       ENCODER(q8_1, Q8_1),     ENCODER(mxfp4, MXFP4),
    ENCODER(nvfp4, NVFP4),     ENCODER(q2_K, Q2_K),     ENCODER(q3_K, Q3_K),
    ENCODER(q4_K, Q4_K),       ENCODER(q5_K, Q5_K),     ENCODER(q6_K, Q6_K),
    ENCODER(q8_K, Q8_K),       ENCODER(tq1_0, TQ1_0),   ENCODER(tq2_0, TQ2_0),
    ENCODER(iq3_xxs, IQ3_XXS), ENCODER(iq4_nl, IQ4_NL), ENCODER(iq4_xs, IQ4_XS),
    ENCODER(iq3_s, IQ3_S),     ENCODER(iq2_s, IQ2_S)};

const Decoder kDecoders[] = {
    DECODER(q1_0, Q1_0),     DECODER(q2_0, Q2_0),   DECODER(q4_0, Q4_0),
    DECODER(q4_1, Q4_1),     DECODER(q5_0, Q5_0),   DECODER(q5_1, Q5_1),
    DECODER(q8_0, Q8_0),     DECODER(mxfp4, MXFP4), DECODER(nvfp4, NVFP4),
    DECODER(q2_K, Q2_K),     DECODER(q3_K, Q3_K),   DECODER(q4_K, Q4_K),
    DECODER(q5_K, Q5_K),     DECODER(q6_K, Q6_K),   DECODER(q8_K, Q8_K),
    DECODER(tq1_0, TQ1_0),   DECODER(tq2_0, TQ2_0), DECODER(iq2_xxs, IQ2_XXS),
    DECODER(iq2_xs, IQ2_XS), DECODER(iq2_s, IQ2_S), DECODER(iq3_xxs, IQ3_XXS),
    DECODER(iq1_s, IQ1_S),   DECODER(iq1_m, IQ1_M), DECODER(iq4_nl, IQ4_NL),
    DECODER(iq4_xs, IQ4_XS), DECODER(iq3_s, IQ3_S)};

const RowsEncoder kRowsEncoders[] = {
    ROWS_ENCODER(iq2_xxs, IQ2_XXS), ROWS_ENCODER(iq2_xs, IQ2_XS), ROWS_ENCODER(iq2_s, IQ2_S),
    ROWS_ENCODER(iq3_xxs, IQ3_XXS), ROWS_ENCODER(iq1_s, IQ1_S),   ROWS_ENCODER(iq1_m, IQ1_M),
    ROWS_ENCODER(iq4_nl, IQ4_NL),   ROWS_ENCODER(iq4_xs, IQ4_XS), ROWS_ENCODER(iq3_s, IQ3_S),
    ROWS_ENCODER(tq1_0, TQ1_0),     ROWS_ENCODER(tq2_0, TQ2_0),   ROWS_ENCODER(q2_K, Q2_K),
    ROWS_ENCODER(q3_K, Q3_K),       ROWS_ENCODER(q4_K, Q4_K),     ROWS_ENCODER(q5_K, Q5_K),
    ROWS_ENCODER(q6_K, Q6_K),       ROWS_ENCODER(q1_0, Q1_0),     ROWS_ENCODER(q2_0, Q2_0),
    ROWS_ENCODER(q4_0, Q4_0),       ROWS_ENCODER(q4_1, Q4_1),     ROWS_ENCODER(q5_0, Q5_0),
    ROWS_ENCODER(q5_1, Q5_1),       ROWS_ENCODER(q8_0, Q8_0),     ROWS_ENCODER(mxfp4, MXFP4),
    ROWS_ENCODER(nvfp4, NVFP4)};

using Bytes = std::vector<unsigned char>;

constexpr std::int64_t kColumns = 512, kRows = 2;  // whole blocks of every type
constexpr unsigned char kUntouched = 0xA5;
constexpr std::size_t kBehind = 64;  // bytes after the blocks, which stay as they are

class QuantRows : public testing::Test {
protected:
    QuantRows() : values(kRows * kColumns), importance(kColumns, 1.0f) {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = std::sin(0.37f * static_cast<float>(i));
        }
    }
    ~QuantRows() override { heddle_set_error_mode(HEDDLE_ERROR_MODE_ABORT); }

    static Bytes room_for(ggml_type type, std::int64_t rows) {
        return Bytes(static_cast<std::size_t>(rows) * ggml_row_size(type, kColumns) + kBehind,
                     kUntouched);
    }

    static void expect_nothing_behind(const Bytes& blocks) {
        EXPECT_EQ(Bytes(blocks.end() - kBehind, blocks.end()), Bytes(kBehind, kUntouched));
    }

    /// What the call says of its failure; "" if it succeeds.
    template <class Call>
    static std::string said(const Call& call) {
        heddle_clear_error();
        call();
        return heddle_last_error();
    }

    /// Blocks of that type, made by a function that the others are compared with.
    Bytes blocks_of(ggml_type type) {
        Bytes blocks = room_for(type, 1);
        if (type == GGML_TYPE_Q8_K) {
            quantize_row_q8_K_ref(values.data(), reinterpret_cast<block_q8_K*>(blocks.data()),
                                  kColumns);
        } else {
            EXPECT_NE(ggml_quantize_chunk(type, values.data(), blocks.data(), 0, 1, kColumns,
                                          importance.data()),
                      0u)
                << heddle_last_error();
        }
        return blocks;
    }

    std::vector<float> values, importance;
};

TEST_F(QuantRows, AreEncodedAsTheTableOfTypesDoes) {
    for (const Encoder& each : kEncoders) {
        SCOPED_TRACE(each.name);
        Bytes blocks = room_for(each.type, 1);
        each.encode(values.data(), blocks.data(), kColumns);
        expect_nothing_behind(blocks);
        const auto reference = ggml_get_type_traits(each.type)->from_float_ref;
        if (reference == nullptr) {  // an operand of products alone
            EXPECT_EQ(each.type, GGML_TYPE_Q8_K);
            EXPECT_NE(blocks, room_for(each.type, 1));
            continue;
        }
        Bytes expected = room_for(each.type, 1);
        reference(values.data(), expected.data(), kColumns);
        EXPECT_EQ(blocks, expected);
    }
}

TEST_F(QuantRows, AreDecodedNearWhatWasEncoded) {
    for (const Decoder& each : kDecoders) {
        SCOPED_TRACE(each.name);
        const Bytes blocks = blocks_of(each.type);
        std::vector<float> decoded(kColumns + 1, 77.0f);
        each.decode(blocks.data(), decoded.data(), kColumns);
        EXPECT_EQ(decoded.back(), 77.0f) << "behind the row";
        double error = 0, power = 0;
        for (std::size_t i = 0; i < kColumns; ++i) {
            error += std::pow(double{decoded[i]} - values[i], 2);
            power += std::pow(double{values[i]}, 2);
        }
        // One bit a value keeps more than half of a sine's power, four and more nearly all: the
        // steps of mxfp4 between 2/3 and 1 lose 3 %.
        const bool is_fine = 8 * ggml_row_size(each.type, kColumns) >= 4 * kColumns;
        EXPECT_LT(error / power, is_fine ? 0.04 : 0.5);
        if (const auto reference = ggml_get_type_traits(each.type)->to_float) {
            std::vector<float> expected(kColumns + 1, 77.0f);
            reference(blocks.data(), expected.data(), kColumns);
            EXPECT_EQ(decoded, expected);
        }
    }
}

TEST_F(QuantRows, AreEncodedManyAtATimeAsChunksAre) {
    for (const RowsEncoder& each : kRowsEncoders) {
        SCOPED_TRACE(each.name);
        Bytes blocks = room_for(each.type, kRows), expected = blocks;
        const std::size_t bytes =
            each.encode(values.data(), blocks.data(), kRows, kColumns, importance.data());
        EXPECT_EQ(bytes, kRows * ggml_row_size(each.type, kColumns));
        EXPECT_EQ(ggml_quantize_chunk(each.type, values.data(), expected.data(), 0, kRows, kColumns,
                                      importance.data()),
                  bytes);
        EXPECT_EQ(blocks, expected);
        expect_nothing_behind(blocks);
    }
}

TEST_F(QuantRows, RefuseNullByNameAndTakeNothingFromNowhere) {
    Bytes blocks(4096);
    std::vector<float> row(kColumns);
    for (const Encoder& each : kEncoders) {
        const std::string name = each.name;
        EXPECT_EQ(said([&] { each.encode(nullptr, blocks.data(), kColumns); }),
                  name + ": the source is NULL");
        EXPECT_EQ(said([&] { each.encode(row.data(), nullptr, kColumns); }),
                  name + ": the destination is NULL");
        EXPECT_EQ(said([&] { each.encode(nullptr, nullptr, 0); }), "") << name;
    }
    for (const Decoder& each : kDecoders) {
        const std::string name = each.name;
        EXPECT_EQ(said([&] { each.decode(nullptr, row.data(), kColumns); }),
                  name + ": the source is NULL");
        EXPECT_EQ(said([&] { each.decode(blocks.data(), nullptr, kColumns); }),
                  name + ": the destination is NULL");
        EXPECT_EQ(said([&] { each.decode(nullptr, nullptr, 0); }), "") << name;
    }
    for (const RowsEncoder& each : kRowsEncoders) {
        const std::string name = each.name;
        EXPECT_EQ(
            said([&] { EXPECT_EQ(each.encode(nullptr, blocks.data(), 1, kColumns, nullptr), 0u); }),
            name + ": the source is NULL");
        EXPECT_EQ(
            said([&] { EXPECT_EQ(each.encode(row.data(), nullptr, 1, kColumns, nullptr), 0u); }),
            name + ": the destination is NULL");
    }
}

TEST_F(QuantRows, RefuseRowsThatAreNotWholeBlocksAndWriteNothing) {
    for (const RowsEncoder& each : kRowsEncoders) {
        SCOPED_TRACE(each.name);
        Bytes blocks = room_for(each.type, kRows);
        const auto refused = [&](std::int64_t rows, std::int64_t columns) {
            return said([&] {
                EXPECT_EQ(
                    each.encode(values.data(), blocks.data(), rows, columns, importance.data()),
                    0u);
            });
        };
        EXPECT_NE(refused(1, ggml_blck_size(each.type) + 1), "");
        EXPECT_NE(refused(-1, kColumns), "");
        EXPECT_NE(refused(1, -kColumns), "");
        EXPECT_EQ(blocks, room_for(each.type, kRows));
    }
}

TEST_F(QuantRows, NeedAnImportanceWhereTheTypeSaysSo) {
    for (const RowsEncoder& each : kRowsEncoders) {
        SCOPED_TRACE(each.name);
        Bytes blocks = room_for(each.type, kRows);
        const bool needs = ggml_quantize_requires_imatrix(each.type);
        const std::string refusal = said([&] {
            EXPECT_EQ(each.encode(values.data(), blocks.data(), kRows, kColumns, nullptr) == 0,
                      needs);
        });
        EXPECT_EQ(refusal != "", needs) << refusal;
        EXPECT_EQ(blocks == room_for(each.type, kRows), needs);
    }
}

TEST_F(QuantRows, AreTheSameAfterSearchTablesWereDropped) {
    const Bytes before = blocks_of(GGML_TYPE_IQ2_XS), before_3 = blocks_of(GGML_TYPE_IQ3_S);
    iq2xs_free_impl(GGML_TYPE_IQ2_XS);
    iq3xs_free_impl(512);
    iq2xs_init_impl(GGML_TYPE_IQ2_XS);
    iq3xs_init_impl(256);
    iq3xs_init_impl(512);
    EXPECT_EQ(blocks_of(GGML_TYPE_IQ2_XS), before);
    EXPECT_EQ(blocks_of(GGML_TYPE_IQ3_S), before_3);
    ggml_quantize_free();
    EXPECT_EQ(blocks_of(GGML_TYPE_IQ3_S), before_3) << "encoders build what they miss";
}

}  // namespace
