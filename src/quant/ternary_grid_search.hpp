#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "quant/grid_search.hpp"

/// How the encoders of IQ1_S and IQ1_M find scales, shifts and codebook rows. A row's code c stands
/// for scale * (c - 1 + shift), and the shift is +1/8 or -1/8.
namespace heddle::quant {

inline constexpr float kTernaryShift = 0.125f;

/// The level of a code.
inline float ternary_level(int code, bool down) {
    return static_cast<float>(code - 1) + (down ? -kTernaryShift : kTernaryShift);
}

/// What is found for the elements that share a scale.
struct TernaryChoice {
    float scale = 0;
    std::array<std::uint16_t, 4> rows{};  ///< one per eight elements
    std::array<bool, 4> down{};           ///< whether the shift of the row is negative
};

/// The search for one sub-block. `Format` says what differs between the two:
///     sub_block (elements that share a scale), shift_size (elements that share a shift),
///     nothing (magnitudes below are zero).
template <class Format>
class TernarySearch {
public:
    using Choice = TernaryChoice;

    explicit TernarySearch(const Neighbours& neighbours)
        : book_(codebook_of(GGML_TYPE_IQ1_S)), neighbours_(neighbours) {}

    /// `x` and `weights` have Format::sub_block elements.
    TernaryChoice operator()(const float* x, const float* weights) {
        x_ = x, weights_ = weights;
        float most = 0;
        for (int i = 0; i < kSize; ++i) most = std::max(most, std::abs(x[i]));
        if (most < Format::nothing) return {};
        sum_up_sorted();
        const Cut cut = best_cut();
        return cut.found ? to_rows(cut) : TernaryChoice{};
    }

private:
    static constexpr int kSize = Format::sub_block;
    static constexpr int kGroups = kSize / 8;
    static constexpr int kShifts = kSize / Format::shift_size;  ///< in a sub-block
    static constexpr unsigned kShiftChoices = 1u << kShifts;

    /// Sorted elements before `low` get level -1, those before `high` level 0, the rest +1.
    struct Cut {
        int low = 0, high = 0;
        unsigned shifts = 0;  ///< first shift in the highest bit; set: negative
        float scale = 0;
        bool found = false;
    };

    static constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

    static bool is_down(unsigned shifts, int index) {
        return (shifts >> (kShifts - 1 - index) & 1u) != 0;
    }

    /// Sums of w and of w x over the first elements in ascending order, for every shift apart, so
    /// that judging a cut takes a few steps however many elements there are.
    void sum_up_sorted() {
        std::iota(order_.begin(), order_.end(), 0);
        std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) { return x_[a] < x_[b]; });
        for (int i = 0; i < kSize; ++i) {
            sums_[at(i + 1)] = sums_[at(i)];
            const int element = order_[at(i)];
            Sums& sums = sums_[at(i + 1)][at(element / Format::shift_size)];
            sums.w += weights_[element];
            sums.wx += weights_[element] * x_[element];
        }
    }

    Cut best_cut() const {
        Cut best;
        float explained = -std::numeric_limits<float>::max();
        for (int low = 0; low <= kSize; ++low) {
            for (int high = low; high <= kSize; ++high) {
                for (unsigned shifts = 0; shifts < kShiftChoices; ++shifts) {
                    const GridFit fit = fit_of(low, high, shifts);
                    if (!fit.beats(explained)) continue;
                    best = {low, high, shifts, fit.scale(), true};
                    explained = best.scale * fit.along;
                }
            }
        }
        return best;
    }

    GridFit fit_of(int low, int high, unsigned shifts) const {
        GridFit fit;
        for (int s = 0; s < kShifts; ++s) {
            const float shift = ternary_level(1, is_down(shifts, s));
            const Sums& first = sums_[at(low)][at(s)];
            const Sums& second = sums_[at(high)][at(s)];
            const Sums& all = sums_[at(kSize)][at(s)];
            add(first.w, first.wx, shift - 1, fit);
            add(second.w - first.w, second.wx - first.wx, shift, fit);
            add(all.w - second.w, all.wx - second.wx, shift + 1, fit);
        }
        return fit;
    }

    /// Adds elements of the same level at once.
    static void add(float w, float wx, float level, GridFit& fit) {
        fit.along += wx * level;
        fit.square += w * level * level;
    }

    TernaryChoice to_rows(const Cut& cut) const {
        std::array<int, at(kSize)> codes;
        for (int i = 0; i < kSize; ++i) {
            codes[at(order_[at(i)])] = i < cut.low ? 0 : i < cut.high ? 1 : 2;
        }
        TernaryChoice choice;
        choice.scale = std::abs(cut.scale);
        const bool mirror = cut.scale < 0;
        bool all_rows = true;
        for (int g = 0; g < kGroups; ++g) {
            choice.down[at(g)] = is_down(cut.shifts, 8 * g / Format::shift_size) != mirror;
            std::size_t point = 0;
            for (int j = 7; j >= 0; --j) {
                const int code = codes[at(8 * g + j)];
                point = 3 * point + at(mirror ? 2 - code : code);
            }
            const int row = neighbours_.row_of(point);
            all_rows = all_rows && row >= 0;
            choice.rows[at(g)] = row >= 0 ? static_cast<std::uint16_t>(row)
                                          : best_near(point, g, choice.scale, choice.down[at(g)]);
        }
        if (!all_rows) refit(choice);
        return choice;
    }

    std::uint16_t best_near(std::size_t point, int g, float scale, bool down) const {
        RowCosts<8, 3> costs;
        for (int j = 0; j < 8; ++j) {
            const int i = 8 * g + j;
            for (int code = 0; code < 3; ++code) {
                const float off = scale * ternary_level(code, down) - x_[i];
                costs[at(j)][at(code)] = weights_[i] * off * off;
            }
        }
        return cheapest_row(costs, neighbours_.near(point), book_);
    }

    void refit(TernaryChoice& choice) const {
        GridFit fit;
        for (int i = 0; i < kSize; ++i) {
            const auto code =
                static_cast<unsigned char>(book_.codes_of(choice.rows[at(i / 8)])[i % 8]);
            fit.add(weights_[i], x_[i], ternary_level(code, choice.down[at(i / 8)]));
        }
        if (fit.along > 0 && fit.square > 0) choice.scale = fit.scale();
    }

    struct Sums {
        float w = 0, wx = 0;
    };

    const Codebook& book_;
    const Neighbours& neighbours_;
    const float* x_ = nullptr;
    const float* weights_ = nullptr;
    std::array<int, at(kSize)> order_{};  // elements in ascending order
    std::array<std::array<Sums, at(kShifts)>, at(kSize + 1)> sums_{};
};

}  // namespace heddle::quant
