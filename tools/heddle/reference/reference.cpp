#include "reference/reference.hpp"

#include <algorithm>

#include "core/context.hpp"
#include "ggml/op_list.h"

namespace heddle::tool::reference {
namespace {

using golden::Bytes;
using golden::Layout;
using golden::OpCase;
using golden::Recorded;
using golden::Source;

Result<Op> op_named(const std::string& name) {
    for (int number = 0; number < GGML_OP_COUNT; ++number) {
        if (name == ggml_op_name(static_cast<Op>(number))) return static_cast<Op>(number);
    }
    return failure(Errc::not_found, "there is no op '", name, "'");
}

/// The memory of the node before it runs: a source's, or its own, filled as runners fill it.
Result<Bytes> memory_before(const OpCase& node) {
    if (node.result.view_of >= 0) {
        return node.source(node.source(node.result.view_of)->storage_of)->storage;
    }
    HEDDLE_TRY_ASSIGN(const std::size_t size, golden::end_of(node.result.layout));
    constexpr std::byte kUntouched{0x3C};
    return Bytes(size, kUntouched);
}

const Bytes& storage_of(const OpCase& node, const Source& source) {
    return node.source(source.storage_of)->storage;
}

/// Turns the memory of a node after it ran into what the case keeps of it.
void keep(const Bytes& memory, Recorded& result) {
    result.bytes = memory;
    const bool is_dense =
        result.layout.stride == dense_strides(result.layout.type, result.layout.extent);
    result.content = result.view_of >= 0 ? Recorded::Content::storage
                     : is_dense          ? Recorded::Content::elements
                                         : Recorded::Content::span;
}

// ---- blocks that are moved, not computed with --------------------------------------------------

/// Whether the op moves blocks of one format about: then they must come out bit for bit.
bool moves_blocks(Op op, const OpCase& node) {
    constexpr Op kMovers[] = {GGML_OP_DUP, GGML_OP_CPY, GGML_OP_CONT, GGML_OP_CONCAT};
    const Type type = node.result.layout.type;
    if (block_size(type) <= 1 || std::ranges::find(kMovers, op) == std::end(kMovers)) return false;
    return std::ranges::all_of(node.sources,
                               [&](const Source& source) { return source.layout.type == type; });
}

/// The layout with blocks as its elements, each a plain number of the same size.
Extents in_blocks(const Layout& layout) {
    Extents extent = layout.extent;
    extent[0] /= block_size(layout.type);
    return extent;
}

std::size_t block_offset(const Layout& layout, std::int64_t i0, std::int64_t i1, std::int64_t i2,
                         std::int64_t i3) {
    const Extents at{i0, i1, i2, i3};
    std::size_t offset = layout.offset;
    for (std::size_t d = 0; d < kMaxDims; ++d) {
        offset += static_cast<std::size_t>(at[d]) * layout.stride[d];
    }
    return offset;
}

/// Runs the definition on the numbers of the blocks, then moves the blocks themselves.
Result<> move_blocks(const Definition& definition, OpCase& node) {
    Operands operands{.params = node.params, .extent = in_blocks(node.result.layout)};
    std::vector<const std::byte*> blocks;
    for (const Source& source : node.sources) {
        if (source.storage_of == Source::kNodeItself) continue;
        const Layout& layout = source.layout;
        const Bytes& storage = storage_of(node, source);
        operands.sources[static_cast<std::size_t>(source.slot)] =
            make_values(in_blocks(layout),
                        [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
                            blocks.push_back(storage.data() + block_offset(layout, i0, i1, i2, i3));
                            return double(blocks.size() - 1);
                        });
    }
    HEDDLE_TRY_ASSIGN(Bytes memory, memory_before(node));
    const Values moved = definition.result(operands);
    const Layout& layout = node.result.layout;
    moved.for_each([&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
        const std::byte* from = blocks[static_cast<std::size_t>(moved(i0, i1, i2, i3))];
        std::copy_n(from, size_of(layout.type),
                    memory.data() + block_offset(layout, i0, i1, i2, i3));
    });
    keep(memory, node.result);
    return ok();
}

// ---- everything else ---------------------------------------------------------------------------

Result<Operands> read_operands(const OpCase& node, std::span<const std::byte> memory) {
    Operands operands{.params = node.params, .extent = node.result.layout.extent};
    for (const Source& source : node.sources) {
        if (source.storage_of == Source::kNodeItself) continue;
        const auto slot = static_cast<std::size_t>(source.slot);
        operands.types[slot] = source.layout.type;
        HEDDLE_TRY_ASSIGN(operands.sources[slot],
                          read_values(source.layout, storage_of(node, source)));
    }
    HEDDLE_TRY_ASSIGN(operands.before, read_values(node.result.layout, memory));
    return operands;
}

/// Blocks of rows that SET_ROWS does not address must stay as they are: encoding them again would
/// change them.
Result<> write_addressed_rows(const Operands& operands, const Values& result, const Layout& layout,
                              std::span<std::byte> memory) {
    const Values& indices = operands[1];
    const Values& rows = operands[0];
    for (std::int64_t i3 = 0; i3 < rows.extent(3); ++i3) {
        for (std::int64_t i2 = 0; i2 < rows.extent(2); ++i2) {
            for (std::int64_t i = 0; i < rows.extent(1); ++i) {
                const auto to = static_cast<std::int64_t>(
                    indices(i, i2 % indices.extent(1), i3 % indices.extent(2)));
                Layout one = layout;
                one.extent = {layout.extent[0], 1, 1, 1};
                one.offset = block_offset(layout, 0, to, i2, i3);
                const Values row = make_values(
                    one.extent, [&](std::int64_t i0, auto...) { return result(i0, to, i2, i3); });
                HEDDLE_TRY(write_values(row, one, memory));
            }
        }
    }
    return ok();
}

}  // namespace

const Definition* definition_of(Op op) {
    for (const auto& family :
         {elementwise_definitions(), reduce_definitions(), product_definitions(),
          attention_definitions(), movement_definitions(), maker_definitions(), image_definitions(),
          convolution_definitions(), recurrent_definitions(), training_definitions()}) {
        const auto found = std::ranges::find(family, op, &Definition::op);
        if (found != family.end()) return &*found;
    }
    return nullptr;
}

Result<> fill_expected(OpCase& node) {
    HEDDLE_TRY_ASSIGN(const Op op, op_named(node.op));
    const Definition* definition = definition_of(op);
    if (definition == nullptr) return failure(Errc::unsupported, node.op, " has no definition");
    if (moves_blocks(op, node)) return move_blocks(*definition, node);

    HEDDLE_TRY_ASSIGN(Bytes memory, memory_before(node));
    HEDDLE_TRY_ASSIGN(const Operands operands, read_operands(node, memory));
    const Values result = definition->result(operands);
    const Layout& layout = node.result.layout;
    if (op == GGML_OP_SET_ROWS) {
        HEDDLE_TRY(write_addressed_rows(operands, result, layout, memory));
    } else {
        HEDDLE_TRY(write_values(result, layout, memory));
    }
    keep(memory, node.result);
    for (const Definition::Change& change : definition->changes) {
        if (change.slot < 0) continue;
        const auto found = std::ranges::find(node.sources, change.slot, &Source::slot);
        if (found == node.sources.end()) continue;
        found->after = found->storage;
        HEDDLE_TRY(write_values(change.value(operands), found->layout, *found->after));
    }
    return ok();
}

}  // namespace heddle::tool::reference
