#include "backends/cpu/dot/dot.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/kernels/test_support.hpp"
#include "backends/cpu/type_traits.hpp"
#include "quant/test_support.hpp"

namespace heddle::cpu {
namespace {

using Row = std::vector<std::byte>;

std::vector<Type> types_with_dot() {
    std::vector<Type> types;
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<Type>(i);
        if (cpu_traits_of(type).vec_dot != nullptr) types.push_back(type);
    }
    return types;
}

Row encode(Type type, const std::vector<float>& values) {
    const auto n = static_cast<std::int64_t>(values.size());
    Row row(row_size(type, n));
    if (const auto encode = cpu_traits_of(type).from_float; encode != nullptr) {
        encode(values.data(), row.data(), n);
        return row;
    }
    const std::vector<float> even(values.size(), 1.0f);
    EXPECT_TRUE(quant::encode_rows(type, values.data(), row.data(), 1, n, even.data()));
    return row;
}

std::vector<float> decode(Type type, const Row& row, std::int64_t n) {
    std::vector<float> values(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::byte* at = row.data() + i * size_of(type);
        std::uint16_t half = 0;
        if (type == GGML_TYPE_F32) {
            std::memcpy(&values[i], at, sizeof(float));
        } else if (type == GGML_TYPE_F16 || type == GGML_TYPE_BF16) {
            std::memcpy(&half, at, sizeof half);
            values[i] = type == GGML_TYPE_F16 ? f16_to_f32(half) : bf16_to_f32(half);
        }
    }
    if (const quant::Codec* codec = quant::codec_of(type))
        codec->decode(row.data(), values.data(), n);
    return values;
}

/// The definition, and how large its terms are together.
struct Exact {
    double sum = 0, magnitude = 0;

    Exact(const std::vector<float>& x, const std::vector<float>& y) {
        for (std::size_t i = 0; i < x.size(); ++i) {
            sum += double{x[i]} * y[i];
            magnitude += std::abs(double{x[i]} * y[i]);
        }
    }
    /// Additions in f32 in some order; the minima of q4_1 and q5_1 are multiplied by a sum that
    /// was rounded to a half.
    double allowed(Type type) const {
        const bool is_coarse = type == GGML_TYPE_Q4_1 || type == GGML_TYPE_Q5_1;
        return (is_coarse ? 1e-3 : 1e-5) * magnitude + 1e-30;
    }
};

/// Rows that begin at an odd address: blocks need no alignment.
struct Misaligned {
    Row bytes;
    explicit Misaligned(const Row& row) : bytes(row.size() + 1) {
        std::copy(row.begin(), row.end(), bytes.begin() + 1);
    }
    const void* data() const { return bytes.data() + 1; }
};

void expect_dot(Type type, const Row& x, const Row& y, const Exact& exact, std::int64_t n) {
    const Misaligned moved_x(x), moved_y(y);
    for_each_target([&] {
        float result = 0, moved = 0;
        const auto dot = cpu_traits_of(type).vec_dot;
        dot(static_cast<int>(n), &result, 0, x.data(), 0, y.data(), 0, 1);
        EXPECT_NEAR(result, exact.sum, exact.allowed(type));
        if (block_size(type) == 1) return;  // plain elements lie where their type wants
        dot(static_cast<int>(n), &moved, 0, moved_x.data(), 0, moved_y.data(), 0, 1);
        EXPECT_EQ(moved, result);
    });
}

TEST(CpuDot, IsTheProductOfTheDecodedRows) {
    const auto x = quant::read_floats("input_x.f32"), y = quant::read_floats("input_y.f32");
    for (const Type type : types_with_dot()) {
        SCOPED_TRACE(std::string(name_of(type)));
        const Type other = cpu_traits_of(type).vec_dot_type;
        const std::int64_t n = 2048;
        const Row a = encode(type, x), b = encode(other, y);
        expect_dot(type, a, b, Exact(decode(type, a, n), decode(other, b, n)), n);
    }
}

TEST(CpuDot, ReadsCodesThatNoEncoderWrites) {
    const auto y = quant::read_floats("input_y.f32");
    for (const Type type : types_with_dot()) {
        if (quant::codec_of(type) == nullptr) continue;
        SCOPED_TRACE(std::string(name_of(type)));
        const quant::Bytes raw = quant::read_bytes(std::string(name_of(type)) + ".raw.bin");
        const Type other = cpu_traits_of(type).vec_dot_type;
        const std::int64_t block = block_size(type);
        for (std::size_t i = 0; i < 8; ++i) {  // one block at a time: their scales differ by far
            Row a(size_of(type));
            std::memcpy(a.data(), raw.data() + i * a.size(), a.size());
            const std::int64_t n = std::max(block, block_size(other));
            const Row b = encode(other, {y.begin(), y.begin() + n});
            expect_dot(type, a, b, Exact(decode(type, a, n), decode(other, b, n)), n);
        }
    }
}

TEST(CpuDot, GivesTheRecordedValues) {
    const auto y = quant::read_floats("input_y.f32");
    for (const auto& fields : quant::read_table("dot.tsv")) {
        if (fields[2] == "-") continue;
        SCOPED_TRACE(fields[0]);
        const auto n = std::stol(fields[1]);
        for (const Type type : types_with_dot()) {
            if (name_of(type) != fields[0]) continue;
            const Type other = cpu_traits_of(type).vec_dot_type;
            EXPECT_EQ(name_of(other), fields[2]);
            const quant::Bytes encoded = quant::read_bytes(fields[0] + ".q.bin");
            Row a(encoded.size());
            std::memcpy(a.data(), encoded.data(), a.size());
            const Row b = encode(other, {y.begin(), y.begin() + n});
            const Exact exact(decode(type, a, n), decode(other, b, n));
            for_each_target([&] {
                float result = 0;
                cpu_traits_of(type).vec_dot(static_cast<int>(n), &result, 0, a.data(), 0, b.data(),
                                            0, 1);
                // The recorded encoder of the second row rounds halves the other way.
                EXPECT_NEAR(result, std::stod(fields[3]), exact.allowed(type) + 1e-3);
            });
        }
    }
}

TEST(CpuDot, OfSeveralColumnsIsThatOfEach) {
    const auto x = quant::read_floats("input_x.f32");
    for (const Type type : types_with_dot()) {
        SCOPED_TRACE(std::string(name_of(type)));
        const Type other = cpu_traits_of(type).vec_dot_type;
        const Row a = encode(type, x);
        std::vector<Row> columns;
        for (const float factor : {1.0f, -0.5f, 0.25f, 3.0f}) {
            auto y = quant::read_floats("input_y.f32");
            for (float& value : y) value *= factor;
            columns.push_back(encode(other, y));
        }
        const void* y[4];
        for (std::size_t c = 0; c < 4; ++c) y[c] = columns[c].data();
        for_each_target([&] {
            float all[4], one = 0;
            dot_columns_of(type)(2048, a.data(), y, all, 4);
            for (int c = 0; c < 4; ++c) {
                dot_columns_of(type)(2048, a.data(), y + c, &one, 1);
                EXPECT_EQ(all[c], one) << "column " << c;
            }
        });
    }
}

TEST(CpuDot, OfPlainRowsWorksAtEveryLength) {
    const auto x = quant::read_floats("input_x.f32"), y = quant::read_floats("input_y.f32");
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
        SCOPED_TRACE(std::string(name_of(type)));
        for (std::int64_t n = 0; n <= 140; ++n) {  // past four times the widest vector
            const Row a = encode(type, {x.begin(), x.begin() + n});
            const Row b = encode(type, {y.begin(), y.begin() + n});
            expect_dot(type, a, b, Exact(decode(type, a, n), decode(type, b, n)), n);
        }
    }
}

/// Errors of encoding 0.1 + 2 cos(i) and of its product with 0.1 + 2 cos(i + 1), both divided by
/// the number of elements, that programs accept.
TEST(CpuDot, StaysWithinTheErrorsThatProgramsAccept) {
    struct Limit {
        Type type;
        double total, dot;
    };
    const Limit limits[] = {
        {GGML_TYPE_F16, 0.002, 0.02},    {GGML_TYPE_BF16, 0.002, 0.02},
        {GGML_TYPE_Q8_0, 0.002, 0.02},   {GGML_TYPE_Q4_0, 0.002, 0.02},
        {GGML_TYPE_Q4_1, 0.002, 0.02},   {GGML_TYPE_Q5_0, 0.002, 0.02},
        {GGML_TYPE_Q5_1, 0.002, 0.02},   {GGML_TYPE_MXFP4, 0.002, 0.02},
        {GGML_TYPE_NVFP4, 0.003, 0.03},  {GGML_TYPE_Q1_0, 0.025, 0.40},
        {GGML_TYPE_Q2_0, 0.01, 0.15},    {GGML_TYPE_TQ1_0, 0.01, 0.15},
        {GGML_TYPE_TQ2_0, 0.01, 0.15},   {GGML_TYPE_Q2_K, 0.0075, 0.04},
        {GGML_TYPE_Q3_K, 0.0040, 0.02},  {GGML_TYPE_Q4_K, 0.002, 0.02},
        {GGML_TYPE_Q5_K, 0.002, 0.02},   {GGML_TYPE_Q6_K, 0.002, 0.02},
        {GGML_TYPE_IQ4_NL, 0.002, 0.02}, {GGML_TYPE_IQ4_XS, 0.002, 0.02},
    };
    constexpr int n = 4096;
    std::vector<float> x(n), y(n);
    double exact = 0;
    for (std::size_t i = 0; i < n; ++i) {
        x[i] = static_cast<float>(0.1 + 2 * std::cos(static_cast<float>(i)));
        y[i] = static_cast<float>(0.1 + 2 * std::cos(static_cast<float>(i) + 1));
        exact += x[i] * y[i];
    }
    for (const Limit& limit : limits) {
        SCOPED_TRACE(std::string(name_of(limit.type)));
        for_each_target([&] {
            const Row a = encode(limit.type, x);
            const Row b = encode(cpu_traits_of(limit.type).vec_dot_type, y);
            const auto decoded = decode(limit.type, a, n);
            double squares = 0;
            for (std::size_t i = 0; i < n; ++i) squares += std::pow(x[i] - decoded[i], 2);
            EXPECT_LT(std::sqrt(squares) / n, limit.total);
            float result = 0;
            cpu_traits_of(limit.type).vec_dot(n, &result, 0, a.data(), 0, b.data(), 0, 1);
            EXPECT_LT(std::abs(result - exact) / n, limit.dot);
        });
    }
}

TEST(CpuTypeTraits, SayWhatEachTypeCanDo) {
    for (int i = -1; i <= GGML_TYPE_COUNT; ++i) {
        const ggml_type_traits_cpu& traits = cpu_traits_of(static_cast<Type>(i));
        EXPECT_EQ(&traits, &cpu_traits_of(static_cast<Type>(i)));
        if (traits.vec_dot == nullptr) continue;
        EXPECT_EQ(traits.nrows, 1) << i;
    }
    EXPECT_EQ(cpu_traits_of(GGML_TYPE_Q8_1).vec_dot, nullptr);
    EXPECT_EQ(cpu_traits_of(GGML_TYPE_Q8_1).vec_dot_type, GGML_TYPE_Q8_1);
    EXPECT_EQ(cpu_traits_of(GGML_TYPE_Q8_1).nrows, 1);
    EXPECT_NE(cpu_traits_of(GGML_TYPE_Q8_K).from_float, nullptr);
    EXPECT_EQ(cpu_traits_of(GGML_TYPE_Q8_K).nrows, 0);
    EXPECT_NE(cpu_traits_of(GGML_TYPE_I32).from_float, nullptr);
    for (const Type grid : {GGML_TYPE_IQ1_S, GGML_TYPE_IQ1_M, GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ2_XS,
                            GGML_TYPE_IQ2_S, GGML_TYPE_IQ3_XXS, GGML_TYPE_IQ3_S}) {
        EXPECT_EQ(cpu_traits_of(grid).from_float, nullptr) << name_of(grid);
        EXPECT_EQ(cpu_traits_of(grid).vec_dot_type, GGML_TYPE_Q8_K) << name_of(grid);
    }
    EXPECT_EQ(types_with_dot().size(), 28u);
    for (const Type none : {GGML_TYPE_I8, GGML_TYPE_I64, GGML_TYPE_F64}) {
        EXPECT_EQ(cpu_traits_of(none).from_float, nullptr);
        EXPECT_EQ(cpu_traits_of(none).vec_dot, nullptr);
    }
}

}  // namespace
}  // namespace heddle::cpu
