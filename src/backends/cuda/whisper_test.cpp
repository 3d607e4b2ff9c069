// A client in the manner of whisper.cpp on every CUDA device there is: an encoder with
// convolutions, its result as keys and values of a decoder, attention written out and in one node,
// a graph and a scheduler for each stage. Everything is compared with the CPU.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "backends/cuda/whisper_model.hpp"
#include "ggml-cpu.h"
#include "ggml-cuda.h"
#include "ggml/ops.h"
#include "heddle/heddle.h"

namespace heddle::cuda::whisper {
namespace {

/// A stage with its scheduler: reserved once, then built, placed and reset for each call.
class Stage {
public:
    /// Adds the nodes of the stage; gives its result.
    using Build = std::function<ggml_tensor*(Builder& builder, int size)>;

    Stage(const std::vector<ggml_backend_t>& streams, bool is_flash, int most, Build build)
        : is_flash_(is_flash), build_(std::move(build)) {
        std::vector<ggml_backend_t> all = streams;
        scheduler_.reset(ggml_backend_sched_new(all.data(), nullptr, static_cast<int>(all.size()),
                                                512, false, true));
        describe(most);
        EXPECT_TRUE(ggml_backend_sched_reserve(scheduler_.get(), graph_)) << heddle_last_error();
    }

    std::vector<float> run(int size, const std::function<void(ggml_cgraph*)>& write) {
        ggml_tensor* const result = describe(size);
        EXPECT_TRUE(ggml_backend_sched_alloc_graph(scheduler_.get(), graph_))
            << heddle_last_error();
        write(graph_);
        EXPECT_EQ(ggml_backend_sched_graph_compute(scheduler_.get(), graph_), GGML_STATUS_SUCCESS)
            << heddle_last_error();
        std::vector<float> values(static_cast<std::size_t>(ggml_nelements(result)));
        ggml_backend_tensor_get(result, values.data(), 0, ggml_nbytes(result));
        ggml_backend_sched_reset(scheduler_.get());
        return values;
    }

private:
    ggml_tensor* describe(int size) {
        context_.reset(ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true}));
        graph_ = ggml_new_graph(context_.get());
        Builder builder(context_.get(), graph_, is_flash_);
        ggml_tensor* const result = build_(builder, size);
        ggml_set_output(result);
        ggml_build_forward_expand(graph_, result);
        return result;
    }

    ggml_backend_sched_ptr scheduler_;
    ggml_context_ptr context_;
    ggml_cgraph* graph_ = nullptr;
    const bool is_flash_;
    const Build build_;
};

template <class T>
void write(ggml_cgraph* graph, const char* name, const std::vector<T>& values) {
    ggml_tensor* const tensor = ggml_graph_get_tensor(graph, name);
    ASSERT_NE(tensor, nullptr) << name;
    ASSERT_EQ(ggml_nbytes(tensor), values.size() * sizeof(T)) << name;
    ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
}

ggml_tensor* input(Builder& builder, const char* name, ggml_type type, std::int64_t n0,
                   std::int64_t n1 = 1) {
    ggml_tensor* const made = ggml_new_tensor_2d(builder.c, type, n0, n1);
    ggml_set_input(ggml_set_name(made, name));
    return made;
}

/// All stages on one device, or on the CPU alone if `number` is negative.
class Client {
public:
    Client(int number, bool is_flash)
        : cpu_(ggml_backend_cpu_init()),
          device_(number >= 0 ? ggml_backend_cuda_init(number) : nullptr),
          model_(device_ != nullptr ? device_.get() : cpu_.get()),
          is_flash_(is_flash),
          encode_(streams(), is_flash, kFrames,
                  [this](Builder& b, int) { return build_encoder(b); }),
          cross_(streams(), is_flash, kFrames, [this](Builder& b, int) { return build_cross(b); }),
          decode_(streams(), is_flash, 16,
                  [this](Builder& b, int tokens) { return build_decoder(b, tokens); }) {}

    std::vector<float> encode(const std::vector<float>& mels) {
        const auto encoded = encode_.run(kFrames, [&](ggml_cgraph* g) { write(g, "mel", mels); });
        cross_.run(kFrames, [](ggml_cgraph*) {});
        past_ = 0;
        return encoded;
    }

    std::vector<float> decode(const std::vector<std::int32_t>& tokens) {
        const auto count = static_cast<int>(tokens.size());
        const auto logits = decode_.run(count, [&](ggml_cgraph* graph) {
            std::vector<std::int32_t> positions;
            std::vector<float> mask;
            for (int i = 0; i < count; ++i) {
                positions.push_back(past_ + i);
                for (int j = 0; j < past_ + count; ++j) {
                    mask.push_back(j <= past_ + i ? 0.0f : -INFINITY);
                }
            }
            write(graph, "tokens", tokens);
            write(graph, "positions", positions);
            write(graph, "mask", mask);
        });
        past_ += count;
        return logits;
    }

private:
    std::vector<ggml_backend_t> streams() const {
        if (device_ == nullptr) return {cpu_.get()};
        return {device_.get(), cpu_.get()};
    }

    ggml_tensor* build_encoder(Builder& b) const {
        ggml_tensor* const mel = input(b, "mel", GGML_TYPE_F32, 2 * kFrames, kMels);
        ggml_tensor* x = ggml_gelu(
            b.c, ggml_add(b.c, ggml_conv_1d_ph(b.c, model_.conv1, mel, 1, 1), model_.conv1_bias));
        x = ggml_gelu(
            b.c, ggml_add(b.c, ggml_conv_1d_ph(b.c, model_.conv2, x, 2, 1), model_.conv2_bias));
        x = ggml_add(b.c, model_.positions, ggml_cont(b.c, ggml_transpose(b.c, x)));
        for (const EncoderLayer& layer : model_.encoder) {
            ggml_tensor* const attended = b.attend_all(layer.attention, b.normed(x, layer.norm));
            x = ggml_add(b.c, b.product(layer.attention.out, attended, layer.attention.out_bias),
                         x);
            x = b.network(x, layer.network);
        }
        // The next stages read it from memory that stays.
        return ggml_cpy(b.c, b.normed(x, model_.encoder_norm), model_.encoded);
    }

    ggml_tensor* build_cross(Builder& b) const {
        for (const DecoderLayer& layer : model_.decoder) {
            b.keep(layer.cross_keys, b.product(layer.cross.k, model_.encoded), 0, false);
            b.keep(layer.cross_values, b.product(layer.cross.v, model_.encoded, layer.cross.v_bias),
                   0, !is_flash_);
        }
        return ggml_sum(b.c, model_.encoded);
    }

    ggml_tensor* build_decoder(Builder& b, int count) const {
        ggml_tensor* const tokens = input(b, "tokens", GGML_TYPE_I32, count);
        ggml_tensor* const positions = input(b, "positions", GGML_TYPE_I32, count);
        const std::int64_t seen = past_ + count;
        ggml_tensor* const mask = input(b, "mask", GGML_TYPE_F32, seen, count);
        ggml_tensor* x = ggml_add(b.c, ggml_get_rows(b.c, model_.words, tokens),
                                  ggml_get_rows(b.c, model_.text_positions, positions));
        for (const DecoderLayer& layer : model_.decoder) {
            ggml_tensor* h = b.normed(x, layer.norm);
            ggml_tensor* const q = b.queries(layer.attention, h);
            b.keep(layer.keys, b.product(layer.attention.k, h), past_, false);
            b.keep(layer.values, b.product(layer.attention.v, h, layer.attention.v_bias), past_,
                   !is_flash_);
            h = b.attend(q, layer.keys, layer.values, seen, mask);
            x = ggml_add(b.c, b.product(layer.attention.out, h, layer.attention.out_bias), x);
            h = b.queries(layer.cross, b.normed(x, layer.cross_norm));
            h = b.attend(h, layer.cross_keys, layer.cross_values, kFrames, nullptr);
            x = ggml_add(b.c, b.product(layer.cross.out, h, layer.cross.out_bias), x);
            x = b.network(x, layer.network);
        }
        return ggml_mul_mat(b.c, model_.words, b.normed(x, model_.decoder_norm));
    }

    ggml_backend_ptr cpu_, device_;
    Model model_;
    const bool is_flash_;
    int past_ = 0;
    Stage encode_, cross_, decode_;
};

std::vector<float> sound(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> mels(std::size_t{2} * kFrames * kMels);
    for (float& mel : mels) mel = normal(random);
    return mels;
}

/// Halves of weights, activations and caches are rounded alike; sums have another order, and soft
/// maximum and matrix units round once more: 1e-6 of the squares here.
void expect_near(const std::vector<float>& values, const std::vector<float>& right,
                 const std::string& what) {
    ASSERT_EQ(values.size(), right.size()) << what;
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        difference += std::pow(double{values[i]} - right[i], 2);
        size += std::pow(double{right[i]}, 2);
    }
    EXPECT_GT(size, 0) << what;
    EXPECT_LT(difference / size, 1e-5) << what;
}

std::vector<int> all_devices() {
    std::vector<int> numbers;
    for (int i = 0; i < ggml_backend_cuda_get_device_count(); ++i) numbers.push_back(i);
    return numbers;
}

class OnDevice : public testing::TestWithParam<int> {
protected:
    void SetUp() override { heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN); }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OnDevice);
INSTANTIATE_TEST_SUITE_P(All, OnDevice, testing::ValuesIn(all_devices()));

void compare(Client& client, Client& right, const std::string& what) {
    for (const unsigned seed : {1u, 2u}) {
        const std::vector<float> mels = sound(seed);
        expect_near(client.encode(mels), right.encode(mels), what + ", encoder");
        const std::vector<std::vector<std::int32_t>> texts{{3, 50, 9, 12}, {7}, {8}, {199}, {0, 1}};
        for (const auto& tokens : texts) {
            expect_near(client.decode(tokens), right.decode(tokens),
                        what + ", decoder of " + std::to_string(tokens.size()));
        }
    }
}

TEST_P(OnDevice, SoundIsHeardAsOnTheCpu) {
    for (const bool is_flash : {false, true}) {
        Client client(GetParam(), is_flash), right(-1, is_flash);
        compare(client, right, is_flash ? "attention in one node" : "attention written out");
    }
}

TEST(Cpu, AttentionInOneNodeHearsTheSameAsWrittenOut) {
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    Client flash(-1, true), plain(-1, false);
    compare(flash, plain, "CPU");
}

}  // namespace
}  // namespace heddle::cuda::whisper
