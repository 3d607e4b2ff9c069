#include <algorithm>
#include <cctype>
#include <cstring>

#include "heddle/heddle.h"
#include "test_support.hpp"

namespace heddle::conformance {
namespace {

TEST_P(Device, HasANameADescriptionAndARegistryThatListsIt) {
    EXPECT_STRNE(ggml_backend_dev_name(device()), "");
    EXPECT_STRNE(ggml_backend_dev_description(device()), nullptr);
    const ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(device());
    ASSERT_NE(reg, nullptr);
    EXPECT_STRNE(ggml_backend_reg_name(reg), "");
    bool is_listed = false;
    for (std::size_t i = 0; i < ggml_backend_reg_dev_count(reg); ++i) {
        is_listed |= ggml_backend_reg_dev_get(reg, i) == device();
    }
    EXPECT_TRUE(is_listed);
}

TEST_P(Device, IsFoundByItsNameInAnyCaseOfLetters) {
    std::string name = ggml_backend_dev_name(device());
    EXPECT_EQ(ggml_backend_dev_by_name(name.c_str()), device());
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    EXPECT_EQ(ggml_backend_dev_by_name(name.c_str()), device());
}

TEST_P(Device, PropertiesAgreeWithTheSingleQuestions) {
    const ggml_backend_dev_props all = props();
    EXPECT_STREQ(all.name, ggml_backend_dev_name(device()));
    EXPECT_STREQ(all.description, ggml_backend_dev_description(device()));
    EXPECT_EQ(all.type, ggml_backend_dev_type(device()));
    EXPECT_EQ(all.caps.host_buffer, ggml_backend_dev_host_buffer_type(device()) != nullptr);
    EXPECT_NE(all.type, GGML_BACKEND_DEVICE_TYPE_META) << "such devices are never registered";
}

TEST_P(Device, HasNoMoreFreeMemoryThanMemory) {
    std::size_t free = 1, total = 0;
    ggml_backend_dev_memory(device(), &free, &total);
    EXPECT_LE(free, total);
}

TEST_P(Device, UnknownProceduresAreNull) {
    const ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(device());
    EXPECT_EQ(ggml_backend_reg_get_proc_address(reg, "no_such_procedure"), nullptr);
    EXPECT_EQ(ggml_backend_reg_get_proc_address(reg, ""), nullptr);
}

TEST_P(Device, FeaturesAreNamesWithValues) {
    const auto get =
        reinterpret_cast<ggml_backend_get_features_t>(ggml_backend_reg_get_proc_address(
            ggml_backend_dev_backend_reg(device()), "ggml_backend_get_features"));
    if (get == nullptr) GTEST_SKIP() << "offers no features";
    for (const ggml_backend_feature* f = get(ggml_backend_dev_backend_reg(device()));
         f->name != nullptr; ++f) {
        EXPECT_STRNE(f->name, "");
        EXPECT_NE(f->value, nullptr);
    }
}

TEST_P(Device, SupportsItsOwnBufferTypes) {
    ASSERT_NE(buffer_type(), nullptr);
    EXPECT_EQ(buffer_type(), ggml_backend_dev_buffer_type(device())) << "one object, always";
    EXPECT_TRUE(ggml_backend_dev_supports_buft(device(), buffer_type()));
    const auto host = ggml_backend_dev_host_buffer_type(device());
    if (host != nullptr) {
        EXPECT_TRUE(ggml_backend_buft_is_host(host));
    }
}

TEST_P(Device, SupportsWhatIsNeverComputed) {
    const Workspace workspace;
    ggml_context* context = workspace.context();
    ggml_tensor* x = workspace.floats(8, 4);
    for (const ggml_tensor* node :
         {x, ggml_reshape_1d(context, x, 32), ggml_view_1d(context, x, 8, 0),
          ggml_permute(context, x, 1, 0, 2, 3), ggml_transpose(context, x)}) {
        EXPECT_TRUE(ggml_backend_dev_supports_op(device(), node)) << ggml_op_name(node->op);
    }
}

TEST_P(Device, AskingWhatItSupportsChangesNothing) {
    const Workspace workspace;
    ggml_context* context = workspace.context();
    ggml_tensor* a = ggml_new_tensor_2d(context, GGML_TYPE_Q4_0, 64, 64);
    ggml_tensor* b = workspace.floats(64, 64);
    for (ggml_tensor* node : {ggml_mul_mat(context, a, b), ggml_add(context, b, b),
                              ggml_soft_max(context, b), ggml_cast(context, b, GGML_TYPE_F16)}) {
        const ggml_tensor before = *node, source_before = *node->src[0];
        const bool first = ggml_backend_dev_supports_op(device(), node);
        EXPECT_EQ(ggml_backend_dev_supports_op(device(), node), first) << ggml_op_name(node->op);
        ggml_backend_dev_offload_op(device(), node);
        EXPECT_EQ(std::memcmp(&before, node, sizeof before), 0) << ggml_op_name(node->op);
        EXPECT_EQ(std::memcmp(&source_before, node->src[0], sizeof before), 0);
    }
}

TEST_P(Device, AnswersForWeightsInADummyBuffer) {
    const Workspace workspace;
    ggml_tensor* weight = workspace.floats(64, 64);
    const ggml_tensor* node = ggml_mul_mat(workspace.context(), weight, workspace.floats(64, 64));
    const bool without = ggml_backend_dev_supports_op(device(), node);
    const ggml_backend_buffer_ptr dummy(ggml_backend_buft_alloc_buffer(buffer_type(), 0));
    ASSERT_NE(dummy, nullptr);
    weight->buffer = dummy.get();
    EXPECT_EQ(ggml_backend_dev_supports_op(device(), node), without);
}

TEST_P(Device, DeclinesFunctionsOfTheCallerUnlessItIsTheHost) {
    if (ggml_backend_dev_type(device()) == GGML_BACKEND_DEVICE_TYPE_CPU) {
        GTEST_SKIP() << "functions of the caller run on the host";
    }
    const Workspace workspace;
    const auto nothing = [](ggml_tensor*, const ggml_tensor*, int, int, void*) {};
    ggml_tensor* node =
        ggml_map_custom1(workspace.context(), workspace.floats(8), nothing, 1, nullptr);
    EXPECT_FALSE(ggml_backend_dev_supports_op(device(), node));
}

TEST_P(Device, GivesStreamsThatKnowWhereTheyBelong) {
    const ggml_backend_ptr first = new_stream(), second = new_stream();
    ASSERT_NE(first, nullptr);
    ASSERT_NE(second, nullptr);
    EXPECT_NE(first, second);
    EXPECT_EQ(ggml_backend_get_device(first.get()), device());
    EXPECT_STRNE(ggml_backend_name(first.get()), "");
    EXPECT_EQ(ggml_backend_get_default_buffer_type(first.get()), buffer_type());
    EXPECT_EQ(ggml_backend_get_alignment(first.get()),
              ggml_backend_buft_get_alignment(buffer_type()));
    ASSERT_NE(ggml_backend_guid(first.get()), nullptr);
    EXPECT_EQ(std::memcmp(ggml_backend_guid(first.get()), ggml_backend_guid(second.get()),
                          sizeof(ggml_guid)),
              0);
}

TEST_P(Device, StreamsAnswerAsTheirDevice) {
    const ggml_backend_ptr stream = new_stream();
    const Workspace workspace;
    const ggml_tensor* node = ggml_sqr(workspace.context(), workspace.floats(64, 64));
    EXPECT_EQ(ggml_backend_supports_op(stream.get(), node),
              ggml_backend_dev_supports_op(device(), node));
    EXPECT_TRUE(ggml_backend_supports_buft(stream.get(), buffer_type()));
}

INSTANTIATE_TEST_SUITE_P(Every, Device, testing::ValuesIn(all_subjects()), label_of);

}  // namespace
}  // namespace heddle::conformance
