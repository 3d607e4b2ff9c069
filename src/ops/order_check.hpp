#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.hpp"

/// Callers put nodes into lists as they please: one may read what is computed only later, or never.
namespace heddle {

/// What is said against a node, number `at` of its list, that reads the result of number `read_at`.
Error read_too_early(const Tensor& node, std::int64_t at, const Tensor& read, std::int64_t read_at);

/// Is told which nodes are computed, one after the other, and finds those that read a result before
/// it is there. Results that are never computed here are those of another graph; a node that comes
/// again is computed again.
///
/// An open-addressing hash table of what was computed so far: a node is entered once and each of
/// its sources looked up once, which takes a few nanoseconds.
class OrderCheck {
public:
    explicit OrderCheck(std::size_t most_nodes);
    OrderCheck(const OrderCheck&) = delete;
    OrderCheck& operator=(const OrderCheck&) = delete;

    /// The next node that is computed; its op exists. Nodes that compute nothing (views, plain
    /// tensors) are not entered.
    void enter(const Tensor& node);

    /// Fails if one of the nodes entered reads what was entered no earlier. `list` is where they
    /// come from, for the message.
    Result<> finish(std::span<Tensor* const> list) const;

private:
    /// A result that was not there when it was read.
    struct Missing {
        const Tensor* node;
        const Tensor* read;
    };

    /// The slot of `tensor`, or the free one where it would go.
    std::size_t probe(const Tensor* tensor) const;
    bool is_known(const Tensor* tensor) const { return slots_[probe(tensor)] == tensor; }
    void look_up(const Tensor& node, std::size_t slot, const Tensor* read);

    static constexpr std::size_t kFew = 64;
    std::array<const Tensor*, kFew> few_{};  ///< for small graphs
    std::vector<const Tensor*> many_;
    std::span<const Tensor*> slots_;
    int shift_ = 0;  ///< of hashes, so that they are numbers of slots
    const Tensor* last_ = nullptr;
    std::vector<Missing> missing_;
};

/// The same for all nodes of a list, for streams that are handed one as the caller made it: none
/// is null, and none that is computed reads what is computed later.
Result<> check_order(std::span<Tensor* const> nodes);

}  // namespace heddle
