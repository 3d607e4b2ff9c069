#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/type.hpp"

/// Golden cases: recorded operands and results of ops and whole graphs, and what is needed to build
/// them again and to judge another result by them.
namespace heddle::golden {

/// A builder text, taken apart. Which fields mean something depends on `kind`.
///
///     expression = "NULL" | "true" | "false" | number | type | name
///                | list                                 {1,2,3} or [1,2,3]
///                | type list                            a new tensor: f32[4,3]
///                | name "(" [expression {"," expression}] ")"
struct Expression {
    enum class Kind { null, boolean, number, type, name, list, tensor, call };

    Kind kind = Kind::null;
    std::string text{};                   ///< number: its digits; name, call: the name
    bool truth = false;                   ///< boolean
    Type type = GGML_TYPE_F32;            ///< type, tensor
    std::vector<std::int64_t> list{};     ///< list; tensor: its extents
    std::vector<Expression> arguments{};  ///< call
};

/// `t3 = ggml_mul_mat(t1, t2)`
struct Statement {
    std::string target;  ///< the name it gives its value; may be empty
    Expression expression;
    std::string text;  ///< as it was written, for messages
};

/// How a source of a case is made: `src1=ggml_view_1d(f32[64], 40, 52) (same storage as src0)`
struct SourceText {
    std::string name;
    Expression expression;
    std::string shares_with;  ///< the source in whose storage it lies; empty: one of its own
};

/// One statement of a graph's program. `compute(graph), 1 thread` is a call of `compute`: what
/// follows the call says how it was recorded and is dropped.
Result<Statement> parse_statement(std::string_view text);

/// Statements separated by semicolons.
Result<std::vector<Statement>> parse_statements(std::string_view text);

/// Sources separated by commas. An empty text has none.
Result<std::vector<SourceText>> parse_sources(std::string_view text);

/// The type people call by this name ("f16", "q4_K"); fails if there is none.
Result<Type> type_named(std::string_view name);

}  // namespace heddle::golden
