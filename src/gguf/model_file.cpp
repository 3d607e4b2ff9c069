#include "gguf/model_file.hpp"

#include <algorithm>
#include <bit>

#include "core/root_buffer.hpp"
#include "core/sound_layout.hpp"

namespace heddle::gguf {
namespace {

constexpr std::string_view kAlignmentKey = GGUF_KEY_GENERAL_ALIGNMENT;

Result<std::size_t> alignment_from(const Value& value) {
    if (value.type() != GGUF_TYPE_UINT32) {
        return invalid("the value is ", name_of(value.type()), ", not u32");
    }
    HEDDLE_TRY_ASSIGN(const std::uint32_t alignment, value.as<std::uint32_t>());
    if (!std::has_single_bit(alignment)) {
        return invalid("alignment ", alignment, " is not a power of two");
    }
    return std::size_t{alignment};
}

/// The end of `tensor`, padded, if it begins at `offset`.
Result<std::size_t> end_of(const Tensor& tensor, std::size_t offset, std::size_t alignment) {
    const std::size_t bytes = byte_size(tensor);
    const std::optional<std::size_t> size = padded(bytes, alignment);
    std::size_t end = 0;
    if (bytes == kUncountable || !size || __builtin_add_overflow(offset, *size, &end)) {
        return invalid("tensor ", describe(tensor), " of ", bytes, " bytes at offset ", offset,
                       " ends past ", SIZE_MAX);
    }
    return end;
}

/// Room for one more, so that adding it cannot fail. Grows as `push_back` does.
template <class T>
void make_room(std::vector<T>& list) {
    if (list.size() == list.capacity()) list.reserve(std::max<std::size_t>(8, 2 * list.size()));
}

}  // namespace

std::optional<std::size_t> NameIndex::find(std::string_view name) const {
    const auto found = positions_.find(name);
    if (found == positions_.end()) return std::nullopt;
    return found->second;
}

void NameIndex::remove(std::string_view name, std::size_t position) {
    if (const auto found = positions_.find(name); found != positions_.end())
        positions_.erase(found);
    for (auto& [other, at] : positions_) {
        if (at > position) --at;
    }
}

void NameIndex::move(std::string_view name, std::size_t from, std::size_t to) {
    for (auto& [other, at] : positions_) {
        if (at > from && at <= to) --at;
    }
    positions_.find(name)->second = to;
}

std::optional<std::size_t> padded(std::size_t size, std::size_t alignment) {
    std::size_t sum = 0;
    if (__builtin_add_overflow(size, alignment - 1, &sum)) return std::nullopt;
    return sum & ~(alignment - 1);
}

}  // namespace heddle::gguf

using namespace heddle;
using namespace heddle::gguf;

Result<> gguf_context::set(std::string_view key, Value value) {
    if (key.empty()) return invalid("a key is empty");
    std::size_t alignment = alignment_;
    if (key == kAlignmentKey) {
        HEDDLE_TRY_ASSIGN(alignment, alignment_from(value));
        HEDDLE_TRY(check_layout(alignment));
    }
    // What may run out of memory comes first, what changes the pairs after it.
    Pair pair{std::string(key), std::move(value)};  // `key` may be part of the pair that goes
    make_room(pairs_);
    if (const auto old = keys_.find(pair.key)) {
        pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(*old));
        keys_.move(pair.key, *old, pairs_.size());
    } else {
        keys_.add(pair.key, pairs_.size());
    }
    pairs_.push_back(std::move(pair));
    if (alignment != alignment_) lay_out(alignment);
    return ok();
}

Result<std::optional<std::size_t>> gguf_context::remove(std::string_view key) {
    const std::optional<std::size_t> position = keys_.find(key);
    if (!position) return position;
    if (key == kAlignmentKey) {
        HEDDLE_TRY(check_layout(GGUF_DEFAULT_ALIGNMENT));
        lay_out(GGUF_DEFAULT_ALIGNMENT);
    }
    keys_.remove(key, *position);
    pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(*position));
    return position;
}

Result<> gguf_context::add_tensor(const Tensor& tensor) {
    const std::string_view name = name_of(tensor);
    if (find_tensor(name)) return invalid("a second tensor is named '", name, "'");
    if (!is_valid(tensor.type)) {
        return invalid("tensor '", name, "' has type ", static_cast<int>(tensor.type), " (",
                       type_info(tensor.type).name, ")");
    }
    HEDDLE_TRY_ASSIGN(const std::size_t end, end_of(tensor, data_size_, alignment_));
    make_room(tensors_);
    tensor_names_.add(name, tensors_.size());
    tensors_.push_back({tensor, data_size_});
    // A view that was made when its root had memory has none of its own.
    tensors_.back().tensor.buffer = root_buffer(tensor);
    data_size_ = end;
    return ok();
}

Result<> gguf_context::set_tensor_type(std::string_view name, Type type) {
    const auto position = find_tensor(name);
    if (!position) return failure(Errc::not_found, "no tensor is named '", name, "'");
    Tensor& tensor = tensors_[*position].tensor;
    const Extents extent = extents_of(tensor);
    if (auto checked = check_extents(type, extent); !checked) {
        return std::move(checked).error().within(text("tensor '", name, "'"));
    }
    const Tensor before = tensor;
    const Strides stride = dense_strides(type, extent);
    tensor.type = type;
    std::copy(stride.begin(), stride.end(), tensor.nb);
    auto fits = check_layout(alignment_);
    if (fits) {
        lay_out(alignment_);
    } else {
        tensor = before;
    }
    return fits;
}

Result<> gguf_context::set_tensor_data(std::string_view name, const void* data) {
    const auto position = find_tensor(name);
    if (!position) return failure(Errc::not_found, "no tensor is named '", name, "'");
    Tensor& tensor = tensors_[*position].tensor;
    // Other bytes than the tensor's own are the caller's, in host memory; its buffer knows nothing
    // of them.
    if (data != tensor.data) tensor.buffer = nullptr;
    tensor.data = const_cast<void*>(data);
    return ok();
}

/// Fails if the tensors do not fit one file with that alignment.
Result<> gguf_context::check_layout(std::size_t alignment) const {
    std::size_t end = 0;
    for (const TensorEntry& entry : tensors_) {
        HEDDLE_TRY_ASSIGN(end, end_of(entry.tensor, end, alignment));
    }
    return ok();
}

/// Gives every tensor the offset it has with that alignment, which has been checked.
void gguf_context::lay_out(std::size_t alignment) {
    std::size_t end = 0;
    for (TensorEntry& entry : tensors_) {
        entry.offset = end;
        end += *padded(byte_size(entry.tensor), alignment);
    }
    alignment_ = alignment;
    data_size_ = end;
}
