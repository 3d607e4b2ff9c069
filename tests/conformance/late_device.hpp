#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "ggml/op_list.h"
#include "heddle/backend.hpp"
#include "heddle/backend/nodes.hpp"

/// A device that makes full use of what it may rely on: each stream has a thread that looks at the
/// nodes it was given, at their sources, parameters and addresses, as late as it may.
namespace heddle::conformance {

/// Jobs of a stream, in their order, by a thread of its own.
class LateQueue {
public:
    using Ticket = std::uint64_t;

    /// When a job is begun: only when somebody waits for it, or as soon as the thread comes to it.
    static inline std::atomic<bool> waits_to_be_asked = true;

    LateQueue() : thread_([this] { work(); }) {}
    ~LateQueue() {
        {
            const std::lock_guard guard(lock_);
            stops_ = true;
            changed_.notify_all();
        }
        thread_.join();
    }
    LateQueue(const LateQueue&) = delete;
    LateQueue& operator=(const LateQueue&) = delete;

    Ticket push(std::function<void()> job) {
        const std::lock_guard guard(lock_);
        jobs_.push_back(std::move(job));
        changed_.notify_all();
        return ++pushed_;
    }
    void wait(Ticket ticket) {
        std::unique_lock guard(lock_);
        wanted_ = std::max(wanted_, ticket);
        changed_.notify_all();
        changed_.wait(guard, [&] { return done_ >= ticket; });
    }
    void wait_for_all() {
        std::unique_lock guard(lock_);
        const Ticket last = pushed_;
        guard.unlock();
        wait(last);
    }

private:
    void work() {
        std::unique_lock guard(lock_);
        while (true) {
            changed_.wait(guard, [&] {
                return stops_ || (!jobs_.empty() && (done_ < wanted_ || !waits_to_be_asked.load()));
            });
            if (jobs_.empty()) return;
            const std::function<void()> job = std::move(jobs_.front());
            jobs_.pop_front();
            guard.unlock();
            job();
            guard.lock();
            ++done_;
            changed_.notify_all();
        }
    }

    std::mutex lock_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> jobs_;
    Ticket pushed_ = 0, wanted_ = 0, done_ = 0;
    bool stops_ = false;
    std::thread thread_;  // last: it uses the others
};

class LateBuffer {
public:
    explicit LateBuffer(std::size_t size) : lines_((size + sizeof(Line) - 1) / sizeof(Line)) {}

    void* base() { return lines_.data(); }
    void write(std::size_t offset, std::span<const std::byte> bytes) {
        std::memcpy(at(offset), bytes.data(), bytes.size());
    }
    void read(std::size_t offset, std::span<std::byte> bytes) {
        std::memcpy(bytes.data(), at(offset), bytes.size());
    }
    void fill(std::size_t offset, std::size_t size, std::uint8_t value) {
        std::memset(at(offset), value, size);
    }

private:
    struct alignas(64) Line {
        std::byte bytes[64];
    };
    std::byte* at(std::size_t offset) {
        return reinterpret_cast<std::byte*>(lines_.data()) + offset;
    }

    std::vector<Line> lines_;
};

class LateMemory : public plugin::BufferType<LateMemory> {
public:
    explicit LateMemory(ggml_backend_dev_t device) : BufferType(device) {}

    const char* name() { return "Late"; }
    std::unique_ptr<LateBuffer> allocate(std::size_t size) {
        // The allocators of sanitizers and valgrind end the program instead.
        if (size > kMostBytes) throw std::bad_alloc();
        return std::make_unique<LateBuffer>(size);
    }

private:
    static constexpr std::size_t kMostBytes = std::size_t{1} << 40;
};

/// Reached when the job that records it is done; the last recording counts.
struct LateEvent {
    std::mutex lock;
    std::shared_ptr<LateQueue> queue;
    LateQueue::Ticket ticket = 0;

    std::function<void()> waiting() {
        const std::lock_guard guard(lock);
        if (queue == nullptr) return [] {};
        return [queue = queue, ticket = ticket] { queue->wait(ticket); };
    }
};

/// "Can you?" stands next to "do it": compute_node() relies on what this has let through.
inline std::string_view late_objection(const ggml_tensor& node) {
    if (node.op != GGML_OP_ADD && node.op != GGML_OP_MUL && node.op != GGML_OP_SCALE) {
        return "only ADD, MUL and SCALE run here";
    }
    for (const ggml_tensor* tensor : {&node, static_cast<const ggml_tensor*>(node.src[0]),
                                      static_cast<const ggml_tensor*>(node.src[1])}) {
        if (tensor == nullptr) continue;
        if (tensor->type != GGML_TYPE_F32) return "only F32 runs here";
        if (!ggml_is_contiguous(tensor)) return "tensors must be contiguous";
        if (!ggml_are_same_shape(tensor, &node)) return "operands must have the same extents";
    }
    return {};
}

class LateStream {
public:
    static inline ggml_guid guid = {0x8e, 0x21, 0x6c, 0xf0, 0x3b, 0x95, 0x47, 0xda,
                                    0xa4, 0x0c, 0x7d, 0xe3, 0x58, 0x12, 0xb9, 0x46};

    ~LateStream() { queue_->wait_for_all(); }

    static void compute_node(const ggml_tensor& node) {
        if (!plugin::wants_computing(node)) return;
        const auto* a = static_cast<const float*>(node.src[0]->data);
        auto* y = static_cast<float*>(node.data);
        const std::int64_t count = ggml_nelements(&node);
        if (node.op == GGML_OP_SCALE) {
            float factor = 0, bias = 0;
            std::memcpy(&factor, &node.op_params[0], sizeof factor);
            std::memcpy(&bias, &node.op_params[1], sizeof bias);
            for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] * factor + bias;
            return;
        }
        const auto* b = static_cast<const float*>(node.src[1]->data);
        for (std::int64_t i = 0; i < count; ++i) {
            y[i] = node.op == GGML_OP_ADD ? a[i] + b[i] : a[i] * b[i];
        }
    }

    /// The graph, its list and its nodes are looked at by the thread.
    Result<> compute(ggml_cgraph& graph) {
        const int count = ggml_graph_n_nodes(&graph);
        for (int i = 0; i < count; ++i) {
            const ggml_tensor& node = *ggml_graph_node(&graph, i);
            if (!plugin::wants_computing(node)) continue;
            const std::string_view reason = late_objection(node);
            if (!reason.empty()) return failure(Errc::unsupported, reason);
        }
        queue_->push([&graph, count] {
            for (int i = 0; i < count; ++i) compute_node(*ggml_graph_node(&graph, i));
        });
        return ok();
    }
    /// Only nodes stay; tensors of transfers may be gone when the call has returned.
    void write_async(ggml_tensor& tensor, std::size_t offset, std::span<const std::byte> bytes) {
        queue_->push([to = static_cast<std::byte*>(tensor.data) + offset, bytes] {
            std::memcpy(to, bytes.data(), bytes.size());
        });
    }
    void read_async(const ggml_tensor& tensor, std::size_t offset, std::span<std::byte> bytes) {
        queue_->push([from = static_cast<const std::byte*>(tensor.data) + offset, bytes] {
            std::memcpy(bytes.data(), from, bytes.size());
        });
    }
    void synchronize() { queue_->wait_for_all(); }
    void record(LateEvent& event) {
        const LateQueue::Ticket ticket = queue_->push([] {});
        const std::lock_guard guard(event.lock);
        event.queue = queue_;
        event.ticket = ticket;
    }
    void wait(LateEvent& event) {
        {
            const std::lock_guard guard(event.lock);
            if (event.queue == queue_) return;
        }
        queue_->push(event.waiting());
    }

private:
    std::shared_ptr<LateQueue> queue_ = std::make_shared<LateQueue>();
};

class LateDevice : public plugin::Device<LateDevice> {
public:
    explicit LateDevice(ggml_backend_reg_t registration)
        : Device(registration), memory_(handle()) {}

    const char* name() { return "LATE0"; }
    const char* description() { return "reads nodes as late as it may"; }
    plugin::DeviceType type() { return GGML_BACKEND_DEVICE_TYPE_GPU; }
    ggml_backend_buffer_type_t buffer_type() { return memory_.handle(); }
    std::string_view objection(const ggml_tensor& node) { return late_objection(node); }
    std::unique_ptr<LateStream> start(const char* /*params*/) {
        return std::make_unique<LateStream>();
    }
    std::unique_ptr<LateEvent> make_event() { return std::make_unique<LateEvent>(); }
    void wait(LateEvent& event) { event.waiting()(); }

private:
    LateMemory memory_;
};

class LateRegistration : public plugin::Registration<LateRegistration> {
public:
    const char* name() { return "Late"; }
    std::size_t device_count() { return 1; }
    ggml_backend_dev_t device(std::size_t /*index*/) { return device_.handle(); }

private:
    LateDevice device_{handle()};
};

inline ggml_backend_dev_t late_device() {
    return ggml_backend_reg_dev_get(plugin::registration<LateRegistration>(), 0);
}

}  // namespace heddle::conformance
