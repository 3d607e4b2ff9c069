#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "core/tensor.hpp"

namespace heddle::gpu {

/// All that kernels take from the nodes of a graph: two graphs with equal keys launch the same work
/// with the same arguments. What tensors hold is not part of it, nor are their names.
class ReplayKey {
public:
    /// A node, and the kernel that computes it.
    void add(const void* kernel, const Tensor& node) {
        add_word(reinterpret_cast<std::uintptr_t>(kernel));
        add_tensor(node);
        for (std::size_t at = 0; at < sizeof node.op_params; at += sizeof(std::uint64_t)) {
            std::uint64_t word = 0;
            std::memcpy(&word, reinterpret_cast<const char*>(node.op_params) + at, sizeof word);
            add_word(word);
        }
        for (const Tensor* source : node.src) {
            if (source == nullptr) {
                add_word(0);
            } else {
                add_tensor(*source);
            }
        }
    }

    std::uint64_t hash() const { return hash_; }
    friend bool operator==(const ReplayKey& a, const ReplayKey& b) {
        return a.hash_ == b.hash_ && a.words_ == b.words_;
    }

private:
    void add_word(std::uint64_t word) {
        words_.push_back(word);
        hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15u;
        hash_ ^= hash_ >> 29;
    }
    void add_tensor(const Tensor& tensor) {
        add_word(static_cast<std::uint64_t>(tensor.type) + 1);  // no tensor is as the word 0
        add_word(reinterpret_cast<std::uintptr_t>(tensor.data));
        for (int d = 0; d < kMaxDims; ++d) {
            add_word(static_cast<std::uint64_t>(tensor.ne[d]));
            add_word(tensor.nb[d]);
        }
    }

    std::vector<std::uint64_t> words_;
    std::uint64_t hash_ = 0;
};

}  // namespace heddle::gpu
