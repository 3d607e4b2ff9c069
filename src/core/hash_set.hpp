#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor.hpp"
#include "impl/graph.h"

/// The set of tensors a graph has seen. Its layout and probing are ABI: compiled plug-ins inline
/// the look-up to read use counts.
namespace heddle {

using HashSet = ::ggml_hash_set;

/// The smallest prime that is at least `minimum`.
std::size_t hash_capacity(std::size_t minimum);

inline std::size_t bitset_words(std::size_t bits) { return (bits + 31) / 32; }

inline bool is_used(const HashSet& set, std::size_t slot) {
    return (set.used[slot >> 5] >> (slot & 31) & 1u) != 0;
}

inline constexpr std::size_t kNoSlot = SIZE_MAX;

/// The slot of `key`, or the free one where it would go, or kNoSlot in a full set without it.
inline std::size_t probe(const HashSet& set, const Tensor* key) {
    if (set.size == 0) return kNoSlot;
    const std::size_t home = (reinterpret_cast<std::uintptr_t>(key) >> 4) % set.size;
    std::size_t slot = home;
    while (is_used(set, slot) && set.keys[slot] != key) {
        if (++slot == set.size) slot = 0;
        if (slot == home) return kNoSlot;
    }
    return slot;
}

/// The slot of `key`, or kNoSlot if it is not in the set.
inline std::size_t find(const HashSet& set, const Tensor* key) {
    const std::size_t slot = probe(set, key);
    return slot != kNoSlot && is_used(set, slot) ? slot : kNoSlot;
}

inline void occupy(HashSet& set, std::size_t slot, Tensor* key) {
    set.used[slot >> 5] |= 1u << (slot & 31);
    set.keys[slot] = key;
}

/// Only for entries that no other one was probed past.
inline void vacate(HashSet& set, std::size_t slot) { set.used[slot >> 5] &= ~(1u << (slot & 31)); }

}  // namespace heddle
