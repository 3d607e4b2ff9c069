#include "generated.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "generated_recipes.hpp"
#include "golden/build_case.hpp"
#include "golden/interpreter.hpp"
#include "reference/reference.hpp"

namespace heddle::tool {
namespace {

using golden::OpCase;
using golden::Source;
using reference::Values;

// ---- contents ----------------------------------------------------------------------------------

/// Element `e` of a storage with seed `s`, in [0, 1): the formula of the recorded cases.
double hashed(std::uint32_t e, std::uint32_t s) {
    std::uint32_t x = e * 0x9E3779B1u + s * 0x85EBCA77u + 0x165667B1u;
    x ^= x >> 16, x *= 0x7FEB352Du;
    x ^= x >> 15, x *= 0x846CA68Bu;
    x ^= x >> 16;
    return (x >> 8) / 16777216.0;
}

/// The numbers 0 ... n-1, sorted by their hashes.
std::vector<std::uint32_t> shuffled(std::uint32_t n, std::uint32_t seed) {
    std::vector<std::uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, {}, [&](std::uint32_t e) { return hashed(e, seed); });
    return order;
}

double special_value(double u) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kSpecial[] = {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(),
                                   0.0, -0.0};
    return kSpecial[static_cast<std::size_t>(u * std::size(kSpecial))];
}

/// Element `e`, in row position `column`, of the fills whose elements do not depend on each other.
double element_of(const Fill& fill, std::uint32_t e, std::int64_t column, std::uint32_t seed) {
    const double u = hashed(e, seed), second = hashed(e, seed + 1);
    const double uniform = static_cast<float>(fill.low + (fill.high - fill.low) * u);
    switch (fill.kind) {
        case Fill::Kind::integers:
            return fill.low + std::floor(u * (fill.high - fill.low + 1));
        case Fill::Kind::mask:
            return second < 0.3 && column > 0 ? -std::numeric_limits<double>::infinity() : uniform;
        case Fill::Kind::special:
            return second < 0.2 ? special_value(second * 5) : uniform;
        case Fill::Kind::list:
            return fill.values[e % fill.values.size()];
        default:
            return uniform;
    }
}

/// What the fills do to whole rows.
void shape_row(const Fill& fill, std::span<double> row, std::uint32_t seed) {
    if (fill.kind == Fill::Kind::distinct) {
        const auto order = shuffled(static_cast<std::uint32_t>(fill.high), seed);
        // A storage may be wider than what is seen of it; neighbours differ all the same.
        for (std::size_t i = 0; i < row.size(); ++i) row[i] = order[i % order.size()];
    } else if (fill.kind == Fill::Kind::shares) {
        double total = 0;
        for (double& value : row) total += value = std::exp(value);
        for (double& value : row) value /= total;
    } else if (fill.kind == Fill::Kind::unit) {
        const double squares = std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
        for (double& value : row) value *= fill.high / std::sqrt(squares);
    }
}

Values contents(const Fill& fill, const Extents& extent, std::uint32_t seed) {
    Values values(extent);
    for (std::int64_t r = 0; r < values.rows(); ++r) {
        const auto row = values.row(r);
        for (std::int64_t i = 0; i < extent[0]; ++i) {
            const auto e = static_cast<std::uint32_t>(r * extent[0] + i);
            row[static_cast<std::size_t>(i)] = element_of(fill, e, i, seed);
        }
        shape_row(fill, row, seed + static_cast<std::uint32_t>(r));
    }
    if (fill.kind == Fill::Kind::ramp) {
        const auto order = shuffled(static_cast<std::uint32_t>(values.count()), seed);
        for (std::size_t e = 0; e < order.size(); ++e) {
            values.data()[e] = fill.low + (fill.high - fill.low) * order[e] / double(order.size());
        }
    }
    if (fill.kind == Fill::Kind::triangle) {
        values.for_each([&](std::int64_t c, std::int64_t r, std::int64_t i2, std::int64_t i3) {
            double& value = values(c, r, i2, i3);
            value = c == r ? 1 + 0.4 * value : value / double(extent[0]);
        });
    }
    return values;
}

// ---- cases -------------------------------------------------------------------------------------

std::string description_of(const Draft& draft) {
    std::string description = draft.calls;
    for (const Draft::Operand& operand : draft.operands) {
        description += &operand == &draft.operands.front() ? " | " : ", ";
        description += text("src", operand.slot, "=", operand.text);
    }
    return description;
}

const Tensor* root_of(const Tensor& tensor) {
    return tensor.view_src != nullptr ? tensor.view_src : &tensor;
}

golden::Layout layout_of(const Tensor& tensor) {
    return {tensor.type, extents_of(tensor), strides_of(tensor),
            tensor.view_src != nullptr ? tensor.view_offs : 0};
}

/// Calls the builders; gives the node.
Result<Tensor*> build(const Draft& draft, golden::Interpreter& interpreter) {
    for (const Draft::Operand& operand : draft.operands) {
        HEDDLE_TRY_ASSIGN(const auto sources,
                          golden::parse_sources(text("src", operand.slot, "=", operand.text)));
        for (const auto& source : sources) HEDDLE_TRY(interpreter.make_source(source));
    }
    HEDDLE_TRY_ASSIGN(const auto statements, golden::parse_statements(draft.calls));
    for (const auto& statement : statements) HEDDLE_TRY(interpreter.run(statement));
    return interpreter.tensor("dst");
}

/// The source in `slot` of the node: its layout, and the storage it is the first to lie in.
Result<Source> source_of(const Draft& draft, const Tensor& node, int slot, std::uint32_t seed) {
    const Tensor& tensor = *node.src[slot];
    Source source{.slot = slot, .layout = layout_of(tensor), .storage_of = slot};
    if (&tensor == &node) {
        source.storage_of = Source::kNodeItself;
        return source;
    }
    for (int earlier = slot - 1; earlier >= 0; --earlier) {
        const Tensor* other = node.src[earlier];
        if (other != nullptr && other != &node && root_of(*other) == root_of(tensor)) {
            source.storage_of = earlier;
        }
    }
    if (source.storage_of != slot) return source;
    const auto operand = std::ranges::find(draft.operands, slot, &Draft::Operand::slot);
    if (operand == draft.operands.end()) return invalid("slot ", slot, " is in no operand's name");
    const Tensor& root = *root_of(tensor);
    HEDDLE_TRY_ASSIGN(
        source.storage,
        reference::encode_dense(root.type, contents(operand->fill, extents_of(root), seed)));
    return source;
}

Result<OpCase> make_case(const Draft& draft, std::string name, Chance& chance) {
    OpCase made{.name = std::move(name),
                .description = description_of(draft),
                .op = {},
                .sources = {},
                .result = {},
                .rule = draft.rule,
                .tolerance = draft.tolerance,
                .quant_nmse = {}};
    constexpr std::size_t kHeaders = 8 * (kMaxSources + 3);
    HEDDLE_TRY_ASSIGN(const auto context, golden::make_header_context(kHeaders));
    golden::Interpreter interpreter(*context);
    HEDDLE_TRY_ASSIGN(const Tensor* node, build(draft, interpreter));
    made.op = ggml_op_name(node->op);
    std::memcpy(made.params.data(), node->op_params, sizeof node->op_params);
    made.result.layout = layout_of(*node);
    for (int slot = 0; slot < kMaxSources; ++slot) {
        if (node->src[slot] == nullptr) continue;
        HEDDLE_TRY_ASSIGN(Source source, source_of(draft, *node, slot, chance.next()));
        const bool holds_result = node->view_src != nullptr && node->src[slot] != node &&
                                  root_of(*node->src[slot]) == node->view_src;
        if (holds_result && made.result.view_of < 0) made.result.view_of = slot;
        made.sources.push_back(std::move(source));
    }
    HEDDLE_TRY(reference::fill_expected(made));
    return made;
}

// ---- all of them -------------------------------------------------------------------------------

std::vector<Recipe> all_recipes() {
    std::vector<Recipe> recipes;
    for (const auto& family :
         {elementwise_recipes(), movement_recipes(), reduce_recipes(), attention_recipes(),
          image_recipes(), recurrent_recipes(), training_recipes()}) {
        recipes.insert(recipes.end(), family.begin(), family.end());
    }
    return recipes;
}

bool same_name(std::string_view a, std::string_view b) {
    const auto upper = [](char c) { return std::toupper(static_cast<unsigned char>(c)); };
    return std::ranges::equal(a, b, {}, upper, upper);
}

bool is_wanted(Op op, std::span<const std::string> ops) {
    const auto is_meant = [&](const std::string& name) {
        return same_name(name, ggml_op_name(op));
    };
    return ops.empty() || std::ranges::any_of(ops, is_meant);
}

/// A seed of its own for every case, so that leaving ops out changes none of the others.
std::uint64_t seed_of(std::uint64_t seed, Op op, int variant, int number) {
    Chance chance(seed);
    std::uint64_t mixed = seed;
    for (const int part : {static_cast<int>(op), variant, number}) {
        mixed = Chance(mixed * 31 + static_cast<std::uint64_t>(part)).next() ^ mixed << 32;
    }
    return mixed ^ chance.next();
}

Result<> append(std::vector<OpCase>& cases, const Recipe& recipe, int variant, std::string name,
                Chance chance) {
    Draft draft;
    recipe.write(draft, variant, chance);
    auto made = make_case(draft, name, chance);
    if (!made) {
        return std::move(made).error().within(text(name, " (", description_of(draft), ")"));
    }
    cases.push_back(*std::move(made));
    return ok();
}

}  // namespace

Result<std::vector<OpCase>> generate_cases(std::uint64_t seed, int per_op,
                                           std::span<const std::string> ops) {
    std::vector<OpCase> cases;
    for (const Recipe& recipe : all_recipes()) {
        if (!is_wanted(recipe.op, ops)) continue;
        for (int variant = 0; variant < recipe.variants; ++variant) {
            HEDDLE_TRY(append(cases, recipe, variant,
                              text(ggml_op_name(recipe.op), " plain ", variant),
                              Chance::plain(seed)));
        }
        for (int i = 0; i < per_op * recipe.variants; ++i) {
            const int variant = i % recipe.variants, number = i / recipe.variants;
            HEDDLE_TRY(append(cases, recipe, variant,
                              text(ggml_op_name(recipe.op), " generated ", i),
                              Chance(seed_of(seed, recipe.op, variant, number))));
        }
    }
    return cases;
}

std::vector<Op> generated_ops() {
    std::vector<Op> ops;
    for (const Recipe& recipe : all_recipes()) ops.push_back(recipe.op);
    return ops;
}

}  // namespace heddle::tool
