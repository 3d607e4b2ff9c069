#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backends/mpi/codec.hpp"
#include "backends/mpi/protocol.hpp"
#include "ggml-cpp.h"
#include "heddle/backend/device.hpp"

/// What a worker keeps for rank 0: buffers and graphs.
namespace heddle::mpi {

/// A device that is served.
class ServedDevice {
public:
    /// `budget`: bytes that buffers may take; 0: all there is.
    explicit ServedDevice(ggml_backend_dev_t device, std::size_t budget = 0);

    ggml_backend_dev_t device() const { return device_; }
    DeviceFacts facts() const;
    plugin::MemoryAmount memory() const;  ///< of its budget, where it has one
    /// Takes bytes from the budget, or gives them back. Fails where it has not so many.
    Result<> take(std::size_t bytes);
    void give_back(std::size_t bytes) { used_ -= bytes; }
    std::size_t type_count() const { return types_.size(); }
    ggml_backend_buffer_type_t type(std::size_t index) const { return types_[index]; }

    /// Why it cannot run a node that is described by records; the last one is the node.
    std::string objection(const std::vector<Record>& records) const;
    /// Bytes that the last one takes in memory of a type.
    std::size_t size_of(std::size_t type, const std::vector<Record>& records) const;

    std::string objection(const Tensor& node) const;

private:
    std::vector<Tensor> as_tensors(const std::vector<Record>& records) const;

    ggml_backend_dev_t device_;
    const std::size_t budget_;
    std::atomic<std::size_t> used_{0};  ///< added to by one thread
    std::vector<ggml_backend_buffer_type_t> types_;
    std::vector<ggml_backend_buffer_ptr> dummies_;  ///< one of each type, without memory
};

/// A buffer of rank 0. Commands that use it hold it, so it may be freed while they wait.
class ServedBuffer {
public:
    /// `taken` bytes go back to the owner's budget in the end.
    ServedBuffer(ggml_backend_buffer_ptr buffer, ServedDevice& owner, std::size_t device,
                 std::size_t taken)
        : buffer_(std::move(buffer)), owner_(owner), device_(device), taken_(taken) {}
    ~ServedBuffer() { owner_.give_back(taken_); }
    ServedBuffer(const ServedBuffer&) = delete;
    ServedBuffer& operator=(const ServedBuffer&) = delete;

    ggml_backend_buffer_t c() const { return buffer_.get(); }
    std::size_t device() const { return device_; }

    /// Weights that are being read from a file. What reads or writes the buffer waits for them.
    void begin_load();
    void end_load(const Result<>& outcome);
    Result<> wait_for_loads();
    /// False if some are still being read after that time.
    bool is_loaded_within(std::chrono::milliseconds time);

private:
    const ggml_backend_buffer_ptr buffer_;
    ServedDevice& owner_;
    const std::size_t device_, taken_;
    std::mutex lock_;
    std::condition_variable changed_;
    std::size_t loads_ = 0;
    std::optional<Error> failure_;
};
using SharedBuffer = std::shared_ptr<ServedBuffer>;

class Buffers {
public:
    Result<> add(std::uint32_t number, SharedBuffer buffer);
    void remove(std::uint32_t number) { buffers_.erase(number); }
    /// Fails if there is none of that number.
    Result<SharedBuffer> find(std::uint32_t number) const;

private:
    std::map<std::uint32_t, SharedBuffer> buffers_;
};

/// A tensor that a command names, and what keeps its memory.
struct Placed {
    Tensor tensor{};
    SharedBuffer buffer;
};

/// Fails unless all of it is inside its buffer.
Result<Placed> place(const Record& record, const Buffers& buffers);

/// A graph as it was sent, ready to run.
class ServedGraph {
public:
    /// The device that runs it, and its number.
    struct Runner {
        const ServedDevice& device;
        std::size_t index = 0;
    };
    /// Fails if it is none that could have been built, one that the device cannot run, or one of
    /// which something is in another device's memory.
    static Result<std::unique_ptr<ServedGraph>> make(const GraphRecords& records,
                                                     const Buffers& buffers, const Runner& runner);

    ggml_cgraph* c() const { return graph_; }

    /// The buffers it uses; fails if one was freed.
    Result<std::vector<SharedBuffer>> hold() const;

private:
    Result<> build(const GraphRecords& records, const Buffers& buffers, std::size_t device);
    Result<> check(const ServedDevice& device) const;

    std::vector<Tensor> tensors_;
    std::vector<std::weak_ptr<ServedBuffer>> buffers_;
    ggml_context_ptr context_;
    ggml_cgraph* graph_ = nullptr;
};

}  // namespace heddle::mpi
