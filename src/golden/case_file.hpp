#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace heddle::golden {

using Bytes = std::vector<std::byte>;

/// How a result is judged; `compare.hpp` has the rules.
enum class Rule { nmse, nmse_dequant, exact, index_set };

/// A tensor as an op sees it: where its elements lie in a storage.
struct Layout {
    Type type = GGML_TYPE_F32;
    Extents extent{1, 1, 1, 1};
    Strides stride{};
    std::size_t offset = 0;  ///< bytes from the start of the storage
};

/// Where the layout's last byte lies in its storage, plus one; 0 if it has no elements. Fails if
/// there can be no such storage.
Result<std::size_t> end_of(const Layout& layout);

/// An operand of a recorded node.
struct Source {
    static constexpr int kNodeItself = -1;

    int slot = 0;
    Layout layout;
    int storage_of = 0;  ///< the slot whose storage it lies in: its own, another, or `kNodeItself`
    Bytes storage{};     ///< before the run; empty if the storage is another's or has no elements
    std::optional<Bytes> after{};  ///< after the run, where the op changes it
    std::string init{};            ///< how the storage was filled, in words
};

/// What a recorded node gave.
struct Recorded {
    /// What `bytes` hold.
    enum class Content {
        elements,  ///< the elements, densely packed
        span,      ///< everything from the first to the last element, laid out as the node is
        storage,   ///< the complete storage the node lies in
    };

    Layout layout;
    int view_of = -1;  ///< the slot whose storage it lies in; -1: memory of its own
    Content content = Content::elements;
    Bytes bytes;
};

/// One node: operands and result.
struct OpCase {
    std::string name;         ///< for messages: "rope case 12"
    std::string description;  ///< builder calls | sources | remark
    std::string op;
    std::array<std::int32_t, GGML_MAX_OP_PARAMS / 4> params{};
    std::vector<Source> sources;
    Recorded result;
    Rule rule = Rule::nmse;
    double tolerance = 0;
    std::optional<double> quant_nmse;  ///< the error of the recorded encoder itself

    /// The source in `slot`, or null.
    const Source* source(int slot) const;
};

/// A numbered tensor of a graph, densely packed.
struct GraphTensor {
    int number = 0;
    Type type = GGML_TYPE_F32;
    Extents extent{1, 1, 1, 1};
    Bytes bytes;
};

/// One graph: its program, what goes in and what comes out.
struct GraphCase {
    std::string name;
    std::string description;
    std::vector<std::string> program;
    std::vector<GraphTensor> leafs;          ///< before the run
    std::vector<GraphTensor> outputs;        ///< to be checked
    std::vector<GraphTensor> intermediates;  ///< other nodes that own their memory
    std::vector<GraphTensor> changed_leafs;  ///< leafs the graph writes, after the run
    std::vector<GraphTensor> gradients;      ///< of the loss with respect to tensor `number`
    double tolerance = 0;
};

/// A file has cases of one kind only.
struct CaseFile {
    std::vector<OpCase> ops;
    std::vector<GraphCase> graphs;
};

/// Reads all cases of a file. Fails if something is missing or contradicts itself: what comes back
/// can be used without further checks of sizes.
Result<CaseFile> read_case_file(const std::string& path);

/// The case files in `directory`, sorted by name; not those in folders below it.
Result<std::vector<std::string>> list_case_files(const std::string& directory);

}  // namespace heddle::golden
