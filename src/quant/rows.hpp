#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

/// Loops that carry a function on one block over whole rows. A format writes what one block means;
/// these take care of counting and of blocks that lie at any address.
namespace heddle::quant {

/// The values of one block.
template <std::size_t kCount>
using Floats = std::span<const float, kCount>;

template <auto kDecode>
struct DecodeRows;

template <class Block, std::size_t kCount, void (*kDecode)(const Block&, std::span<float, kCount>)>
struct DecodeRows<kDecode> {
    static void run(const void* blocks, float* values, std::int64_t n) {
        const auto* from = static_cast<const std::byte*>(blocks);
        for (std::int64_t i = 0; i < n; i += kCount, from += sizeof(Block)) {
            Block block;
            std::memcpy(&block, from, sizeof block);
            kDecode(block, std::span<float, kCount>(values + i, kCount));
        }
    }
};

template <auto kEncode>
struct EncodeRows;

template <class Block, std::size_t kCount, Block (*kEncode)(Floats<kCount>)>
struct EncodeRows<kEncode> {
    static void run(const float* values, void* blocks, std::int64_t n) {
        auto* to = static_cast<std::byte*>(blocks);
        for (std::int64_t i = 0; i < n; i += kCount, to += sizeof(Block)) {
            const Block block = kEncode(Floats<kCount>(values + i, kCount));
            std::memcpy(to, &block, sizeof block);
        }
    }
};

/// The mean of x^2, summed in order.
inline float mean_square(std::span<const float> x) {
    float sum = 0;
    for (const float value : x) sum += value * value;
    return sum / static_cast<float>(x.size());
}

template <auto kWithImportance, auto kPlain>
struct EncodeRow;

/// One row with importance, or by the plain encoder where there is none.
template <class Block, std::size_t kCount, Block (*kWithImportance)(Floats<kCount>, Floats<kCount>),
          Block (*kPlain)(Floats<kCount>)>
struct EncodeRow<kWithImportance, kPlain> {
    static void run(const float* row, void* blocks, std::int64_t n, const float* importance) {
        if (importance == nullptr) return EncodeRows<kPlain>::run(row, blocks, n);
        auto* to = static_cast<std::byte*>(blocks);
        for (std::int64_t i = 0; i < n; i += kCount, to += sizeof(Block)) {
            const Block block = kWithImportance(Floats<kCount>(row + i, kCount),
                                                Floats<kCount>(importance + i, kCount));
            std::memcpy(to, &block, sizeof block);
        }
    }
};

template <auto kIsGood>
struct FirstBadBlock;

template <class Block, bool (*kIsGood)(const Block&)>
struct FirstBadBlock<kIsGood> {
    static std::int64_t run(const void* blocks, std::int64_t count) {
        const auto* from = static_cast<const std::byte*>(blocks);
        for (std::int64_t i = 0; i < count; ++i, from += sizeof(Block)) {
            Block block;
            std::memcpy(&block, from, sizeof block);
            if (!kIsGood(block)) return i;
        }
        return -1;
    }
};

/// Whether a half float is neither infinite nor NaN.
inline bool is_finite_half(std::uint16_t bits) { return (bits & 0x7c00u) != 0x7c00u; }

/// The usual rule: the scale `d` must be finite.
template <class Block>
bool has_finite_scale(const Block& block) {
    return is_finite_half(block.d);
}

}  // namespace heddle::quant
