#pragma once

#include <cstdint>
#include <span>

/// Searches for the scale (and codes) that lose least, shared by the careful encoders. Every sum is
/// taken in single precision and in index order, so that all machines find the same codes.
namespace heddle::quant {

/// The element of largest magnitude, with its sign; the first one where several are equal, 0 if
/// there is none.
float extreme_of(std::span<const float> x);

/// How much each element counts: importance * sqrt(energy + x^2). `energy` is a mean of x^2 over
/// the surroundings and keeps small elements from being ignored.
void weigh(std::span<const float> x, std::span<const float> importance, float energy,
           std::span<float> weights);

/// Below this a group of values counts as zeros.
inline constexpr float kNothing = 1e-15f;

/// value = scale * (code - half), code in [0, 2 * half - 1]. Tries scales around the one that maps
/// the extreme element to -half. `weights` may be empty: then x^2. Returns the scale.
float search_symmetric(std::span<const float> x, std::span<const float> weights, int half,
                       std::span<std::uint8_t> codes);

/// The same for groups of `size` values, of which there are as many as `scales`. Several take
/// little longer than one.
void search_symmetric(std::span<const float> x, std::span<const float> weights, std::size_t size,
                      int half, std::span<std::uint8_t> codes, std::span<float> scales);

/// As `search_symmetric` with weights x^2, but improves the codes one at a time from one start.
float refine_symmetric(std::span<const float> x, int half, std::span<std::uint8_t> codes);

/// value = scale * code - minimum, with minimum >= 0.
struct Affine {
    float scale = 0;
    float minimum = 0;
};

/// What `search_affine` tries: inverse scales (max_code + first + step * k) / range, k = 0..last.
struct AffineTrials {
    float first = 0;
    float step = 0;
    int last = 0;
    bool squared = true;  ///< judge by squared error; else by absolute error
};

/// The trials of every encoder that is given an importance.
inline constexpr AffineTrials kFineTrials{.first = -0.9f, .step = 0.05f, .last = 36};

/// value = scale * code - minimum, code in [0, max_code], for groups of `size` values, of which
/// there are as many as `found`.
void search_affine(std::span<const float> x, std::span<const float> weights, std::size_t size,
                   int max_code, const AffineTrials& trials, std::span<std::uint8_t> codes,
                   std::span<Affine> found);

/// value = scale * code, code in [0, max_code], for values that are not negative. Returns the
/// scale.
///
/// A negative value (one format passes such) rounds below zero, and the code wraps to 255, in the
/// first guess and in the codes returned: files made by others were made so.
float search_positive(std::span<const float> x, std::span<const float> weights, int max_code,
                      std::span<std::uint8_t> codes);

}  // namespace heddle::quant
