#include <gtest/gtest.h>

#include "core/context.hpp"
#include "gguf/test_support.hpp"

// Files far larger than usual. Anything but linear time would take minutes here.
namespace heddle::gguf::raw {
namespace {

TEST(Scale, ReadsAHundredThousandTensors) {
    constexpr std::size_t kCount = 100'000;
    RawFile raw;
    for (std::size_t i = 0; i < kCount; ++i) {
        raw.tensors.push_back({"blk." + std::to_string(i), {1}, GGML_TYPE_F32, i * 32});
    }
    raw.data.assign(kCount * 32, 'x');
    const std::string bytes = raw.bytes();
    ggml_context* context = nullptr;
    gguf_context* file = gguf_init_from_buffer(bytes.data(), bytes.size(), {false, &context});
    ASSERT_NE(file, nullptr);
    for (std::size_t i = 0; i < kCount; ++i) {
        const auto id = static_cast<std::int64_t>(i);
        ASSERT_EQ(gguf_find_tensor(file, raw.tensors[i].name.c_str()), id);
    }
    gguf_free(file);
    destroy_context(context);
}

TEST(Scale, ReadsAMillionStringsAndAHundredThousandKeys) {
    constexpr std::uint64_t kCount = 1'000'000;
    RawFile raw;
    std::string words = number(std::int32_t{GGUF_TYPE_STRING}) + number(kCount);
    for (std::uint64_t i = 0; i < kCount; ++i) words += string("token " + std::to_string(i));
    raw.pairs.push_back({"words", GGUF_TYPE_ARRAY, std::move(words)});
    for (int i = 0; i < 100'000; ++i) {
        raw.pairs.push_back({"key " + std::to_string(i), GGUF_TYPE_INT32, number(std::int32_t{i})});
    }
    const std::string bytes = raw.bytes();
    gguf_context* file = gguf_init_from_buffer(bytes.data(), bytes.size(), {true, nullptr});
    ASSERT_NE(file, nullptr);
    EXPECT_STREQ(gguf_get_arr_str(file, 0, kCount - 1), "token 999999");
    EXPECT_EQ(gguf_get_val_i32(file, gguf_find_key(file, "key 99999")), 99999);
    gguf_free(file);
}

}  // namespace
}  // namespace heddle::gguf::raw
