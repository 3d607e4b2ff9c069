#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/mpi/client/graph_cache.hpp"
#include "backends/mpi/client/memory.hpp"

namespace heddle::mpi {

/// A mark in a stream. Until it is recorded it counts as reached.
struct RemoteEvent {
    int rank = 0;
    std::uint32_t stream = 0;
    std::uint64_t place = 0;
};

/// A queue of work of a worker's device. Calls send what is to be done and return.
class RemoteStream {
public:
    static inline ggml_guid guid = {0x3f, 0x61, 0xd8, 0x0a, 0x9b, 0x24, 0x47, 0xc5,
                                    0xae, 0x13, 0x70, 0x5e, 0x8d, 0xf2, 0x16, 0xb9};

    RemoteStream(RemoteDevice& device, std::uint32_t number);
    ~RemoteStream();
    RemoteStream(const RemoteStream&) = delete;
    RemoteStream& operator=(const RemoteStream&) = delete;

    /// Fails with what went wrong since the last graph, if something did that could not be told.
    Result<> compute(ggml_cgraph& graph);
    Result<> synchronize();

    Result<> write_async(Tensor& tensor, std::size_t offset, std::span<const std::byte> bytes);
    Result<> read_async(const Tensor& tensor, std::size_t offset, std::span<std::byte> bytes);
    Result<> write_pieces_async(Tensor& tensor, const std::byte* data, plugin::Pieces pieces);
    Result<> read_pieces_async(const Tensor& tensor, std::byte* data, plugin::Pieces pieces);

    /// From a stream of any worker, directly, or from memory of the host.
    bool copy_async(ggml_backend_t source, const Tensor& from, Tensor& to);

    Result<> record(RemoteEvent& event);
    Result<> wait(const RemoteEvent& event);

    Result<> set_threads(int count);
    /// See Cluster::set_abort.
    void set_abort(ggml_abort_callback callback, void* data);

    RemoteDevice& device() const { return device_; }
    std::uint32_t number() const { return number_; }
    /// Fails unless `size` bytes from `offset` on, of a tensor of this device, are in its buffer.
    Result<Record> locate(const Tensor& tensor, std::size_t offset, std::size_t size) const;
    /// Begins a command of this stream; `issue` puts it at the end.
    ByteWriter command(Kind kind, std::size_t expected = 128) const;
    Result<> issue(ByteWriter command);

private:
    Result<> copy_of_lost(const Tensor& from, Tensor& to);
    Result<> copy_within(RemoteStream& source, const Record& from, const Record& to);
    Result<> copy_between(RemoteStream& source, const Record& from, const Record& to);
    Result<> wait_in(std::uint32_t other, std::uint64_t place);

    RemoteDevice& device_;
    Cluster& cluster_;
    const std::uint32_t number_;
    GraphCache graphs_;
};

}  // namespace heddle::mpi
