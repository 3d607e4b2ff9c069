#include "quant/search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "quant/rounding.hpp"

namespace heddle::quant {
namespace {

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

float refine_symmetric(std::span<const float> x, int half, std::span<std::uint8_t> codes) {
    const float extreme = extreme_of(x);
    if (std::fabs(extreme) < kNothing) {
        std::fill_n(codes.begin(), x.size(), std::uint8_t{0});
        return 0;
    }
    Fit fit;
    const float r = -static_cast<float>(half) / extreme;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const int code = clamp_to(round_even(r * x[i]), -half, half - 1);
        codes[i] = static_cast<std::uint8_t>(code + half);
        fit.add(x[i] * x[i], x[i], static_cast<float>(code));
    }
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
