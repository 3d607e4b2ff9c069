#pragma once

#include <cstddef>
#include <string>

#include "heddle/heddle.hpp"

/// Weights that the processor keeps in memory of its own.
///
/// A mapped file comes in small pages, which processors read a third slower than ordinary memory.
/// So what is read for every token is copied, and the pages of the file are given back. All of it,
/// small weights too: the system may map megabytes around a page that is read.
namespace heddle::tool {

/// The memory of `device` in which weight `t` is read fastest: in a layout of its own where it has
/// one. Null if `t` is better left in the file: of an embedding only some rows are read, unless it
/// `is_tied` to the output.
ggml_backend_buffer_type_t memory_for(const ggml_tensor& t, const Device& device, bool is_tied);

/// The memory of a device for weights in a layout of its own; null where it has none.
ggml_backend_buffer_type_t repacking_type_of(const Device& device);

/// Tells the system that these bytes of a mapped file are not needed any more.
void release_mapped(std::byte* data, std::size_t size);

}  // namespace heddle::tool
