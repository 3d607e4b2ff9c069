#include <algorithm>
#include <cfloat>
#include <cstddef>

#include "quant/lanes.hpp"
#include "quant/search.hpp"

// Searches of four groups at once.

namespace heddle::quant {
namespace {

/// The largest group of any format.
constexpr std::size_t kLongest = 32;

using Values = SideBySide<kLongest>;

/// Writes the codes of those of four groups that are there; `code(i)` gives element i of each, and
/// groups that are `empty` have zeros.
template <class Code>
void put_codes(std::span<std::uint8_t> codes, std::size_t size, std::size_t first, IntLanes empty,
               Code code) {
    const std::size_t groups = std::min(kLanes, codes.size() / size - first);
    for (std::size_t i = 0; i < size; ++i) {
        const IntLanes chosen = empty ? IntLanes{} : code(i);
        for (std::size_t lane = 0; lane < groups; ++lane) {
            codes[(first + lane) * size + i] = static_cast<std::uint8_t>(chosen[lane]);
        }
    }
}

// ---- symmetric ---------------------------------------------------------------------------------

/// Projections of four groups on their codes; see `Fit`.
struct FitLanes {
    FloatLanes along{}, square{};
};

class SymmetricSearch {
public:
    SymmetricSearch(std::span<const float> x, std::span<const float> weights, std::size_t size,
                    int half, std::size_t first)
        : size_(size), first_(first), half_(half), x_(x, size, first) {
        if (weights.empty()) {
            for (std::size_t i = 0; i < size; ++i) weights_[i] = x_[i] * x_[i];
        } else {
            weights_ = Values(weights, size, first);
        }
        search();
    }

    void put(std::span<std::uint8_t> codes, std::span<float> scales) const {
        const IntLanes empty = magnitude(extreme_) < kNothing;
        put_codes(codes, size_, first_, empty, [&](std::size_t i) {
            return to_ints(round_within(inverse_ * x_[i], -half_, half_ - 1)) + half_;
        });
        const std::size_t groups = std::min(kLanes, scales.size() - first_);
        for (std::size_t lane = 0; lane < groups; ++lane) {
            scales[first_ + lane] = empty[lane] != 0 ? 0 : scale_[lane];
        }
    }

private:
    void search() {
        FloatLanes largest{};
        for (std::size_t i = 0; i < size_; ++i) {
            const FloatLanes size = magnitude(x_[i]);
            extreme_ = size > largest ? x_[i] : extreme_;
            largest = size > largest ? size : largest;
        }
        const float levels = static_cast<float>(half_);
        inverse_ = -levels / extreme_;
        const FitLanes start = fit(inverse_);
        scale_ = start.square != 0 ? start.along / start.square : FloatLanes{};
        FloatLanes best = scale_ * start.along;
        for (int k = -9; k <= 9; ++k) {
            if (k == 0) continue;
            const FloatLanes r = -(levels + 0.1f * static_cast<float>(k)) / extreme_;
            const FitLanes next = fit(r);
            const IntLanes better =
                (next.square > 0) & (next.along * next.along > best * next.square);
            scale_ = better ? next.along / next.square : scale_;
            best = better ? scale_ * next.along : best;
            inverse_ = better ? r : inverse_;
        }
    }

    FitLanes fit(FloatLanes r) const {
        FitLanes fit;
        for (std::size_t i = 0; i < size_; ++i) {
            const FloatLanes code = round_within(r * x_[i], -half_, half_ - 1);
            fit.along += weights_[i] * x_[i] * code;
            fit.square += weights_[i] * code * code;
        }
        return fit;
    }

    const std::size_t size_, first_;
    const int half_;
    Values x_, weights_;
    FloatLanes extreme_{}, scale_{};
    FloatLanes inverse_{};  ///< that codes are chosen with
};

// ---- affine ------------------------------------------------------------------------------------

/// Sums over groups that fix the best straight line through given codes, scale * q + low.
struct LineLanes {
    FloatLanes w, x;             ///< sums of w and w * x
    FloatLanes q{}, qq{}, qx{};  ///< sums of w * q, w * q * q, w * q * x
    FloatLanes scale{}, low{};

    /// Not where the codes do not fix a line.
    IntLanes solve() {
        const FloatLanes determinant = w * qq - q * q;
        scale = (w * qx - x * q) / determinant;
        low = (qq * x - q * qx) / determinant;
        const IntLanes is_above = low > 0;
        low = is_above ? FloatLanes{} : low;
        scale = is_above ? qx / qq : scale;
        return determinant > 0;
    }
};

class AffineSearch {
public:
    AffineSearch(std::span<const float> x, std::span<const float> weights, std::size_t size,
                 int max_code, const AffineTrials& trials, std::size_t first)
        : size_(size),
          first_(first),
          max_code_(max_code),
          trials_(trials),
          x_(x, size, first),
          weights_(weights, size, first) {
        search();
    }

    void put(std::span<std::uint8_t> codes, std::span<Affine> found) const {
        const IntLanes empty = ~(high_ > lowest_);
        put_codes(codes, size_, first_, empty,
                  [&](std::size_t i) { return to_ints(code_at(inverse_, start_, i)); });
        const std::size_t groups = std::min(kLanes, found.size() - first_);
        for (std::size_t lane = 0; lane < groups; ++lane) {
            found[first_ + lane] =
                empty[lane] != 0 ? Affine{0, -lowest_[lane]} : Affine{scale_[lane], -low_[lane]};
        }
    }

private:
    /// Where the range is so small that this is infinite, all codes are 0.
    static FloatLanes usable(FloatLanes r) { return r > FLT_MAX ? FloatLanes{} : r; }

    FloatLanes code_at(FloatLanes r, FloatLanes low, std::size_t i) const {
        return round_within(r * (x_[i] - low), 0, max_code_);
    }

    void search() {
        FloatLanes low = x_[0], sum_w{}, sum_x{};
        high_ = x_[0];
        for (std::size_t i = 0; i < size_; ++i) {
            low = x_[i] < low ? x_[i] : low;
            high_ = high_ < x_[i] ? x_[i] : high_;
            sum_w += weights_[i];
            sum_x += weights_[i] * x_[i];
        }
        lowest_ = low_ = start_ = low > 0 ? FloatLanes{} : low;

        const float levels = static_cast<float>(max_code_);
        const FloatLanes first = levels / (high_ - low_);
        scale_ = 1 / first;
        inverse_ = usable(first);
        Values codes;
        for (std::size_t i = 0; i < size_; ++i) codes[i] = code_at(inverse_, low_, i);
        FloatLanes least = error(scale_, low_, codes);
        for (int k = 0; k <= trials_.last; ++k) {
            // `low_` moves with every line accepted, and the later trials start from there.
            const float wanted = trials_.first + trials_.step * static_cast<float>(k) + levels;
            const FloatLanes r = usable(wanted / (high_ - low_));
            LineLanes line{.w = sum_w, .x = sum_x};
            for (std::size_t i = 0; i < size_; ++i) {
                const FloatLanes q = codes[i] = code_at(r, low_, i);
                line.q += weights_[i] * q;
                line.qq += weights_[i] * q * q;
                line.qx += weights_[i] * q * x_[i];
            }
            const IntLanes is_line = line.solve();
            const FloatLanes lost = error(line.scale, line.low, codes);
            const IntLanes better = is_line & (lost < least);
            least = better ? lost : least;
            scale_ = better ? line.scale : scale_;
            inverse_ = better ? r : inverse_;
            start_ = better ? low_ : start_;
            low_ = better ? line.low : low_;
        }
    }

    FloatLanes error(FloatLanes scale, FloatLanes low, const Values& codes) const {
        FloatLanes sum{};
        for (std::size_t i = 0; i < size_; ++i) {
            const FloatLanes off = scale * codes[i] + low - x_[i];
            sum += weights_[i] * (trials_.squared ? off * off : magnitude(off));
        }
        return sum;
    }

    const std::size_t size_, first_;
    const int max_code_;
    const AffineTrials& trials_;
    const Values x_, weights_;
    FloatLanes high_{}, lowest_{};
    FloatLanes scale_{}, low_{};      ///< the best line
    FloatLanes inverse_{}, start_{};  ///< that its codes are chosen with
};

}  // namespace

void search_symmetric(std::span<const float> x, std::span<const float> weights, std::size_t size,
                      int half, std::span<std::uint8_t> codes, std::span<float> scales) {
    for (std::size_t first = 0; first < scales.size(); first += kLanes) {
        SymmetricSearch(x, weights, size, half, first).put(codes, scales);
    }
}

float search_symmetric(std::span<const float> x, std::span<const float> weights, int half,
                       std::span<std::uint8_t> codes) {
    float scale = 0;
    search_symmetric(x, weights, x.size(), half, codes.first(x.size()), {&scale, 1});
    return scale;
}

void search_affine(std::span<const float> x, std::span<const float> weights, std::size_t size,
                   int max_code, const AffineTrials& trials, std::span<std::uint8_t> codes,
                   std::span<Affine> found) {
    for (std::size_t first = 0; first < found.size(); first += kLanes) {
        AffineSearch(x, weights, size, max_code, trials, first).put(codes, found);
    }
}

}  // namespace heddle::quant
