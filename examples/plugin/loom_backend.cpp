// A backend with what real devices have: memory that the host cannot read, a queue of work with a
// thread of its own, events, and a product of weights in a block format. plain_backend.cpp is the
// place to begin.
//
// The "device" is a thread. Where it copies or computes, a driver's call would stand.

#include <sys/mman.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "heddle/backend.hpp"

namespace {

using heddle::Errc;
using heddle::Result;
namespace plugin = heddle::plugin;

/// Memory of the device. Tensors get addresses that arithmetic works on and nobody can read: they
/// only say where in `bytes_` something lies. Offsets are checked before they get here.
class LoomBuffer {
public:
    explicit LoomBuffer(std::size_t size)
        : bytes_(size),
          size_(size),
          base_(mmap(nullptr, size + 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        if (base_ == MAP_FAILED) throw std::bad_alloc();
    }
    ~LoomBuffer() { munmap(base_, size_ + 1); }
    LoomBuffer(const LoomBuffer&) = delete;
    LoomBuffer& operator=(const LoomBuffer&) = delete;

    void* base() { return base_; }
    void write(std::size_t offset, std::span<const std::byte> bytes) {
        std::memcpy(bytes_.data() + offset, bytes.data(), bytes.size());
    }
    void read(std::size_t offset, std::span<std::byte> bytes) {
        std::memcpy(bytes.data(), bytes_.data() + offset, bytes.size());
    }
    void fill(std::size_t offset, std::size_t size, std::uint8_t value) {
        std::memset(bytes_.data() + offset, value, size);
    }

    std::byte* at(const void* address) {
        return bytes_.data() +
               (static_cast<const std::byte*>(address) - static_cast<std::byte*>(base_));
    }

private:
    std::vector<std::byte> bytes_;
    std::size_t size_;
    void* base_;
};

class LoomMemory : public plugin::BufferType<LoomMemory> {
public:
    explicit LoomMemory(ggml_backend_dev_t device) : BufferType(device) {}

    const char* name() { return "Loom"; }
    std::unique_ptr<LoomBuffer> allocate(std::size_t size) {
        if (size > kBytes) throw std::bad_alloc();
        return std::make_unique<LoomBuffer>(size);
    }

    static constexpr std::size_t kBytes = std::size_t{1} << 30;  ///< that the device has
};

/// Where the device has a tensor.
template <class T>
T* on_device(const ggml_tensor& tensor) {
    const ggml_tensor& root = tensor.view_src != nullptr ? *tensor.view_src : tensor;
    return reinterpret_cast<T*>(plugin::buffer_cast<LoomBuffer>(root.buffer)->at(tensor.data));
}

/// Jobs in their order, by a thread of its own. A job that fails is told to who waits next, and the
/// rest goes on.
class Queue {
public:
    using Job = std::function<Result<>()>;
    using Ticket = std::uint64_t;

    Queue() : thread_([this] { work(); }) {}
    ~Queue() {
        push({});  // the last one
        thread_.join();
    }
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;

    Ticket push(Job job) {
        const std::lock_guard guard(lock_);
        jobs_.push_back(std::move(job));
        changed_.notify_all();
        return ++pushed_;
    }
    Ticket last() {
        const std::lock_guard guard(lock_);
        return pushed_;
    }
    void wait(Ticket ticket) {
        std::unique_lock guard(lock_);
        changed_.wait(guard, [&] { return done_ >= ticket; });
    }
    Result<> take_failure() {
        const std::lock_guard guard(lock_);
        return std::exchange(outcome_, heddle::ok());
    }

private:
    void work() {
        std::unique_lock guard(lock_);
        while (true) {
            changed_.wait(guard, [&] { return !jobs_.empty(); });
            const Job job = std::move(jobs_.front());
            jobs_.pop_front();
            if (!job) return;
            guard.unlock();
            Result<> outcome = job();
            guard.lock();
            if (!outcome && outcome_) outcome_ = std::move(outcome);
            ++done_;
            changed_.notify_all();
        }
    }

    std::mutex lock_;
    std::condition_variable changed_;
    std::deque<Job> jobs_;
    Ticket pushed_ = 0, done_ = 0;
    Result<> outcome_ = heddle::ok();
    std::thread thread_;  // last: it uses the others
};

/// Reached when what was queued before it is done; the last recording counts. It may outlive its
/// stream.
struct LoomEvent {
    std::mutex lock;
    std::shared_ptr<Queue> queue;
    Queue::Ticket ticket = 0;

    bool is_of(const std::shared_ptr<Queue>& other) {
        const std::lock_guard guard(lock);
        return queue == other;
    }
    std::function<void()> waiting() {
        const std::lock_guard guard(lock);
        if (queue == nullptr) return [] {};
        return [queue = queue, ticket = ticket] { queue->wait(ticket); };
    }
};

/// A block of q8_0: 32 codes of 8 bits and their scale.
struct BlockQ8 {
    ggml_fp16_t scale;
    std::int8_t codes[32];
};
static_assert(sizeof(BlockQ8) == 34);

/// "Can you?" stands next to "do it": run() relies on what this has let through.
std::string_view objection(const ggml_tensor& node) {
    if (const auto fault = plugin::node_fault(node); !fault.empty()) return fault;
    if (node.op != GGML_OP_ADD && node.op != GGML_OP_MUL_MAT)
        return "only ADD and MUL_MAT run here";
    const ggml_tensor &a = *node.src[0], &b = *node.src[1];
    for (const ggml_tensor* tensor : {&node, &a, &b}) {
        if (!ggml_is_contiguous(tensor)) return "tensors must be contiguous";
    }
    if (b.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32)
        return "the second operand and the result must be f32";
    if (node.op == GGML_OP_ADD) {
        if (a.type != GGML_TYPE_F32) return "only f32 is added here";
        return ggml_are_same_shape(&a, &b) ? "" : "operands must have the same extents";
    }
    if (a.type != GGML_TYPE_Q8_0) return "only weights of q8_0 are multiplied here";
    return a.ne[2] * a.ne[3] * b.ne[2] * b.ne[3] == 1 ? ""
                                                      : "only single matrices are multiplied here";
}

/// y[c][r] = row r of the weights times column c.
void multiply(const ggml_tensor& node) {
    const ggml_tensor &a = *node.src[0], &b = *node.src[1];
    const auto* weights = on_device<BlockQ8>(a);
    const auto* columns = on_device<float>(b);
    auto* y = on_device<float>(node);
    const std::int64_t blocks = a.ne[0] / 32;
    for (std::int64_t c = 0; c < b.ne[1]; ++c) {
        for (std::int64_t r = 0; r < a.ne[1]; ++r) {
            float sum = 0;
            for (std::int64_t i = 0; i < blocks; ++i) {
                const BlockQ8& block = weights[r * blocks + i];
                float part = 0;
                for (int k = 0; k < 32; ++k)
                    part += static_cast<float>(block.codes[k]) * columns[c * a.ne[0] + i * 32 + k];
                sum += part * ggml_fp16_to_fp32(block.scale);
            }
            y[c * a.ne[1] + r] = sum;
        }
    }
}

void add(const ggml_tensor& node) {
    const auto *a = on_device<float>(*node.src[0]), *b = on_device<float>(*node.src[1]);
    auto* y = on_device<float>(node);
    for (std::int64_t i = 0; i < ggml_nelements(&node); ++i) y[i] = a[i] + b[i];
}

class LoomStream {
public:
    static inline ggml_guid guid = {0x2a, 0xc4, 0x7e, 0x13, 0x98, 0x5d, 0x4b, 0xe1,
                                    0xb7, 0x30, 0x6f, 0x8c, 0x04, 0xd9, 0x52, 0xa6};

    /// Refusals come at once; the rest happens later. The graph stays as it is until synchronize().
    Result<> compute(ggml_cgraph& graph) {
        const int count = ggml_graph_n_nodes(&graph);
        for (int i = 0; i < count; ++i) {
            const ggml_tensor& node = *ggml_graph_node(&graph, i);
            if (!plugin::wants_computing(node)) continue;
            if (const auto reason = objection(node); !reason.empty())
                return heddle::failure(Errc::unsupported, reason);
        }
        queue_->push([&graph, count]() -> Result<> {
            for (int i = 0; i < count; ++i) {
                const ggml_tensor& node = *ggml_graph_node(&graph, i);
                if (plugin::wants_computing(node))
                    node.op == GGML_OP_ADD ? add(node) : multiply(node);
            }
            return heddle::ok();
        });
        return heddle::ok();
    }
    Result<> synchronize() {
        queue_->wait(queue_->last());
        return queue_->take_failure();
    }

    /// Memory of the host stays as it is until synchronize(), but the tensor may be gone before:
    /// take its address now.
    void write_async(ggml_tensor& tensor, std::size_t offset, std::span<const std::byte> bytes) {
        queue_->push([to = on_device<std::byte>(tensor) + offset, bytes]() -> Result<> {
            std::memcpy(to, bytes.data(), bytes.size());
            return heddle::ok();
        });
    }
    void read_async(const ggml_tensor& tensor, std::size_t offset, std::span<std::byte> bytes) {
        queue_->push([from = on_device<std::byte>(tensor) + offset, bytes]() -> Result<> {
            std::memcpy(bytes.data(), from, bytes.size());
            return heddle::ok();
        });
    }

    void record(LoomEvent& event) {
        const std::lock_guard guard(event.lock);
        event.queue = queue_;
        event.ticket = queue_->last();
    }
    void wait(LoomEvent& event) {
        if (event.is_of(queue_)) return;  // its own work is done in order anyway
        queue_->push([wait = event.waiting()]() -> Result<> {
            wait();
            return heddle::ok();
        });
    }

private:
    std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
};

class LoomDevice : public plugin::Device<LoomDevice> {
public:
    explicit LoomDevice(ggml_backend_reg_t registration)
        : Device(registration), memory_(handle()) {}

    const char* name() { return "LOOM0"; }
    const char* description() { return "a thread with memory of its own"; }
    plugin::DeviceType type() { return GGML_BACKEND_DEVICE_TYPE_GPU; }
    plugin::MemoryAmount memory() { return {LoomMemory::kBytes, LoomMemory::kBytes}; }
    ggml_backend_buffer_type_t buffer_type() { return memory_.handle(); }
    std::string_view objection(const ggml_tensor& node) { return ::objection(node); }
    std::unique_ptr<LoomStream> start(const char*) { return std::make_unique<LoomStream>(); }

    std::unique_ptr<LoomEvent> make_event() { return std::make_unique<LoomEvent>(); }
    void wait(LoomEvent& event) { event.waiting()(); }

private:
    LoomMemory memory_;
};

class LoomRegistration : public plugin::Registration<LoomRegistration> {
public:
    const char* name() { return "Loom"; }
    std::size_t device_count() { return 1; }
    ggml_backend_dev_t device(std::size_t) { return device_.handle(); }

private:
    LoomDevice device_{handle()};
};

}  // namespace

GGML_BACKEND_DL_IMPL(heddle::plugin::registration<LoomRegistration>)
