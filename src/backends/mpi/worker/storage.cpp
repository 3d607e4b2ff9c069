#include "backends/mpi/worker/storage.hpp"

#include <algorithm>

#include "heddle/backend/device.hpp"
#include "heddle/backend/nodes.hpp"
#include "heddle/heddle.h"
#include "ops/catalogue.hpp"

namespace heddle::mpi {
namespace {

template <class Function>
Function function_of(ggml_backend_dev_t device, const char* name) {
    return reinterpret_cast<Function>(
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), name));
}

}  // namespace

// ---- devices -----------------------------------------------------------------------------------

ServedDevice::ServedDevice(ggml_backend_dev_t device, std::size_t budget)
    : device_(device), budget_(budget) {
    types_.push_back(ggml_backend_dev_buffer_type(device));
    const auto get_more =
        function_of<ggml_backend_dev_get_extra_bufts_t>(device, "ggml_backend_dev_get_extra_bufts");
    auto* more = get_more != nullptr ? get_more(device) : nullptr;
    for (; more != nullptr && *more != nullptr && types_.size() < kMostBufferTypes; ++more) {
        types_.push_back(*more);
    }
    for (const ggml_backend_buffer_type_t type : types_) {
        dummies_.emplace_back(ggml_backend_buft_alloc_buffer(type, 0));
    }
}

plugin::MemoryAmount ServedDevice::memory() const {
    plugin::MemoryAmount amount;
    ggml_backend_dev_memory(device_, &amount.free, &amount.total);
    if (budget_ > 0) {
        amount.total = std::min(amount.total, budget_);
        amount.free = std::min(amount.free, budget_ - std::min(budget_, used_.load()));
    }
    return amount;
}

Result<> ServedDevice::take(std::size_t bytes) {
    const std::size_t used = used_;
    if (budget_ > 0 && bytes > budget_ - std::min(budget_, used)) {
        return failure(Errc::out_of_memory, ggml_backend_dev_name(device_), ": ", bytes,
                       " bytes are more than is left of its budget of ", budget_, ", of which ",
                       used, " are taken");
    }
    used_ += bytes;
    return ok();
}

DeviceFacts ServedDevice::facts() const {
    ggml_backend_dev_props props{};
    ggml_backend_dev_get_props(device_, &props);
    DeviceFacts facts{
        props.name,    props.description, props.device_id != nullptr ? props.device_id : "",
        memory().free, memory().total,    {}};
    for (const ggml_backend_buffer_type_t type : types_) {
        const bool is_own = type == types_.front();
        facts.buffer_types.push_back({ggml_backend_buft_name(type),
                                      ggml_backend_buft_get_alignment(type),
                                      ggml_backend_buft_get_max_size(type),
                                      type->iface.get_alloc_size != nullptr, !is_own, is_own});
    }
    return facts;
}

std::vector<Tensor> ServedDevice::as_tensors(const std::vector<Record>& records) const {
    std::vector<Tensor> tensors;
    tensors.reserve(records.size());  // keep their addresses
    for (const Record& record : records) {
        Tensor& tensor = tensors.emplace_back(record.tensor);
        for (std::size_t i = 0; i < record.sources.size(); ++i) {
            if (record.sources[i] >= 0) {
                tensor.src[i] = &tensors[static_cast<std::size_t>(record.sources[i])];
            }
        }
        if (record.memory > 0 && record.memory <= dummies_.size()) {
            tensor.buffer = dummies_[record.memory - 1].get();
        }
    }
    return tensors;
}

std::string ServedDevice::objection(const Tensor& node) const {
    const auto ask = function_of<heddle_device_objection_t>(device_, HEDDLE_DEVICE_OBJECTION);
    if (ask != nullptr) return ask(device_, &node);
    return ggml_backend_dev_supports_op(device_, &node) ? "" : "does not support it";
}

std::string ServedDevice::objection(const std::vector<Record>& records) const {
    const std::vector<Tensor> tensors = as_tensors(records);
    if (!plugin::node_fault(tensors.back()).empty()) {
        return "it is not such a node as its op builds";
    }
    return objection(tensors.back());
}

std::size_t ServedDevice::size_of(std::size_t type, const std::vector<Record>& records) const {
    return ggml_backend_buft_get_alloc_size(types_[type], &as_tensors(records).back());
}

// ---- buffers -----------------------------------------------------------------------------------

void ServedBuffer::begin_load() {
    const std::lock_guard guard(lock_);
    ++loads_;
}

void ServedBuffer::end_load(const Result<>& outcome) {
    const std::lock_guard guard(lock_);
    --loads_;
    if (!outcome && !failure_) failure_ = outcome.error();
    changed_.notify_all();
}

Result<> ServedBuffer::wait_for_loads() {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return loads_ == 0; });
    if (failure_) return *failure_;
    return ok();
}

bool ServedBuffer::is_loaded_within(std::chrono::milliseconds time) {
    std::unique_lock guard(lock_);
    return changed_.wait_for(guard, time, [&] { return loads_ == 0; });
}

Result<> Buffers::add(std::uint32_t number, SharedBuffer buffer) {
    if (buffers_.try_emplace(number, std::move(buffer)).second) return ok();
    return failure(Errc::corrupt, "buffer ", number, " is there already");
}

Result<SharedBuffer> Buffers::find(std::uint32_t number) const {
    const auto found = buffers_.find(number);
    if (found != buffers_.end()) return found->second;
    return failure(Errc::corrupt, "there is no buffer ", number);
}

Result<Placed> place(const Record& record, const Buffers& buffers) {
    Placed placed{record.tensor, nullptr};
    HEDDLE_TRY_ASSIGN(placed.buffer, buffers.find(record.memory));
    const std::size_t size = ggml_backend_buffer_get_size(placed.buffer->c());
    const std::size_t bytes = byte_size(record.tensor);
    if (record.offset > size || bytes > size - record.offset) {
        return failure(Errc::corrupt, describe(record.tensor), " at offset ", record.offset,
                       " is not inside the buffer's ", size, " bytes");
    }
    placed.tensor.buffer = placed.buffer->c();
    placed.tensor.data =
        static_cast<std::byte*>(ggml_backend_buffer_get_base(placed.buffer->c())) + record.offset;
    return placed;
}

// ---- graphs ------------------------------------------------------------------------------------

Result<std::unique_ptr<ServedGraph>> ServedGraph::make(const GraphRecords& records,
                                                       const Buffers& buffers,
                                                       const Runner& runner) {
    auto made = std::make_unique<ServedGraph>();
    HEDDLE_TRY(made->build(records, buffers, runner.index));
    HEDDLE_TRY(made->check(runner.device));
    return made;
}

Result<> ServedGraph::build(const GraphRecords& records, const Buffers& buffers,
                            std::size_t device) {
    tensors_.reserve(records.records.size());  // keep their addresses
    const auto at = [&](std::int32_t i) { return &tensors_[static_cast<std::size_t>(i)]; };
    std::map<std::uint32_t, bool> known;
    for (const Record& record : records.records) {
        Tensor& tensor = tensors_.emplace_back(record.tensor);
        for (std::size_t i = 0; i < record.sources.size(); ++i) {
            if (record.sources[i] >= 0) tensor.src[i] = at(record.sources[i]);
        }
        if (record.view_of >= 0) tensor.view_src = at(record.view_of);
        if (record.memory == 0) continue;
        HEDDLE_TRY_ASSIGN(const Placed placed, place(record, buffers));
        if (placed.buffer->device() != device) {
            return failure(Errc::corrupt, describe(tensor), " is in memory of device ",
                           placed.buffer->device(), ", not of ", device);
        }
        tensor.buffer = placed.tensor.buffer;
        tensor.data = placed.tensor.data;
        if (known.try_emplace(record.memory, true).second) buffers_.push_back(placed.buffer);
        if (ggml_backend_buffer_init_tensor(tensor.buffer, &tensor) != GGML_STATUS_SUCCESS) {
            return failure(Errc::device, heddle_last_error());
        }
    }
    const std::size_t capacity = std::max(records.records.size(), records.nodes.size()) + 1;
    context_.reset(ggml_init({ggml_graph_overhead_custom(capacity, false) + 1024, nullptr, true}));
    graph_ = context_ ? ggml_new_graph_custom(context_.get(), capacity, false) : nullptr;
    if (graph_ == nullptr) return failure(Errc::out_of_memory, "no memory for a graph");
    for (const std::uint32_t node : records.nodes) {
        ggml_graph_add_node(graph_, at(static_cast<std::int32_t>(node)));
    }
    // Kernels are fused where results have one reader, which may be in another part of the graph.
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
        const std::size_t slot = ggml_hash_find_or_insert(&graph_->visited_hash_set, &tensors_[i]);
        graph_->use_counts[slot] = records.records[i].uses;
    }
    graph_->uid = ggml_graph_next_uid();
    return ok();
}

Result<> ServedGraph::check(const ServedDevice& device) const {
    for (const Tensor* node : nodes_of(*graph_)) {
        if (!plugin::wants_computing(*node)) continue;
        const std::string fault(plugin::node_fault(*node));
        if (!fault.empty()) return failure(Errc::corrupt, fault);
        const auto lacks_memory = [](const Tensor* tensor) {
            return tensor != nullptr && tensor->data == nullptr && !heddle::is_empty(*tensor);
        };
        if (lacks_memory(node) || std::ranges::any_of(node->src, lacks_memory)) {
            return failure(Errc::corrupt, "node ", describe(*node),
                           " or an operand of it has no memory");
        }
        const std::string reason = device.objection(*node);
        if (reason.empty()) continue;
        return failure(Errc::unsupported, "node ", describe(*node), ", ", describe_op_of(*node),
                       ": ", reason);
    }
    return ok();
}

Result<std::vector<SharedBuffer>> ServedGraph::hold() const {
    std::vector<SharedBuffer> held;
    for (const auto& each : buffers_) {
        held.push_back(each.lock());
        if (held.back() == nullptr) {
            return invalid("the graph reads or writes memory that was freed");
        }
    }
    return held;
}

}  // namespace heddle::mpi
