#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "golden/case_file.hpp"

namespace heddle::golden {

/// How far a result is from the recorded one.
struct Comparison {
    /// An element that tells the two apart.
    struct Difference {
        std::int64_t index;  ///< in logical order, dimension 0 running fastest
        double result;
        double recorded;
    };

    bool passed = false;
    double error = 0;  ///< NMSE, or the number of elements that differ
    double limit = 0;
    std::optional<Difference> first{};
    std::string what{};  ///< says what failed; empty if it passed
};

/// Elements in memory that begin at the first byte of `bytes`.
struct Elements {
    Type type;
    Extents extent;
    Strides stride;
    std::span<const std::byte> bytes;

    static Elements dense(Type type, const Extents& extent, std::span<const std::byte> bytes);
};

/// Judges `result` by `recorded`, which has the same extents.
///
/// - nmse: sum (a-b)^2 / sum a^2 in double, a the result, b recorded, at most `tolerance`. NaN must
///   meet NaN. Infinite values, among which +-FLT_MAX counts, must meet infinite ones of the same
///   sign and are left out of the sums.
/// - nmse_dequant: the same, of block formats; they are decoded in either case.
/// - exact: equal as values; NaN equals NaN.
/// - index_set: each row has the same integers in any order.
Result<Comparison> compare(Rule rule, double tolerance, const Elements& result,
                           const Elements& recorded);

/// Judges the result of a case. `storage` is all of the memory the node lies in: of slot `view_of`,
/// or of its own. Where the complete storage was recorded, bytes beside the node must be as they
/// were recorded, too.
Result<Comparison> compare_result(const OpCase& golden, std::span<const std::byte> storage);

/// Judges what the op left in the storage of a source that it changes.
Result<Comparison> compare_after(const OpCase& golden, const Source& source,
                                 std::span<const std::byte> storage);

/// Judges a densely packed tensor of a graph.
Result<Comparison> compare_tensor(const GraphCase& golden, const GraphTensor& recorded,
                                  std::span<const std::byte> bytes);

}  // namespace heddle::golden
