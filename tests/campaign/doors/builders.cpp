// Calls of builders with arguments that nobody thought of: those of a recorded case with some of
// them changed, or any. What is accepted is computed, with every tensor in memory that ends at an
// unreadable page.

#include <cmath>
#include <cstring>

#include "core/graph.hpp"
#include "ggml-cpu.h"
#include "golden/build_case.hpp"
#include "golden_cases.hpp"
#include "guarded_memory.hpp"
#include "heddle/heddle.h"
#include "machine.hpp"
#include "ops/catalogue.hpp"
#include "random_calls.hpp"
#include "rewrite.hpp"

namespace heddle::campaign {
namespace {

constexpr std::size_t kTensors = 128;
constexpr double kMostOperations = 2e9;  // of a case: few seconds of the slowest kernels

/// Contents of leafs, from one choice.
class Filler {
public:
    explicit Filler(Choices& choices)
        : state_(choices.below(1U << 16)), absurd_(choices.one_in(6)) {}

    std::vector<std::byte> content_of(const Tensor& tensor, std::size_t size) {
        std::vector<std::byte> bytes(size);
        switch (tensor.type) {
            case GGML_TYPE_F32:
                fill<float>(bytes, [this] { return real(); });
                break;
            case GGML_TYPE_F64:
                fill<double>(bytes, [this] { return double{real()}; });
                break;
            case GGML_TYPE_I32:
                fill<std::int32_t>(bytes, [this] { return static_cast<std::int32_t>(whole()); });
                break;
            case GGML_TYPE_I64:
                fill<std::int64_t>(bytes, [this] { return whole(); });
                break;
            default:  // any bits are a value of these
                fill<std::uint8_t>(bytes, [this] { return static_cast<std::uint8_t>(next()); });
        }
        return bytes;
    }

private:
    std::uint32_t next() {
        state_ = state_ * 6364136223846793005U + 1442695040888963407U;
        return static_cast<std::uint32_t>(state_ >> 40);
    }
    float real() {
        constexpr float kOdd[] = {0, -0.0F, 1e30F, -1e30F, 1e-40F, NAN, INFINITY, -INFINITY};
        if (absurd_ && next() % 4 == 0) return kOdd[next() % std::size(kOdd)];
        return static_cast<float>(next() % 2001) / 1000.0F - 1.0F;
    }
    /// Mostly the numbers of rows.
    std::int64_t whole() {
        constexpr std::int64_t kOdd[] = {-1, 4, 1000, INT32_MAX, INT32_MIN, INT64_MAX};
        if (absurd_ && next() % 4 == 0) return kOdd[next() % std::size(kOdd)];
        return next() % 3;
    }

    template <class T, class Make>
    static void fill(std::span<std::byte> bytes, Make make) {
        for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
            const T value = make();
            std::memcpy(bytes.data() + at, &value, sizeof value);
        }
    }

    std::uint64_t state_;
    bool absurd_;
};

class BuilderCase {
public:
    BuilderCase(Choices& choices, Trace& trace) : choices_(choices), trace_(trace) {}

    std::string run() {
        auto context = golden::make_header_context(kTensors, kTensors);
        if (!context) return context.error().message;
        Tensor* result = choices_.one_in(3) ? call_anything(**context, choices_, trace_)
                                            : call_almost_as_recorded(**context, choices_, trace_);
        if (result == nullptr) return {};
        trace_.line("accepted: ", describe(*result));
        graph_ = ggml_new_graph_custom(context->get(), kTensors, false);
        if (graph_ == nullptr) return {};  // the calls before have used the context up
        ggml_build_forward_expand(graph_, result);
        if (graph_->n_nodes == 0) return {};
        if (operations() > kMostOperations) return {};  // sound, and takes as long as it takes
        return choices_.one_in(4) ? run_scheduled() : run_on_processor();
    }

private:
    double operations() const {
        double sum = 0;
        for (const Tensor* node : nodes_of(*graph_)) sum += cost_of(*node).flops;
        return sum;
    }

    template <class Function>
    void each_tensor(Function function) {
        for (const auto list : {leafs_of(*graph_), nodes_of(*graph_)}) {
            for (Tensor* tensor : list) function(*tensor);
        }
    }

    /// False if there is not enough memory.
    bool place() {
        GuardedMemory& memory = guarded_memory();
        memory.reset();
        const bool at_end = !choices_.one_in(4);
        Filler filler(choices_);
        bool placed = true;
        each_tensor([&](Tensor& tensor) {
            if (tensor.view_src != nullptr) return;
            const std::size_t size = claimed_bytes(tensor);
            std::byte* begin = memory.take(size, 8, at_end);
            tensor.data = begin;
            placed &= begin != nullptr;
            if (begin == nullptr) return;
            const auto content = filler.content_of(tensor, size);
            if (size > 0) std::memcpy(begin, content.data(), size);
        });
        each_tensor([&](Tensor& tensor) {
            if (tensor.view_src == nullptr || tensor.view_src->data == nullptr) return;
            tensor.data = static_cast<std::byte*>(tensor.view_src->data) + tensor.view_offs;
        });
        return placed;
    }

    std::string run_on_processor() {
        if (!place()) return {};
        ggml_backend_t cpu = Machine::shared().cpu();
        ggml_backend_cpu_set_n_threads(cpu, choices_.pick({1, 1, 1, 2}));
        return judge(ggml_backend_graph_compute(cpu, graph_));
    }

    std::string run_scheduled() {
        const Machine& machine = Machine::shared();
        ggml_backend_sched_reset(machine.scheduler());
        if (!ggml_backend_sched_alloc_graph(machine.scheduler(), graph_)) {
            return judge(GGML_STATUS_FAILED);
        }
        Filler filler(choices_);
        for (Tensor* leaf : leafs_of(*graph_)) {
            if (leaf->buffer == nullptr || leaf->data == nullptr) continue;
            if (ggml_nbytes(leaf) > kLargestPiece) return {};  // takes too long to fill
            const auto content = filler.content_of(*leaf, ggml_nbytes(leaf));
            ggml_backend_tensor_set(leaf, content.data(), 0, content.size());
        }
        return judge(ggml_backend_sched_graph_compute(machine.scheduler(), graph_));
    }

    std::string judge(ggml_status status) {
        trace_.line("status ", static_cast<int>(status), ": ", heddle_last_error());
        const bool is_silent = status != GGML_STATUS_SUCCESS && heddle_last_error()[0] == 0;
        return is_silent ? "refused without a word" : "";
    }

    Choices& choices_;
    Trace& trace_;
    Graph* graph_ = nullptr;
};

}  // namespace

std::string run_builders(Choices& choices, Trace& trace) {
    heddle_clear_error();
    return BuilderCase(choices, trace).run();
}

}  // namespace heddle::campaign
