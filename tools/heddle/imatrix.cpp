#include <fmt/core.h>

#include <cmath>
#include <map>

#include "commands.hpp"
#include "console.hpp"
#include "ggml-cpp.h"
#include "ggml/op_list.h"
#include "gguf.h"
#include "interrupt.hpp"
#include "outcome.hpp"
#include "text_windows.hpp"

/// `heddle imatrix`: how much each column of a weight matters, for `heddle quantize`.
namespace heddle::tool {
namespace {

struct ImatrixOptions {
    ReadsText reads;
    std::string output;
};

/// Squares of what weights are multiplied with, summed up over all tokens: a column that meets
/// large numbers needs more care than one that meets small ones.
class Activations {
public:
    struct Sums {
        std::vector<double> squares;  ///< one for each column of the weight
        std::size_t tokens = 0;
    };

    /// From now on every product of the scheduler is looked at.
    explicit Activations(const Scheduler& scheduler) : scheduler_(scheduler) {
        ggml_backend_sched_set_eval_callback(scheduler_.c(), &Activations::look, this);
    }
    ~Activations() { ggml_backend_sched_set_eval_callback(scheduler_.c(), nullptr, nullptr); }
    Activations(const Activations&) = delete;
    Activations& operator=(const Activations&) = delete;

    const std::map<std::string, Sums>& sums() const { return sums_; }

private:
    /// Is asked before a node whether it matters, and told of it when it is computed.
    static bool look(ggml_tensor* node, bool ask, void* self) {
        const bool is_product = node->op == GGML_OP_MUL_MAT &&
                                std::string_view(node->src[0]->name).ends_with(".weight") &&
                                node->src[1]->type == GGML_TYPE_F32 &&
                                ggml_is_contiguous(node->src[1]);
        if (ask || !is_product) return is_product || !ask;
        static_cast<Activations*>(self)->add(node->src[0]->name, *node->src[1]);
        return true;
    }

    void add(const std::string& weight, const ggml_tensor& input) {
        const auto columns = static_cast<std::size_t>(input.ne[0]);
        values_.resize(static_cast<std::size_t>(ggml_nelements(&input)));
        ggml_backend_tensor_get(&input, values_.data(), 0, values_.size() * sizeof(float));
        Sums& sums = sums_[weight];
        sums.squares.resize(columns);
        for (std::size_t i = 0; i < values_.size(); ++i) {
            sums.squares[i % columns] += static_cast<double>(values_[i]) * values_[i];
        }
        sums.tokens += values_.size() / columns;
    }

    const Scheduler& scheduler_;
    std::map<std::string, Sums> sums_;
    std::vector<float> values_;
};

/// The file that `quantize --imatrix` reads, and other programs do.
Result<std::string> file_content(const std::map<std::string, Activations::Sums>& all,
                                 const ReadsText& reads, std::size_t windows, std::size_t size) {
    std::size_t bytes = 0;
    for (const auto& [weight, sums] : all) bytes += (sums.squares.size() + 64) * sizeof(float);
    const ggml_context_ptr context(
        ggml_init({.mem_size = bytes + 2 * all.size() * (ggml_tensor_overhead() + 64),
                   .mem_buffer = nullptr,
                   .no_alloc = false}));
    const gguf_context_ptr file(gguf_init_empty());
    const char* text = reads.text.c_str();
    gguf_set_val_str(file.get(), "general.type", "imatrix");
    gguf_set_arr_str(file.get(), "imatrix.datasets", &text, 1);
    gguf_set_val_u32(file.get(), "imatrix.chunk_count", static_cast<std::uint32_t>(windows));
    gguf_set_val_u32(file.get(), "imatrix.chunk_size", static_cast<std::uint32_t>(size));
    std::vector<const ggml_tensor*> tensors;
    const auto add = [&](const std::string& name, std::size_t count) {
        ggml_tensor* const made =
            ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, static_cast<std::int64_t>(count), 1);
        ggml_set_name(made, name.c_str());
        gguf_add_tensor(file.get(), made);
        tensors.push_back(made);
        return static_cast<float*>(made->data);
    };
    for (const auto& [weight, sums] : all) {
        float* const squares = add(weight + ".in_sum2", sums.squares.size());
        for (std::size_t i = 0; i < sums.squares.size(); ++i) {
            squares[i] = static_cast<float>(sums.squares[i]);
            if (std::isfinite(squares[i])) continue;
            return failure(Errc::corrupt, "column ", i, " of '", weight,
                           "' is multiplied with values that are not finite");
        }
        *add(weight + ".counts", 1) = static_cast<float>(sums.tokens);
    }
    std::string content(gguf_get_meta_size(file.get()), '\0');
    gguf_get_meta_data(file.get(), content.data());
    const std::size_t head = content.size();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        content.resize(head + gguf_get_tensor_offset(file.get(), static_cast<std::int64_t>(i)));
        content.append(static_cast<const char*>(tensors[i]->data), ggml_nbytes(tensors[i]));
    }
    content.resize(head + GGML_PAD(content.size() - head, gguf_get_alignment(file.get())));
    return content;
}

Result<> write_importance(const ImatrixOptions& options) {
    expect_files_cut_short();
    HEDDLE_TRY(check_output_files({options.output}));
    HEDDLE_TRY_ASSIGN(const auto generator, options.reads.load());
    HEDDLE_TRY_ASSIGN(TextWindows windows, TextWindows::of(*generator, options.reads));
    const Activations activations(generator->scheduler());
    HEDDLE_TRY_ASSIGN(const std::size_t done,
                      windows.read_all([](auto&&...) { return ok(); }, [] { return ""; }));
    if (done > 0) {
        HEDDLE_TRY_ASSIGN(const std::string content,
                          file_content(activations.sums(), options.reads, done, windows.size()));
        HEDDLE_TRY(write_file(options.output, content));
        const std::string line = fmt::format(
            "{}: importance of {} weights from {} {} of {} tokens\n", options.output,
            activations.sums().size(), done, done == 1 ? "window" : "windows", windows.size());
        is_standard_output(options.output) ? print_beside(line) : print_result(line);
    }
    if (!take_interrupt()) return ok();
    print_note(fmt::format("[stopped by Ctrl-C after {} of {} windows]", done, windows.count()));
    end_by_interrupt();
}

}  // namespace

void add_imatrix(CLI::App& app, int& status) {
    auto options = std::make_shared<ImatrixOptions>();
    CLI::App* command = app.add_subcommand(
        "imatrix", "Write which weights matter for a text, for quantize --imatrix");
    options->reads.add_options(*command);
    command->add_option("output", options->output, "GGUF file to write")
        ->type_name("FILE")
        ->required();
    command->callback(
        [options, &status] { status = report_outcome("imatrix", write_importance(*options)); });
}

}  // namespace heddle::tool
