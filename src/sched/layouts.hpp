#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/tensor.hpp"

namespace heddle::sched {

/// A tensor's op, parameters, type, extents, strides and flags: all that decides how it is
/// scheduled but its wiring and its memory.
class Layout {
public:
    explicit Layout(const Tensor& tensor) : type_(tensor.type), view_offset_(tensor.view_offs) {
        std::memcpy(words_.data(), words_of(tensor), kBytes);
    }

    bool is_of(const Tensor& tensor) const {
        // Not memcmp: the CPU compares several words at once in this form.
        std::array<std::uint64_t, kBytes / 8> words;
        std::memcpy(words.data(), words_of(tensor), kBytes);
        std::uint64_t differences =
            (view_offset_ ^ tensor.view_offs) | static_cast<std::uint32_t>(type_ ^ tensor.type);
        for (std::size_t i = 0; i < words.size(); ++i) differences |= words[i] ^ words_[i];
        return differences == 0;
    }

    /// Whether the tensor has the op, type, flags and parameters: what differs are extents, strides
    /// and offsets. Parameters of an op that computes nothing are part of those.
    bool is_resized(const Tensor& tensor, bool computes) const {
        const auto same = [&](std::size_t begin, std::size_t size) {
            return std::memcmp(reinterpret_cast<const char*>(words_.data()) + (begin - kBegin),
                               reinterpret_cast<const char*>(&tensor) + begin, size) == 0;
        };
        return type_ == tensor.type && same(offsetof(Tensor, op), sizeof tensor.op) &&
               same(offsetof(Tensor, flags), sizeof tensor.flags) &&
               (!computes || same(offsetof(Tensor, op_params), sizeof tensor.op_params));
    }

    /// Sums products that do not wait for each other. Each place has a factor of its own, so that
    /// equal words in different places count differently.
    std::uint64_t hash() const {
        constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15u;
        std::uint64_t sum = view_offset_ * 3 + static_cast<std::uint32_t>(type_);
        for (std::size_t i = 0; i < words_.size(); ++i) sum += words_[i] * (kFactor + 2 * i);
        return (sum ^ sum >> 32) * kFactor >> 32;
    }

private:
    // Extents, strides, op, parameters and flags lie one behind the other.
    static constexpr std::size_t kBegin = offsetof(Tensor, ne);
    static constexpr std::size_t kBytes = offsetof(Tensor, flags) + sizeof(Tensor::flags) - kBegin;
    static_assert(kBytes == sizeof(Tensor::ne) + sizeof(Tensor::nb) + sizeof(Tensor::op) +
                                sizeof(Tensor::op_params) + sizeof(Tensor::flags) &&
                  kBytes % 8 == 0);

    static const char* words_of(const Tensor& tensor) {
        return reinterpret_cast<const char*>(&tensor) + kBegin;
    }

    std::int32_t type_;
    std::uint64_t view_offset_;
    std::array<std::uint64_t, kBytes / 8> words_;
};

/// Layouts, each once. Graphs repeat themselves: a hundred thousand tensors have a few dozen, which
/// stay in the nearest cache.
class Layouts {
public:
    void clear() {
        layouts_.clear();
        slots_.assign(kFewest, 0);
    }

    /// The number of the tensor's layout.
    std::uint32_t enter(const Tensor& tensor) {
        const Layout layout(tensor);
        const std::size_t mask = slots_.size() - 1;
        for (std::size_t slot = layout.hash() & mask;; slot = (slot + 1) & mask) {
            if (slots_[slot] == 0) {
                slots_[slot] = static_cast<std::uint32_t>(layouts_.size()) + 1;
                break;
            }
            if (layouts_[slots_[slot] - 1].is_of(tensor)) return slots_[slot] - 1;
        }
        layouts_.push_back(layout);
        const auto number = static_cast<std::uint32_t>(layouts_.size() - 1);
        if (layouts_.size() * 2 > slots_.size()) grow();
        return number;
    }

    const Layout& operator[](std::uint32_t number) const { return layouts_[number]; }
    std::size_t size() const { return layouts_.size(); }

private:
    static constexpr std::size_t kFewest = 256;

    void grow() {
        slots_.assign(slots_.size() * 2, 0);
        const std::size_t mask = slots_.size() - 1;
        for (std::uint32_t number = 0; number < layouts_.size(); ++number) {
            std::size_t slot = layouts_[number].hash() & mask;
            while (slots_[slot] != 0) slot = (slot + 1) & mask;
            slots_[slot] = number + 1;
        }
    }

    std::vector<Layout> layouts_;
    std::vector<std::uint32_t> slots_;  ///< a hash table: 1 + number, 0 is free
};

}  // namespace heddle::sched
