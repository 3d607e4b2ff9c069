// Whole sequences of calls as speech and language model programs make them, beside those in
// tests/sched/clients_test.cpp: models loaded in every way, uploads, probes, small graphs.

#include "client_sequences.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "gguf.h"

namespace heddle::sched {
namespace {

// ---- loading a model ---------------------------------------------------------------------------

/// Whether `device` would compute `op` if its weight lay in memory of type `type`.
bool would_run(ggml_backend_dev_t device, Tensor* op, Tensor* weight,
               ggml_backend_buffer_type_t type) {
    weight->buffer = ggml_backend_buft_alloc_buffer(type, 0);
    const bool answer = ggml_backend_dev_supports_op(device, op);
    ggml_backend_buffer_free(weight->buffer);
    weight->buffer = nullptr;
    return answer;
}

/// Memory for weights, best first: that of the device, then what the processor has.
std::vector<std::pair<ggml_backend_dev_t, ggml_backend_buffer_type_t>> memory_for_weights(
    ggml_backend_dev_t device) {
    std::vector<std::pair<ggml_backend_dev_t, ggml_backend_buffer_type_t>> list{
        {device, ggml_backend_dev_buffer_type(device)}};
    const auto extra =
        proc<ggml_backend_dev_get_extra_bufts_t>(cpu_device(), "ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t* types = extra != nullptr ? extra(cpu_device()) : nullptr;
    for (; types != nullptr && *types != nullptr; ++types) list.emplace_back(cpu_device(), *types);
    list.emplace_back(cpu_device(), ggml_backend_cpu_buffer_type());
    return list;
}

TEST_F(SequenceTest, EachWeightGoesToTheFirstMemoryWhereItsOpRuns) {
    start("devices=1,ops=all,-GET_ROWS");
    const auto list = memory_for_weights(rig->device(0));
    const auto memory_of = [&](Tensor* weight, Tensor* op) {
        for (const auto& [owner, type] : list) {
            if (would_run(owner, op, weight, type)) return type;
        }
        return ggml_backend_buffer_type_t{};
    };
    // Where each weight goes is asked with a tensor of its shape, then it is made in a context of
    // that memory's own.
    const ContextOwner probes = tensors_only();
    Tensor* const probe = ggml_new_tensor_2d(probes.get(), GGML_TYPE_F32, kWidth, kWidth);
    Tensor* const tokens = ggml_new_tensor_1d(probes.get(), GGML_TYPE_I32, 512);
    Tensor* const columns = ggml_new_tensor_2d(probes.get(), GGML_TYPE_F32, kWidth, 512);
    ggml_backend_buffer_type_t const for_rows =
        memory_of(probe, ggml_get_rows(probes.get(), probe, tokens));
    ggml_backend_buffer_type_t const for_products =
        memory_of(probe, ggml_mul_mat(probes.get(), probe, columns));
    ASSERT_NE(for_rows, nullptr);
    EXPECT_NE(for_rows, rig->memory(0));
    EXPECT_EQ(for_products, rig->memory(0));

    std::map<ggml_backend_buffer_type_t, ContextOwner> contexts;
    const auto make = [&](ggml_backend_buffer_type_t type) {
        ContextOwner& context = contexts[type];
        if (context == nullptr) context = tensors_only();
        return ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, kWidth, kWidth);
    };
    Tensor* const embedding = make(for_rows);
    Tensor* const matrix = make(for_products);
    std::vector<Buffer> buffers;
    for (const auto& [type, context] : contexts) {
        buffers.emplace_back(ggml_backend_alloc_ctx_tensors_from_buft(context.get(), type));
        ASSERT_NE(buffers.back(), nullptr) << ggml_backend_buft_name(type);
    }
    for (const auto& [weight, values] : {std::pair{embedding, values1}, {matrix, values2}}) {
        if (ggml_backend_buffer_is_host(weight->buffer)) {
            std::memcpy(weight->data, values.data(), ggml_nbytes(weight));
        } else {
            ggml_backend_tensor_set(weight, values.data(), 0, ggml_nbytes(weight));
        }
    }
    for (const Buffer& buffer : buffers) {  // after their data, as programs do
        ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }

    Sketch net;
    Tensor* const ids = ggml_new_tensor_1d(net.context(), GGML_TYPE_I32, 2);
    ggml_set_input(ids);
    Tensor* const rows = ggml_get_rows(net.context(), embedding, ids);
    Tensor* const out = net.add("out", ggml_mul_mat(net.context(), matrix, rows));
    ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched(), net.graph())) << heddle_last_error();
    const std::int32_t chosen[] = {5, 2};
    std::memcpy(ids->data, chosen, sizeof chosen);
    run(net);
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), out), device());
    Values picked(values1.begin() + 5 * kWidth, values1.begin() + 6 * kWidth);
    picked.insert(picked.end(), values1.begin() + 2 * kWidth, values1.begin() + 3 * kWidth);
    expect_near(sim::read(out), product(values2, picked));
}

/// A model file with two matrices, mapped.
class MappedModel {
public:
    MappedModel(const Values& first, const Values& second)
        : path_(std::filesystem::temp_directory_path() /
                ("heddle-mapped-" + std::to_string(getpid()) + ".gguf")) {
        const ContextOwner context(
            ggml_init({.mem_size = 1 << 18, .mem_buffer = nullptr, .no_alloc = false}));
        gguf_context* const file = gguf_init_empty();
        for (const auto& [name, values] : {std::pair{"first", &first}, {"second", &second}}) {
            Tensor* const t = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, kWidth, kWidth);
            std::memcpy(ggml_set_name(t, name)->data, values->data(), ggml_nbytes(t));
            gguf_add_tensor(file, t);
        }
        EXPECT_TRUE(gguf_write_to_file(file, path_.c_str(), false)) << heddle_last_error();
        gguf_free(file);

        ggml_context* tensors = nullptr;
        file_ = gguf_init_from_file(path_.c_str(), {.no_alloc = true, .ctx = &tensors});
        tensors_.reset(tensors);
        const int descriptor = open(path_.c_str(), O_RDONLY);
        size_ = static_cast<std::size_t>(std::filesystem::file_size(path_));
        mapping_ = mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
        close(descriptor);
    }
    MappedModel(const MappedModel&) = delete;
    MappedModel& operator=(const MappedModel&) = delete;
    ~MappedModel() {
        munmap(mapping_, size_);
        gguf_free(file_);
        std::filesystem::remove(path_);
    }

    Tensor* tensor(const char* name) { return ggml_get_tensor(tensors_.get(), name); }
    std::byte* data_of(const char* name) {
        return static_cast<std::byte*>(mapping_) + gguf_get_data_offset(file_) +
               gguf_get_tensor_offset(file_, gguf_find_tensor(file_, name));
    }

private:
    std::filesystem::path path_;
    gguf_context* file_ = nullptr;
    ContextOwner tensors_;
    std::size_t size_ = 0;
    void* mapping_ = nullptr;
};

TEST_F(SequenceTest, WeightsAreUsedWhereTheFileIsMappedAndWrittenToDevicesFromThere) {
    MappedModel model(values1, values2);
    ggml_backend_dev_props props;
    ggml_backend_dev_get_props(cpu_device(), &props);
    ASSERT_TRUE(props.caps.mmap_support && props.caps.buffer_from_host_ptr);

    // The processor's weight stays in the mapping; the buffer spans the file's part that it needs.
    Tensor* const second = model.tensor("second");
    std::byte* const address = model.data_of("second");
    const Buffer mapped(ggml_backend_dev_buffer_from_host_ptr(
        cpu_device(), address, ggml_nbytes(second), ggml_nbytes(second)));
    ASSERT_NE(mapped, nullptr) << heddle_last_error();
    ASSERT_EQ(ggml_backend_tensor_alloc(mapped.get(), second, address), GGML_STATUS_SUCCESS);
    // The device's is written from there.
    Tensor* const first = model.tensor("first");
    const Buffer uploaded(ggml_backend_buft_alloc_buffer(rig->memory(0), ggml_nbytes(first)));
    ggml_backend_tensor_alloc(uploaded.get(), first, ggml_backend_buffer_get_base(uploaded.get()));
    ggml_backend_tensor_set(first, model.data_of("first"), 0, ggml_nbytes(first));
    for (const Buffer* buffer : {&mapped, &uploaded}) {
        ggml_backend_buffer_set_usage(buffer->get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }

    for (unsigned seed = 1; seed < 4; ++seed) {
        ggml_backend_sched_reset(sched());
        Sandwich net(first, second);
        ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched(), net.graph())) << heddle_last_error();
        const Values x = sim::numbers(kWidth * kColumns, seed);
        std::memcpy(net.x->data, x.data(), ggml_nbytes(net.x));
        run(net);
        expect_near(sim::read(net.f), expected(x));
    }
    EXPECT_EQ(second->data, address);
}

TEST_F(SequenceTest, UploadsGoThroughAFewPinnedBuffersOnAStreamOfTheirOwn) {
    start("devices=1,pinned=1");
    ggml_backend_dev_props props;
    ggml_backend_dev_get_props(rig->device(0), &props);
    ASSERT_TRUE(props.caps.async && props.caps.host_buffer && props.caps.events);
    constexpr std::size_t kStages = 4, kStage = 1024;
    constexpr std::int64_t kElements = 5000;  // the last piece is a part of a stage

    sim::Bench bench;
    Tensor* const weight = bench.vector(kElements, rig->memory(0));
    const Values values = sim::numbers(kElements, 7);
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    {
        const Stream upload(ggml_backend_dev_init(rig->device(0), nullptr));
        std::vector<Buffer> stages;
        std::vector<sim::Event> events;
        for (std::size_t i = 0; i < kStages; ++i) {
            stages.emplace_back(ggml_backend_buft_alloc_buffer(
                ggml_backend_dev_host_buffer_type(rig->device(0)), kStage));
            events.emplace_back(ggml_backend_event_new(rig->device(0)));
        }
        std::size_t stage = 0;
        for (std::size_t at = 0; at < ggml_nbytes(weight); at += kStage) {
            const std::size_t size = std::min(kStage, ggml_nbytes(weight) - at);
            ggml_backend_event_synchronize(events[stage].get());  // the first time not recorded
            void* const memory = ggml_backend_buffer_get_base(stages[stage].get());
            std::memcpy(memory, bytes + at, size);
            ggml_backend_tensor_set_async(upload.get(), weight, memory, at, size);
            ggml_backend_event_record(events[stage].get(), upload.get());
            stage = (stage + 1) % kStages;
        }
        for (const sim::Event& event : events) ggml_backend_event_synchronize(event.get());
    }
    EXPECT_EQ(sim::read(weight), values);
}

// ---- scheduling --------------------------------------------------------------------------------

TEST_F(SequenceTest, ProbesAreSplitWithoutMemoryBeforeTheWorstGraphIsReserved) {
    const std::size_t none = ggml_backend_sched_get_buffer_size(sched(), device());
    Sandwich probe(w1, w2, nullptr, 64);
    ggml_backend_sched_split_graph(sched(), probe.graph());
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), probe.a), device());
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), probe.d), cpu());
    EXPECT_EQ(probe.a->buffer, nullptr);
    EXPECT_EQ(ggml_backend_sched_get_buffer_size(sched(), device()), none);
    ggml_backend_sched_reset(sched());

    std::size_t sizes[2] = {};
    ggml_backend_sched_reserve_size(sched(), probe.graph(), sizes);
    ASSERT_TRUE(ggml_backend_sched_reserve(sched(), probe.graph())) << heddle_last_error();
    EXPECT_EQ(ggml_backend_sched_get_buffer_size(sched(), device()), sizes[0]);
    EXPECT_EQ(ggml_backend_sched_get_buffer_size(sched(), cpu()), sizes[1]);
}

TEST_F(SequenceTest, NodesAreWatchedAndTheNamesOfCopiesStripped) {
    struct Seen {
        std::map<std::string, Values> activations;
    } seen;
    ggml_backend_sched_set_eval_callback(
        sched(),
        [](ggml_tensor* t, bool ask, void* user_data) {
            if (ask) return t->op == GGML_OP_MUL_MAT;
            const Tensor* const source = t->src[1];
            std::string name = source->name;
            if (const auto first = name.find('#'); first != std::string::npos) {
                name = name.substr(first + 1, name.rfind('#') - first - 1);
            }
            static_cast<Seen*>(user_data)->activations[name] = sim::read(source);
            return true;
        },
        &seen);
    Sandwich net(w1, w2);
    ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched(), net.graph()));
    const Values x = sim::numbers(kWidth * kColumns, 3);
    sim::write(net.x, x);
    run(net);
    const Values b = silu(product(values1, x));
    ASSERT_EQ(seen.activations.size(), 3u);
    expect_near(seen.activations["x"], x);
    expect_near(seen.activations["b"], b);
    expect_near(seen.activations["e"], silu(product(values2, b)));
}

// ---- small graphs on the processor -------------------------------------------------------------

TEST(ProcessorSequence, SmallGraphsInAContextWithMemoryRunOnAFreshStream) {
    const ContextOwner context(
        ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = false}));
    Tensor* const x = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 64);
    for (int i = 0; i < 64; ++i) static_cast<float*>(x->data)[i] = static_cast<float>(i);
    const auto half = [](Tensor* dst, const Tensor* a, int part, int parts, void*) {
        for (std::int64_t i = part; i < ggml_nelements(a); i += parts) {
            static_cast<float*>(dst->data)[i] = static_cast<const float*>(a->data)[i] / 2;
        }
    };
    Tensor* const y = ggml_map_custom1(context.get(), x, half, GGML_N_TASKS_MAX, nullptr);
    ggml_cgraph* const graph = ggml_new_graph(context.get());
    ggml_build_forward_expand(graph, y);

    const auto set_threads =
        proc<ggml_backend_set_n_threads_t>(cpu_device(), "ggml_backend_set_n_threads");
    const auto set_abort =
        proc<ggml_backend_set_abort_callback_t>(cpu_device(), "ggml_backend_set_abort_callback");
    ASSERT_TRUE(set_threads != nullptr && set_abort != nullptr);
    for (int round = 0; round < 3; ++round) {
        const Stream stream(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
        bool stop = false;
        set_threads(stream.get(), 2);
        set_abort(
            stream.get(), [](void* data) { return *static_cast<bool*>(data); }, &stop);
        ASSERT_EQ(ggml_backend_graph_compute(stream.get(), graph), GGML_STATUS_SUCCESS);
        EXPECT_EQ(static_cast<float*>(y->data)[63], 31.5f);
        stop = true;
        EXPECT_EQ(ggml_backend_graph_compute(stream.get(), graph), GGML_STATUS_ABORTED);
    }
}

TEST(ProcessorSequence, FeaturesAreListedUntilTheNullName) {
    ggml_backend_load_all();
    ggml_backend_load_all();  // harmless twice
    for (std::size_t i = 0; i < ggml_backend_reg_count(); ++i) {
        ggml_backend_reg_t const reg = ggml_backend_reg_get(i);
        const auto features = reinterpret_cast<ggml_backend_get_features_t>(
            ggml_backend_reg_get_proc_address(reg, "ggml_backend_get_features"));
        if (features == nullptr) continue;
        for (const ggml_backend_feature* f = features(reg); f->name != nullptr; ++f) {
            EXPECT_NE(f->value, nullptr) << f->name;
        }
    }
}

// ---- checking one device against another -------------------------------------------------------

TEST_F(SequenceTest, SentinelsAroundATensorStayAsTheyAreOnBothDevices) {
    const ContextOwner context = tensors_only();
    const auto sentinel = [&] {
        return ggml_set_name(ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 1024), "sentinel");
    };
    std::vector<Tensor*> guards{sentinel()};
    Tensor* const a = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 7, 3);
    guards.push_back(sentinel());
    Tensor* const out = ggml_soft_max(context.get(), a);
    guards.push_back(sentinel());
    for (Tensor* t = ggml_get_first_tensor(context.get()); t != nullptr;
         t = ggml_get_next_tensor(context.get(), t)) {
        EXPECT_TRUE(ggml_backend_supports_op(device(), t)) << t->name;
    }
    const Buffer buffer(ggml_backend_alloc_ctx_tensors(context.get(), device()));
    ASSERT_NE(buffer, nullptr);
    ggml_cgraph* const graph = ggml_new_graph(context.get());
    ggml_build_forward_expand(graph, out);
    for (Tensor* guard : guards) {
        ggml_graph_add_node(graph, guard);
        sim::write(guard, sim::numbers(1024, 9));
    }
    sim::write(a, sim::numbers(21, 10));

    const auto set_plain =
        reinterpret_cast<void (*)(ggml_backend_t, bool)>(ggml_backend_reg_get_proc_address(
            ggml_backend_dev_backend_reg(cpu_device()), "ggml_backend_cpu_set_use_ref"));
    ASSERT_NE(set_plain, nullptr);
    set_plain(cpu(), true);
    int compared = 0;
    const auto agree = [](int, Tensor* t1, Tensor* t2, void* user_data) {
        ++*static_cast<int*>(user_data);
        const Values one = sim::read(t1), two = sim::read(t2);
        if (t1->op == GGML_OP_NONE) return one == two && one == sim::numbers(1024, 9);
        expect_near(one, two);
        return true;
    };
    EXPECT_TRUE(
        ggml_backend_compare_graph_backend(device(), cpu(), graph, agree, &compared, nullptr, 0));
    EXPECT_EQ(compared, 4);
}

}  // namespace
}  // namespace heddle::sched
