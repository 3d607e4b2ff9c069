/// One graph over several devices. Part of `heddle/heddle.hpp`.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../../ggml-cpp.h"
#include "../sched.h"
#include "device.hpp"
#include "graph.hpp"

namespace heddle::api {

/// Runs graphs over streams of its own on the devices it is given.
///
/// The tensors of a graph get memory of the scheduler that allocates it, which must outlive their
/// use; another scheduler needs a graph of its own.
class Scheduler {
public:
    enum class Policy {
        automatic,  ///< rules for graphs with weights, cost for those without
        rules,      ///< memory and weights decide
        cost,       ///< predicted time decides
    };
    struct Options {
        int threads = 0;      ///< of the processor; 0: one for each core
        int slots = 1;        ///< runs that may be under way at a time
        bool offload = true;  ///< weights on the host may be copied to devices that ask for them
        Policy policy = Policy::automatic;
        std::size_t graph_size = GGML_DEFAULT_GRAPH_SIZE;  ///< a hint
        /// Where measured costs are kept between programs; "" nowhere, left out: a file of the
        /// user.
        std::optional<std::string> cost_file = std::nullopt;
    };

    /// Over the devices given, most preferred first, and the processor behind them; over all there
    /// are if none is given.
    static Result<Scheduler> make(std::vector<Device> devices, const Options& options);
    static Result<Scheduler> make(std::vector<Device> devices = {}) {
        return make(std::move(devices), Options());
    }

    /// Gives the tensors of `graph` memory; now inputs can be written. What was allocated before is
    /// forgotten.
    Result<> allocate(const Graph& graph) {
        if (allocated_) reset();
        HEDDLE_TRY(choose_policy(graph));
        if (detail::call([&] { return ggml_backend_sched_alloc_graph(c(), graph.c()); })) {
            allocated_ = true;
            return ok();
        }
        return detail::last_failure(Errc::out_of_memory, "no memory for the graph");
    }

    /// Gets memory for graphs up to this one.
    Result<> reserve(const Graph& graph) {
        HEDDLE_TRY(choose_policy(graph));
        if (detail::call([&] { return ggml_backend_sched_reserve(c(), graph.c()); })) return ok();
        return detail::last_failure(Errc::out_of_memory, "no memory for the graph");
    }

    /// Computes and waits.
    Result<> compute(const Graph& graph) {
        return detail::from(
            detail::call([&] { return ggml_backend_sched_graph_compute(c(), graph.c()); }));
    }
    /// Computes; done when `wait` returns.
    Result<> compute_async(const Graph& graph) {
        return detail::from(
            detail::call([&] { return ggml_backend_sched_graph_compute_async(c(), graph.c()); }));
    }
    Result<> wait() {
        detail::call([&] {
            ggml_backend_sched_synchronize(c());
            return 0;
        });
        return detail::check_said(Errc::device);
    }
    /// Forgets the graph. Its memory, and what is in it, stays until the next one is allocated.
    void reset() {
        ggml_backend_sched_reset(c());
        allocated_ = false;
    }

    /// Has `tensor` computed on `device` in the graph that is allocated next.
    Result<> pin(const Tensor& tensor, const Device& device) {
        if (!tensor) return invalid("pinning a tensor that could not be built");
        if (allocated_) reset();
        for (const Stream& stream : streams_) {
            if (stream.device() != device) continue;
            ggml_backend_sched_set_tensor_backend(c(), tensor.c(), stream.c());
            return ok();
        }
        return not_ours("a place on ", device);
    }

    Result<> set_budget(const Device& device, std::size_t bytes) {
        for (const Stream& stream : streams_) {
            if (stream.device() != device) continue;
            if (detail::call([&] { return heddle_sched_set_budget(c(), stream.c(), bytes); })) {
                return ok();
            }
            return detail::last_failure(Errc::invalid_argument, "the budget cannot be set");
        }
        return not_ours("a budget for ", device);
    }
    void set_tracing(bool on) { heddle_sched_set_tracing(c(), on); }

    /// The schedule of the last graph, to look at.
    Result<std::string> explain(heddle_explain_format format = HEDDLE_EXPLAIN_TEXT) {
        const char* text = detail::call([&] { return heddle_sched_explain(c(), format); });
        if (text != nullptr) return std::string(text);
        return detail::last_failure(Errc::invalid_argument, "no graph was scheduled yet");
    }

    /// Where a tensor of the last graph runs or lies; empty if the scheduler does not know it.
    std::string place_of(const Tensor& tensor) const {
        if (!tensor) return {};
        ggml_backend_t stream = ggml_backend_sched_get_tensor_backend(c(), tensor.c());
        return stream != nullptr ? ggml_backend_name(stream) : "";
    }
    /// How often things happened since the scheduler was made.
    heddle_sched_counts counts() const {
        heddle_sched_counts counts{};
        heddle_sched_get_counts(c(), &counts, sizeof counts);
        return counts;
    }
    /// Devices that failed, and that graphs are planned without until they work again.
    std::vector<Device> left_out() const {
        std::vector<Device> devices;
        for (const Stream& stream : streams_) {
            if (heddle_sched_is_left_out(c(), stream.c())) devices.push_back(stream.device());
        }
        return devices;
    }
    int splits() const { return ggml_backend_sched_get_n_splits(c()); }
    std::size_t memory(const Stream& stream) const {
        return ggml_backend_sched_get_buffer_size(c(), stream.c());
    }
    std::span<const Stream> streams() const { return streams_; }
    Policy policy() const { return policy_; }  ///< as it was asked for
    ggml_backend_sched_t c() const { return scheduler_.get(); }

private:
    Scheduler(std::vector<Stream> streams, ggml_backend_sched_t scheduler, Policy policy)
        : streams_(std::move(streams)), scheduler_(scheduler), policy_(policy) {}

    static Error not_ours(const char* what, const Device& device) {
        return failure(Errc::not_found, what, device.name(),
                       ", which is not one of the scheduler's devices");
    }

    /// Graphs that read weights follow them; others go where they are fastest.
    Result<> choose_policy(const Graph& graph) {
        if (policy_ != Policy::automatic) return ok();
        bool weights = false;
        for (int i = 0; i < graph.nodes() && !weights; ++i) {
            for (const ggml_tensor* source : ggml_graph_node(graph.c(), i)->src) {
                weights |= source != nullptr && source->buffer != nullptr;
            }
        }
        const auto policy =
            weights || streams_.size() == 1 ? HEDDLE_SCHED_POLICY_RULES : HEDDLE_SCHED_POLICY_COST;
        return set_policy(policy);
    }

    Result<> set_policy(heddle_sched_policy policy) {
        if (detail::call([&] { return heddle_sched_set_policy(c(), policy); })) return ok();
        return detail::last_failure(Errc::device, "costs could not be measured");
    }

    std::vector<Stream> streams_;  ///< outlive the scheduler
    ggml_backend_sched_ptr scheduler_;
    Policy policy_;
    bool allocated_ = false;
};

inline Result<Scheduler> Scheduler::make(std::vector<Device> devices, const Options& options) {
    HEDDLE_TRY_ASSIGN(const Device cpu, Device::cpu());
    if (devices.empty()) devices = Device::all();
    std::erase(devices, cpu);
    devices.push_back(cpu);
    std::vector<Stream> streams;
    std::vector<ggml_backend_t> raw;
    for (const Device& device : devices) {
        HEDDLE_TRY_ASSIGN(Stream stream, device.start());
        if (options.threads > 0) stream.set_threads(options.threads);
        raw.push_back(stream.c());
        streams.push_back(std::move(stream));
    }
    ggml_backend_sched_t made = detail::call([&] {
        return ggml_backend_sched_new(raw.data(), nullptr, static_cast<int>(raw.size()),
                                      options.graph_size, options.slots > 1, options.offload);
    });
    if (made == nullptr) return detail::last_failure(Errc::device, "no scheduler could be made");
    Scheduler scheduler(std::move(streams), made, options.policy);
    if (options.slots > 1 &&
        !detail::call([&] { return heddle_sched_set_n_copies(made, options.slots); })) {
        return detail::last_failure(Errc::invalid_argument, "so many slots cannot be had");
    }
    if (options.cost_file && !detail::call([&] {
            return heddle_sched_set_cost_file(made, options.cost_file->c_str());
        })) {
        return detail::last_failure(Errc::io, "the file of costs cannot be used");
    }
    if (options.policy == Policy::cost) HEDDLE_TRY(scheduler.set_policy(HEDDLE_SCHED_POLICY_COST));
    return scheduler;
}

}  // namespace heddle::api
