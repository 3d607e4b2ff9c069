#include "gguf/source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "core/context.hpp"
#include "gguf/reader.hpp"
#include "gguf/test_support.hpp"

namespace heddle::gguf {
namespace {

/// A program that keeps a file in memory and notes what it is asked for.
struct Server {
    std::string bytes;
    std::size_t largest_request = 0;
    std::uint64_t furthest = 0;
    std::size_t requests = 0;

    static std::size_t serve(void* self, void* out, std::uint64_t offset, std::size_t length) {
        auto& server = *static_cast<Server*>(self);
        EXPECT_GT(length, 0u);
        ++server.requests;
        server.largest_request = std::max(server.largest_request, length);
        server.furthest = std::max<std::uint64_t>(server.furthest, offset + length);
        if (offset >= server.bytes.size()) return 0;
        const std::size_t n = std::min<std::size_t>(length, server.bytes.size() - offset);
        std::memcpy(out, server.bytes.data() + offset, n);
        return n;
    }
};

TEST(CallbackSource, AsksForNoByteItDoesNotNeed) {
    const raw::RawFile raw = raw::sound_file();
    Server server{raw.bytes()};
    gguf_context* file =
        gguf_init_from_callback(Server::serve, &server, 0, std::uint64_t{1} << 32, {true, nullptr});
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(server.furthest, raw.metadata().size());
    gguf_free(file);
}

TEST(CallbackSource, KeepsToTheChunkSize) {
    Server server{raw::sound_file().bytes()};
    for (const std::size_t chunk : {1, 2, 7, 64}) {
        server.largest_request = 0;
        ggml_context* context = nullptr;
        gguf_context* file =
            gguf_init_from_callback(Server::serve, &server, chunk, UINT64_MAX, {false, &context});
        ASSERT_NE(file, nullptr);
        EXPECT_LE(server.largest_request, chunk);
        const Tensor* blob = first_tensor(*context);
        const std::size_t at = gguf_get_data_offset(file);
        EXPECT_EQ(std::memcmp(blob->data, server.bytes.data() + at, 160), 0);
        gguf_free(file);
        destroy_context(context);
    }
}

TEST(CallbackSource, FetchesLongListsOfStringsInLargePieces) {
    raw::RawFile raw;
    std::string words =
        raw::number(std::int32_t{GGUF_TYPE_STRING}) + raw::number(std::uint64_t{10000});
    for (int i = 0; i < 10000; ++i) words += raw::string("word");
    raw.pairs = {{"words", GGUF_TYPE_ARRAY, words}};
    Server server{raw.bytes()};
    gguf_context* file =
        gguf_init_from_callback(Server::serve, &server, 0, UINT64_MAX, {true, nullptr});
    ASSERT_NE(file, nullptr);
    EXPECT_LT(server.requests, 50u);
    EXPECT_STREQ(gguf_get_arr_str(file, 0, 9999), "word");
    gguf_free(file);
}

TEST(CallbackSource, StopsAtItsLimit) {
    Server server{raw::sound_file().bytes()};
    ggml_context* context = nullptr;
    EXPECT_EQ(gguf_init_from_callback(Server::serve, &server, 0, server.bytes.size() - 1,
                                      {false, &context}),
              nullptr);
    EXPECT_EQ(context, nullptr);
    EXPECT_LT(server.furthest, server.bytes.size());
}

TEST(CallbackSource, TakesLittleMemoryForALongStringThatIsNotThere) {
    raw::RawFile raw;
    raw.pairs = {{"text", GGUF_TYPE_STRING, raw::number(std::uint64_t{1} << 30)}};
    Server server{raw.bytes()};
    CallbackSource source(Server::serve, &server, 0, UINT64_MAX);
    const auto file = read(source);
    ASSERT_FALSE(file);
    EXPECT_THAT(file.error().message, testing::HasSubstr("the source ends in a string"));
    EXPECT_LE(server.largest_request, std::size_t{1} << 20);
}

TEST(CallbackSource, DistrustsACallbackThatGivesTooMuch) {
    const auto boast = [](void*, void*, std::uint64_t, std::size_t length) { return length + 1; };
    EXPECT_EQ(gguf_init_from_callback(boast, nullptr, 0, 1000, {true, nullptr}), nullptr);
    EXPECT_EQ(gguf_init_from_callback(nullptr, nullptr, 0, 1000, {true, nullptr}), nullptr);
}

TEST(FileSource, ReadsAnEmbeddedFileFromTheCurrentPosition) {
    const std::string bytes = raw::sound_file().bytes();
    std::FILE* stream = std::tmpfile();
    ASSERT_NE(stream, nullptr);
    const std::string front(64, 'x');
    std::fwrite(front.data(), 1, front.size(), stream);
    std::fwrite(bytes.data(), 1, bytes.size(), stream);
    std::fseek(stream, 64, SEEK_SET);
    ggml_context* context = nullptr;
    gguf_context* file = gguf_init_from_file_ptr(stream, {false, &context});
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(gguf_get_data_offset(file), 64 + bytes.size() - 160);
    EXPECT_EQ(std::memcmp(first_tensor(*context)->data, bytes.data() + bytes.size() - 160, 160), 0);
    gguf_free(file);
    destroy_context(context);
    std::fclose(stream);
}

TEST(FileSource, RefusesWhatItCannotOpenOrPosition) {
    EXPECT_EQ(gguf_init_from_file("/no/such/file", {true, nullptr}), nullptr);
    EXPECT_EQ(gguf_init_from_file("/", {true, nullptr}), nullptr);
    EXPECT_EQ(gguf_init_from_file(nullptr, {true, nullptr}), nullptr);
    EXPECT_EQ(gguf_init_from_file_ptr(nullptr, {true, nullptr}), nullptr);
    EXPECT_EQ(gguf_init_from_buffer(nullptr, 10, {true, nullptr}), nullptr);
    EXPECT_EQ(gguf_init_from_buffer("", 0, {true, nullptr}), nullptr);
}

}  // namespace
}  // namespace heddle::gguf
