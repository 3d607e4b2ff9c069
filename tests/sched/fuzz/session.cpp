#include "session.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "ggml-cpu.h"
#include "golden/compare.hpp"
#include "heddle/heddle.h"
#include "heddle/sched.h"
#include "heddle/sim.h"
#include "side.hpp"

namespace heddle::fuzz {
namespace {

/// A graph as the caller left it.
class Snapshot {
public:
    explicit Snapshot(const Graph& graph) : graph_(graph) {
        for (const auto list : {nodes_of(graph), leafs_of(graph)}) {
            for (Tensor* tensor : list) tensors_.emplace_back(tensor, *tensor);
        }
    }

    /// What has changed but for memory; empty if nothing has.
    std::string difference() const {
        std::size_t i = 0;
        for (const auto list : {nodes_of(graph_), leafs_of(graph_)}) {
            for (Tensor* tensor : list) {
                if (i == tensors_.size()) return "there are more nodes or leafs than before";
                const auto& [address, was] = tensors_[i++];
                if (tensor != address) return text("another node is where '", was.name, "' was");
                Tensor now = *tensor;
                now.buffer = was.buffer, now.data = was.data, now.extra = was.extra;
                if (std::memcmp(&now, &was, sizeof now) != 0) {
                    return text("the caller's '", was.name, "' is not as it was");
                }
            }
        }
        return i == tensors_.size() ? "" : "there are fewer nodes or leafs than before";
    }

private:
    const Graph& graph_;
    std::vector<std::pair<Tensor*, Tensor>> tensors_;
};

/// Asks to see about every third node.
bool look(Tensor* node, bool ask, void*) {
    return !ask || std::hash<std::string_view>{}(node->name) % 3 == 0;
}

/// The streams of a case and their scheduler.
class Machine {
public:
    Machine(const Case& which, const World& world) : case_(which), world_(world) {
        for (const int device : which.devices) add(world.device(device));
        if (which.blas) add(World::blas());
        streams_.emplace_back(ggml_backend_cpu_init());
        ggml_backend_cpu_set_n_threads(streams_.back().get(), which.threads);
        std::vector<ggml_backend_t> handles;
        for (const OwnedStream& stream : streams_) handles.push_back(stream.get());
        scheduler_.reset(ggml_backend_sched_new(handles.data(), nullptr,
                                                static_cast<int>(handles.size()), 2048,
                                                which.slots > 1, which.offload));
        if (scheduler_ != nullptr) adjust();
    }

    ggml_backend_sched_t scheduler() const { return scheduler_.get(); }
    ggml_backend_t stream(int device) const {
        return device == kHost ? streams_.back().get()
                               : streams_[static_cast<std::size_t>(device)].get();
    }
    ggml_backend_buffer_type_t memory(int device) const {
        if (device == kForeign) return foreign_memory();
        return ggml_backend_get_default_buffer_type(stream(device));
    }

    /// Lets a simulated device fail; with no fault, everything works again.
    bool fail(const Fault& fault) const {
        static const auto set = reinterpret_cast<heddle_sim_fail_t>(
            ggml_backend_reg_get_proc_address(ggml_backend_sim_reg(), "heddle_sim_fail"));
        constexpr const char* kWords[] = {"", "alloc=", "copy=", "node=", "lost="};
        const int number = case_.devices[static_cast<std::size_t>(fault.device)];
        if (!world_.is_simulated(number)) return true;
        std::string plan = kWords[static_cast<int>(fault.kind)];
        if (!plan.empty()) plan += std::to_string(fault.number);
        if (fault.kind == Fault::Kind::lost) plan += "us";
        return set(world_.device(number), plan.c_str());
    }

private:
    /// Of a device that is not in the case.
    ggml_backend_buffer_type_t foreign_memory() const {
        for (int number = 0; number < static_cast<int>(world_.size()); ++number) {
            if (!std::ranges::count(case_.devices, number)) {
                return ggml_backend_dev_buffer_type(world_.device(number));
            }
        }
        return ggml_backend_cpu_buffer_type();
    }

    void add(ggml_backend_dev_t device) {
        streams_.emplace_back(ggml_backend_dev_init(device, nullptr));
    }
    void adjust() {
        heddle_sched_set_hazard_check(scheduler(), case_.checked);
        heddle_sched_set_tracing(scheduler(), case_.tracing);
        heddle_sched_set_synchronous(scheduler(), case_.synchronous);
        if (case_.slots > 1) heddle_sched_set_n_copies(scheduler(), case_.slots);
        if (case_.by_cost) {
            heddle_sched_set_cost_file(scheduler(), case_.cost_file.c_str());
            heddle_sched_set_policy(scheduler(), HEDDLE_SCHED_POLICY_COST);
        }
        for (std::size_t i = 0; i < case_.devices.size() && case_.budget > 0; ++i) {
            heddle_sched_set_budget(scheduler(), streams_[i].get(), case_.budget);
        }
        if (case_.observed) ggml_backend_sched_set_eval_callback(scheduler(), look, nullptr);
    }

    const Case& case_;
    const World& world_;
    std::vector<OwnedStream> streams_;
    OwnedScheduler scheduler_;
};

/// The case under way, on both sides.
class Session {
public:
    Session(const Case& which, const World& world, Work& work)
        : case_(which),
          work_(work),
          machine_(which, world),
          scheduled_(which, [this](int device) { return machine_.memory(device); }),
          plain_(which, [](int) { return ggml_backend_cpu_buffer_type(); }),
          plain_stream_(ggml_backend_cpu_init()) {
        ggml_backend_cpu_set_n_threads(plain_stream_.get(), 1);
        graphs_.resize(which.graphs.size());
    }
    ~Session() {
        if (scheduler() == nullptr) return;
        ggml_backend_sched_synchronize(scheduler());
        const heddle_sched_counts counts = counted();
        work_.runs += counts.runs, work_.reused += counts.reused;
        work_.copies += counts.copies_made, work_.skipped += counts.copies_skipped;
    }

    std::string run() {
        if (scheduler() == nullptr) return text("no scheduler: ", heddle_last_error());
        for (std::size_t i = 0; i < case_.runs.size(); ++i) {
            const Run& run = case_.runs[i];
            const std::string wrong = take(run);
            if (wrong.empty()) continue;
            // Budgets are made up without a look at the graph: that it needs more is no failure.
            const auto says = [&](const char* words) { return wrong.find(words) != wrong.npos; };
            const bool is_over_budget =
                case_.budget > 0 && (says("are allowed") || says("within the budgets"));
            // Moments of an optimiser are not carried to a device that can take the step.
            if (is_over_budget || says("which is not in its memory")) {
                ++work_.refused;
                return {};
            }
            const auto& build = graphs_[static_cast<std::size_t>(run.graph)].plain;
            return text("run ", i, ": ", wrong, "\ngraph ", run.graph, ":\n",
                        build != nullptr ? to_text(*build->graph) : "");
        }
        return {};
    }

private:
    struct Pair {
        std::unique_ptr<Build> scheduled, plain;
        OwnedBuffer plain_memory;
    };

    ggml_backend_sched_t scheduler() const { return machine_.scheduler(); }
    heddle_sched_counts counted() const {
        heddle_sched_counts counts{};
        heddle_sched_get_counts(scheduler(), &counts, sizeof counts);
        return counts;
    }
    Pair& pair(int graph) { return graphs_[static_cast<std::size_t>(graph)]; }

    std::string take(const Run& run) {
        Pair& graph = pair(run.graph);
        if (run.new_weights && idle_) {
            scheduled_.fill_weights(run.graph, run.seed);
            plain_.fill_weights(run.graph, run.seed);
        }
        if (run.rebuild || graph.scheduled == nullptr || graph.scheduled->size != run.size) {
            if (!rebuild(run.graph, run.size))
                return text("cannot be built: ", heddle_last_error());
        }
        if (graph.scheduled->graph->n_nodes == 0) return {};
        if (run.fault.kind != Fault::Kind::none) {
            if (auto wrong = suffer(run, *graph.scheduled); !wrong.empty()) return wrong;
        }
        Snapshot before(*graph.scheduled->graph);
        if (allocated_ != graph.scheduled.get()) {
            if (auto wrong = allocate(*graph.scheduled, run); !wrong.empty()) return wrong;
        }
        scheduled_.fill_inputs(*graph.scheduled, run.seed, idle_);
        const ggml_status status =
            ggml_backend_sched_graph_compute_async(scheduler(), graph.scheduled->graph);
        if (status != GGML_STATUS_SUCCESS) return text("not computed: ", heddle_last_error());
        for (const Tensor* node : nodes_of(*graph.plain->graph)) ++work_.nodes[node->op];
        plain_.fill_inputs(*graph.plain, run.seed, idle_);
        if (ggml_backend_graph_compute(plain_stream_.get(), graph.plain->graph) !=
            GGML_STATUS_SUCCESS) {
            return text("the processor alone: ", heddle_last_error());
        }
        idle_ = false;
        if (run.wait || needs_waiting(run.graph)) {
            ggml_backend_sched_synchronize(scheduler());
            idle_ = true;
            retired_.clear();
            if (auto wrong = compare(run.graph); !wrong.empty()) return wrong;
        }
        return before.difference();
    }

    /// A run in which something fails. Whatever it was, there must be a sentence about it, and the
    /// graph must run right afterwards.
    std::string suffer(const Run& run, Build& build) {
        ggml_backend_sched_synchronize(scheduler());
        idle_ = true;
        retired_.clear();
        if (!machine_.fail(run.fault)) return text("no fault: ", heddle_last_error());
        heddle_clear_error();
        std::string failed = allocate(build, run);
        if (failed.empty()) {
            scheduled_.fill_inputs(build, run.seed, true);
            const ggml_status status = ggml_backend_sched_graph_compute(scheduler(), build.graph);
            if (status != GGML_STATUS_SUCCESS) failed = "not computed: ";
        }
        if (!failed.empty()) ++work_.faults;
        const bool is_silent = !failed.empty() && heddle_last_error()[0] == 0;
        machine_.fail({.device = run.fault.device});
        allocated_ = nullptr;
        scheduled_.restore(run.graph, plain_);
        return is_silent ? text("a fault without a sentence, ", failed) : "";
    }

    /// Memory of plain leafs is used again as soon as they have been read, so the caller must write
    /// them for each run, and nobody tells it when.
    bool needs_waiting(int graph) const {
        for (const Leaf& leaf : case_.graphs[static_cast<std::size_t>(graph)].leafs) {
            if (leaf.kind == Leaf::Kind::plain) return true;
        }
        return false;
    }

    bool rebuild(int number, int size) {
        Pair& graph = pair(number);
        // Devices may still be at work on the last one.
        if (graph.scheduled != nullptr) retired_.push_back(std::move(graph.scheduled));
        graph.scheduled = scheduled_.build(number, size);
        graph.plain = plain_.build(number, size);
        if (graph.scheduled == nullptr || graph.plain == nullptr) return false;
        graph.plain_memory.reset(ggml_backend_alloc_ctx_tensors_from_buft(
            graph.plain->context.get(), ggml_backend_cpu_buffer_type()));
        return true;
    }

    std::string allocate(Build& build, const Run& run) {
        allocated_ = nullptr;
        ggml_backend_sched_reset(scheduler());
        if (run.reserve) {
            pin(build);
            if (!ggml_backend_sched_reserve(scheduler(), build.graph)) {
                return text("not reserved: ", heddle_last_error());
            }
        }
        pin(build);
        const std::uint64_t reused = counted().reused;
        if (!ggml_backend_sched_alloc_graph(scheduler(), build.graph)) {
            return text("not allocated: ", heddle_last_error());
        }
        if (counted().reused > reused && build.size != planned_size_) ++work_.resized;
        planned_size_ = build.size;
        allocated_ = &build;
        work_.splits += static_cast<std::uint64_t>(ggml_backend_sched_get_n_splits(scheduler()));
        return {};
    }

    void pin(Build& build) {
        for (const auto& [step, node] : build.pinned) {
            ggml_backend_t stream = machine_.stream(step->pin);
            if (!ggml_backend_supports_op(stream, node)) continue;
            ggml_backend_sched_set_tensor_backend(scheduler(), node, stream);
        }
    }

    std::string compare(int number) {
        const Pair& graph = pair(number);
        for (std::size_t i = 0; i < graph.plain->outputs.size(); ++i) {
            auto wrong = compare(*graph.scheduled->outputs[i], *graph.plain->outputs[i]);
            if (!wrong.empty()) return wrong;
        }
        const auto kept = scheduled_.kept(number), expected = plain_.kept(number);
        for (std::size_t i = 0; i < kept.size(); ++i) {
            if (auto wrong = compare(*kept[i], *expected[i]); !wrong.empty()) return wrong;
        }
        return {};
    }

    /// All devices compute with the kernels of the processor, so that results are the same; sums
    /// may be taken in another order with more threads, and by another library.
    std::string compare(const Tensor& result, const Tensor& expected) {
        const auto bytes = bytes_of(result), wanted = bytes_of(expected);
        if (bytes == wanted) return {};
        // A product of block formats may be off by 5e-4, as golden cases allow, and graphs have
        // several of them.
        const double tolerance = !case_.rounds ? 1e-8 : case_.blas ? 1e-6 : 1e-2;
        const Extents extent = extents_of(expected);
        const auto compared = golden::compare(
            golden::Rule::nmse, tolerance, golden::Elements::dense(result.type, extent, bytes),
            golden::Elements::dense(expected.type, extent, wanted));
        if (!compared) return text("'", result.name, "': ", compared.error().message);
        if (compared->passed) return {};
        if (case_.rounds && is_all_rounding(result, bytes, wanted)) return {};
        return text("'", result.name, "' on ",
                    result.buffer != nullptr ? ggml_backend_buffer_name(result.buffer) : "nothing",
                    ": ", compared->what);
    }

    /// Gradients may cancel each other, and what is left then is no number but the last bits of
    /// others, which are near 1 here.
    static bool is_all_rounding(const Tensor& result, std::span<const std::byte> bytes,
                                std::span<const std::byte> wanted) {
        constexpr double kLastBits = 1e-6;
        if (result.type != GGML_TYPE_F32) return false;
        for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
            float value = 0, right = 0;
            std::memcpy(&value, bytes.data() + at, sizeof value);
            std::memcpy(&right, wanted.data() + at, sizeof right);
            if (!(std::abs(double{value} - right) <= kLastBits)) return false;
        }
        return true;
    }

    const Case& case_;
    Work& work_;
    Machine machine_;
    Side scheduled_, plain_;
    OwnedStream plain_stream_;
    std::vector<Pair> graphs_;
    std::vector<std::unique_ptr<Build>> retired_;  ///< until nothing is under way
    const Build* allocated_ = nullptr;
    int planned_size_ = 0;  ///< of the graph that was allocated last
    bool idle_ = true;      ///< nothing is under way
};

}  // namespace

std::string run_case(const Case& which, const World& world, Work& work) {
    return Session(which, world, work).run();
}

}  // namespace heddle::fuzz
