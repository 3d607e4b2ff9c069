// A layer of a transformer on joined devices: on a stream, through the scheduler, and with faults.

#include <cstdlib>
#include <thread>

#include "ggml/ops.h"
#include "runtime/meta/test_support.hpp"

namespace heddle::meta {
namespace {

constexpr std::int64_t kHead = 4, kHeads = 8, kKeyHeads = 4, kEmbedding = 32, kHidden = 48;
constexpr std::int64_t kTokens = 5, kContext = 16, kVocabulary = 20;

/// Attention over a cache and a gated network, with norms, residuals and a head.
void build_layer(Model& m) {
    ggml_context* c = m.context();
    Tensor* ids = m.input("ids", {kTokens}, GGML_TYPE_I32);
    m.set_indices(ids, {3, 7, 1, 19, 0});
    Tensor* positions = m.input("positions", {kTokens}, GGML_TYPE_I32);
    m.set_indices(positions, {2, 3, 4, 5, 6});
    Tensor* x = ggml_get_rows(c, m.weight("embedding", {kEmbedding, kVocabulary}), ids);

    Tensor* h = ggml_mul(c, ggml_rms_norm(c, x, 1e-5F), m.weight("norm1", {kEmbedding}));
    const auto heads = [&](const char* name, std::int64_t count) {
        Tensor* y = ggml_mul_mat(c, m.weight(name, {kEmbedding, kHead * count}), h);
        return ggml_reshape_3d(c, y, kHead, count, kTokens);
    };
    Tensor* q = ggml_rope(c, heads("wq", kHeads), positions, kHead, 0);
    Tensor* k = ggml_rope(c, heads("wk", kKeyHeads), positions, kHead, 0);
    Tensor* v = heads("wv", kKeyHeads);
    const auto cached = [&](const char* name, Tensor* rows) {
        Tensor* cache = m.weight(name, {kHead * kKeyHeads, kContext}, GGML_TYPE_F16);
        Tensor* flat = ggml_reshape_2d(c, rows, kHead * kKeyHeads, kTokens);
        ggml_build_forward_expand(m.graph(), ggml_set_rows(c, cache, flat, positions));
        Tensor* all =
            ggml_view_3d(c, cache, kHead, kKeyHeads, kContext, kHead * 2, cache->nb[1], 0);
        return ggml_permute(c, all, 0, 2, 1, 3);
    };
    Tensor *keys = cached("k_cache", k), *values = cached("v_cache", v);
    Tensor* mask = m.input("mask", {kContext, kTokens}, GGML_TYPE_F16);
    Tensor* attended =
        ggml_flash_attn_ext(c, ggml_permute(c, q, 0, 2, 1, 3), keys, values, mask, 0.5F, 0, 0);
    attended = ggml_reshape_2d(c, attended, kHead * kHeads, kTokens);
    Tensor* y = ggml_mul_mat(c, m.weight("wo", {kHead * kHeads, kEmbedding}), attended);
    x = ggml_add(c, x, y);

    h = ggml_mul(c, ggml_rms_norm(c, x, 1e-5F), m.weight("norm2", {kEmbedding}));
    Tensor* up = ggml_mul_mat(c, m.weight("up", {kEmbedding, kHidden}), h);
    Tensor* gate = ggml_mul_mat(c, m.weight("gate", {kEmbedding, kHidden}), h);
    y = ggml_mul_mat(c, m.weight("down", {kHidden, kEmbedding}), ggml_swiglu_split(c, gate, up));
    x = ggml_add(c, x, y);
    m.result(ggml_mul_mat(c, m.weight("head", {kEmbedding, kVocabulary}), x));
}

/// Heads, hidden elements and the vocabulary are cut. `shares` are those of the key heads.
std::map<std::string, ggml_backend_meta_split_state> layer_splits(
    const std::vector<std::int64_t>& shares) {
    const auto times = [&](std::int64_t factor) {
        std::vector<std::int64_t> scaled;
        for (const std::int64_t share : shares) scaled.push_back(share * factor);
        return scaled;
    };
    return {{"wq", cut(1, times(2 * kHead))},     {"wk", cut(1, times(kHead))},
            {"wv", cut(1, times(kHead))},         {"k_cache", cut(0, times(kHead))},
            {"v_cache", cut(0, times(kHead))},    {"wo", cut(0, times(2 * kHead))},
            {"up", cut(1, times(kHidden / 4))},   {"gate", cut(1, times(kHidden / 4))},
            {"down", cut(0, times(kHidden / 4))}, {"head", cut(1, times(kVocabulary / 4))}};
}

struct Setting {
    std::size_t simulated, cpus;
    std::vector<std::int64_t> shares;  ///< of 4 key heads
};

class Layer : public testing::TestWithParam<Setting> {
protected:
    Joined join() const {
        return {some_devices(GetParam().simulated, GetParam().cpus),
                layer_splits(GetParam().shares)};
    }
};
INSTANTIATE_TEST_SUITE_P(Devices, Layer,
                         testing::Values(Setting{1, 0, {4}}, Setting{2, 0, {2, 2}},
                                         Setting{2, 0, {3, 1}}, Setting{3, 0, {1, 2, 1}},
                                         Setting{3, 0, {4, 0, 0}}, Setting{1, 1, {2, 2}},
                                         Setting{2, 1, {2, 1, 1}}, Setting{0, 2, {1, 3}},
                                         Setting{4, 0, {1, 1, 1, 1}}));

TEST_P(Layer, IsTheSameAsOnOneDevice) { expect_same(join(), build_layer); }

TEST_P(Layer, IsTheSameEveryTime) {
    const Joined joined = join();
    Model model;
    build_layer(model);
    ASSERT_EQ(model.run(joined.stream()), GGML_STATUS_SUCCESS) << heddle_last_error();
    const auto first = model.read_results();
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(model.run(joined.stream()), GGML_STATUS_SUCCESS) << heddle_last_error();
        EXPECT_EQ(model.read_results(), first) << "to the bit";
    }
}

TEST_P(Layer, GoesThroughTheScheduler) {
    const Joined joined = join();
    const sim::Stream cpu(ggml_backend_cpu_init());
    ggml_backend_t streams[] = {joined.stream(), cpu.get()};
    const std::unique_ptr<ggml_backend_sched,
                          sim::Release<ggml_backend_sched, ggml_backend_sched_free>>
        sched(ggml_backend_sched_new(streams, nullptr, 2, 256, false, true));
    ASSERT_NE(sched, nullptr) << heddle_last_error();
    const auto expected = reference(build_layer);
    for (int round = 0; round < 3; ++round) {
        Model model;
        build_layer(model);
        ASSERT_NE(model.place_weights(joined.memory()), nullptr) << heddle_last_error();
        ggml_backend_sched_reset(sched.get());
        ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched.get(), model.graph()))
            << heddle_last_error();
        for (int step = 0; step < 2; ++step) {
            model.fill_inputs();
            ASSERT_EQ(ggml_backend_sched_graph_compute(sched.get(), model.graph()),
                      GGML_STATUS_SUCCESS)
                << heddle_last_error();
            expect_close(model.read_results(), expected);
            EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched.get(), model.results()[0]),
                      joined.stream());
        }
    }
}

// ---- how it is done ----------------------------------------------------------------------------

std::size_t copies_of(ggml_backend_dev_t device) {
    std::size_t copies = 0;
    for (const heddle_sim_item& item : sim::trace_of(device))
        copies += item.kind == HEDDLE_SIM_COPY;
    return copies;
}

TEST(Sums, ArePutOffPastWhatIsLinear) {
    const Joined joined(some_devices(2), {{"up", cut(1, {6, 6})}, {"down", cut(0, {6, 6})}});
    const Build build = [](Model& m) {
        ggml_context* c = m.context();
        Tensor* x = m.input("x", {8, 1, 5});
        Tensor* ids = m.input("ids", {2, 5}, GGML_TYPE_I32);
        m.set_indices(ids, {0, 2, 1, 0, 2, 1, 0, 1, 2, 0});
        Tensor* h = ggml_mul_mat_id(c, m.weight("up", {8, 12, 3}), x, ids);
        Tensor* y = ggml_mul_mat_id(c, m.weight("down", {12, 6, 3}), h, ids);
        y = ggml_mul(c, y, m.input("shares", {1, 2, 5}));
        Tensor* first = ggml_view_2d(c, y, 6, 5, y->nb[2], 0);
        Tensor* second = ggml_view_2d(c, y, 6, 5, y->nb[2], y->nb[1]);
        m.result(ggml_silu(c, ggml_add(c, first, second)));
    };
    expect_same(joined, build);
    std::size_t moved = 0;
    for (const heddle_sim_item& item : sim::trace_of(joined.part(0))) {
        if (item.kind == HEDDLE_SIM_COPY) moved = std::max(moved, item.bytes);
    }
    EXPECT_EQ(moved, 6u * 5 * sizeof(float)) << "the experts' sum, not the experts";
    EXPECT_GT(copies_of(joined.part(0)), 0u);
}

TEST(Sums, DevicesWorkAtTheSameTime) {
    const Joined joined(some_devices(2, 0, ",latency=1ms,flops=1T"),
                        {{"a", cut(1, {16, 16})}, {"b", cut(1, {16, 16})}});
    Model model;
    Tensor* x = model.input("x", {32, 4});
    for (const char* name : {"a", "b"}) {
        model.result(ggml_mul_mat(model.context(), model.weight(name, {32, 32}), x));
    }
    ASSERT_EQ(model.run(joined.stream()), GGML_STATUS_SUCCESS) << heddle_last_error();
    double first_end = 0, second_start = 1e9;
    for (const heddle_sim_item& item : sim::trace_of(joined.part(0))) {
        if (item.kind == HEDDLE_SIM_NODE) first_end = std::max(first_end, item.end);
    }
    for (const heddle_sim_item& item : sim::trace_of(joined.part(1))) {
        if (item.kind == HEDDLE_SIM_NODE) second_start = std::min(second_start, item.start);
    }
    EXPECT_LT(second_start, first_end);
}

/// An all-reduce of a backend's own, as simulated devices would offer it.
struct OwnAddition {
    static inline int calls = 0, freed = 0;
    static inline bool declines = false;

    static void* init(ggml_backend_t* streams, std::size_t count) {
        calls = freed = 0;
        return new std::vector<ggml_backend_t>(streams, streams + count);
    }
    static void free(void* self) {
        ++freed;
        delete static_cast<std::vector<ggml_backend_t>*>(self);
    }
    static bool add(void* self, ggml_tensor** tensors) {
        ++calls;
        if (declines) return false;
        const auto& streams = *static_cast<std::vector<ggml_backend_t>*>(self);
        Values total(static_cast<std::size_t>(ggml_nelements(tensors[0])));
        for (std::size_t j = 0; j < streams.size(); ++j) {
            ggml_backend_synchronize(streams[j]);
            if ((tensors[j]->flags & GGML_TENSOR_FLAG_COMPUTE) == 0) continue;
            const Values own = sim::read(tensors[j]);
            for (std::size_t i = 0; i < own.size(); ++i) total[i] += own[i];
        }
        for (std::size_t j = 0; j < streams.size(); ++j) sim::write(tensors[j], total);
        return true;
    }
    static void* find(ggml_backend_reg_t, const char* name) {
        const std::string wanted = name;
        if (wanted == "ggml_backend_comm_init") return reinterpret_cast<void*>(init);
        if (wanted == "ggml_backend_comm_free") return reinterpret_cast<void*>(free);
        if (wanted == "ggml_backend_comm_allreduce_tensor") return reinterpret_cast<void*>(add);
        return nullptr;
    }
};

TEST(Sums, ArePutTogetherByTheBackendWhereItCan) {
    ggml_backend_reg registration = *ggml_backend_sim_reg();
    registration.iface.get_proc_address = OwnAddition::find;
    for (const bool declines : {false, true}) {
        for (const auto& shares : std::vector<std::vector<std::int64_t>>{{2, 1, 1}, {0, 4, 0}}) {
            OwnAddition::declines = declines;
            auto devices = some_devices(3);
            for (ggml_backend_dev_t device : devices) device->reg = &registration;
            {
                const Joined joined(devices, layer_splits(shares));
                expect_same(joined, build_layer);
                EXPECT_EQ(OwnAddition::calls, 2) << "attention and network";
            }
            EXPECT_EQ(OwnAddition::freed, 1);
            for (ggml_backend_dev_t device : devices) device->reg = ggml_backend_sim_reg();
        }
    }
}

TEST(Streams, OfOneDeviceWorkInSeveralThreads) {
    const Joined joined(some_devices(2), layer_splits({2, 2}));
    const auto expected = reference(build_layer);
    std::vector<std::vector<Values>> got(3);
    {
        std::vector<std::jthread> threads;
        for (auto& own : got) {
            threads.emplace_back([&] {
                const sim::Stream stream(ggml_backend_dev_init(joined.device(), nullptr));
                Model model;
                build_layer(model);
                EXPECT_EQ(model.run(stream.get()), GGML_STATUS_SUCCESS) << heddle_last_error();
                own = model.read_results();
            });
        }
    }
    for (const auto& own : got) expect_close(own, expected);
}

TEST(Talk, SaysHowTensorsLieWhereItIsAskedTo) {
    ggml_log_callback before = nullptr;
    void* data = nullptr;
    ggml_log_get(&before, &data);
    std::string heard;
    ggml_log_set(
        [](ggml_log_level, const char* text, void* to) { *static_cast<std::string*>(to) += text; },
        &heard);
    setenv("GGML_META_DEBUG", "1", 1);
    {
        const Joined joined(some_devices(2), layer_splits({2, 2}));
        unsetenv("GGML_META_DEBUG");
        expect_same(joined, build_layer);
    }
    ggml_log_set(before, data);
    EXPECT_THAT(heard, testing::HasSubstr("FLASH_ATTN_EXT: axis 1 (4|4)"));
    EXPECT_THAT(heard, testing::HasSubstr("MUL_MAT: PARTIAL"));
}

// ---- faults ------------------------------------------------------------------------------------

TEST(Faults, ComeBackAsAStatus) {
    for (const char* plan : {"node=1", "node=7", "copy=2", "copy=5"}) {
        SCOPED_TRACE(plan);
        const Joined joined(some_devices(2), layer_splits({2, 2}));
        Model model;
        build_layer(model);
        ASSERT_EQ(model.run(joined.stream()), GGML_STATUS_SUCCESS) << heddle_last_error();
        ASSERT_TRUE(sim::set_faults(joined.part(1), plan));
        EXPECT_NE(model.run(joined.stream()), GGML_STATUS_SUCCESS);
        EXPECT_THAT(heddle_last_error(), testing::HasSubstr("SIM1"));
        ASSERT_TRUE(sim::set_faults(joined.part(1), nullptr));
        model.run(joined.stream());  // may still be told of what went wrong
        EXPECT_EQ(model.run(joined.stream()), GGML_STATUS_SUCCESS)
            << "goes on: " << heddle_last_error();
    }
}

TEST(Faults, NoMemoryForAGraphIsAFailure) {
    const Joined joined(some_devices(2), layer_splits({2, 2}));
    Model model;
    build_layer(model);
    ASSERT_NE(model.place_weights(joined.memory()), nullptr);
    // A plan that is refused memory is made once more, without room for groups of nodes; it is
    // refused too while the device is lost.
    ASSERT_TRUE(sim::set_faults(joined.part(0), "lost=0s"));
    EXPECT_EQ(model.run(joined.stream()), GGML_STATUS_ALLOC_FAILED);
    ASSERT_TRUE(sim::set_faults(joined.part(0), nullptr));
    Model again;
    build_layer(again);
    EXPECT_EQ(again.run(joined.stream()), GGML_STATUS_SUCCESS) << heddle_last_error();
}

}  // namespace
}  // namespace heddle::meta
