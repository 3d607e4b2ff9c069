#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/graph.hpp"
#include "golden/program.hpp"

namespace heddle::golden {

struct Null {};

/// A number as it was written: what it is depends on the parameter it is given to.
struct Number {
    std::string digits;
};

using IntegerList = std::vector<std::int64_t>;

/// What an expression stands for.
using Value = std::variant<Null, bool, Number, Type, IntegerList, Tensor*, Graph*>;

/// For messages: `a number`, `a tensor`.
std::string_view kind_of(const Value& value);

/// What a parameter of a builder takes.
enum class Parameter {
    tensor,
    tensors,
    graph,
    truth,
    type,
    enumerator,
    int32,
    int64,
    size,
    real,
    list
};

/// A C function that takes values.
struct Callable {
    std::function<Result<Value>(Context&, std::span<const Value>)> call;
    std::vector<Parameter> parameters;  ///< without the context
};

/// A public function that programs may call.
struct Builder {
    std::string_view name;
    Callable function;
};

/// Every function that programs may call.
std::span<const Builder> all_builders();

/// What programs do with a graph that has memory.
enum class Step { reset, compute };

/// Runs builder texts: calls the public C functions and keeps the values under their names.
///
/// A builder's refusal comes back as a failure whatever the error mode of the process: the mode is
/// changed for the time of a call. Programs that use several threads set HEDDLE_ERROR_MODE_RETURN
/// first, as the mode is one for all of them.
class Interpreter {
public:
    /// What `ggml_graph_reset(graph)` and `compute(graph)` do.
    using Perform = std::function<Result<>(Step, Graph&)>;

    /// Tensors and graphs are made in `context`, which must outlive this. Without `perform`, graphs
    /// are built and not run.
    explicit Interpreter(Context& context, Perform perform = {})
        : context_(context), perform_(std::move(perform)) {}

    /// Runs `statement`. Its value goes by the name of its target; a tensor without a target by the
    /// name `dst`.
    Result<> run(const Statement& statement);

    Result<Value> evaluate(const Expression& expression);

    /// Makes source `text` of a case and names it.
    Result<> make_source(const SourceText& text);

    /// The value of that name; fails if there is none.
    Result<Tensor*> tensor(std::string_view name) const;
    Result<Graph*> graph(std::string_view name) const;

private:
    Result<Value> call(const Expression& expression);
    Result<Value> perform(Step step, std::span<const Value> arguments) const;
    Result<Tensor*> new_leaf(Type type, const IntegerList& extents);
    Result<Value> find(std::string_view name) const;

    Context& context_;
    Perform perform_;
    std::map<std::string, Value, std::less<>> names_;
    Tensor* shared_root_ = nullptr;  ///< while a source is made: the storage it shall lie in
};

}  // namespace heddle::golden
