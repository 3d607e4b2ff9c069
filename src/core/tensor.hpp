#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/type.hpp"
#include "ggml.h"

namespace heddle {

/// `struct ggml_tensor` is the tensor; there is no second representation of one.
using Tensor = ::ggml_tensor;

inline constexpr int kMaxDims = GGML_MAX_DIMS;
inline constexpr int kMaxSources = GGML_MAX_SRC;

using Extents = std::array<std::int64_t, kMaxDims>;  ///< elements per dimension, fastest first
using Strides = std::array<std::size_t, kMaxDims>;   ///< bytes from one element to the next

Extents extents_of(const Tensor& tensor);
Strides strides_of(const Tensor& tensor);

/// What a tensor looks like, before it exists.
struct TensorSpec {
    Type type = GGML_TYPE_F32;
    Extents extent{1, 1, 1, 1};
    Strides stride{};
    int view_of = -1;  ///< the source slot whose memory it lives in; -1: memory of its own
    std::size_t view_offset = 0;  ///< bytes from the start of that source

    /// Densely packed. Extents are taken as they are; `check_extents` judges them.
    static TensorSpec dense(Type type, const Extents& extent);

    /// Densely packed, with the type and extents of `tensor`.
    static TensorSpec like(const Tensor& tensor);

    /// `tensor`, which stands in source slot `slot`, seen again: same type, extents, strides,
    /// memory.
    static TensorSpec view(const Tensor& tensor, int slot);
};

/// Strides of a densely packed tensor.
Strides dense_strides(Type type, const Extents& extent);

/// Fails unless `type` exists, no extent is negative, rows are whole blocks, and the size in bytes
/// of the densely packed tensor can be counted.
Result<> check_extents(Type type, const Extents& extent);

// ---- sizes -------------------------------------------------------------------------------------

std::int64_t element_count(const Tensor& tensor);
std::int64_t row_count(const Tensor& tensor);  ///< rows along dimension 0

/// Bytes from the first to past the last element, gaps included; 0 for an empty tensor.
std::size_t byte_size(const Tensor& tensor);
std::size_t byte_size(const TensorSpec& spec);

int dimension_count(const Tensor& tensor);  ///< without trailing extents of 1, at least 1

// ---- layout ------------------------------------------------------------------------------------

bool is_empty(const Tensor& tensor);
bool is_scalar(const Tensor& tensor);
bool is_vector(const Tensor& tensor);
bool is_matrix(const Tensor& tensor);
bool is_transposed(const Tensor& tensor);  ///< nb[0] > nb[1]
bool is_permuted(const Tensor& tensor);

/// Dense in dimensions `free + 1 .. dims - 1` over each other and in dimension 0; the strides of
/// dimensions 1 .. free may be anything. Extents of 1 are exempt: their strides mean nothing.
bool is_contiguous(const Tensor& tensor, int free = 0, int dims = kMaxDims);

bool has_dense_rows(const Tensor& tensor);             ///< elements of a row follow each other
bool is_contiguously_allocated(const Tensor& tensor);  ///< no gaps, in whatever order
bool has_dense_channels(const Tensor& tensor);  ///< an image whose dimension 2 varies fastest
bool is_padded_rows(const Tensor& tensor);      ///< dense but for a pitch between rows

bool same_shape(const Tensor& a, const Tensor& b);
bool same_strides(const Tensor& a, const Tensor& b);
bool same_layout(const Tensor& a, const Tensor& b);  ///< type, shape and strides

/// Whether tiling `small` a whole number of times in every dimension gives the shape of `big`.
bool can_repeat(const Tensor& small, const Tensor& big);
bool can_repeat_rows(const Tensor& small, const Tensor& big);  ///< and rows have equal length

/// Logical coordinates of element number `index`, dimension 0 running fastest.
Extents unravel(const Tensor& tensor, std::int64_t index);

// ---- names and words ---------------------------------------------------------------------------

std::string_view name_of(const Tensor& tensor);

/// Cuts at 63 bytes.
void set_name(Tensor& tensor, std::string_view name);

/// Names `tensor` after `origin`: its name followed by `suffix`.
void name_after(Tensor& tensor, const Tensor& origin, std::string_view suffix);

/// For messages: `'kq_mask' f16[64,32,1,1]`.
std::string describe(const Tensor& tensor);
std::string describe(const Extents& extent);

/// Raw words of op_params, as bytes: they are aligned to 4 only.
void set_params(Tensor& tensor, const void* words, std::size_t size);

/// The parameters of a node as the struct they were stored from.
template <class Params>
Params unpack(const Tensor& node);

}  // namespace heddle

#include <cstring>

template <class Params>
Params heddle::unpack(const Tensor& node) {
    static_assert(sizeof(Params) <= GGML_MAX_OP_PARAMS);
    Params params;
    std::memcpy(&params, node.op_params, sizeof params);
    return params;
}
