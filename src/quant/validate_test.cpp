#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>

#include "ggml-common.h"
#include "quant/codec.hpp"
#include "quant/test_support.hpp"

namespace heddle::quant {
namespace {

std::string complaint(Type type, std::span<const std::byte> data) {
    const Result<> checked = validate(type, data);
    return checked ? "" : checked.error().message;
}

template <class T>
std::string complaint(Type type, const std::vector<T>& data) {
    return complaint(type, std::as_bytes(std::span(data)));
}

constexpr ggml_half kOne = 0x3c00, kInfinity = 0x7c00, kNan = 0xfe01;

TEST(Validate, AcceptsWhatEncodersWrite) {
    for (const Codec& codec : all_codecs()) {
        if (codec.type == GGML_TYPE_Q8_1) continue;
        const std::string type(name_of(codec.type));
        EXPECT_EQ(complaint(codec.type, read_bytes(type + ".q.bin")), "");
    }
}

TEST(Validate, NamesTheFirstPlainValueThatIsNotFinite) {
    EXPECT_EQ(complaint(GGML_TYPE_F32, std::vector<float>{1, 2, NAN, INFINITY}),
              "validate: value 2 of 4 (f32) is not a finite number");
    EXPECT_EQ(complaint(GGML_TYPE_F32, std::vector<float>{1, -3e38f, 1e-45f}), "");
    EXPECT_EQ(complaint(GGML_TYPE_F16, std::vector<std::uint16_t>{kOne, 0x7bff, 0xfc00}),
              "validate: value 2 of 3 (f16) is not a finite number");
    EXPECT_EQ(complaint(GGML_TYPE_BF16, std::vector<std::uint16_t>{0x7f80}),
              "validate: value 0 of 1 (bf16) is not a finite number");
    EXPECT_EQ(complaint(GGML_TYPE_BF16, std::vector<std::uint16_t>{kInfinity, 0xff7f}), "");
}

TEST(Validate, JudgesDoublesAsFloats) {
    EXPECT_EQ(complaint(GGML_TYPE_F64, std::vector<double>{1, 3e38}), "");
    EXPECT_EQ(complaint(GGML_TYPE_F64, std::vector<double>{1, 1e39}),
              "validate: value 1 of 2 (f64) is not a finite number");
}

TEST(Validate, FindsABadScaleInEveryFormatThatHasOne) {
    // All bits set make every half float and every float a NaN, and an FP4 exponent unknown.
    for (const Codec& codec : all_codecs()) {
        Bytes blocks(3 * size_of(codec.type), 0);
        for (std::size_t i = 0; i < size_of(codec.type); ++i)
            blocks[size_of(codec.type) + i] = 0xff;
        const std::string type(name_of(codec.type));
        const std::string expected =
            codec.type == GGML_TYPE_NVFP4 ? ""
            : codec.type == GGML_TYPE_Q8_1
                ? "validate: data cannot have type 9 (q8_1)"
                : "validate: scale of block 1 of 3 (" + type + ") is not a finite number";
        EXPECT_EQ(complaint(codec.type, blocks), expected);
    }
}

TEST(Validate, LooksAtMinimaToo) {
    block_q4_1 with_minimum{};
    with_minimum.d = kOne, with_minimum.m = kInfinity;
    EXPECT_EQ(complaint(GGML_TYPE_Q4_1, std::vector{with_minimum}),
              "validate: scale of block 0 of 1 (q4_1) is not a finite number");
    block_q4_K super{};
    super.d = kOne, super.dmin = kNan;
    EXPECT_EQ(complaint(GGML_TYPE_Q4_K, std::vector{super}),
              "validate: scale of block 0 of 1 (q4_K) is not a finite number");
}

TEST(Validate, AcceptsAnyIntegers) {
    const Bytes bytes(16, 0xff);
    for (const Type type : {GGML_TYPE_I8, GGML_TYPE_I16, GGML_TYPE_I32, GGML_TYPE_I64})
        EXPECT_EQ(complaint(type, bytes), "");
}

TEST(Validate, RefusesPiecesOfBlocksAndTypesThatAreNone) {
    EXPECT_EQ(complaint(GGML_TYPE_Q4_0, Bytes(19)),
              "validate: 19 bytes are not whole blocks of 18 bytes (q4_0)");
    EXPECT_EQ(complaint(GGML_TYPE_I64, Bytes(9)),
              "validate: 9 bytes are not whole blocks of 8 bytes (i64)");
    EXPECT_EQ(complaint(static_cast<Type>(5), Bytes(4)),
              "validate: data cannot have type 5 (DEPRECATED)");
    EXPECT_EQ(complaint(static_cast<Type>(60), Bytes(4)),
              "validate: data cannot have type 60 (unknown type)");
}

}  // namespace
}  // namespace heddle::quant
