// A node as it was recorded, of any op, in memory that ends at unreadable pages; then a field or
// two rewritten, as a C program may do. Whatever the node says then: a status, or a result in its
// place.

#include <cstring>
#include <map>

#include "core/graph.hpp"
#include "ggml-cpu.h"
#include "ggml/ops_layout.h"
#include "golden/build_case.hpp"
#include "golden/compare.hpp"
#include "golden_cases.hpp"
#include "guarded_memory.hpp"
#include "heddle/heddle.h"
#include "impl/view_ops.h"
#include "machine.hpp"
#include "ops/catalogue.hpp"
#include "ops/check.hpp"
#include "rewrite.hpp"

namespace heddle::campaign {
namespace {

/// The memory that several tensors lie in.
struct Block {
    std::span<const std::byte> content;  ///< as recorded; empty for a tensor that was not a root
    std::size_t size = 0;                ///< what its tensors claim
    std::span<std::byte> bytes;
    fuzz::OwnedBuffer buffer;  ///< around them, where their end is to be known
};

class NodeCase {
public:
    NodeCase(Choices& choices, Trace& trace)
        : choices_(choices), trace_(trace), golden_(any_golden_case(choices)) {}

    std::string run() {
        trace_.line(golden_.name, ": ", golden_.description);
        auto context = golden::make_header_context(2 * golden_.sources.size() + 4, kCapacity);
        if (!context) return context.error().message;
        auto raw = golden::make_raw_node(golden_, **context);
        if (!raw) return raw.error().message;
        raw_ = &*raw;
        find_blocks();
        const int changes = choices_.pick({1, 0, 1, 2, 3});
        for (int i = 0; i < changes; ++i) rewrite_field(node(), choices_, trace_);
        context_ = context->get();
        graph_ = ggml_new_graph_custom(context_, kCapacity, false);
        if (graph_ == nullptr) return text("no graph: ", heddle_last_error());
        const bool through_scheduler = choices_.one_in(3);
        if (through_scheduler && choices_.one_in(12)) add_in_wrong_order();
        if (graph_->n_nodes == 0) add_to_graph();
        if (through_scheduler) return is_long_work() ? "" : run_scheduled();
        return run_on_processor(changes == 0);
    }

private:
    static constexpr std::size_t kCapacity = 32;

    /// A scheduler gives nodes the memory they ask for. Gigabytes, if there are as many, take
    /// longer to compute than a case may; what no machine has must be refused.
    bool is_long_work() {
        constexpr std::size_t kMost = std::size_t{1} << 28, kNoMachineHas = std::size_t{1} << 44;
        bool found = false;
        each_tensor([&](Tensor* tensor) {
            const std::size_t claimed = claimed_bytes(*tensor);
            found |= claimed > kMost && claimed < kNoMachineHas;
        });
        return found;
    }

    Tensor& node() { return *raw_->node; }

    static Tensor* root_of(Tensor* tensor) {
        return tensor->view_src != nullptr ? tensor->view_src : tensor;
    }

    template <class Function>
    void each_tensor(Function function) {
        function(raw_->node);
        for (Tensor* source : node().src) {
            if (source != nullptr) function(source);
        }
    }

    /// The roots there are, with what was recorded in them.
    void find_blocks() {
        each_tensor([&](Tensor* tensor) {
            Tensor* root = root_of(tensor);
            Block& block = blocks_[root];
            for (const golden::Storage& storage : raw_->sources) {
                if (root->data != nullptr && storage.bytes().data() == root->data) {
                    block.content = storage.bytes();
                }
            }
            if (root->data == raw_->own.bytes().data()) block.content = raw_->own.bytes();
        });
        result_root_ = root_of(raw_->node);
    }

    /// As large as the tensors in it say now, and at least as large as it was.
    void measure_blocks() {
        for (auto& [root, block] : blocks_) block.size = block.content.size();
        each_tensor([&](Tensor* tensor) {
            Block& block = blocks_[root_of(tensor)];
            const std::size_t offset = tensor->view_src != nullptr ? tensor->view_offs : 0;
            const std::size_t claimed = claimed_bytes(*tensor);
            const bool fits = offset < kEndless && claimed < kEndless;
            block.size = fits ? std::max(block.size, offset + claimed) : kEndless;
        });
    }

    /// Tensors whose memory cannot be had get none. In buffers they get what they had when they
    /// were recorded, whatever they claim: who knows the buffer can see that it is not enough. What
    /// had none gets none then: where a tensor has an address and no buffer, only the caller can
    /// know how much memory is there.
    void place(bool in_buffers) {
        GuardedMemory& memory = guarded_memory();
        memory.reset();
        measure_blocks();
        const bool at_end = !choices_.one_in(4);
        constexpr std::size_t kBufferAlignment = 64;
        for (auto& [root, block] : blocks_) {
            if (in_buffers) block.size = block.content.size();
            std::byte* begin =
                in_buffers && block.size == 0
                    ? nullptr
                    : memory.take(block.size, in_buffers ? kBufferAlignment : 8, at_end);
            block.bytes = {begin, begin != nullptr ? block.size : 0};
            root->data = begin;
            if (begin == nullptr) continue;
            const std::size_t n = std::min(block.content.size(), block.size);
            if (n > 0) std::memcpy(begin, block.content.data(), n);
            std::memset(begin + n, 0, block.size - n);
            if (!in_buffers) continue;
            block.buffer.reset(ggml_backend_cpu_buffer_from_ptr(begin, block.size));
            root->buffer = block.buffer.get();
        }
        each_tensor([&](Tensor* tensor) {
            if (tensor->view_src == nullptr) return;
            auto* begin = static_cast<std::byte*>(tensor->view_src->data);
            tensor->data = begin != nullptr ? begin + tensor->view_offs : nullptr;
            tensor->buffer = tensor->view_src->buffer;
        });
        if (in_buffers && choices_.one_in(4)) move_data();
    }

    /// Somewhere else than it was placed, which may be outside its buffer.
    void move_data() {
        const std::uint32_t slot = choices_.below(kMaxSources + 1);
        Tensor* tensor = slot > 0 ? node().src[slot - 1] : raw_->node;
        if (tensor == nullptr || tensor->buffer == nullptr) return;
        const std::int64_t step = other_value(0, choices_);
        const auto address = reinterpret_cast<std::uintptr_t>(tensor->data);
        tensor->data = reinterpret_cast<void*>(address + static_cast<std::uintptr_t>(step));
        is_moved_ = true;
        trace_.line(slot > 0 ? text("src", slot - 1) : "node", "->data moved by ", step);
    }

    /// A copy of the node, which is returned, reads it before it is computed.
    Tensor* add_in_wrong_order() {
        Tensor* reader = ggml_dup(context_, raw_->node);
        if (reader == nullptr) return nullptr;
        reader->flags |= GGML_TENSOR_FLAG_COMPUTE;
        graph_->n_nodes = 0;
        trace_.line("before the node, a copy of its result");
        graph_->nodes[graph_->n_nodes++] = reader;
        graph_->nodes[graph_->n_nodes++] = raw_->node;
        senseless_ = "a result was read before it was computed";
        return reader;
    }

    /// Views and plain tensors have no result of their own, and may stand anywhere in a list.
    bool computes() { return !ggml_op_is_empty(node().op) && !is_empty(node()); }

    /// Of sources that the op has no use for nothing is read.
    bool reads_itself() {
        const OpInfo* const op = find_op(node().op);
        for (std::size_t slot = 0; op != nullptr && slot < op->sources.size(); ++slot) {
            if (node().src[slot] == raw_->node && !may_be_itself(node().op, slot)) return true;
        }
        return false;
    }

    void add_to_graph() {
        if (choices_.one_in(2)) {
            graph_->nodes[graph_->n_nodes++] = raw_->node;
            return;
        }
        ggml_build_forward_expand(graph_, raw_->node);
    }

    std::string run_on_processor(bool as_recorded) {
        place(choices_.one_in(3));
        ggml_backend_t cpu = Machine::shared().cpu();
        ggml_backend_cpu_set_n_threads(cpu, choices_.pick({1, 1, 1, 2}));
        const bool supported = ggml_backend_supports_op(cpu, raw_->node);
        trace_.line("supported by the processor: ", supported);
        if (choices_.one_in(12)) {
            if (Tensor* reader = add_in_wrong_order(); reader != nullptr) {
                reader->data = guarded_memory().take(claimed_bytes(*reader), 8, true);
            }
        }
        const ggml_status status = ggml_backend_graph_compute(cpu, graph_);
        trace_.line("status ", static_cast<int>(status), ": ", heddle_last_error());
        if (status != GGML_STATUS_SUCCESS) return complain_if_silent();
        if (reads_itself()) senseless_ = "a node read its own result";
        if (computes() && !senseless_.empty()) return senseless_;
        if (!as_recorded || is_moved_ || !supported) return {};
        const auto compared = golden::compare_result(golden_, blocks_[result_root_].bytes);
        if (!compared) return compared.error().message;
        return compared->passed ? "" : text(ggml_op_name(node().op), ": ", compared->what);
    }

    std::string run_scheduled() {
        const Machine& machine = Machine::shared();
        each_tensor([&](Tensor* tensor) { tensor->data = root_of(tensor)->data = nullptr; });
        trace_.line("supported by sim: ", ggml_backend_supports_op(machine.sim(), raw_->node));
        ggml_backend_sched_reset(machine.scheduler());
        bool done = ggml_backend_sched_alloc_graph(machine.scheduler(), graph_);
        trace_.line("allocated: ", done, " ", heddle_last_error());
        if (done) {
            for (auto& [root, block] : blocks_) write(*root, block);
            const ggml_status status =
                ggml_backend_sched_graph_compute(machine.scheduler(), graph_);
            trace_.line("status ", static_cast<int>(status), ": ", heddle_last_error());
            done = status == GGML_STATUS_SUCCESS;
        }
        if (reads_itself()) senseless_ = "a node read its own result";
        if (done && computes() && !senseless_.empty()) return senseless_;
        const std::string silent = done ? "" : complain_if_silent();
        if (!silent.empty() || !choices_.one_in(4)) return silent;
        return machine.check_scheduler();
    }

    /// What was recorded, as much of it as there is room for.
    static void write(Tensor& root, const Block& block) {
        if (root.buffer == nullptr || root.data == nullptr) return;
        const std::size_t size = std::min(block.content.size(), claimed_bytes(root));
        if (size > 0) ggml_backend_tensor_set(&root, block.content.data(), 0, size);
    }

    /// Who refuses says why.
    static std::string complain_if_silent() {
        return heddle_last_error()[0] == 0 ? "refused without a word" : "";
    }

    Choices& choices_;
    Trace& trace_;
    const golden::OpCase& golden_;
    golden::RawCase* raw_ = nullptr;
    ggml_context* context_ = nullptr;
    Graph* graph_ = nullptr;
    Tensor* result_root_ = nullptr;
    bool is_moved_ = false;
    std::string senseless_;  ///< what a graph does that must be refused
    std::map<Tensor*, Block> blocks_;
};

}  // namespace

std::string run_nodes(Choices& choices, Trace& trace) {
    heddle_clear_error();
    return NodeCase(choices, trace).run();
}

}  // namespace heddle::campaign
