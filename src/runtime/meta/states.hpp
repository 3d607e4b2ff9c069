#pragma once

#include <unordered_map>
#include <vector>

#include "runtime/meta/device.hpp"
#include "runtime/meta/rules.hpp"

namespace heddle::meta {

/// Finds how tensors lie on the devices: as the program says, or as follows from their sources.
/// What was found once is kept, so one object serves one graph.
///
/// Tensors in memory of others count as mirrored: that is how their copies will lie here.
class States {
public:
    explicit States(JoinedDevice& device) : device_(device) {}

    Result<Split> of(const Tensor& tensor);

    /// Says how a tensor lies that is about to be placed.
    void set(const Tensor& tensor, Split split) { known_[&tensor] = std::move(split); }

    /// The sources of `node`, which have all been asked for.
    Result<NodeSources> sources_of(const Tensor& node);

private:
    Result<bool> find_given(const Tensor& tensor);
    bool push_missing(const Tensor& tensor, std::vector<const Tensor*>& waiting) const;
    Result<Split> evaluate(const Tensor& tensor);
    Result<Split> view_of(const Tensor& view);
    void talk(const Tensor& tensor, const Split& split);

    JoinedDevice& device_;
    std::unordered_map<const Tensor*, Split> known_;
};

}  // namespace heddle::meta
