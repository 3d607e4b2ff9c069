#include "backends/cuda/trace.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace heddle::cuda {
namespace {

constexpr std::size_t kMostRecords = 64;

using Numbers = std::unordered_map<const Tensor*, int>;

Numbers numbers_of(ggml_cgraph& graph) {
    Numbers numbers;
    for (int i = 0; i < ggml_graph_n_nodes(&graph); ++i) {
        numbers.emplace(ggml_graph_node(&graph, i), i);
    }
    return numbers;
}

int first_of(const Step& step, const Numbers& numbers) {
    int first = std::numeric_limits<int>::max();
    for (const Tensor* node : step.nodes()) first = std::min(first, numbers.at(node));
    return first;
}

}  // namespace

Result<> find_fused(const Board& board, ggml_cgraph& graph, std::span<int> with) {
    HEDDLE_TRY_ASSIGN(const Plan plan, Plan::make(board, graph, Plan::Memory::not_asked));
    const Numbers numbers = numbers_of(graph);
    for (std::size_t i = 0; i < with.size(); ++i) with[i] = static_cast<int>(i);
    for (const Step& step : plan.steps) {
        const int first = first_of(step, numbers);
        for (const Tensor* node : step.nodes()) {
            with[static_cast<std::size_t>(numbers.at(node))] = first;
        }
    }
    return ok();
}

Result<Trace::Record> Trace::begin(const Plan& plan, ggml_cgraph& graph, cudaStream_t stream) {
    Record record;
    const Numbers numbers = numbers_of(graph);
    record.nodes = numbers.size();
    for (const Step& step : plan.steps) record.first.push_back(first_of(step, numbers));
    HEDDLE_TRY(mark(record, stream));
    return record;
}

Result<> Trace::mark(Record& record, cudaStream_t stream) {
    cudaEvent_t made = nullptr;
    HEDDLE_TRY(check(take([&] { return cudaEventCreate(&made); }), "making an event"));
    record.marks.emplace_back(made);
    return check(order([&] { return cudaEventRecord(made, stream); }), "recording an event");
}

void Trace::keep(Record record) {
    records_.push_front(std::move(record));
    if (records_.size() > kMostRecords) records_.pop_back();
}

bool Trace::times(std::size_t back, std::span<double> seconds) const {
    if (back >= records_.size() || records_[back].nodes != seconds.size()) return false;
    const Record& record = records_[back];
    std::ranges::fill(seconds, 0.0);
    for (std::size_t i = 0; i < record.first.size(); ++i) {
        float milliseconds = 0;
        if (cudaEventElapsedTime(&milliseconds, record.marks[i].get(), record.marks[i + 1].get()) !=
            cudaSuccess) {
            cudaGetLastError();
            return false;
        }
        seconds[static_cast<std::size_t>(record.first[i])] += 1e-3 * double{milliseconds};
    }
    return true;
}

}  // namespace heddle::cuda
