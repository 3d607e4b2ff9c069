#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <random>

#include "core/context.hpp"
#include "ggml-backend-impl.h"
#include "ggml-impl.h"
#include "gguf/writer.hpp"

namespace heddle::gguf {
namespace {

using Bytes = std::vector<std::int8_t>;

/// Memory that is not the host's: bytes come out of it inverted.
ggml_backend_buffer far_buffer() {
    ggml_backend_buffer buffer{};
    buffer.iface.get_tensor = [](ggml_backend_buffer_t, const ggml_tensor* tensor, void* out,
                                 std::size_t offset, std::size_t size) {
        const auto* from = static_cast<const unsigned char*>(tensor->data) + offset;
        std::transform(from, from + size, static_cast<unsigned char*>(out),
                       [](unsigned char byte) { return static_cast<unsigned char>(~byte); });
    };
    return buffer;
}

/// A file with random content, and the data it refers to.
class RandomFile {
public:
    explicit RandomFile(unsigned seed) : random_(seed) {
        for (int i = 0; i < 256; ++i) set_pair();
        if (seed % 2 == 0) gguf_set_val_u32(&file, "general.alignment", 1u << below(8));
        const int tensors = below(256);
        for (int i = 0; i < tensors; ++i) add_tensor(i);
    }

    File file;
    std::deque<std::string> data;  ///< as they shall be read back

private:
    int below(int limit) { return std::uniform_int_distribution(0, limit - 1)(random_); }

    std::string bytes(std::size_t size) {
        std::string result(size, '\0');
        for (char& byte : result) byte = static_cast<char>(below(256));
        return result;
    }

    void set_pair() {
        const std::string key = "key" + std::to_string(below(128));  // repeats are wanted
        const auto type = static_cast<gguf_type>(below(GGUF_TYPE_COUNT));
        if (type == GGUF_TYPE_STRING) {
            const std::string text = bytes(static_cast<std::size_t>(below(100)));
            gguf_set_val_str(&file, key.c_str(), text.c_str());
        } else if (type == GGUF_TYPE_ARRAY) {
            set_array(key);
        } else {
            const std::string value = bytes(8);
            Value number = Value::numbers(type, false, packed(value.substr(0, size_of(type))));
            ASSERT_TRUE(file.set(key, std::move(number)));
        }
    }

    void set_array(const std::string& key) {
        const auto type = static_cast<gguf_type>(below(GGUF_TYPE_COUNT));
        const auto count = static_cast<std::size_t>(below(1024));
        if (size_of(type) == 0) {
            std::vector<std::string> texts(count);
            for (std::string& text : texts) text = std::to_string(below(1 << 30));
            std::vector<const char*> pointers(count);
            std::transform(texts.begin(), texts.end(), pointers.begin(),
                           [](const std::string& text) { return text.c_str(); });
            gguf_set_arr_str(&file, key.c_str(), pointers.data(), count);
        } else {
            const std::string values = bytes(count * size_of(type));
            gguf_set_arr_data(&file, key.c_str(), type, values.data(), count);
        }
    }

    static std::vector<std::byte> packed(const std::string& bytes) {
        const auto span = std::as_bytes(std::span(bytes));
        return {span.begin(), span.end()};
    }

    void add_tensor(int number) {
        auto type = static_cast<Type>(below(GGML_TYPE_COUNT));
        if (!is_valid(type)) type = GGML_TYPE_F16;
        Extents extent{block_size(type) * below(4), 1 + below(3), 1 + below(3), below(3)};
        TensorSpec spec = TensorSpec::dense(type, extent);
        Tensor tensor{};
        tensor.type = type;
        std::copy(spec.extent.begin(), spec.extent.end(), tensor.ne);
        std::copy(spec.stride.begin(), spec.stride.end(), tensor.nb);
        set_name(tensor, "tensor " + std::to_string(number));
        data.push_back(bytes(byte_size(tensor)));
        tensor.data = data.back().data();
        if (below(2) == 0) {
            tensor.buffer = &far_;
            stored_.push_back(data.back());
            for (char& byte : stored_.back()) byte = static_cast<char>(~byte);
            tensor.data = stored_.back().data();
        }
        gguf_add_tensor(&file, &tensor);
    }

    std::mt19937 random_;
    ggml_backend_buffer far_ = far_buffer();
    std::deque<std::string> stored_;  // what lies in the far buffer
};

void expect_same_pairs(const File& expected, const gguf_context* actual) {
    ASSERT_EQ(gguf_get_n_kv(actual), static_cast<std::int64_t>(expected.pairs().size()));
    for (std::size_t i = 0; i < expected.pairs().size(); ++i) {
        const auto& [key, value] = expected.pairs()[i];
        const Value& other = actual->pairs()[i].value;
        const auto id = static_cast<std::int64_t>(i);
        EXPECT_EQ(gguf_get_key(actual, id), key);
        EXPECT_EQ(gguf_find_key(actual, key.c_str()), id);
        EXPECT_EQ(gguf_get_kv_type(actual, id), value.type());
        ASSERT_EQ(gguf_get_arr_n(actual, id), value.size());
        ASSERT_EQ(other.element_type(), value.element_type());
        EXPECT_TRUE(std::ranges::equal(other.bytes(), value.bytes())) << key;
        for (std::size_t s = 0; value.has_strings() && s < value.size(); ++s) {
            ASSERT_EQ(other.list()[s], value.list()[s]);
        }
    }
}

void expect_same_tensors(const RandomFile& expected, const gguf_context* actual,
                         const Context* context) {
    const Tensor* tensor = first_tensor(*context);
    ASSERT_NE(tensor, nullptr);
    EXPECT_STREQ(tensor->name, "GGUF tensor data binary blob");
    EXPECT_EQ(tensor->ne[0], static_cast<std::int64_t>(expected.file.data_size()));
    EXPECT_FALSE(context->no_alloc);
    ASSERT_EQ(actual->tensors().size(), expected.file.tensors().size());
    for (std::size_t i = 0; i < expected.file.tensors().size(); ++i) {
        const TensorEntry& entry = expected.file.tensors()[i];
        const auto id = static_cast<std::int64_t>(i);
        EXPECT_EQ(gguf_find_tensor(actual, entry.tensor.name), id);
        EXPECT_EQ(gguf_get_tensor_offset(actual, id), entry.offset);
        EXPECT_EQ(gguf_get_tensor_type(actual, id), entry.tensor.type);
        EXPECT_EQ(gguf_get_tensor_size(actual, id), expected.data[i].size());
        EXPECT_TRUE(
            std::equal(entry.tensor.ne, entry.tensor.ne + 4, gguf_get_tensor_ne(actual, id)));
        tensor = next_tensor(*tensor);
        ASSERT_NE(tensor, nullptr);
        EXPECT_STREQ(tensor->name, entry.tensor.name);
        EXPECT_TRUE(same_layout(*tensor, entry.tensor));
        if (!expected.data[i].empty()) {
            EXPECT_EQ(std::memcmp(tensor->data, expected.data[i].data(), expected.data[i].size()),
                      0);
        }
    }
    EXPECT_EQ(next_tensor(*tensor), nullptr);
}

/// The three ways into the library.
gguf_context* read_from_stream(const Bytes& bytes, gguf_init_params params) {
    std::FILE* stream = std::tmpfile();
    std::fwrite(bytes.data(), 1, bytes.size(), stream);
    std::rewind(stream);
    gguf_context* file = gguf_init_from_file_ptr(stream, params);
    std::fclose(stream);
    return file;
}

gguf_context* read_from_memory(const Bytes& bytes, gguf_init_params params) {
    const Bytes gone_afterwards = bytes;
    return gguf_init_from_buffer(gone_afterwards.data(), gone_afterwards.size(), params);
}

gguf_context* read_from_callback(const Bytes& bytes, gguf_init_params params) {
    const auto serve = [](void* self, void* out, std::uint64_t offset, std::size_t length) {
        const auto& all = *static_cast<const Bytes*>(self);
        const std::size_t n =
            offset < all.size() ? std::min<std::size_t>(length, all.size() - offset) : 0;
        if (n > 0) std::memcpy(out, all.data() + offset, n);
        return n;
    };
    auto* self = const_cast<Bytes*>(&bytes);
    return gguf_init_from_callback(serve, self, 4096, std::uint64_t{4} << 30, params);
}

class RoundTrip : public testing::TestWithParam<unsigned> {};

TEST_P(RoundTrip, KeepsEverythingFromFileMemoryAndCallback) {
    const RandomFile original(GetParam());
    Bytes bytes;
    gguf_write_to_buf(&original.file, bytes, false);
    ASSERT_EQ(bytes.size(), gguf_get_meta_size(&original.file) + original.file.data_size());

    for (auto* read_from : {read_from_stream, read_from_memory, read_from_callback}) {
        ggml_context* context = nullptr;
        gguf_context* file = read_from(bytes, {false, &context});
        ASSERT_NE(file, nullptr);
        EXPECT_EQ(gguf_get_version(file), 3u);
        EXPECT_EQ(gguf_get_alignment(file), original.file.alignment());
        expect_same_pairs(original.file, file);
        expect_same_tensors(original, file, context);
        gguf_free(file);
        destroy_context(context);
    }
}

TEST_P(RoundTrip, GivesTheSameBytesWhenWrittenAgain) {
    const RandomFile original(GetParam());
    Bytes bytes, again;
    gguf_write_to_buf(&original.file, bytes, false);
    ggml_context* context = nullptr;
    gguf_context* file = read_from_memory(bytes, {false, &context});
    ASSERT_NE(file, nullptr);
    for (Tensor* tensor = next_tensor(*first_tensor(*context)); tensor;
         tensor = next_tensor(*tensor)) {
        gguf_set_tensor_data(file, tensor->name, tensor->data);
    }
    gguf_write_to_buf(file, again, false);
    EXPECT_EQ(bytes, again);
    gguf_free(file);
    destroy_context(context);
}

TEST_P(RoundTrip, WritesTheSameBytesInEveryWay) {
    const RandomFile original(GetParam());
    Bytes whole, metadata;
    gguf_write_to_buf(&original.file, whole, false);
    gguf_write_to_buf(&original.file, metadata, true);
    const std::size_t size = gguf_get_meta_size(&original.file);
    ASSERT_EQ(metadata.size(), size);
    EXPECT_TRUE(std::equal(metadata.begin(), metadata.end(), whole.begin()));
    Bytes separately(size, 99);
    gguf_get_meta_data(&original.file, separately.data());
    EXPECT_EQ(metadata, separately);

    std::FILE* stream = std::tmpfile();
    ASSERT_TRUE(gguf_write_to_file_ptr(&original.file, stream, false));
    Bytes from_stream(whole.size() + 1);
    std::rewind(stream);
    from_stream.resize(std::fread(from_stream.data(), 1, from_stream.size(), stream));
    EXPECT_EQ(whole, from_stream);
    std::fclose(stream);
}

TEST_P(RoundTrip, MergesPairsBothWays) {
    RandomFile one(GetParam()), two(GetParam() + 1000);
    gguf_set_kv(&one.file, &two.file);
    gguf_set_kv(&two.file, &one.file);
    EXPECT_EQ(gguf_get_n_kv(&one.file), gguf_get_n_kv(&two.file));
    gguf_set_kv(&one.file, &two.file);
    expect_same_pairs(two.file, &one.file);
    gguf_set_kv(&one.file, &one.file);
    expect_same_pairs(two.file, &one.file);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RoundTrip, testing::Range(0u, 12u));

}  // namespace
}  // namespace heddle::gguf
