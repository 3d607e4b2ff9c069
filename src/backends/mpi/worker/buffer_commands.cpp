// What rank 0 asks of buffers. Done at once, in the order it comes.
#include <future>

#include "backends/mpi/packing.hpp"
#include "backends/mpi/worker/calls.hpp"
#include "backends/mpi/worker/server.hpp"

namespace heddle::mpi {
namespace {

/// Tensors that are not there whole yet. Each thread of the program sends one at a time.
constexpr std::size_t kMostUploads = 1024;

}  // namespace

// ---- what commands name ------------------------------------------------------------------------

Result<Placed> Server::placed(ByteReader& in) {
    HEDDLE_TRY_ASSIGN(const Record record, get_record(in, {}));
    return place(record, buffers_);
}

Result<std::size_t> Server::device_index(ByteReader& in) const {
    const std::size_t index = in.get<std::uint32_t>();
    if (index < devices_.size()) return index;
    return failure(Errc::corrupt, "device ", index, " of ", devices_.size());
}

Result<std::vector<Record>> Server::records(ByteReader& in) const {
    const std::size_t count = in.get<std::uint32_t>();
    if (count == 0 || count > kMaxSources + 1) {
        return failure(Errc::corrupt, "a question about ", count, " tensors");
    }
    std::vector<Record> all;
    for (std::size_t i = 0; i < count; ++i) {
        HEDDLE_TRY_ASSIGN(const Record record, get_record(in, all));
        all.push_back(record);
    }
    if (!in.finished()) return broken("a question");
    return all;
}

void Server::note_failure(std::size_t device, Error error) {
    const std::lock_guard guard(failures_lock_);
    failures_.try_emplace(device, std::move(error));
}

std::optional<Error> Server::take_failure(std::size_t device) {
    const std::lock_guard guard(failures_lock_);
    const auto found = failures_.find(device);
    if (found == failures_.end()) return std::nullopt;
    Error error = std::move(found->second);
    failures_.erase(found);
    return error;
}

// ---- questions ---------------------------------------------------------------------------------

Result<> Server::ask_op(ByteReader& in) {
    const auto request = in.get<std::uint32_t>();
    HEDDLE_TRY_ASSIGN(const std::size_t device, device_index(in));
    HEDDLE_TRY_ASSIGN(const auto node, records(in));
    ByteWriter more;
    more.text(devices_[device]->objection(node).substr(0, 255));
    outbox_.answer(request, ok(), more.view());
    return ok();
}

Result<> Server::ask_size(ByteReader& in) {
    const auto request = in.get<std::uint32_t>();
    HEDDLE_TRY_ASSIGN(const std::size_t device, device_index(in));
    const std::size_t type = in.get<std::uint32_t>();
    HEDDLE_TRY_ASSIGN(const auto node, records(in));
    if (type >= devices_[device]->type_count()) {
        return failure(Errc::corrupt, "buffer type ", type, " of ", devices_[device]->type_count());
    }
    ByteWriter more;
    more.put(static_cast<std::uint64_t>(devices_[device]->size_of(type, node)));
    outbox_.answer(request, ok(), more.view());
    return ok();
}

Result<> Server::allocate(ByteReader& in) {
    const auto request = in.get<std::uint32_t>();
    HEDDLE_TRY_ASSIGN(const std::size_t index, device_index(in));
    const std::size_t type = in.get<std::uint32_t>();
    const auto number = in.get<std::uint32_t>();
    const std::size_t size = in.get<std::uint64_t>();
    ServedDevice& device = *devices_[index];
    if (!in.finished() || size == 0 || number == 0 || type >= device.type_count()) {
        return broken("a request for memory");
    }
    if (auto taken = device.take(size); !taken) {
        outbox_.answer(request, taken);
        return ok();
    }
    heddle_clear_error();
    ggml_backend_buffer_ptr buffer(ggml_backend_buft_alloc_buffer(device.type(type), size));
    if (buffer == nullptr || ggml_backend_buffer_get_size(buffer.get()) < size) {
        device.give_back(size);
        outbox_.answer(request, failure(Errc::out_of_memory, heddle_last_error()));
        return ok();
    }
    HEDDLE_TRY(buffers_.add(
        number, std::make_shared<ServedBuffer>(std::move(buffer), device, index, size)));
    const plugin::MemoryAmount memory = device.memory();
    ByteWriter more;
    more.put(static_cast<std::uint64_t>(memory.free));
    more.put(static_cast<std::uint64_t>(memory.total));
    outbox_.answer(request, ok(), more.view());
    return ok();
}

// ---- contents ----------------------------------------------------------------------------------

Result<> Server::free_buffer(ByteReader& in) {
    const auto number = in.get<std::uint32_t>();
    HEDDLE_TRY(buffers_.find(number));
    buffers_.remove(number);
    return ok();
}

Result<> Server::clear(ByteReader& in) {
    const auto number = in.get<std::uint32_t>();
    const auto value = in.get<std::uint8_t>();
    HEDDLE_TRY_ASSIGN(const SharedBuffer buffer, buffers_.find(number));
    (void)wait_for_loads(*buffer);  // the next graph says what became of them
    const auto done = reported([&] { ggml_backend_buffer_clear(buffer->c(), value); });
    if (!done) note_failure(buffer->device(), done.error());
    return ok();
}

Result<> Server::reset(ByteReader& in) {
    HEDDLE_TRY_ASSIGN(const SharedBuffer buffer, buffers_.find(in.get<std::uint32_t>()));
    (void)wait_for_loads(*buffer);
    ggml_backend_buffer_reset(buffer->c());
    return ok();
}

Result<> Server::fill(ByteReader& in) {
    HEDDLE_TRY_ASSIGN(Placed target, placed(in));
    const std::size_t offset = in.get<std::uint64_t>(), size = in.get<std::uint64_t>();
    const auto value = in.get<std::uint8_t>();
    const std::size_t bytes = byte_size(target.tensor);
    if (!in.finished() || offset > bytes || size > bytes - offset) return broken("a fill");
    (void)wait_for_loads(*target.buffer);
    const auto done =
        reported([&] { ggml_backend_tensor_memset(&target.tensor, value, offset, size); });
    if (!done) note_failure(target.buffer->device(), done.error());
    return ok();
}

Result<> Server::write(ByteReader& in) {
    HEDDLE_TRY_ASSIGN(Placed target, placed(in));
    HEDDLE_TRY_ASSIGN(const Pieces pieces, get_pieces(in, byte_size(target.tensor)));
    HEDDLE_TRY_ASSIGN(const Unpacked content, Unpacked::get(in, pieces.size * pieces.count));
    (void)wait_for_loads(*target.buffer);
    const auto done = reported([&] {
        ggml_backend_tensor_set_2d(&target.tensor, content.view().data(), pieces.offset,
                                   pieces.size, pieces.count, pieces.tensor_stride,
                                   pieces.host_stride);
    });
    if (!done) note_failure(target.buffer->device(), done.error());
    return ok();
}

/// Memory with a layout of its own takes tensors whole: the parts are put together first.
Result<> Server::write_whole(ByteReader& in) {
    const auto number = in.get<std::uint32_t>();
    HEDDLE_TRY_ASSIGN(Placed target, placed(in));
    const std::size_t total = in.get<std::uint64_t>();
    const ByteView part = in.rest();
    if (!in.ok() || total != byte_size(target.tensor)) return broken("a tensor");
    if (!uploads_.contains(number) && uploads_.size() >= kMostUploads) {
        return failure(Errc::corrupt, "more than ", kMostUploads, " tensors at a time");
    }
    Upload& upload = uploads_[number];
    if (upload.total == 0) {
        upload.placed = std::move(target);
        upload.total = total;
    }
    if (upload.total != total || part.size() > total - upload.bytes.size()) {
        return broken("a tensor");
    }
    upload.bytes.insert(upload.bytes.end(), part.begin(), part.end());
    if (upload.bytes.size() < total) return ok();
    Placed& whole = upload.placed;
    (void)wait_for_loads(*whole.buffer);
    const auto done = reported([&] {
        ggml_backend_buffer_init_tensor(whole.buffer->c(), &whole.tensor);
        ggml_backend_tensor_set(&whole.tensor, upload.bytes.data(), 0, total);
    });
    if (!done) note_failure(whole.buffer->device(), done.error());
    uploads_.erase(number);
    return ok();
}

Result<> Server::send_content(std::uint32_t request, const Placed& placed, const Pieces& pieces) {
    HEDDLE_TRY(wait_for_loads(*placed.buffer));
    std::uint64_t sent = 0;
    return in_parts(pieces, [&](const Pieces& part, std::size_t) -> Result<> {
        HEDDLE_TRY(make_room());
        const std::size_t size = part.size * part.count;
        ByteWriter out = begin({.kind = Kind::data}, size + 16);
        out.put(request);
        out.put(sent);
        std::byte* const data = out.extend(size);
        HEDDLE_TRY(reported([&] {
            ggml_backend_tensor_get_2d(&placed.tensor, data, part.offset, part.size, part.count,
                                       part.tensor_stride, part.size);
        }));
        outbox_.send(0, seal(std::move(out)));
        sent += size;
        return ok();
    });
}

Result<> Server::read(ByteReader& in) {
    const auto request = in.get<std::uint32_t>();
    HEDDLE_TRY_ASSIGN(const Placed source, placed(in));
    HEDDLE_TRY_ASSIGN(const Pieces pieces, get_pieces(in, byte_size(source.tensor)));
    if (!in.finished()) return broken("a request to read");
    outbox_.answer(request, send_content(request, source, pieces));
    return ok();
}

Result<> Server::copy(ByteReader& in) {
    HEDDLE_TRY_ASSIGN(Placed from, placed(in));
    HEDDLE_TRY_ASSIGN(Placed to, placed(in));
    if (!in.finished() || !same_layout(from.tensor, to.tensor)) return broken("a copy");
    (void)wait_for_loads(*to.buffer);
    Result<> done = wait_for_loads(*from.buffer);
    if (done) done = reported([&] { ggml_backend_tensor_copy(&from.tensor, &to.tensor); });
    if (!done) note_failure(to.buffer->device(), done.error());
    return ok();
}

// ---- weights from files ------------------------------------------------------------------------

template <class Function>
auto Server::listen_during(const Function& function) {
    auto outcome = std::async(std::launch::async, [&] {
        heddle_set_thread_error_mode(HEDDLE_ERROR_MODE_RETURN);
        return function();
    });
    listen_until([&](std::chrono::milliseconds time) {
        return outcome.wait_for(time) == std::future_status::ready;
    });
    return outcome.get();
}

Result<> Server::take_file(ByteReader& in) {
    const auto request = in.get<std::uint32_t>(), number = in.get<std::uint32_t>();
    const std::string path = in.text();
    HEDDLE_TRY_ASSIGN(const FileSamples samples, get_samples(in));
    const auto differences = listen_during([&] { return files_.add(number, path, samples); });
    if (!differences) {
        outbox_.answer(request, differences.error());
        return ok();
    }
    ByteWriter more;
    put_differences(more, *differences);
    outbox_.answer(request, ok(), more.view());
    return ok();
}

Result<> Server::take_offer(ByteReader& in) {
    const auto request = in.get<std::uint32_t>();
    HEDDLE_TRY_ASSIGN(const TensorOffer offer, get_offer(in));
    ByteWriter more;
    put_matches(more, listen_during([&] { return files_.find(offer); }));
    outbox_.answer(request, ok(), more.view());
    return ok();
}

Result<> Server::load(ByteReader& in) {
    Load load;
    HEDDLE_TRY_ASSIGN(load.target, placed(in));
    const std::size_t bytes = byte_size(load.target.tensor);
    HEDDLE_TRY_ASSIGN(load.pieces, get_pieces(in, bytes));
    load.pieces.host_stride = in.get<std::uint64_t>();
    HEDDLE_TRY_ASSIGN(load.file, files_.find(in.get<std::uint32_t>()));
    load.place = in.get<std::uint64_t>();
    const auto& device = *devices_[load.target.buffer->device()];
    load.in_one_piece = ggml_backend_buffer_get_type(load.target.buffer->c()) != device.type(0);
    const bool is_whole = load.pieces.count == 1 && load.pieces.size == bytes;
    if (!in.finished() || !load.is_in_file() || (load.in_one_piece && !is_whole)) {
        return broken("a part of a file");
    }
    loader_.submit(std::move(load));
    return ok();
}

}  // namespace heddle::mpi
