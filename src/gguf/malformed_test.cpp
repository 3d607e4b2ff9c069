#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>

#include "core/context.hpp"
#include "gguf/reader.hpp"
#include "gguf/test_support.hpp"
#include "heddle/heddle.h"

namespace heddle::gguf::raw {
namespace {

using testing::HasSubstr;

/// One thing wrong with a file, and what the reader says of it.
struct Defect {
    const char* name;
    std::function<void(RawFile&)> spoil;
    const char* sentence;
};

void PrintTo(const Defect& defect, std::ostream* out) { *out << defect.name; }

RawPair alignment_pair(std::uint32_t alignment) {
    return {GGUF_KEY_GENERAL_ALIGNMENT, GGUF_TYPE_UINT32, number(alignment)};
}

RawPair array_pair(gguf_type element, std::uint64_t count, std::string elements = {}) {
    return {"array", GGUF_TYPE_ARRAY,
            number(static_cast<std::int32_t>(element)) + number(count) + elements};
}

const Defect kHeaderDefects[] = {
    {"HeaderBadMagic", [](RawFile& f) { f.magic = "FUGG"; },
     "at byte 0: the magic is 'FUGG', not 'GGUF'"},
    {"HeaderBadVersion0", [](RawFile& f) { f.version = 0; }, "at byte 4: version 0, not 2 to 3"},
    {"HeaderBadVersion1", [](RawFile& f) { f.version = 1; }, "version 1, not 2 to 3"},
    {"HeaderBadVersionFuture", [](RawFile& f) { f.version = 4; }, "version 4, not 2 to 3"},
    {"HeaderOtherByteOrder", [](RawFile& f) { f.version = 0x03000000; }, "other byte order"},
    {"HeaderBadTensorCount", [](RawFile& f) { f.tensor_count = -1; },
     "at byte 8: n_tensors -1, at least 0"},
    {"HeaderTooManyTensors", [](RawFile& f) { f.tensor_count = INT64_MAX; },
     "at byte 8: n_tensors 9223372036854775807 of at least 24 bytes each, but"},
    {"HeaderBadPairCount", [](RawFile& f) { f.pair_count = -1; },
     "at byte 16: n_kv -1, at least 0"},
    {"HeaderTooManyPairs", [](RawFile& f) { f.pair_count = INT64_MAX; },
     "at byte 16: n_kv 9223372036854775807 of at least 14 bytes each, but"},
};

const Defect kPairDefects[] = {
    {"PairBadKeySize", [](RawFile& f) { f.pairs[0].key_length = UINT64_MAX; },
     "at byte 24: key 0: key length 18446744073709551615, at most 1073741824"},
    {"PairKeyPastTheEnd", [](RawFile& f) { f.pairs[0].key_length = 1 << 20; },
     "key length 1048576, but"},
    {"PairEmptyKey", [](RawFile& f) { f.pairs[0].key = ""; }, "key 0: the key is empty"},
    {"PairNulInKey", [](RawFile& f) { f.pairs[1].key = std::string("count\0x", 7); },
     "key 1 'count?x': byte 5 of its name is a NUL"},
    {"PairBadType", [](RawFile& f) { f.pairs[1].type = GGUF_TYPE_COUNT; },
     "key 1 'count': value type 13, not 0 to 12"},
    {"PairNegativeType", [](RawFile& f) { f.pairs[1].type = -1; },
     "key 1 'count': value type -1, not 0 to 12"},
    {"PairDuplicateKey", [](RawFile& f) { f.pairs[3].key = "count"; },
     "key 3 'count': key 1 has the same name"},
    {"PairBadAlignment", [](RawFile& f) { f.pairs[0] = alignment_pair(13); },
     "key 0 'general.alignment': alignment 13 is not a power of two"},
    {"PairZeroAlignment", [](RawFile& f) { f.pairs[0] = alignment_pair(0); },
     "alignment 0 is not a power of two"},
    {"PairWrongTypeAlignment",
     [](RawFile& f) {
         f.pairs[0] = alignment_pair(32);
         f.pairs[0].type = GGUF_TYPE_INT32;
     },
     "key 0 'general.alignment': the value is i32, not u32"},
    {"PairArrayAlignment",
     [](RawFile& f) {
         f.pairs[0] = array_pair(GGUF_TYPE_UINT32, 1, number(std::uint32_t{32}));
         f.pairs[0].key = GGUF_KEY_GENERAL_ALIGNMENT;
     },
     "the value is arr, not u32"},
    {"ArrayTooLong", [](RawFile& f) { f.pairs[4] = array_pair(GGUF_TYPE_UINT8, (1u << 30) + 1); },
     "key 4 'array': element count 1073741825, at most 1073741824"},
    {"ArrayPastTheEnd", [](RawFile& f) { f.pairs[4] = array_pair(GGUF_TYPE_FLOAT64, 1 << 29); },
     "536870912 values of type f64 take at least 4294967296 bytes, but"},
    {"StringArrayPastTheEnd",
     [](RawFile& f) { f.pairs[4] = array_pair(GGUF_TYPE_STRING, 1 << 20); },
     "1048576 values of type str take at least 8388608 bytes, but"},
    {"ArrayOfArrays", [](RawFile& f) { f.pairs[4] = array_pair(GGUF_TYPE_ARRAY, 1); },
     "key 4 'array': element type arr: arrays do not nest"},
    {"ArrayBadElementType", [](RawFile& f) { f.pairs[4] = array_pair(GGUF_TYPE_COUNT, 1); },
     "element type 13, not 0 to 12"},
    {"StringTooLong", [](RawFile& f) { f.pairs[0].payload = number((std::uint64_t{1} << 30) + 1); },
     "key 0 'general.name': string length 1073741825, at most 1073741824"},
};

const Defect kTensorDefects[] = {
    {"TensorBadNameSize", [](RawFile& f) { f.tensors[1].name.assign(64, 'n'); },
     "tensor 1: name length 64, at most 63"},
    {"TensorNulInName", [](RawFile& f) { f.tensors[1].name = std::string("second\0x", 8); },
     "tensor 1 'second?x': byte 6 of its name is a NUL"},
    {"TensorBadDimensionCount",
     [](RawFile& f) {
         f.tensors[1].extents = {32, 1, 1, 1, 1};
     },
     "tensor 1 'second': n_dims 5, at most 4"},
    {"TensorBadShape",
     [](RawFile& f) {
         f.tensors[1].extents = {32, -1};
     },
     "tensor 1 'second': extent -1 in dimension 1"},
    {"TensorTooManyElements",
     [](RawFile& f) {
         f.tensors[0].extents = {4ll * INT32_MAX, 4ll * INT32_MAX};
     },
     "tensor 0 'first': extents [8589934588,8589934588,1,1]: fewer than 9223372036854775807"},
    {"TensorTooManyBytes",
     [](RawFile& f) {
         f.tensors[0] = {"first", {std::int64_t{1} << 61}, GGML_TYPE_I64, 0};
     },
     "2305843009213693952 elements of type i64: at most 18446744073709551615 bytes"},
    {"TensorBadType", [](RawFile& f) { f.tensors[1].type = GGML_TYPE_COUNT; },
     "tensor 1 'second': type 43, not 0 to 42"},
    {"TensorNegativeType", [](RawFile& f) { f.tensors[1].type = -1; },
     "tensor 1 'second': type -1, not 0 to 42"},
    {"TensorRemovedType", [](RawFile& f) { f.tensors[1].type = 31; },
     "type 31 (TYPE_Q4_0_4_4 REMOVED"},
    {"TensorPartialBlock", [](RawFile& f) { f.tensors[1].extents[0] = 33; },
     "rows of 33 elements of type q8_0 are not a multiple of its block size 32"},
    {"TensorBadOffset", [](RawFile& f) { f.tensors[1].offset = UINT64_MAX; },
     "tensor 1 'second': offset 18446744073709551615, but the tensors before it end at 32"},
    {"TensorGap", [](RawFile& f) { f.tensors[2].offset += 32; },
     "tensor 2 'third': offset 160, but the tensors before it end at 128 with alignment 32"},
    {"TensorDuplicateName", [](RawFile& f) { f.tensors[2].name = "first"; },
     "tensor 2 'first': tensor 0 has the same name"},
    {"TensorBadAlignment", [](RawFile& f) { f.pairs.push_back(alignment_pair(13)); },
     "alignment 13 is not a power of two"},
    {"TensorInconsistentAlignment", [](RawFile& f) { f.tensors[2].offset = 32 + 68; },
     "tensor 2 'third': offset 100, but the tensors before it end at 128 with alignment 32"},
    {"TensorOffsetOverflow",
     [](RawFile& f) {
         f.tensors = {{"a", {INT64_MAX / 32 * 32}, GGML_TYPE_I8, 0},
                      {"b", {INT64_MAX / 32 * 32}, GGML_TYPE_I8, INT64_MAX / 32 * 32},
                      {"c", {64}, GGML_TYPE_I8, UINT64_MAX / 64 * 64}};
     },
     "tensor 2 'c'"},
};

const Defect kDataDefects[] = {
    {"DataNotEnough", [](RawFile& f) { f.data.pop_back(); },
     "the data take 160 bytes, but 159 are left"},
    {"DataMissing", [](RawFile& f) { f.data.clear(); }, "the data take 160 bytes, but 0 are left"},
    {"DataInconsistentAlignment", [](RawFile& f) { f.pairs.push_back(alignment_pair(64)); },
     "tensor 1 'second': offset 32, but the tensors before it end at 64 with alignment 64"},
    {"DataMemorySizeOverflow",
     [](RawFile& f) {
         f.tensors = {{"a", {0x7FFFFFFFFFFFFFC0}, GGML_TYPE_I8, 0},
                      {"b", {0x7FFFFFFFFFFFFFC0}, GGML_TYPE_I8, 0x7FFFFFFFFFFFFFC0}};
     },
     "3 tensors and 18446744073709551488 bytes of data are more than a context can hold"},
};

class Malformed : public testing::TestWithParam<Defect> {};

TEST_P(Malformed, IsRefusedWithASentenceFromEverySource) {
    RawFile file = sound_file();
    GetParam().spoil(file);
    const std::string bytes = file.bytes();

    ggml_context* context = nullptr;
    const gguf_init_params params{.no_alloc = false, .ctx = &context};
    heddle_clear_error();
    EXPECT_EQ(gguf_init_from_buffer(bytes.data(), bytes.size(), params), nullptr);
    EXPECT_EQ(context, nullptr);
    EXPECT_THAT(heddle_last_error(), HasSubstr(GetParam().sentence));

    std::FILE* stream = std::tmpfile();
    ASSERT_NE(stream, nullptr);
    std::fwrite(bytes.data(), 1, bytes.size(), stream);
    std::rewind(stream);
    heddle_clear_error();
    EXPECT_EQ(gguf_init_from_file_ptr(stream, params), nullptr);
    EXPECT_EQ(context, nullptr);
    EXPECT_THAT(heddle_last_error(), HasSubstr(GetParam().sentence));
    std::fclose(stream);
}

std::string name_of_defect(const testing::TestParamInfo<Defect>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Header, Malformed, testing::ValuesIn(kHeaderDefects), name_of_defect);
INSTANTIATE_TEST_SUITE_P(Pairs, Malformed, testing::ValuesIn(kPairDefects), name_of_defect);
INSTANTIATE_TEST_SUITE_P(Tensors, Malformed, testing::ValuesIn(kTensorDefects), name_of_defect);
INSTANTIATE_TEST_SUITE_P(Data, Malformed, testing::ValuesIn(kDataDefects), name_of_defect);

Result<std::unique_ptr<File>> read_bytes(const std::string& bytes) {
    MemorySource source(std::as_bytes(std::span(bytes)));
    return read(source);
}

TEST(Reader, AcceptsTheSoundFile) {
    const auto file = read_bytes(sound_file().bytes());
    ASSERT_TRUE(file) << file.error().message;
    const File& f = **file;
    EXPECT_EQ(f.version(), 3u);
    ASSERT_EQ(f.pairs().size(), 5u);
    EXPECT_EQ(f.pairs()[0].value.list()[0], "sample");
    EXPECT_TRUE(*f.pairs()[2].value.as<bool>());
    EXPECT_EQ(f.pairs()[2].value.bytes()[0], std::byte{1}) << "a truth value is 0 or 1";
    EXPECT_EQ(f.pairs()[3].value.size(), 3u);
    EXPECT_EQ(f.pairs()[4].value.list()[1], "");
    ASSERT_EQ(f.tensors().size(), 3u);
    EXPECT_EQ(f.tensors()[2].offset, 128u);
    EXPECT_EQ(f.data_size(), 160u);
    EXPECT_EQ(f.data_offset() % 32, 0u);
}

TEST(Reader, AcceptsAnEmptyFileAndDoesNotPadItsDataOffset) {
    const auto file = read_bytes(RawFile{}.bytes());
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ((*file)->data_offset(), 24u);
}

TEST(Reader, NeedsNoPaddingWithoutTensors) { EXPECT_TRUE(read_bytes(RawFile{}.metadata())); }

TEST(Reader, NeedsThePaddingBeforeTheDataWithTensors) {
    const auto file = read_bytes(sound_file().metadata());
    ASSERT_FALSE(file);
    EXPECT_THAT(file.error().message, HasSubstr("the source ends in the padding to 32 bytes"));
}

TEST(Reader, TreatsVersion2LikeVersion3) {
    RawFile raw = sound_file();
    raw.version = 2;
    const auto file = read_bytes(raw.bytes());
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ((*file)->version(), 2u);
}

TEST(Reader, AcceptsZeroExtentsWhateverTheOthersAre) {
    RawFile raw = sound_file();
    raw.tensors = {{"a", {8, 0}, GGML_TYPE_F32, 0}, {"b", {INT64_MAX, INT64_MAX, 0, 2}, 0, 0}};
    const auto file = read_bytes(raw.bytes());
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ((*file)->data_size(), 0u);
}

TEST(Reader, AcceptsATensorWithoutDimensionsAsOneElement) {
    RawFile raw = sound_file();
    raw.tensors = {{"", {}, GGML_TYPE_F32, 0}};
    const auto file = read_bytes(raw.bytes());
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(byte_size((*file)->tensors()[0].tensor), 4u);
}

TEST(Reader, AcceptsAlignment1) {
    RawFile raw = sound_file();
    raw.pairs.push_back(alignment_pair(1));
    raw.alignment = 1;
    raw.tensors[2].offset = 32 + 68;
    const auto file = read_bytes(raw.bytes());
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ((*file)->data_offset(), raw.metadata().size());
    EXPECT_EQ((*file)->data_size(), 32u + 68u + 3u);
}

TEST(Reader, IgnoresMissingDataUnlessAskedForThem) {
    RawFile raw = sound_file();
    raw.data.clear();
    const std::string bytes = raw.bytes();
    gguf_context* file = gguf_init_from_buffer(bytes.data(), bytes.size(), {false, nullptr});
    EXPECT_NE(file, nullptr);
    gguf_free(file);

    ggml_context* context = nullptr;
    file = gguf_init_from_buffer(bytes.data(), bytes.size(), {true, &context});
    EXPECT_NE(file, nullptr);
    ASSERT_NE(context, nullptr);
    EXPECT_TRUE(context->no_alloc);
    EXPECT_EQ(first_tensor(*context)->data, nullptr);
    EXPECT_EQ(name_of(*first_tensor(*context)), "first");
    gguf_free(file);
    destroy_context(context);
}

TEST(Reader, RefusesEveryPrefixOfASoundFile) {
    const std::string bytes = sound_file().bytes();
    for (std::size_t n = 1; n < bytes.size(); ++n) {
        ggml_context* context = nullptr;
        EXPECT_EQ(gguf_init_from_buffer(bytes.data(), n, {false, &context}), nullptr) << n;
        EXPECT_EQ(context, nullptr);
    }
}

TEST(Reader, SurvivesEveryChangedByte) {
    const std::string sound = sound_file().bytes();
    for (std::size_t i = 0; i < sound.size(); ++i) {
        for (const int change : {1, 0x80, 0xFF}) {
            std::string bytes = sound;
            bytes[i] = static_cast<char>(bytes[i] ^ change);
            ggml_context* context = nullptr;
            gguf_free(gguf_init_from_buffer(bytes.data(), bytes.size(), {false, &context}));
            destroy_context(context);
        }
    }
}

}  // namespace
}  // namespace heddle::gguf::raw
