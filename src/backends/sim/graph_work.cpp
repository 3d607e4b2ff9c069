#include "backends/sim/graph_work.hpp"

#include <algorithm>

#include "backends/sim/memory.hpp"
#include "ggml-cpu.h"
#include "ops/catalogue.hpp"

namespace heddle::sim {
namespace {

/// For a node with a single task, which has no other to wait for.
class SingleTask final : public cpu::Gate {
public:
    void sync() override {}
    void wait_for_prepared(std::int64_t, std::int64_t) override {}
    void fail(std::string message) override {
        if (message_.empty()) message_ = std::move(message);
    }
    const std::string& message() const { return message_; }

private:
    std::string message_;
};

}  // namespace

const cpu::Kernel* choose_kernel(const Parameters& parameters, const Tensor& node,
                                 Objections* why) {
    if (!parameters.ops.has(node)) {
        if (why != nullptr) why->add({}, "the op is not among those this device was given");
        return nullptr;
    }
    static const auto kernel_for = reinterpret_cast<cpu::KernelFor*>(
        ggml_backend_reg_get_proc_address(ggml_backend_cpu_reg(), cpu::kKernelForName));
    return kernel_for(node, why);
}

Result<Tensor*> GraphWork::copy_with_real_address(Board& board, const Tensor& tensor,
                                                  double& far_bytes) {
    Tensor copy = tensor;
    copy.buffer = nullptr;
    copy.view_src = nullptr;
    copy.extra = nullptr;
    if (!heddle::is_empty(tensor)) {
        const std::size_t size = byte_size(tensor);
        HEDDLE_TRY_ASSIGN(const Place place, place_of(tensor, 0, size));
        if (place.board != &board) {
            return invalid(describe(tensor), " is in memory of ", place.board->name);
        }
        copy.data = place.data;
        if (!place.on_device) far_bytes += static_cast<double>(size);
    }
    return &tensors_.emplace_back(copy);
}

Result<GraphWork::Step> GraphWork::prepare(Board& board, const Tensor& node) {
    Step step{nullptr, nullptr, 0};
    HEDDLE_TRY_ASSIGN(Tensor* const copy, copy_with_real_address(board, node, step.far_bytes));
    for (Tensor*& source : copy->src) {
        if (source == nullptr) continue;
        HEDDLE_TRY_ASSIGN(source, copy_with_real_address(board, *source, step.far_bytes));
    }
    step.node = copy;
    step.kernel = choose_kernel(board.parameters, *copy);
    if (step.kernel == nullptr) {
        Objections why;
        choose_kernel(board.parameters, *copy, &why);
        return failure(Errc::unsupported, "node ", describe(node), ", ", describe_op_of(node), ": ",
                       why.text_for(node));
    }
    if (step.kernel->demand != nullptr) {
        scratch_size_ = std::max(scratch_size_, step.kernel->demand(*copy, 1).scratch);
    }
    return step;
}

Result<> GraphWork::finish() {
    HEDDLE_TRY_ASSIGN(scratch_, scratch_memory_.reserve(scratch_size_));
    return ok();
}

Result<> GraphWork::run() const {
    for (const Step& step : steps_) {
        SingleTask gate;
        step.kernel->run(*step.node, {.scratch = scratch_, .gate = &gate});
        if (!gate.message().empty()) {
            return invalid("node ", describe(*step.node), ", ", describe_op_of(*step.node), ": ",
                           gate.message());
        }
    }
    return ok();
}

}  // namespace heddle::sim
