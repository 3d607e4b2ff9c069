#pragma once

#include <span>
#include <vector>

#include "sched/plan/plan.hpp"

/// A graph that differs from the planned one in the sizes of some tensors, as from token to token:
/// one more row of the caches is seen. Its nodes stay where they are and run in the same order; all
/// that is looked at are the tensors that changed and the nodes that touch them.
namespace heddle::sched {

/// Whether a plan can be used for graphs with other sizes at all.
bool can_resize(const Splits& splits, const Program& program);

/// Lets homes follow views of planned memory that begin elsewhere now. `tensors` are those of the
/// new graph, from number `first` on.
void move_homes(Program& program, const GraphIndex& index, std::span<const TensorId> resized,
                TensorId first, std::span<Tensor* const> tensors);

class Resize {
public:
    /// `index` was rebound to the new graph; `resized` are its tensors that differ.
    Resize(const GraphIndex& index, std::span<const TensorId> resized);

    /// Whether the new tensors fit the memory of the plan, and the nodes that touch them are such
    /// as their ops build.
    bool fits(const Splits& splits, const Program& program) const;

    /// Brings copies and what backends are given up to date. All tensors have their memory, and no
    /// run is under way.
    void apply(Splits& splits) const;

    /// Whether the devices still run the nodes that touch the tensors. Streams take the scratch
    /// memory that these need.
    Result<bool> is_runnable(const Splits& splits, WiredGraph& wired, const Team& team) const;

private:
    bool is_resized(TensorId id) const { return is_resized_[static_cast<std::size_t>(id)] != 0; }
    bool has_room(const Program& program) const;
    bool copies_have_room(const Splits& splits, const Program& program) const;
    bool are_sound(const Program& program) const;

    const GraphIndex& index_;
    std::span<const TensorId> resized_;
    std::vector<std::uint8_t> is_resized_;   ///< of each tensor
    std::vector<std::uint8_t> is_affected_;  ///< of each node: it touches such a tensor
    std::vector<TensorId> affected_;
};

}  // namespace heddle::sched
