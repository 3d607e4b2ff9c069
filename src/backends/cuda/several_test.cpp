// Several CUDA devices, which are shares of one GPU where there is only one: sums over them, and
// copies from one to another. Needs a device.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml-cuda.h"
#include "ggml/ops_layout.h"
#include "heddle/heddle.h"

namespace heddle::cuda {
namespace {

/// Before the devices are looked for, which happens once.
[[maybe_unused]] const int kShared = setenv("GGML_CUDA_DEVICES", "3", 0);

std::vector<int> counts() {
    const int most = ggml_backend_cuda_get_device_count();
    std::vector<int> numbers;
    for (int n = 2; n <= most && n <= 3; ++n) numbers.push_back(n);
    return numbers;
}

template <class Function>
Function function_of(const char* name) {
    return reinterpret_cast<Function>(
        ggml_backend_reg_get_proc_address(ggml_backend_cuda_reg(), name));
}

std::vector<float> values_of(const ggml_tensor* tensor) {
    std::vector<float> values(static_cast<std::size_t>(ggml_nelements(tensor)));
    std::vector<std::uint8_t> bytes(ggml_nbytes(tensor));
    ggml_backend_tensor_get(tensor, bytes.data(), 0, bytes.size());
    if (tensor->type == GGML_TYPE_F32) {
        std::memcpy(values.data(), bytes.data(), bytes.size());
    } else {
        ggml_get_type_traits(tensor->type)
            ->to_float(bytes.data(), values.data(), ggml_nelements(tensor));
    }
    return values;
}

/// A stream for each of several devices, a tensor of one shape on each, and the functions.
class Several : public testing::TestWithParam<int> {
protected:
    void SetUp() override {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        for (int i = 0; i < GetParam(); ++i) {
            streams_.emplace_back(ggml_backend_cuda_init(i));
            ASSERT_NE(streams_.back(), nullptr) << heddle_last_error();
            raw_.push_back(streams_.back().get());
        }
        init_ = function_of<ggml_backend_comm_init_t>("ggml_backend_comm_init");
        free_ = function_of<ggml_backend_comm_free_t>("ggml_backend_comm_free");
        add_up_ =
            function_of<ggml_backend_comm_allreduce_tensor_t>("ggml_backend_comm_allreduce_tensor");
        comm_ = init_(raw_.data(), raw_.size());
        ASSERT_NE(comm_, nullptr);
    }
    void TearDown() override {
        if (free_ != nullptr) free_(comm_);
    }

    /// Fills the tensors with numbers that are no sums of powers of two.
    void make(ggml_type type, std::int64_t count) {
        tensors_.clear();
        memory_.clear();
        std::mt19937 random(9);
        std::normal_distribution<float> normal;
        for (const ggml_backend_t stream : raw_) {
            contexts_.emplace_back(
                ggml_init({.mem_size = 1 << 16, .mem_buffer = nullptr, .no_alloc = true}));
            ggml_tensor* const tensor = ggml_new_tensor_1d(contexts_.back().get(), type, count);
            tensor->flags |= GGML_TENSOR_FLAG_COMPUTE;
            memory_.emplace_back(ggml_backend_alloc_ctx_tensors(contexts_.back().get(), stream));
            std::vector<float> values(static_cast<std::size_t>(count));
            for (float& value : values) value = normal(random);
            std::vector<std::uint8_t> bytes(ggml_nbytes(tensor));
            ggml_quantize_chunk(type, values.data(), bytes.data(), 0, 1, count, nullptr);
            if (type == GGML_TYPE_F32) std::memcpy(bytes.data(), values.data(), bytes.size());
            ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
            tensors_.push_back(tensor);
        }
    }
    /// In the order of the devices, in f32, once rounded.
    std::vector<float> sums() const {
        std::vector<float> all(static_cast<std::size_t>(ggml_nelements(tensors_.front())));
        for (const ggml_tensor* tensor : tensors_) {
            if ((tensor->flags & GGML_TENSOR_FLAG_COMPUTE) == 0) continue;
            const std::vector<float> values = values_of(tensor);
            for (std::size_t i = 0; i < all.size(); ++i) all[i] += values[i];
        }
        const ggml_type type = tensors_.front()->type;
        for (float& sum : all) {
            if (type == GGML_TYPE_F16) sum = ggml_fp16_to_fp32(ggml_fp32_to_fp16(sum));
            if (type == GGML_TYPE_BF16) sum = ggml_bf16_to_fp32(ggml_fp32_to_bf16(sum));
        }
        return all;
    }
    void synchronize() const {
        for (const ggml_backend_t stream : raw_) ggml_backend_synchronize(stream);
    }
    void expect_sums(const std::vector<float>& right) const {
        for (const ggml_tensor* tensor : tensors_) EXPECT_EQ(values_of(tensor), right);
    }

    std::vector<ggml_backend_ptr> streams_;
    std::vector<ggml_backend_t> raw_;
    std::vector<ggml_context_ptr> contexts_;
    std::vector<ggml_backend_buffer_ptr> memory_;
    std::vector<ggml_tensor*> tensors_;
    ggml_backend_comm_init_t init_ = nullptr;
    ggml_backend_comm_free_t free_ = nullptr;
    ggml_backend_comm_allreduce_tensor_t add_up_ = nullptr;
    void* comm_ = nullptr;
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Several);
INSTANTIATE_TEST_SUITE_P(Devices, Several, testing::ValuesIn(counts()));

TEST_P(Several, AllGetTheSumToTheBit) {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
        for (const std::int64_t count : {1, 3, 4096, 5'000'003}) {  // the last in several pieces
            make(type, count);
            const std::vector<float> right = sums();
            SCOPED_TRACE(testing::Message() << ggml_type_name(type) << ", " << count);
            ASSERT_TRUE(add_up_(comm_, tensors_.data())) << heddle_last_error();
            synchronize();
            expect_sums(right);
        }
    }
}

TEST_P(Several, SumsFollowEachOtherWithoutWaiting) {
    make(GGML_TYPE_F32, 2'500'000);
    std::vector<float> right = sums();
    for (float& sum : right) {
        for (int round = 0; round < 2; ++round) {
            float again = 0;
            for (int i = 0; i < GetParam(); ++i) again += sum;
            sum = again;
        }
    }
    for (int round = 0; round < 3; ++round) ASSERT_TRUE(add_up_(comm_, tensors_.data()));
    synchronize();
    expect_sums(right);
}

TEST_P(Several, ATensorThatIsNotComputedCountsAsZeros) {
    make(GGML_TYPE_F32, 1000);
    const std::vector<float> nan(1000, std::nanf(""));
    tensors_[1]->flags &= ~GGML_TENSOR_FLAG_COMPUTE;
    ggml_backend_tensor_set(tensors_[1], nan.data(), 0, 4000);
    const std::vector<float> right = sums();
    ASSERT_TRUE(add_up_(comm_, tensors_.data()));
    synchronize();
    expect_sums(right);
}

TEST_P(Several, TensorsThatDoNotBelongTogetherAreLeftAsTheyAre) {
    make(GGML_TYPE_F32, 1000);
    const std::vector<float> before = values_of(tensors_[0]);
    ggml_tensor* const own = tensors_[1];
    ggml_tensor* const shorter = ggml_view_1d(contexts_.back().get(), own, 999, 0);
    for (ggml_tensor* wrong : {shorter, tensors_[0], static_cast<ggml_tensor*>(nullptr)}) {
        tensors_[1] = wrong;
        EXPECT_FALSE(add_up_(comm_, tensors_.data()));
    }
    synchronize();
    EXPECT_EQ(values_of(tensors_[0]), before);
    EXPECT_FALSE(add_up_(nullptr, tensors_.data()));
    EXPECT_FALSE(add_up_(comm_, nullptr));
}

TEST_P(Several, StreamsOfOtherBackendsHaveNoSums) {
    const ggml_backend_ptr cpu(ggml_backend_cpu_init());
    raw_[1] = cpu.get();
    EXPECT_EQ(init_(raw_.data(), raw_.size()), nullptr);
}

TEST_P(Several, TheFunctionOfTheHeaderAddsUpToo) {
    make(GGML_TYPE_F32, 777);
    const std::vector<float> right = sums();
    ASSERT_TRUE(ggml_backend_cuda_allreduce_tensor(raw_.data(), tensors_.data(), raw_.size()));
    expect_sums(right);
}

TEST_P(Several, WhatOneDeviceHasAnotherGetsInTheOrderOfTheirQueues) {
    make(GGML_TYPE_F32, 1'000'000);
    const std::vector<float> right = values_of(tensors_[0]);
    ggml_backend_tensor_copy_async(raw_[0], raw_[1], tensors_[0], tensors_[1]);
    ggml_backend_synchronize(raw_[1]);
    EXPECT_EQ(values_of(tensors_[1]), right);
}

}  // namespace
}  // namespace heddle::cuda
