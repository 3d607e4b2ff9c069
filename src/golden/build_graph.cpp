#include <algorithm>
#include <cstdlib>
#include <set>

#include "golden/build_case.hpp"

namespace heddle::golden {
namespace {

/// Graphs are at most this large; programs say how large they want theirs.
constexpr std::size_t kGraphCapacity = 4096;

/// Builders that make several nodes make no more than this many.
constexpr std::size_t kHeadersPerStatement = 16;

bool mentions(const Expression& expression, const std::set<std::string>& names) {
    if (expression.kind == Expression::Kind::name && names.contains(expression.text)) return true;
    return std::ranges::any_of(expression.arguments, [&](const Expression& argument) {
        return mentions(argument, names);
    });
}

/// Runs the lines of one program and keeps account of what had to be left out.
class GraphRunner {
public:
    GraphRunner(Context& context, Interpreter::Compute compute)
        : interpreter_(context, std::move(compute)) {}

    Result<> run(std::string_view line) {
        if (line.empty() || line.starts_with('#')) return ok();
        HEDDLE_TRY_ASSIGN(const Statement statement, parse_statement(line));
        if (mentions(statement.expression, missing_)) return leave_out(statement);
        auto result = interpreter_.run(statement);
        if (result) return keep(statement.target);
        if (result.error().code == Errc::unsupported) return leave_out(statement);
        return result;
    }

    GraphBuild take() && { return std::move(build_); }

private:
    Result<> leave_out(const Statement& statement) {
        build_.needs_backward.push_back(statement.text);
        if (!statement.target.empty()) missing_.insert(statement.target);
        return ok();
    }

    /// Files what was made under the number in its name: t12, or the graph.
    Result<> keep(const std::string& name) {
        if (name == "graph") {
            HEDDLE_TRY_ASSIGN(build_.graph, interpreter_.graph(name));
        } else if (name.size() > 1 && name.front() == 't') {
            HEDDLE_TRY_ASSIGN(Tensor * tensor, interpreter_.tensor(name));
            build_.tensors[std::atoi(name.c_str() + 1)] = tensor;
        }
        return ok();
    }

    Interpreter interpreter_;
    GraphBuild build_;
    std::set<std::string> missing_;
};

Result<> check_recorded(const GraphBuild& build, const std::vector<GraphTensor>& recorded) {
    for (const GraphTensor& golden : recorded) {
        const auto found = build.tensors.find(golden.number);
        if (found == build.tensors.end()) {
            // What depends on gradients has a good reason to be missing.
            if (!build.needs_backward.empty()) continue;
            return failure(Errc::corrupt, "t", golden.number, " is recorded and never made");
        }
        const Tensor& built = *found->second;
        if (built.type == golden.type && extents_of(built) == golden.extent) continue;
        return invalid("t", golden.number, " is ", name_of(built.type), describe(extents_of(built)),
                       ", recorded is ", name_of(golden.type), describe(golden.extent));
    }
    return ok();
}

Result<GraphBuild> build_and_check(const GraphCase& golden, Context& context,
                                   Interpreter::Compute compute) {
    GraphRunner runner(context, std::move(compute));
    for (const std::string& line : golden.program) HEDDLE_TRY(runner.run(line));
    GraphBuild build = std::move(runner).take();
    for (const auto* tensors : {&golden.leafs, &golden.outputs, &golden.intermediates,
                                &golden.changed_leafs, &golden.gradients}) {
        HEDDLE_TRY(check_recorded(build, *tensors));
    }
    return build;
}

}  // namespace

Result<OwnedContext> make_graph_context(const GraphCase& golden) {
    return make_header_context(kHeadersPerStatement * golden.program.size(), kGraphCapacity);
}

Result<GraphBuild> build_graph(const GraphCase& golden, Context& context,
                               Interpreter::Compute compute) {
    auto build = build_and_check(golden, context, std::move(compute));
    if (!build) return std::move(build).error().within(golden.name);
    return build;
}

}  // namespace heddle::golden
