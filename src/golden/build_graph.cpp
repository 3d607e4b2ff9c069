#include <cstdlib>

#include "golden/build_case.hpp"

namespace heddle::golden {
namespace {

/// Graphs are at most this large; programs say how large they want theirs.
constexpr std::size_t kGraphCapacity = 4096;

/// Builders that make several nodes make no more than this many.
constexpr std::size_t kHeadersPerStatement = 16;

/// Runs the lines of one program and files what they make.
class GraphRunner {
public:
    explicit GraphRunner(Context& context)
        : interpreter_(context, [this](Step step, Graph& graph) { return note(step, graph); }) {}
    GraphRunner(const GraphRunner&) = delete;  // the interpreter knows where this is
    GraphRunner& operator=(const GraphRunner&) = delete;

    Result<> run(std::string_view line) {
        if (line.empty() || line.starts_with('#')) return ok();
        HEDDLE_TRY_ASSIGN(const Statement statement, parse_statement(line));
        HEDDLE_TRY(interpreter_.run(statement));
        return keep(statement.target);
    }

    GraphBuild take() && { return std::move(build_); }

private:
    Result<> note(Step step, const Graph& graph) {
        if (&graph != build_.graph) return failure(Errc::corrupt, "there is more than one graph");
        build_.steps.push_back(step);
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
};

Result<> check_recorded(const GraphBuild& build, const std::vector<GraphTensor>& recorded) {
    for (const GraphTensor& golden : recorded) {
        const auto found = build.tensors.find(golden.number);
        if (found == build.tensors.end()) {
            return failure(Errc::corrupt, "t", golden.number, " is recorded and never made");
        }
        const Tensor& built = *found->second;
        if (built.type == golden.type && extents_of(built) == golden.extent) continue;
        return invalid("t", golden.number, " is ", name_of(built.type), describe(extents_of(built)),
                       ", recorded is ", name_of(golden.type), describe(golden.extent));
    }
    return ok();
}

Result<GraphBuild> build_and_check(const GraphCase& golden, Context& context) {
    GraphRunner runner(context);
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

Result<GraphBuild> build_graph(const GraphCase& golden, Context& context) {
    auto build = build_and_check(golden, context);
    if (!build) return std::move(build).error().within(golden.name);
    return build;
}

}  // namespace heddle::golden
