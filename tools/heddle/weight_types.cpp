#include "weight_types.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "heddle/cpp/failure.hpp"
#include "nearest.hpp"

namespace heddle::tool {
namespace {

struct Mixture {
    std::string_view name;
    WeightTypes types;
};

// The numbers are those that files of these mixtures carry as general.file_type.
constexpr std::array kMixtures{
    Mixture{"Q2_K_S", {GGML_TYPE_Q2_K, GGML_TYPE_Q2_K, GGML_TYPE_Q6_K, 21}},
    Mixture{"Q3_K_S", {GGML_TYPE_Q3_K, GGML_TYPE_Q3_K, GGML_TYPE_Q6_K, 11}},
    Mixture{"Q3_K_M", {GGML_TYPE_Q3_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, 12}},
    Mixture{"Q4_K_S", {GGML_TYPE_Q4_K, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, 14}},
    Mixture{"Q4_K_M", {GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_Q6_K, 15}},
    Mixture{"Q5_K_S", {GGML_TYPE_Q5_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, 16}},
    Mixture{"Q5_K_M", {GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_Q6_K, 17}},
};

bool is_same(std::string_view a, std::string_view b) {
    const auto lower = [](unsigned char c) { return std::tolower(c); };
    return std::ranges::equal(a, b, {}, lower, lower);
}

std::uint32_t file_type_of(ggml_type type) {
    for (int i = 0; i < 64; ++i) {
        const auto all =  // numbers of mixtures and of nothing are refused
            api::detail::call([&] { return ggml_ftype_to_ggml_type(static_cast<ggml_ftype>(i)); });
        if (all == type) return static_cast<std::uint32_t>(i);
    }
    return 0;
}

/// The number in "blk.3.attn_v.weight"; -1 if it is of no layer.
std::int64_t layer_of(std::string_view weight) {
    constexpr std::string_view kPrefix = "blk.";
    if (!weight.starts_with(kPrefix)) return -1;
    std::int64_t layer = -1;
    const char* const end = weight.data() + weight.size();
    const auto [rest, problem] = std::from_chars(weight.data() + kPrefix.size(), end, layer);
    return problem == std::errc() && rest != end && *rest == '.' ? layer : -1;
}

}  // namespace

Result<ggml_type> type_named(std::string_view name, std::span<const ggml_type> types,
                             std::span<const std::string> more) {
    std::vector<std::string> names;
    for (const ggml_type type : types) {
        if (is_same(ggml_type_name(type), name)) return type;
        names.emplace_back(ggml_type_name(type));
    }
    names.insert(names.end(), more.begin(), more.end());
    const std::string meant = did_you_mean(name, names);
    if (!meant.empty()) return failure(Errc::not_found, "no type is called '", name, "'", meant);
    std::string known;
    for (const std::string& each : names) known += (known.empty() ? "" : ", ") + each;
    return failure(Errc::not_found, "no type is called '", name, "'; there are ", known);
}

std::vector<std::string> WeightTypes::mixtures() {
    std::vector<std::string> names;
    for (const Mixture& each : kMixtures) names.emplace_back(each.name);
    return names;
}

Result<WeightTypes> WeightTypes::find(std::string_view name, std::span<const ggml_type> types) {
    for (const Mixture& each : kMixtures) {
        if (is_same(each.name, name)) return each.types;
    }
    HEDDLE_TRY_ASSIGN(const ggml_type type, type_named(name, types, mixtures()));
    return WeightTypes(type, type, type, file_type_of(type));
}

ggml_type WeightTypes::of(std::string_view weight, std::int64_t layers) const {
    if (weight == "output.weight") return output_;
    const std::int64_t layer = layer_of(weight);
    if (layer < 0) return main_;
    const bool is_sensitive =
        weight.ends_with(".attn_v.weight") || weight.ends_with(".ffn_down.weight");
    const bool has_more =
        layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
    return is_sensitive && has_more ? larger_ : main_;
}

}  // namespace heddle::tool
