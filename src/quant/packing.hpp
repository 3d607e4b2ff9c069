#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

/// How codes of 1, 2 or 4 bits lie in bytes. All formats share one pattern: bytes come in chunks of
/// `kStride`, and field number f (lowest bits first) of byte j belongs to element j + kStride * f
/// of the chunk. A stride of 1 is plain sequence.
namespace heddle::quant {

/// The codes held by `packed`, in element order.
template <int kBits, std::size_t kStride, std::size_t kBytes>
std::array<std::uint8_t, kBytes * 8 / kBits> unpack(const std::uint8_t (&packed)[kBytes]) {
    constexpr std::size_t kFields = 8 / kBits;
    constexpr unsigned kMask = (1u << kBits) - 1;
    std::array<std::uint8_t, kBytes * kFields> codes;
    for (std::size_t chunk = 0; chunk < kBytes; chunk += kStride)
        for (std::size_t field = 0; field < kFields; ++field)
            for (std::size_t j = 0; j < kStride; ++j)
                codes[chunk * kFields + field * kStride + j] =
                    static_cast<std::uint8_t>(packed[chunk + j] >> (kBits * field) & kMask);
    return codes;
}

/// The inverse of `unpack`; takes the low `kBits` of every code shifted down by `from_bit`.
template <int kBits, std::size_t kStride, std::size_t kBytes>
void pack(const std::array<std::uint8_t, kBytes * 8 / kBits>& codes, std::uint8_t (&packed)[kBytes],
          int from_bit = 0) {
    constexpr std::size_t kFields = 8 / kBits;
    constexpr unsigned kMask = (1u << kBits) - 1;
    for (std::size_t chunk = 0; chunk < kBytes; chunk += kStride)
        for (std::size_t j = 0; j < kStride; ++j) {
            unsigned byte = 0;
            for (std::size_t field = 0; field < kFields; ++field) {
                const unsigned code = codes[chunk * kFields + field * kStride + j];
                byte |= (code >> from_bit & kMask) << (kBits * field);
            }
            packed[chunk + j] = static_cast<std::uint8_t>(byte);
        }
}

/// Values of 32 elements whose codes of four bits name a level each.
inline void look_up(const std::uint8_t (&packed)[16], const std::array<float, 16>& levels, float d,
                    std::span<float, 32> y) {
    // Straight from the bytes: compilers turn a detour through `unpack` into spilled vectors.
    for (std::size_t j = 0; j < 16; ++j) {
        y[j] = d * levels[packed[j] & 15];
        y[j + 16] = d * levels[packed[j] >> 4];
    }
}

}  // namespace heddle::quant
