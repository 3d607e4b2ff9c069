#include "bench/ceilings.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/ceiling_kernels.hpp"
#include "bench/measure.hpp"
#include "interrupt.hpp"

namespace heddle::tool::bench {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kGrain = 1024;  ///< of parts of an array that threads take
constexpr std::size_t kNear = 4 * kMiB;

}  // namespace

Ceilings::Ceilings(bool quick, std::size_t most_bytes)
    : seconds_(quick ? 0.03 : 0.2),
      most_bytes_(std::clamp(std::bit_floor(most_bytes), kMiB, 1024 * kMiB)) {}

void Ceilings::Free::operator()(std::byte* memory) const { std::free(memory); }

std::byte* Ceilings::array(std::size_t bytes) {
    if (bytes > array_bytes_) {
        array_.reset();
        array_bytes_ = 0;
        array_.reset(static_cast<std::byte*>(std::aligned_alloc(2 * kMiB, most_bytes_)));
        if (array_ == nullptr) return nullptr;
        std::memset(array_.get(), 1, most_bytes_);
        array_bytes_ = most_bytes_;
    }
    return array_.get();
}

double Ceilings::best_rate(int threads, const std::function<double(int, std::size_t)>& body) const {
    // Long enough for the clock, short enough that other programs do not always get between.
    constexpr double kLongEnough = 0.001;
    constexpr int kLeastRuns = 2;
    std::vector<double> done(static_cast<std::size_t>(threads));
    double best = 0;
    std::size_t rounds = 1;
    int runs = 0;
    for (const double begin = now(); now() - begin < seconds_ || runs < kLeastRuns;) {
        if (is_interrupted() && runs > 0) break;
        const double took = run_together(threads, [&](int thread) {
            done[static_cast<std::size_t>(thread)] = body(thread, rounds);
        });
        if (took < kLongEnough / 2) {
            rounds *= took < kLongEnough / 20 ? 8 : 2;
            continue;
        }
        double all = 0;
        for (const double part : done) all += part;
        best = std::max(best, all / took);
        ++runs;
    }
    return best;
}

double Ceilings::measure_peak_f32(int threads) {
    const double now =
        best_rate(threads, [](int, std::size_t rounds) { return multiply_add_f32(rounds); });
    double& best = peaks_[{threads, sizeof(float)}];
    best = std::max(best, now);
    return now;
}

double Ceilings::peak_f32(int threads) {
    const double known = peaks_[{threads, sizeof(float)}];
    return known > 0 ? known : measure_peak_f32(threads);
}

double Ceilings::peak_i8(int threads) {
    double& peak = peaks_[{threads, sizeof(std::int8_t)}];
    if (peak == 0) {
        peak = best_rate(threads, [](int, std::size_t rounds) { return multiply_add_i8(rounds); });
    }
    return peak;
}

double Ceilings::bandwidth(int threads, std::size_t bytes, bool copy) {
    std::byte* const all = array(bytes);
    const auto count = static_cast<std::size_t>(threads);
    const std::size_t part = bytes / count / kGrain * kGrain;  // of the array, for one thread
    if (all == nullptr || part == 0) return 0;
    return best_rate(threads, [&](int thread, std::size_t rounds) {
        std::byte* const own = all + static_cast<std::size_t>(thread) * part;
        for (std::size_t round = 0; round < rounds; ++round) {
            if (copy) {
                std::memcpy(own + part / 2, own, part / 2);
                continue;
            }
            // The places that are read from together lie near each other: far ones may be in the
            // same bank of a memory chip.
            for (std::size_t at = 0; at < part; at += kNear) {
                read_all(own + at, std::min(kNear, part - at));
            }
        }
        return static_cast<double>(part) * static_cast<double>(rounds);
    });
}

std::size_t Ceilings::rounded(std::size_t bytes) const {
    bytes = std::clamp(bytes, 8 * kGrain, most_bytes_);
    const std::size_t unit = std::bit_floor(bytes) / 8;
    return bytes / unit * unit;
}

double Ceilings::measure_read(int threads, std::size_t bytes) {
    const double now = bandwidth(threads, rounded(bytes), false);
    double& best = reads_[{threads, rounded(bytes)}];
    best = std::max(best, now);
    return now;
}

double Ceilings::read(int threads, std::size_t bytes) {
    const double known = reads_[{threads, rounded(bytes)}];
    return known > 0 ? known : measure_read(threads, bytes);
}

double Ceilings::measure_copy(int threads, std::size_t bytes) {
    const double now = bandwidth(threads, rounded(bytes), true);
    double& best = copies_[{threads, rounded(bytes)}];
    best = std::max(best, now);
    return now;
}

double Ceilings::copy(int threads, std::size_t bytes) {
    const double known = copies_[{threads, rounded(bytes)}];
    return known > 0 ? known : measure_copy(threads, bytes);
}

}  // namespace heddle::tool::bench
