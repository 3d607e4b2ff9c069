#include "quant/search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "quant/rounding.hpp"

namespace heddle::quant {
namespace {

/// No search sees more elements than this: the largest sub-block of any format.
constexpr std::size_t kLongest = 32;

/// Below this a group of values counts as zeros.
constexpr float kNothing = 1e-15f;

/// Sweeps over the codes after which refinement stops even if it still gains.
constexpr int kSweeps = 5;

/// Projection of the values on the codes, weighted. Its error falls as along^2 / square grows.
struct Fit {
    float along = 0;   ///< sum of w * x * code
    float square = 0;  ///< sum of w * code * code

    void add(float w, float x, float code) {
        along += w * x * code;
        square += w * code * code;
    }
    Fit without(float w, float x, float code) const {
        return {along - w * x * code, square - w * code * code};
    }
    Fit with(float w, float x, float code) const {
        return {along + w * x * code, square + w * code * code};
    }
    bool better_than(const Fit& other) const {
        return along * along * other.square > other.along * other.along * square;
    }
    float scale() const { return square > 0 ? along / square : 0; }
};

/// The fit of symmetric codes at inverse scale `r`; writes the codes.
Fit fit_symmetric(std::span<const float> x, std::span<const float> weights, int half, float r,
                  std::span<std::uint8_t> codes) {
    Fit fit;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const int code = clamp_to(round_even(r * x[i]), -half, half - 1);
        codes[i] = static_cast<std::uint8_t>(code + half);
        const float w = weights.empty() ? x[i] * x[i] : weights[i];
        fit.add(w, x[i], static_cast<float>(code));
    }
    return fit;
}

/// Weighted squared error of values taken as codes at inverse scale `r`.
template <class Rounded>
float positive_error(std::span<const float> x, std::span<const float> weights, float r,
                     Rounded rounded) {
    const float scale = 1 / r;
    float error = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const float off = x[i] - scale * static_cast<float>(rounded(r * x[i]));
        error += weights[i] * off * off;
    }
    return error;
}

}  // namespace

float extreme_of(std::span<const float> x) {
    float largest = 0, extreme = 0;
    for (const float value : x) {
        const float magnitude = std::fabs(value);
        if (magnitude > largest) {
            largest = magnitude;
            extreme = value;
        }
    }
    return extreme;
}

void weigh(std::span<const float> x, std::span<const float> importance, float energy,
           std::span<float> weights) {
    for (std::size_t i = 0; i < x.size(); ++i)
        weights[i] = importance[i] * std::sqrt(energy + x[i] * x[i]);
}

float search_symmetric(std::span<const float> x, std::span<const float> weights, int half,
                       std::span<std::uint8_t> codes) {
    const float extreme = extreme_of(x);
    if (std::fabs(extreme) < kNothing) {
        std::fill_n(codes.begin(), x.size(), std::uint8_t{0});
        return 0;
    }
    const float levels = static_cast<float>(half);
    const Fit start = fit_symmetric(x, weights, half, -levels / extreme, codes);
    float scale = start.square != 0 ? start.along / start.square : 0;
    float best = scale * start.along;

    std::array<std::uint8_t, kLongest> trial;
    for (int k = -9; k <= 9; ++k) {
        if (k == 0) continue;
        const float r = -(levels + 0.1f * static_cast<float>(k)) / extreme;
        const Fit fit = fit_symmetric(x, weights, half, r, trial);
        if (fit.square > 0 && fit.along * fit.along > best * fit.square) {
            scale = fit.along / fit.square;
            best = scale * fit.along;
            std::copy_n(trial.begin(), x.size(), codes.begin());
        }
    }
    return scale;
}

float refine_symmetric(std::span<const float> x, int half, std::span<std::uint8_t> codes) {
    const float extreme = extreme_of(x);
    if (std::fabs(extreme) < kNothing) {
        std::fill_n(codes.begin(), x.size(), std::uint8_t{0});
        return 0;
    }
    Fit fit = fit_symmetric(x, {}, half, -static_cast<float>(half) / extreme, codes);
    bool changed = true;
    for (int sweep = 0; sweep < kSweeps && changed; ++sweep) {
        changed = false;
        for (std::size_t i = 0; i < x.size(); ++i) {
            const float w = x[i] * x[i];
            const int old = codes[i] - half;
            const Fit rest = fit.without(w, x[i], static_cast<float>(old));
            if (!(rest.along > 0)) continue;
            const int code = clamp_to(round_even(x[i] * rest.square / rest.along), -half, half - 1);
            if (code == old) continue;
            const Fit next = rest.with(w, x[i], static_cast<float>(code));
            if (next.square > 0 && next.better_than(fit)) {
                codes[i] = static_cast<std::uint8_t>(code + half);
                fit = next;
                changed = true;
            }
        }
    }
    return fit.scale();
}

namespace {

/// Sums over a group that fix the best straight line through given codes.
struct Line {
    float w = 0, x = 0;           ///< sums of w and w * x
    float q = 0, qq = 0, qx = 0;  ///< sums of w * q, w * q * q, w * q * x
    float scale = 0, low = 0;     ///< the line: scale * q + low

    /// False where the codes do not fix a line.
    bool solve() {
        const float determinant = w * qq - q * q;
        if (!(determinant > 0)) return false;
        scale = (w * qx - x * q) / determinant;
        low = (qq * x - q * qx) / determinant;
        if (low > 0) {
            low = 0;
            scale = qx / qq;
        }
        return true;
    }
};

float affine_error(std::span<const float> x, std::span<const float> weights, bool squared,
                   float scale, float low, std::span<const std::uint8_t> codes) {
    float error = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const float off = scale * static_cast<float>(codes[i]) + low - x[i];
        error += weights[i] * (squared ? off * off : std::fabs(off));
    }
    return error;
}

}  // namespace

Affine search_affine(std::span<const float> x, std::span<const float> weights, int max_code,
                     const AffineTrials& trials, std::span<std::uint8_t> codes) {
    float low = x[0], high = x[0], sum_w = 0, sum_x = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        low = std::min(low, x[i]);
        high = std::max(high, x[i]);
        sum_w += weights[i];
        sum_x += weights[i] * x[i];
    }
    low = std::min(low, 0.0f);
    if (!(high > low)) {
        std::fill_n(codes.begin(), x.size(), std::uint8_t{0});
        return {0, -low};
    }
    const float levels = static_cast<float>(max_code);
    const auto code_at = [&](float r, float value) {
        return static_cast<std::uint8_t>(clamp_to(round_even(r * (value - low)), 0, max_code));
    };

    const float start = levels / (high - low);
    float scale = 1 / start;
    for (std::size_t i = 0; i < x.size(); ++i) codes[i] = code_at(start, x[i]);
    float least = affine_error(x, weights, trials.squared, scale, low, codes);

    std::array<std::uint8_t, kLongest> trial;
    for (int k = 0; k <= trials.last; ++k) {
        // `low` moves with every line accepted, and the later trials start from there.
        const float r =
            (trials.first + trials.step * static_cast<float>(k) + levels) / (high - low);
        Line line{.w = sum_w, .x = sum_x};
        for (std::size_t i = 0; i < x.size(); ++i) {
            trial[i] = code_at(r, x[i]);
            const float q = static_cast<float>(trial[i]);
            line.q += weights[i] * q;
            line.qq += weights[i] * q * q;
            line.qx += weights[i] * q * x[i];
        }
        if (!line.solve()) continue;
        const float error = affine_error(x, weights, trials.squared, line.scale, line.low, trial);
        if (error < least) {
            std::copy_n(trial.begin(), x.size(), codes.begin());
            least = error;
            scale = line.scale;
            low = line.low;
        }
    }
    return {scale, -low};
}

float search_positive(std::span<const float> x, std::span<const float> weights, int max_code,
                      std::span<std::uint8_t> codes) {
    const float most = std::max(0.0f, *std::max_element(x.begin(), x.end()));
    if (most < kNothing) {
        std::fill_n(codes.begin(), x.size(), std::uint8_t{0});
        return 0;
    }
    const auto wrapped = [](float v) { return static_cast<std::uint8_t>(round_even(v)); };
    const auto capped = [&](float v) { return std::min(max_code, round_even(v)); };

    const float levels = static_cast<float>(max_code);
    float r = levels / most;
    float least = positive_error(x, weights, r, wrapped);
    for (int k = -4; k <= 4; ++k) {
        if (k == 0) continue;
        const float candidate = (0.1f * static_cast<float>(k) + levels) / most;
        const float error = positive_error(x, weights, candidate, capped);
        if (error < least) {
            least = error;
            r = candidate;
        }
    }

    Fit fit;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const int code = capped(r * x[i]);
        codes[i] = static_cast<std::uint8_t>(code);
        fit.add(weights[i], x[i], static_cast<float>(code));
    }
    bool changed = true;
    for (int sweep = 0; sweep < kSweeps && changed; ++sweep) {
        changed = false;
        for (std::size_t i = 0; i < x.size(); ++i) {
            const Fit rest = fit.without(weights[i], x[i], static_cast<float>(codes[i]));
            if (!(rest.along > 0 && rest.square > 0)) continue;
            const int code = capped(x[i] * rest.square / rest.along);
            if (code == codes[i]) continue;
            const Fit next = rest.with(weights[i], x[i], static_cast<float>(code));
            if (next.better_than(fit)) {
                codes[i] = static_cast<std::uint8_t>(code);
                fit = next;
                changed = true;
            }
        }
    }
    return fit.scale();
}

}  // namespace heddle::quant
