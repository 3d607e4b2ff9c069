#include "backends/cpu/large_pages.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "backends/cpu/repack/buffer_type.hpp"
#include "core/test_support.hpp"
#include "ggml-alloc.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_reduce.h"
#include "heddle/heddle.h"

namespace heddle::cpu {
namespace {

constexpr std::size_t kPage = std::size_t{2} << 20;

ggml_backend_dev_t cpu_device() { return ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0); }

TEST(LargePages, AreOfferedUnlessTheSystemGivesNone) {
    EXPECT_TRUE(offers_large_pages("always [madvise] never"));
    EXPECT_TRUE(offers_large_pages("[always] madvise never"));
    EXPECT_FALSE(offers_large_pages("always madvise [never]"));
    EXPECT_FALSE(offers_large_pages("")) << "a system without them";
}

TEST(LargePages, MemoryForWeightsBeginsWithAPage) {
    const auto memory = allocate_weights(3 * kPage);
    ASSERT_TRUE(memory) << memory.error().message;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->get()) % kPage, 0u);
    EXPECT_TRUE(allocate_weights(0)) << "a buffer of no size says where a weight would be";
}

TEST(LargePages, MoreThanTheMachineHasIsRefusedInWords) {
    const auto memory = allocate_weights(std::size_t{1} << 50);
    ASSERT_FALSE(memory);
    EXPECT_EQ(memory.error().code, Errc::out_of_memory);
    EXPECT_EQ(memory.error().message.find(
                  "weights of 1125899906842624 bytes do not fit into the machine's memory of "),
              0u)
        << memory.error().message;
}

class LargePageBuffers : public testing::Test {
protected:
    void SetUp() override {
        if (type == nullptr) GTEST_SKIP() << "this system has no large pages";
    }

    ggml_backend_buffer_type_t type = large_page_buffer_type(cpu_device());
};

TEST_F(LargePageBuffers, AreHostMemoryOfTheDevice) {
    EXPECT_STREQ(ggml_backend_buft_name(type), "CPU_LARGE_PAGES");
    EXPECT_EQ(type, large_page_buffer_type(cpu_device()));
    EXPECT_EQ(ggml_backend_buft_get_device(type), cpu_device());
    EXPECT_TRUE(ggml_backend_buft_is_host(type));
    EXPECT_FALSE(is_repack_buffer_type(type));
    EXPECT_TRUE(ggml_backend_dev_supports_buft(cpu_device(), type));
    EXPECT_NE(type, ggml_backend_dev_buffer_type(cpu_device()))
        << "clients use that where the file is mapped";
}

TEST_F(LargePageBuffers, KeepWhatIsWrittenToATensorOrAPartOfIt) {
    TestContext context;
    Tensor* weight = context.tensor(GGML_TYPE_Q6_K, {2048, 4096});
    Tensor* other = context.f32({100});
    const ggml_backend_buffer_ptr buffer(
        ggml_backend_alloc_ctx_tensors_from_buft(&static_cast<Context&>(context), type));
    ASSERT_NE(buffer, nullptr) << heddle_last_error();
    ggml_backend_buffer_clear(buffer.get(), 5);

    std::vector<std::uint8_t> bytes(ggml_nbytes(weight)), got(bytes.size());
    std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
    ggml_backend_tensor_set(weight, bytes.data(), 0, bytes.size());
    bytes[kPage + 7] = 200;
    ggml_backend_tensor_set(weight, &bytes[kPage + 7], kPage + 7, 1);
    ggml_backend_tensor_get(weight, got.data(), 0, got.size());
    EXPECT_EQ(got, bytes);
    EXPECT_EQ(std::vector(static_cast<std::uint8_t*>(weight->data),
                          static_cast<std::uint8_t*>(weight->data) + bytes.size()),
              bytes)
        << "the host reads it in place";
    EXPECT_EQ(*static_cast<std::uint8_t*>(other->data), 5);
    ggml_backend_tensor_memset(other, 9, 4, 8);
    EXPECT_EQ(static_cast<std::uint8_t*>(other->data)[3], 5);
    EXPECT_EQ(static_cast<std::uint8_t*>(other->data)[11], 9);
}

TEST_F(LargePageBuffers, TakeCopiesOfHostTensorsAndTheirViews) {
    TestContext context;
    Tensor* weight = context.f32({64});
    const ggml_backend_buffer_ptr buffer(
        ggml_backend_alloc_ctx_tensors_from_buft(&static_cast<Context&>(context), type));
    TestContext host;
    Tensor* from = host.f32({128});
    const ggml_backend_buffer_ptr host_buffer(ggml_backend_alloc_ctx_tensors_from_buft(
        &static_cast<Context&>(host), ggml_backend_cpu_buffer_type()));
    ggml_set_f32(from, 3);
    Tensor* view = ggml_view_1d(&static_cast<Context&>(host), from, 64, 64 * sizeof(float));
    ASSERT_EQ(ggml_backend_view_init(view), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_copy(view, weight);
    EXPECT_EQ(static_cast<float*>(weight->data)[63], 3.0f);
}

TEST_F(LargePageBuffers, AreNullWithASentenceIfThereIsNoMemory) {
    EXPECT_EQ(ggml_backend_buft_alloc_buffer(type, std::size_t{1} << 50), nullptr);
    EXPECT_NE(std::string(heddle_last_error()).find("CPU_LARGE_PAGES: buffer of"),
              std::string::npos)
        << heddle_last_error();
}

TEST_F(LargePageBuffers, AreReadByProductsOfTheUsualTypes) {
    const ggml_backend_buffer_ptr nowhere(ggml_backend_buft_alloc_buffer(type, 0));
    for (const Type each :
         {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q8_0,
          GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ4_XS}) {
        TestContext context;
        Tensor* matrix = context.tensor(each, {512, 64});
        matrix->buffer = nowhere.get();
        const Tensor* product =
            ggml_mul_mat(&static_cast<Context&>(context), matrix, context.f32({512, 512}));
        EXPECT_TRUE(ggml_backend_dev_supports_op(cpu_device(), product)) << ggml_type_name(each);
    }
}

/// Every type, and every op that reads matrices of weights.
TEST_F(LargePageBuffers, AreReadByEveryOpThatReadsOrdinaryMemory) {
    const ggml_backend_buffer_ptr nowhere(ggml_backend_buft_alloc_buffer(type, 0));
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto each = static_cast<Type>(i);
        if (ggml_blck_size(each) == 0) continue;  // a type there is no more
        SCOPED_TRACE(ggml_type_name(each));
        TestContext context;
        ggml_context* const c = &static_cast<Context&>(context);
        Tensor* matrix = context.tensor(each, {512, 64});
        Tensor* experts = context.tensor(each, {512, 64, 4});
        Tensor* const readers[] = {
            ggml_mul_mat(c, matrix, context.f32({512, 512})),
            ggml_mul_mat_id(c, experts, context.f32({512, 2, 8}),
                            context.tensor(GGML_TYPE_I32, {2, 8})),
            ggml_get_rows(c, matrix, context.tensor(GGML_TYPE_I32, {8})),
        };
        for (Tensor* reader : readers) {
            const bool elsewhere = ggml_backend_dev_supports_op(cpu_device(), reader);
            reader->src[0]->buffer = nowhere.get();
            EXPECT_EQ(ggml_backend_dev_supports_op(cpu_device(), reader), elsewhere)
                << ggml_op_name(reader->op);
            reader->src[0]->buffer = nullptr;
        }
    }
}

}  // namespace
}  // namespace heddle::cpu
