#pragma once

#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/context.hpp"
#include "golden/case_file.hpp"
#include "golden/interpreter.hpp"

namespace heddle::golden {

/// A context for headers only, with room for `tensors` of them and a graph of `graph_capacity`
/// nodes with gradients.
Result<OwnedContext> make_header_context(std::size_t tensors, std::size_t graph_capacity = 0);

/// What the description of a case says, taken apart.
struct CaseProgram {
    std::vector<SourceText> sources;
    std::vector<Statement> statements;  ///< the last one makes the node
};
Result<CaseProgram> program_of(const OpCase& golden);

/// Makes the sources of a case and its node with the public builders, as the description says, and
/// checks op, parameters, type, extents, strides, and the storage they lie in against the recorded
/// ones.
Result<> check_build(const OpCase& golden);

/// Memory of a tensor. Begins at a multiple of 64, as buffers do.
class Storage {
public:
    Storage() = default;
    explicit Storage(std::span<const std::byte> content);
    Storage(std::size_t size, std::byte fill);

    std::span<std::byte> bytes() { return {lines_.empty() ? nullptr : lines_[0].bytes, size_}; }
    std::span<const std::byte> bytes() const { return const_cast<Storage*>(this)->bytes(); }

private:
    struct alignas(64) Line {
        std::byte bytes[64];
    };

    std::vector<Line> lines_;
    std::size_t size_ = 0;
};

/// A recorded node with its operands in memory, ready to run.
struct RawCase {
    Tensor* node = nullptr;
    std::array<Storage, kMaxSources> sources;  ///< by the slot that owns it
    Storage own;                               ///< the node's, unless it lies in a source's
    int result_slot = -1;                      ///< the slot whose storage it lies in; -1: `own`

    /// The memory that `compare_result` judges.
    std::span<const std::byte> result() const {
        return (result_slot < 0 ? own : sources[static_cast<std::size_t>(result_slot)]).bytes();
    }
};

/// Makes the node of a case without its builder: headers in `context`, and memory filled as
/// recorded. Memory of the node's own is filled with 0x3C, which ops that write part of their
/// result leave there. The memory belongs to what is returned.
Result<RawCase> make_raw_node(const OpCase& golden, Context& context);

/// A context with room for `make_raw_node`.
Result<OwnedContext> make_raw_context(const OpCase& golden);

/// A graph made by a program, and what the program does with it.
struct GraphBuild {
    std::map<int, Tensor*> tensors;  ///< by number
    Graph* graph = nullptr;
    std::vector<Step> steps;  ///< to be done in this order, once all tensors have memory
};

/// Runs the program of a graph in `context`, but for the steps that need memory. Type and extents
/// of every recorded tensor are checked.
Result<GraphBuild> build_graph(const GraphCase& golden, Context& context);

/// A context with room for `build_graph`.
Result<OwnedContext> make_graph_context(const GraphCase& golden);

}  // namespace heddle::golden
