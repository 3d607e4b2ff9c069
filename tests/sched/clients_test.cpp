// What programs written for ggml rely on, each as they do it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstring>
#include <set>

#include "ggml-backend-impl.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "sched/test_support.hpp"

namespace heddle::sched {
namespace {

using testing::HasSubstr;

class ClientTest : public RigTest {
protected:
    void allocate(Sketch& sketch) {
        ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched(), sketch.graph())) << heddle_last_error();
    }
    void compute(Sketch& sketch) {
        ASSERT_EQ(ggml_backend_sched_graph_compute(sched(), sketch.graph()), GGML_STATUS_SUCCESS)
            << heddle_last_error();
    }
};

// ---- what every drop-in must do ----------------------------------------------------------------

TEST_F(ClientTest, InputsAreInHostMemoryOfTheLastStream) {
    Sandwich net(w1, w2);
    allocate(net);
    EXPECT_TRUE(ggml_backend_buffer_is_host(net.x->buffer));
    EXPECT_EQ(ggml_backend_buffer_get_type(net.x->buffer),
              ggml_backend_sched_get_buffer_type(sched(), rig->cpu()));
    const Values x = sim::numbers(kWidth * kColumns, 1);
    std::memcpy(net.x->data, x.data(), x.size() * sizeof(float));
    compute(net);
    expect_near(sim::read(net.f), expected(x));
}

TEST_F(ClientTest, ComputeMemorySurvivesAResetUntilTheNextAllocation) {
    Sandwich net(w1, w2);
    allocate(net);
    const Values x = sim::numbers(kWidth * kColumns, 2);
    sim::write(net.x, x);
    compute(net);
    const std::size_t size = ggml_backend_sched_get_buffer_size(sched(), rig->stream(0));
    ggml_backend_sched_reset(sched());
    EXPECT_EQ(ggml_backend_sched_get_buffer_size(sched(), rig->stream(0)), size);
    expect_near(sim::read(net.f), expected(x));
}

TEST_F(ClientTest, UnreadNodesAndOutputsAreNotRecycledAndTheLastNodeStaysLast) {
    Sketch net;
    ggml_context* const c = net.context();
    Tensor* const x = net.input();
    Tensor* const kept = net.add("kept", ggml_mul_mat(c, w1, x));
    ggml_set_output(kept);
    Tensor* const unread = net.add("unread", ggml_silu(c, kept));
    Tensor* chain = kept;
    for (int i = 0; i < 12; ++i) {
        chain = net.add("link", i % 3 == 2 ? ggml_mul_mat(c, w2, chain) : ggml_silu(c, chain));
    }
    allocate(net);
    EXPECT_EQ(ggml_graph_node(net.graph(), -1), chain);
    const Values values = sim::numbers(kWidth * kColumns, 3);
    sim::write(x, values);
    compute(net);
    expect_near(sim::read(kept), product(values1, values));
    expect_near(sim::read(unread), silu(product(values1, values)));
    Values result = product(values1, values);
    for (int i = 0; i < 12; ++i) result = i % 3 == 2 ? product(values2, result) : silu(result);
    expect_near(sim::read(chain), result);
}

TEST_F(ClientTest, GraphsWithoutNodesGiveTheirInputsHostMemory) {
    Sketch net;
    Tensor* const mel = net.input("mel");
    Tensor* const embd = net.input("embd");
    ggml_set_output(embd);
    ggml_build_forward_expand(net.graph(), mel);
    ggml_build_forward_expand(net.graph(), embd);
    ASSERT_EQ(ggml_graph_n_nodes(net.graph()), 0);
    allocate(net);
    ggml_backend_sched_reset(sched());
    ASSERT_NE(mel->data, nullptr);
    ASSERT_NE(embd->data, nullptr);
    EXPECT_TRUE(ggml_backend_buffer_is_host(mel->buffer));
    std::memset(mel->data, 1, ggml_nbytes(mel));
    std::memset(embd->data, 2, ggml_nbytes(embd));
    EXPECT_EQ(*static_cast<const char*>(mel->data), 1);
}

TEST_F(ClientTest, TensorsOfNoElementsAreAccepted) {
    Sketch net;
    Tensor* const none = ggml_new_tensor_2d(net.context(), GGML_TYPE_F32, kWidth, 0);
    ggml_set_input(none);
    Tensor* const x = net.input();
    net.add("nothing", ggml_silu(net.context(), none));
    Tensor* const joined = net.add("joined", ggml_silu(net.context(), x));
    allocate(net);
    const Values values = sim::numbers(kWidth * kColumns, 4);
    sim::write(x, values);
    compute(net);
    expect_near(sim::read(joined), silu(values));
}

TEST_F(ClientTest, TensorsInDummyBuffersAreOnlyMeasured) {
    Sketch weight;
    const sim::Buffer dummy(ggml_backend_buft_alloc_buffer(rig->memory(0), 0));
    ASSERT_NE(dummy, nullptr);
    ggml_backend_buffer_set_usage(dummy.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    Tensor* const w = ggml_new_tensor_2d(weight.context(), GGML_TYPE_F32, kWidth, kWidth);
    w->buffer = dummy.get();
    EXPECT_EQ(ggml_backend_buffer_get_base(dummy.get()), nullptr);

    Sandwich net(w, w2);
    ggml_backend_sched_split_graph(sched(), net.graph());
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), net.a), rig->stream(0));
    ggml_backend_sched_reset(sched());
    std::size_t sizes[2] = {};
    ggml_backend_sched_reserve_size(sched(), net.graph(), sizes);
    EXPECT_GT(sizes[0], 0u);
    EXPECT_GT(sizes[1], 0u);
    EXPECT_TRUE(ggml_backend_sched_reserve(sched(), net.graph())) << heddle_last_error();
    EXPECT_EQ(w->data, nullptr);
}

TEST_F(ClientTest, ResultsOfAnotherSchedulerAreReadThroughViewsAlsoAfterItsReset) {
    ggml_backend_t streams[] = {rig->stream(0), rig->cpu()};
    const OwnedSched second(ggml_backend_sched_new(streams, nullptr, 2, 64, false, true));
    Sandwich net(w1, w2);
    allocate(net);
    const Values x = sim::numbers(kWidth * kColumns, 5);
    sim::write(net.x, x);
    compute(net);
    ggml_backend_sched_reset(sched());

    for (int run = 0; run < 2; ++run) {
        Sketch next;
        Tensor* const seen = ggml_view_tensor(next.context(), net.f);
        Tensor* const out = next.add("out", ggml_silu(next.context(), seen));
        ggml_backend_sched_reset(second.get());
        ASSERT_TRUE(ggml_backend_sched_alloc_graph(second.get(), next.graph()));
        ASSERT_EQ(ggml_backend_sched_graph_compute(second.get(), next.graph()),
                  GGML_STATUS_SUCCESS);
        expect_near(sim::read(out), silu(expected(x)));
    }
}

TEST_F(ClientTest, AllocationWorksWithoutReservingAndGrows) {
    for (const int columns : {1, 64, 3, 512}) {
        Sandwich net(w1, w2, nullptr, columns);
        ggml_backend_sched_reset(sched());
        allocate(net);
        const Values x = sim::numbers(static_cast<std::size_t>(kWidth * columns), 6);
        sim::write(net.x, x);
        compute(net);
        expect_near(sim::read(net.f), expected(x));
    }
}

TEST_F(ClientTest, AnEventThatWasNeverRecordedIsReached) {
    const sim::Event event(ggml_backend_event_new(rig->device(0)));
    ASSERT_NE(event, nullptr);
    ggml_backend_event_synchronize(event.get());
    ggml_backend_event_wait(rig->stream(0), event.get());
    ggml_backend_synchronize(rig->stream(0));
}

TEST_F(ClientTest, UnknownFunctionsOfARegistrationAreNull) {
    ggml_backend_reg_t const reg =
        ggml_backend_dev_backend_reg(ggml_backend_get_device(rig->cpu()));
    EXPECT_EQ(ggml_backend_reg_get_proc_address(reg, "no such function"), nullptr);
    EXPECT_NE(ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads"), nullptr);
}

TEST_F(ClientTest, BufferTypesHaveNamesOfTheirOwn) {
    start("devices=3");
    std::set<std::string> names;
    for (std::size_t i = 0; i <= rig->device_count(); ++i) {
        EXPECT_EQ(rig->memory(i), rig->memory(i));
        names.insert(ggml_backend_buft_name(rig->memory(i)));
    }
    EXPECT_EQ(names.size(), 4u);
}

TEST_F(ClientTest, CopiesAreNamedAfterStreamTensorAndNumber) {
    Sandwich net(w1, w2);
    std::vector<std::string> sources;
    const auto watch = [](Tensor* node, bool ask, void* data) {
        if (ask) return true;
        static_cast<std::vector<std::string>*>(data)->push_back(node->src[0]->name);
        if (node->src[1] != nullptr) {
            static_cast<std::vector<std::string>*>(data)->push_back(node->src[1]->name);
        }
        return true;
    };
    ggml_backend_sched_set_eval_callback(sched(), watch, &sources);
    allocate(net);
    sim::write(net.x, sim::numbers(kWidth * kColumns, 7));
    compute(net);
    const std::string device = ggml_backend_name(rig->stream(0));
    EXPECT_THAT(sources, testing::Contains(device + "#x#0"));
    EXPECT_THAT(sources, testing::Contains("CPU#b#0"));
    EXPECT_THAT(sources, testing::Contains(device + "#d#0"));
}

TEST_F(ClientTest, DevicesTellAllAboutThemselves) {
    for (const ggml_backend_dev_t device : {rig->device(0), ggml_backend_get_device(rig->cpu())}) {
        ggml_backend_dev_props props{};
        ggml_backend_dev_get_props(device, &props);
        EXPECT_NE(props.name, nullptr);
        EXPECT_NE(props.description, nullptr);
        EXPECT_GT(props.memory_total, 0u);
        EXPECT_LE(props.memory_free, props.memory_total);
        EXPECT_EQ(props.type, ggml_backend_dev_type(device));
    }
}

TEST_F(ClientTest, MappedMemoryNeedsAnAlignmentOf32AtMost) {
    alignas(32) static std::byte memory[1024];
    const sim::Buffer buffer(ggml_backend_cpu_buffer_from_ptr(memory + 32, 512));
    ASSERT_NE(buffer, nullptr);
    Sketch sketch;
    Tensor* const tensor = ggml_new_tensor_1d(sketch.context(), GGML_TYPE_F32, 16);
    EXPECT_EQ(ggml_backend_tensor_alloc(buffer.get(), tensor, memory + 96), GGML_STATUS_SUCCESS);
}

TEST_F(ClientTest, AStreamsTableMayBeChanged) {
    static int calls = 0;
    static decltype(rig->cpu()->iface.graph_compute) original = nullptr;
    calls = 0;
    original = rig->cpu()->iface.graph_compute;
    rig->cpu()->iface.graph_compute = [](ggml_backend_t stream, ggml_cgraph* graph, auto... rest) {
        ++calls;
        return original(stream, graph, rest...);
    };
    Sandwich net(w1, w2);
    allocate(net);
    sim::write(net.x, sim::numbers(kWidth * kColumns, 8));
    compute(net);
    EXPECT_EQ(calls, 1);
}

// ---- tensors of devices that the scheduler does not have ---------------------------------------

/// Two devices, of which the scheduler has one and the processor.
class ForeignTest : public ClientTest {
protected:
    void SetUp() override {
        start("devices=2");
        ggml_backend_t streams[] = {rig->stream(0), rig->cpu()};
        some_.reset(ggml_backend_sched_new(streams, nullptr, 2, 64, false, true));
        ASSERT_NE(some_, nullptr) << heddle_last_error();
        heddle_sched_set_hazard_check(some_.get(), true);
    }

    void run(Sketch& net) {
        ASSERT_TRUE(ggml_backend_sched_alloc_graph(some_.get(), net.graph()))
            << heddle_last_error();
        ASSERT_EQ(ggml_backend_sched_graph_compute(some_.get(), net.graph()), GGML_STATUS_SUCCESS)
            << heddle_last_error();
    }

    OwnedSched some_;
};

TEST_F(ForeignTest, SourcesAreCopiedFromThere) {
    Weights memory;
    Tensor* const x = memory.bench().matrix(kWidth, kColumns, rig->memory(1));
    for (unsigned round = 0; round < 2; ++round) {
        const Values values = sim::numbers(kWidth * kColumns, 80 + round);
        sim::write(x, values);
        ggml_backend_sched_reset(some_.get());
        Sketch net;
        Tensor* const seen = ggml_view_tensor(net.context(), x);
        Tensor* const out = net.add("out", ggml_mul_mat(net.context(), w1, seen));
        run(net);
        expect_near(sim::read(out), product(values1, values));
        expect_near(sim::read(x), values);
    }
}

TEST_F(ForeignTest, WeightsAreCopiedFromThere) {
    Tensor* const far = weights.add("far", rig->memory(1), values2);
    Sandwich net(w1, far);
    ASSERT_TRUE(ggml_backend_sched_alloc_graph(some_.get(), net.graph())) << heddle_last_error();
    const Values x = sim::numbers(kWidth * kColumns, 82);
    sim::write(net.x, x);
    ASSERT_EQ(ggml_backend_sched_graph_compute(some_.get(), net.graph()), GGML_STATUS_SUCCESS)
        << heddle_last_error();
    expect_near(sim::read(net.f), expected(x));
}

TEST_F(ForeignTest, WhatIsWrittenThereArrives) {
    Weights memory;
    Tensor* const state = memory.bench().matrix(kWidth, kColumns, rig->memory(1));
    const Values values = sim::numbers(kWidth * kColumns, 83);
    sim::write(state, values);
    Sketch net;
    Tensor* const more = net.add("more", ggml_scale_inplace(net.context(), state, 0.5f));
    Tensor* const out = net.add("out", ggml_silu(net.context(), more));
    run(net);
    Values halved = values;
    for (float& value : halved) value /= 2;
    expect_near(sim::read(state), halved);
    expect_near(sim::read(out), silu(halved));
}

// ---- experts without tokens --------------------------------------------------------------------

/// Experts on the host, computed by the device: only those that tokens choose are copied.
class ExpertsTest : public ClientTest {
protected:
    static constexpr std::int64_t kExperts = 4, kUsed = 2;

    void SetUp() override {
        ClientTest::SetUp();
        rig->renew(false, true);
        experts_ =
            ggml_new_tensor_3d(weights.bench().context(), GGML_TYPE_F32, kWidth, kWidth, kExperts);
        ASSERT_NE(weights.bench().place(experts_, ggml_backend_cpu_buffer_type()), nullptr);
        ggml_backend_buffer_set_usage(experts_->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        sim::write(experts_, values_);
    }

    /// Runs all tokens through their experts; token t takes t and t + 1.
    void run(std::int64_t tokens) {
        SCOPED_TRACE(testing::Message() << tokens << " tokens");
        ggml_backend_sched_reset(sched());
        Sketch net;
        ggml_context* const c = net.context();
        Tensor* const x = ggml_new_tensor_3d(c, GGML_TYPE_F32, kWidth, 1, tokens);
        Tensor* const ids = ggml_new_tensor_2d(c, GGML_TYPE_I32, kUsed, tokens);
        ggml_set_input(x);
        ggml_set_input(ids);
        Tensor* const mixed = net.add("mixed", ggml_mul_mat_id(c, experts_, x, ids));
        Tensor* const out = net.add("out", ggml_silu(c, mixed));
        ggml_backend_sched_set_tensor_backend(sched(), mixed, rig->stream(0));
        allocate(net);
        const Values in = sim::numbers(static_cast<std::size_t>(kWidth * tokens), 84);
        std::vector<std::int32_t> chosen;
        Values wanted;
        for (std::int64_t t = 0; t < tokens; ++t) {
            for (std::int64_t e = t; e < t + kUsed; ++e) {
                chosen.push_back(static_cast<std::int32_t>(e % kExperts));
                const auto w = values_.begin() + (e % kExperts) * kWidth * kWidth;
                const Values one(in.begin() + t * kWidth, in.begin() + (t + 1) * kWidth);
                const Values y = silu(product(Values(w, w + kWidth * kWidth), one));
                wanted.insert(wanted.end(), y.begin(), y.end());
            }
        }
        sim::write(x, in);
        ggml_backend_tensor_set(ids, chosen.data(), 0, chosen.size() * sizeof(std::int32_t));
        compute(net);
        EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), mixed), rig->stream(0));
        expect_near(sim::read(out), wanted);
    }

    Tensor* experts_ = nullptr;
    const Values values_ = sim::numbers(kWidth * kWidth * kExperts, 85);
};

TEST_F(ExpertsTest, NoTokensChooseNoExpertsAndLeaveAllAsItWas) {
    for (const std::int64_t tokens : {0, 3, 0, 1, 5, 0}) run(tokens);
}

// ---- as speech programs do ---------------------------------------------------------------------

TEST_F(ClientTest, SeveralSchedulersAreSizedByTheirWorstGraphsAndFeedEachOther) {
    ggml_backend_t streams[] = {rig->stream(0), rig->cpu()};
    OwnedSched scheds[3];
    for (OwnedSched& each : scheds) {
        each.reset(ggml_backend_sched_new(streams, nullptr, 2, 4096, false, true));
        Sandwich worst(w1, w2, nullptr, 32);
        ASSERT_TRUE(ggml_backend_sched_alloc_graph(each.get(), worst.graph()));
        ggml_backend_sched_reset(each.get());
        EXPECT_GT(ggml_backend_sched_get_buffer_size(each.get(), rig->stream(0)) +
                      ggml_backend_sched_get_buffer_size(each.get(), rig->cpu()),
                  0u);
    }
    for (unsigned round = 0; round < 3; ++round) {
        const Values x = sim::numbers(kWidth * kColumns, 30 + round);
        Sandwich first(w1, w2);
        ASSERT_TRUE(ggml_backend_sched_alloc_graph(scheds[0].get(), first.graph()));
        sim::write(ggml_graph_get_tensor(first.graph(), "x"), x);
        ASSERT_EQ(ggml_backend_sched_graph_compute(scheds[0].get(), first.graph()),
                  GGML_STATUS_SUCCESS);
        ggml_backend_sched_reset(scheds[0].get());
        Values result = expected(x);
        Tensor* last = first.f;
        std::vector<std::unique_ptr<Sketch>> later;
        for (int i = 1; i < 3; ++i) {
            later.push_back(std::make_unique<Sketch>());
            Sketch& net = *later.back();
            Tensor* const seen = ggml_view_tensor(net.context(), last);
            last = net.add("out", ggml_mul_mat(net.context(), i == 1 ? w2 : w1, seen));
            ASSERT_TRUE(ggml_backend_sched_alloc_graph(scheds[i].get(), net.graph()));
            ASSERT_EQ(ggml_backend_sched_graph_compute(scheds[i].get(), net.graph()),
                      GGML_STATUS_SUCCESS);
            ggml_backend_sched_reset(scheds[i].get());
            result = product(i == 1 ? values2 : values1, result);
        }
        expect_near(sim::read(last), result);
    }
}

TEST_F(ClientTest, TokensAreWrittenOneByOneAndLogitsReadRowByRowAfterTheReset) {
    for (unsigned round = 0; round < 3; ++round) {
        Sandwich net(w1, w2);
        allocate(net);
        const Values x = sim::numbers(kWidth * kColumns, 40 + round);
        for (std::size_t i = 0; i < x.size(); ++i) {
            ggml_backend_tensor_set(net.x, &x[i], i * sizeof(float), sizeof(float));
        }
        Tensor* const logits = ggml_graph_node(net.graph(), -1);
        compute(net);
        ggml_backend_sched_reset(sched());
        Values rows(x.size());
        const std::size_t row = kWidth * sizeof(float);
        for (std::size_t i = 0; i < kColumns; ++i) {
            ggml_backend_tensor_get(logits, rows.data() + i * kWidth, i * row, row);
        }
        expect_near(rows, expected(x));
    }
}

TEST_F(ClientTest, StateTensorsOfTheirOwnAreWrittenByEveryRun) {
    Weights memory;
    Tensor* const state = memory.bench().matrix(kWidth, kColumns, rig->memory(0));
    sim::write(state, Values(kWidth * kColumns, 0));
    Sketch net;
    ggml_context* const c = net.context();
    Tensor* const frame = net.input("frame");
    Tensor* const mixed = ggml_add(c, ggml_mul_mat(c, w1, frame), state);
    net.add("store", ggml_cpy(c, mixed, state));
    Tensor* const prob = net.add("prob", ggml_silu(c, mixed));
    allocate(net);
    Values sum(kWidth * kColumns, 0);
    for (unsigned window = 0; window < 4; ++window) {
        const Values x = sim::numbers(sum.size(), 50 + window);
        sim::write(frame, x);
        compute(net);
        const Values step = product(values1, x);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += step[i];
        expect_near(sim::read(prob), silu(sum));
        expect_near(sim::read(state), sum);
    }
    EXPECT_EQ(rig->counts().placed, 1u);
}

// ---- as language model programs do -------------------------------------------------------------

TEST_F(ClientTest, ReservingThreeGraphsLeavesSizesThatStay) {
    const auto reserve = [&](int columns) {
        ggml_backend_sched_reset(sched());
        Sandwich net(w1, w2, nullptr, columns);
        ggml_backend_sched_set_tensor_backend(sched(), net.e, rig->cpu());
        ASSERT_TRUE(ggml_backend_sched_reserve(sched(), net.graph()));
        EXPECT_EQ(ggml_backend_sched_get_n_splits(sched()), 3);
    };
    reserve(64);
    reserve(1);
    reserve(64);
    const std::size_t size = ggml_backend_sched_get_buffer_size(sched(), rig->stream(0));
    const std::size_t host = ggml_backend_sched_get_buffer_size(sched(), rig->cpu());
    for (const int columns : {64, 1, 17, 64}) {
        ggml_backend_sched_reset(sched());
        Sandwich net(w1, w2, nullptr, columns);
        ggml_backend_sched_set_tensor_backend(sched(), net.e, rig->cpu());
        allocate(net);
        EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), net.e), rig->cpu());
    }
    EXPECT_EQ(ggml_backend_sched_get_buffer_size(sched(), rig->stream(0)), size);
    EXPECT_EQ(ggml_backend_sched_get_buffer_size(sched(), rig->cpu()), host);
}

TEST_F(ClientTest, DecodingReusesAllocatedGraphsAndFetchesLogitsInTheOrderOfTheirStream) {
    for (const bool parallel : {false, true}) {
        rig->renew(parallel);
        alignas(16) static std::byte memory[1 << 18];
        for (unsigned batch = 0; batch < 3; ++batch) {
            ggml_backend_sched_reset(sched());
            Sandwich net(w1, w2, memory);
            ggml_set_output(net.f);
            allocate(net);
            for (unsigned token = 0; token < 3; ++token) {
                if (parallel) ggml_backend_sched_synchronize(sched());
                const Values x = sim::numbers(kWidth * kColumns, 60 + 3 * batch + token);
                std::memcpy(net.x->data, x.data(), x.size() * sizeof(float));
                ASSERT_EQ(ggml_backend_sched_graph_compute_async(sched(), net.graph()),
                          GGML_STATUS_SUCCESS);
                ggml_backend_t const stream = ggml_backend_sched_get_tensor_backend(sched(), net.f);
                ASSERT_NE(stream, nullptr);
                EXPECT_EQ(ggml_backend_buffer_get_type(net.f->buffer),
                          ggml_backend_get_default_buffer_type(stream));
                Values logits(x.size());
                ggml_backend_tensor_get_async(stream, net.f, logits.data(), 0, ggml_nbytes(net.f));
                ggml_backend_sched_synchronize(sched());
                expect_near(logits, expected(x));
            }
        }
    }
}

TEST_F(ClientTest, InputsThatNoNodeReadsNeedNoMemory) {
    Sandwich net(w1, w2);
    Tensor* const unused = net.input("unused");
    allocate(net);
    EXPECT_EQ(unused->buffer, nullptr);
    sim::write(net.x, sim::numbers(kWidth * kColumns, 9));
    compute(net);
}

TEST_F(ClientTest, MemoryOfTheFirstDeviceForTheHostMayHoldInputs) {
    start("devices=1,pinned=1");
    ggml_backend_buffer_type_t const pinned = ggml_backend_dev_host_buffer_type(rig->device(0));
    ASSERT_NE(pinned, nullptr);
    ggml_backend_t streams[] = {rig->stream(0), rig->cpu()};
    ggml_backend_buffer_type_t types[] = {rig->memory(0), pinned};
    const OwnedSched second(ggml_backend_sched_new(streams, types, 2, 64, true, true));
    ASSERT_NE(second, nullptr) << heddle_last_error();
    Sandwich net(w1, w2);
    ASSERT_TRUE(ggml_backend_sched_alloc_graph(second.get(), net.graph())) << heddle_last_error();
    EXPECT_EQ(ggml_backend_buffer_get_type(net.x->buffer), pinned);
    EXPECT_TRUE(ggml_backend_buffer_is_host(net.x->buffer));
    const Values x = sim::numbers(kWidth * kColumns, 10);
    std::memcpy(net.x->data, x.data(), x.size() * sizeof(float));
    ASSERT_EQ(ggml_backend_sched_graph_compute(second.get(), net.graph()), GGML_STATUS_SUCCESS);
    expect_near(sim::read(net.f), expected(x));
}

TEST_F(ClientTest, SmallGraphsBetweenAreComputedOnTheSameScheduler) {
    Weights memory;
    Tensor* const cache = memory.bench().matrix(kWidth, kColumns, rig->memory(0));
    const Values start_values = sim::numbers(kWidth * kColumns, 90);
    sim::write(cache, start_values);
    for (unsigned round = 0; round < 3; ++round) {
        ggml_backend_sched_reset(sched());
        Sandwich net(w1, w2);
        allocate(net);
        const Values x = sim::numbers(kWidth * kColumns, 70 + round);
        sim::write(net.x, x);
        compute(net);
        expect_near(sim::read(net.f), expected(x));

        ggml_backend_sched_reset(sched());
        Sketch shift;
        shift.add("shift", ggml_scale_inplace(shift.context(), cache, 0.5f));
        allocate(shift);
        compute(shift);
    }
    Values halved = start_values;
    for (float& value : halved) value /= 8;
    expect_near(sim::read(cache), halved);
}

}  // namespace
}  // namespace heddle::sched
