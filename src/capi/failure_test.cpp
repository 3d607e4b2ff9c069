#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "ggml.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "heddle/heddle.h"

namespace {

/// Returns NULL instead of stopping the program, for the length of a test.
class ReturnMode : public testing::Test {
protected:
    ReturnMode() { heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN); }
    ~ReturnMode() override {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_ABORT);
        ggml_free(context);
    }
    ggml_context* context =
        ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true});
};

TEST_F(ReturnMode, ARefusedOpGivesNullAndTheSentence) {
    ggml_tensor* a = ggml_new_tensor_2d(context, GGML_TYPE_F32, 4, 3);
    EXPECT_EQ(ggml_roll(context, a, 5, 0, 0, 0), nullptr);
    EXPECT_STREQ(heddle_last_error(), "roll: shift 5 in dimension 0 of extent 4");
    EXPECT_NE(ggml_roll(context, a, 1, 0, 0, 0), nullptr) << "the context stays usable";
}

TEST_F(ReturnMode, NullsAreNamed) {
    EXPECT_EQ(ggml_add(context, nullptr, nullptr), nullptr);
    EXPECT_STREQ(heddle_last_error(), "add: operand a is missing");
    EXPECT_EQ(ggml_new_tensor_1d(nullptr, GGML_TYPE_F32, 1), nullptr);
    EXPECT_STREQ(heddle_last_error(), "new tensor: the context is NULL");
}

TEST_F(ReturnMode, AFullContextSaysWhatWasNeeded) {
    ggml_context* small = ggml_init({.mem_size = 512, .mem_buffer = nullptr, .no_alloc = false});
    EXPECT_EQ(ggml_new_tensor_1d(small, GGML_TYPE_F32, 1000), nullptr);
    EXPECT_STREQ(heddle_last_error(),
                 "context: not enough space in the memory pool (needed 4336 bytes and 32 for its "
                 "header, available 512 of 512)");
    EXPECT_NE(ggml_new_tensor_1d(small, GGML_TYPE_F32, 8), nullptr);
    ggml_free(small);
}

TEST_F(ReturnMode, EachThreadHasASentenceOfItsOwn) {
    heddle_clear_error();
    std::thread([] {
        ggml_add(nullptr, nullptr, nullptr);
        EXPECT_STRNE(heddle_last_error(), "");
    }).join();
    EXPECT_STREQ(heddle_last_error(), "");
}

TEST(AbortMode, StopsTheProgramThroughTheCallback) {
    EXPECT_DEATH(
        {
            ggml_set_abort_callback(
                [](const char* message) { fprintf(stderr, "callback got: %s\n", message); });
            ggml_add(nullptr, nullptr, nullptr);
        },
        "callback got: ADD: the context is NULL");
}

TEST(AbortMode, AssertionsOfClientsNameTheirPlace) {
    EXPECT_DEATH(GGML_ASSERT(1 == 2), "failure_test.cpp:[0-9]+: GGML_ASSERT\\(1 == 2\\) failed");
}

}  // namespace
