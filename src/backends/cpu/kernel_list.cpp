#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "backends/cpu/every_kernel.hpp"  // kEveryKernel, listed by the build
#include "backends/cpu/kernel.hpp"
#include "backends/cpu/repack/buffer_type.hpp"
#include "ggml/op_list.h"

namespace heddle::cpu {
namespace {

/// Every kernel, sorted by op; within an op by rank.
class KernelTable {
public:
    KernelTable() {
        for (const Kernel* kernel : kEveryKernel) by_op_[kernel->op].push_back(kernel);
        for (auto& kernels : by_op_) std::ranges::stable_sort(kernels, {}, &Kernel::rank);
    }

    std::span<const Kernel* const> of(Op op) const {
        const auto number = static_cast<std::size_t>(op);
        if (number >= by_op_.size()) return {};
        return by_op_[number];
    }

private:
    std::array<std::vector<const Kernel*>, GGML_OP_COUNT> by_op_;
};

/// A task should keep a thread busy for longer than it takes to wake it: a few microseconds.
constexpr double kBytesPerTask = 32 * 1024;
constexpr double kFlopsPerTask = 64 * 1024;

/// Bytes from the first to past the last element, nearly: `byte_size` without looking up the type,
/// because this is asked for every operand of every node.
double reach_of(const Tensor& t) {
    const auto along = [&](int d) { return static_cast<std::size_t>(t.ne[d]) * t.nb[d]; };
    return static_cast<double>(std::max({along(0), along(1), along(2), along(3)}));
}

}  // namespace

std::span<const Kernel* const> kernels_for(Op op) {
    static const KernelTable table;
    return table.of(op);
}

const Kernel* choose_kernel(const Tensor& node, Objections* why) {
    const auto decline = [&](std::string_view kernel, std::string_view reason) -> const Kernel* {
        if (why != nullptr) why->add(kernel, reason);
        return nullptr;
    };
    const auto is_there = [](const Tensor* source) {
        return source != nullptr && is_repacked(*source);
    };
    const bool repacked = is_there(node.src[0]);
    if (std::any_of(std::begin(node.src) + 1, std::end(node.src), is_there)) {
        return decline({}, "repacked weights can be operand 0 only");
    }
    bool was_asked = false;
    for (const Kernel* kernel : kernels_for(node.op)) {
        if (kernel->reads_repacked != repacked) continue;
        const std::string_view reason = kernel->objection(node);
        if (reason.empty()) return kernel;
        decline(kernel->name, reason);
        was_asked = true;
    }
    if (was_asked) return nullptr;
    return decline({}, repacked ? "only matrix products and GET_ROWS read repacked weights"
                                : "there is no kernel for this op");
}

int worthwhile_tasks(double bytes, double flops, std::int64_t pieces, int threads) {
    const double by_size = std::max(bytes / kBytesPerTask, flops / kFlopsPerTask);
    const auto most = static_cast<int>(std::min<double>(by_size, threads));
    return std::clamp<int>(most, 1, static_cast<int>(std::clamp<std::int64_t>(pieces, 1, threads)));
}

Demand rows_demand(const Tensor& node, int threads) {
    if (threads <= 1) return {};
    double bytes = reach_of(node);
    for (const Tensor* source : node.src) {
        if (source != nullptr) bytes += reach_of(*source);
    }
    return {.tasks = worthwhile_tasks(bytes, 0, row_count(node), threads)};
}

}  // namespace heddle::cpu
