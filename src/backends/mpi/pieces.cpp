#include "backends/mpi/pieces.hpp"

#include <algorithm>

#include "backends/mpi/packing.hpp"
#include "backends/mpi/protocol.hpp"

namespace heddle::mpi {

std::size_t extent_of(const Pieces& pieces) {
    return pieces.count == 0 ? 0 : (pieces.count - 1) * pieces.tensor_stride + pieces.size;
}

Result<> in_parts(const Pieces& pieces, const EmitPart& emit) {
    if (pieces.size == 0) return ok();
    const std::size_t together = std::max<std::size_t>(kChunk / pieces.size, 1);
    for (std::size_t first = 0; first < pieces.count; first += together) {
        Pieces part = pieces;
        part.offset += first * pieces.tensor_stride;
        part.count = std::min(together, pieces.count - first);
        const std::size_t begin = first * pieces.host_stride;
        if (pieces.size <= kChunk) {
            HEDDLE_TRY(emit(part, begin));
            continue;
        }
        for (std::size_t done = 0; done < pieces.size; done += kChunk) {
            const std::size_t size = std::min(kChunk, pieces.size - done);
            HEDDLE_TRY(emit({part.offset + done, size, 1, 0, 0}, begin + done));
        }
    }
    return ok();
}

void put_pieces(ByteWriter& out, const Pieces& pieces) {
    for (const std::size_t value :
         {pieces.offset, pieces.size, pieces.count, pieces.tensor_stride}) {
        out.put(static_cast<std::uint64_t>(value));
    }
}

Result<Pieces> get_pieces(ByteReader& in, std::size_t bytes) {
    Pieces pieces{};
    pieces.offset = in.get<std::uint64_t>();
    pieces.size = pieces.host_stride = in.get<std::uint64_t>();
    pieces.count = in.get<std::uint64_t>();
    pieces.tensor_stride = in.get<std::uint64_t>();
    const auto is_inside = [&] {
        std::size_t past = 0;
        if (__builtin_mul_overflow(pieces.count - 1, pieces.tensor_stride, &past)) return false;
        if (__builtin_add_overflow(past, pieces.offset, &past)) return false;
        if (__builtin_add_overflow(past, pieces.size, &past)) return false;
        std::size_t total = 0;
        return past <= bytes && !__builtin_mul_overflow(pieces.count, pieces.size, &total) &&
               total <= SIZE_MAX / 2;
    };
    if (!in.ok() || pieces.count == 0 || pieces.size == 0 || !is_inside()) {
        return failure(Errc::corrupt, pieces.count, " pieces of ", pieces.size, " bytes from byte ",
                       pieces.offset, " on are not inside a tensor of ", bytes);
    }
    return pieces;
}

void put_content(ByteWriter& out, const Pieces& pieces, const std::byte* data) {
    if (pieces.count == 1) return put_packed(out, {data, pieces.size});
    std::byte* to = extend_plain(out, pieces.count * pieces.size);
    for (std::size_t i = 0; i < pieces.count; ++i, to += pieces.size) {
        std::memcpy(to, data + i * pieces.host_stride, pieces.size);
    }
}

}  // namespace heddle::mpi
