// Hostile model files. Whatever the bytes are, the reader gives a file or an error; a file that was
// accepted can be looked at, written, and read again with the same content.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "core/context.hpp"
#include "gguf/reader.hpp"
#include "gguf/writer.hpp"

namespace {

using namespace heddle;
using namespace heddle::gguf;

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "gguf_fuzz: %s\n", what);
    std::abort();
}

/// Serves the input through the callback interface.
struct Input {
    std::span<const std::byte> bytes;

    static std::size_t serve(void* self, void* out, std::uint64_t offset, std::size_t length) {
        const auto bytes = static_cast<const Input*>(self)->bytes;
        if (offset >= bytes.size()) return 0;
        const std::size_t n = std::min<std::size_t>(length, bytes.size() - offset);
        std::memcpy(out, bytes.data() + offset, n);
        return n;
    }
};

std::vector<std::byte> metadata_of(const File& file) {
    std::vector<std::byte> bytes(metadata_size(file));
    write_metadata(file, bytes.data());
    return bytes;
}

/// Reads every byte a getter could hand out.
std::size_t look_at(const File& file) {
    std::size_t sum = 0;
    for (const auto& [key, value] : file.pairs()) {
        require(file.find_key(key).has_value(), "a key is not found");
        for (const std::byte byte : value.bytes()) sum += static_cast<std::size_t>(byte);
        for (std::size_t i = 0; i < value.list().size(); ++i)
            sum += std::strlen(value.list().c_str(i));
    }
    for (const auto& [tensor, offset] : file.tensors()) {
        require(file.find_tensor(heddle::name_of(tensor)).has_value(), "a tensor is not found");
        require(offset + byte_size(tensor) <= file.data_size(), "a tensor passes the data");
    }
    return sum;
}

void rewrite(const File& file) {
    constexpr std::size_t kLargestAlignment = 1 << 16;  // more is slow and finds nothing
    if (file.alignment() > kLargestAlignment) return;
    const std::vector<std::byte> once = metadata_of(file);
    MemorySource source(once);
    const auto again = read(source);
    require(again.has_value(), "a written file is refused");
    require(metadata_of(**again) == once, "a file changes when it is written twice");
}

/// Reads both ends of every tensor.
std::size_t load(Source& source, const File& file, bool no_alloc) {
    const auto context = load_tensors(source, file, no_alloc);
    if (!context) return 0;
    std::size_t sum = 0;
    for (const Tensor* t = first_tensor(**context); t != nullptr; t = next_tensor(*t)) {
        const auto* data = static_cast<const unsigned char*>(t->data);
        require(no_alloc == (data == nullptr) || byte_size(*t) == 0, "data where there are none");
        if (data != nullptr && byte_size(*t) > 0) sum += data[0] + data[byte_size(*t) - 1];
    }
    return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input input{std::as_bytes(std::span(data, size))};
    MemorySource memory(input.bytes);
    const auto from_memory = read(memory);
    CallbackSource stream(Input::serve, &input, 7, size);
    const auto from_stream = read(stream);
    require(from_memory.has_value() == from_stream.has_value(), "sources disagree");
    if (!from_memory) return 0;

    const File& file = **from_memory;
    require(look_at(file) == look_at(**from_stream), "sources differ");
    rewrite(file);
    load(memory, file, true);
    require(load(memory, file, false) == load(stream, **from_stream, false), "data differ");
    return 0;
}
