#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "backends/mpi/bytes.hpp"
#include "core/error.hpp"

/// Whether bytes here and bytes there are the same, without sending them.
namespace heddle::mpi {

using Digest = std::array<std::byte, 32>;

/// SHA-256, as FIPS 180-4 defines it.
Digest sha256(ByteView bytes);

/// Bytes of a leaf: what is hashed on its own. Several leaves are hashed side by side, one in each
/// lane of a vector, which one long message does not allow.
inline constexpr std::size_t kLeaf = std::size_t{16} << 10;

/// SHA-256 of each leaf of `bytes`, the last of which may be shorter, one behind the other.
void hash_leaves(ByteView bytes, std::span<Digest> leaves);

/// Gives `size` bytes from `at` on: where they are in memory, or `room` after they were put there.
/// Called by several threads at once.
using ReadBytes = std::function<Result<ByteView>(std::uint64_t at, std::size_t size, Bytes& room)>;

/// Of `size` bytes, by several threads: SHA-256 of the hashes of their leaves.
Result<Digest> digest_of(std::uint64_t size, const ReadBytes& read);
Result<Digest> digest_of(ByteView bytes);

inline Digest get_digest(ByteReader& in) {
    Digest digest{};
    const ByteView bytes = in.raw(digest.size());
    if (!bytes.empty()) std::memcpy(digest.data(), bytes.data(), digest.size());
    return digest;
}

}  // namespace heddle::mpi
