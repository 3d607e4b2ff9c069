#pragma once

#include <string_view>

#include "backends/cpu/host_memory.hpp"

/// Weights in large pages.
///
/// A mapped file comes in pages of 4 KiB. Writing text reads every weight once per token, and on
/// pages so small the CPU spends up to a third of that time on translating addresses. So
/// clients that map their files are offered memory in pages of 2 MiB, which they fill and then let
/// go of the file.
namespace heddle::cpu {

/// Whether the system gives large pages to those who ask, by the words of its setting: that in
/// brackets is chosen.
bool offers_large_pages(std::string_view setting);

/// Memory for weights, in large pages if it is more than a few and the system has them. Fails
/// without touching any if the machine has less memory than that: a mapped file may be larger than
/// memory, a copy of it may not.
Result<HostMemory> allocate_weights(std::size_t size);

/// The buffer type "CPU_LARGE_PAGES": ordinary host memory, which every op reads. Null where the
/// system has no large pages: weights are then as well off in the mapped file. `device` of the
/// first call counts.
ggml_backend_buffer_type_t large_page_buffer_type(ggml_backend_dev_t device);

}  // namespace heddle::cpu
