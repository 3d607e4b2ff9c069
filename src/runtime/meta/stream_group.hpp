#pragma once

#include <span>
#include <vector>

#include "runtime/event.hpp"
#include "runtime/meta/device.hpp"
#include "runtime/stream.hpp"

namespace heddle::meta {

/// A stream of each device of a joined one, and what they need to work together.
class StreamGroup {
public:
    static Result<std::unique_ptr<StreamGroup>> make(JoinedDevice& device, const char* params);
    ~StreamGroup();
    StreamGroup(const StreamGroup&) = delete;
    StreamGroup& operator=(const StreamGroup&) = delete;

    std::span<Stream* const> streams() const { return streams_; }
    std::size_t size() const { return streams_.size(); }
    Stream& operator[](std::size_t i) const { return *streams_[i]; }

    /// The streams in the order in which they are given work: those that compute while they are
    /// asked come last, so that the others are busy meanwhile.
    std::span<const std::size_t> order() const { return order_; }

    /// Later work of any stream comes after all work so far of all of them. Waits itself only for
    /// devices that cannot wait for each other.
    Result<> meet();

    /// Waits for all; fails with the first failure, after all have finished.
    Result<> finish_all();

    /// Adds up the tensors, one on each stream, by the backend's own means. Tensors without the
    /// mark COMPUTE add nothing. False if it has none for them.
    bool add_up(std::span<Tensor* const> tensors) const;

private:
    explicit StreamGroup(JoinedDevice& device) : device_(device) {}
    void find_helpers();

    JoinedDevice& device_;
    std::vector<OwnedStream> owned_;
    std::vector<Stream*> streams_;
    std::vector<std::size_t> order_;
    std::vector<OwnedEvent> events_;  ///< one each, or none at all
    void* communicator_ = nullptr;
    ::ggml_backend_comm_free_t free_communicator_ = nullptr;
    ::ggml_backend_comm_allreduce_tensor_t add_up_ = nullptr;
};

}  // namespace heddle::meta
