#pragma once

#include <cstddef>
#include <string>

#include "heddle/heddle.hpp"

/// Weights that the processor keeps in memory of its own.
///
/// A mapped file comes in small pages, which processors read a third slower than ordinary memory.
/// So what is read for every token is copied, and the pages of the file are given back.
namespace heddle::tool {

/// The memory of `device` in which it multiplies weight `t` fastest: in a layout of its own where
/// it has one. Null if `t` is better left in the file: it is small, or only some of its rows are
/// read. The embedding is read whole where it `is_tied` to the output.
ggml_backend_buffer_type_t memory_for_products(const ggml_tensor& t, const Device& device,
                                               bool is_tied);

/// Tells the system that these bytes of a mapped file are not needed any more.
void release_mapped(std::byte* data, std::size_t size);

}  // namespace heddle::tool
