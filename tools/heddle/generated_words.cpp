#include <algorithm>
#include <array>

#include "generated_recipes.hpp"

namespace heddle::tool {
namespace {

constexpr Type kWeightTypes[] = {
    GGML_TYPE_F32,    GGML_TYPE_F16,   GGML_TYPE_BF16,    GGML_TYPE_Q1_0,    GGML_TYPE_Q2_0,
    GGML_TYPE_Q4_0,   GGML_TYPE_Q4_1,  GGML_TYPE_Q5_0,    GGML_TYPE_Q5_1,    GGML_TYPE_Q8_0,
    GGML_TYPE_MXFP4,  GGML_TYPE_NVFP4, GGML_TYPE_Q2_K,    GGML_TYPE_Q3_K,    GGML_TYPE_Q4_K,
    GGML_TYPE_Q5_K,   GGML_TYPE_Q6_K,  GGML_TYPE_TQ1_0,   GGML_TYPE_TQ2_0,   GGML_TYPE_IQ4_NL,
    GGML_TYPE_IQ4_XS, GGML_TYPE_IQ1_S, GGML_TYPE_IQ1_M,   GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ2_XS,
    GGML_TYPE_IQ2_S,  GGML_TYPE_IQ3_S, GGML_TYPE_IQ3_XXS,
};

constexpr std::size_t kPlainWeights = 3, kEncodable = 18;

/// A part of a larger tensor: `before` elements are left out in front and `after` behind, in every
/// dimension; those of dimension 0 are blocks.
std::string part_of(Type type, const Extents& extent, const Extents& before, const Extents& after) {
    Extents whole = extent;
    for (std::size_t d = 0; d < kMaxDims; ++d) {
        whole[d] += (before[d] + after[d]) * (d == 0 ? block_size(type) : 1);
    }
    const Strides stride = dense_strides(type, whole);
    std::size_t offset = 0;
    for (std::size_t d = 0; d < kMaxDims; ++d) {
        offset += static_cast<std::size_t>(before[d]) * stride[d];
    }
    const auto& [n0, n1, n2, n3] = extent;
    return text("ggml_view_4d(", leaf(type, whole), ", ", n0, ", ", n1, ", ", n2, ", ", n3, ", ",
                stride[1], ", ", stride[2], ", ", stride[3], ", ", offset, ")");
}

/// A tensor whose dimension d was dimension `from` of what is stored, where axis[from] = d.
std::string permuted(Type type, const Extents& extent, const std::array<int, 4>& axis) {
    Extents stored{};
    for (std::size_t i = 0; i < kMaxDims; ++i) stored[i] = extent[std::size_t(axis[i])];
    return text("ggml_permute(", leaf(type, stored), ", ", axis[0], ", ", axis[1], ", ", axis[2],
                ", ", axis[3], ")");
}

/// Mixes the axes from `first` on.
std::array<int, 4> any_axes(Chance& chance, int first) {
    std::array<int, 4> axis{0, 1, 2, 3};
    for (int i = 3; i > first; --i) {
        std::swap(axis[std::size_t(i)], axis[std::size_t(chance.between(first, i))]);
    }
    return axis;
}

}  // namespace

Chance Chance::plain(std::uint64_t seed) {
    Chance chance(seed);
    chance.is_plain_ = true;
    return chance;
}

std::uint32_t Chance::next() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBu;
    return static_cast<std::uint32_t>((mixed ^ mixed >> 31) >> 32);
}

std::int64_t Chance::between(std::int64_t low, std::int64_t high) {
    if (is_plain_) return low + (high - low) / 2;
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
}

std::int64_t Chance::times(std::int64_t most) { return is_plain_ ? 1 : between(1, most); }

std::int64_t Chance::extra(std::int64_t most) { return is_plain_ ? 0 : between(0, most); }

std::int64_t Chance::extent(std::initializer_list<std::int64_t> choices) {
    if (!is_plain_) return pick(choices);
    // The largest that suits vectors and tiles; all lists are in ascending order.
    std::int64_t chosen = std::rbegin(choices)[0];
    for (const std::int64_t n : choices) {
        if (n % 16 == 0) chosen = n;
    }
    return chosen;
}

std::string leaf(Type type, const Extents& extent) {
    return text(name_of(type), "[", extent[0], ",", extent[1], ",", extent[2], ",", extent[3], "]");
}

Extents any_extents(Chance& chance) {
    return {chance.extent({1, 2, 5, 8, 16, 31, 33, 64, 100, 257}), chance.extent({1, 2, 3, 5, 8}),
            chance.extent({1, 1, 2, 3}), chance.extent({1, 1, 2, 3})};
}

std::string dense_rows(Chance& chance, Type type, const Extents& extent) {
    if (chance.is_plain()) return leaf(type, extent);
    const auto some = [&] { return chance.between(0, 2); };
    switch (chance.between(0, 2)) {
        case 0:
            return leaf(type, extent);
        case 1:
            return permuted(type, extent, any_axes(chance, 1));
        default:
            return part_of(type, extent, {some(), some(), some(), some()},
                           {some(), some(), some(), some()});
    }
}

std::string padded_rows(Chance& chance, Type type, const Extents& extent) {
    if (chance.is_plain() || chance.one_in(2)) return leaf(type, extent);
    return part_of(type, extent, {chance.between(0, 3), 0, 0, 0}, {chance.between(1, 5), 0, 0, 0});
}

std::string strided(Chance& chance, Type type, const Extents& extent) {
    const bool has_blocks = block_size(type) > 1;
    if (has_blocks || chance.is_plain() || chance.one_in(2))
        return dense_rows(chance, type, extent);
    return permuted(type, extent, any_axes(chance, 0));
}

std::string maybe_inplace(Chance& chance, std::string_view name) {
    return text(name, chance.one_in(4) ? "_inplace" : "");
}

std::span<const Type> weight_types() { return kWeightTypes; }

std::span<const Type> encodable_types() {
    return std::span(kWeightTypes).subspan(kPlainWeights, kEncodable);
}

double quantum_tolerance(Type type, std::int64_t count) {
    double step = 0;
    if (type == GGML_TYPE_Q4_0 || type == GGML_TYPE_Q4_1) step = 1;
    if (type == GGML_TYPE_IQ4_NL) step = 2;
    if (type == GGML_TYPE_Q5_0 || type == GGML_TYPE_Q5_1) step = 1.0 / 2;
    if (type == GGML_TYPE_Q8_0) step = 1.0 / 8;
    step /= 8;  // of the range to either side of zero
    return step * step / (0.25 * static_cast<double>(count));
}

}  // namespace heddle::tool
