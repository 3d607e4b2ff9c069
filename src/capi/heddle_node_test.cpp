// What backends outside the library ask of nodes before they compute them.

#include <gtest/gtest.h>

#include <string>

#include "ggml-cpp.h"
#include "ggml.h"
#include "ggml/ops.h"
#include "heddle/backend/objection.h"
#include "heddle/heddle.h"

namespace {

struct NodeFault : testing::Test {
    ggml_context_ptr context{ggml_init({1 << 20, nullptr, true})};
    ggml_tensor* x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 8, 3);
    ggml_tensor* sum = ggml_add(context.get(), x, x);
};

TEST_F(NodeFault, IsEmptyForWhateverIsBuilt) {
    for (const ggml_tensor* node :
         {x, sum, ggml_view_1d(context.get(), x, 4, 8), ggml_mul_mat(context.get(), x, x),
          ggml_soft_max_inplace(context.get(), sum)}) {
        EXPECT_STREQ(heddle_node_fault(node), "") << ggml_op_desc(node);
    }
}

TEST_F(NodeFault, SaysWhatWasChangedAndLeavesTheLastErrorAlone) {
    ggml_set_name(sum, "sum");
    heddle_report_error("before");
    const auto fault_of = [](const ggml_tensor* node) {
        return std::string(heddle_node_fault(node));
    };
    ggml_tensor changed = *sum;
    changed.src[1] = nullptr;
    EXPECT_EQ(fault_of(&changed), "add: operand b is missing");
    changed = *sum;
    changed.op = static_cast<ggml_op>(9999);
    EXPECT_EQ(fault_of(&changed), "there is no op 9999");
    changed = *sum;
    changed.ne[1] = 4;
    EXPECT_EQ(fault_of(&changed), "add: the node 'sum' f32[8,4,1,1] should be f32[8,3,1,1]");
    EXPECT_EQ(fault_of(nullptr), "node fault: the node is NULL");
    EXPECT_EQ(fault_of(sum), "") << "an answer is forgotten with the next question";
    EXPECT_STREQ(heddle_last_error(), "before");
}

TEST_F(NodeFault, HasNoControlCharactersAndEndsWhereItsRoomDoes) {
    ggml_set_name(sum, "\x1b[2J");
    sum->src[1] = sum;
    const std::string fault = heddle_node_fault(sum);
    EXPECT_NE(fault, "");
    EXPECT_EQ(fault.find('\x1b'), std::string::npos) << fault;
}

}  // namespace
