#include <fmt/core.h>
#include <time.h>

#include <algorithm>

#include "bench/commands.hpp"
#include "bench/measure.hpp"
#include "bench/output.hpp"
#include "bench/sched_graphs.hpp"
#include "console.hpp"
#include "heddle/heddle.hpp"
#include "interrupt.hpp"
#include "outcome.hpp"
#include "shared_options.hpp"

namespace heddle::tool::bench {
namespace {

using heddle::bench::Arena;
using heddle::bench::build_chain;
using heddle::bench::Model;
using heddle::bench::TransformerBuilder;

struct SchedOptions {
    Output output;
    bool quick = false;
};

/// Processor time of this thread: scheduling is the work of one, and others disturb it less.
double thread_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Devices with a scheduler over them.
class Machine {
public:
    /// `devices` as Device::find_all() takes them, empty for none; then so many streams of the CPU.
    static Result<Machine> make(const std::string& devices, int processors, std::size_t capacity) {
        Machine made;
        if (!devices.empty()) {
            HEDDLE_TRY_ASSIGN(const auto found, Device::find_all(devices));
            for (const Device& device : found) HEDDLE_TRY(made.add(device));
        }
        HEDDLE_TRY_ASSIGN(const Device cpu, Device::cpu());
        for (int i = 0; i < processors; ++i) {
            HEDDLE_TRY(made.add(cpu));
            made.streams_.back().set_threads(1);
        }
        std::vector<ggml_backend_t> streams;
        for (const Stream& stream : made.streams_) streams.push_back(stream.c());
        made.scheduler_.reset(detail::call([&] {
            return ggml_backend_sched_new(streams.data(), nullptr, static_cast<int>(streams.size()),
                                          capacity, false, false);
        }));
        if (made.scheduler_ != nullptr) return made;
        return detail::last_failure(Errc::device, "there is no scheduler");
    }

    ggml_backend_sched_t scheduler() const { return scheduler_.get(); }
    ggml_backend_t stream(std::size_t i) const { return streams_[i].c(); }
    int splits() const { return ggml_backend_sched_get_n_splits(scheduler_.get()); }

    /// The memory for a layer: devices other than the processor take equal shares.
    ggml_backend_buffer_type_t memory_of(int layer, int layers) const {
        const std::size_t devices = std::max<std::size_t>(1, streams_.size() - 1);
        const std::size_t i =
            static_cast<std::size_t>(layer) * devices / static_cast<std::size_t>(layers);
        return ggml_backend_get_default_buffer_type(stream(i));
    }

    /// Seconds that placing, splitting and planning of a graph take, or finding it unchanged.
    Result<double> allocate(ggml_cgraph* graph) const {
        ggml_backend_sched_reset(scheduler());
        const double begin = thread_seconds();
        const bool done =
            detail::call([&] { return ggml_backend_sched_alloc_graph(scheduler(), graph); });
        const double took = thread_seconds() - begin;
        if (done) return took;
        return detail::last_failure(Errc::device, "the graph was not scheduled");
    }

private:
    Result<> add(const Device& device) {
        HEDDLE_TRY_ASSIGN(Stream stream, device.start());
        streams_.push_back(std::move(stream));
        return ok();
    }

    std::vector<Stream> streams_;
    ggml_backend_sched_ptr scheduler_;
};

struct Times {
    double first = 1e300, again = 1e300, elsewhere = 1e300;  ///< seconds per node
    int nodes = 0, splits = 0;
};

/// `build(arena, variant)`: variant 1 is another graph of about the same size.
template <class Build>
Result<Times> measure_scheduling(const Machine& machine, std::size_t capacity, int runs,
                                 const Build& build) {
    Arena here(capacity, capacity), there(capacity, capacity), other(capacity, capacity);
    ggml_cgraph* different = build(other, 1);
    Times times;
    const auto keep_least = [&](double& least, ggml_cgraph* graph) -> Result<> {
        HEDDLE_TRY_ASSIGN(const double took, machine.allocate(graph));
        least = std::min(least, took / times.nodes);
        return ok();
    };
    for (int i = 0; i < runs; ++i) {
        here.clear();
        ggml_cgraph* graph = build(here, 0);
        times.nodes = ggml_graph_n_nodes(graph);
        HEDDLE_TRY(machine.allocate(different));
        HEDDLE_TRY(keep_least(times.first, graph));
        here.clear();
        HEDDLE_TRY(keep_least(times.again, build(here, 0)));
        there.clear();
        HEDDLE_TRY(keep_least(times.elsewhere, build(there, 0)));
        times.splits = machine.splits();
    }
    return times;
}

class SchedBench {
public:
    explicit SchedBench(const SchedOptions& options)
        : quick_(options.quick), output_(options.output) {}

    Result<> run() {
        Progress progress("measuring", kinds_.size() * 2 * sizes().size() + 4);
        output_.start(report_, {"transformer", "2 SIM, CPU"});
        for (const auto& [name, devices] : kinds_) {
            if (!devices.empty() && !Device::find(devices)) {
                report_.add_note(name +
                                 ": left out, the plug-in for simulated devices is not there");
                continue;
            }
            for (const bool transformer : {false, true}) {
                Times smallest;
                for (const int nodes : sizes()) {
                    if (is_interrupted()) return ok();
                    progress.step(name);
                    HEDDLE_TRY_ASSIGN(const Times times, transformer
                                                             ? on_transformer(devices, nodes)
                                                             : on_chain(devices, nodes));
                    if (nodes == sizes().front()) smallest = times;
                    add(transformer ? "transformer" : "chain", name, times, smallest);
                }
            }
        }
        return submission(progress);
    }
    Report& report() { return report_; }

private:
    std::vector<int> sizes() const {
        return quick_ ? std::vector{300, 3'000} : std::vector{1'000, 10'000, 100'000};
    }
    int runs(int nodes) const { return quick_ ? 2 : nodes >= 100'000 ? 5 : 25; }

    Result<Times> on_chain(const std::string& devices, int nodes) const {
        const auto length = static_cast<std::size_t>(nodes);
        HEDDLE_TRY_ASSIGN(const Machine machine, Machine::make(devices, 1, length + 64));
        return measure_scheduling(
            machine, length + 64, runs(nodes), [&](Arena& arena, int variant) {
                return build_chain(arena, length - static_cast<std::size_t>(variant));
            });
    }

    Result<Times> on_transformer(const std::string& devices, int nodes) const {
        constexpr int kNodesPerLayer = 32;
        const int layers = std::max(2, nodes / kNodesPerLayer);
        const auto capacity = static_cast<std::size_t>(layers) * 48 + 64;
        HEDDLE_TRY_ASSIGN(const Machine machine, Machine::make(devices, 1, capacity));
        const auto home = [&](int i) { return machine.memory_of(i, layers); };
        const Model model({.layers = layers}, home, home);
        return measure_scheduling(machine, capacity, runs(nodes), [&](Arena& arena, int variant) {
            return TransformerBuilder(model, arena, capacity).build(layers - variant);
        });
    }

    /// What handing a split to a stream costs, where nodes take turns between two streams of the
    /// CPU and do next to nothing.
    Result<> submission(Progress& progress) {
        constexpr int kNodes = 1'000;
        HEDDLE_TRY_ASSIGN(const Machine machine, Machine::make("", 2, kNodes + 64));
        Arena arena(kNodes + 64, kNodes + 64);
        double together = 0;
        for (const int length : {kNodes, 10, 2, 1}) {
            if (is_interrupted()) break;
            progress.step("submission");
            arena.clear();
            ggml_cgraph* graph = build_chain(arena, kNodes);
            ggml_backend_sched_reset(machine.scheduler());
            for (int i = 0; i < kNodes; ++i) {
                ggml_backend_sched_set_tensor_backend(
                    machine.scheduler(), ggml_graph_node(graph, i),
                    machine.stream(static_cast<std::size_t>(i / length % 2)));
            }
            if (!detail::call(
                    [&] { return ggml_backend_sched_alloc_graph(machine.scheduler(), graph); })) {
                return detail::last_failure(Errc::device, "the graph was not scheduled");
            }
            HEDDLE_TRY_ASSIGN(const Seconds seconds, measure(Effort{quick_ ? 0.01 : 0.2, 5}, [&] {
                                  return detail::from(
                                      ggml_backend_sched_graph_compute(machine.scheduler(), graph));
                              }));
            const int splits = machine.splits();
            if (splits == 1) together = seconds.best;
            Report::Value each;
            if (splits > 1) each = (seconds.best - together) / (splits - 1);
            report_.add({fmt::format("turns of {}", length),
                         "2 CPU",
                         std::int64_t{kNodes},
                         std::int64_t{splits},
                         {},
                         {},
                         {},
                         {},
                         {},
                         seconds.best,
                         each});
        }
        return ok();
    }

    void add(const char* graph, const std::string& devices, const Times& times,
             const Times& smallest) {
        report_.add({graph,
                     devices,
                     std::int64_t{times.nodes},
                     std::int64_t{times.splits},
                     times.first,
                     times.again,
                     times.elsewhere,
                     times.first / smallest.first,
                     times.elsewhere / smallest.elsewhere,
                     {},
                     {}});
    }

    bool quick_;
    const Output& output_;
    std::vector<std::pair<std::string, std::string>> kinds_{{"CPU", ""},
                                                            {"2 SIM, CPU", "sim:devices=2,mem=4G"}};
    Report report_{"sched",
                   {{"graph", "graph", 0, 1, true},
                    {"devices", "devices", 0, 1, true},
                    {"nodes", "nodes"},
                    {"splits", "splits"},
                    {"first_seconds_per_node", "first ns", 1, 1e9},
                    {"again_seconds_per_node", "again ns", 1, 1e9},
                    {"elsewhere_seconds_per_node", "elsewhere ns", 1, 1e9},
                    {"growth_first", "growth", 2},
                    {"growth_elsewhere", "growth", 2},
                    {"run_seconds", "run us", 1, 1e6},
                    {"seconds_per_split", "split ns", 1, 1e9}}};
};

Result<> run(const SchedOptions& options) {
    HEDDLE_TRY(options.output.check());
    SchedBench bench(options);
    HEDDLE_TRY(bench.run());
    return options.output.show(bench.report());
}

}  // namespace

void add_sched(CLI::App& bench, int& status) {
    auto options = std::make_shared<SchedOptions>();
    CLI::App* command =
        bench.add_subcommand("sched", "What scheduling costs for each node, and each split");
    add_shared_flag(*command, shared::kQuick, options->quick);
    command->footer(
        "first: a graph that is new to the scheduler; again: the same one built again in the same\n"
        "memory; elsewhere: in other memory. growth: as a multiple of the smallest graph's.\n"
        "turns of N: two streams of the processor take turns after N nodes that do next to "
        "nothing.");
    options->output.add_options(*command, false);
    command->callback(
        [options, &status] { status = report_outcome("bench sched", run(*options)); });
}

}  // namespace heddle::tool::bench
