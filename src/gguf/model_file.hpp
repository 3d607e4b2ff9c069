#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/error.hpp"
#include "core/tensor.hpp"
#include "gguf/value.hpp"

namespace heddle::gguf {

// Names and sizes of tensors and their types beside those of values.
using heddle::name_of;
using heddle::size_of;

struct Pair {
    std::string key;
    Value value;
};

/// A tensor of the file. `tensor.data` and `tensor.buffer` say where its bytes come from when it is
/// written; the file owns neither.
struct TensorEntry {
    Tensor tensor;
    std::size_t offset = 0;  ///< from the start of the data section
};

/// Where each name stands in a list.
class NameIndex {
public:
    std::optional<std::size_t> find(std::string_view name) const;
    void add(std::string_view name, std::size_t position) { positions_.emplace(name, position); }
    void remove(std::string_view name, std::size_t position);  ///< later positions move down

    /// What was at `from` now is at `to`; what was between moves down.
    void move(std::string_view name, std::size_t from, std::size_t to);

private:
    struct Hash : std::hash<std::string_view> {
        using is_transparent = void;
    };
    std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> positions_;
};

/// `size` rounded up to a multiple of `alignment`, a power of two; nothing if that cannot be
/// counted.
std::optional<std::size_t> padded(std::size_t size, std::size_t alignment);

}  // namespace heddle::gguf

/// What a GGUF file says, without the tensors' data: pairs of keys and values, and a list of
/// tensors.
///
/// Offsets follow from the order and sizes of the tensors and from the alignment, and are kept up
/// to date. A call that fails changes nothing.
struct gguf_context {
public:
    using Pair = heddle::gguf::Pair;
    using TensorEntry = heddle::gguf::TensorEntry;

    std::uint32_t version() const { return version_; }
    void set_version(std::uint32_t version) { version_ = version; }

    /// Of the data section and of every tensor in it: the value of `general.alignment`, or 32.
    std::size_t alignment() const { return alignment_; }

    /// Where the data section began in the source this was read from; 0 if there was none.
    std::size_t data_offset() const { return data_offset_; }
    void set_data_offset(std::size_t offset) { data_offset_ = offset; }

    /// Bytes of the data section, padding after the last tensor included.
    std::size_t data_size() const { return data_size_; }

    std::span<const Pair> pairs() const { return pairs_; }
    std::optional<std::size_t> find_key(std::string_view key) const { return keys_.find(key); }

    /// Puts the pair at the end; an older one with that key goes. `general.alignment` must be a u32
    /// that is a power of two, and moves the tensors at once.
    heddle::Result<> set(std::string_view key, heddle::gguf::Value value);

    /// Gives the position the key had, or nothing if it was not there.
    heddle::Result<std::optional<std::size_t>> remove(std::string_view key);

    std::span<const TensorEntry> tensors() const { return tensors_; }
    std::optional<std::size_t> find_tensor(std::string_view name) const {
        return tensor_names_.find(name);
    }

    /// Puts a copy of the description, not of the data, at the end. Names are unique.
    heddle::Result<> add_tensor(const heddle::Tensor& tensor);

    heddle::Result<> set_tensor_type(std::string_view name, heddle::Type type);

    /// The bytes of that tensor will come from `data`, in host memory that outlives the writing.
    heddle::Result<> set_tensor_data(std::string_view name, const void* data);

private:
    heddle::Result<> check_layout(std::size_t alignment) const;
    void lay_out(std::size_t alignment);

    std::uint32_t version_ = GGUF_VERSION;
    std::size_t alignment_ = GGUF_DEFAULT_ALIGNMENT;
    std::size_t data_offset_ = 0;
    std::size_t data_size_ = 0;

    std::vector<Pair> pairs_;
    heddle::gguf::NameIndex keys_;
    std::vector<TensorEntry> tensors_;
    heddle::gguf::NameIndex tensor_names_;
};

namespace heddle::gguf {
using File = ::gguf_context;
}
