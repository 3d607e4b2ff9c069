#include "bench/cases.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "bench/workload.hpp"
#include "ggml/op_list.h"
#include "heddle/heddle.h"
#include "ops/catalogue.hpp"

/// The tables of what is measured: nothing is forgotten, and everything runs.
namespace heddle::tool::bench {
namespace {

std::vector<Case> quick_cases(const char* model) { return all_cases({model, {}, true}); }

std::string name_of(const Case& what) { return what.op + " " + what.type + " " + what.shape; }

/// What a case builds, in a context that lasts as long as this.
struct Built {
    explicit Built(const Case& what)
        : context(ggml_init({std::size_t{1} << 20, nullptr, true})), inputs(context.get()) {
        result = what.build(inputs);
    }

    ggml_context_ptr context;
    Inputs inputs;
    ggml_tensor* result;
};

TEST(BenchCases, MeasureEveryOpThatComputes) {
    std::set<ggml_op> measured, excused;
    for (const char* model : kModels) {
        for (const Case& each : quick_cases(model)) {
            const Built built(each);
            ASSERT_NE(built.result, nullptr) << name_of(each) << ": " << heddle_last_error();
            measured.insert(built.result->op);
        }
    }
    for (const Unmeasured& each : unmeasured_ops()) {
        EXPECT_STRNE(each.reason, "");
        EXPECT_FALSE(measured.contains(each.op)) << ggml_op_name(each.op) << " is measured";
        excused.insert(each.op);
    }
    for (int i = 0; i < GGML_OP_COUNT; ++i) {
        const auto op = static_cast<ggml_op>(i);
        if (op == GGML_OP_NONE || find_op(op)->is_view) continue;
        EXPECT_TRUE(measured.contains(op) || excused.contains(op))
            << ggml_op_name(op) << " is neither measured nor among unmeasured_ops()";
    }
}

TEST(BenchCases, MeasureEveryFunctionOfUnaryAndGlu) {
    std::set<std::string> names;
    for (const Case& each : quick_cases("llm")) names.insert(each.op);
    for (int i = 0; i < GGML_UNARY_OP_COUNT; ++i) {
        EXPECT_TRUE(names.contains(ggml_unary_op_name(static_cast<ggml_unary_op>(i)))) << i;
    }
    for (int i = 0; i < GGML_GLU_OP_COUNT; ++i) {
        EXPECT_TRUE(names.contains(ggml_glu_op_name(static_cast<ggml_glu_op>(i)))) << i;
    }
}

TEST(BenchCases, AreNamedAfterTheOpTheyBuild) {
    for (const char* model : kModels) {
        for (const Case& each : quick_cases(model)) {
            EXPECT_EQ(each.op, ggml_op_desc(Built(each).result)) << name_of(each);
        }
    }
}

TEST(BenchCases, AreDifferentFromEachOther) {
    for (const bool quick : {false, true}) {
        for (const char* model : kModels) {
            std::set<std::string> names;
            for (const Case& each : all_cases({model, {}, quick})) {
                EXPECT_TRUE(names.insert(name_of(each)).second)
                    << name_of(each) << " is there twice";
            }
        }
    }
}

TEST(BenchCases, RunOnTheProcessor) {
    const auto target = Target::open("CPU");
    ASSERT_TRUE(target);
    target->stream().set_threads(2);
    for (const char* model : kModels) {
        for (const Case& each : quick_cases(model)) {
            auto workload = Workload::make(each, *target, 0);
            ASSERT_TRUE(workload) << workload.error().message;
            EXPECT_FALSE(workload->is_declined()) << name_of(each);
            EXPECT_GT(workload->work().bytes, 0) << name_of(each);
            if (workload->is_declined()) continue;
            const auto ran = workload->run();
            EXPECT_TRUE(ran) << name_of(each) << ": " << ran.error().message;
        }
    }
}

TEST(BenchCases, HaveTheTypesWishedFor) {
    const std::vector<ggml_type> types{GGML_TYPE_Q4_K, GGML_TYPE_IQ4_NL};
    std::set<std::string> ops;
    for (const Case& each : all_cases({"llm", types, true})) {
        EXPECT_THAT(types, testing::Contains(each.main_type)) << name_of(each);
        if (each.main_type == GGML_TYPE_Q4_K) ops.insert(each.op);
    }
    // Blocks of 256 do not fit into heads of 128.
    EXPECT_THAT(ops, testing::ElementsAre("CPY", "GET_ROWS", "MUL_MAT", "MUL_MAT_ID", "SET_ROWS"));
}

}  // namespace
}  // namespace heddle::tool::bench
