// Weights in memory where the processor keeps them in a layout of its own, as programs that load
// models use it: asked for with a buffer of no size, then allocated, written once, and scheduled.

#include "client_sequences.hpp"

namespace heddle::sched {
namespace {

constexpr std::int64_t kDepth = 512, kRows = 264, kBatch = 40;

/// The first that is not ordinary memory; null if there is none.
ggml_backend_buffer_type_t extra_type() {
    const auto extra =
        proc<ggml_backend_dev_get_extra_bufts_t>(cpu_device(), "ggml_backend_dev_get_extra_bufts");
    if (extra == nullptr) return nullptr;
    const ggml_backend_buffer_type_t* type = extra(cpu_device());
    while (*type != nullptr && ggml_backend_buft_is_host(*type)) ++type;
    return *type;
}

/// Two matrices, one after the other: y = second * silu(first * x).
struct Net {
    ContextOwner weights = tensors_only();
    Tensor *first, *second;
    Buffer memory;

    explicit Net(ggml_backend_buffer_type_t type)
        : first(ggml_new_tensor_2d(weights.get(), GGML_TYPE_Q4_0, kDepth, kRows + 248)),
          second(ggml_new_tensor_2d(weights.get(), GGML_TYPE_Q4_K, kRows + 248, kRows)),
          memory(ggml_backend_alloc_ctx_tensors_from_buft(weights.get(), type)) {
        EXPECT_NE(memory, nullptr) << heddle_last_error();
        ggml_backend_buffer_set_usage(memory.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        int seed = 1;
        for (Tensor* t : {first, second}) {
            const Values values = sim::numbers(static_cast<std::size_t>(ggml_nelements(t)), ++seed);
            std::vector<std::byte> blocks(ggml_nbytes(t));
            ggml_quantize_chunk(t->type, values.data(), blocks.data(), 0, t->ne[1], t->ne[0],
                                nullptr);
            ggml_backend_tensor_set(t, blocks.data(), 0, blocks.size());
        }
    }
};

/// The second product rounds what the first one gives to 8 bits. Sums made in another order differ
/// in their last bits, and now and then one of them is rounded the other way.
void expect_alike(const Values& got, const Values& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], expected[i], 5e-3 * (1 + std::abs(expected[i]))) << "element " << i;
    }
}

class RepackTest : public SequenceTest {
protected:
    void SetUp() override {
        start("devices=1,ops=all");
        if (extra_type() == nullptr) GTEST_SKIP() << "this processor has no layout of its own";
    }

    /// The result of `net` for so many columns, by streams that share the work.
    Values result(const Net& net, std::int64_t columns,
                  const std::vector<ggml_backend_t>& streams) {
        const OwnedSched shared(ggml_backend_sched_new(const_cast<ggml_backend_t*>(streams.data()),
                                                       nullptr, static_cast<int>(streams.size()),
                                                       64, false, true));
        Sketch sketch;
        ggml_context* const c = sketch.context();
        Tensor* x = ggml_set_name(ggml_new_tensor_2d(c, GGML_TYPE_F32, kDepth, columns), "x");
        ggml_set_input(x);
        Tensor* hidden = ggml_silu(c, ggml_mul_mat(c, net.first, x));
        Tensor* y = sketch.add("y", ggml_mul_mat(c, net.second, hidden));
        ggml_set_output(y);
        EXPECT_TRUE(ggml_backend_sched_alloc_graph(shared.get(), sketch.graph()))
            << heddle_last_error();
        const Values values = sim::numbers(static_cast<std::size_t>(kDepth * columns), 7);
        for (int round = 0; round < 2; ++round) {  // memory is used again
            ggml_backend_tensor_set(x, values.data(), 0, values.size() * sizeof(float));
            EXPECT_EQ(ggml_backend_sched_graph_compute(shared.get(), sketch.graph()),
                      GGML_STATUS_SUCCESS)
                << heddle_last_error();
        }
        for (const Tensor* weight : {net.first, net.second}) {
            if (ggml_backend_buffer_get_type(weight->buffer) != extra_type()) continue;
            for (int i = 0; i < ggml_graph_n_nodes(sketch.graph()); ++i) {
                Tensor* node = ggml_graph_node(sketch.graph(), i);
                if (node->src[0] != weight) continue;
                EXPECT_EQ(ggml_backend_sched_get_tensor_backend(shared.get(), node), cpu())
                    << "only the processor reads such weights";
            }
        }
        return sim::read(y);
    }
};

TEST_F(RepackTest, WeightsAreAskedForAllocatedWrittenAndScheduled) {
    const ContextOwner probes = tensors_only();
    Tensor* weight = ggml_new_tensor_2d(probes.get(), GGML_TYPE_Q4_0, kDepth, kRows);
    Tensor* columns = ggml_new_tensor_2d(probes.get(), GGML_TYPE_F32, kDepth, 512);
    Tensor* product = ggml_mul_mat(probes.get(), weight, columns);
    const Buffer nothing(ggml_backend_buft_alloc_buffer(extra_type(), 0));
    weight->buffer = nothing.get();
    EXPECT_TRUE(ggml_backend_dev_supports_op(cpu_device(), product));
    EXPECT_FALSE(ggml_backend_dev_supports_op(rig->device(0), product) &&
                 ggml_backend_dev_supports_buft(rig->device(0), extra_type()));

    const Net plain(ggml_backend_cpu_buffer_type()), repacked(extra_type());
    for (const std::int64_t n : {std::int64_t{1}, std::int64_t{3}, kBatch}) {
        SCOPED_TRACE(testing::Message() << n << " columns");
        expect_alike(result(repacked, n, {cpu()}), result(plain, n, {cpu()}));
    }
}

TEST_F(RepackTest, OthersBesideTheProcessorAreNotGivenThem) {
    const Net plain(ggml_backend_cpu_buffer_type()), repacked(extra_type());
    std::vector<ggml_backend_t> all{device()};
    Stream blas;
    if (ggml_backend_dev_t found = ggml_backend_dev_by_name("BLAS")) {
        blas.reset(ggml_backend_dev_init(found, nullptr));
        all.push_back(blas.get());
    }
    all.push_back(cpu());
    for (const std::int64_t n : {std::int64_t{1}, kBatch}) {
        SCOPED_TRACE(testing::Message() << n << " columns");
        expect_alike(result(repacked, n, all), result(plain, n, {cpu()}));
    }
}

TEST_F(RepackTest, ADeviceThatComputesBeforeHandsItsResultsOn) {
    const Net repacked(extra_type());
    Sketch sketch;
    ggml_context* const c = sketch.context();
    // A square that the device computes, because its weight lies there.
    Tensor* x = sketch.input("x", 1);
    Tensor* there = ggml_mul_mat(c, w1, x);
    Tensor* wide = ggml_repeat_4d(c, there, kDepth, 1, 1, 1);
    Tensor* y = sketch.add("y", ggml_mul_mat(c, repacked.first, wide));
    ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched(), sketch.graph())) << heddle_last_error();
    const Values values = sim::numbers(kWidth, 3);
    ggml_backend_tensor_set(x, values.data(), 0, values.size() * sizeof(float));
    run(sketch);
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), there), device());
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), y), cpu());
}

}  // namespace
}  // namespace heddle::sched
