#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "backends/mpi/client/cluster.hpp"
#include "backends/mpi/tensor_offers.hpp"

namespace heddle::mpi {

/// Weights that a program has read into its memory: a worker with files is asked for a tensor that
/// begins so, and what it has is compared by its digest.
///
/// By default only workers on other machines are asked, and only as long as that takes little more
/// time than it spares. A core hashes 1.8 GB/s (AVX-512), both sides at the same time or one after
/// the other: more than 10 Gb/s carry, less than processes of one machine send each other.
class DigestOffers {
public:
    DigestOffers(Cluster& cluster, int rank);

    /// Where the worker has these bytes itself. `knows_files`: whether it has files of this
    /// machine's, besides folders of its own.
    std::optional<TensorMatch> find(ByteView bytes, bool knows_files);

private:
    bool is_worth_it() const { return spent_ <= spared_ + kPatience; }
    std::optional<TensorMatch> ask(ByteView bytes);

    static constexpr double kPatience = 10;  ///< seconds: the worker looks through folders first

    Cluster& cluster_;
    const int rank_;
    const bool is_elsewhere_;        ///< it runs on another machine
    const double bytes_per_second_;  ///< of the way there
    std::mutex lock_;
    double spent_ = 0, spared_ = 0;  ///< seconds so far
    bool knew_files_ = false;        ///< the last time it was asked
    bool has_none_ = false;          ///< it had no tensors at all, or did not answer
};

}  // namespace heddle::mpi
