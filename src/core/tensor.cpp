#include "core/tensor.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/printable.hpp"
#include "core/sound_layout.hpp"

namespace heddle {

Extents extents_of(const Tensor& t) { return {t.ne[0], t.ne[1], t.ne[2], t.ne[3]}; }
Strides strides_of(const Tensor& t) { return {t.nb[0], t.nb[1], t.nb[2], t.nb[3]}; }

Strides dense_strides(Type type, const Extents& extent) {
    const TypeInfo& info = detail::find_type(type);
    // Blocks are powers of two; a removed type has none, and strides of 0.
    const auto row = static_cast<std::size_t>(extent[0]) >>
                     std::countr_zero(static_cast<std::size_t>(info.block) | std::size_t{1} << 63);
    Strides stride{info.bytes, info.bytes * row};
    for (std::size_t d = 2; d < kMaxDims; ++d) {
        stride[d] = stride[d - 1] * static_cast<std::size_t>(extent[d - 1]);
    }
    return stride;
}

TensorSpec TensorSpec::dense(Type type, const Extents& extent) {
    return {.type = type, .extent = extent, .stride = dense_strides(type, extent)};
}

TensorSpec TensorSpec::like(const Tensor& tensor) { return dense(tensor.type, extents_of(tensor)); }

TensorSpec TensorSpec::view(const Tensor& tensor, int slot) {
    return {.type = tensor.type,
            .extent = extents_of(tensor),
            .stride = strides_of(tensor),
            .view_of = slot};
}

Result<> check_extents(Type type, const Extents& extent) {
    const TypeInfo& info = detail::find_type(type);
    if (info.block == 0) {
        return invalid("type ", static_cast<int>(type), " (", info.name, ") cannot be used");
    }
    for (std::size_t d = 0; d < kMaxDims; ++d) {
        if (extent[d] < 0) return invalid("extent ", extent[d], " in dimension ", d);
    }
    if ((extent[0] & (info.block - 1)) != 0) {  // blocks are powers of two
        return invalid("rows of ", extent[0], " elements of type ", info.name,
                       " are not a multiple of its block size ", info.block);
    }
    // The width of a product is at most the sum of the widths: that decides for all but monsters.
    const auto width = [](std::int64_t n) { return std::bit_width(static_cast<std::uint64_t>(n)); };
    if (width(extent[0]) + width(extent[1]) + width(extent[2]) + width(extent[3]) < 48) return ok();
    std::int64_t elements = 1;
    std::size_t bytes = info.bytes;
    bool overflow = false;
    for (std::size_t d = 0; d < kMaxDims; ++d) {
        // A zero extent makes the tensor empty, but its strides are still counted.
        const std::int64_t n = std::max<std::int64_t>(extent[d], 1);
        overflow |= __builtin_mul_overflow(elements, n, &elements);
        const bool in_blocks = d == 0 && info.block != 1;
        const std::int64_t blocks = in_blocks ? std::max<std::int64_t>(n / info.block, 1) : n;
        overflow |= __builtin_mul_overflow(bytes, static_cast<std::size_t>(blocks), &bytes);
    }
    if (overflow)
        return invalid("a tensor of extents ", describe(extent), " is too large to address");
    return ok();
}

std::int64_t element_count(const Tensor& t) { return t.ne[0] * t.ne[1] * t.ne[2] * t.ne[3]; }
std::int64_t row_count(const Tensor& t) { return t.ne[1] * t.ne[2] * t.ne[3]; }

namespace {

/// `byte_size` of a tensor that is not empty and whose type is `info`.
inline std::size_t span_of(const TypeInfo& info, const std::int64_t* ne, const std::size_t* nb) {
    std::size_t bytes = 0;
    bool overflow = false;
    const auto reach = [&](std::int64_t steps, std::size_t stride) {
        std::size_t along = 0;
        overflow |= __builtin_mul_overflow(static_cast<std::size_t>(steps), stride, &along);
        overflow |= __builtin_add_overflow(bytes, along, &bytes);
    };
    if (info.block == 1) {
        bytes = info.bytes;
        reach(ne[0] - 1, nb[0]);
    } else {
        reach(ne[0], nb[0]);
        // Blocks are powers of two; a division would cost more than all the rest.
        bytes >>= std::countr_zero(static_cast<std::size_t>(info.block));
    }
    for (int d = 1; d < kMaxDims; ++d) reach(ne[d] - 1, nb[d]);
    return overflow || bytes > kUncountable ? kUncountable : bytes;
}

std::size_t span_of(Type type, const std::int64_t* ne, const std::size_t* nb) {
    for (int d = 0; d < kMaxDims; ++d) {
        if (ne[d] <= 0) return 0;
    }
    const TypeInfo& info = detail::find_type(type);
    return info.block == 0 ? 0 : span_of(info, ne, nb);
}

}  // namespace

bool detail::has_sound_layout_slow(const Tensor& t, std::size_t* bytes) {
    const TypeInfo& info = detail::find_type(t.type);
    *bytes = 0;
    if (!check_extents(t.type, extents_of(t))) return false;
    if (is_empty(t)) return true;
    if (info.block != 1 && t.nb[0] != info.bytes) return false;
    *bytes = span_of(info, t.ne, t.nb);
    return *bytes != kUncountable;
}

Result<> check_layout(const Tensor& t) {
    std::size_t bytes = 0;
    if (has_sound_layout(t, &bytes)) return ok();
    if (auto extents = check_extents(t.type, extents_of(t)); !extents) return extents;
    if (bytes == kUncountable) {
        return invalid("strides of ", t.nb[0], ", ", t.nb[1], ", ", t.nb[2], " and ", t.nb[3],
                       " bytes lead further than memory can");
    }
    return invalid("dimension 0 is not in whole blocks: they lie ", t.nb[0], " bytes apart, and ",
                   detail::find_type(t.type).name, " has blocks of ", size_of(t.type), " bytes");
}

std::size_t byte_size(const Tensor& t) { return span_of(t.type, t.ne, t.nb); }
std::size_t byte_size(const TensorSpec& s) {
    return span_of(s.type, s.extent.data(), s.stride.data());
}

int dimension_count(const Tensor& t) {
    for (int d = kMaxDims - 1; d > 0; --d) {
        if (t.ne[d] > 1) return d + 1;
    }
    return 1;
}

bool is_empty(const Tensor& t) {
    return t.ne[0] == 0 || t.ne[1] == 0 || t.ne[2] == 0 || t.ne[3] == 0;
}
bool is_scalar(const Tensor& t) { return t.ne[0] == 1 && is_vector(t); }
bool is_vector(const Tensor& t) { return t.ne[1] == 1 && is_matrix(t); }
bool is_matrix(const Tensor& t) { return t.ne[2] == 1 && t.ne[3] == 1; }
bool is_transposed(const Tensor& t) { return t.nb[0] > t.nb[1]; }
bool is_permuted(const Tensor& t) {
    return t.nb[0] > t.nb[1] || t.nb[1] > t.nb[2] || t.nb[2] > t.nb[3];
}

bool is_contiguous(const Tensor& t, int free, int dims) {
    const TypeInfo& info = detail::find_type(t.type);
    if (info.block == 0) return false;
    if (t.ne[0] != info.block && t.nb[0] != info.bytes) return false;
    std::size_t next = info.bytes * static_cast<std::size_t>(t.ne[0] / info.block);
    for (int d = 1; d < dims; ++d) {
        if (d <= free) {
            next = static_cast<std::size_t>(t.ne[d]) * t.nb[d];
        } else {
            if (t.ne[d] != 1 && t.nb[d] != next) return false;
            next *= static_cast<std::size_t>(t.ne[d]);
        }
    }
    return true;
}

bool has_dense_rows(const Tensor& t) {
    return t.ne[0] == block_size(t.type) || t.nb[0] == size_of(t.type);
}

bool is_contiguously_allocated(const Tensor& t) {
    const TypeInfo& info = detail::find_type(t.type);
    return info.block != 0 &&
           byte_size(t) == static_cast<std::size_t>(element_count(t) / info.block) * info.bytes;
}

bool has_dense_channels(const Tensor& t) {
    return t.nb[0] > t.nb[2] && t.nb[1] > t.nb[0] && t.nb[2] == size_of(t.type);
}

bool is_padded_rows(const Tensor& t) {
    return t.nb[0] == size_of(t.type) && t.nb[2] == t.nb[1] * static_cast<std::size_t>(t.ne[1]) &&
           t.nb[3] == t.nb[2] * static_cast<std::size_t>(t.ne[2]);
}

bool same_shape(const Tensor& a, const Tensor& b) {
    return std::equal(a.ne, a.ne + kMaxDims, b.ne);
}
bool same_strides(const Tensor& a, const Tensor& b) {
    return std::equal(a.nb, a.nb + kMaxDims, b.nb);
}
bool same_layout(const Tensor& a, const Tensor& b) {
    return a.type == b.type && same_shape(a, b) && same_strides(a, b);
}

bool can_repeat(const Tensor& small, const Tensor& big) {
    if (is_empty(small)) return is_empty(big);
    for (int d = 0; d < kMaxDims; ++d) {
        // Most operands have equal extents, and a division costs more than all the rest.
        if (big.ne[d] != small.ne[d] && big.ne[d] % small.ne[d] != 0) return false;
    }
    return true;
}

bool can_repeat_rows(const Tensor& small, const Tensor& big) {
    return small.ne[0] == big.ne[0] && can_repeat(small, big);
}

Extents unravel(const Tensor& t, std::int64_t index) {
    Extents at{};
    for (std::size_t d = 0; d + 1 < kMaxDims; ++d) {
        const std::int64_t n = std::max<std::int64_t>(t.ne[d], 1);
        at[d] = index % n;
        index /= n;
    }
    at[kMaxDims - 1] = index;
    return at;
}

std::string_view name_of(const Tensor& t) { return {t.name, strnlen(t.name, sizeof t.name)}; }

void set_name(Tensor& t, std::string_view name) {
    const std::size_t n = std::min(name.size(), sizeof t.name - 1);
    if (n > 0) std::memmove(t.name, name.data(), n);  // perhaps a piece of its own name
    std::memset(t.name + n, 0, sizeof t.name - n);
}

void name_after(Tensor& t, const Tensor& origin, std::string_view suffix) {
    const std::string_view first = name_of(origin);
    char name[GGML_MAX_NAME];
    const std::size_t n = std::min(first.size(), sizeof name);
    const std::size_t m = std::min(suffix.size(), sizeof name - n);
    std::memcpy(name, first.data(), n);
    std::memcpy(name + n, suffix.data(), m);
    set_name(t, {name, n + m});
}

std::string describe(const Extents& e) {
    return text('[', e[0], ',', e[1], ',', e[2], ',', e[3], ']');
}

std::string describe(const Tensor& t) {
    return text('\'', printable(name_of(t)), "' ", detail::find_type(t.type).name,
                describe(extents_of(t)));
}

void set_params(Tensor& t, const void* words, std::size_t size) {
    assert(size <= sizeof t.op_params && "parameters outgrew the node");
    std::memcpy(t.op_params, words, size);
    std::memset(reinterpret_cast<char*>(t.op_params) + size, 0, sizeof t.op_params - size);
}

}  // namespace heddle
