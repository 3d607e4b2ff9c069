#include "backends/mpi/delta.hpp"

#include <algorithm>

namespace heddle::mpi {
namespace {

/// Ranges that are as close as this are one: each begins with its place and its size.
constexpr std::size_t kGap = 2 * sizeof(std::uint32_t);

/// The first place from `at` on where the two differ; the length of both if there is none.
std::size_t next_difference(ByteView base, ByteView next, std::size_t at) {
    const auto rest = next.subspan(at);
    const auto found = std::ranges::mismatch(base.subspan(at), rest).in2;
    return at + static_cast<std::size_t>(found - rest.begin());
}

}  // namespace

void put_delta(ByteWriter& out, ByteView base, ByteView next) {
    for (std::size_t begin = next_difference(base, next, 0); begin < next.size();) {
        std::size_t end = begin + 1;
        std::size_t following = next_difference(base, next, end);
        while (following < next.size() && following - end <= kGap) {
            end = following + 1;
            following = next_difference(base, next, end);
        }
        out.put(static_cast<std::uint32_t>(begin));
        out.put(static_cast<std::uint32_t>(end - begin));
        out.raw(next.subspan(begin, end - begin));
        begin = following;
    }
}

Result<Bytes> apply_delta(ByteView base, ByteReader& in) {
    Bytes next(base.begin(), base.end());
    std::size_t done = 0;
    while (in.left() > 0) {
        const std::size_t begin = in.get<std::uint32_t>(), size = in.get<std::uint32_t>();
        const ByteView bytes = in.raw(size);
        if (!in.ok() || begin < done || begin > next.size() || size > next.size() - begin) {
            return failure(Errc::corrupt, "a change of ", size, " bytes at byte ", begin, " of ",
                           next.size());
        }
        std::ranges::copy(bytes, next.begin() + static_cast<std::ptrdiff_t>(begin));
        done = begin + size;
    }
    return next;
}

}  // namespace heddle::mpi
