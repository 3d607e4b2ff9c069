#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "sched/place.hpp"
#include "sched/wired_graph.hpp"

/// The second stage: runs of nodes on one runner each, and what has to be copied for them.
namespace heddle::sched {

/// A tensor that is wanted where it cannot be read. Later splits of the same runner use it again,
/// as long as the memory has not been written in between.
struct Copy {
    enum class Kind : std::uint8_t {
        value,     ///< computed by this graph, or memory that this graph writes
        input,     ///< flagged INPUT: the caller may write it again when the call has returned
        constant,  ///< in memory of its own, not written by this graph: weights above all
    };
    TensorId tensor = kNoTensor;
    RunnerId from = kNoRunner;  ///< whose memory it is in; kNoRunner: a device outside the team
    RunnerId to = kNoRunner;
    Kind kind = Kind::value;
    std::int32_t split = 0;           ///< the first that needs it
    std::int32_t first_stand_in = 0;  ///< in `Splits::stand_ins`
    std::int32_t stand_ins = 1;       ///< one for each slot; 1 serves all slots
    /// The node that wrote the memory last before it is needed, in an earlier split; kNoTensor: no
    /// node of this graph did.
    TensorId writer = kNoTensor;
    /// The MUL_MAT_ID node whose choice of experts is all that is read of it, if it is a weight on
    /// the host and all its readers make the same choice; kNoTensor otherwise. The choice is known
    /// before `split` begins.
    TensorId chooser = kNoTensor;
    std::size_t bytes = 0;
};

/// A node that writes memory which its runner cannot reach: given memory where its op cannot run,
/// or a result of another runner that it changes in place. A stand-in is computed instead and its
/// bytes are copied to the node's own memory after the split. A node that reads that memory is in a
/// later split.
struct Detour {
    TensorId node = kNoTensor;
    std::int32_t position = 0;  ///< in `Splits::order`
    std::int32_t stand_in = 0;
    std::int32_t split = 0;
    bool fetch_first = false;  ///< it changes only part of its memory: the rest has to be there
};

/// For its split, source `slot` of the node at `position` is the copy.
struct Patch {
    std::int32_t position = 0;  ///< in `Splits::order`
    std::int32_t copy = 0;
    TensorId original = kNoTensor;
    std::uint8_t slot = 0;
};

/// Nodes `begin .. end` of `Splits::order`, on one runner.
struct Split {
    RunnerId runner = kNoRunner;
    std::int32_t begin = 0, end = 0;
    std::vector<std::int32_t> inputs;               ///< copies first needed here
    std::vector<std::int32_t> detours;              ///< of its nodes
    std::uint32_t first_patch = 0, last_patch = 0;  ///< [first, last) of `Splits::patches`
};

struct Splits {
    std::vector<TensorId> order;  ///< the nodes as they run; views are where they stood
    std::vector<Split> splits;
    std::vector<Copy> copies;
    std::vector<Detour> detours;
    std::vector<Patch> patches;  ///< by split, then position
    std::vector<std::string> runner_names;
    /// Tensors of ours, named "<runner>#<tensor>#<slot>". They stay where they are.
    std::deque<Tensor> stand_ins;
    /// What backends are given, for each slot; null where it has not been needed yet. See `wire`.
    std::vector<std::unique_ptr<WiredGraph>> wired;

    Tensor& stand_in(const Copy& copy, int slot) {
        const auto first = static_cast<std::size_t>(copy.first_stand_in);
        return stand_ins[copy.stand_ins == 1 ? first : first + static_cast<std::size_t>(slot)];
    }
};

/// Cuts the placed graph. With `slots` above 1 copies of inputs and values have that many
/// stand-ins, so that the next run can fill one while the last is still read; those are flagged
/// INPUT and OUTPUT, because they live always. Backends may reorder the nodes of a split but the
/// last (the caller's graph is not touched).
Result<Splits> split(Abilities& abilities, const Placement& placement, int slots);

/// Brings stand-ins, and what is wired, up to date with nodes and names of the same graph at other
/// addresses (`index` was rebound). No run may be under way.
void rebind(Splits& splits, const GraphIndex& index);

/// A copy, with stand-ins of its own, of which nothing is wired.
Splits unwired(const Splits& splits);

/// For people: one line per split with its runner, nodes and inputs with sizes.
std::string to_text(const Splits& splits, const GraphIndex& index, const Team& team);

}  // namespace heddle::sched
