#include "gguf/writer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/last_error.hpp"
#include "core/whole_file.hpp"
#include "ggml-backend-impl.h"

namespace heddle::gguf {
namespace {

/// Counts what it is given.
struct Counter {
    std::size_t size = 0;
    void put(const void*, std::size_t n) { size += n; }
};

/// Copies what it is given to memory that is large enough.
struct Copier {
    std::byte* to;
    std::size_t size = 0;
    void put(const void* from, std::size_t n) {
        if (n > 0) std::memcpy(to + size, from, n);
        size += n;
    }
};

/// One after the other, the fields in front of the data; not the padding.
template <class Out>
class MetadataWriter {
public:
    explicit MetadataWriter(Out& out) : out_(out) {}

    void write(const File& file) {
        out_.put(GGUF_MAGIC, 4);
        number(file.version());
        number(static_cast<std::int64_t>(file.tensors().size()));
        number(static_cast<std::int64_t>(file.pairs().size()));
        for (const Pair& pair : file.pairs()) {
            string(pair.key);
            value(pair.value);
        }
        for (const TensorEntry& entry : file.tensors()) tensor(entry);
    }

private:
    template <class T>
    void number(T number) {
        out_.put(&number, sizeof number);
    }

    void string(std::string_view string) {
        number(static_cast<std::uint64_t>(string.size()));
        out_.put(string.data(), string.size());
    }

    void value(const Value& value) {
        number(static_cast<std::int32_t>(value.type()));
        if (value.is_array()) {
            number(static_cast<std::int32_t>(value.element_type()));
            number(static_cast<std::uint64_t>(value.size()));
        }
        out_.put(value.bytes().data(), value.bytes().size());
        for (std::size_t i = 0; i < value.list().size(); ++i) string(value.list()[i]);
    }

    void tensor(const TensorEntry& entry) {
        const Tensor& tensor = entry.tensor;
        string(name_of(tensor));
        // A trailing extent of 0 is not one to leave out.
        const int dims = is_empty(tensor) ? kMaxDims : dimension_count(tensor);
        number(static_cast<std::uint32_t>(dims));
        out_.put(tensor.ne, static_cast<std::size_t>(dims) * sizeof tensor.ne[0]);
        number(static_cast<std::int32_t>(tensor.type));
        number(static_cast<std::uint64_t>(entry.offset));
    }

    Out& out_;
};

std::size_t fields_size(const File& file) {
    Counter counter;
    MetadataWriter(counter).write(file);
    return counter.size;
}

std::size_t write_fields(const File& file, std::byte* out) {
    Copier copier{out};
    MetadataWriter(copier).write(file);
    return copier.size;
}

Result<> check_data(const Tensor& tensor) {
    if (is_empty(tensor)) return ok();
    if (!is_contiguous(tensor)) {
        return invalid("gguf: tensor ", describe(tensor),
                       " is not contiguous and cannot be written");
    }
    if (tensor.data == nullptr) return invalid("gguf: tensor ", describe(tensor), " has no data");
    if (tensor.buffer != nullptr && tensor.buffer->iface.get_tensor == nullptr) {
        return invalid("gguf: tensor ", describe(tensor),
                       " is in a buffer that cannot be read, or that was given up");
    }
    return ok();
}

/// In pieces, so that a large tensor in device memory does not need its size again in host memory.
Result<> write_from_buffer(const Tensor& tensor, std::vector<std::byte>& piece, const Sink& sink) {
    constexpr std::size_t kPieceSize = std::size_t{16} << 20;
    const std::size_t size = byte_size(tensor);
    piece.resize(std::max(piece.size(), std::min(size, kPieceSize)));
    for (std::size_t done = 0; done < size;) {
        const std::size_t n = std::min(size - done, piece.size());
        const Listener listener;
        tensor.buffer->iface.get_tensor(tensor.buffer, &tensor, piece.data(), done, n);
        HEDDLE_TRY(listener.outcome("gguf: reading ", describe(tensor)));
        HEDDLE_TRY(sink(std::span(piece).first(n)));
        done += n;
    }
    return ok();
}

Result<> write_padding(std::size_t size, const Sink& sink) {
    static constexpr std::byte kZeros[256] = {};
    while (size > 0) {
        const std::size_t n = std::min(size, sizeof kZeros);
        HEDDLE_TRY(sink(std::span(kZeros).first(n)));
        size -= n;
    }
    return ok();
}

Result<> write_data(const File& file, const Sink& sink) {
    std::vector<std::byte> piece;
    for (std::size_t i = 0; i < file.tensors().size(); ++i) {
        const auto& [tensor, offset] = file.tensors()[i];
        const std::size_t size = byte_size(tensor);
        if (tensor.buffer != nullptr) {
            HEDDLE_TRY(write_from_buffer(tensor, piece, sink));
        } else if (size > 0) {
            HEDDLE_TRY(sink({static_cast<const std::byte*>(tensor.data), size}));
        }
        const bool is_last = i + 1 == file.tensors().size();
        const std::size_t end = is_last ? file.data_size() : file.tensors()[i + 1].offset;
        HEDDLE_TRY(write_padding(end - offset - size, sink));
    }
    return ok();
}

}  // namespace

std::size_t metadata_size(const File& file) {
    return padded(fields_size(file), file.alignment()).value_or(SIZE_MAX);
}

void write_metadata(const File& file, std::byte* out) {
    const std::size_t used = write_fields(file, out);
    std::memset(out + used, 0, metadata_size(file) - used);
}

Result<> write(const File& file, bool only_metadata, const Sink& sink) {
    if (!only_metadata) {
        for (const TensorEntry& entry : file.tensors()) HEDDLE_TRY(check_data(entry.tensor));
    }
    std::vector<std::byte> fields(fields_size(file));
    write_fields(file, fields.data());
    HEDDLE_TRY(sink(fields));
    HEDDLE_TRY(write_padding(metadata_size(file) - fields.size(), sink));
    return only_metadata ? ok() : write_data(file, sink);
}

Result<> write(const File& file, bool only_metadata, std::FILE* stream) {
    const auto failed = [] {
        return failure(Errc::io, "gguf: the stream cannot be written: ", std::strerror(errno));
    };
    HEDDLE_TRY(write(file, only_metadata, [&](std::span<const std::byte> bytes) -> Result<> {
        const bool taken = std::fwrite(bytes.data(), 1, bytes.size(), stream) == bytes.size();
        return taken ? ok() : Result<>(failed());
    }));
    // What waits in the stream's memory is not written yet.
    return std::fflush(stream) == 0 ? ok() : Result<>(failed());
}

Result<> write(const File& file, bool only_metadata, const std::string& path) {
    HEDDLE_TRY_ASSIGN(WholeFile whole, WholeFile::create(path));
    HEDDLE_TRY(write(file, only_metadata,
                     [&](std::span<const std::byte> bytes) { return whole.write(bytes); }));
    return whole.finish();
}

}  // namespace heddle::gguf
