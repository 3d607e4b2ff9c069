#pragma once

#include <atomic>
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
    explicit ServedDevice(ggml_backend_dev_t device);

    ggml_backend_dev_t device() const { return device_; }
    DeviceFacts facts() const;
    plugin::MemoryAmount memory() const;
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
    std::vector<ggml_backend_buffer_type_t> types_;
    std::vector<ggml_backend_buffer_ptr> dummies_;  ///< one of each type, without memory
};

/// A buffer of rank 0. Commands that use it hold it, so it may be freed while they wait.
class ServedBuffer {
public:
    ServedBuffer(ggml_backend_buffer_ptr buffer, std::size_t device)
        : buffer_(std::move(buffer)), device_(device) {}

    ggml_backend_buffer_t c() const { return buffer_.get(); }
    std::size_t device() const { return device_; }

    /// Weights that are being read from a file. What reads the buffer waits for them.
    void begin_load();
    void end_load(const Result<>& outcome);
    Result<> wait_for_loads();

private:
    const ggml_backend_buffer_ptr buffer_;
    const std::size_t device_;
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
    /// Fails if it is none that could have been built, or one that `device` cannot run.
    static Result<std::unique_ptr<ServedGraph>> make(const GraphRecords& records,
                                                     const Buffers& buffers,
                                                     const ServedDevice& device);

    ggml_cgraph* c() const { return graph_; }

    /// The buffers it uses; fails if one was freed.
    Result<std::vector<SharedBuffer>> hold() const;

private:
    Result<> build(const GraphRecords& records, const Buffers& buffers);
    Result<> check(const ServedDevice& device) const;

    std::vector<Tensor> tensors_;
    std::vector<std::weak_ptr<ServedBuffer>> buffers_;
    ggml_context_ptr context_;
    ggml_cgraph* graph_ = nullptr;
};

}  // namespace heddle::mpi
