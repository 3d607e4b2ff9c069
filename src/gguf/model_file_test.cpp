#include "gguf/model_file.hpp"

#include <gtest/gtest.h>

namespace heddle::gguf {
namespace {

Tensor tensor(const char* name, Type type, const Extents& extent) {
    Tensor result{};
    result.type = type;
    const Strides stride = dense_strides(type, extent);
    std::copy(extent.begin(), extent.end(), result.ne);
    std::copy(stride.begin(), stride.end(), result.nb);
    set_name(result, name);
    return result;
}

TEST(ModelFile, SettingAKeyAgainMovesItToTheEnd) {
    File file;
    ASSERT_TRUE(file.set("a", Value::number(1)));
    ASSERT_TRUE(file.set("b", Value::number(2)));
    ASSERT_TRUE(file.set("a", Value::string("three")));
    ASSERT_EQ(file.pairs().size(), 2u);
    EXPECT_EQ(file.pairs()[0].key, "b");
    EXPECT_EQ(file.find_key("b"), 0u);
    EXPECT_EQ(file.find_key("a"), 1u);
    EXPECT_EQ(file.pairs()[1].value.list()[0], "three");
}

TEST(ModelFile, RemovingAKeyShiftsTheOthersDown) {
    File file;
    for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(file.set(key, Value::string(key)));
    EXPECT_EQ(*file.remove("a"), 0u);
    EXPECT_EQ(*file.remove("a"), std::nullopt);
    EXPECT_EQ(file.find_key("b"), 0u);
    EXPECT_EQ(file.find_key("c"), 1u);
    EXPECT_EQ(*file.remove(file.pairs()[1].key), 1u);
    EXPECT_EQ(file.pairs().size(), 1u);
}

TEST(ModelFile, RefusesEmptyKeys) {
    File file;
    EXPECT_EQ(file.set("", Value::number(1)).error().message, "a key is empty");
}

TEST(ModelFile, AlignmentMovesTheTensorsAtOnce) {
    File file;
    ASSERT_TRUE(file.add_tensor(tensor("a", GGML_TYPE_I8, {3, 1, 1, 1})));
    ASSERT_TRUE(file.add_tensor(tensor("b", GGML_TYPE_F32, {3, 1, 1, 1})));
    EXPECT_EQ(file.tensors()[1].offset, 32u);
    EXPECT_EQ(file.data_size(), 64u);
    ASSERT_TRUE(file.set("general.alignment", Value::number(std::uint32_t{1})));
    EXPECT_EQ(file.tensors()[1].offset, 3u);
    EXPECT_EQ(file.data_size(), 15u);
    EXPECT_EQ(file.alignment(), 1u);
    ASSERT_TRUE(file.set("general.alignment", Value::number(std::uint32_t{4096})));
    EXPECT_EQ(file.tensors()[1].offset, 4096u);
    ASSERT_TRUE(file.remove("general.alignment"));
    EXPECT_EQ(file.alignment(), 32u);
    EXPECT_EQ(file.tensors()[1].offset, 32u);
}

TEST(ModelFile, RefusesAlignmentsThatAreNone) {
    File file;
    EXPECT_EQ(file.set("general.alignment", Value::number(std::uint32_t{24})).error().message,
              "alignment 24 is not a power of two");
    EXPECT_EQ(file.set("general.alignment", Value::number(std::int32_t{32})).error().message,
              "the value is i32, not u32");
    EXPECT_TRUE(file.pairs().empty());
    EXPECT_EQ(file.alignment(), 32u);
}

TEST(ModelFile, ChangingATypeMovesLaterTensors) {
    File file;
    ASSERT_TRUE(file.add_tensor(tensor("a", GGML_TYPE_F32, {64, 2, 1, 1})));
    ASSERT_TRUE(file.add_tensor(tensor("b", GGML_TYPE_F32, {1, 1, 1, 1})));
    EXPECT_EQ(file.tensors()[1].offset, 512u);
    ASSERT_TRUE(file.set_tensor_type("a", GGML_TYPE_Q8_0));
    EXPECT_EQ(byte_size(file.tensors()[0].tensor), 4u * 34u);
    EXPECT_EQ(file.tensors()[1].offset, 160u);
    EXPECT_EQ(
        file.set_tensor_type("a", GGML_TYPE_Q4_K).error().message,
        "tensor 'a': rows of 64 elements of type q4_K are not a multiple of its block size 256");
    EXPECT_EQ(file.tensors()[0].tensor.type, GGML_TYPE_Q8_0);
    EXPECT_EQ(file.set_tensor_type("z", GGML_TYPE_F16).error().code, Errc::not_found);
}

TEST(ModelFile, RefusesASecondTensorOfTheSameName) {
    File file;
    ASSERT_TRUE(file.add_tensor(tensor("a", GGML_TYPE_F32, {1, 1, 1, 1})));
    EXPECT_EQ(file.add_tensor(tensor("a", GGML_TYPE_F16, {1, 1, 1, 1})).error().message,
              "a second tensor is named 'a'");
}

TEST(ModelFile, RefusesOffsetsThatCannotBeCounted) {
    File file;
    const Extents half{INT64_MAX - 31, 1, 1, 1};  // of what can be counted
    ASSERT_TRUE(file.add_tensor(tensor("a", GGML_TYPE_I8, half)));
    ASSERT_TRUE(file.add_tensor(tensor("b", GGML_TYPE_I8, half)));
    EXPECT_FALSE(file.add_tensor(tensor("c", GGML_TYPE_I8, {64, 1, 1, 1})));
    EXPECT_FALSE(file.set("general.alignment", Value::number(std::uint32_t{1} << 31)));
    EXPECT_EQ(file.alignment(), 32u);
    EXPECT_EQ(file.tensors().size(), 2u);
}

TEST(ModelFile, RefusesTensorsWhoseBytesCannotBeCounted) {
    File file;
    EXPECT_FALSE(file.add_tensor(tensor("a", GGML_TYPE_I8, {INT64_MAX - 31, 2, 1, 1})));
    EXPECT_FALSE(file.add_tensor(tensor("b", GGML_TYPE_Q4_1, {std::int64_t{1} << 62, 1, 1, 1})));
    EXPECT_EQ(file.tensors().size(), 0u);
}

TEST(ModelFile, OtherBytesOfATensorAreTheCallersOwn) {
    File file;
    float one = 1, two = 2;
    Tensor a = tensor("a", GGML_TYPE_F32, {1, 1, 1, 1});
    a.data = &one;
    a.buffer = reinterpret_cast<ggml_backend_buffer*>(&two);  // compared, never used
    ASSERT_TRUE(file.add_tensor(a));
    ASSERT_TRUE(file.set_tensor_data("a", &one));
    EXPECT_EQ(file.tensors()[0].tensor.buffer, a.buffer);
    ASSERT_TRUE(file.set_tensor_data("a", &two));
    EXPECT_EQ(file.tensors()[0].tensor.buffer, nullptr);
    EXPECT_EQ(file.tensors()[0].tensor.data, &two);
}

TEST(Value, KeepsStringsWithAnyBytes) {
    StringList list;
    list.push_back(std::string_view("a\0b", 3));
    list.push_back("");
    list.push_back("c");
    EXPECT_EQ(list[0], std::string_view("a\0b", 3));
    EXPECT_STREQ(list.c_str(0), "a");
    EXPECT_EQ(list[1], "");
    EXPECT_STREQ(list.c_str(2), "c");
}

TEST(Value, GivesOneNumberOfItsOwnType) {
    EXPECT_EQ(*Value::number(std::uint16_t{7}).as<std::uint16_t>(), 7);
    EXPECT_EQ(Value::number(1.5f).as<double>().error().message, "the value is f32, not f64");
    EXPECT_EQ(*Value::numbers(GGUF_TYPE_INT8, true, {std::byte{5}}).as<std::int8_t>(), 5);
    const Value two = Value::numbers(GGUF_TYPE_INT8, true, {std::byte{5}, std::byte{6}});
    EXPECT_EQ(two.as<std::int8_t>().error().message, "the value has 2 elements, not 1");
}

}  // namespace
}  // namespace heddle::gguf
