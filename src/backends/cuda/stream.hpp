#pragma once

#include "backends/cuda/faults.hpp"
#include "backends/cuda/memory.hpp"
#include "backends/cuda/plan.hpp"
#include "backends/cuda/replay.hpp"
#include "backends/cuda/scratch.hpp"
#include "backends/cuda/trace.hpp"

namespace heddle::cuda {

/// A mark in a stream. Until it is recorded it counts as reached.
class CudaEvent {
public:
    static Result<std::unique_ptr<CudaEvent>> make(const Board& board);

    /// The mark is of the stream's device from then on.
    Result<> record(const Board& board, cudaStream_t stream);
    Result<> wait_on_host() const;
    cudaEvent_t handle() const { return event_.get(); }

private:
    EventHandle event_;
    int ordinal_ = -1;  ///< the GPU it belongs to
};

/// A queue of a device. Calls enqueue and return.
class CudaStream {
public:
    static inline ggml_guid guid = {0x6e, 0x1b, 0xd4, 0x0f, 0x93, 0x2a, 0x47, 0xc8,
                                    0xb5, 0x70, 0x1d, 0xe6, 0x8a, 0x5c, 0x39, 0xf4};

    static Result<std::unique_ptr<CudaStream>> make(const Board& board);
    ~CudaStream();
    CudaStream(const CudaStream&) = delete;
    CudaStream& operator=(const CudaStream&) = delete;

    const char* name() const { return board_.name.c_str(); }
    const Board& board() const { return board_; }
    cudaStream_t queue() const { return stream_.get(); }

    /// Puts nodes side by side that one launch can compute, before their memory is planned.
    void optimize(ggml_cgraph& graph) const;

    /// Takes the scratch memory that the graph will need.
    Result<> reserve(ggml_cgraph& graph);

    Result<> compute(ggml_cgraph& graph);

    /// While it is on, every step is launched by itself and timed.
    void set_tracing(bool on) { trace_ = on ? std::make_unique<Trace>() : nullptr; }
    const Trace* trace() const { return trace_.get(); }
    Result<> synchronize();

    Result<> write_async(Tensor& tensor, std::size_t offset, std::span<const std::byte> bytes);
    Result<> read_async(const Tensor& tensor, std::size_t offset, std::span<std::byte> bytes);
    Result<> write_pieces_async(Tensor& tensor, const std::byte* data, plugin::Pieces pieces);
    Result<> read_pieces_async(const Tensor& tensor, std::byte* data, plugin::Pieces pieces);

    /// From another stream of these devices; the copy is queued behind that stream's work.
    bool copy_async(ggml_backend_t source, const Tensor& from, Tensor& to);

    Result<> record(CudaEvent& event);
    Result<> wait(const CudaEvent& event);

private:
    CudaStream(const Board& board, StreamHandle stream, Faults faults, DeviceMemory workplace)
        : board_(board),
          stream_(std::move(stream)),
          scratch_(board),
          faults_(std::move(faults)),
          workplace_(std::move(workplace)) {}
    Result<> enqueue(const Plan& plan, std::byte* room) const;
    Result<> enqueue_traced(const Plan& plan, ggml_cgraph& graph, std::byte* room);
    Result<std::byte*> take_scratch(std::size_t size);
    Result<> check_own(const Tensor& tensor, const plugin::Pieces& pieces) const;
    Result<> transfer(Direction direction, const Tensor& tensor, std::byte* host,
                      const plugin::Pieces& pieces);
    Result<> copy_from(CudaStream& source, const Tensor& from, Tensor& to);

    const Board& board_;
    const StreamHandle stream_;
    Scratch scratch_;
    Replay replay_;
    std::unique_ptr<Trace> trace_;  ///< null: nothing is noted
    Faults faults_;
    /// Tickets, by which blocks of a kernel know that they are the last; behind them columns on
    /// their way from launch to launch.
    DeviceMemory workplace_;
    CudaEvent copied_;  ///< after the last copy out of this stream's device
};

}  // namespace heddle::cuda
