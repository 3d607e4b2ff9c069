#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/tensor.hpp"

namespace heddle::sched {

/// A tensor's op, parameters, type, extents, strides and flags in a few bytes. Tensors that differ
/// in any of them have different ones but for one case in 2^64.
struct Digest {
    std::uint64_t low = 0, high = 0;
    bool operator==(const Digest&) const = default;
};

/// Mixes two words so that every bit of the result depends on every bit of them.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = Wide(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xd1b54a32d192ed03u);
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// Two chains of multiplications side by side: neither waits for the other.
inline Digest digest_of(const Tensor& t) {
    constexpr std::size_t kWords = GGML_MAX_OP_PARAMS / sizeof(std::uint64_t);
    const auto word = [&](std::size_t i) {
        std::uint64_t value;
        std::memcpy(&value, reinterpret_cast<const char*>(t.op_params) + i * sizeof value,
                    sizeof value);
        return value;
    };
    const auto extent = [&](int i) { return static_cast<std::uint64_t>(t.ne[i]); };
    std::uint64_t a = mix(extent(0), extent(1));
    std::uint64_t b = mix(extent(2), extent(3));
    a = mix(a + t.nb[0], t.nb[1]);
    b = mix(b + t.nb[2], t.nb[3]);
    for (std::size_t i = 0; i < kWords; i += 4) {
        a = mix(a + word(i), word(i + 1));
        b = mix(b + word(i + 2), word(i + 3));
    }
    const std::uint64_t type = static_cast<std::uint32_t>(t.type);
    a = mix(a + (type | static_cast<std::uint64_t>(t.op) << 32),
            static_cast<std::uint32_t>(t.flags));
    b = mix(b, t.view_offs);
    return {a, b};
}

}  // namespace heddle::sched
