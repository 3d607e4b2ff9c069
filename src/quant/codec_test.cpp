#include "quant/codec.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>

#include "core/half.hpp"
#include "quant/test_support.hpp"

namespace heddle::quant {
namespace {

std::string name(Type type) { return std::string(name_of(type)); }

const Codec* codec_named(const std::string& wanted) {
    for (const Codec& codec : all_codecs())
        if (name_of(codec.type) == wanted) return &codec;
    return nullptr;
}

std::vector<float> decode(const Codec& codec, const Bytes& blocks) {
    const auto count = static_cast<std::int64_t>(blocks.size() / size_of(codec.type));
    std::vector<float> values(static_cast<std::size_t>(count * block_size(codec.type)));
    codec.decode(blocks.data(), values.data(), static_cast<std::int64_t>(values.size()));
    return values;
}

/// By the plain encoder; where there is none, with every element as important as the next.
Bytes encode(const Codec& codec, std::span<const float> values) {
    const auto n = static_cast<std::int64_t>(values.size());
    Bytes blocks(row_size(codec.type, n), 0xaa);
    if (codec.encode != nullptr && codec.type != GGML_TYPE_IQ1_M) {
        codec.encode(values.data(), blocks.data(), n);
    } else {
        const std::vector<float> ones(values.size(), 1.0f);
        codec.encode_row(values.data(), blocks.data(), n, ones.data());
    }
    return blocks;
}

/// The place of the first value whose bits differ, or -1.
std::ptrdiff_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
        if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) return static_cast<std::ptrdiff_t>(i);
    return -1;
}

/// The error measure of the tables: the root of the sum of squares, over n.
double error_of(std::span<const float> x, std::span<const float> y) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(double{x[i]} - y[i], 2);
    return std::sqrt(sum) / static_cast<double>(x.size());
}

class EveryFormat : public testing::TestWithParam<Codec> {};

TEST_P(EveryFormat, DecodesKnownBlocksBitForBit) {
    const Codec codec = GetParam();
    for (const char* kind : {".q", ".raw"}) {
        const std::vector<float> expected = read_floats(name(codec.type) + kind + ".f32");
        const std::vector<float> values =
            decode(codec, read_bytes(name(codec.type) + kind + ".bin"));
        ASSERT_EQ(values.size(), expected.size());
        EXPECT_EQ(first_difference(values, expected), -1) << kind;
    }
}

TEST_P(EveryFormat, DecodesFromAnyAddress) {
    const Codec codec = GetParam();
    Bytes blocks = read_bytes(name(codec.type) + ".q.bin");
    const std::vector<float> expected = decode(codec, blocks);
    blocks.insert(blocks.begin(), 0);
    std::vector<float> values(expected.size());
    codec.decode(blocks.data() + 1, values.data(), static_cast<std::int64_t>(values.size()));
    EXPECT_EQ(first_difference(values, expected), -1);
}

TEST_P(EveryFormat, EncodesKnownValuesByteForByte) {
    const Codec codec = GetParam();
    const std::vector<float> x = read_floats("input_x.f32");
    const auto count = static_cast<std::size_t>(8 * block_size(codec.type));
    EXPECT_EQ(encode(codec, std::span(x).first(count)), read_bytes(name(codec.type) + ".q.bin"));
}

TEST_P(EveryFormat, EncodesZerosAsZeros) {
    const Codec codec = GetParam();
    const std::vector<float> zeros(static_cast<std::size_t>(2 * block_size(codec.type)));
    for (const float value : decode(codec, encode(codec, zeros))) ASSERT_EQ(value, 0.0f);
}

TEST_P(EveryFormat, SurvivesValuesThatAreNoNumbers) {
    // What comes out has no meaning; that nothing overruns or traps is what counts.
    const Codec codec = GetParam();
    std::vector<float> values = read_floats("input_x.f32");
    values.resize(static_cast<std::size_t>(4 * block_size(codec.type)));
    values[0] = INFINITY, values[3] = NAN, values[5] = -INFINITY;
    for (std::size_t i = values.size() / 2; i < values.size(); ++i) values[i] *= 1e-42f;
    EXPECT_EQ(encode(codec, values).size(), 4 * size_of(codec.type));
}

INSTANTIATE_TEST_SUITE_P(All, EveryFormat,
                         testing::ValuesIn(all_codecs().begin(), all_codecs().end()),
                         [](const testing::TestParamInfo<Codec>& info) {
                             return name(info.param.type);
                         });

TEST(Codecs, AreTwentySevenAndFoundByType) {
    EXPECT_EQ(all_codecs().size(), 27u);
    for (const Codec& codec : all_codecs()) {
        EXPECT_EQ(codec_of(codec.type), &codec) << name(codec.type);
        EXPECT_TRUE(type_info(codec.type).is_quantized) << name(codec.type);
    }
    EXPECT_EQ(codec_of(GGML_TYPE_F16), nullptr);
    EXPECT_EQ(codec_of(static_cast<Type>(4)), nullptr);
    EXPECT_EQ(codec_of(static_cast<Type>(60)), nullptr);
    EXPECT_EQ(codec_of(GGML_TYPE_COUNT), nullptr);
}

TEST(Codecs, NeedImportanceExactlyInThreeFormats) {
    for (const Codec& codec : all_codecs())
        EXPECT_EQ(codec.needs_importance, codec.type == GGML_TYPE_IQ2_XXS ||
                                              codec.type == GGML_TYPE_IQ2_XS ||
                                              codec.type == GGML_TYPE_IQ1_S)
            << name(codec.type);
}

TEST(Codecs, DotProductsOfDecodedRowsAreTheKnownOnes) {
    const std::vector<float> x = read_floats("input_x.f32"), y = read_floats("input_y.f32");
    for (const auto& row : read_table("dot.tsv")) {
        const auto n = static_cast<std::size_t>(std::stoul(row[1]));
        const Codec* codec = codec_named(row[0]);
        ASSERT_NE(codec, nullptr) << row[0];
        const auto a = decode(*codec, encode(*codec, std::span(x).first(n)));
        const double root_mean_square =
            error_of(std::span(x).first(n), a) * std::sqrt(static_cast<double>(n));
        EXPECT_NEAR(root_mean_square, std::stod(row[6]), 1e-6)
            << row[0];  // six digits in the table

        const Codec* partner = codec_named(row[2]);
        if (partner == nullptr) continue;
        const auto b = decode(*partner, encode(*partner, std::span(y).first(n)));
        double dot = 0;
        for (std::size_t i = 0; i < n; ++i) dot += double{a[i]} * b[i];
        EXPECT_NEAR(dot, std::stod(row[4]), 1e-9) << row[0];  // ten decimals in the table
    }
}

// ---- quality ----------------------------------------------------------------
struct Level {
    const char* type;
    double limit;     ///< what programs test for
    double measured;  ///< with six decimals
};

TEST(PlainEncoders, ReachTheKnownErrorOnACosine) {
    const Level levels[] = {
        {"q8_0", 0.002, 0.000074},    {"q4_0", 0.002, 0.001121},     {"q4_1", 0.002, 0.001144},
        {"q5_0", 0.002, 0.000591},    {"q5_1", 0.002, 0.000556},     {"mxfp4", 0.002, 0.001881},
        {"nvfp4", 0.003, 0.002337},   {"q1_0", 0.025, 0.009696},     {"q2_0", 0.01, 0.008672},
        {"tq1_0", 0.01, 0.008681},    {"tq2_0", 0.01, 0.008681},     {"q2_K", 0.0075, 0.004672},
        {"q3_K", 0.004, 0.002510},    {"q4_K", 0.002, 0.000982},     {"q5_K", 0.002, 0.000531},
        {"q6_K", 0.002, 0.000261},    {"iq4_nl", 0.002, 0.001296},   {"iq4_xs", 0.002, 0.001256},
        {"iq2_s", 0.0075, 0.005306},  {"iq3_s", 0.004, 0.003118},    {"iq3_xxs", 0.005, 0.004345},
        {"iq2_xs", 0.0075, 0.006511}, {"iq2_xxs", 0.0075, 0.007414}, {"iq1_s", 0.01, 0.009760},
        {"iq1_m", 0.01, 0.009437},
    };
    const std::vector<float> x = read_floats("row_cos.f32");
    for (const Level& level : levels) {
        const Codec* codec = codec_named(level.type);
        ASSERT_NE(codec, nullptr) << level.type;
        const double error = error_of(x, decode(*codec, encode(*codec, x)));
        EXPECT_LT(error, level.limit) << level.type;
        EXPECT_NEAR(error, level.measured, 1e-6) << level.type;
    }
}

std::vector<float> decode_any(Type type, const Bytes& data) {
    if (const Codec* codec = codec_of(type)) return decode(*codec, data);
    std::vector<float> values(data.size() / 2);
    for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint16_t bits;
        std::memcpy(&bits, &data[2 * i], sizeof bits);
        values[i] = type == GGML_TYPE_F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
    }
    return values;
}

std::uint64_t fnv1a(const Bytes& data) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const std::uint8_t byte : data) hash = (hash ^ byte) * 0x100000001b3u;
    return hash;
}

double weighted_error(std::span<const float> x, std::span<const float> y,
                      std::span<const float> importance) {
    double lost = 0, all = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double weight = importance[i % importance.size()];
        lost += weight * std::pow(double{x[i]} - y[i], 2);
        all += weight * std::pow(double{x[i]}, 2);
    }
    return lost / all;
}

Type type_named(const std::string& wanted) {
    for (int number = 0; number < GGML_TYPE_COUNT; ++number)
        if (name_of(static_cast<Type>(number)) == wanted) return static_cast<Type>(number);
    return GGML_TYPE_COUNT;
}

TEST(EncodeRows, ReachesTheKnownErrorWithAndWithoutImportance) {
    const std::vector<float> importance = read_floats("importance.f32");
    const std::int64_t columns = 1024, rows = 4;
    for (const auto& row : read_table("levels.tsv")) {
        const std::string label = row[0] + " of " + row[1] + ", " + row[2];
        const Type type = type_named(row[0]);
        const std::vector<float> x = read_floats("row_" + row[1] + ".f32");
        Bytes blocks(row_size(type, columns * rows), 0xaa);
        const float* weights = row[2] == "importance" ? importance.data() : nullptr;
        const Result<> done = encode_rows(type, x.data(), blocks.data(), rows, columns, weights);
        ASSERT_TRUE(done) << label << ": " << done.error().message;

        const std::vector<float> y = decode_any(type, blocks);
        const double error = std::stod(row[3]), weighted = std::stod(row[4]);
        EXPECT_NEAR(error_of(x, y), error, 1e-6 * error) << label;
        EXPECT_NEAR(weighted_error(x, y, importance), weighted, 1e-6 * weighted) << label;
        EXPECT_EQ(fnv1a(blocks), std::stoull(row[5], nullptr, 16)) << label;
    }
}

TEST(EncodeRows, CopiesF32) {
    const float values[] = {1.5f, -0.0f, INFINITY, 3e-39f};
    float copy[4] = {};
    ASSERT_TRUE(encode_rows(GGML_TYPE_F32, values, copy, 2, 2, nullptr));
    EXPECT_EQ(std::memcmp(values, copy, sizeof values), 0);
}

TEST(EncodeRows, DoesNothingForNoRows) {
    EXPECT_TRUE(encode_rows(GGML_TYPE_Q4_K, nullptr, nullptr, 0, 256, nullptr));
    EXPECT_TRUE(encode_rows(GGML_TYPE_F16, nullptr, nullptr, 0, 7, nullptr));
}

// ---- refusals ---------------------------------------------------------------
std::string refusal(Type type, std::int64_t rows, std::int64_t columns) {
    const std::vector<float> values(512);
    Bytes blocks(4096, 0xaa);
    const Result<> done = encode_rows(type, values.data(), blocks.data(), rows, columns, nullptr);
    EXPECT_EQ(blocks, Bytes(4096, 0xaa)) << "a refusal wrote something";
    return done ? "" : done.error().message;
}

TEST(EncodeRows, SaysWhyItRefuses) {
    EXPECT_EQ(refusal(GGML_TYPE_Q4_K, 1, 100),
              "encode: rows of 100 elements are not whole blocks of 256 (q4_K)");
    EXPECT_EQ(refusal(GGML_TYPE_IQ2_XXS, 1, 256),
              "encode: iq2_xxs needs the importance of each column");
    EXPECT_EQ(refusal(GGML_TYPE_Q8_1, 1, 32), "encode: type 9 (q8_1) has no encoder");
    EXPECT_EQ(refusal(GGML_TYPE_Q8_K, 1, 256), "encode: type 15 (q8_K) has no encoder");
    EXPECT_EQ(refusal(GGML_TYPE_I32, 1, 32), "encode: type 26 (i32) has no encoder");
    EXPECT_EQ(refusal(GGML_TYPE_F64, 1, 32), "encode: type 28 (f64) has no encoder");
    EXPECT_EQ(refusal(static_cast<Type>(4), 1, 32), "encode: type 4 (DEPRECATED) has no encoder");
    EXPECT_EQ(refusal(static_cast<Type>(60), 1, 32),
              "encode: type 60 (unknown type) has no encoder");
    EXPECT_EQ(refusal(GGML_TYPE_F32, -1, 32), "encode: -1 rows of 32 columns");
}

}  // namespace
}  // namespace heddle::quant
