#include "backends/cpu/dot/gemv.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "backends/cpu/kernels/test_support.hpp"
#include "backends/cpu/type_traits.hpp"
#include "quant/test_support.hpp"

namespace heddle::cpu {
namespace {

using Row = std::vector<std::byte>;

constexpr Type kBlockTypes[] = {
    GGML_TYPE_Q4_0,   GGML_TYPE_Q4_1,    GGML_TYPE_Q5_0,   GGML_TYPE_Q5_1,  GGML_TYPE_Q8_0,
    GGML_TYPE_IQ4_NL, GGML_TYPE_MXFP4,   GGML_TYPE_Q2_K,   GGML_TYPE_Q3_K,  GGML_TYPE_Q4_K,
    GGML_TYPE_Q5_K,   GGML_TYPE_Q6_K,    GGML_TYPE_IQ4_XS, GGML_TYPE_TQ2_0, GGML_TYPE_IQ1_S,
    GGML_TYPE_IQ1_M,  GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ2_XS, GGML_TYPE_IQ2_S, GGML_TYPE_IQ3_XXS,
    GGML_TYPE_IQ3_S,  GGML_TYPE_Q1_0,    GGML_TYPE_Q2_0,   GGML_TYPE_NVFP4, GGML_TYPE_TQ1_0};

std::vector<float> decode(Type type, const std::byte* row, std::int64_t n) {
    std::vector<float> values(static_cast<std::size_t>(n));
    quant::codec_of(type)->decode(row, values.data(), n);
    return values;
}

Row encode(Type type, const float* values, std::int64_t n) {
    Row row(row_size(type, n));
    const std::vector<float> even(static_cast<std::size_t>(n), 1.0f);
    EXPECT_TRUE(quant::encode_rows(type, values, row.data(), 1, n, even.data()));
    return row;
}

/// The column of a GEMV, and what it stands for.
struct Column {
    Row prepared;
    std::vector<float> values;
    Row another;  ///< a different one, prepared

    Column(Type type, const std::vector<float>& y, std::int64_t n) {
        const Type other = cpu_traits_of(type).vec_dot_type;
        const auto prepare = [&](const float* from) {
            Row row(row_size(other, n));
            cpu_traits_of(other).from_float(from, row.data(), n);
            return row;
        };
        prepared = prepare(y.data());
        values = decode(other, prepared.data(), n);
        another = prepare(y.data() + y.size() - static_cast<std::size_t>(n));
    }
};

/// A column as the kernel wants it.
class Arranged {
public:
    Arranged(const GemvKernel& kernel, const Row& prepared, std::int64_t depth)
        : memory_(gemv_column_size(depth) + 2 * 64, std::byte{0x5a}) {
        const std::size_t size = gemv_column_size(depth);
        void* place = memory_.data();
        std::size_t room = size + 64;
        at_ = static_cast<std::byte*>(std::align(64, size, place, room));
        kernel.arrange(prepared.data(), depth, at_);
        EXPECT_EQ(at_[size], std::byte{0x5a}) << "written behind the end";
    }
    const std::byte* get() const { return at_; }

private:
    Row memory_;
    std::byte* at_;
};

/// What the kernel of the instruction set in use gives; nothing where there is none.
std::optional<std::vector<float>> multiply(const MatrixView& view, const Column& column) {
    const GemvKernel kernel = gemv_kernel_of(view.type);
    if (!kernel) return {};
    const Arranged arranged(kernel, column.prepared, view.depth);
    const Arranged another(kernel, column.another, view.depth);
    using Results = std::vector<float>;
    const auto multiply_all = [&](const std::vector<const Arranged*>& columns, Turns turns,
                                  std::vector<Results>& results) {
        std::vector<const std::byte*> from;
        std::vector<float*> to;
        for (const Arranged* each : columns) from.push_back(each->get());
        for (Results& each : results) to.push_back(each.data());
        kernel.multiply(view, turns, from.data(), to.data(), static_cast<int>(from.size()));
    };
    const Turns all = Turns::of(view.count);
    const Results empty(static_cast<std::size_t>(view.count), 7.0f);
    std::vector<Results> alone{empty}, another_alone{empty}, together(5, empty), by_turn{empty};
    multiply_all({&arranged}, all, alone);
    multiply_all({&another}, all, another_alone);
    // Other columns, and one turn at a time, make no difference.
    multiply_all({&arranged, &another, &another, &arranged, &arranged}, all, together);
    for (const std::size_t i : {0, 3, 4}) EXPECT_EQ(together[i], alone[0]) << "column " << i;
    for (const std::size_t i : {1, 2}) EXPECT_EQ(together[i], another_alone[0]) << "column " << i;
    for (std::int64_t turn = 0; turn < all.end; ++turn) {
        multiply_all({&arranged}, {turn, turn + 1}, by_turn);
    }
    EXPECT_EQ(by_turn, alone);
    return alone[0];
}

void expect_products(const MatrixView& view, const Column& column) {
    // The minima of q4_1 and q5_1 are multiplied by a sum that was rounded to a half.
    const bool is_coarse = view.type == GGML_TYPE_Q4_1 || view.type == GGML_TYPE_Q5_1;
    for_each_target([&] {
        const auto out = multiply(view, column);
        if (!out) return;
        for (std::int64_t r = 0; r < view.count; ++r) {
            const auto x =
                decode(view.type, view.rows + static_cast<std::size_t>(r) * view.pitch, view.depth);
            double sum = 0, magnitude = 0;
            for (std::size_t i = 0; i < x.size(); ++i) {
                sum += double{x[i]} * column.values[i];
                magnitude += std::abs(double{x[i]} * column.values[i]);
            }
            EXPECT_NEAR((*out)[static_cast<std::size_t>(r)], sum,
                        (is_coarse ? 1e-3 : 1e-5) * magnitude + 1e-30)
                << "row " << r << " of " << view.depth << " elements";
        }
    });
}

TEST(CpuStream, IsTheProductOfTheDecodedRows) {
    const auto x = quant::read_floats("input_x.f32"), y = quant::read_floats("input_y.f32");
    for (const Type type : kBlockTypes) {
        SCOPED_TRACE(std::string(name_of(type)));
        const Row row = encode(type, x.data(), 2048);
        expect_products({type, row.data(), row.size(), 1, 2048}, Column(type, y, 2048));
    }
}

/// Numbers of blocks that no vector divides; rows at an odd distance, the last one at the very end
/// of its memory, where the sanitizers would see a byte too many being read.
TEST(CpuStream, TakesEveryNumberOfBlocks) {
    const auto x = quant::read_floats("input_x.f32"), y = quant::read_floats("input_y.f32");
    for (const Type type : kBlockTypes) {
        SCOPED_TRACE(std::string(name_of(type)));
        for (std::int64_t n = block_size(type); n <= 7 * block_size(type); n += block_size(type)) {
            const std::size_t size = row_size(type, n), pitch = size + 1;
            Row rows(2 * pitch + size);
            for (std::size_t r = 0; r < 3; ++r) {
                const Row row = encode(type, x.data() + 64 * r, n);
                std::copy(row.begin(), row.end(), rows.data() + r * pitch);
            }
            expect_products({type, rows.data(), pitch, 3, n}, Column(type, y, n));
        }
    }
}

TEST(CpuStream, ReadsCodesThatNoEncoderWrites) {
    const auto y = quant::read_floats("input_y.f32");
    for (const Type type : kBlockTypes) {
        SCOPED_TRACE(std::string(name_of(type)));
        const quant::Bytes raw = quant::read_bytes(std::string(name_of(type)) + ".raw.bin");
        for (std::size_t i = 0; i < 8; ++i) {  // one block at a time: their scales differ by far
            Row row(size_of(type));
            std::memcpy(row.data(), raw.data() + i * row.size(), row.size());
            const std::int64_t n = block_size(type);
            expect_products({type, row.data(), row.size(), 1, n}, Column(type, y, n));
        }
    }
}

/// Sums in 16 bits are as large as they can be.
TEST(CpuStream, LosesNothingAtTheLimits) {
    const std::vector<float> y(256, 127.0f);
    for (const Type type : kBlockTypes) {
        SCOPED_TRACE(std::string(name_of(type)));
        for (const int code : {0x00, 0x80, 0xff}) {
            const std::vector<float> ramp = quant::read_floats("input_x.f32");
            Row row = encode(type, ramp.data(), 256);
            const std::size_t block = size_of(type);
            for (std::size_t i = 0; i < row.size(); ++i) {
                // All but the first and last bytes of blocks, where their floats are.
                const std::size_t at = i % block;
                if (at >= 4 && at + 4 < block) row[i] = static_cast<std::byte>(code);
            }
            expect_products({type, row.data(), row.size(), 1, 256}, Column(type, y, 256));
        }
    }
}

/// The bytes of `values` as a plain type, and what they hold then.
std::pair<Row, std::vector<float>> as_plain(Type type, std::span<const float> values) {
    Row bytes(values.size() * size_of(type));
    std::vector<float> held;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const bool is_float = type == GGML_TYPE_F32, is_f16 = type == GGML_TYPE_F16;
        const std::uint16_t half = is_f16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
        std::memcpy(bytes.data() + i * size_of(type),
                    is_float ? static_cast<const void*>(&values[i]) : &half, size_of(type));
        held.push_back(is_float ? values[i] : is_f16 ? f16_to_f32(half) : bf16_to_f32(half));
    }
    return {std::move(bytes), std::move(held)};
}

TEST(CpuStream, OfPlainRowsWorksAtEveryLength) {
    constexpr std::size_t kRows = 5;  // three at a time
    const auto x = quant::read_floats("input_x.f32"), y = quant::read_floats("input_y.f32");
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
        SCOPED_TRACE(std::string(name_of(type)));
        for (std::size_t n = 1; n <= 140; ++n) {  // past four times the widest vector
            const auto made = as_plain(type, std::span(x).first(kRows * n));
            const Row& rows = made.first;
            const std::vector<float>& held = made.second;
            const auto column = as_plain(type, std::span(y).first(n)).second;
            const auto length = static_cast<std::int64_t>(n);
            for_each_target([&] {
                const GemvKernel kernel = gemv_kernel_of(type);
                alignas(64) std::byte arranged[512];
                const auto* used = reinterpret_cast<const std::byte*>(column.data());
                if (kernel.arrange != nullptr) {
                    kernel.arrange(column.data(), length, arranged);
                    used = arranged;
                }
                for (std::int64_t count = 1; count <= std::int64_t{kRows}; ++count) {
                    float out[kRows + 1] = {7, 7, 7, 7, 7, 7};
                    float* to = out;
                    kernel.multiply({type, rows.data(), row_size(type, length), count, length},
                                    Turns::of(count), &used, &to, 1);
                    for (std::size_t r = 0; r < static_cast<std::size_t>(count); ++r) {
                        double sum = 0, magnitude = 0;
                        for (std::size_t i = 0; i < n; ++i) {
                            const double term = double{held[r * n + i]} * column[i];
                            sum += term;
                            magnitude += std::abs(term);
                        }
                        EXPECT_NEAR(out[r], sum, 1e-5 * magnitude)
                            << n << " elements, row " << r << " of " << count;
                    }
                    EXPECT_EQ(out[count], 7) << "written behind the last of " << count << " rows";
                }
            });
        }
    }
}

TEST(CpuStream, IsThereWhereBytesCanBeMultiplied) {
    for_each_target([&] {
        const bool has_blocks = static_cast<bool>(gemv_kernel_of(GGML_TYPE_Q4_0));
        for (const Type type : kBlockTypes) {
            const GemvKernel kernel = gemv_kernel_of(type);
            EXPECT_EQ(static_cast<bool>(kernel), has_blocks) << name_of(type);
            EXPECT_EQ(kernel.arrange != nullptr, has_blocks) << name_of(type);
        }
        for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
            EXPECT_TRUE(gemv_kernel_of(type));
            EXPECT_EQ(gemv_kernel_of(type).most_columns, 1);  // tiles are as fast with two
        }
    });
}

}  // namespace
}  // namespace heddle::cpu
