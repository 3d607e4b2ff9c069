#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/context.hpp"
#include "ggml-impl.h"
#include "gguf/test_support.hpp"
#include "heddle/gguf.h"
#include "heddle/heddle.h"

namespace heddle::gguf {
namespace {

using testing::HasSubstr;

/// Functions that cannot report a failure return, instead of ending the program.
class GgufApi : public testing::Test {
protected:
    void SetUp() override {
        before_ = heddle_get_error_mode();
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        heddle_clear_error();
        ctx_ = gguf_init_empty();
    }
    void TearDown() override {
        gguf_free(ctx_);
        heddle_set_error_mode(before_);
    }

    void expect_failed(const char* sentence) {
        EXPECT_THAT(heddle_last_error(), HasSubstr(sentence));
        heddle_clear_error();
    }

    heddle_error_mode before_;
    gguf_context* ctx_ = nullptr;
};

Tensor f32_tensor(const char* name, std::int64_t n, void* data) {
    Tensor tensor{};
    const Strides stride = dense_strides(GGML_TYPE_F32, {n, 1, 1, 1});
    std::copy(stride.begin(), stride.end(), tensor.nb);
    tensor.ne[0] = n;
    tensor.ne[1] = tensor.ne[2] = tensor.ne[3] = 1;
    tensor.data = data;
    set_name(tensor, name);
    return tensor;
}

TEST_F(GgufApi, EmptyContextHasTheDefaults) {
    EXPECT_EQ(gguf_get_version(ctx_), 3u);
    EXPECT_EQ(gguf_get_alignment(ctx_), 32u);
    EXPECT_EQ(gguf_get_data_offset(ctx_), 0u);
    EXPECT_EQ(gguf_get_n_kv(ctx_), 0);
    EXPECT_EQ(gguf_get_n_tensors(ctx_), 0);
    EXPECT_EQ(gguf_get_meta_size(ctx_), 32u) << "padded even without tensors";
    gguf_free(nullptr);
}

TEST_F(GgufApi, TypesHaveNamesAndSizes) {
    EXPECT_STREQ(gguf_type_name(GGUF_TYPE_UINT8), "u8");
    EXPECT_STREQ(gguf_type_name(GGUF_TYPE_ARRAY), "arr");
    EXPECT_EQ(gguf_type_name(GGUF_TYPE_COUNT), nullptr);
    EXPECT_EQ(gguf_type_size(GGUF_TYPE_FLOAT64), 8u);
    EXPECT_EQ(gguf_type_size(GGUF_TYPE_STRING), 0u);
    EXPECT_EQ(gguf_type_size(GGUF_TYPE_COUNT), 0u);
}

TEST_F(GgufApi, EveryTypeComesBackAsItWasSet) {
    gguf_set_val_u8(ctx_, "u8", 200);
    gguf_set_val_i8(ctx_, "i8", -100);
    gguf_set_val_u16(ctx_, "u16", 60000);
    gguf_set_val_i16(ctx_, "i16", -30000);
    gguf_set_val_u32(ctx_, "u32", 4000000000u);
    gguf_set_val_i32(ctx_, "i32", -2000000000);
    gguf_set_val_f32(ctx_, "f32", 1.5f);
    gguf_set_val_u64(ctx_, "u64", UINT64_MAX);
    gguf_set_val_i64(ctx_, "i64", INT64_MIN);
    gguf_set_val_f64(ctx_, "f64", -0.1);
    gguf_set_val_bool(ctx_, "bool", true);
    gguf_set_val_str(ctx_, "str", "text");
    const auto id = [&](const char* key) { return gguf_find_key(ctx_, key); };
    EXPECT_EQ(gguf_get_val_u8(ctx_, id("u8")), 200);
    EXPECT_EQ(gguf_get_val_i8(ctx_, id("i8")), -100);
    EXPECT_EQ(gguf_get_val_u16(ctx_, id("u16")), 60000);
    EXPECT_EQ(gguf_get_val_i16(ctx_, id("i16")), -30000);
    EXPECT_EQ(gguf_get_val_u32(ctx_, id("u32")), 4000000000u);
    EXPECT_EQ(gguf_get_val_i32(ctx_, id("i32")), -2000000000);
    EXPECT_EQ(gguf_get_val_f32(ctx_, id("f32")), 1.5f);
    EXPECT_EQ(gguf_get_val_u64(ctx_, id("u64")), UINT64_MAX);
    EXPECT_EQ(gguf_get_val_i64(ctx_, id("i64")), INT64_MIN);
    EXPECT_EQ(gguf_get_val_f64(ctx_, id("f64")), -0.1);
    EXPECT_TRUE(gguf_get_val_bool(ctx_, id("bool")));
    EXPECT_STREQ(gguf_get_val_str(ctx_, id("str")), "text");
    EXPECT_EQ(*static_cast<const std::int16_t*>(gguf_get_val_data(ctx_, id("i16"))), -30000);
    EXPECT_EQ(gguf_get_kv_type(ctx_, id("f64")), GGUF_TYPE_FLOAT64);
    EXPECT_EQ(gguf_get_arr_n(ctx_, id("f64")), 1u);
    EXPECT_EQ(gguf_find_key(ctx_, "none"), -1);
    EXPECT_STREQ(heddle_last_error(), "");
}

TEST_F(GgufApi, ArraysComeBackAsTheyWereSet) {
    const std::int8_t truths[] = {0, 1, 2};
    const char* words[] = {"one", "two"};
    gguf_set_arr_data(ctx_, "truths", GGUF_TYPE_BOOL, truths, 3);
    gguf_set_arr_data(ctx_, "nothing", GGUF_TYPE_FLOAT32, nullptr, 0);
    gguf_set_arr_str(ctx_, "words", words, 2);
    gguf_set_arr_data(ctx_, "one", GGUF_TYPE_INT8, truths + 2, 1);
    EXPECT_EQ(gguf_get_kv_type(ctx_, 0), GGUF_TYPE_ARRAY);
    EXPECT_EQ(gguf_get_arr_type(ctx_, 0), GGUF_TYPE_BOOL);
    EXPECT_EQ(static_cast<const std::int8_t*>(gguf_get_arr_data(ctx_, 0))[2], 1);
    EXPECT_EQ(gguf_get_arr_n(ctx_, 1), 0u);
    EXPECT_STREQ(gguf_get_arr_str(ctx_, 2, 1), "two");
    EXPECT_EQ(gguf_get_val_i8(ctx_, 3), 2) << "an array of one element passes for it";
    EXPECT_STREQ(heddle_last_error(), "");
}

TEST_F(GgufApi, WrongQuestionsAreRefusedWithASentence) {
    const char* words[] = {"one", "two"};
    gguf_set_val_u32(ctx_, "number", 1);
    gguf_set_arr_str(ctx_, "words", words, 2);
    EXPECT_EQ(gguf_get_val_i32(ctx_, 0), 0);
    expect_failed("gguf_get_val_i32: key 0 'number': the value is u32, not i32");
    EXPECT_EQ(gguf_get_key(ctx_, 2), nullptr);
    expect_failed("gguf_get_key: key 2 of 2");
    EXPECT_EQ(gguf_get_key(ctx_, -1), nullptr);
    expect_failed("gguf_get_key: key -1 of 2");
    gguf_get_arr_type(ctx_, 0);
    expect_failed("the value is no array");
    EXPECT_EQ(gguf_get_arr_data(ctx_, 1), nullptr);
    expect_failed("strings are not packed");
    EXPECT_EQ(gguf_get_val_data(ctx_, 1), nullptr);
    expect_failed("the value has 2 elements, not 1");
    EXPECT_EQ(gguf_get_arr_str(ctx_, 1, 2), nullptr);
    expect_failed("gguf_get_arr_str: key 1 'words': string 2 of 2");
    EXPECT_EQ(gguf_get_arr_str(ctx_, 0, 0), nullptr);
    expect_failed("the elements are no strings");
    EXPECT_EQ(gguf_get_val_str(ctx_, 1), nullptr);
    expect_failed("the value has 2 elements, not 1");
    EXPECT_EQ(gguf_get_tensor_name(ctx_, 0), nullptr);
    expect_failed("gguf_get_tensor_name: tensor 0 of 0");
    EXPECT_EQ(gguf_get_n_kv(nullptr), 0);
    expect_failed("gguf_get_n_kv: the context is NULL");
}

TEST_F(GgufApi, StringsWithNulsHaveTheirWholeSize) {
    raw::RawFile file = raw::sound_file();
    file.pairs[0].payload = raw::string({"llama\0x", 7});
    file.pairs[4].payload = raw::number(std::int32_t{GGUF_TYPE_STRING}) +
                            raw::number(std::uint64_t{2}) + raw::string({"\0", 1}) +
                            raw::string("two");
    const std::string bytes = file.bytes();
    gguf_context* read =
        gguf_init_from_buffer(bytes.data(), bytes.size(), {.no_alloc = true, .ctx = nullptr});
    ASSERT_NE(read, nullptr) << heddle_last_error();
    EXPECT_STREQ(gguf_get_val_str(read, 0), "llama");
    EXPECT_EQ(heddle_gguf_get_str_size(read, 0, 0), 7u);
    EXPECT_EQ(std::memcmp(gguf_get_val_str(read, 0), "llama\0x", 8), 0);
    EXPECT_EQ(heddle_gguf_get_str_size(read, 4, 0), 1u);
    EXPECT_EQ(heddle_gguf_get_str_size(read, 4, 1), 3u);
    EXPECT_EQ(heddle_gguf_get_str_size(read, 4, 2), 0u);
    expect_failed("heddle_gguf_get_str_size: key 4 'words': string 2 of 2");
    EXPECT_EQ(heddle_gguf_get_str_size(read, 1, 0), 0u);
    expect_failed("heddle_gguf_get_str_size: key 1 'count': the elements are no strings");
    gguf_free(read);
}

TEST_F(GgufApi, WrongChangesAreRefusedAndChangeNothing) {
    gguf_set_val_u32(ctx_, "", 1);
    expect_failed("gguf_set_val_u32: key '': a key is empty");
    gguf_set_val_u32(ctx_, "general.alignment", 24);
    expect_failed("gguf_set_val_u32: key 'general.alignment': alignment 24 is not a power of two");
    gguf_set_val_str(ctx_, "general.alignment", "32");
    expect_failed("the value is str, not u32");
    gguf_set_arr_data(ctx_, "a", GGUF_TYPE_STRING, "x", 1);
    expect_failed("has no packed form");
    gguf_set_arr_data(ctx_, "a", GGUF_TYPE_INT64, "x", SIZE_MAX);
    expect_failed("elements are too many");
    const char* words[] = {"one", nullptr};
    gguf_set_arr_str(ctx_, "a", words, 2);
    expect_failed("string 1 of 2 is NULL");
    gguf_set_tensor_type(ctx_, "t", GGML_TYPE_F16);
    expect_failed("gguf_set_tensor_type: no tensor is named 't'");
    gguf_add_tensor(ctx_, nullptr);
    expect_failed("gguf_add_tensor: the tensor is NULL");
    EXPECT_EQ(gguf_get_n_kv(ctx_), 0);
    EXPECT_EQ(gguf_get_n_tensors(ctx_), 0);
}

TEST_F(GgufApi, RemovesKeysByName) {
    gguf_set_val_u32(ctx_, "a", 1);
    gguf_set_val_u32(ctx_, "b", 2);
    EXPECT_EQ(gguf_remove_key(ctx_, "a"), 0);
    EXPECT_EQ(gguf_remove_key(ctx_, "a"), -1);
    EXPECT_EQ(gguf_find_key(ctx_, "b"), 0);
}

TEST_F(GgufApi, ZeroSizeTensorsSurviveARewrite) {
    float one = 1;
    Tensor empty = f32_tensor("empty", 8, nullptr);
    empty.ne[3] = 0;
    const Tensor full = f32_tensor("full", 1, &one);
    gguf_add_tensor(ctx_, &empty);
    gguf_add_tensor(ctx_, &full);
    std::vector<std::int8_t> bytes;
    gguf_write_to_buf(ctx_, bytes, false);
    gguf_context* again = gguf_init_from_buffer(bytes.data(), bytes.size(), {false, nullptr});
    ASSERT_NE(again, nullptr);
    EXPECT_THAT(std::vector(gguf_get_tensor_ne(again, 0), gguf_get_tensor_ne(again, 0) + 4),
                testing::ElementsAre(8, 1, 1, 0));
    EXPECT_EQ(gguf_get_tensor_offset(again, 1), 0u);
    gguf_free(again);
}

TEST_F(GgufApi, WritingKeepsTheVersion) {
    raw::RawFile raw = raw::sound_file();
    raw.version = 2;
    const std::string bytes = raw.bytes();
    gguf_context* file = gguf_init_from_buffer(bytes.data(), bytes.size(), {true, nullptr});
    ASSERT_NE(file, nullptr);
    std::vector<std::int8_t> written;
    gguf_write_to_buf(file, written, true);
    EXPECT_EQ(std::memcmp(written.data(), bytes.data(), 24), 0);
    gguf_free(file);
}

TEST_F(GgufApi, AlignmentSetAfterTheTensorsGivesAFileThatLoads) {
    float numbers[3] = {1, 2, 3};
    const Tensor a = f32_tensor("a", 3, numbers), b = f32_tensor("b", 2, numbers);
    gguf_add_tensor(ctx_, &a);
    gguf_add_tensor(ctx_, &b);
    gguf_set_val_u32(ctx_, "general.alignment", 128);
    EXPECT_EQ(gguf_get_tensor_offset(ctx_, 1), 128u);
    std::vector<std::int8_t> bytes;
    gguf_write_to_buf(ctx_, bytes, false);
    EXPECT_EQ(bytes.size() % 128, 0u);
    ggml_context* context = nullptr;
    gguf_context* again = gguf_init_from_buffer(bytes.data(), bytes.size(), {false, &context});
    ASSERT_NE(again, nullptr) << heddle_last_error();
    EXPECT_EQ(std::memcmp(find_tensor(*context, "b")->data, numbers, 8), 0);
    gguf_free(again);
    destroy_context(context);
}

TEST_F(GgufApi, WritesFilesAndSaysWhenItCannot) {
    const std::string path = testing::TempDir() + "heddle_gguf_capi_test.gguf";
    gguf_set_val_str(ctx_, "general.name", "sample");
    ASSERT_TRUE(gguf_write_to_file(ctx_, path.c_str(), false));
    gguf_context* again = gguf_init_from_file(path.c_str(), {true, nullptr});
    ASSERT_NE(again, nullptr);
    EXPECT_STREQ(gguf_get_val_str(again, 0), "sample");
    gguf_free(again);
    std::filesystem::remove(path);

    EXPECT_FALSE(gguf_write_to_file(ctx_, "/no/such/folder/file", false));
    expect_failed("/no/such/folder/file: cannot be written: No such file or directory");
    EXPECT_FALSE(gguf_write_to_file_ptr(ctx_, nullptr, false));
    expect_failed("the stream is NULL");

    const Tensor nothing = f32_tensor("nothing", 3, nullptr);
    gguf_add_tensor(ctx_, &nothing);
    std::vector<std::int8_t> bytes;
    gguf_write_to_buf(ctx_, bytes, false);
    expect_failed("gguf: tensor 'nothing' f32[3,1,1,1] has no data");
    EXPECT_TRUE(bytes.empty());

    float numbers[8] = {};
    Tensor strided = f32_tensor("strided", 3, numbers);
    strided.nb[0] = 8;
    gguf_set_tensor_data(ctx_, "nothing", numbers);
    gguf_add_tensor(ctx_, &strided);
    gguf_write_to_buf(ctx_, bytes, false);
    expect_failed("gguf: tensor 'strided' f32[3,1,1,1] is not contiguous");
}

TEST_F(GgufApi, WritesToAFullDeviceFail) {
    for (const int mode : {_IONBF, _IOFBF}) {
        std::FILE* full = std::fopen("/dev/full", "wb");
        ASSERT_NE(full, nullptr);
        std::setvbuf(full, nullptr, mode, mode == _IONBF ? 0 : 4096);
        EXPECT_FALSE(gguf_write_to_file_ptr(ctx_, full, true));
        expect_failed("gguf: the stream cannot be written: No space left on device");
        std::fclose(full);
    }
}

TEST_F(GgufApi, ReplacesAFileByAWholeOneOrNotAtAll) {
    const std::string folder = testing::TempDir() + "heddle_gguf_replaced/";
    std::filesystem::create_directory(folder);
    const std::string path = folder + "model.gguf";
    std::ofstream(path) << "something else";
    float numbers[3] = {};
    const Tensor tensor = f32_tensor("t", 3, numbers);
    gguf_add_tensor(ctx_, &tensor);
    const auto size = [&] { return std::filesystem::file_size(path); };
    const pid_t child = fork();
    if (child == 0) {
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{40, 40};
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(gguf_write_to_file(ctx_, path.c_str(), false) ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(size(), 14u) << "as it was";
    ASSERT_TRUE(gguf_write_to_file(ctx_, path.c_str(), false)) << heddle_last_error();
    EXPECT_EQ(size(), gguf_get_meta_size(ctx_) + 32);
    using Files = std::filesystem::directory_iterator;
    EXPECT_EQ(std::distance(Files(folder), Files()), 1) << "nothing else is left";
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace heddle::gguf
