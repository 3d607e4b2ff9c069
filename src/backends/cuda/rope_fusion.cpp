#include "backends/cuda/rope_fusion.hpp"

namespace heddle::cuda {
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
