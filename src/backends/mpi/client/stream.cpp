#include "backends/mpi/client/stream.hpp"

#include "backends/mpi/client/device.hpp"

namespace heddle::mpi {

static_assert(plugin::WritesAsync<RemoteStream> && plugin::ReadsAsync<RemoteStream> &&
              plugin::WritesPiecesAsync<RemoteStream> && plugin::ReadsPiecesAsync<RemoteStream> &&
              plugin::CopiesAsync<RemoteStream> && plugin::Synchronizes<RemoteStream>);

RemoteStream::RemoteStream(RemoteDevice& device, std::uint32_t number)
    : device_(device), cluster_(device.cluster()), number_(number), graphs_(device, number) {}

RemoteStream::~RemoteStream() { cluster_.remove_stream(number_); }

// ---- computing ---------------------------------------------------------------------------------

Result<> RemoteStream::compute(ggml_cgraph& graph) {
    if (auto failed = cluster_.take_failure(number_)) return *std::move(failed);
    if (graph.n_nodes == 0) return ok();
    HEDDLE_TRY_ASSIGN(const std::uint32_t number, graphs_.number_of(graph));
    ByteWriter out = command(Kind::run);
    out.put(number);
    return issue(std::move(out));
}

ByteWriter RemoteStream::command(Kind kind, std::size_t expected) const {
    return begin({.kind = kind, .stream = number_}, expected);
}

Result<> RemoteStream::issue(ByteWriter command) {
    HEDDLE_TRY(cluster_.issue(number_, seal(std::move(command))));
    return ok();
}

Result<> RemoteStream::synchronize() {
    HEDDLE_TRY(cluster_.drain(number_));
    if (auto failed = cluster_.untold_failure(number_)) return *std::move(failed);
    return ok();
}

Result<> RemoteStream::set_threads(int count) {
    ByteWriter out = begin({.kind = Kind::threads, .stream = number_});
    out.put(static_cast<std::int32_t>(count));
    return cluster_.post(device_.rank(), seal(std::move(out)));
}

void RemoteStream::set_abort(ggml_abort_callback callback, void* data) {
    cluster_.set_abort(number_, callback, data);
}

// ---- copies between host and device ------------------------------------------------------------

Result<Record> RemoteStream::locate(const Tensor& tensor, std::size_t offset,
                                    std::size_t size) const {
    const RemoteBuffer* const buffer = remote_buffer(tensor);
    if (buffer != nullptr && &buffer->device() == &device_) {
        return buffer->locate(tensor, offset, size);
    }
    return invalid(describe(tensor), " is not in memory of ", device_.name());
}

Result<> RemoteStream::write_async(Tensor& tensor, std::size_t offset,
                                   std::span<const std::byte> bytes) {
    return write_pieces_async(tensor, bytes.data(), {offset, bytes.size(), 1, 0, 0});
}

Result<> RemoteStream::read_async(const Tensor& tensor, std::size_t offset,
                                  std::span<std::byte> bytes) {
    return read_pieces_async(tensor, bytes.data(), {offset, bytes.size(), 1, 0, 0});
}

Result<> RemoteStream::write_pieces_async(Tensor& tensor, const std::byte* data,
                                          plugin::Pieces pieces) {
    HEDDLE_TRY_ASSIGN(const Record place, locate(tensor, pieces.offset, extent_of(pieces)));
    remote_buffer(tensor)->note_write(tensor, pieces.offset, extent_of(pieces));
    return in_parts(pieces, [&](const Pieces& part, std::size_t at) -> Result<> {
        ByteWriter out = command(Kind::stream_write, part.count * part.size + 256);
        put_record(out, place);
        put_pieces(out, part);
        put_content(out, part, data + at);
        return issue(std::move(out));
    });
}

Result<> RemoteStream::read_pieces_async(const Tensor& tensor, std::byte* data,
                                         plugin::Pieces pieces) {
    HEDDLE_TRY_ASSIGN(const Record place, locate(tensor, pieces.offset, extent_of(pieces)));
    if (pieces.size == 0 || pieces.count == 0) return ok();
    if (cluster_.loss(device_.rank())) {  // there is no order to keep, and perhaps a file
        return remote_buffer(tensor)->read_pieces(tensor, data, pieces);
    }
    const std::uint32_t request = cluster_.next_number();
    ByteWriter out = command(Kind::stream_read);
    out.put(request);
    put_record(out, place);
    put_pieces(out, pieces);
    return cluster_.issue_read(number_, seal(std::move(out)), request,
                               {data, pieces.size, pieces.host_stride, pieces.size * pieces.count});
}

// ---- copies between streams --------------------------------------------------------------------

bool RemoteStream::copy_async(ggml_backend_t source, const Tensor& from, Tensor& to) {
    const std::size_t bytes = byte_size(from);
    const auto target = locate(to, 0, bytes);
    if (source == nullptr || !target) return false;
    Result<> done = ok();
    if (RemoteStream* const other = remote_stream(source)) {
        const auto origin = other->locate(from, 0, bytes);
        if (!origin) return false;
        remote_buffer(to)->note_write(to, 0, bytes);
        const int rank = other->device_.rank();
        done = cluster_.loss(rank)      ? copy_of_lost(from, to)
               : rank == device_.rank() ? copy_within(*other, *origin, *target)
                                        : copy_between(*other, *origin, *target);
    } else {
        // A stream that works in the background could still write what is to be copied.
        const ggml_backend_buffer_t buffer = from.buffer;
        if (source->iface.synchronize != nullptr || buffer == nullptr) return false;
        if (!ggml_backend_buffer_is_host(buffer)) return false;
        done = write_async(to, 0, {static_cast<const std::byte*>(from.data), bytes});
    }
    // A copy that failed was tried: the next graph says so, and no other way is to be taken.
    if (!done) plugin::report(std::move(done).error().within(device_.name()));
    return true;
}

Result<> RemoteStream::wait_in(std::uint32_t other, std::uint64_t place) {
    if (cluster_.is_done(other, place)) return ok();
    cluster_.note_wait(number_, other, place);
    ByteWriter out = command(Kind::wait);
    out.put(other);
    out.put(place);
    return issue(std::move(out));
}

/// What came from a file here can still be had.
Result<> RemoteStream::copy_of_lost(const Tensor& from, Tensor& to) {
    Bytes content(byte_size(from));
    HEDDLE_TRY(remote_buffer(from)->read_tensor(from, 0, content));
    return write_async(to, 0, content);
}

Result<> RemoteStream::copy_within(RemoteStream& source, const Record& from, const Record& to) {
    if (&source != this) HEDDLE_TRY(wait_in(source.number_, cluster_.issued(source.number_)));
    ByteWriter out = command(Kind::stream_copy, 512);
    put_record(out, from);
    put_record(out, to);
    HEDDLE_TRY_ASSIGN(const std::uint64_t place, cluster_.issue(number_, seal(std::move(out))));
    // The source's memory may be used for something else right away, but not before this.
    if (&source != this) HEDDLE_TRY(source.wait_in(number_, place));
    return ok();
}

Result<> RemoteStream::copy_between(RemoteStream& source, const Record& from, const Record& to) {
    const std::uint32_t transfer = cluster_.next_number();
    const auto half = [&](RemoteStream& stream, Kind kind, int other, const Record& place) {
        ByteWriter out = stream.command(kind, 256);
        out.put(static_cast<std::uint32_t>(other));
        out.put(transfer);
        put_record(out, place);
        return cluster_.issue(stream.number_, seal(std::move(out)));
    };
    HEDDLE_TRY_ASSIGN(const std::uint64_t sent, half(source, Kind::send, device_.rank(), from));
    cluster_.note_wait(number_, source.number_, sent);
    HEDDLE_TRY(half(*this, Kind::receive, source.device_.rank(), to));
    return ok();
}

// ---- events ------------------------------------------------------------------------------------

Result<> RemoteStream::record(RemoteEvent& event) {
    event = {device_.rank(), number_, cluster_.issued(number_)};
    return ok();
}

Result<> RemoteStream::wait(const RemoteEvent& event) {
    if (event.stream == 0 || event.stream == number_) return ok();
    // Of a lost worker every event counts as reached; copies from it fail.
    if (cluster_.is_done(event.stream, event.place) || cluster_.loss(event.rank)) return ok();
    if (event.rank == device_.rank()) return wait_in(event.stream, event.place);
    cluster_.note_wait(number_, event.stream, event.place);
    const std::uint32_t tag = cluster_.next_number();
    ByteWriter out = begin({.kind = Kind::notify, .stream = event.stream, .place = event.place});
    out.put(static_cast<std::uint32_t>(device_.rank()));
    out.put(tag);
    HEDDLE_TRY(cluster_.post(event.rank, seal(std::move(out))));
    ByteWriter wait = command(Kind::await);
    wait.put(static_cast<std::uint32_t>(event.rank));
    wait.put(tag);
    return issue(std::move(wait));
}

}  // namespace heddle::mpi
