#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "quant/neighbours.hpp"
#include "quant/rounding.hpp"

/// How the encoders of the grid formats find scales and codebook rows. Level code c stands for the
/// magnitude scale * (2c + 1); signs are kept apart. All sums are single precision, in index order.
namespace heddle::quant {

/// What follows when the best trial is known: its rows are chosen once more at the scale found.
enum class Refit {
    always,           ///< all groups
    off_grid,         ///< the groups whose codes were no row
    all_if_off_grid,  ///< all groups, if the codes of one were no row
};

/// What is found for the elements that share a scale.
struct GridChoice {
    float scale = 0;
    std::array<std::uint16_t, 8> rows{};  ///< one per group
    std::array<std::uint8_t, 4> signs{};  ///< one byte per eight elements; bit set: negative
};

/// Sums of a least squares fit of x by scale * q.
struct GridFit {
    float along = 0;   ///< sum of w x q
    float square = 0;  ///< sum of w q q

    void add(float w, float x, float q) {
        along += w * x * q;
        square += w * q * q;
    }
    float scale() const { return along / square; }

    /// Whether the squared error is below that of a fit which explains `best` of it.
    bool beats(float best) const { return square > 0 && along * along > best * square; }
};

/// What each element of a group costs with each code.
template <std::size_t kElements, std::size_t kLevels>
using RowCosts = std::array<std::array<float, kLevels>, kElements>;

/// The row that costs least, the first of them where several do. `candidates` is not empty.
template <std::size_t kElements, std::size_t kLevels>
std::uint16_t cheapest_row(const RowCosts<kElements, kLevels>& costs,
                           std::span<const std::uint16_t> candidates, const Codebook& book) {
    std::uint16_t best = candidates.front();
    float least = std::numeric_limits<float>::max();
    for (const std::uint16_t row : candidates) {
        const std::int8_t* codes = book.codes_of(row);
        float cost = 0;
        for (std::size_t j = 0; j < kElements; ++j) {
            cost += costs[j][static_cast<unsigned char>(codes[j])];
        }
        if (cost < least) least = cost, best = row;
    }
    return best;
}

/// The search for one sub-block. `Format` says what differs between the formats:
///     type, sub_block (elements that share a scale), group (elements of a row), levels,
///     even_signs (the eighth sign of a group follows from the others), nothing (magnitudes below
///     are zero), trials and step (scales tried around the first guess), refit,
///     reference(magnitudes, weights, most) (what the first guess maps to the highest level).
template <class Format>
class GridSearch {
public:
    using Choice = GridChoice;

    explicit GridSearch(const Neighbours& neighbours)
        : book_(codebook_of(Format::type)), neighbours_(neighbours) {}

    /// `x` and `weights` have Format::sub_block elements.
    GridChoice operator()(const float* x, const float* weights) {
        GridChoice choice;
        weights_ = weights;
        for (int i = 0; i < kSize; ++i) roots_[at(i)] = std::sqrt(weights[i]);
        for (int i = 0; i < kSize; i += 8) choice.signs[at(i / 8)] = take_signs(x + i, i);

        float most = magnitudes_[0];
        for (const float u : magnitudes_) most = u > most ? u : most;
        if (most < Format::nothing) return {};
        const float reference = Format::reference(magnitudes_, {weights, at(kSize)}, most);
        if (reference <= 0) return {};

        search(reference, choice);
        if (choice.scale < 0) {
            choice.scale = -choice.scale;
            for (std::uint8_t& signs : choice.signs) signs = static_cast<std::uint8_t>(~signs);
        }
        return choice;
    }

private:
    static constexpr int kSize = Format::sub_block;
    static constexpr int kGroups = kSize / Format::group;

    struct Rows {
        std::array<std::uint16_t, 8> row{};
        std::array<bool, 8> on_grid{};
    };

    static constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

    /// Splits eight elements from `start` on into magnitudes and signs. Where the number of signs
    /// must be even, the element that matters least goes wrong: its magnitude becomes negative.
    std::uint8_t take_signs(const float* x, int start) {
        unsigned signs = 0;
        for (int j = 0; j < 8; ++j) {
            magnitudes_[at(start + j)] = std::abs(x[j]);
            if (x[j] < 0) signs |= 1u << j;
        }
        if (!Format::even_signs || std::popcount(signs) % 2 == 0) {
            return static_cast<std::uint8_t>(signs);
        }
        int least = 0;
        float loss = weights_[start] * x[0] * x[0];
        for (int j = 1; j < 8; ++j) {
            const float other = weights_[start + j] * x[j] * x[j];
            if (other < loss) loss = other, least = j;
        }
        magnitudes_[at(start + least)] = -magnitudes_[at(start + least)];
        return static_cast<std::uint8_t>(signs ^ 1u << least);
    }

    /// Tries scales that map `reference` to about the highest level and keeps the best.
    void search(float reference, GridChoice& choice) {
        constexpr float kHighest = 2 * Format::levels - 1;
        float best = 0;
        Rows found;
        for (int k = -Format::trials; k <= Format::trials; ++k) {
            const float inverse = (kHighest + Format::step * static_cast<float>(k)) / reference;
            Rows rows;
            for (int g = 0; g < kGroups; ++g) choose(g, inverse, 1 / inverse, rows);
            const GridFit fit = fit_of(rows);
            if (!fit.beats(best)) continue;
            choice.scale = fit.scale();
            best = choice.scale * fit.along;
            found = rows;
        }
        refit(found, choice.scale);
        choice.rows = found.row;
    }

    void refit(Rows& rows, float& scale) const {
        if (!(scale > 0)) return;
        int off_grid = 0;
        for (int g = 0; g < kGroups; ++g) off_grid += rows.on_grid[at(g)] ? 0 : 1;
        if (off_grid == 0 && Format::refit != Refit::always) return;

        const float inverse = 1 / scale;
        for (int g = 0; g < kGroups; ++g) {
            if (Format::refit == Refit::off_grid && rows.on_grid[at(g)]) continue;
            choose(g, inverse, scale, rows);
        }
        const GridFit fit = fit_of(rows);
        if (fit.square > 0) scale = fit.scale();
    }

    /// The row of group `g` at a scale: that of the nearest codes, or the best of those near them.
    void choose(int g, float inverse, float scale, Rows& rows) const {
        const float* u = magnitudes_.data() + g * Format::group;
        std::size_t point = 0;
        for (int j = Format::group - 1; j >= 0; --j) {
            const int code =
                clamp_to(round_even(0.5f * (inverse * u[j] - 1)), 0, Format::levels - 1);
            point = point * Format::levels + at(code);
        }
        const int row = neighbours_.row_of(point);
        rows.on_grid[at(g)] = row >= 0;
        rows.row[at(g)] = row >= 0 ? static_cast<std::uint16_t>(row) : best_near(point, g, scale);
    }

    std::uint16_t best_near(std::size_t point, int g, float scale) const {
        RowCosts<Format::group, Format::levels> costs;
        for (int j = 0; j < Format::group; ++j) {
            const std::size_t i = at(g * Format::group + j);
            for (int code = 0; code < Format::levels; ++code) {
                const float off = scale * static_cast<float>(2 * code + 1) - magnitudes_[i];
                costs[at(j)][at(code)] = roots_[i] * off * off;
            }
        }
        return cheapest_row(costs, neighbours_.near(point), book_);
    }

    GridFit fit_of(const Rows& rows) const {
        GridFit fit;
        for (int g = 0; g < kGroups; ++g) {
            const std::int8_t* codes = book_.codes_of(rows.row[at(g)]);
            for (int j = 0; j < Format::group; ++j) {
                const int i = g * Format::group + j;
                fit.add(weights_[i], magnitudes_[at(i)], static_cast<float>(2 * codes[j] + 1));
            }
        }
        return fit;
    }

    const Codebook& book_;
    const Neighbours& neighbours_;
    const float* weights_ = nullptr;
    std::array<float, at(kSize)> roots_{};
    std::array<float, at(kSize)> magnitudes_{};
};

}  // namespace heddle::quant
