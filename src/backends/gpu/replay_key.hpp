#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/tensor.hpp"

namespace heddle::gpu {

/// All that a kernel takes from a node, as words. What tensors hold is not part of it, nor are
/// their names.
class NodeWords {
public:
    /// A node, and the kernel that computes it.
    NodeWords(const void* kernel, const Tensor& node) {
        add(reinterpret_cast<std::uintptr_t>(kernel));
        add_tensor(node);
        std::memcpy(words_.data() + count_, node.op_params, sizeof node.op_params);
        count_ += kParams;
        for (const Tensor* source : node.src) {
            if (source == nullptr) {
                add(0);
            } else {
                add_tensor(*source);
            }
        }
    }

    std::span<const std::uint64_t> words() const { return {words_.data(), count_}; }

    /// Products that do not wait for each other. Each place has a factor of its own, so that equal
    /// words in different places count differently.
    std::uint64_t hash() const {
        constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15u;
        std::uint64_t sum = count_;
        for (std::size_t i = 0; i < count_; ++i) {
            sum += (words_[i] ^ words_[i] >> 32) * (kFactor + 2 * i);
        }
        return sum ^ sum >> 29;
    }

private:
    static constexpr std::size_t kTensor = 2 + 2 * kMaxDims;
    static constexpr std::size_t kParams = GGML_MAX_OP_PARAMS / 8;
    static constexpr std::size_t kMost = 1 + kTensor + kParams + GGML_MAX_SRC * kTensor;
    static_assert(sizeof(Tensor::op_params) == 8 * kParams);

    void add(std::uint64_t word) { words_[count_++] = word; }
    void add_tensor(const Tensor& tensor) {
        add(static_cast<std::uint64_t>(tensor.type) + 1);  // no tensor is as the word 0
        add(reinterpret_cast<std::uintptr_t>(tensor.data));
        std::memcpy(words_.data() + count_, tensor.ne, sizeof tensor.ne);
        std::memcpy(words_.data() + count_ + kMaxDims, tensor.nb, sizeof tensor.nb);
        count_ += 2 * kMaxDims;
    }

    std::array<std::uint64_t, kMost> words_;
    std::size_t count_ = 0;
};

/// A number for all that kernels take from the nodes of a graph: different ones are of different
/// work, equal ones may be.
class ReplayHash {
public:
    void add(const NodeWords& node) {
        value_ = (value_ ^ node.hash()) * 0x9e3779b97f4a7c15u;
        value_ ^= value_ >> 29;
    }
    void add(const void* kernel, const Tensor& node) { add(NodeWords(kernel, node)); }
    std::uint64_t value() const { return value_; }

private:
    std::uint64_t value_ = 0;
};

/// All that kernels take from the nodes of a graph: two graphs with equal keys launch the same work
/// with the same arguments.
class ReplayKey {
public:
    void add(const void* kernel, const Tensor& node) {
        const NodeWords added(kernel, node);
        hash_.add(added);
        words_.insert(words_.end(), added.words().begin(), added.words().end());
    }

    std::uint64_t hash() const { return hash_.value(); }
    friend bool operator==(const ReplayKey& a, const ReplayKey& b) {
        return a.hash() == b.hash() && a.words_ == b.words_;
    }

    /// Compares a key with nodes one after the other, without making one of them.
    class Comparison {
    public:
        explicit Comparison(const ReplayKey& key) : left_(key.words_) {}
        void add(const void* kernel, const Tensor& node) {
            const NodeWords added(kernel, node);
            const auto words = added.words();
            is_same_ = is_same_ && words.size() <= left_.size() &&
                       std::ranges::equal(words, left_.first(words.size()));
            if (is_same_) left_ = left_.subspan(words.size());
        }
        bool is_same() const { return is_same_ && left_.empty(); }

    private:
        std::span<const std::uint64_t> left_;
        bool is_same_ = true;
    };

private:
    std::vector<std::uint64_t> words_;
    ReplayHash hash_;
};

}  // namespace heddle::gpu
