#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/error.hpp"
#include "ggml.h"

namespace heddle {

/// The C enumerations are the one list of types and ops there is; inside heddle they go by these
/// names, their constants by their own (GGML_TYPE_Q4_K, GGML_OP_ADD).
using Type = ::ggml_type;
using Op = ::ggml_op;

/// GGML_OP_NONE, for code that names no other op and so need not see `ggml/op_list.h`.
inline constexpr Op kNoOp{};

/// What every part of heddle must know of an element type. How its blocks are packed is `quant`'s.
struct TypeInfo {
    const char* name = "";   ///< as shown to people and stored nowhere
    std::int64_t block = 0;  ///< elements in a block; 0: the type was removed from the format
    std::size_t bytes = 0;   ///< bytes of a block
    bool is_quantized = false;
};

/// The row of `type`; an empty row for numbers that name no type.
const TypeInfo& type_info(Type type);

/// Whether tensors can have this type.
inline bool is_valid(Type type) { return type_info(type).block != 0; }

/// Elements per block; 1 for plain types.
inline std::int64_t block_size(Type type) { return type_info(type).block; }

/// Bytes per block.
inline std::size_t size_of(Type type) { return type_info(type).bytes; }

inline std::string_view name_of(Type type) { return type_info(type).name; }

/// Bytes of a row of `n` elements; `n` is a multiple of the block size.
inline std::size_t row_size(Type type, std::int64_t n) {
    const TypeInfo& info = type_info(type);
    return info.block == 0 ? 0 : info.bytes * static_cast<std::size_t>(n / info.block);
}

}  // namespace heddle
