#pragma once

#include "backends/sim/board.hpp"
#include "backends/sim/memory.hpp"

namespace heddle::sim {

/// A mark in a stream. Until it is recorded it counts as reached.
struct SimEvent {
    Ticket ticket;
    double time = 0;  ///< virtual seconds
};

/// A queue of a simulated device, with a thread of its own. Calls place work on the virtual
/// timeline and return; the thread does it some time. A child of the process has no such thread:
/// all calls fail there.
class SimStream {
public:
    static inline ggml_guid guid = {0x9c, 0x27, 0x51, 0xe3, 0x08, 0xbd, 0x4e, 0x66,
                                    0x81, 0x5a, 0xf0, 0x3b, 0xc7, 0x19, 0xd4, 0x72};

    explicit SimStream(Board& board);
    ~SimStream();
    SimStream(const SimStream&) = delete;
    SimStream& operator=(const SimStream&) = delete;

    const char* name() const { return board_.name.c_str(); }

    /// Fails with what went wrong since the last graph, if something did that could not be told.
    Result<> compute(ggml_cgraph& graph);
    Result<> synchronize();

    Result<> write_async(Tensor& tensor, std::size_t offset, std::span<const std::byte> bytes);
    Result<> read_async(const Tensor& tensor, std::size_t offset, std::span<std::byte> bytes);
    Result<> write_pieces_async(Tensor& tensor, const std::byte* data, plugin::Pieces pieces);
    Result<> read_pieces_async(const Tensor& tensor, std::byte* data, plugin::Pieces pieces);

    /// From another stream of these devices, or from memory of the host that they can reach.
    bool copy_async(ggml_backend_t source, const Tensor& from, Tensor& to);

    Result<> record(SimEvent& event);
    Result<> wait(const SimEvent& event);

private:
    Result<> check_process() const;
    std::optional<Error> take_failure();
    Result<std::byte*> own_data(const Tensor& tensor, std::size_t offset, std::size_t size) const;
    Result<> copy_from(SimStream& source, const Place& origin, const Place& target,
                       std::size_t bytes, std::string_view name);
    Result<> copy_snapshot(const Place& origin, const Place& target, std::size_t bytes,
                           std::string_view name);

    Board& board_;
    Lane lane_;
    std::unique_ptr<Worker> worker_ = std::make_unique<Worker>();
};

}  // namespace heddle::sim
