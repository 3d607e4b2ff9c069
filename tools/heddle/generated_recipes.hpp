#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "golden/case_file.hpp"

/// How cases are made up: a recipe writes a draft, in the language of golden descriptions, and
/// `generated.cpp` turns it into a case.
namespace heddle::tool {

/// Choices that depend on nothing but the seed; the standard distributions differ by platform.
///
/// For a plain case nothing is left to chance: every choice is the commonest one, layouts are
/// dense, nothing is repeated, in place or in half precision if it need not be.
class Chance {
public:
    explicit Chance(std::uint64_t seed) : state_(seed) {}
    static Chance plain(std::uint64_t seed);

    bool is_plain() const { return is_plain_; }

    std::uint32_t next();
    std::int64_t between(std::int64_t low,
                         std::int64_t high);  ///< both included; plain: the middle
    std::int64_t times(std::int64_t most);    ///< 1 ... most; plain: once
    std::int64_t extra(std::int64_t most);    ///< 0 ... most; plain: nothing
    std::int64_t extent(std::initializer_list<std::int64_t> choices);  ///< plain: a multiple of 16
    bool one_in(std::int64_t n) { return !is_plain_ && between(1, n) == 1; }

    /// One of the choices; plain: the first.
    template <class T>
    T pick(std::initializer_list<T> choices) {
        return choices.begin()[extra(static_cast<std::int64_t>(choices.size()) - 1)];
    }
    template <class Range>
    auto pick_from(const Range& choices) {
        return choices[static_cast<std::size_t>(
            extra(static_cast<std::int64_t>(std::size(choices)) - 1))];
    }

private:
    std::uint64_t state_;
    bool is_plain_ = false;
};

/// What a storage holds before the op runs.
struct Fill {
    enum class Kind {
        uniform,   ///< between low and high
        integers,  ///< low ... high
        distinct,  ///< each row: different integers from 0 on, below high, in any order
        ramp,      ///< from low to high in any order, no value twice
        mask,      ///< uniform, three in ten are -inf; the first of a row never is
        special,   ///< uniform with infinities, NaN and zeros of both signs among it
        shares,    ///< each row sums to one
        unit,      ///< each row has length `high`
        triangle,  ///< matrices that are safe to solve with
        list,      ///< `values`
    };
    Kind kind = Kind::uniform;
    double low = -1, high = 1;
    std::vector<double> values{};
};

inline Fill uniform(double low, double high) { return {Fill::Kind::uniform, low, high}; }
inline Fill integers(std::int64_t low, std::int64_t high) {
    return {Fill::Kind::integers, double(low), double(high)};
}
inline Fill distinct(std::int64_t below) { return {Fill::Kind::distinct, 0, double(below)}; }
inline Fill filled(Fill::Kind kind, double low = -1, double high = 1) { return {kind, low, high}; }
inline Fill list(std::vector<double> values) { return {Fill::Kind::list, 0, 0, std::move(values)}; }

/// A case before it is built.
struct Draft {
    struct Operand {
        int slot;
        std::string text;
        Fill fill;
    };

    std::string calls;
    std::vector<Operand> operands{};
    golden::Rule rule = golden::Rule::nmse;
    double tolerance = 1e-7;

    /// Names the next free slot; `text` says how it is made.
    Draft& source(std::string text, Fill fill = {}) {
        const int slot = operands.empty() ? 0 : operands.back().slot + 1;
        return source_in(slot, std::move(text), std::move(fill));
    }
    Draft& source_in(int slot, std::string text, Fill fill = {}) {
        operands.push_back({slot, std::move(text), std::move(fill)});
        return *this;
    }
    Draft& exact() {
        rule = golden::Rule::exact;
        tolerance = 0;
        return *this;
    }
};

/// One op. `write` is called for every variant from 0 on.
struct Recipe {
    Op op;
    void (*write)(Draft& draft, int variant, Chance& chance);
    int variants = 1;
};

// Each family's recipes, in its own file.
std::span<const Recipe> elementwise_recipes();
std::span<const Recipe> movement_recipes();
std::span<const Recipe> reduce_recipes();
std::span<const Recipe> attention_recipes();
std::span<const Recipe> image_recipes();
std::span<const Recipe> recurrent_recipes();
std::span<const Recipe> training_recipes();

// ---- words for drafts --------------------------------------------------------------------------

/// "f32[4,3,2,1]"
std::string leaf(Type type, const Extents& extent);

/// Extents of up to four dimensions, a few hundred elements, odd ones among them.
Extents any_extents(Chance& chance);

/// Tensors with these extents as the op sees them, laid out in different ways:
std::string dense_rows(Chance& chance, Type type, const Extents& extent);   ///< dimension 0 dense
std::string padded_rows(Chance& chance, Type type, const Extents& extent);  ///< row pitch is free
std::string strided(Chance& chance, Type type, const Extents& extent);      ///< anything

/// "name" or "name_inplace".
std::string maybe_inplace(Chance& chance, std::string_view name);

/// Types that weights can have: all with a dot product.
std::span<const Type> weight_types();

/// Block types that values can be rounded to by copying.
std::span<const Type> encodable_types();

/// What one step of a simple block type may cost, as NMSE of `count` values between -range and
/// range; 0 for the other types.
double quantum_tolerance(Type type, std::int64_t count);

}  // namespace heddle::tool
