#pragma once

#include "backends/gpu/conditions/common.hpp"
#include "ops/recurrent.hpp"

/// What kernels of this family ask of a node, on every GPU.
namespace heddle::gpu::recurrent {

/// What operands `tokens`, all [S, H, tokens], and the states in slot `states` may not be.
inline std::string_view heads_objection(const Tensor& node, std::initializer_list<int> tokens,
                                        int states_slot) {
    if (const auto words = need_f32(node, states_slot + 1); !words.empty()) return words;
    const Tensor &like = *node.src[*tokens.begin()], &states = *node.src[states_slot];
    if (!is_contiguous(node) || !is_contiguous(states)) {
        return "the states or the result are not contiguous";
    }
    for (const int slot : tokens) {
        if (!same_shape(*node.src[slot], like)) return "shapes differ";
    }
    if (like.ne[3] != 1 || states.ne[1] < 1 || like.ne[2] % states.ne[1] != 0 ||
        element_count(states) != like.ne[0] * like.ne[0] * like.ne[1] * states.ne[1] ||
        element_count(node) < element_count(like) + element_count(states)) {
        return "shapes do not fit";
    }
    return {};
}

inline std::string_view wkv6_objection(const Tensor& node) {
    if (const auto words = heads_objection(node, {0, 1, 2, 4}, 5); !words.empty()) return words;
    const Tensor &k = *node.src[0], &bonus = *node.src[3];
    return bonus.ne[0] == k.ne[0] && bonus.ne[1] == k.ne[1] ? "" : "shapes do not fit";
}

inline std::string_view gla_objection(const Tensor& node) {
    return heads_objection(node, {0, 1, 2, 3}, 4);
}

inline std::string_view wkv7_objection(const Tensor& node) {
    return heads_objection(node, {0, 1, 2, 3, 4, 5}, 6);
}

inline std::string_view delta_objection(const Tensor& node) {
    if (const auto words = need_f32(node, 6); !words.empty()) return words;
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2], &gate = *node.src[3];
    const Tensor &beta = *node.src[4], &states = *node.src[5];
    if (!is_contiguous(node) || !is_contiguous(states)) {
        return "the states or the result are not contiguous";
    }
    const std::int64_t slots = unpack<ops::GatedDeltaNet::Params>(node).snapshots;
    if (slots < 1) return "there is no room for the state";
    const auto serves = [&](const Tensor& t) {
        return t.ne[0] == v.ne[0] && t.ne[1] > 0 && v.ne[1] % t.ne[1] == 0 && t.ne[2] == v.ne[2] &&
               t.ne[3] > 0 && v.ne[3] % t.ne[3] == 0;
    };
    const auto is_for_each_token = [&](const Tensor& t) {
        return t.ne[1] == v.ne[1] && t.ne[2] == v.ne[2] && t.ne[3] == v.ne[3];
    };
    const std::int64_t state = v.ne[0] * v.ne[0] * v.ne[1] * v.ne[3];
    const bool fits = serves(q) && serves(k) && is_for_each_token(gate) &&
                      is_for_each_token(beta) && (gate.ne[0] == 1 || gate.ne[0] == v.ne[0]) &&
                      element_count(states) == state &&
                      element_count(node) >= element_count(v) + slots * state;
    return fits ? "" : "shapes do not fit";
}

inline std::string_view solve_objection(const Tensor& node) {
    if (const auto words = need_f32(node, 2); !words.empty()) return words;
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (!same_shape(b, node) || a.ne[0] != a.ne[1] || a.ne[1] != b.ne[1] || a.ne[2] != b.ne[2] ||
        a.ne[3] != b.ne[3]) {
        return "shapes do not fit";
    }
    return {};
}

}  // namespace heddle::gpu::recurrent
