#include "backends/cpu/dot/multiplier.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backends/cpu/kernels/test_support.hpp"
#include "core/half.hpp"
#include "ops/matmul.hpp"

namespace heddle::cpu {
namespace {

constexpr Type kPlainTypes[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};

/// Rows of a plain type and columns of f32 with random elements in -1 .. 1, and what they stand
/// for.
struct Operands {
    std::int64_t depth, rows, columns;
    std::size_t pitch;
    std::vector<std::byte> a;
    std::vector<float> values;  ///< of a, one row after the other
    std::vector<float> b;
    MatrixView view;

    Operands(Type type, std::int64_t k, std::int64_t m, std::int64_t n)
        : depth(k),
          rows(m),
          columns(n),
          pitch(row_size(type, k) + 12),
          a(pitch * static_cast<std::size_t>(m)),
          values(static_cast<std::size_t>(k * m)),
          b(static_cast<std::size_t>(k * n)) {
        std::mt19937 random(1);
        std::uniform_real_distribution<float> uniform(-1, 1);
        for (float& value : b) value = uniform(random);
        for (std::int64_t r = 0; r < m; ++r) {
            for (std::int64_t i = 0; i < k; ++i) {
                values[static_cast<std::size_t>(r * k + i)] = put(type, r, i, uniform(random));
            }
        }
        view = {type, a.data(), pitch, m, k};
    }

    /// Returns what `value` is rounded to.
    float put(Type type, std::int64_t row, std::int64_t i, float value) {
        std::byte* to = a.data() + static_cast<std::size_t>(row) * pitch +
                        static_cast<std::size_t>(i) * size_of(type);
        if (type == GGML_TYPE_F32) {
            std::memcpy(to, &value, sizeof value);
            return value;
        }
        const bool is_f16 = type == GGML_TYPE_F16;
        const std::uint16_t bits = is_f16 ? f32_to_f16(value) : f32_to_bf16(value);
        std::memcpy(to, &bits, sizeof bits);
        return is_f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
    }

    double expected(std::int64_t row, std::int64_t column) const {
        double sum = 0;
        for (std::int64_t i = 0; i < depth; ++i) {
            sum += double{values[static_cast<std::size_t>(row * depth + i)]} *
                   b[static_cast<std::size_t>(column * depth + i)];
        }
        return sum;
    }

    /// Results of `part` with columns `first` .. `first + count`; after those of a column is a
    /// number that must not be written to.
    std::vector<float> multiply(const MatrixView& part, std::int64_t first,
                                std::int64_t count) const {
        const std::int64_t room = part.count + 1;
        std::vector<float> results(static_cast<std::size_t>(room * count), 7.0f);
        std::vector<const std::byte*> from;
        std::vector<float*> to;
        for (std::int64_t c = 0; c < count; ++c) {
            from.push_back(reinterpret_cast<const std::byte*>(b.data() + (first + c) * depth));
            to.push_back(results.data() + c * room);
        }
        plain_multiply_of(part.type)(part, from.data(), to.data(), static_cast<int>(count));
        for (std::int64_t c = 0; c < count; ++c) {
            EXPECT_EQ(results[static_cast<std::size_t>(c * room + part.count)], 7.0f)
                << "written behind the results of column " << c;
        }
        return results;
    }
};

/// Depths around what is multiplied in one go, with all kinds of tails.
constexpr std::int64_t kDepths[] = {0, 1, 3, 9, 15, 27, 64, 100, 511, 512, 530, 1024, 1027, 2049};

TEST(CpuMultiplier, HasTheProductsOfAnyNumberOfRowsAndColumns) {
    for (const Type type : kPlainTypes) {
        for (const std::int64_t depth : kDepths) {
            const Operands all(type, depth, 11, 20);
            for (const auto& [rows, columns] :
                 {std::pair{1, 20}, {2, 0}, {2, 3}, {3, 8}, {5, 9}, {7, 5}, {8, 6}, {11, 17}}) {
                SCOPED_TRACE(testing::Message()
                             << name_of(type) << " " << depth << " x " << rows << " x " << columns);
                for_each_target([&, m = rows, n = columns] {
                    MatrixView view = all.view;
                    view.count = m;
                    const auto results = all.multiply(view, 0, n);
                    for (std::int64_t i = 0; i < m * n; ++i) {
                        const std::int64_t c = i / m, r = i % m;
                        // As many roundings as elements at most, of sums that stay below sqrt(n).
                        EXPECT_NEAR(results[static_cast<std::size_t>(c * (m + 1) + r)],
                                    all.expected(r, c), 1e-6 * std::sqrt(double(depth)) + 1e-7);
                    }
                });
            }
        }
    }
}

TEST(CpuMultiplier, CountsInfiniteElementsOnce) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (const Type type : kPlainTypes) {
        for (const std::int64_t depth : {5, 17, 27, 33}) {
            for (std::int64_t i = 0; i < depth; ++i) {
                SCOPED_TRACE(testing::Message()
                             << name_of(type) << ", element " << i << " of " << depth);
                Operands all(type, depth, 4, 9);
                for (std::int64_t r = 0; r < all.rows; ++r) all.put(type, r, i, 2);
                for (std::int64_t c = 0; c < all.columns; ++c) {
                    all.b[static_cast<std::size_t>(c * depth + i)] = kInfinity;
                }
                for_each_target([&] {
                    const auto results = all.multiply(all.view, 0, all.columns);
                    for (std::size_t k = 0; k < results.size(); ++k) {
                        EXPECT_EQ(results[k], k % 5 == 4 ? 7.0f : kInfinity);
                    }
                });
            }
        }
    }
}

TEST(CpuMultiplier, GivesTheSameWhateverElseIsComputed) {
    for (const Type type : kPlainTypes) {
        const Operands all(type, 1043, 11, 33);
        SCOPED_TRACE(std::string(name_of(type)));
        for_each_target([&] {
            const auto together = all.multiply(all.view, 0, all.columns);
            for (const std::int64_t width : {1, 2, 4, 6, 8, 13}) {
                const auto some = all.multiply(all.view, 5, width);
                for (std::size_t i = 0; i < some.size(); ++i) {
                    EXPECT_EQ(some[i], together[i + 5 * 12]) << width << " columns";
                }
            }
            for (std::int64_t r = 0; r < all.rows; ++r) {
                MatrixView one = all.view;
                one.rows += static_cast<std::size_t>(r) * one.pitch;
                one.count = 1;
                const auto alone = all.multiply(one, 7, 1);
                EXPECT_EQ(alone[0], together[static_cast<std::size_t>(7 * 12 + r)]) << "row " << r;
            }
        });
    }
}

TEST(CpuMultiplier, PreparedRowsDoNotCrowdTheCache) {
    const Multiplier multiplier = multiplier_of(GGML_TYPE_F32);
    for (std::int64_t depth = 1; depth < 40000; depth += 31) {
        const std::size_t pitch = prepared_pitch(multiplier, depth);
        EXPECT_GE(pitch, static_cast<std::size_t>(depth) * sizeof(float));
        EXPECT_EQ(pitch % 64, 0u);
        EXPECT_TRUE(pitch < 4096 || pitch % 4096 >= 512) << "depth " << depth;
    }
    EXPECT_EQ(prepared_pitch(multiplier, 4096), 16384u + 512u);
}

TEST(CpuMultiplier, ColumnsAreCopiedOnlyWhereItPays) {
    const Multiplier f32 = multiplier_of(GGML_TYPE_F32);
    EXPECT_TRUE(wants_copies(f32, 16384, 4096, 8));
    EXPECT_TRUE(wants_copies(f32, 4096 + 64, 64, 5));
    EXPECT_FALSE(wants_copies(f32, 16384 + 512, 4096, 8)) << "they are apart already";
    EXPECT_FALSE(wants_copies(f32, 512, 4096, 8)) << "they are near each other";
    EXPECT_FALSE(wants_copies(f32, 16384, 4096, 4)) << "the cache has room for four";
    EXPECT_FALSE(wants_copies(f32, 16384, 4096, 512)) << "micro_panels are made of so many";
    EXPECT_FALSE(wants_copies(f32, 16384, 12, 8)) << "too few rows to make up for it";
    EXPECT_FALSE(wants_copies(multiplier_of(GGML_TYPE_Q4_0), 16384, 4096, 8)) << "not f32";
}

TEST(CpuMultiplier, ARowThatNeedsNothingIsCopied) {
    const float from[3] = {1, -2, 0.5f};
    float to[4] = {7, 7, 7, 7};
    prepare_row(multiplier_of(GGML_TYPE_F32), GGML_TYPE_F32, from, to, 3);
    EXPECT_EQ(std::vector<float>(to, to + 4), (std::vector<float>{1, -2, 0.5f, 7}));
}

TEST(CpuMultiplier, ColumnsThatCrowdTheCacheAreMultipliedLikeOthers) {
    for (const std::int64_t n : {5, 8, 19}) {
        SCOPED_TRACE(n);
        Workbench bench;
        Tensor* a = bench.random(GGML_TYPE_F32, {1024, 65, 1, 1});
        Tensor* b = bench.random(GGML_TYPE_F32, {1024, n, 1, 1});
        Tensor* y = bench.node<ops::MulMat>({}, {a, b});
        ASSERT_NE(y, nullptr);
        std::vector<double> expected;
        for (std::int64_t c = 0; c < n; ++c) {
            for (std::int64_t r = 0; r < a->ne[1]; ++r) {
                double sum = 0;
                for (std::int64_t i = 0; i < 1024; ++i) {
                    sum += value_at(*a, i, r) * value_at(*b, i, c);
                }
                expected.push_back(sum);
            }
        }
        expect_result(bench, *y, expected, 1e-5, 1e-4);
    }
}

}  // namespace
}  // namespace heddle::cpu
