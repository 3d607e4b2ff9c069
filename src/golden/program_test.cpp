#include "golden/program.hpp"

#include <gtest/gtest.h>

#include "ggml/op_list.h"
#include "golden/build_case.hpp"
#include "golden/interpreter.hpp"

namespace heddle::golden {
namespace {

TEST(Program, TakesACallApart) {
    const auto statement =
        parse_statement("t3 = ggml_rope_multi(t1, NULL, -1.5e-06, {5,5,-5,0}, q4_K)");
    ASSERT_TRUE(statement) << statement.error().message;
    EXPECT_EQ(statement->target, "t3");
    const Expression& call = statement->expression;
    EXPECT_EQ(call.kind, Expression::Kind::call);
    EXPECT_EQ(call.text, "ggml_rope_multi");
    ASSERT_EQ(call.arguments.size(), 5u);
    EXPECT_EQ(call.arguments[0].kind, Expression::Kind::name);
    EXPECT_EQ(call.arguments[1].kind, Expression::Kind::null);
    EXPECT_EQ(call.arguments[2].text, "-1.5e-06");
    EXPECT_EQ(call.arguments[3].list, (std::vector<std::int64_t>{5, 5, -5, 0}));
    EXPECT_EQ(call.arguments[4].type, GGML_TYPE_Q4_K);
}

TEST(Program, ReadsStatementsSeparatedBySemicolons) {
    const auto statements =
        parse_statements("ggml_soft_max(src0); ggml_soft_max_add_sinks(dst, src2)");
    ASSERT_TRUE(statements) << statements.error().message;
    ASSERT_EQ(statements->size(), 2u);
    EXPECT_EQ((*statements)[1].text, "ggml_soft_max_add_sinks(dst, src2)");
}

TEST(Program, DropsHowAGraphWasComputed) {
    const auto statement = parse_statement("compute(graph), 1 thread");
    ASSERT_TRUE(statement) << statement.error().message;
    EXPECT_EQ(statement->expression.text, "compute");
}

TEST(Program, KnowsSourcesThatShareAStorage) {
    const auto sources = parse_sources(
        "src0=f32[64], src2=ggml_view_1d(f32[64], 40, 52) (same storage as src0), src3=i32[2]");
    ASSERT_TRUE(sources) << sources.error().message;
    ASSERT_EQ(sources->size(), 3u);
    EXPECT_EQ((*sources)[0].expression.kind, Expression::Kind::tensor);
    EXPECT_EQ((*sources)[1].name, "src2");
    EXPECT_EQ((*sources)[1].shares_with, "src0");
    EXPECT_EQ((*sources)[2].shares_with, "");
}

TEST(Program, SaysWhereATextIsBroken) {
    EXPECT_EQ(parse_statement("ggml_add(a, ").error().message,
              "'ggml_add(a, ': a name is missing at character 13");
    EXPECT_EQ(parse_statement("ggml_add(a b)").error().message,
              "'ggml_add(a b)': ')' is missing at character 12");
    EXPECT_EQ(parse_statement("f32[4,x]").error().message,
              "'f32[4,x]': an integer is missing at character 8");
    EXPECT_EQ(parse_statement("a b").error().message, "'a b': more than one statement");
}

class InterpreterTest : public testing::Test {
protected:
    Result<> run(std::string_view text) {
        HEDDLE_TRY_ASSIGN(const Statement statement, parse_statement(text));
        return interpreter_.run(statement);
    }
    std::string refusal(std::string_view text) {
        const auto result = run(text);
        return result ? "" : result.error().message;
    }

    OwnedContext context_ = *make_header_context(32, 64);
    Interpreter interpreter_{*context_};
};

TEST_F(InterpreterTest, BuildsNestedCallsAndKeepsThemByName) {
    ASSERT_EQ(refusal("a = ggml_new_tensor(f32, [4,3])"), "");
    ASSERT_EQ(refusal("b = ggml_add(ggml_transpose(ggml_transpose(a)), f32[4])"), "");
    const auto b = interpreter_.tensor("b");
    ASSERT_TRUE(b) << b.error().message;
    EXPECT_EQ((*b)->op, GGML_OP_ADD);
    EXPECT_EQ(extents_of(**b), (Extents{4, 3, 1, 1}));
}

TEST_F(InterpreterTest, NamesWhatWasWrong) {
    ASSERT_EQ(refusal("a = f32[4,3]"), "");
    EXPECT_EQ(refusal("ggml_frobnicate(a)"),
              "ggml_frobnicate(a): there is no builder 'ggml_frobnicate'");
    EXPECT_EQ(refusal("ggml_scale(a)"), "ggml_scale(a): ggml_scale: wants 2 arguments, not 1");
    EXPECT_EQ(refusal("ggml_scale(a, f32)"),
              "ggml_scale(a, f32): ggml_scale: argument 2: wants a number, not a type");
    EXPECT_EQ(refusal("ggml_concat(a, a, 5000000000)"),
              "ggml_concat(a, a, 5000000000): ggml_concat: argument 3: wants an integer in range, "
              "not 5000000000");
    EXPECT_EQ(refusal("ggml_sqr(x)"), "ggml_sqr(x): 'x' is not defined");
}

TEST_F(InterpreterTest, GivesABuildersRefusalAsItsOwn) {
    const std::string sentence = refusal("ggml_add(f32[4], f32[3])");
    EXPECT_NE(sentence.find("add"), std::string::npos) << sentence;
    EXPECT_EQ(refusal("ggml_add(f32[4], f32[4])"), "");
}

TEST_F(InterpreterTest, BuildsGradients) {
    for (const char* line :
         {"graph = ggml_new_graph_custom(16, true)", "x = f32[3]", "ggml_set_param(x)",
          "y = ggml_sum(x)", "ggml_set_loss(y)", "ggml_build_forward_expand(graph, y)",
          "ggml_build_backward_expand(graph, NULL)", "d = ggml_graph_get_grad(graph, x)",
          "ggml_graph_reset(graph)", "compute(graph), 1 thread"}) {
        ASSERT_EQ(refusal(line), "");
    }
    EXPECT_EQ((*interpreter_.tensor("d"))->op, GGML_OP_REPEAT);
    EXPECT_EQ(refusal("ggml_graph_reset(x)"),
              "ggml_graph_reset(x): takes a graph and nothing else");
    EXPECT_EQ(refusal("ggml_build_backward_expand(graph, x)"),
              "ggml_build_backward_expand(graph, x): ggml_build_backward_expand: argument 2: wants "
              "NULL, not a tensor");
}

}  // namespace
}  // namespace heddle::golden
