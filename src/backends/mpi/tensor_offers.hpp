#pragma once

#include <vector>

#include "backends/mpi/digest.hpp"

/// Weights that are in memory of the program, but in none of its mapped files: a worker may have
/// them in a file all the same.
namespace heddle::mpi {

/// What rank 0 says of such bytes. Few of them tell most others apart, without a look at all.
struct TensorOffer {
    static constexpr std::uint64_t kLeast = std::uint64_t{1} << 20;  ///< bytes worth a question
    static constexpr std::size_t kBegin = std::size_t{4} << 10;
    std::uint64_t size = 0;
    Digest begin{};  ///< SHA-256 of the first `kBegin` bytes
};

/// A tensor in a file there that begins like it. The digest is the worker's own: it need not be
/// believed what it has not been told.
struct TensorMatch {
    std::uint32_t file = 0;
    std::uint64_t place = 0;  ///< in the file
    Digest digest{};          ///< of all bytes, see digest.hpp
};

struct TensorMatches {
    static constexpr std::size_t kMost = 4;
    std::uint32_t known = 0;  ///< tensors that the worker has files of at all
    std::vector<TensorMatch> matches;
};

void put_offer(ByteWriter& out, const TensorOffer& offer);
Result<TensorOffer> get_offer(ByteReader& in);
void put_matches(ByteWriter& out, const TensorMatches& matches);
Result<TensorMatches> get_matches(ByteReader& in);

}  // namespace heddle::mpi
