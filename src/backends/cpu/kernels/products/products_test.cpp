#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "backends/cpu/dot/gemm.hpp"
#include "backends/cpu/kernels/test_support.hpp"
#include "backends/cpu/type_traits.hpp"
#include "ops/matmul.hpp"

namespace heddle::cpu {
namespace {

/// Row (i1, i2, i3) as numbers, rounded to `type` where it is f32.
std::vector<double> rounded_row(const Tensor& t, Type type, std::int64_t i1, std::int64_t i2,
                                std::int64_t i3) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < t.ne[0]; ++i) values.push_back(value_at(t, i, i1, i2, i3));
    if (t.type != GGML_TYPE_F32 || type == GGML_TYPE_F32) return values;
    const std::vector<float> floats(values.begin(), values.end());
    std::vector<std::byte> row(row_size(type, t.ne[0]));
    cpu_traits_of(type).from_float(floats.data(), row.data(), t.ne[0]);
    Tensor encoded{};
    encoded.type = type;
    encoded.ne[0] = t.ne[0];
    encoded.nb[0] = size_of(type);
    encoded.data = row.data();
    for (std::int64_t i = 0; i < t.ne[0]; ++i) {
        values[static_cast<std::size_t>(i)] = value_at(encoded, i);
    }
    return values;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
}

/// The definition, with b rounded as the type of a asks for.
std::vector<double> product(const Tensor& a, const Tensor& b) {
    const Type type = cpu_traits_of(a.type).vec_dot_type;
    std::vector<double> values;
    for (std::int64_t i3 = 0; i3 < b.ne[3]; ++i3) {
        for (std::int64_t i2 = 0; i2 < b.ne[2]; ++i2) {
            std::vector<std::vector<double>> rows;
            for (std::int64_t i = 0; i < a.ne[1]; ++i) {
                rows.push_back(
                    rounded_row(a, a.type, i, i2 / (b.ne[2] / a.ne[2]), i3 / (b.ne[3] / a.ne[3])));
            }
            for (std::int64_t j = 0; j < b.ne[1]; ++j) {
                const auto column = rounded_row(b, type, j, i2, i3);
                for (const auto& row : rows) values.push_back(dot(row, column));
            }
        }
    }
    return values;
}

/// Sums of n terms up to 1 in f32; the minima of q4_1 and q5_1 meet a sum rounded to a half, where
/// codes of b come out of 8 bits.
double allowed(Type type, std::int64_t n) {
    const bool is_coarse = type == GGML_TYPE_Q4_1 || type == GGML_TYPE_Q5_1;
    return 2e-6 * std::sqrt(static_cast<double>(n)) + (is_coarse ? 2e-3 * std::sqrt(n) : 0);
}

void expect_product(Workbench& bench, Tensor* a, Tensor* b) {
    Tensor* y = bench.node<ops::MulMat>({}, {a, b});
    ASSERT_NE(y, nullptr);
    expect_result(bench, *y, product(*a, *b), 1e-5, allowed(a->type, a->ne[0]));
}

TEST(CpuMulMat, MultipliesEveryTypeWithAnyNumberOfColumns) {
    for (int number = 0; number < GGML_TYPE_COUNT; ++number) {
        const auto type = static_cast<Type>(number);
        if (cpu_traits_of(type).vec_dot == nullptr) continue;
        for (const std::int64_t n : {1, 4, 7}) {
            SCOPED_TRACE(std::string(name_of(type)) + ", n = " + std::to_string(n));
            Workbench bench;
            expect_product(bench, bench.random(type, {256, 5, 1, 1}),
                           bench.random(GGML_TYPE_F32, {256, n, 1, 1}));
        }
    }
}

TEST(CpuMulMat, MultipliesManyRowsWithManyColumnsOfEveryType) {
    for (int number = 0; number < GGML_TYPE_COUNT; ++number) {
        const auto type = static_cast<Type>(number);
        if (cpu_traits_of(type).vec_dot == nullptr) continue;
        // Past one micro-panel of rows and of columns of every instruction set, and not whole ones;
        // the longer rows are past what is multiplied in one go.
        const bool is_long = type == GGML_TYPE_F16 || type == GGML_TYPE_Q4_0 ||
                             type == GGML_TYPE_Q4_K || type == GGML_TYPE_Q6_K;
        for (const auto& [m, n] : {std::pair{9, 4}, {35, 14}, {32, 24}, {37, 29}, {16, 50}}) {
            SCOPED_TRACE(testing::Message() << name_of(type) << " " << m << " " << n);
            Workbench bench;
            const std::int64_t k = is_long && n < 24 ? 1280 : 256;
            expect_product(bench, bench.random(type, {k, m, 1, 1}),
                           bench.random(GGML_TYPE_F32, {k, n, 1, 1}));
        }
    }
}

TEST(CpuMulMat, MultipliesLongRowsOfEveryTypeWithFewColumns) {
    for (int number = 0; number < GGML_TYPE_COUNT; ++number) {
        const auto type = static_cast<Type>(number);
        if (cpu_traits_of(type).vec_dot == nullptr) continue;
        const std::int64_t block = block_size(type);
        for (const std::int64_t k : {512 + block, 1024 - block, std::int64_t{768}}) {
            SCOPED_TRACE(testing::Message() << name_of(type) << " " << k);
            Workbench bench;
            Tensor* a = bench.random(type, {k, 5, 2, 1});
            expect_product(bench, a, bench.random(GGML_TYPE_F32, {k, 1, 2, 1}));
            expect_product(bench, a, bench.random(GGML_TYPE_F32, {k, 3, 2, 1}));
        }
    }
}

/// So many that each task has several units, with columns that read them again and matrices that
/// begin in the middle of a share.
TEST(CpuMulMat, MultipliesManyLongRowsWithFewColumns) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K}) {
        SCOPED_TRACE(name_of(type));
        Workbench bench;
        Tensor* a = bench.random(type, {768, 601, 1, 1});
        expect_product(bench, a, bench.random(GGML_TYPE_F32, {768, 1, 1, 1}));
        expect_product(bench, a, bench.random(GGML_TYPE_F32, {768, 2, 1, 1}));
        expect_product(bench, bench.random(type, {768, 301, 3, 1}),
                       bench.random(GGML_TYPE_F32, {768, 1, 3, 1}));
    }
}

/// Whole micro-panels of rows are packed while they are multiplied, some elements ahead: lengths
/// before, at and after what is packed at a time.
TEST(CpuMulMat, PacksRowsOfAnyLength) {
    for (const Type type : {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL,
                            GGML_TYPE_MXFP4, GGML_TYPE_NVFP4, GGML_TYPE_Q2_0, GGML_TYPE_Q1_0}) {
        const std::int64_t block = block_size(type);
        for (const std::int64_t k : {block, 256 - block, 256 + block, 512 - block, 1024 + block}) {
            for (const std::int64_t n : {4, 6, 11, 13}) {
                SCOPED_TRACE(testing::Message() << name_of(type) << " " << k << " " << n);
                Workbench bench;
                expect_product(bench, bench.random(type, {k, 35, 1, 1}),
                               bench.random(GGML_TYPE_F32, {k, n, 1, 1}));
            }
        }
    }
}

/// Rows are multiplied with one micro-panel of columns as they are packed, over more elements than
/// is usual; neither that nor how columns are shared out may change a result.
TEST(CpuMulMat, GivesFewColumnsTheResultsTheyHaveAmongMany) {
    for (const Type type : {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K}) {
        for (const std::int64_t k : {768, 2304, 16640}) {  // of one go, of some, of more than fit
            SCOPED_TRACE(testing::Message() << name_of(type) << " " << k);
            Workbench bench;
            Tensor* a = bench.random(type, {k, 35, 1, 1});
            Tensor* b = bench.random(GGML_TYPE_F32, {k, 29, 1, 1});
            Tensor* many = bench.node<ops::MulMat>({}, {a, b});
            Tensor* few = bench.node<ops::MulMat>({}, {a, bench.slice(b, {}, {k, 8, 1, 1})});
            ASSERT_TRUE(many != nullptr && few != nullptr);
            for_each_way([&](int tasks) {
                const GemmKernel kernel = gemm_kernel_of(type);
                if (!kernel || !kernel.pays_for(8, k)) return;
                ASSERT_TRUE(run_node(*many, tasks));
                ASSERT_TRUE(run_node(*few, tasks));
                EXPECT_EQ(std::memcmp(many->data, few->data, byte_size(*few)), 0);
            });
        }
    }
}

/// Codes of 8 bits at the ends of their range, where sums in too few bits would overflow.
TEST(CpuMulMat, AddsUpExtremeCodes) {
    for (const Type type : {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q5_0, GGML_TYPE_MXFP4,
                            GGML_TYPE_Q6_K, GGML_TYPE_Q5_K, GGML_TYPE_Q3_K, GGML_TYPE_IQ4_XS}) {
        for (const std::int64_t n : {1, 16}) {
            SCOPED_TRACE(testing::Message() << name_of(type) << " " << n);
            Workbench bench;
            Tensor* a = bench.random(type, {768, 20, 1, 1});
            std::vector<float> ones(768 * 20);
            for (std::size_t i = 0; i < ones.size(); ++i) ones[i] = i / 768 % 2 == 0 ? 1.0f : -1.0f;
            cpu_traits_of(type).from_float(ones.data(), a->data, 768 * 20);
            Tensor* b = bench.tensor(GGML_TYPE_F32, {768, n, 1, 1});
            for_elements(*b, [&](std::int64_t i, std::int64_t j, auto...) {
                *at<float>(*b, i, j) = j % 2 == 0 ? 1.0f : -1.0f;
            });
            Tensor* y = bench.node<ops::MulMat>({}, {a, b});
            expect_result(bench, *y, product(*a, *b), 1e-5, 1e-3);
        }
    }
}

/// No encoder writes -128, but files may hold it: the ends of the range of rows meet it here.
TEST(CpuMulMat, MultipliesTheLowestCodesThereAre) {
    const auto fill = [](Tensor& t, int code) {
        const std::uint16_t one = 0x3c00;  // all of these blocks begin with their scale
        auto* block = static_cast<std::byte*>(t.data);
        for (std::size_t i = 0; i < byte_size(t); i += size_of(t.type), block += size_of(t.type)) {
            std::memset(block, code, size_of(t.type));
            std::memcpy(block, &one, sizeof one);
        }
    };
    for (const Type type : {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q5_0, GGML_TYPE_IQ4_NL}) {
        for (const int code : {0x00, 0x80, 0xff}) {
            SCOPED_TRACE(testing::Message() << name_of(type) << " " << code);
            Workbench bench;
            Tensor* a = bench.random(type, {96, 20, 1, 1});
            Tensor* b = bench.random(GGML_TYPE_Q8_0, {96, 16, 1, 1});
            fill(*a, code);
            fill(*b, 0x80);
            Tensor* y = bench.node<ops::MulMat>({}, {a, b});
            ASSERT_NE(y, nullptr);
            expect_result(bench, *y, product(*a, *b), 1e-6, 1e-3);
        }
    }
}

TEST(CpuMulMat, TakesBInTheDotTypeAsItIs) {
    for (const Type type : {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_K}) {
        SCOPED_TRACE(std::string(name_of(type)));
        Workbench bench;
        Tensor* a = bench.random(type, {256, 6, 1, 1});
        Tensor* b = bench.tensor(cpu_traits_of(type).vec_dot_type, {256, 3, 1, 1});
        std::vector<float> values(256 * 3);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
        cpu_traits_of(b->type).from_float(values.data(), b->data, 256 * 3);
        expect_product(bench, a, b);
        Tensor* many = bench.tensor(b->type, {256, 13, 1, 1});
        for (std::int64_t j = 0; j < 13; ++j)
            std::memcpy(at(*many, 0, j), at(*b, 0, j % 3), b->nb[1]);
        expect_product(bench, bench.random(type, {256, 21, 1, 1}), many);
    }
}

TEST(CpuMulMat, HasNoFavouriteSizes) {
    for (const std::int64_t k : {1, 4, 8, 15, 27, 65, 80, 193, 1025}) {
        for (const auto& [m, n] :
             {std::pair{1, 1}, {5, 3}, {83, 2}, {13, 67}, {1, 70}, {131, 25}}) {
            for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
                SCOPED_TRACE(testing::Message()
                             << name_of(type) << " " << k << " " << m << " " << n);
                Workbench bench;
                expect_product(bench, bench.random(type, {k, m, 1, 1}),
                               bench.random(GGML_TYPE_F32, {k, n, 1, 1}));
            }
        }
    }
}

TEST(CpuMulMat, RepeatsMatricesOfAByDivision) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_BF16, GGML_TYPE_Q8_0}) {
        for (const std::int64_t n : {1, 5}) {
            Workbench bench;
            expect_product(bench, bench.random(type, {64, 19, 2, 3}),
                           bench.random(GGML_TYPE_F32, {64, n, 8, 6}));
        }
    }
}

TEST(CpuMulMat, HonoursPermutationsPaddedRowsAndOverlap) {
    const std::array<int, 4> orders[] = {{0, 2, 1, 3}, {0, 1, 3, 2}, {0, 3, 2, 1}};
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0}) {
        for (const auto& order : orders) {
            Workbench bench;
            expect_product(bench, bench.permuted(bench.random(type, {32, 3, 3, 3}), order),
                           bench.permuted(bench.random(GGML_TYPE_F32, {32, 3, 3, 3}), order));
        }
    }
    Workbench bench;
    Tensor* both = bench.random(GGML_TYPE_F32, {96, 9, 2, 1});
    expect_product(bench, bench.slice(both, {3, 0, 0, 0}, {32, 4, 2, 1}, {1, 2, 1, 1}),
                   bench.slice(both, {7, 1, 0, 0}, {32, 4, 2, 1}, {1, 2, 1, 1}));
}

TEST(CpuMulMat, LetsInfinityAndNanThrough) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_Q8_0}) {
        Workbench bench;
        Tensor* b = bench.random(GGML_TYPE_F32, {64, 2, 1, 1});
        *at<float>(*b, 5, 1) = std::numeric_limits<float>::quiet_NaN();
        Tensor* y = bench.node<ops::MulMat>({}, {bench.random(type, {64, 3, 1, 1}), b});
        for_each_way([&](int tasks) {
            ASSERT_TRUE(run_node(*y, tasks));
            EXPECT_TRUE(std::isfinite(value_at(*y, 2, 0)));
            EXPECT_TRUE(std::isnan(value_at(*y, 0, 1)));
            EXPECT_TRUE(std::isnan(value_at(*y, 2, 1)));
        });
        Tensor* many = bench.random(GGML_TYPE_F32, {64, 16, 1, 1});
        *at<float>(*many, 63, 7) = std::numeric_limits<float>::infinity();
        Tensor* z = bench.node<ops::MulMat>({}, {bench.random(type, {64, 40, 1, 1}), many});
        for_each_way([&](int tasks) {
            ASSERT_TRUE(run_node(*z, tasks));
            for_elements(*z, [&](std::int64_t i, std::int64_t j, auto...) {
                EXPECT_EQ(std::isfinite(value_at(*z, i, j)), j != 7) << i << " " << j;
            });
        });
    }
}

TEST(CpuMulMat, DeclinesWhatItCannotMultiply) {
    Workbench bench;
    const auto reason = [&](Type a, Type b) {
        return objection_to(*bench.node<ops::MulMat>(
            {}, {bench.tensor(a, {256, 2, 1, 1}), bench.tensor(b, {256, 2, 1, 1})}));
    };
    EXPECT_EQ(reason(GGML_TYPE_F32, GGML_TYPE_F16), "b is neither f32 nor a's dot type");
    EXPECT_EQ(reason(GGML_TYPE_Q4_0, GGML_TYPE_F16), "b is neither f32 nor a's dot type");
    EXPECT_EQ(reason(GGML_TYPE_I32, GGML_TYPE_F32), "there is no dot product for the type of a");
    EXPECT_EQ(reason(GGML_TYPE_Q8_K, GGML_TYPE_F32), "there is no dot product for the type of a");
    EXPECT_EQ(reason(GGML_TYPE_Q4_K, GGML_TYPE_Q8_K), "");
    Tensor* b = bench.permuted(bench.tensor(GGML_TYPE_F32, {2, 256, 1, 1}), {1, 0, 2, 3});
    EXPECT_EQ(objection_to(
                  *bench.node<ops::MulMat>({}, {bench.tensor(GGML_TYPE_F32, {256, 2, 1, 1}), b})),
              "rows of b are not dense");
}

// ---- mul_mat_id --------------------------------------------------------------------------------

std::vector<double> mixture(const Tensor& as, const Tensor& b, const Tensor& ids) {
    const Type type = cpu_traits_of(as.type).vec_dot_type;
    std::vector<double> values;
    for (std::int64_t t = 0; t < ids.ne[1]; ++t) {
        for (std::int64_t e = 0; e < ids.ne[0]; ++e) {
            const auto expert = static_cast<std::int64_t>(value_at(ids, e, t));
            const auto column = rounded_row(b, type, e % b.ne[1], t, 0);
            for (std::int64_t i = 0; i < as.ne[1]; ++i) {
                values.push_back(dot(rounded_row(as, as.type, i, expert, 0), column));
            }
        }
    }
    return values;
}

Tensor* random_ids(Workbench& bench, std::int64_t used, std::int64_t tokens, int experts) {
    Tensor* ids = bench.tensor(GGML_TYPE_I32, {used, tokens, 1, 1});
    std::uniform_int_distribution<int> expert(0, experts - 1);
    for_elements(*ids, [&](std::int64_t e, std::int64_t t, auto...) {
        *at<std::int32_t>(*ids, e, t) = expert(bench.generator());
    });
    return ids;
}

TEST(CpuMulMatId, MultipliesEachTokenWithItsExperts) {
    for (const Type type :
         {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q6_K, GGML_TYPE_IQ2_XXS}) {
        for (const std::int64_t rows : {1, 4}) {
            for (const std::int64_t tokens : {1, 5, 40}) {
                SCOPED_TRACE(testing::Message() << name_of(type) << " " << rows << " " << tokens);
                Workbench bench;
                Tensor* as = bench.random(type, {256, 19, 6, 1});
                Tensor* b = bench.random(GGML_TYPE_F32, {256, rows, tokens, 1});
                Tensor* ids = random_ids(bench, 4, tokens, 6);
                Tensor* y = bench.node<ops::MulMatId>({}, {as, b, ids});
                expect_result(bench, *y, mixture(*as, *b, *ids), 1e-5, allowed(type, 256));
            }
        }
    }
}

TEST(CpuMulMatId, MultipliesLongRows) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_K}) {
        for (const std::int64_t tokens : {1, 7}) {  // experts with a single column, and with more
            SCOPED_TRACE(testing::Message() << name_of(type) << " " << tokens);
            Workbench bench;
            Tensor* as = bench.random(type, {768, 17, 5, 1});
            Tensor* b = bench.random(GGML_TYPE_F32, {768, 2, tokens, 1});
            Tensor* ids = random_ids(bench, 2, tokens, 5);
            Tensor* y = bench.node<ops::MulMatId>({}, {as, b, ids});
            expect_result(bench, *y, mixture(*as, *b, *ids), 1e-5, allowed(type, 768));
        }
    }
}

TEST(CpuMulMatId, ReadsIdsFromPaddedRowsAndNoExpertThatIsNotNamed) {
    Workbench bench;
    Tensor* as = bench.random(GGML_TYPE_F32, {16, 50, 8, 1});
    std::memset(at(*as, 0, 0, 3), 0xff, as->nb[2]);  // NaN
    Tensor* all = bench.tensor(GGML_TYPE_I32, {8, 6, 1, 1});
    for_elements(*all, [&](std::int64_t e, std::int64_t t, auto...) {
        *at<std::int32_t>(*all, e, t) = e >= 2 ? 3 : static_cast<std::int32_t>((t + 4 * e) % 3);
    });
    Tensor* ids = bench.slice(all, {0, 0, 0, 0}, {2, 6, 1, 1});
    Tensor* b = bench.random(GGML_TYPE_F32, {16, 2, 6, 1});
    Tensor* y = bench.node<ops::MulMatId>({}, {as, b, ids});
    expect_result(bench, *y, mixture(*as, *b, *ids), 1e-5, 1e-5);
}

TEST(CpuMulMatId, ReportsAnExpertThatIsNotThere) {
    for (const std::int32_t bad : {-1, 4}) {
        Workbench bench;
        Tensor* ids = bench.numbers(GGML_TYPE_I32, {2, 1, 1, 1}, {0, static_cast<double>(bad)});
        Tensor* y = bench.node<ops::MulMatId>({}, {bench.random(GGML_TYPE_F32, {8, 3, 4, 1}),
                                                   bench.random(GGML_TYPE_F32, {8, 1, 1, 1}), ids});
        const Result<> done = run_node(*y, 2);
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().message, "ids name expert " + std::to_string(bad) + " of 4");
    }
}

// ---- out_prod ----------------------------------------------------------------------------------

std::vector<double> outer(const Tensor& a, const Tensor& b) {
    std::vector<double> values;
    for (std::int64_t i3 = 0; i3 < b.ne[3]; ++i3) {
        for (std::int64_t i2 = 0; i2 < b.ne[2]; ++i2) {
            for (std::int64_t j = 0; j < b.ne[0]; ++j) {
                for (std::int64_t i = 0; i < a.ne[0]; ++i) {
                    double sum = 0;
                    for (std::int64_t p = 0; p < a.ne[1]; ++p) {
                        sum +=
                            value_at(a, i, p, i2 / (b.ne[2] / a.ne[2]), i3 / (b.ne[3] / a.ne[3])) *
                            value_at(b, j, p, i2, i3);
                    }
                    values.push_back(sum);
                }
            }
        }
    }
    return values;
}

TEST(CpuOutProd, SumsOverRowsOfBoth) {
    for (const std::int64_t m : {1, 37, 256}) {
        for (const std::int64_t depth : {1, 16}) {
            Workbench bench;
            Tensor* a = bench.random(GGML_TYPE_F32, {m, depth, 2, 1});
            Tensor* b = bench.random(GGML_TYPE_F32, {5, depth, 4, 3});
            expect_result(bench, *bench.node<ops::OutProd>({}, {a, b}), outer(*a, *b), 1e-5, 1e-5);
            Tensor* turned =
                bench.permuted(bench.random(GGML_TYPE_F32, {depth, 5, 2, 1}), {1, 0, 2, 3});
            expect_result(bench, *bench.node<ops::OutProd>({}, {a, turned}), outer(*a, *turned),
                          1e-5, 1e-5);
        }
    }
}

TEST(CpuOutProd, HasNoFavouriteSizes) {
    for (const auto& [m, n, depth] :
         {std::array{83, 29, 70}, {16, 4, 8}, {33, 110, 9}, {20, 7, 1100}}) {
        SCOPED_TRACE(testing::Message() << m << " " << n << " " << depth);
        Workbench bench;
        Tensor* a = bench.random(GGML_TYPE_F32, {m, depth, 1, 2});
        Tensor* b = bench.random(GGML_TYPE_F32, {n, depth, 2, 2});
        expect_result(bench, *bench.node<ops::OutProd>({}, {a, b}), outer(*a, *b), 1e-5, 1e-4);
    }
}

TEST(CpuOutProd, DecodesHalvesAndBlocks) {
    for (const Type type : {GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q6_K}) {
        Workbench bench;
        Tensor* a = bench.random(type, {256, 6, 2, 3});
        Tensor* b = bench.random(GGML_TYPE_F32, {7, 6, 2, 3});
        expect_result(bench, *bench.node<ops::OutProd>({}, {a, b}), outer(*a, *b), 1e-5, 1e-5);
    }
}

TEST(CpuOutProd, DeclinesOtherTypesAndRepeatsOfThem) {
    Workbench bench;
    const auto reason = [&](Type type, std::int64_t batch) {
        return objection_to(*bench.node<ops::OutProd>(
            {},
            {bench.tensor(type, {32, 4, 1, 1}), bench.tensor(GGML_TYPE_F32, {3, 4, batch, 1})}));
    };
    EXPECT_EQ(reason(GGML_TYPE_BF16, 1),
              "out_prod_f32: a is not f32; out_prod_decoded: a is "
              "neither f32, f16 nor a block format");
    EXPECT_EQ(reason(GGML_TYPE_F16, 2),
              "out_prod_f32: a is not f32; out_prod_decoded: a is not "
              "f32 and would have to repeat");
    EXPECT_EQ(reason(GGML_TYPE_Q8_0, 1), "");
    EXPECT_EQ(reason(GGML_TYPE_F32, 2), "");
}

}  // namespace
}  // namespace heddle::cpu
