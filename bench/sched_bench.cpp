// What the scheduler costs and what it saves.
//
// Scheduling: nanoseconds per node of ggml_backend_sched_alloc_graph() for a graph that is new to
// the scheduler (read, placed, split, planned), for the same graph built again in the same memory,
// and in other memory; beside it what a plain pass over its tensors takes, which no comparison can
// beat in graphs that are larger than the caches. Submission: nanoseconds per split where two
// streams of the CPU take turns with nodes that do next to nothing. Times are least ones of
// repeated runs, of this thread's processor time, so that other programs disturb them less.
//
// Overlap: virtual time on simulated devices, the same on every machine. How long the run took over
// what no schedule could beat, also with every wait made at once by the host.
//
//     sched_bench [scheduling|stages|submission|overlap]...

#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "bench/sched_graphs.hpp"
#include "core/graph.hpp"
#include "core/prefetch.hpp"
#include "ggml-cpu.h"
#include "heddle/heddle.h"
#include "heddle/sched.h"
#include "heddle/sim.h"
#include "sched_stages.hpp"

namespace {

using namespace heddle::bench;

double thread_nanoseconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

template <class Function>
Function sim_function(const char* name) {
    return reinterpret_cast<Function>(
        ggml_backend_reg_get_proc_address(ggml_backend_sim_reg(), name));
}

/// Simulated devices and the CPU, and a scheduler over them.
class Machine {
public:
    /// `parameters` of the simulated devices; empty: the CPU alone.
    explicit Machine(const std::string& parameters, int cpus = 1) {
        if (!parameters.empty()) {
            if (!sim_function<heddle_backend_configure_t>("heddle_backend_configure")(
                    parameters.c_str())) {
                std::printf("%s\n", heddle_last_error());
            }
            ggml_backend_reg_t sim = ggml_backend_sim_reg();
            for (std::size_t i = 0; i < ggml_backend_reg_dev_count(sim); ++i) {
                add(ggml_backend_dev_init(ggml_backend_reg_dev_get(sim, i), nullptr));
            }
        }
        for (int i = 0; i < cpus; ++i) {
            add(ggml_backend_cpu_init());
            ggml_backend_cpu_set_n_threads(streams_.back().get(), 1);
        }
    }

    void schedule(std::size_t capacity, bool parallel, bool offload) {
        sched_.reset(ggml_backend_sched_new(borrowed_.data(), nullptr,
                                            static_cast<int>(borrowed_.size()), capacity, parallel,
                                            offload));
        if (sched_ == nullptr) std::printf("no scheduler: %s\n", heddle_last_error());
    }

    ggml_backend_sched_t sched() const { return sched_.get(); }
    std::span<ggml_backend_t const> streams() const { return borrowed_; }
    ggml_backend_t stream(std::size_t i) const { return borrowed_[i]; }
    std::size_t size() const { return borrowed_.size(); }
    ggml_backend_buffer_type_t memory(std::size_t i) const {
        return ggml_backend_get_default_buffer_type(borrowed_[i]);
    }
    /// The devices take equal shares of the layers, one after the other.
    std::size_t share(int layer, int layers) const {
        const std::size_t devices = std::max<std::size_t>(1, size() - 1);
        return static_cast<std::size_t>(layer) * devices / static_cast<std::size_t>(layers);
    }

private:
    void add(ggml_backend_t stream) {
        streams_.emplace_back(stream);
        borrowed_.push_back(stream);
    }

    std::vector<ggml_backend_ptr> streams_;
    std::vector<ggml_backend_t> borrowed_;
    ggml_backend_sched_ptr sched_;
};

// ---- scheduling --------------------------------------------------------------------------------

struct Times {
    // Nanoseconds per node.
    double first = 1e300, same = 1e300, elsewhere = 1e300, plain_pass = 1e300;
    int nodes = 0, splits = 0;
};

/// Time of reading all tensors once, all but their names.
double read_all(const ggml_cgraph& graph) {
    volatile std::uint64_t result = 0;  // somebody wants it
    const double start = thread_nanoseconds();
    std::uint64_t sum = 0;
    for (const auto tensors : {heddle::nodes_of(graph), heddle::leafs_of(graph)}) {
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            if (i + heddle::kReadAhead < tensors.size()) {
                heddle::prefetch(tensors[i + heddle::kReadAhead]);
            }
            std::array<std::uint64_t, offsetof(ggml_tensor, name) / sizeof(std::uint64_t)> words;
            std::memcpy(words.data(), tensors[i], sizeof words);
            for (const std::uint64_t word : words) sum += word;
        }
    }
    result = sum;
    (void)result;
    return thread_nanoseconds() - start;
}

/// Time of allocating `graph`, which the scheduler may know or not.
double allocate(ggml_backend_sched_t sched, ggml_cgraph* graph) {
    ggml_backend_sched_reset(sched);
    const double start = thread_nanoseconds();
    if (!ggml_backend_sched_alloc_graph(sched, graph)) {
        std::printf("not allocated: %s\n", heddle_last_error());
        return 1e300;
    }
    return thread_nanoseconds() - start;
}

/// `build(arena, variant)`: variant 1 is a graph of another topology and about the same size.
template <class Build>
Times measure(Machine& machine, std::size_t capacity, int runs, const Build& build) {
    machine.schedule(capacity, false, false);
    Arena here(capacity, capacity), there(capacity, capacity), other(capacity, capacity);
    ggml_cgraph* different = build(other, 1);
    Times times;
    for (int i = 0; i < runs; ++i) {
        here.clear();
        ggml_cgraph* graph = build(here, 0);
        times.nodes = ggml_graph_n_nodes(graph);
        const double per_node = 1.0 / times.nodes;
        allocate(machine.sched(), different);
        times.first = std::min(times.first, allocate(machine.sched(), graph) * per_node);
        here.clear();
        graph = build(here, 0);
        times.same = std::min(times.same, allocate(machine.sched(), graph) * per_node);
        there.clear();
        graph = build(there, 0);
        times.elsewhere = std::min(times.elsewhere, allocate(machine.sched(), graph) * per_node);
        times.splits = ggml_backend_sched_get_n_splits(machine.sched());
        here.clear();
        graph = build(here, 0);
        times.plain_pass = std::min(times.plain_pass, read_all(*graph) * per_node);
    }
    return times;
}

void print_scheduling(const char* graph, const char* devices, const Times& times,
                      const Times& smallest) {
    std::printf("%-12s %-12s %8d %7d %9.1f %9.1f %9.1f   x%.2f x%.2f %12.1f   x%.2f\n", graph,
                devices, times.nodes, times.splits, times.first, times.same, times.elsewhere,
                times.first / smallest.first, times.elsewhere / smallest.elsewhere,
                times.plain_pass, times.elsewhere / times.plain_pass);
    std::fflush(stdout);
}

struct Setting {
    const char *devices, *parameters;
};
constexpr std::array kSettings{Setting{"CPU", ""}, Setting{"2 SIM, CPU", "devices=2,mem=4G"}};

std::size_t capacity_for(int layers) { return static_cast<std::size_t>(layers) * 48 + 64; }

void scheduling() {
    std::printf(
        "scheduling: nanoseconds per node; growth of first and elsewhere; a plain pass over the "
        "tensors, and elsewhere as a multiple of it\n"
        "%-12s %-12s %8s %7s %9s %9s %9s   %11s %12s\n",
        "graph", "devices", "nodes", "splits", "first", "same", "elsewhere", "growth",
        "plain pass");
    for (const Setting& setting : kSettings) {
        Times smallest;
        for (const std::size_t nodes : {1'000, 10'000, 100'000}) {
            Machine machine(setting.parameters);
            const auto build = [&](Arena& arena, int variant) {
                return build_chain(arena, nodes - static_cast<std::size_t>(variant));
            };
            const Times times = measure(machine, nodes + 64, nodes >= 100'000 ? 10 : 25, build);
            if (nodes == 1'000) smallest = times;
            print_scheduling("chain", setting.devices, times, smallest);
        }
        for (const int layers : {30, 300, 3'000}) {
            Machine machine(setting.parameters);
            const auto home = [&](int i) { return machine.memory(machine.share(i, layers)); };
            const Model model({.layers = layers}, home, home);
            const std::size_t capacity = capacity_for(layers);
            const auto build = [&](Arena& arena, int variant) {
                return TransformerBuilder(model, arena, capacity).build(layers - variant);
            };
            const Times times = measure(machine, capacity, layers >= 3'000 ? 10 : 25, build);
            if (layers == 30) smallest = times;
            print_scheduling("transformer", setting.devices, times, smallest);
        }
    }
}

void stages() {
    StageTimes::print_title();
    for (const Setting& setting : kSettings) {
        for (const int layers : {30, 300, 3'000}) {
            Machine machine(setting.parameters);
            const auto home = [&](int i) { return machine.memory(machine.share(i, layers)); };
            const Model model({.layers = layers}, home, home);
            Arena arena(capacity_for(layers), capacity_for(layers));
            ggml_cgraph* graph =
                TransformerBuilder(model, arena, capacity_for(layers)).build(layers);
            StageTimes times;
            for (int i = 0; i < (layers >= 3'000 ? 5 : 25); ++i) {
                const auto done = times.run(machine.streams(), *graph, thread_nanoseconds);
                if (!done) std::printf("%s\n", done.error().message.c_str());
            }
            times.print(std::string("transformer, ") + setting.devices);
        }
    }
}

// ---- submission --------------------------------------------------------------------------------

/// Least nanoseconds of computing the graph that is allocated.
double compute_time(ggml_backend_sched_t sched, ggml_cgraph* graph) {
    double least = 1e300;
    for (int i = 0; i < 50; ++i) {
        const auto start = std::chrono::steady_clock::now();
        if (ggml_backend_sched_graph_compute(sched, graph) != GGML_STATUS_SUCCESS) {
            std::printf("not computed: %s\n", heddle_last_error());
            return 0;
        }
        const std::chrono::duration<double, std::nano> took =
            std::chrono::steady_clock::now() - start;
        least = std::min(least, took.count());
    }
    return least;
}

void submission() {
    constexpr std::size_t nodes = 1'000;
    Machine machine("", 2);
    machine.schedule(nodes + 64, false, false);
    Arena arena(nodes + 64, nodes + 64);
    double together = 0;
    std::printf("\nsubmission: two streams of the CPU, %zu nodes of 16 floats\n%-28s %8s %12s %s\n",
                nodes, "nodes take turns after", "splits", "ns per run", "ns per split");
    for (const int length : {1'000, 10, 2, 1}) {
        arena.clear();
        ggml_cgraph* graph = build_chain(arena, nodes);
        ggml_backend_sched_reset(machine.sched());
        for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
            ggml_backend_sched_set_tensor_backend(
                machine.sched(), ggml_graph_node(graph, i),
                machine.stream(static_cast<std::size_t>(i / length % 2)));
        }
        if (!ggml_backend_sched_alloc_graph(machine.sched(), graph)) {
            std::printf("not allocated: %s\n", heddle_last_error());
            return;
        }
        const double time = compute_time(machine.sched(), graph);
        const int splits = ggml_backend_sched_get_n_splits(machine.sched());
        if (splits == 1) together = time;
        std::printf("%-28d %8d %12.0f %12.1f\n", length, splits, time,
                    splits == 1 ? 0.0 : (time - together) / (splits - 1));
    }
}

// ---- overlap -----------------------------------------------------------------------------------

/// Virtual seconds that the engines of a device worked.
struct Work {
    double nodes = 0, in = 0, out = 0;
};
Work work_of(ggml_backend_dev_t device) {
    const auto trace = sim_function<heddle_sim_trace_t>("heddle_sim_trace");
    std::vector<heddle_sim_item> items(trace(device, nullptr, 0, sizeof(heddle_sim_item)));
    trace(device, items.data(), items.size(), sizeof(heddle_sim_item));
    Work work;
    for (const heddle_sim_item& item : items) {
        const double took = item.end - item.start;
        if (item.kind == HEDDLE_SIM_NODE) work.nodes += took;
        if (item.kind == HEDDLE_SIM_WRITE || item.kind == HEDDLE_SIM_COPY) work.in += took;
        if (item.kind == HEDDLE_SIM_READ) work.out += took;
    }
    return work;
}

/// Runs the graph so often, without waiting in between. Gives the virtual seconds it took; `work`
/// is filled with that of the devices.
double run(Machine& machine, ggml_cgraph* graph, int times, std::vector<Work>& work) {
    const auto clock = sim_function<heddle_sim_clock_t>("heddle_sim_clock");
    const auto clear = sim_function<heddle_sim_clear_trace_t>("heddle_sim_clear_trace");
    const std::size_t devices = machine.size() - 1;
    ggml_backend_sched_synchronize(machine.sched());
    double start = clock(nullptr), end = start;
    for (std::size_t i = 0; i < devices; ++i) {
        start = std::max(start, clock(ggml_backend_get_device(machine.stream(i))));
        clear(ggml_backend_get_device(machine.stream(i)));
    }
    for (int i = 0; i < times; ++i) {
        if (ggml_backend_sched_graph_compute_async(machine.sched(), graph) != GGML_STATUS_SUCCESS) {
            std::printf("not computed: %s\n", heddle_last_error());
            return 0;
        }
    }
    ggml_backend_sched_synchronize(machine.sched());
    work.clear();
    for (std::size_t i = 0; i < devices; ++i) {
        ggml_backend_dev_t device = ggml_backend_get_device(machine.stream(i));
        end = std::max(end, clock(device));
        work.push_back(work_of(device));
    }
    return end - start;
}

constexpr Shape kOverlapShape{
    .layers = 32, .width = 128, .heads = 4, .hidden = 256, .tokens = 512, .cached = 512};

ggml_cgraph* prepare(Machine& machine, const Model& model, Arena& arena, std::size_t capacity) {
    ggml_cgraph* graph = TransformerBuilder(model, arena, capacity).build(model.shape().layers);
    if (!ggml_backend_sched_alloc_graph(machine.sched(), graph)) {
        std::printf("not allocated: %s\n", heddle_last_error());
        return nullptr;
    }
    for (const char* name : {"tokens", "positions"}) {
        ggml_tensor* input = ggml_graph_get_tensor(graph, name);
        const std::vector<std::byte> zeros(ggml_nbytes(input));
        ggml_backend_tensor_set(input, zeros.data(), 0, zeros.size());
    }
    return graph;
}

enum class Host { first_half, every_second };

/// The weights of half of the layers are on the host: they stream through a device, or it keeps
/// copies of them.
void streaming(Host host, bool keeps) {
    const std::size_t capacity = capacity_for(kOverlapShape.layers);
    Machine machine("devices=1,mem=4G,flops=2T,membw=4T,link=4G,latency=100ns,pinned=1,trace=1");
    machine.schedule(capacity, false, true);
    const auto home = [&](int i) {
        const bool on_host = host == Host::first_half ? i < kOverlapShape.layers / 2 : i % 2 == 0;
        return machine.memory(on_host ? 1 : 0);
    };
    const Model model(kOverlapShape, home, [&](int) { return machine.memory(0); });
    if (!keeps) {
        // Room for the graph, with no bytes left to keep copies of weights in.
        Arena sample(capacity, capacity);
        std::vector<std::size_t> sizes(machine.size());
        heddle_sched_set_budget(machine.sched(), machine.stream(0), 1);
        ggml_backend_sched_reserve_size(
            machine.sched(),
            TransformerBuilder(model, sample, capacity).build(kOverlapShape.layers), sizes.data());
        heddle_sched_set_budget(machine.sched(), machine.stream(0), sizes[0]);
    }
    Arena arena(capacity, capacity);
    ggml_cgraph* graph = prepare(machine, model, arena, capacity);
    if (graph == nullptr) return;
    for (const bool synchronous : {true, false}) {
        heddle_sched_set_synchronous(machine.sched(), synchronous);
        std::vector<Work> work;
        run(machine, graph, 1, work);
        const double took = run(machine, graph, 1, work);
        const double bound = std::max(work[0].nodes, work[0].in);
        std::printf("%-34s %-12s %9.2f %9.2f %9.2f %9.3f\n",
                    keeps                      ? "weights on the host, kept"
                    : host == Host::first_half ? "first half of weights on the host"
                                               : "every second layer's on the host",
                    synchronous ? "synchronous" : "overlapped", took * 1e3, work[0].nodes * 1e3,
                    work[0].in * 1e3, took / bound);
        std::fflush(stdout);
    }
}

/// Two devices with half of the layers each work on micro-batches one after the other.
void pipeline() {
    constexpr int batches = 16;
    const std::size_t capacity = capacity_for(kOverlapShape.layers);
    for (const bool synchronous : {true, false}) {
        Machine machine(
            "devices=2,mem=4G,flops=2T,membw=4T,link=25G,latency=100ns,pinned=1,trace=1");
        machine.schedule(capacity, true, false);
        const auto home = [&](int i) {
            return machine.memory(machine.share(i, kOverlapShape.layers));
        };
        Shape shape = kOverlapShape;
        shape.tokens = 64;
        const Model model(shape, home, home);
        Arena arena(capacity, capacity);
        ggml_cgraph* graph = prepare(machine, model, arena, capacity);
        if (graph == nullptr) return;
        heddle_sched_set_synchronous(machine.sched(), synchronous);
        std::vector<Work> work;
        run(machine, graph, 4, work);
        const double took = run(machine, graph, batches, work);
        // No pipeline is done before the slower device has done all batches, and the other one its
        // first or last.
        const double slow = std::max(work[0].nodes, work[1].nodes);
        const double ideal = slow + std::min(work[0].nodes, work[1].nodes) / batches;
        std::printf("%-34s %-12s %9.2f %9.2f %9.2f %9.3f\n", "two devices, 16 batches",
                    synchronous ? "synchronous" : "overlapped", took * 1e3, ideal * 1e3,
                    (work[0].in + work[1].in) * 1e3, took / ideal);
        std::fflush(stdout);
    }
}

/// Two branches that need nothing of each other, with weights on the host that the devices keep.
void branches() {
    constexpr std::int64_t width = 256;
    constexpr int length = 16;
    for (const heddle_sched_policy policy : {HEDDLE_SCHED_POLICY_RULES, HEDDLE_SCHED_POLICY_COST}) {
        Machine machine(
            "devices=2,mem=4G,flops=2T,membw=4T,link=25G,latency=100ns,pinned=1,trace=1");
        machine.schedule(128, false, true);
        if (!heddle_sched_set_cost_file(machine.sched(), "") ||
            !heddle_sched_set_policy(machine.sched(), policy)) {
            std::printf("%s\n", heddle_last_error());
        }
        Arena weights(2 * length + 8), arena(128, 128);
        ggml_cgraph* graph = ggml_new_graph_custom(arena.get(), 128, false);
        ggml_tensor* x = ggml_new_tensor_2d(arena.get(), GGML_TYPE_F32, width, width);
        ggml_set_input(x);
        std::array<ggml_tensor*, 2> ends{x, x};
        for (int i = 0; i < 2 * length; ++i) {
            ggml_tensor* weight = ggml_new_tensor_2d(weights.get(), GGML_TYPE_F32, width, width);
            ggml_tensor*& end = ends[static_cast<std::size_t>(i / length)];
            end = ggml_mul_mat(arena.get(), weight, end);
        }
        ggml_tensor* result = ggml_add(arena.get(), ends[0], ends[1]);
        ggml_set_output(result);
        const ggml_backend_buffer_ptr buffer(
            ggml_backend_alloc_ctx_tensors_from_buft(weights.get(), machine.memory(2)));
        ggml_backend_buffer_clear(buffer.get(), 0);
        ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        ggml_build_forward_expand(graph, result);
        if (!ggml_backend_sched_alloc_graph(machine.sched(), graph)) {
            std::printf("not allocated: %s\n", heddle_last_error());
            return;
        }
        const std::vector<float> zeros(width * width);
        ggml_backend_tensor_set(x, zeros.data(), 0, ggml_nbytes(x));
        std::vector<Work> work;
        run(machine, graph, 1, work);
        const double took = run(machine, graph, 1, work);
        const double ideal = (work[0].nodes + work[1].nodes) / 2;
        std::printf("%-34s %-12s %9.3f %9.3f %9.3f %9.3f\n", "two branches, two devices",
                    policy == HEDDLE_SCHED_POLICY_RULES ? "by rules" : "by cost", took * 1e3,
                    ideal * 1e3, (work[0].in + work[1].in) * 1e3, took / ideal);
    }
}

void overlap() {
    std::printf("\noverlap: virtual milliseconds\n%-34s %-12s %9s %9s %9s %9s\n", "", "", "took",
                "compute", "copies", "ratio");
    streaming(Host::first_half, false);
    streaming(Host::every_second, false);
    streaming(Host::first_half, true);
    pipeline();
    branches();
}

}  // namespace

int main(int count, char** arguments) {
    const auto wanted = [&](std::string_view part) {
        return count == 1 || std::find(arguments + 1, arguments + count, part) != arguments + count;
    };
    if (wanted("scheduling")) scheduling();
    if (wanted("stages")) stages();
    if (wanted("submission")) submission();
    if (wanted("overlap")) overlap();
}
