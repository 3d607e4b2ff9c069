#include <gtest/gtest.h>

#include <string>

#include "backends/cpu/device.hpp"
#include "backends/cpu/kernels/test_support.hpp"
#include "backends/cpu/large_pages.hpp"
#include "backends/cpu/repack/buffer_type.hpp"
#include "backends/cpu/repack/repack_kernel.hpp"
#include "ggml-alloc.h"
#include "ggml-cpu.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_reduce.h"
#include "heddle/heddle.h"
#include "ops/matmul.hpp"
#include "ops/rows.hpp"

namespace heddle::cpu {
namespace {

constexpr Type kTypes[] = {GGML_TYPE_Q4_0,  GGML_TYPE_Q8_0, GGML_TYPE_IQ4_NL,
                           GGML_TYPE_MXFP4, GGML_TYPE_Q2_K, GGML_TYPE_Q4_K};

ggml_backend_dev_t cpu_device() { return ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0); }
ggml_backend_buffer_type_t repack_type() { return repack_buffer_type(cpu_device()); }

/// Calls `body()` on each instruction set that multiplies repacked weights.
template <class Body>
void for_each_repacking_target(Body&& body) {
    for_each_target([&] {
        if (has_repacked_products()) body();
    });
}

/// Weights in ordinary memory, and the same in a buffer of the repacking type.
class Weights {
public:
    Weights(Workbench& bench, Type type, const Extents& extent)
        : plain(bench.random(type, extent)) {
        repacked = context_.tensor(type, {extent[0], extent[1], extent[2], extent[3]});
        buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(&static_cast<Context&>(context_),
                                                           repack_type());
        EXPECT_NE(buffer_, nullptr) << heddle_last_error();
        EXPECT_NE(repacked->extra, nullptr);
        write();
    }
    ~Weights() { ggml_backend_buffer_free(buffer_); }
    Weights(const Weights&) = delete;
    Weights& operator=(const Weights&) = delete;

    void write() { ggml_backend_tensor_set(repacked, plain->data, 0, byte_size(*plain)); }
    ggml_backend_buffer_t buffer() const { return buffer_; }

    Tensor* const plain;
    Tensor* repacked;

private:
    TestContext context_;
    ggml_backend_buffer_t buffer_;
};

/// `repacked` gives what `plain` does, but for the order in which sums are made.
void expect_same(const Workbench& bench, const Tensor& plain, const Tensor& repacked) {
    for_each_repacking_target([&] {
        if (!repack_kernel_of(plain.src[0]->type)) return;
        ASSERT_TRUE(run_node(plain, 1));
        const std::vector<double> expected = values_of(plain);
        for (const int tasks : {1, 2, 5}) {
            SCOPED_TRACE(testing::Message() << tasks << " tasks");
            const Result<> done = run_node(repacked, tasks);
            ASSERT_TRUE(done) << done.error().message;
            expect_close(repacked, expected, 1e-4, 1e-4);
            bench.expect_intact();
        }
    });
}

/// Both forms of `a` have the same product with b.
void expect_same_product(Workbench& bench, const Weights& a, Tensor* b) {
    expect_same(bench, *bench.node<ops::MulMat>({}, {a.plain, b}),
                *bench.node<ops::MulMat>({}, {a.repacked, b}));
}

// ---- products ----------------------------------------------------------------------------------

TEST(CpuRepack, MultipliesEveryTypeWithAnyNumberOfColumns) {
    for (const Type type : kTypes) {
        SCOPED_TRACE(name_of(type));
        for (const std::int64_t columns : {1, 2, 3, 4, 5, 7, 12, 13, 29, 49, 61}) {
            SCOPED_TRACE(testing::Message() << columns << " columns");
            Workbench bench;
            const Weights a(bench, type, {512, 48, 1, 1});
            Tensor* b = bench.random(GGML_TYPE_F32, {512, columns, 1, 1});
            expect_same_product(bench, a, b);
        }
    }
}

TEST(CpuRepack, MultipliesALastMicroPanelOfEightRowsAndLongRows) {
    for (const Type type : kTypes) {
        SCOPED_TRACE(name_of(type));
        for (const std::int64_t columns : {1, 3, 9, 50}) {
            for (const std::int64_t rows :
                 {8, 40, 120}) {  // the last has micro-panels for all ways
                Workbench bench;
                const Weights a(bench, type, {2304, rows, 1, 1});
                Tensor* b = bench.random(GGML_TYPE_F32, {2304, columns, 1, 1});
                expect_same_product(bench, a, b);
            }
        }
    }
}

/// Each task has several turns, and micro-panels that come in none.
TEST(CpuRepack, MultipliesManyMicroPanelsWithASingleColumn) {
    for (const Type type : kTypes) {
        SCOPED_TRACE(name_of(type));
        Workbench bench;
        const Weights a(bench, type, {512, 536, 1, 1});
        expect_same_product(bench, a, bench.random(GGML_TYPE_F32, {512, 1, 1, 1}));
    }
}

TEST(CpuRepack, MultipliesRowsOfAFewBlocks) {
    Workbench bench;
    const Weights a(bench, GGML_TYPE_Q4_0, {96, 24, 1, 1});
    Tensor* b = bench.random(GGML_TYPE_F32, {96, 14, 1, 1});
    expect_same_product(bench, a, b);
}

TEST(CpuRepack, MultipliesColumnsInSeveralMatricesAndWithGaps) {
    Workbench bench;
    const Weights a(bench, GGML_TYPE_Q4_K, {256, 32, 1, 1});
    Tensor* b =
        bench.slice(bench.random(GGML_TYPE_F32, {300, 4, 3, 2}), {4, 0, 0, 0}, {256, 3, 3, 2});
    expect_same_product(bench, a, b);
}

TEST(CpuRepack, SharesOutColumnsWhereRowsAreFew) {
    Workbench bench;
    const Weights a(bench, GGML_TYPE_Q4_0, {64, 16, 1, 1});
    Tensor* b = bench.random(GGML_TYPE_F32, {64, 200, 1, 1});
    expect_same_product(bench, a, b);
}

TEST(CpuRepack, GivesRowsBackAsTheyWere) {
    for (const Type type : kTypes) {
        SCOPED_TRACE(name_of(type));
        Workbench bench;
        // Long rows are cut; the last micro-panel has eight rows; blocks of odd number lie
        // otherwise.
        const Weights a(bench, type, {2048 + 768, 40, 1, 1});
        Tensor* ids = bench.numbers(GGML_TYPE_I32, {7, 1, 1, 1}, {0, 39, 15, 16, 33, 32, 0});
        const Tensor* plain = bench.node<ops::GetRows>({}, {a.plain, ids});
        const Tensor* repacked = bench.node<ops::GetRows>({}, {a.repacked, ids});
        for_each_repacking_target([&] {
            if (!repack_kernel_of(type)) return;
            ASSERT_TRUE(run_node(*plain, 1));
            const std::vector<double> expected = values_of(*plain);
            for (const int tasks : {1, 2, 5}) {
                const Result<> done = run_node(*repacked, tasks);
                ASSERT_TRUE(done) << done.error().message;
                expect_close(*repacked, expected, 0);
                bench.expect_intact();
            }
        });
    }
}

TEST(CpuRepack, ReportsARowThatIsNotThere) {
    if (!has_repacked_products()) GTEST_SKIP() << "not on this machine";
    Workbench bench;
    const Weights a(bench, GGML_TYPE_Q4_0, {64, 16, 1, 1});
    Tensor* ids = bench.numbers(GGML_TYPE_I32, {2, 1, 1, 1}, {3, 16});
    const Result<> done = run_node(*bench.node<ops::GetRows>({}, {a.repacked, ids}), 1);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().message.find("entry 1 of the row numbers is 16, but "), 0u)
        << done.error().message;
}

TEST(CpuRepack, LetsNanThrough) {
    Workbench bench;
    const Weights a(bench, GGML_TYPE_Q4_0, {64, 16, 1, 1});
    Tensor* b = bench.random(GGML_TYPE_F32, {64, 6, 1, 1});
    at<float>(*b, 5, 2)[0] = NAN;
    Tensor* y = bench.node<ops::MulMat>({}, {a.repacked, b});
    for_each_repacking_target([&] {
        ASSERT_TRUE(run_node(*y, 1));
        EXPECT_TRUE(std::isnan(value_at(*y, 3, 2)));
        EXPECT_FALSE(std::isnan(value_at(*y, 3, 1)));
    });
}

TEST(CpuRepack, MultipliesEachTokenWithItsExperts) {
    for (const Type type : {GGML_TYPE_Q4_0, GGML_TYPE_Q4_K}) {
        for (const std::int64_t tokens : {1, 3, 40, 200}) {
            SCOPED_TRACE(testing::Message() << name_of(type) << ", " << tokens << " tokens");
            Workbench bench;
            const Weights a(bench, type, {256, 40, 5, 1});
            Tensor* b = bench.random(GGML_TYPE_F32, {256, 2, tokens, 1});
            std::vector<double> chosen;
            for (std::int64_t i = 0; i < 2 * tokens; ++i) {
                chosen.push_back(
                    static_cast<double>((i * i + i / 3) % 4));  // the last is not wanted
            }
            Tensor* ids = bench.numbers(GGML_TYPE_I32, {2, tokens, 1, 1}, chosen);
            expect_same(bench, *bench.node<ops::MulMatId>({}, {a.plain, b, ids}),
                        *bench.node<ops::MulMatId>({}, {a.repacked, b, ids}));
        }
    }
}

TEST(CpuRepack, ReportsAnExpertThatIsNotThere) {
    if (!has_repacked_products()) GTEST_SKIP() << "not on this machine";
    Workbench bench;
    const Weights a(bench, GGML_TYPE_Q4_0, {64, 16, 3, 1});
    Tensor* b = bench.random(GGML_TYPE_F32, {64, 1, 1, 1});
    Tensor* ids = bench.numbers(GGML_TYPE_I32, {2, 1, 1, 1}, {1, 3});
    const Result<> done = run_node(*bench.node<ops::MulMatId>({}, {a.repacked, b, ids}), 2);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().message, "ids name expert 3 of 3");
}

// ---- what is declined --------------------------------------------------------------------------

/// A weight that only says where it would lie.
class Probe {
public:
    Probe(Context& context, Type type, std::initializer_list<std::int64_t> extent)
        : weight(ggml_new_tensor(&context, type, static_cast<int>(extent.size()), extent.begin())),
          buffer_(ggml_backend_buft_alloc_buffer(repack_type(), 0)) {
        weight->buffer = buffer_;
    }
    ~Probe() { ggml_backend_buffer_free(buffer_); }
    Probe(const Probe&) = delete;
    Probe& operator=(const Probe&) = delete;

    Tensor* const weight;

private:
    ggml_backend_buffer_t buffer_;
};

TEST(CpuRepack, SupportsProductsOfTypesWithALayout) {
    for_each_repacking_target([&] {
        TestContext holder;
        Context& c = holder;
        Tensor* b = holder.f32({256, 4});
        const auto supports = [&](const Tensor* op) {
            return ggml_backend_dev_supports_op(cpu_device(), op);
        };
        for (const Type type : kTypes) {
            const Probe a(c, type, {256, 24});
            // Only q8_0 is not worth it everywhere.
            const bool expected = type != GGML_TYPE_Q8_0 || repack_kernel_of(type);
            EXPECT_EQ(supports(ggml_mul_mat(&c, a.weight, b)), expected) << name_of(type);
            Tensor* rows = ggml_get_rows(&c, a.weight, holder.tensor(GGML_TYPE_I32, {4}));
            EXPECT_EQ(supports(rows), expected) << "embeddings lie where products read them";
        }
        for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_1, GGML_TYPE_IQ2_XXS}) {
            const Probe a(c, type, {256, 24});
            EXPECT_FALSE(supports(ggml_mul_mat(&c, a.weight, b))) << name_of(type);
        }
        const Probe odd(c, GGML_TYPE_Q4_0, {256, 20}), a(c, GGML_TYPE_Q4_0, {256, 24});
        const Probe experts(c, GGML_TYPE_Q4_0, {256, 24, 3});
        EXPECT_FALSE(supports(ggml_mul_mat(&c, odd.weight, b)));
        EXPECT_TRUE(supports(ggml_get_rows(&c, a.weight, holder.tensor(GGML_TYPE_I32, {4}))));
        EXPECT_FALSE(supports(ggml_get_rows(&c, odd.weight, holder.tensor(GGML_TYPE_I32, {4}))));
        EXPECT_FALSE(
            supports(ggml_get_rows(&c, experts.weight, holder.tensor(GGML_TYPE_I32, {4, 3}))));
        EXPECT_FALSE(supports(ggml_mul_mat(&c, a.weight, holder.tensor(GGML_TYPE_F16, {256, 4}))));
        EXPECT_FALSE(supports(ggml_mul_mat(&c, b, a.weight))) << "operand 1";
        Tensor* view = ggml_view_2d(&c, a.weight, 256, 8, a.weight->nb[1], 0);
        EXPECT_FALSE(supports(ggml_mul_mat(&c, view, b)));
        EXPECT_FALSE(supports(ggml_mul_mat(&c, experts.weight, holder.f32({256, 4, 3}))));
        Tensor* ids = holder.tensor(GGML_TYPE_I32, {2, 4});
        EXPECT_TRUE(supports(ggml_mul_mat_id(&c, experts.weight, holder.f32({256, 2, 4}), ids)));
    });
}

TEST(CpuRepack, IsOfferedWhereTheInstructionSetMultipliesIt) {
    const auto extra =
        reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
            ggml_backend_cpu_reg(), "ggml_backend_dev_get_extra_bufts"));
    for_each_target([&] {
        ggml_backend_buffer_type_t* const types = extra(cpu_device());
        ASSERT_NE(types, nullptr);
        const bool repacks = has_repacked_products();
        EXPECT_EQ(types[repacks ? 1 : 0], large_page_buffer_type(cpu_device())) << "or none";
        if (!repacks) return;
        EXPECT_EQ(types[0], repack_type());
        EXPECT_STREQ(ggml_backend_buft_name(types[0]), "CPU_REPACK");
        EXPECT_EQ(ggml_backend_buft_get_alignment(types[0]), 32u);
        EXPECT_FALSE(ggml_backend_buft_is_host(types[0]));
        EXPECT_EQ(ggml_backend_buft_get_device(types[0]), cpu_device());
        EXPECT_TRUE(ggml_backend_dev_supports_buft(cpu_device(), types[0]));
    });
}

// ---- memory ------------------------------------------------------------------------------------

class CpuRepackBuffer : public testing::Test {
protected:
    ~CpuRepackBuffer() override { heddle_set_thread_error_mode(before_); }

    Workbench bench_;
    const heddle_error_mode before_ = heddle_set_thread_error_mode(HEDDLE_ERROR_MODE_RETURN);
};

TEST_F(CpuRepackBuffer, TakesNoMoreMemoryThanTheWeights) {
    const Weights a(bench_, GGML_TYPE_Q2_K, {512, 24, 1, 1});
    EXPECT_EQ(ggml_backend_buffer_get_alloc_size(a.buffer(), a.repacked), byte_size(*a.plain));
}

TEST_F(CpuRepackBuffer, TakesWholeTensorsOnlyAndGivesNothingBack) {
    Weights a(bench_, GGML_TYPE_Q4_0, {64, 16, 1, 1});
    const std::size_t size = byte_size(*a.plain);
    Tensor* b = bench_.random(GGML_TYPE_F32, {64, 1, 1, 1});
    Tensor* y = bench_.node<ops::MulMat>({}, {a.repacked, b});
    const auto failure_of = [](auto action) {
        heddle_clear_error();
        action();
        return std::string(heddle_last_error());
    };
    const std::string part =
        failure_of([&] { ggml_backend_tensor_set(a.repacked, a.plain->data, 18, size - 18); });
    EXPECT_NE(part.find("558 bytes at offset 18 are not all of the tensor's 576"),
              std::string::npos)
        << part;
    EXPECT_NE(failure_of([&] { ggml_backend_tensor_memset(a.repacked, 0, 0, 18); }), "");
    std::vector<std::byte> back(size);
    const std::string read =
        failure_of([&] { ggml_backend_tensor_get(a.repacked, back.data(), 0, size); });
    EXPECT_NE(read.find("'CPU_REPACK' have no function for it"), std::string::npos) << read;
    // Nothing was written, and a second write replaces the first.
    if (!has_repacked_products()) return;
    Tensor* plain = bench_.node<ops::MulMat>({}, {a.plain, b});
    expect_same(bench_, *plain, *y);
    bench_.fill(*a.plain);
    a.write();
    expect_same(bench_, *plain, *y);
    EXPECT_EQ(failure_of([&] { ggml_backend_tensor_memset(a.repacked, 0, 0, size); }), "");
    ASSERT_TRUE(run_node(*y, 1));
    expect_close(*y, std::vector<double>(16), 0);
}

TEST_F(CpuRepackBuffer, RefusesTensorsWithoutALayout) {
    TestContext context;
    context.tensor(GGML_TYPE_Q4_0, {64, 20});
    heddle_clear_error();
    EXPECT_EQ(
        ggml_backend_alloc_ctx_tensors_from_buft(&static_cast<Context&>(context), repack_type()),
        nullptr);
    EXPECT_NE(std::string(heddle_last_error()).find("with a multiple of 8 rows"), std::string::npos)
        << heddle_last_error();
}

TEST_F(CpuRepackBuffer, IsReadByProductsAndAsRowsAlone) {
    const Weights a(bench_, GGML_TYPE_Q4_0, {64, 16, 1, 1});
    Tensor* copy = ggml_cont(&static_cast<Context&>(bench_), a.repacked);
    bench_.place(copy);
    EXPECT_EQ(objection_to(*copy), "only matrix products and GET_ROWS read repacked weights");
}

}  // namespace
}  // namespace heddle::cpu
