#include "generated.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ggml/op_list.h"
#include "golden/build_case.hpp"
#include "ops/build.hpp"
#include "ops/check.hpp"
#include "reference/reference.hpp"

namespace heddle::tool {
namespace {

/// Ops that no device computes, or that only the caller can say the result of.
bool is_exempt(Op op) {
    constexpr Op kExempt[] = {GGML_OP_NONE,        GGML_OP_FLASH_ATTN_BACK, GGML_OP_MAP_CUSTOM1,
                              GGML_OP_MAP_CUSTOM2, GGML_OP_MAP_CUSTOM3,     GGML_OP_CUSTOM};
    return std::ranges::find(kExempt, op) != std::end(kExempt);
}

TEST(Generated, EveryOpHasADefinitionAndCases) {
    std::string without_definition, without_cases;
    const auto generated = generated_ops();
    for (int number = 0; number < GGML_OP_COUNT; ++number) {
        const auto op = static_cast<Op>(number);
        if (is_exempt(op)) continue;
        const std::string name = std::string(" ") + ggml_op_name(op);
        if (reference::definition_of(op) == nullptr) without_definition += name;
        if (std::ranges::find(generated, op) == generated.end()) without_cases += name;
    }
    EXPECT_EQ(without_definition, "") << "ops without a definition";
    EXPECT_EQ(without_cases, "") << "ops without cases";
}

TEST(Generated, CasesAreWhatTheirDescriptionBuilds) {
    constexpr std::uint64_t kSeed = 7;
    const auto cases = generate_cases(kSeed, 3, {});
    ASSERT_TRUE(cases) << cases.error().message;
    for (const golden::OpCase& made : *cases) {
        const auto built = golden::check_build(made);
        EXPECT_TRUE(built) << built.error().message;
        const auto context = golden::make_raw_context(made);
        ASSERT_TRUE(context) << context.error().message;
        const auto raw = golden::make_raw_node(made, **context);
        ASSERT_TRUE(raw) << raw.error().message;
        const auto node = check_node(*raw->node);
        EXPECT_TRUE(node) << made.name << " (" << made.description << "): " << node.error().message;
    }
}

TEST(Generated, SameSeedGivesTheSameCases) {
    const std::string wanted[] = {"rope", "ADD"};
    const auto first = generate_cases(1, 2, wanted), second = generate_cases(1, 2, wanted);
    const auto other = generate_cases(2, 2, wanted);
    ASSERT_TRUE(first && second && other);
    ASSERT_EQ(first->size(), second->size());
    bool is_different = false;
    for (std::size_t i = 0; i < first->size(); ++i) {
        EXPECT_EQ((*first)[i].description, (*second)[i].description);
        EXPECT_EQ((*first)[i].result.bytes, (*second)[i].result.bytes);
        is_different |= (*first)[i].description != (*other)[i].description;
    }
    EXPECT_TRUE(is_different) << "another seed should give other cases";
}

/// Whether the elements of all operands lie in storages of their own, without gaps.
bool is_dense(const golden::OpCase& made) {
    return std::ranges::all_of(made.sources, [](const golden::Source& source) {
        const golden::Layout& layout = source.layout;
        return source.storage_of == source.slot && layout.offset == 0 &&
               layout.stride == dense_strides(layout.type, layout.extent);
    });
}

TEST(Generated, PlainCasesComeFirstAndAreDense) {
    for (const Op op : generated_ops()) {
        const std::string name = ggml_op_name(op);
        const auto cases = generate_cases(1, 1, {&name, 1});
        ASSERT_TRUE(cases) << cases.error().message;
        const golden::OpCase& first = cases->front();
        EXPECT_EQ(first.name, name + " plain 0");
        EXPECT_TRUE(is_dense(first)) << first.description;
        EXPECT_EQ(first.description.find("_inplace"), std::string::npos) << first.description;
    }
}

TEST(Generated, PlainCaseOfTwoOperandsHasTheSameShapeInF32) {
    for (const std::string name : {"ADD", "SUB", "MUL", "DIV", "CPY"}) {
        const auto cases = generate_cases(1, 1, {&name, 1});
        ASSERT_TRUE(cases) << cases.error().message;
        const golden::OpCase& first = cases->front();
        ASSERT_EQ(first.sources.size(), 2u);
        EXPECT_EQ(first.sources[0].layout.type, GGML_TYPE_F32) << first.description;
        EXPECT_EQ(first.sources[1].layout.type, GGML_TYPE_F32) << first.description;
        EXPECT_EQ(first.sources[0].layout.extent, first.sources[1].layout.extent)
            << first.description;
        EXPECT_GT(first.sources[0].layout.extent[0], 1) << first.description;
    }
}

TEST(Generated, OpsThatAreNotNamedAreLeftOut) {
    const std::string wanted[] = {"soft_max"};
    const auto cases = generate_cases(1, 1, wanted);
    ASSERT_TRUE(cases) << cases.error().message;
    EXPECT_FALSE(cases->empty());
    for (const golden::OpCase& made : *cases) EXPECT_EQ(made.op, "SOFT_MAX");
}

}  // namespace
}  // namespace heddle::tool
