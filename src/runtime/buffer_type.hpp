#pragma once

#include <cstddef>

#include "core/error.hpp"
#include "core/tensor.hpp"
#include "runtime/objects.hpp"
#include "runtime/owned.hpp"

namespace heddle {

/// Kinds of memory. Owned by their backend, never freed, compared by address.

const char* name_of(BufferType& type);  ///< never null

/// A buffer of at least `size` bytes.
///
/// Size 0 asks the backend nothing and gives a dummy: a buffer of this type with an empty table,
/// that answers "what if a tensor were there". The type of the result may be another one, where a
/// backend falls back to ordinary memory. Fails with `out_of_memory` if the backend has none.
Result<OwnedBuffer> allocate(BufferType& type, std::size_t size);

/// Tensor addresses are multiples of it: a power of two, 1 where the backend does not say.
std::size_t alignment_of(BufferType& type);

/// The largest single buffer; SIZE_MAX where there is no limit.
std::size_t max_size_of(BufferType& type);

/// Bytes to reserve for `tensor`, never less than its own. May depend on its op and sources.
std::size_t alloc_size_of(BufferType& type, const Tensor& tensor);

/// Whether `tensor->data` is an ordinary address of data in the ordinary layout.
bool is_host(BufferType& type);

Device* device_of(BufferType& type);  ///< may be null

}  // namespace heddle
