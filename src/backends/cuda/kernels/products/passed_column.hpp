#pragma once

#include <cstddef>
#include <cstdint>

/// A column of activations on its way from one launch to the next one: already coded, as products
/// read it, so that every block of that launch copies a quarter of the bytes and computes nothing.
namespace heddle::cuda {

/// Results that are coded together, by one warp.
inline constexpr int kPassedUnit = 32;
inline constexpr std::int64_t kMostPassed = 65536;  ///< elements

struct PassedColumn {
    static constexpr std::int64_t kBlock = 256, kBlockBytes = 352;  ///< as `Int8Column` has them

    std::uint8_t* codes = nullptr;  ///< as `Int8Column` has them; null: there are none
    float* squares = nullptr;       ///< sums of squares of every 32, for RMS_NORM

    /// In one half of the room that a stream has for them: a launch that reads one leaves another.
    static PassedColumn in(std::byte* room, int half) {
        std::byte* const at = room + static_cast<std::size_t>(half) * kBytes;
        return {reinterpret_cast<std::uint8_t*>(at), reinterpret_cast<float*>(at + kCodeBytes)};
    }

private:
    static constexpr std::size_t kCodeBytes = kMostPassed / kBlock * kBlockBytes;
    static constexpr std::size_t kBytes = kCodeBytes + kMostPassed / kPassedUnit * sizeof(float);

public:
    static constexpr std::size_t kRoom = 2 * kBytes;
};

}  // namespace heddle::cuda
