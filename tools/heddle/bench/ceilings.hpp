#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace heddle::tool::bench {

/// What the processor can do at most, measured here and now. All figures are per second.
///
/// Each is measured when it is first asked for. `measure_*` do so again, give what it is now, and
/// keep the better one, so that a moment in which other programs had the processor does not decide.
class Ceilings {
public:
    /// Arrays are at most `most_bytes` long.
    Ceilings(bool quick, std::size_t most_bytes);

    double peak_f32(int threads);  ///< operations; a multiplication with its addition counts as two
    double peak_i8(int threads);   ///< the same, of 8-bit integers

    /// Bytes read where threads read an array of that size, again and again.
    double read(int threads, std::size_t bytes);
    /// Bytes read and written where one half of an array is copied to the other.
    double copy(int threads, std::size_t bytes);

    /// What memory gives: reading an array of 1 GiB, or as much as there is room for.
    double memory(int threads) { return read(threads, memory_bytes()); }
    std::size_t memory_bytes() const { return most_bytes_; }

    double measure_peak_f32(int threads);
    double measure_read(int threads, std::size_t bytes);
    double measure_copy(int threads, std::size_t bytes);

private:
    using Key = std::pair<int, std::size_t>;
    struct Free {
        void operator()(std::byte* memory) const;
    };

    /// The best rate of `body(thread, rounds)`, which gives how much it did.
    double best_rate(int threads, const std::function<double(int, std::size_t)>& body) const;
    /// An array of that size that has been written to; null if there is no memory.
    std::byte* array(std::size_t bytes);
    double bandwidth(int threads, std::size_t bytes, bool copy);
    /// Sizes that hardly differ are the same.
    std::size_t rounded(std::size_t bytes) const;

    double seconds_;  ///< to go on for one figure
    std::size_t most_bytes_;
    std::unique_ptr<std::byte, Free> array_;
    std::size_t array_bytes_ = 0;
    std::map<Key, double> peaks_, reads_, copies_;
};

}  // namespace heddle::tool::bench
