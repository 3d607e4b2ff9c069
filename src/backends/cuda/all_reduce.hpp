#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/stream.hpp"

namespace heddle::cuda {

/// Adds tensors up that lie on several devices, one each, and gives every device the sum.
///
/// Every device sends its tensor to all others, a piece at a time, and adds the pieces up in the
/// order of the devices, in f32: all of them hold the same bits. Nothing waits on the host.
class AllReduce {
public:
    /// Takes the memory and events for it. Fails if that cannot be had, or copies between two of
    /// the devices are not sound.
    static Result<std::unique_ptr<AllReduce>> make(std::span<CudaStream* const> streams);

    /// Enqueues the sum behind what the streams were given. A tensor that is not to be computed
    /// counts as zeros, whatever is in it. Fails before anything is enqueued if the tensors do not
    /// belong together.
    Result<> add_up(std::span<Tensor* const> tensors);

    std::size_t size() const { return members_.size(); }

private:
    struct Member {
        CudaStream* stream = nullptr;
        DeviceMemory pieces;  ///< one of each other device
        CudaEvent sent;       ///< its last piece is where it is needed
        CudaEvent added;      ///< it does not need the pieces any more
    };
    AllReduce() = default;
    Result<> check(std::span<Tensor* const> tensors) const;
    Result<> send(std::span<Tensor* const> tensors, std::size_t begin, std::size_t bytes);
    Result<> add_piece(std::span<Tensor* const> tensors, std::size_t begin, std::size_t bytes);
    std::byte* piece(std::size_t on, std::size_t from) const;

    std::vector<Member> members_;
};

}  // namespace heddle::cuda
