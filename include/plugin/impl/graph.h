/// The layout of a graph and of its hash set, as backends read it.
///
/// This code is inlined into backends built outside this tree, so the layouts and the way the hash
/// set is probed are ABI. Included by `ggml-impl.h`.
#pragma once

#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

// ------------------------------------------------------------------------------------------------
// Bit set: bit i is bit i % 32 of word i / 32

typedef uint32_t ggml_bitset_t;  ///< One word of a bit set.

#define BITSET_SHR 5                    ///< log2 of the bits in a word.
#define BITSET_MASK ((size_t)31)        ///< Selects the bit inside a word.
#define GGML_HASHSET_FULL ((size_t)-1)  ///< Lookup: the key is absent and no slot is free.
#define GGML_HASHSET_ALREADY_EXISTS ((size_t)-2)  ///< Insertion: the key was there already.

/// Words needed for `n` bits.
static inline size_t ggml_bitset_size(size_t n) { return (n + BITSET_MASK) >> BITSET_SHR; }

/// Whether bit `i` is set.
static inline bool ggml_bitset_get(const ggml_bitset_t* bitset, size_t i) {
    return (bitset[i >> BITSET_SHR] >> (i & BITSET_MASK)) & 1u;
}

/// Sets bit `i`.
static inline void ggml_bitset_set(ggml_bitset_t* bitset, size_t i) {
    bitset[i >> BITSET_SHR] |= (ggml_bitset_t)1 << (i & BITSET_MASK);
}

/// Clears bit `i`.
static inline void ggml_bitset_clear(ggml_bitset_t* bitset, size_t i) {
    bitset[i >> BITSET_SHR] &= ~((ggml_bitset_t)1 << (i & BITSET_MASK));
}

// ------------------------------------------------------------------------------------------------
// Hash set of tensors: open addressing, linear probing with wrap-around, no deletion

/// A set of tensor addresses. A tensor's first slot is (address >> 4) % size.
struct ggml_hash_set {
    size_t size;                ///< Number of slots.
    ggml_bitset_t* used;        ///< Which slots hold a key.
    struct ggml_tensor** keys;  ///< Keys by slot; meaningful only where `used` has the bit.
};

/// A new empty set with at least `size` slots. Release it with ggml_hash_set_free().
/// Without memory for it the set has size 0.
GGML_API struct ggml_hash_set ggml_hash_set_new(size_t size);

/// Releases what ggml_hash_set_new() made. NULL pointers inside are fine.
GGML_API void ggml_hash_set_free(struct ggml_hash_set* hash_set);

/// The number of slots used for at least `min_sz` keys: a prime not below it.
GGML_API size_t ggml_hash_size(size_t min_sz);

/// Removes all keys, keeps the memory.
GGML_API void ggml_hash_set_reset(struct ggml_hash_set* hash_set);

/// Hash of a tensor's address. Tensors are 16-byte aligned, so the low bits say nothing.
static inline size_t ggml_hash(const struct ggml_tensor* p) { return (size_t)((uintptr_t)p >> 4); }

/// The slot that holds `key`, or the free slot where it would go, or GGML_HASHSET_FULL.
static inline size_t ggml_hash_find(const struct ggml_hash_set* hash_set,
                                    const struct ggml_tensor* key) {
    if (hash_set->size == 0) return GGML_HASHSET_FULL;
    const size_t home = ggml_hash(key) % hash_set->size;
    size_t slot = home;
    while (ggml_bitset_get(hash_set->used, slot) && hash_set->keys[slot] != key) {
        slot = slot + 1 == hash_set->size ? 0 : slot + 1;
        if (slot == home) return GGML_HASHSET_FULL;
    }
    return slot;
}

/// Whether `key` is in the set.
static inline bool ggml_hash_contains(const struct ggml_hash_set* hash_set,
                                      struct ggml_tensor* key) {
    const size_t slot = ggml_hash_find(hash_set, key);
    return slot != GGML_HASHSET_FULL && ggml_bitset_get(hash_set->used, slot);
}

/// Adds `key` and returns its slot, or GGML_HASHSET_ALREADY_EXISTS. A full set stops the program.
static inline size_t ggml_hash_insert(struct ggml_hash_set* hash_set, struct ggml_tensor* key) {
    const size_t slot = ggml_hash_find(hash_set, key);
    if (slot == GGML_HASHSET_FULL) {
        GGML_ABORT("hash set: all %zu slots are taken", hash_set->size);
    }
    if (ggml_bitset_get(hash_set->used, slot)) return GGML_HASHSET_ALREADY_EXISTS;
    ggml_bitset_set(hash_set->used, slot);
    hash_set->keys[slot] = key;
    return slot;
}

/// The slot of `key`, which is added if it was absent. A full set stops the program.
static inline size_t ggml_hash_find_or_insert(struct ggml_hash_set* hash_set,
                                              struct ggml_tensor* key) {
    const size_t slot = ggml_hash_insert(hash_set, key);
    return slot == GGML_HASHSET_ALREADY_EXISTS ? ggml_hash_find(hash_set, key) : slot;
}

// ------------------------------------------------------------------------------------------------
// Graph

/// In which order the sources of a node are visited when a graph is built.
enum ggml_cgraph_eval_order GGML_ENUM_INT {
    GGML_CGRAPH_EVAL_ORDER_LEFT_TO_RIGHT = 0,  ///< src[0] first; the default.
    GGML_CGRAPH_EVAL_ORDER_RIGHT_TO_LEFT = 1,  ///< src[9] first.
    GGML_CGRAPH_EVAL_ORDER_COUNT = 2,          ///< Number of orders.
};

/// A graph: what to compute, in order, and what it is computed from. Owns none of its tensors.
struct ggml_cgraph {
    int size;     ///< Capacity of `nodes`, and of `leafs`; 0 in a slice of another graph.
    int n_nodes;  ///< Nodes in use.
    int n_leafs;  ///< Leafs in use.

    struct ggml_tensor** nodes;      ///< Results and trainable parameters, sources before users.
    struct ggml_tensor** grads;      ///< Gradients by slot of the hash set; NULL without gradients.
    struct ggml_tensor** grad_accs;  ///< Gradient accumulators, likewise.
    struct ggml_tensor** leafs;      ///< Inputs, weights and constants.
    int32_t* use_counts;             ///< References to each tensor by slot of the hash set.

    struct ggml_hash_set visited_hash_set;  ///< All nodes and leafs.

    enum ggml_cgraph_eval_order order;  ///< Order in which sources are visited.

    /// 0, or a number that no other graph has: two runs with the same number promise the same
    /// graph.
    uint64_t uid;
};

/// A number for `uid` that was never given out before in this process; the first one is 1.
GGML_API uint64_t ggml_graph_next_uid(void);

/// Nodes [i0, i1) of a graph as a graph of its own, by value. It shares the nodes, the hash set and
/// the use counts with `cgraph`, which must outlive it; it has no leafs, no gradients and uid 0.
GGML_API struct ggml_cgraph ggml_graph_view(struct ggml_cgraph* cgraph, int i0, int i1);

/// How many source slots of nodes in the graph refer to node `node_idx`; 0 for a node that was
/// appended without being visited.
static inline int32_t ggml_node_get_use_count(const struct ggml_cgraph* cgraph, int node_idx) {
    const size_t slot = ggml_hash_find(&cgraph->visited_hash_set, cgraph->nodes[node_idx]);
    if (slot == GGML_HASHSET_FULL) return 0;
    if (!ggml_bitset_get(cgraph->visited_hash_set.used, slot)) return 0;
    return cgraph->use_counts[slot];
}

/// Whether node `node_idx` is used exactly `n_uses` times and for nothing else: it is neither a
/// view of another tensor nor an output of the graph. Then it need not be written if its users are
/// fused with it.
static inline bool ggml_node_has_n_uses(const struct ggml_cgraph* cgraph, int node_idx,
                                        int32_t n_uses) {
    const struct ggml_tensor* node = cgraph->nodes[node_idx];
    if (node->view_src != NULL || (node->flags & GGML_TENSOR_FLAG_OUTPUT) != 0) return false;
    return ggml_node_get_use_count(cgraph, node_idx) == n_uses;
}

#ifdef __cplusplus
}
#endif
