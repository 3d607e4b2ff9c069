// Caches and states of models, as programs keep, save, restore, copy and share them.

#include <array>

#include "client_sequences.hpp"

namespace heddle::sched {
namespace {

constexpr int kSlots = 8;

/// A cache on a device whose context is gone: tensors live on in the program's memory.
class Cache {
public:
    explicit Cache(ggml_backend_t stream) {
        const ContextOwner context = tensors_only(memory_.data(), memory_.size());
        keys = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, kWidth, kSlots);
        for (int i = 0; i < 2; ++i) {
            halves[i] = ggml_view_2d(context.get(), keys, kWidth, kSlots / 2, keys->nb[1],
                                     static_cast<std::size_t>(i * kSlots / 2) * keys->nb[1]);
        }
        buffer_.reset(ggml_backend_alloc_ctx_tensors(context.get(), stream));
        ggml_backend_buffer_clear(buffer_.get(), 0);
    }

    Tensor* keys;
    Tensor* halves[2];  ///< one for each sequence

private:
    alignas(16) std::array<std::byte, 4096> memory_;
    Buffer buffer_;
};

class CacheTest : public SequenceTest {
protected:
    /// Puts W1 x into slot `position` and gives the products of x with all slots so far.
    Values decode(Cache& cache, int position, unsigned seed) {
        ggml_backend_sched_reset(sched());
        Sketch net(memory_);
        ggml_context* const c = net.context();
        Tensor* const x = net.input("x", 1);
        Tensor* const slot =
            ggml_view_1d(c, cache.keys, kWidth, static_cast<std::size_t>(position) * row);
        net.add("store", ggml_cpy(c, ggml_mul_mat(c, w1, x), slot));
        Tensor* const seen = ggml_view_2d(c, cache.keys, kWidth, position + 1, row, 0);
        Tensor* const scores = net.add("scores", ggml_mul_mat(c, seen, x));
        ggml_set_output(scores);
        EXPECT_TRUE(ggml_backend_sched_alloc_graph(sched(), net.graph())) << heddle_last_error();
        sim::write(x, sim::numbers(kWidth, seed));
        EXPECT_EQ(ggml_backend_sched_graph_compute_async(sched(), net.graph()), GGML_STATUS_SUCCESS)
            << heddle_last_error();
        ggml_backend_sched_synchronize(sched());
        return sim::read(scores);
    }
    std::vector<Values> decode_from(Cache& cache, int position, int end) {
        std::vector<Values> all;
        for (; position < end; ++position) {
            all.push_back(decode(cache, position, 100 + static_cast<unsigned>(position)));
        }
        return all;
    }

    const std::size_t row = kWidth * sizeof(float);

private:
    alignas(16) std::byte memory_[1 << 18];  // each graph is built where the last one was
};

TEST_F(CacheTest, TensorsOutliveTheirContext) {
    Cache cache(device());
    EXPECT_THAT(sim::read(cache.keys), testing::Each(0.0f));
    const std::vector<Values> scores = decode_from(cache, 0, kSlots);
    for (int step = 0; step < kSlots; ++step) {
        const Values x = sim::numbers(kWidth, 100 + static_cast<unsigned>(step));
        ASSERT_EQ(scores[static_cast<std::size_t>(step)].size(),
                  static_cast<std::size_t>(step + 1));
        for (int slot = 0; slot <= step; ++slot) {
            const Values key = product(values1, sim::numbers(kWidth, 100 + unsigned(slot)));
            double sum = 0;
            for (std::size_t i = 0; i < kWidth; ++i) sum += double(key[i]) * double(x[i]);
            EXPECT_NEAR(scores[std::size_t(step)][std::size_t(slot)], sum, 1e-4);
        }
    }
}

TEST_F(CacheTest, StatesAreSavedAndRestoredByTheHost) {
    Cache cache(device());
    decode_from(cache, 0, 4);
    std::vector<Values> saved;  // row by row, as programs write them to files
    for (std::size_t slot = 0; slot < 4; ++slot) {
        saved.emplace_back(kWidth);
        ggml_backend_tensor_get(cache.keys, saved.back().data(), slot * row, row);
    }
    const std::vector<Values> first = decode_from(cache, 4, kSlots);
    ggml_backend_tensor_memset(cache.keys, 0xff, 0, ggml_nbytes(cache.keys));
    for (std::size_t slot = 0; slot < 4; ++slot) {
        ggml_backend_tensor_set(cache.keys, saved[slot].data(), slot * row, row);
    }
    EXPECT_EQ(decode_from(cache, 4, kSlots), first);

    // Another context, another device: the processor goes on from the same state.
    Cache elsewhere(cpu());
    for (std::size_t slot = 0; slot < 4; ++slot) {
        ggml_backend_tensor_set(elsewhere.keys, saved[slot].data(), slot * row, row);
    }
    const std::vector<Values> second = decode_from(elsewhere, 4, kSlots);
    for (std::size_t i = 0; i < first.size(); ++i) expect_near(second[i], first[i]);
}

TEST_F(CacheTest, SnapshotsStayOnTheDevice) {
    Cache cache(device());
    decode_from(cache, 0, 4);
    const ContextOwner context = tensors_only();
    Tensor* const copy = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, kWidth, 4);
    Tensor* const part = ggml_view_2d(context.get(), cache.keys, kWidth, 4, row, 0);
    const Buffer buffer(ggml_backend_alloc_ctx_tensors_from_buft(context.get(), rig->memory(0)));
    ASSERT_NE(buffer, nullptr);
    ASSERT_EQ(part->buffer, cache.keys->buffer);  // views are given their memory as well
    ggml_backend_tensor_copy(part, copy);
    const std::vector<Values> first = decode_from(cache, 4, kSlots);
    ggml_backend_tensor_memset(cache.keys, 0xff, 0, ggml_nbytes(cache.keys));
    ggml_backend_tensor_copy(copy, part);
    EXPECT_EQ(decode_from(cache, 4, kSlots), first);

    // The next snapshot goes into the old buffer, placed by hand.
    const ContextOwner again = tensors_only();
    Tensor* const second = ggml_new_tensor_2d(again.get(), GGML_TYPE_F32, kWidth, 4);
    Tensor* const view = ggml_view_2d(again.get(), cache.keys, kWidth, 4, row, 4 * row);
    ASSERT_EQ(ggml_backend_view_init(view), GGML_STATUS_SUCCESS);
    ggml_tallocr tallocr = ggml_tallocr_new(buffer.get());
    ASSERT_EQ(ggml_tallocr_alloc(&tallocr, second), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_copy(view, second);
    EXPECT_EQ(sim::read(second), sim::read(view));
}

TEST_F(CacheTest, SequencesAreCopiedFromViewToView) {
    Cache cache(device());
    decode_from(cache, 0, 4);
    ggml_backend_sched_synchronize(sched());
    ggml_backend_tensor_copy(cache.halves[0], cache.halves[1]);
    EXPECT_EQ(sim::read(cache.halves[1]), sim::read(cache.halves[0]));
    EXPECT_THAT(sim::read(cache.halves[1]), testing::Contains(testing::Ne(0.0f)));
}

TEST_F(CacheTest, TwoSchedulersShareATensorAndOneMayGoFirst) {
    Cache cache(device());
    ggml_backend_t streams[] = {device(), cpu()};
    OwnedSched other(ggml_backend_sched_new(streams, nullptr, 2, 64, true, true));
    for (int position = 0; position < kSlots; ++position) {
        decode(cache, position, 100 + static_cast<unsigned>(position));
        Sketch net;
        Tensor* const twice = net.add("twice", ggml_scale(net.context(), cache.keys, 2));
        ASSERT_EQ(ggml_backend_sched_graph_compute(other.get(), net.graph()), GGML_STATUS_SUCCESS)
            << heddle_last_error();
        Values both = sim::read(cache.keys);
        for (float& value : both) value *= 2;
        EXPECT_EQ(sim::read(twice), both);
        ggml_backend_sched_reset(other.get());
    }
    const Values before = sim::read(cache.keys);
    other.reset();
    EXPECT_EQ(sim::read(cache.keys), before);
    decode(cache, 0, 100);
    EXPECT_EQ(sim::read(cache.keys), before);
}

}  // namespace
}  // namespace heddle::sched
