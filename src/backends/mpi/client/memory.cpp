#include "backends/mpi/client/memory.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "backends/mpi/client/device.hpp"
#include "core/root_buffer.hpp"
#include "ggml/op_list.h"

namespace heddle::mpi {

static_assert(plugin::WritesTensors<RemoteBuffer> && plugin::ReadsTensors<RemoteBuffer> &&
              plugin::FillsTensors<RemoteBuffer> && plugin::WritesPieces<RemoteBuffer> &&
              plugin::ReadsPieces<RemoteBuffer> && plugin::CopiesTensors<RemoteBuffer> &&
              plugin::Resets<RemoteBuffer>);

// ---- addresses ---------------------------------------------------------------------------------

Result<AddressRange> AddressRange::reserve(std::size_t size, std::size_t alignment) {
    std::size_t all = 0;
    void* const mapped =
        __builtin_add_overflow(size, alignment, &all)
            ? MAP_FAILED
            : mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
        return failure(Errc::out_of_memory, "there are no addresses for ", size, " bytes");
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(mapped);
    const std::size_t skipped = (alignment - begin % alignment) % alignment;
    return AddressRange(mapped, all, static_cast<std::byte*>(mapped) + skipped, size);
}

AddressRange::~AddressRange() {
    if (mapped_ != nullptr) munmap(mapped_, mapped_size_);
}

// ---- buffers -----------------------------------------------------------------------------------

RemoteBuffer* remote_buffer(const Tensor& tensor) {
    return plugin::buffer_cast<RemoteBuffer>(root_buffer(tensor));
}

RemoteBuffer::~RemoteBuffer() {
    ByteWriter out = begin({.kind = Kind::free_buffer});
    out.put(number_);
    (void)device_.cluster().post(device_.rank(), seal(std::move(out)));  // lost: freed already
}

Result<Record> RemoteBuffer::locate(const Tensor& tensor, std::size_t offset,
                                    std::size_t size) const {
    const std::size_t begin =
        static_cast<std::size_t>(static_cast<std::byte*>(tensor.data) - addresses_.base());
    const std::size_t all = addresses_.size();
    if (begin > all || offset > all - begin || size > all - begin - offset) {
        return invalid(size, " bytes at offset ", offset, " of ", describe(tensor), " at ",
                       tensor.data, " are not inside the buffer's ", all, " bytes");
    }
    Record record = describe_alone(tensor);
    record.tensor.op = GGML_OP_NONE;  // its content is meant, not how it comes about
    record.memory = number_;
    record.offset = begin;
    return record;
}

Result<> RemoteBuffer::load(const Record& place, const plugin::Pieces& pieces,
                            const Source& source) {
    ByteWriter out = begin({.kind = Kind::load}, 256);
    put_record(out, place);
    put_pieces(out, pieces);
    out.put(static_cast<std::uint64_t>(pieces.host_stride));
    out.put(source.file);
    out.put(source.place);
    return device_.cluster().post(device_.rank(), seal(std::move(out)));
}

bool RemoteBuffer::holds_weights(const Tensor& tensor) {
    return root_buffer(tensor)->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

/// Weights are written once, as a whole. What is written again (inputs, caches, weights that are
/// trained) is in no file; neither is what graphs compute with.
bool RemoteBuffer::is_new_weight(const Tensor& tensor, std::size_t begin, std::size_t size) {
    if (size < TensorOffer::kLeast || size != byte_size(tensor)) return false;
    if (root_buffer(tensor)->usage == GGML_BACKEND_BUFFER_USAGE_COMPUTE) return false;
    const std::lock_guard guard(lock_);
    return written_.insert(begin).second;
}

Result<> RemoteBuffer::write_tensor(Tensor& tensor, std::size_t offset,
                                    std::span<const std::byte> bytes) {
    if (type_.whole_tensors && (offset != 0 || bytes.size() != byte_size(tensor))) {
        return invalid(describe(tensor), " is to be written in one piece, not ", bytes.size(),
                       " bytes at offset ", offset);
    }
    HEDDLE_TRY_ASSIGN(const Record place,
                      locate(tensor, offset, type_.whole_tensors ? 0 : bytes.size()));
    if (bytes.empty()) return ok();
    const std::size_t begin = place.offset + offset;
    HEDDLE_TRY_ASSIGN(const auto origin, device_.files().find(bytes, holds_weights(tensor)));
    std::optional<Source> source;
    if (origin && origin->there) {
        source = Source{*origin->there, origin->offset};
    } else if (is_new_weight(tensor, begin, bytes.size())) {
        const auto match = device_.offers().find(bytes, device_.files().has_any());
        if (match) source = Source{match->file, match->place};
    }
    from_files_.forget(begin, bytes.size());
    HEDDLE_TRY(source ? load(place, {offset, bytes.size(), 1, 0, 0}, *source)
                      : send(place, offset, bytes));
    if (origin) from_files_.note(begin, bytes.size(), origin->file, origin->offset);
    return ok();
}

Result<> RemoteBuffer::load_file(Tensor& tensor, const std::string& path, std::uint64_t offset) {
    const std::size_t size = byte_size(tensor);
    HEDDLE_TRY_ASSIGN(const Record place, locate(tensor, 0, type_.whole_tensors ? 0 : size));
    if (size == 0) return ok();
    HEDDLE_TRY_ASSIGN(const FileOffers::Origin origin, device_.files().find_in(path, offset, size));
    from_files_.forget(place.offset, size);
    HEDDLE_TRY(origin.there ? load(place, {0, size, 1, 0, 0}, {*origin.there, origin.offset})
                            : send_file(place, origin));
    from_files_.note(place.offset, size, origin.file, origin.offset);
    return ok();
}

Result<> RemoteBuffer::send_file(const Record& place, const FileOffers::Origin& origin) {
    const std::size_t size = byte_size(place.tensor);
    const std::size_t step = type_.whole_tensors ? size : kChunk;
    Bytes part;
    for (std::size_t done = 0; done < size; done += part.size()) {
        part.resize(std::min(step, size - done));
        HEDDLE_TRY(origin.file->read(origin.offset + done, part));
        HEDDLE_TRY(send(place, done, part));
    }
    return ok();
}

// ---- contents ----------------------------------------------------------------------------------

Result<> RemoteBuffer::send(const Record& place, std::size_t offset, ByteView bytes) {
    if (type_.whole_tensors) return send_whole(place, bytes);
    return send_pieces(place, bytes.data(), {offset, bytes.size(), 1, 0, 0});
}

Result<> RemoteBuffer::send_whole(const Record& place, ByteView bytes) {
    const std::uint32_t transfer = device_.cluster().next_number();
    const std::size_t total = bytes.size();
    for (std::size_t done = 0; done < total; done += kChunk) {
        const auto part = bytes.subspan(done, std::min(kChunk, total - done));
        ByteWriter out = begin({.kind = Kind::write_whole}, part.size() + 256);
        out.put(transfer);
        put_record(out, place);
        out.put(static_cast<std::uint64_t>(total));
        out.raw(part);
        HEDDLE_TRY(device_.cluster().post(device_.rank(), seal(std::move(out))));
    }
    return ok();
}

Result<> RemoteBuffer::send_pieces(const Record& place, const std::byte* data,
                                   const plugin::Pieces& pieces) {
    return in_parts(pieces, [&](const Pieces& part, std::size_t at) {
        ByteWriter out = begin({.kind = Kind::write}, part.count * part.size + 256);
        put_record(out, place);
        put_pieces(out, part);
        put_content(out, part, data + at);
        return device_.cluster().post(device_.rank(), seal(std::move(out)));
    });
}

Result<> RemoteBuffer::write_pieces(Tensor& tensor, const std::byte* data, plugin::Pieces pieces) {
    HEDDLE_TRY_ASSIGN(const Record place, locate(tensor, pieces.offset, extent_of(pieces)));
    if (pieces.size == 0 || pieces.count == 0) return ok();
    // Pieces are many: where they came from is not kept, so they cannot be read after a loss.
    from_files_.forget(place.offset + pieces.offset, extent_of(pieces));
    const std::size_t size = (pieces.count - 1) * pieces.host_stride + pieces.size;
    HEDDLE_TRY_ASSIGN(const auto origin, device_.files().find({data, size}, holds_weights(tensor)));
    const bool is_there = origin && origin->there && !type_.whole_tensors;
    return is_there ? load(place, pieces, {*origin->there, origin->offset})
                    : send_pieces(place, data, pieces);
}

Result<> RemoteBuffer::read_tensor(const Tensor& tensor, std::size_t offset,
                                   std::span<std::byte> bytes) {
    return read_pieces(tensor, bytes.data(), {offset, bytes.size(), 1, 0, 0});
}

Result<> RemoteBuffer::read_pieces(const Tensor& tensor, std::byte* data, plugin::Pieces pieces) {
    HEDDLE_TRY_ASSIGN(const Record place, locate(tensor, pieces.offset, extent_of(pieces)));
    if (pieces.size == 0 || pieces.count == 0) return ok();
    auto done = read_from_worker(place, data, pieces);
    if (done || !device_.cluster().loss(device_.rank())) return done;
    HEDDLE_TRY_ASSIGN(const bool is_read, read_from_files(place, data, pieces));
    return is_read ? ok() : std::move(done);
}

Result<> RemoteBuffer::read_from_worker(const Record& place, std::byte* data,
                                        const plugin::Pieces& pieces) {
    if (!type_.readable) return invalid("what is in ", type_.name, " cannot be read back");
    const std::uint32_t request = device_.cluster().next_number();
    ByteWriter out = question(Kind::read, request);
    put_record(out, place);
    put_pieces(out, pieces);
    Landing landing{data, pieces.size, pieces.host_stride, pieces.size * pieces.count};
    HEDDLE_TRY(device_.cluster().ask(device_.rank(), request, seal(std::move(out)), &landing));
    if (landing.arrived == landing.total) return ok();
    return failure(Errc::device, device_.name(), " sent ", landing.arrived, " of ", landing.total,
                   " bytes");
}

Result<bool> RemoteBuffer::read_from_files(const Record& place, std::byte* data,
                                           const plugin::Pieces& pieces) const {
    for (std::size_t i = 0; i < pieces.count; ++i) {
        const std::size_t begin = place.offset + pieces.offset + i * pieces.tensor_stride;
        HEDDLE_TRY_ASSIGN(const bool is_read,
                          from_files_.read(begin, {data + i * pieces.host_stride, pieces.size}));
        if (!is_read) return false;
    }
    return true;
}

void RemoteBuffer::note_write(const Tensor& tensor, std::size_t offset, std::size_t size) {
    const auto place = locate(tensor, offset, size);
    if (place) from_files_.forget(place->offset + offset, size);
}

Result<> RemoteBuffer::fill_tensor(Tensor& tensor, std::size_t offset, std::size_t size,
                                   std::uint8_t value) {
    HEDDLE_TRY_ASSIGN(const Record place, locate(tensor, offset, size));
    from_files_.forget(place.offset + offset, size);
    ByteWriter out = begin({.kind = Kind::fill});
    put_record(out, place);
    out.put(static_cast<std::uint64_t>(offset));
    out.put(static_cast<std::uint64_t>(size));
    out.put(value);
    return device_.cluster().post(device_.rank(), seal(std::move(out)));
}

Result<> RemoteBuffer::clear(std::uint8_t value) {
    from_files_.forget(0, addresses_.size());
    ByteWriter out = begin({.kind = Kind::clear});
    out.put(number_);
    out.put(value);
    return device_.cluster().post(device_.rank(), seal(std::move(out)));
}

Result<> RemoteBuffer::reset() {
    from_files_.forget(0, addresses_.size());
    ByteWriter out = begin({.kind = Kind::reset});
    out.put(number_);
    return device_.cluster().post(device_.rank(), seal(std::move(out)));
}

/// Within a worker. From one worker to another streams copy; what has none takes the long way.
bool RemoteBuffer::copy(const Tensor& from, Tensor& to) {
    const RemoteBuffer* const source = remote_buffer(from);
    const std::size_t bytes = byte_size(from);
    if (source == nullptr || source->device_.rank() != device_.rank()) return false;
    const auto origin = source->locate(from, 0, bytes);
    const auto target = locate(to, 0, bytes);
    if (!origin || !target || type_.whole_tensors || source->type_.whole_tensors) return false;
    from_files_.forget(target->offset, bytes);
    ByteWriter out = begin({.kind = Kind::copy}, 512);
    put_record(out, *origin);
    put_record(out, *target);
    auto sent = device_.cluster().post(device_.rank(), seal(std::move(out)));
    // Not a pair that is not supported but a worker that is lost: there is no other way.
    if (!sent) plugin::report(std::move(sent).error().within(device_.name()));
    return true;
}

// ---- buffer types ------------------------------------------------------------------------------

RemoteMemory::RemoteMemory(ggml_backend_dev_t handle, RemoteDevice& device, std::size_t index)
    : BufferType(handle),
      device_(device),
      index_(index),
      facts_(device.facts().buffer_types[index]),
      name_(index == 0 ? std::string(device.name())
                       : text("MPI", device.rank(), ':', facts_.name)) {}

std::size_t RemoteMemory::alloc_size(const Tensor& tensor) {
    return facts_.asks_size ? device_.size_of(index_, tensor) : byte_size(tensor);
}

Result<std::unique_ptr<RemoteBuffer>> RemoteMemory::allocate(std::size_t size) {
    HEDDLE_TRY_ASSIGN(AddressRange addresses, AddressRange::reserve(size, facts_.alignment));
    Cluster& cluster = device_.cluster();
    const std::uint32_t request = cluster.next_number(), number = cluster.next_number();
    ByteWriter out = question(Kind::allocate, request);
    out.put(static_cast<std::uint32_t>(device_.index()));
    out.put(static_cast<std::uint32_t>(index_));
    out.put(number);
    out.put(static_cast<std::uint64_t>(size));
    HEDDLE_TRY_ASSIGN(const Bytes answer,
                      cluster.ask(device_.rank(), request, seal(std::move(out))));
    ByteReader in(answer);
    const auto free = in.get<std::uint64_t>(), total = in.get<std::uint64_t>();
    cluster.note_memory(device_.rank(), device_.index(), {free, total});
    return std::make_unique<RemoteBuffer>(device_, number, facts_, std::move(addresses));
}

}  // namespace heddle::mpi
