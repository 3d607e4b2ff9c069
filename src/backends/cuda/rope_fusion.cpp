#include "backends/cuda/rope_fusion.hpp"

#include <algorithm>

#include "backends/gpu/gather_products.hpp"

namespace heddle::cuda {
namespace {

struct Bytes {
    std::uintptr_t begin, end;
};

Bytes bytes_of(const Tensor& tensor) {
    const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data);
    return {begin, begin + byte_size(tensor)};
}

}  // namespace

bool overlap(const Tensor& a, const Tensor& b) {
    if (a.data == nullptr || b.data == nullptr) return gpu::root_of(&a) == gpu::root_of(&b);
    const Bytes x = bytes_of(a), y = bytes_of(b);
    return x.begin < y.end && y.begin < x.end;
}

bool are_apart(const Tensor& node, const Tensor& other) {
    if (overlap(node, other)) return false;
    for (const Tensor* source : node.src) {
        if (source != nullptr && overlap(*source, other)) return false;
    }
    return std::ranges::none_of(other.src, [&](const Tensor* source) {
        return source != nullptr && overlap(*source, node);
    });
}

bool is_apart(const Tensor& node, const RopeStoreGroup& group) {
    for (int i = 0; i < group.count; ++i) {
        const RopeStore& member = group.members[static_cast<std::size_t>(i)];
        if (member.rope != nullptr && !are_apart(node, *member.rope)) return false;
        if (member.store != nullptr && !are_apart(node, *member.store)) return false;
    }
    return true;
}

bool is_store_apart(const Tensor& store, const RopeStoreGroup& group, int own) {
    for (int i = 0; i < group.count; ++i) {
        const RopeStore& member = group.members[static_cast<std::size_t>(i)];
        for (const Tensor* node : {member.rope, member.store}) {
            if (node == nullptr) continue;
            if (overlap(store, *node)) return false;
            for (const Tensor* source : node->src) {
                if (source != nullptr && overlap(store, *source)) return false;
            }
            if (i != own && overlap(*store.src[1], *node)) return false;
        }
    }
    return true;
}

bool add_rope(const Tensor& rope, RopeStoreGroup& group) {
    if (group.count == static_cast<int>(group.members.size())) return false;
    if (!rope_objection(rope).empty() || !is_apart(rope, group)) return false;
    group.members[static_cast<std::size_t>(group.count++)] = {.rope = &rope};
    return true;
}

}  // namespace heddle::cuda
