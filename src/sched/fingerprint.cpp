#include "sched/fingerprint.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/prefetch.hpp"

namespace heddle::sched {
namespace {

static_assert(kMaxSources <= 16, "one bit for each source slot");

/// Mixes two words so that every bit of the result depends on every bit of them.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = Wide(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xd1b54a32d192ed03u);
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t pair_of(std::uint32_t low, std::uint32_t high) {
    return low | static_cast<std::uint64_t>(high) << 32;
}

}  // namespace

/// Two chains of multiplications side by side: neither waits for the other.
Fingerprint::Digest Fingerprint::digest_of(const Tensor& t, std::uint64_t memory) {
    constexpr std::size_t kWords = GGML_MAX_OP_PARAMS / sizeof(std::uint64_t);
    std::uint64_t params[kWords];
    std::memcpy(params, t.op_params, sizeof params);

    const auto extent = [&](int i) { return static_cast<std::uint64_t>(t.ne[i]); };
    std::uint64_t a = mix(extent(0), extent(1));
    std::uint64_t b = mix(extent(2), extent(3));
    a = mix(a + t.nb[0], t.nb[1]);
    b = mix(b + t.nb[2], t.nb[3]);
    for (std::size_t i = 0; i < kWords; i += 4) {
        a = mix(a + params[i], params[i + 1]);
        b = mix(b + params[i + 2], params[i + 3]);
    }
    a = mix(a + pair_of(static_cast<std::uint32_t>(t.type), static_cast<std::uint32_t>(t.op)),
            static_cast<std::uint32_t>(t.flags));
    b = mix(b + memory, t.view_offs);
    return {a, b};
}

/// Views have the memory of their root, whatever they say themselves: a graph that has just been
/// built and one that has run say different things.
std::uint64_t Fingerprint::memory_kind(const Tensor& tensor, OwnBuffers own) {
    constexpr std::uint64_t kNone = 0, kBare = 1, kView = 2;
    if (tensor.view_src != nullptr) return kView;
    if (tensor.buffer == nullptr) return tensor.data == nullptr ? kNone : kBare;
    if (std::ranges::find(own, tensor.buffer) != own.end()) return kNone;
    const std::uint64_t usage = static_cast<std::uint32_t>(tensor.buffer->usage);
    const std::uint64_t type = std::bit_cast<std::uintptr_t>(tensor.buffer->buft);
    return mix(type, usage << 1 | (tensor.data == nullptr));
}

void Fingerprint::take(const GraphIndex& index, OwnBuffers own) {
    taken_ = false;
    const std::span<const TensorId> nodes = index.nodes(), leafs = index.leafs();
    nodes_ = nodes.size();
    leafs_ = leafs.size();

    constexpr std::uint32_t kNowhere = UINT32_MAX;
    std::vector<std::uint32_t> place_of(index.size(), kNowhere);
    std::vector<TensorId> ids(nodes.begin(), nodes.end());
    ids.insert(ids.end(), leafs.begin(), leafs.end());
    for (std::size_t place = 0; place < ids.size(); ++place) {
        std::uint32_t& known = place_of[static_cast<std::size_t>(ids[place])];
        if (known != kNowhere) return;  // listed twice: places do not say which tensor is meant
        known = static_cast<std::uint32_t>(place);
    }
    outside_.clear();
    for (std::size_t id = 0; id < index.size(); ++id) {
        if (place_of[id] != kNowhere) continue;
        place_of[id] = static_cast<std::uint32_t>(ids.size());
        ids.push_back(static_cast<TensorId>(id));
        outside_.push_back(&index[ids.back()]);
    }

    digests_.resize(ids.size());
    roots_.resize(ids.size());
    source_slots_.assign(nodes_, 0);
    first_source_.resize(nodes_);
    sources_.clear();
    const std::size_t listed = nodes_ + leafs_;
    for (std::size_t place = 0; place < ids.size(); ++place) {
        if (place + kReadAhead < ids.size()) prefetch(&index[ids[place + kReadAhead]]);
        const TensorId id = ids[place];
        const Tensor& tensor = index[id];
        const Tensor* const root = &index[index.root(id)];
        if (root != (tensor.view_src != nullptr ? tensor.view_src : &tensor)) return;
        roots_[place] = place_of[static_cast<std::size_t>(index.root(id))];
        const OwnBuffers ours = place < listed ? own : OwnBuffers{};
        digests_[place] = digest_of(tensor, memory_kind(tensor, ours));
        if (place >= nodes_) continue;
        first_source_[place] = static_cast<std::uint32_t>(sources_.size());
        auto known = index.sources(id).begin();
        for (unsigned slot = 0; slot < kMaxSources; ++slot) {
            const Tensor* const source = tensor.src[slot];
            if (source == nullptr) continue;
            source_slots_[place] |= static_cast<std::uint16_t>(1u << slot);
            // A node may name itself as its source, as copies do: then it needs no looking up.
            const TensorId read = source == &tensor ? id : known->tensor;
            if (known != index.sources(id).end() && known->slot == slot) ++known;
            sources_.push_back(place_of[static_cast<std::size_t>(read)]);
        }
    }
    taken_ = true;
}

bool Fingerprint::same_node(std::size_t place, const Tensor& node, OwnBuffers own) const {
    const Tensor* const root = tensors_[roots_[place]];
    if (root != (node.view_src != nullptr ? node.view_src : &node)) return false;
    const std::uint32_t* source = sources_.data() + first_source_[place];
    const std::uint32_t slots = source_slots_[place];
    for (unsigned slot = 0; slot < kMaxSources; ++slot) {
        const Tensor* const expected = (slots >> slot & 1) != 0 ? tensors_[*source++] : nullptr;
        if (node.src[slot] != expected) return false;
    }
    return digest_of(node, memory_kind(node, own)) == digests_[place];
}

/// Tensors in neither list. All of them are known to be there: the lists' tensors refer to the
/// views among them, and those to their roots.
bool Fingerprint::same_outside(OwnBuffers own) const {
    const std::size_t begin = nodes_ + leafs_;
    for (std::size_t place = begin; place < tensors_.size(); ++place) {
        if (roots_[place] == place) continue;
        if (tensors_[place]->view_src != tensors_[roots_[place]]) return false;
    }
    for (std::size_t place = begin; place < tensors_.size(); ++place) {
        if (place + kReadAhead < tensors_.size()) prefetch(tensors_[place + kReadAhead]);
        const Tensor& tensor = *tensors_[place];
        if (roots_[place] == place && tensor.view_src != nullptr) return false;
        if (digest_of(tensor, memory_kind(tensor, own)) != digests_[place]) return false;
    }
    return true;
}

bool Fingerprint::matches(const Graph& graph, OwnBuffers own) const {
    const std::span<Tensor*const> nodes = nodes_of(graph), leafs = leafs_of(graph);
    if (!taken_ || nodes.size() != nodes_ || leafs.size() != leafs_) return false;
    tensors_.clear();
    tensors_.insert(tensors_.end(), nodes.begin(), nodes.end());
    tensors_.insert(tensors_.end(), leafs.begin(), leafs.end());
    tensors_.insert(tensors_.end(), outside_.begin(), outside_.end());

    const std::size_t listed = nodes_ + leafs_;
    for (std::size_t place = 0; place < nodes_; ++place) {
        if (place + kReadAhead < listed) prefetch(tensors_[place + kReadAhead]);
        if (place > 0 && tensors_[place] == tensors_[place - 1]) return false;
        if (!same_node(place, *tensors_[place], own)) return false;
    }
    for (std::size_t place = nodes_; place < listed; ++place) {
        if (place + kReadAhead < tensors_.size()) prefetch(tensors_[place + kReadAhead]);
        const Tensor& leaf = *tensors_[place];
        if ((leaf.view_src != nullptr ? leaf.view_src : &leaf) != tensors_[roots_[place]])
            return false;
        if (digest_of(leaf, memory_kind(leaf, own)) != digests_[place]) return false;
    }
    return same_outside({});
}

}  // namespace heddle::sched
