#include "verify_model.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "console.hpp"
#include "ggml-impl.h"
#include "model/generator.hpp"
#include "verify_text.hpp"

/// `heddle verify MODEL`: a model's graph on two devices, node by node.
namespace heddle::tool {
namespace {

using GraphCopy = struct ggml_backend_graph_copy;  // there is a function of this name

/// The graph with all its tensors in memory of one device, each in a place of its own.
class Side {
public:
    static Result<Side> make(const std::string& name, const Graph& graph) {
        HEDDLE_TRY_ASSIGN(const Device device, Device::find(name));
        HEDDLE_TRY_ASSIGN(Stream stream, device.start());
        const GraphCopy copied =
            detail::call([&] { return ggml_backend_graph_copy(stream.c(), graph.c()); });
        if (copied.graph == nullptr) {
            return detail::last_failure(Errc::out_of_memory, "the graph cannot be copied")
                .within(device.name());
        }
        HEDDLE_TRY_ASSIGN(Context single, Context::make(4));
        return Side(device, std::move(stream), copied, std::move(single));
    }
    Side(Side&& other) noexcept
        : device_(other.device_),
          stream_(std::move(other.stream_)),
          copy_(std::exchange(other.copy_, {})),
          single_(std::move(other.single_)) {}
    Side& operator=(Side&&) = delete;
    ~Side() { ggml_backend_graph_copy_free(copy_); }

    std::string name() const { return device_.name(); }
    ggml_tensor* node(int i) const { return ggml_graph_node(copy_.graph, i); }
    bool can(int i) const { return ggml_backend_supports_op(stream_.c(), node(i)); }

    Result<> compute(int i) {
        ggml_reset(single_.c());
        ggml_cgraph* one =
            detail::call([&] { return ggml_new_graph_custom(single_.c(), 1, false); });
        if (one == nullptr) return detail::last_failure(Errc::out_of_memory, "no room for a graph");
        ggml_graph_add_node(one, node(i));
        const ggml_status status =
            detail::call([&] { return ggml_backend_graph_compute(stream_.c(), one); });
        if (status == GGML_STATUS_SUCCESS) return ok();
        return detail::last_failure(Errc::device, ggml_status_to_string(status))
            .within(name() + ", node " + std::to_string(i) + " '" + node(i)->name + "'");
    }

private:
    Side(const Device& device, Stream stream, const GraphCopy& copied, Context single)
        : device_(device), stream_(std::move(stream)), copy_(copied), single_(std::move(single)) {}

    Device device_;
    Stream stream_;
    GraphCopy copy_;
    Context single_;  ///< of graphs of one node
};

/// How a node went.
struct Finding {
    int index;
    std::string name, op, shape;
    std::string declined_by;  ///< nothing was compared, then
    double error = 0;         ///< NaN if there are numbers where the other has none
};

Result<std::vector<float>> values_of(const ggml_tensor& tensor) {
    std::vector<std::byte> bytes(ggml_nbytes(&tensor));
    detail::call([&] {
        ggml_backend_tensor_get(&tensor, bytes.data(), 0, bytes.size());
        return 0;
    });
    HEDDLE_TRY(detail::check_said(Errc::device));
    std::vector<float> values(static_cast<std::size_t>(ggml_nelements(&tensor)));
    const std::int64_t width = tensor.ne[0], rows = ggml_nrows(&tensor);
    const std::size_t row_size = ggml_row_size(tensor.type, width);
    const auto to_float = ggml_get_type_traits(tensor.type)->to_float;
    if (!ggml_is_contiguous(&tensor) || (to_float == nullptr && tensor.type != GGML_TYPE_F32)) {
        return failure(Errc::unsupported, "'", tensor.name, "' of the type ",
                       ggml_type_name(tensor.type), " cannot be compared");
    }
    for (std::int64_t row = 0; row < rows; ++row) {
        const std::byte* from = bytes.data() + static_cast<std::size_t>(row) * row_size;
        float* to = values.data() + row * width;
        if (tensor.type == GGML_TYPE_F32) {
            std::memcpy(to, from, row_size);
        } else {
            to_float(from, to, width);
        }
    }
    return values;
}

/// Sum of squared differences, as a share of the squares of what is right.
double error_of(const std::vector<float>& values, const std::vector<float>& right) {
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] == right[i] || (std::isnan(values[i]) && std::isnan(right[i]))) {
            size += std::isfinite(right[i]) ? double{right[i]} * right[i] : 0;
            continue;
        }
        const double apart = double{values[i]} - right[i];
        difference += apart * apart;
        size += double{right[i]} * right[i];
    }
    if (difference == 0) return 0;
    const double error = size > 0 ? difference / size : difference;
    return std::isfinite(error) ? error : std::nan("");
}

bool is_past(const Finding& finding, double tolerance) {
    return finding.declined_by.empty() && !(finding.error <= tolerance);
}

bool computes_nothing(const ggml_tensor& node) {
    return ggml_is_empty(&node) || ggml_op_is_empty(node.op);
}

std::string shape_text(const ggml_tensor& tensor) {
    std::string text;
    for (int i = 0; i < ggml_n_dims(&tensor); ++i) {
        text += (i == 0 ? "" : " x ") + std::to_string(tensor.ne[i]);
    }
    return text;
}

void announce(const ModelCheck& check, const std::string& step) {
    if (check.on_step) check.on_step(step);
}

/// The result of one side becomes that of the other too.
Result<> hand_over(ggml_tensor* from, ggml_tensor* to) {
    detail::call([&] {
        ggml_backend_tensor_copy(from, to);
        return 0;
    });
    return detail::check_said(Errc::device);
}

Result<std::vector<Finding>> compare(Side& tested, Side& trusted, int nodes,
                                     const ModelCheck& check) {
    std::vector<Finding> findings;
    Progress progress("comparing", static_cast<std::size_t>(nodes));
    for (int i = 0; i < nodes; ++i) {
        ggml_tensor *const mine = tested.node(i), *const right = trusted.node(i);
        progress.step(mine->name);
        if (computes_nothing(*mine)) continue;
        Finding finding{i, mine->name, ggml_op_desc(mine), shape_text(*mine), {}};
        const std::string step = text("node ", i, " '", mine->name, "' (", finding.op, ") on ");
        announce(check, step + tested.name());
        const bool can = tested.can(i), other_can = trusted.can(i);
        if (!can && !other_can) {
            return failure(Errc::unsupported, "neither ", tested.name(), " nor ", trusted.name(),
                           " computes node ", i, " '", mine->name, "' (", finding.op, ")");
        }
        if (can) HEDDLE_TRY(tested.compute(i));
        announce(check, step + trusted.name());
        if (other_can) HEDDLE_TRY(trusted.compute(i));
        if (can && other_can) {
            HEDDLE_TRY_ASSIGN(const auto values, values_of(*mine));
            HEDDLE_TRY_ASSIGN(const auto expected, values_of(*right));
            finding.error = error_of(values, expected);
        } else {
            finding.declined_by = can ? trusted.name() : tested.name();
        }
        // The next nodes begin with the same numbers, so that only their own errors are seen.
        if (!other_can) {
            HEDDLE_TRY(hand_over(mine, right));
        } else if (!can || !check.drift) {
            HEDDLE_TRY(hand_over(right, mine));
        }
        findings.push_back(std::move(finding));
    }
    return findings;
}

/// The graph of a prompt in memory of the host, inputs written.
struct Prompt {
    ModelFile file;
    std::unique_ptr<Llama> model;
    Generator::Prepared prepared;
    std::vector<Buffer> memory;
};

Result<> write_inputs(const Llama::Batch& batch, const std::vector<Token>& tokens) {
    const auto count = static_cast<std::int64_t>(tokens.size());
    std::vector<std::int32_t> positions;
    std::vector<std::int64_t> rows;
    std::vector<ggml_fp16_t> mask;
    for (std::int64_t i = 0; i < count; ++i) {
        positions.push_back(static_cast<std::int32_t>(i));
        rows.push_back(i);
        for (std::int64_t j = 0; j < count; ++j) {
            mask.push_back(ggml_fp32_to_fp16(j <= i ? 0.0f : -INFINITY));
        }
    }
    HEDDLE_TRY(write(batch.tokens, tokens));
    HEDDLE_TRY(write(batch.positions, positions));
    HEDDLE_TRY(write(batch.rows, rows));
    return write(batch.mask, mask);
}

Result<Prompt> prepare(const ModelCheck& check) {
    HEDDLE_TRY_ASSIGN(ModelFile file, ModelFile::open(check.model));
    HEDDLE_TRY_ASSIGN(const auto tokenizer, Tokenizer::of(file));
    if (check.prompts.size() != 1) {
        return invalid(
            check.prompts.size(),
            " prompts, but the nodes of one graph are compared; --tokens compares texts");
    }
    const std::vector<Token> tokens = tokenizer->encode(check.prompts.front(), true, false);
    if (tokens.empty()) return invalid("the prompt is empty; give one with --prompt");
    const auto count = static_cast<std::int64_t>(tokens.size());
    HEDDLE_TRY_ASSIGN(auto model,
                      Llama::load(file, {.rooms = {}, .context = count, .on_tensor = {}}));
    if (std::ranges::max(tokens) >= model->shape().words) {
        return failure(Errc::corrupt, check.model, ": token ", std::ranges::max(tokens),
                       ", but embeddings for ", model->shape().words);
    }
    HEDDLE_TRY_ASSIGN(auto prepared, Generator::describe(*model, count, count));
    HEDDLE_TRY_ASSIGN(const Device cpu, Device::cpu());
    HEDDLE_TRY_ASSIGN(Buffer memory, Buffer::for_all(prepared.context, cpu));
    HEDDLE_TRY(write_inputs(prepared.batch, tokens));
    Prompt prompt{std::move(file), std::move(model), std::move(prepared), {}};
    prompt.memory.push_back(std::move(memory));
    return prompt;
}

void print_table(const std::vector<Finding>& findings, const ModelCheck& check) {
    std::vector<const Finding*> worst;
    for (const Finding& finding : findings) {
        if (finding.declined_by.empty() && finding.error != 0) worst.push_back(&finding);
    }
    if (worst.empty()) return;
    // NaN is worse than everything.
    const auto badness = [](const Finding* f) {
        return std::isnan(f->error) ? INFINITY : f->error;
    };
    std::ranges::stable_sort(worst, std::ranges::greater(), badness);
    worst.resize(std::min(worst.size(), check.shown));
    Table table({"node", "name", "op", "shape", "error"});
    for (const std::size_t column : {1, 2, 3}) table.align_left(column);
    for (const Finding* finding : worst) {
        table.add({std::to_string(finding->index), finding->name, finding->op, finding->shape,
                   fmt::format("{:.2e}", finding->error)},
                  is_past(*finding, check.tolerance) ? Colour::red : Colour::plain);
    }
    table.print();
    print("\n");
}

void print_json(const std::vector<Finding>& findings, const ModelCheck& check, const Side& tested,
                const Side& trusted, const Finding* first) {
    nlohmann::json nodes = nlohmann::json::array();
    for (const Finding& finding : findings) {
        nlohmann::json node{{"index", finding.index},
                            {"name", finding.name},
                            {"op", finding.op},
                            {"shape", finding.shape}};
        if (finding.declined_by.empty()) {
            node["error"] = finding.error;  // null for NaN
        } else {
            node["declined_by"] = finding.declined_by;
        }
        nodes.push_back(std::move(node));
    }
    nlohmann::json all{{"model", check.model},       {"on", tested.name()},
                       {"against", trusted.name()},  {"tolerance", check.tolerance},
                       {"drift", check.drift},       {"nodes", nodes},
                       {"passed", first == nullptr}, {"first_past_tolerance", nullptr}};
    if (first != nullptr) all["first_past_tolerance"] = first->index;
    print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

Result<bool> verify_model(const ModelCheck& check) {
    if (check.tokens > 0) return verify_text(check);
    HEDDLE_TRY_ASSIGN(const Prompt prompt, prepare(check));
    const Graph& graph = prompt.prepared.graph;
    announce(check, "copying the graph to " + check.on);
    HEDDLE_TRY_ASSIGN(Side tested, Side::make(check.on, graph));
    announce(check, "copying the graph to " + check.against);
    HEDDLE_TRY_ASSIGN(Side trusted, Side::make(check.against, graph));
    announce(check, "");
    HEDDLE_TRY_ASSIGN(const auto findings, compare(tested, trusted, graph.nodes(), check));
    const auto past = std::ranges::find_if(
        findings, [&](const Finding& finding) { return is_past(finding, check.tolerance); });
    const Finding* const first = past == findings.end() ? nullptr : &*past;
    const auto declined = std::ranges::count_if(
        findings, [](const Finding& finding) { return !finding.declined_by.empty(); });
    const auto compared = findings.size() - static_cast<std::size_t>(declined);
    if (compared == 0) {
        return failure(Errc::unsupported, "nothing to compare: ", findings.front().declined_by,
                       " declines all ", declined, " nodes; it may take some of a longer --prompt");
    }
    if (check.json) {
        print_json(findings, check, tested, trusted, first);
        return first == nullptr;
    }
    print_table(findings, check);
    print("{} nodes compared on {} and {}, {} declined by one of them; ", compared, tested.name(),
          trusted.name(), declined);
    const bool equal = std::ranges::all_of(findings, [](const Finding& f) { return f.error == 0; });
    if (equal) {
        print("all results are equal\n");
    } else if (first == nullptr) {
        print("all within {:.1e}\n", check.tolerance);
    } else {
        print("{}\n", coloured(fmt::format("the first past {:.1e} is node {} '{}' ({}): {:.2e}",
                                           check.tolerance, first->index, first->name, first->op,
                                           first->error),
                               Colour::red));
    }
    return first == nullptr;
}

}  // namespace heddle::tool
