#include "side.hpp"

#include <sstream>

#include "ggml-cpu.h"
#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "runtime/objects.hpp"

namespace heddle::fuzz {
namespace {

constexpr std::size_t kTensors = 2048;    // of a graph, at most
constexpr std::int64_t kLargest = 16384;  // elements of a value

OwnedContext make_context(std::size_t extra) {
    return OwnedContext(ggml_init({.mem_size = kTensors * ggml_tensor_overhead() + extra,
                                   .mem_buffer = nullptr,
                                   .no_alloc = true}));
}

bool is_kept(Leaf::Kind kind) {
    return kind == Leaf::Kind::weight || kind == Leaf::Kind::state || kind == Leaf::Kind::given;
}

Tensor* new_leaf(ggml_context* context, const Leaf& leaf, int size, const std::string& name) {
    Tensor* made = ggml_new_tensor(context, leaf.type, 3, extent_in(leaf, size).data());
    ggml_set_name(made, name.c_str());
    if (leaf.kind == Leaf::Kind::input || leaf.kind == Leaf::Kind::ids ||
        leaf.kind == Leaf::Kind::given) {
        ggml_set_input(made);
    }
    return made;
}

/// Whether the processor can run what was made of the operands: then there is always somebody.
bool can_run(const Tensor& made, std::span<Tensor* const> operands) {
    for (const Tensor* operand : operands) {
        if (operand == &made) return true;
    }
    if (made.op == GGML_OP_NONE) return true;
    ggml_backend_dev_t processor = ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0);
    if (!ggml_backend_dev_supports_op(processor, &made)) return false;
    for (const Tensor* source : made.src) {
        if (source != nullptr && source != &made && !can_run(*source, operands)) return false;
    }
    return true;
}

/// Blocks of random values of a type. Some formats are slow to encode, so that is done once.
std::span<const std::byte> blocks_of(Type type) {
    static std::map<Type, std::vector<std::byte>> known;
    std::vector<std::byte>& blocks = known[type];
    if (!blocks.empty()) return blocks;
    constexpr std::int64_t kWidth = 256, kRows = 16;
    std::vector<float> numbers(kWidth * kRows), importance(kWidth, 1.0F);
    Dice dice(static_cast<std::uint64_t>(type));
    for (float& number : numbers) number = dice.number(-1, 1);
    blocks.resize(ggml_row_size(type, kWidth) * kRows);
    ggml_quantize_chunk(type, numbers.data(), blocks.data(), 0, kRows, kWidth, importance.data());
    return blocks;
}

/// As many of them as the tensor has, from any of them on.
std::vector<std::byte> encoded_values(const Tensor& tensor, Dice& dice) {
    const auto blocks = blocks_of(tensor.type);
    const std::size_t size = ggml_type_size(tensor.type), count = blocks.size() / size;
    std::vector<std::byte> encoded(ggml_nbytes(&tensor));
    std::size_t at = dice.next() % count;
    for (std::size_t i = 0; i + size <= encoded.size(); i += size, at = (at + 1) % count) {
        std::copy_n(blocks.data() + at * size, size, encoded.data() + i);
    }
    return encoded;
}

/// Numbers for a leaf, in its type.
void fill(Tensor* tensor, const Leaf& leaf, std::uint32_t seed) {
    Dice dice((std::uint64_t{seed} << 32) + leaf.seed);
    const auto count = static_cast<std::size_t>(ggml_nelements(tensor));
    if (leaf.kind == Leaf::Kind::ids) {
        std::vector<std::int32_t> ids(count);
        for (std::int32_t& id : ids) id = dice.below(kIds);
        ggml_backend_tensor_set(tensor, ids.data(), 0, ggml_nbytes(tensor));
        return;
    }
    if (tensor->type == GGML_TYPE_F32) {
        std::vector<float> numbers(count);
        for (float& number : numbers) number = dice.number(-1, 1);
        ggml_backend_tensor_set(tensor, numbers.data(), 0, ggml_nbytes(tensor));
        return;
    }
    const auto encoded = encoded_values(*tensor, dice);
    ggml_backend_tensor_set(tensor, encoded.data(), 0, encoded.size());
}

}  // namespace

Side::Side(const Case& which, std::function<ggml_backend_buffer_type_t(int)> memory)
    : case_(which), memory_(std::move(memory)), context_(make_context(0)) {
    for (std::size_t g = 0; g < which.graphs.size(); ++g) {
        const auto& leafs = which.graphs[g].leafs;
        for (std::size_t i = 0; i < leafs.size(); ++i) {
            if (!is_kept(leafs[i].kind)) continue;
            const Place place(static_cast<int>(g), static_cast<int>(i));
            Tensor* made = new_leaf(context_.get(), leafs[i], 0, text("k", g, ".", i));
            OwnedBuffer buffer(ggml_backend_buft_alloc_buffer(
                memory_(leafs[i].device),
                ggml_backend_buft_get_alloc_size(memory_(leafs[i].device), made)));
            if (buffer == nullptr) continue;
            ggml_backend_tensor_alloc(buffer.get(), made,
                                      ggml_backend_buffer_get_base(buffer.get()));
            if (leafs[i].kind == Leaf::Kind::weight) {
                ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
            }
            buffers_.push_back(std::move(buffer));
            fill(made, leafs[i], 0);
            kept_[place] = made;
        }
    }
}

std::vector<Tensor*> Side::kept(int graph) const {
    std::vector<Tensor*> tensors;
    for (const auto& [place, tensor] : kept_) {
        if (place.first == graph) tensors.push_back(tensor);
    }
    return tensors;
}

std::unique_ptr<Build> Side::build(int graph, int size) {
    const Recipe& recipe = case_.graphs[static_cast<std::size_t>(graph)];
    auto made = std::make_unique<Build>();
    made->size = size;
    made->context = make_context(ggml_graph_overhead_custom(kTensors, false));
    ggml_context* context = made->context.get();
    made->graph = ggml_new_graph_custom(context, kTensors, false);
    if (made->graph == nullptr) return nullptr;

    std::vector<Tensor*> values;
    for (std::size_t i = 0; i < recipe.leafs.size(); ++i) {
        const Leaf& leaf = recipe.leafs[i];
        const auto found = kept_.find({graph, static_cast<int>(i)});
        Tensor* tensor =
            found != kept_.end() ? found->second : new_leaf(context, leaf, size, text("x", i));
        const bool stays = leaf.kind == Leaf::Kind::weight || leaf.kind == Leaf::Kind::state;
        if (!stays) made->fresh.emplace_back(&leaf, tensor);
        values.push_back(tensor);
    }
    for (std::size_t i = 0; i < recipe.steps.size(); ++i) {
        values.push_back(take_step(graph, static_cast<int>(i), values, *made));
    }
    for (int i = 0; i < made->graph->n_nodes; ++i) {
        Tensor* node = made->graph->nodes[i];
        if (node->name[0] == '\0') ggml_set_name(node, text("n", i).c_str());
    }
    return made;
}

/// The value that comes of a step, which is in the graph then.
Tensor* Side::take_step(int graph, int number, std::span<Tensor* const> values, Build& build) {
    const Step& step =
        case_.graphs[static_cast<std::size_t>(graph)].steps[static_cast<std::size_t>(number)];
    ggml_context* context = build.context.get();
    std::array<Tensor*, 3> operands{};
    for (std::size_t i = 0; i < operands.size(); ++i) {
        operands[i] = values[static_cast<std::size_t>(step.operands[i])];
    }
    Tensor* first = operands[0];
    Tensor* made = nullptr;
    const OpRule& rule = ops()[static_cast<std::size_t>(step.op)];
    // What another library computes differs in the last bits.
    if (!step.is_dropped && !(rule.jumps && case_.rounds)) {
        Dice dice(step.seed + (rule.slides ? static_cast<std::uint32_t>(build.size) : 0U));
        made = rule.build(context, operands, dice);
    }
    const bool fits = made != nullptr && made != first && ggml_nelements(made) <= kLargest &&
                      can_run(*made, operands);
    if (!fits) made = first;
    if (fits) {
        ggml_set_name(made, text("t", number, ".", rule.name).c_str());
        if (step.memory >= kHost && made->view_src == nullptr && made->op != GGML_OP_NONE) {
            give_memory(made, memory_(step.memory), {graph, number});
        }
        if (step.pin >= kHost && made->op != GGML_OP_NONE) build.pinned.emplace_back(&step, made);
    }
    if (step.is_output && made->op != GGML_OP_NONE) {
        // Only what has memory of its own can be kept for the caller.
        Tensor* output = made->view_src != nullptr || made->buffer != nullptr || !fits
                             ? ggml_cont(context, made)
                             : made;
        if (output != nullptr) {
            ggml_set_output(output);
            build.outputs.push_back(output);
            ggml_build_forward_expand(build.graph, output);
        }
    }
    if (made->op != GGML_OP_NONE) ggml_build_forward_expand(build.graph, made);
    return made;
}

/// The result of a step lies in the same memory in every build, unless it outgrows that.
void Side::give_memory(Tensor* tensor, ggml_backend_buffer_type_t type, Place place) {
    ggml_backend_buffer_t& buffer = places_of_steps_[place];
    const std::size_t size = ggml_backend_buft_get_alloc_size(type, tensor);
    if (buffer == nullptr || ggml_backend_buffer_get_size(buffer) < size) {
        buffers_.emplace_back(ggml_backend_buft_alloc_buffer(type, size));
        buffer = buffers_.back().get();
    }
    if (buffer != nullptr) {
        ggml_backend_tensor_alloc(buffer, tensor, ggml_backend_buffer_get_base(buffer));
    }
}

void Side::fill_inputs(Build& build, std::uint32_t seed, bool all) {
    for (const auto& [leaf, tensor] : build.fresh) {
        // The caller does not know when a device has read what is in memory of its own.
        if (leaf->kind == Leaf::Kind::given && leaf->device != kHost && !all) continue;
        // Not in the graph: no memory.
        if (tensor->buffer == nullptr) continue;
        fill(tensor, *leaf, seed);
    }
}

void Side::restore(int graph, const Side& other) {
    const auto here = kept(graph), there = other.kept(graph);
    for (std::size_t i = 0; i < here.size(); ++i) {
        const auto bytes = bytes_of(*there[i]);
        ggml_backend_tensor_set(here[i], bytes.data(), 0, bytes.size());
    }
}

void Side::fill_weights(int graph, std::uint32_t seed) {
    Dice dice(seed);
    for (const auto& [place, tensor] : kept_) {
        const Leaf& leaf = case_.graphs[static_cast<std::size_t>(place.first)]
                               .leafs[static_cast<std::size_t>(place.second)];
        if (place.first != graph || leaf.kind != Leaf::Kind::weight || dice.one_in(2)) continue;
        fill(tensor, leaf, seed);
    }
}

std::vector<std::byte> bytes_of(const Tensor& tensor) {
    std::vector<std::byte> bytes(ggml_nbytes(&tensor));
    ggml_backend_tensor_get(&tensor, bytes.data(), 0, bytes.size());
    return bytes;
}

std::string to_text(const Graph& graph) {
    std::ostringstream out;
    const auto describe_memory = [](const Tensor& tensor) -> std::string {
        if (tensor.buffer == nullptr) return "";
        const bool weight = tensor.buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
        return std::string(weight ? ", weight in " : ", in ") +
               ggml_backend_buffer_name(tensor.buffer);
    };
    for (const Tensor* leaf : leafs_of(graph)) {
        out << "  " << describe(*leaf)
            << ((leaf->flags & GGML_TENSOR_FLAG_INPUT) != 0 ? ", input" : "")
            << describe_memory(*leaf) << '\n';
    }
    for (const Tensor* node : nodes_of(graph)) {
        out << "  " << describe(*node) << " = " << ggml_op_desc(node) << '(';
        for (int i = 0; i < GGML_MAX_SRC && node->src[i] != nullptr; ++i) {
            out << (i > 0 ? ", " : "") << node->src[i]->name;
        }
        out << ')';
        if (node->view_src != nullptr) {
            out << ", view of " << node->view_src->name << " at " << node->view_offs;
        }
        out << ((node->flags & GGML_TENSOR_FLAG_OUTPUT) != 0 ? ", output" : "");
        if (node->view_src == nullptr) out << describe_memory(*node);
        out << '\n';
    }
    return std::move(out).str();
}

}  // namespace heddle::fuzz
