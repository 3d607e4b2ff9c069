#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/movement/past_caches.cpp"
#include "backends/cpu/kernels/movement/past_caches.hpp"

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// `to` begins a line, and there are whole lines of 64 bytes.
void stream_lines(const std::byte* from, std::byte* to, std::size_t size) {
    const hn::CappedTag<std::uint8_t, 64> d;
    const auto* x = reinterpret_cast<const std::uint8_t*>(from);
    auto* y = reinterpret_cast<std::uint8_t*>(to);
    for (std::size_t i = 0; i < size; i += hn::Lanes(d)) hn::Stream(hn::LoadU(d, x + i), d, y + i);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(stream_lines);

void copy_past_caches(const std::byte* from, std::byte* to, std::size_t size) {
    constexpr std::size_t line = 64;
    const std::size_t head =
        std::min(size, (line - reinterpret_cast<std::uintptr_t>(to) % line) % line);
    const std::size_t lines = (size - head) / line * line;
    std::memcpy(to, from, head);
    HWY_DYNAMIC_DISPATCH(stream_lines)(from + head, to + head, lines);
    std::memcpy(to + head + lines, from + head + lines, size - head - lines);
}

void finish_past_caches() { hwy::FlushStream(); }

}  // namespace heddle::cpu
#endif
