#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "commands.hpp"
#include "console.hpp"
#include "heddle/heddle.hpp"
#include "number_checks.hpp"
#include "outcome.hpp"
#include "shared_options.hpp"
#include "team.hpp"
#include "weight_types.hpp"

/// `heddle quantize`: a model with smaller weights.
namespace heddle::tool {
namespace {

struct QuantizeOptions {
    std::string input, output, type, importance, embedding_type, output_type;
    int threads = 0;
    bool keep_output = false;
};

/// How much each column of a weight matters, by name of the weight.
using Importance = std::unordered_map<std::string, std::vector<float>>;

/// Whether its values can be had as f32. Whole numbers and f64 are no weights of a layer, whatever
/// their name.
bool is_readable(ggml_type type) {
    return type == GGML_TYPE_F32 || ggml_get_type_traits(type)->to_float != nullptr;
}

std::vector<ggml_type> readable_types() {
    std::vector<ggml_type> types;
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<ggml_type>(i);
        const char* const name = ggml_type_name(type);
        if (name != nullptr && *name != '\0' && is_readable(type)) types.push_back(type);
    }
    return types;
}

/// Reads sums of squares and counts, as tools that run a model over text write them.
Result<Importance> read_importance(const std::string& path) {
    HEDDLE_TRY_ASSIGN(const ModelFile file, ModelFile::open(path));
    Importance importance;
    const std::string suffix = ".in_sum2";
    for (ggml_tensor* t = ggml_get_first_tensor(file.tensors()); t != nullptr;
         t = ggml_get_next_tensor(file.tensors(), t)) {
        const std::string name = t->name;
        if (!name.ends_with(suffix)) continue;
        const std::string weight = name.substr(0, name.size() - suffix.size());
        const ggml_tensor* counts = file.find(weight + ".counts");
        if (counts == nullptr || t->type != GGML_TYPE_F32 || counts->type != GGML_TYPE_F32 ||
            ggml_nelements(counts) != t->ne[1]) {
            return failure(Errc::corrupt, path, ": '", name, "' and its counts do not fit");
        }
        const auto* sums = reinterpret_cast<const float*>(file.data_of(*t));
        const auto* seen = reinterpret_cast<const float*>(file.data_of(*counts));
        std::vector<float>& values = importance[weight];
        for (std::int64_t row = 0; row < t->ne[1]; ++row) {
            for (std::int64_t i = 0; i < t->ne[0]; ++i) {
                const float sum = sums[row * t->ne[0] + i];
                values.push_back(seen[row] > 0 ? sum / seen[row] : 1.0f);
            }
        }
    }
    if (importance.empty()) return failure(Errc::corrupt, path, ": has no importance of weights");
    return importance;
}

bool is_weight_matrix(const ggml_tensor& tensor) {
    return ggml_n_dims(&tensor) >= 2 && std::string_view(tensor.name).ends_with("weight");
}

/// What the new weights are to be.
struct Wanted {
    WeightTypes types;
    ggml_type embedding, output;
    std::int64_t layers = 0;
    bool keeps_output = false;

    static Result<Wanted> of(const QuantizeOptions& options, const ModelFile& file) {
        const std::vector<ggml_type> known = readable_types();
        HEDDLE_TRY_ASSIGN(const WeightTypes types, WeightTypes::find(options.type, known));
        const std::int64_t layers = layers_of(file);
        const bool is_tied = file.find("output.weight") == nullptr;  // the embedding is the output
        Wanted wanted{types, types.of(is_tied ? "output.weight" : "token_embd.weight", layers),
                      types.of("output.weight", layers), layers, options.keep_output};
        if (!options.embedding_type.empty()) {
            HEDDLE_TRY_ASSIGN(wanted.embedding, type_named(options.embedding_type, known));
        }
        if (!options.output_type.empty()) {
            HEDDLE_TRY_ASSIGN(wanted.output, type_named(options.output_type, known));
        }
        return wanted;
    }

private:
    /// As many as there are numbers of blocks in names of tensors.
    static std::int64_t layers_of(const ModelFile& file) {
        std::int64_t layers = 0;
        while (file.find("blk." + std::to_string(layers) + ".attn_v.weight") != nullptr) ++layers;
        return layers;
    }
};

/// The type a tensor becomes: only matrices of weights whose rows are whole blocks change.
ggml_type type_for(const ggml_tensor& tensor, const Wanted& wanted) {
    const std::string name = tensor.name;
    if (!is_weight_matrix(tensor) || !is_readable(tensor.type)) return tensor.type;
    ggml_type type = wanted.types.of(name, wanted.layers);
    if (name == "token_embd.weight") type = wanted.embedding;
    if (name == "output.weight") type = wanted.keeps_output ? tensor.type : wanted.output;
    if (tensor.ne[0] % ggml_blck_size(type) == 0) return type;
    return tensor.ne[0] % ggml_blck_size(GGML_TYPE_Q8_0) == 0 ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
}

/// A tensor of the file, and what becomes of it.
struct Job {
    const ggml_tensor* tensor;
    ggml_type to;
    const std::vector<float>* importance;  ///< null: all columns matter alike

    bool changes() const { return to != tensor->type; }
};

/// Encodes rows [begin, end). False if the encoder refuses.
bool convert_rows(const Job& job, const std::byte* data, std::int64_t begin, std::int64_t end,
                  std::vector<float>& values, std::byte* out) {
    const std::int64_t width = job.tensor->ne[0];
    const std::size_t row_size = ggml_row_size(job.tensor->type, width),
                      out_size = ggml_row_size(job.to, width);
    for (std::int64_t row = begin; row < end; ++row) {
        const std::byte* source = data + static_cast<std::size_t>(row) * row_size;
        if (job.tensor->type == GGML_TYPE_F32) {
            std::memcpy(values.data(), source, row_size);
        } else {
            ggml_get_type_traits(job.tensor->type)->to_float(source, values.data(), width);
        }
        const float* weights = nullptr;
        if (job.importance != nullptr) {
            // Experts have rows of importance of their own.
            weights = job.importance->data() + row / job.tensor->ne[1] * width;
        }
        std::byte* target = out + static_cast<std::size_t>(row) * out_size;
        if (ggml_quantize_chunk(job.to, values.data(), target, 0, 1, width, weights) != out_size) {
            return false;
        }
    }
    return true;
}

/// Rows of a tensor of the file, from one type to the other. `out` is used again for the next.
Result<> convert(const Job& job, const std::byte* data, int threads, std::vector<std::byte>& out) {
    constexpr std::int64_t kRows = 16;
    const std::int64_t rows = ggml_nrows(job.tensor), width = job.tensor->ne[0];
    out.resize(static_cast<std::size_t>(rows) * ggml_row_size(job.to, width));
    ggml_quantize_init(job.to);
    std::atomic<std::int64_t> next{0};
    std::mutex lock;
    std::string reason;  // of the first failure
    std::atomic<bool> failed{false};
    const auto work = [&] {
        std::vector<float> values(static_cast<std::size_t>(width));
        for (std::int64_t begin; !failed && (begin = next.fetch_add(kRows)) < rows;) {
            const std::int64_t end = std::min(begin + kRows, rows);
            if (convert_rows(job, data, begin, end, values, out.data())) continue;
            const std::lock_guard guard(lock);
            if (!failed.exchange(true)) reason = heddle_last_error();  // of this thread
        }
    };
    const auto most = static_cast<std::int64_t>(threads);
    run_on_threads(static_cast<int>(std::min(most, (rows + kRows - 1) / kRows)), work);
    if (!failed) return ok();
    return failure(Errc::unsupported, "'", job.tensor->name, "' cannot become ",
                   ggml_type_name(job.to), ": ", reason);
}

Result<const std::vector<float>*> importance_of(const ggml_tensor& tensor,
                                                const Importance& importance, ggml_type to) {
    const auto found = importance.find(tensor.name);
    if (found == importance.end()) {
        if (ggml_quantize_requires_imatrix(to)) {
            return invalid("'", tensor.name, "' as ", ggml_type_name(to),
                           " needs its importance; give --imatrix");
        }
        return nullptr;
    }
    const std::int64_t needed = tensor.ne[0] * tensor.ne[2] * tensor.ne[3];
    if (static_cast<std::int64_t>(found->second.size()) != needed) {
        return invalid("importance of '", tensor.name, "': ", found->second.size(),
                       " values, the tensor needs ", needed);
    }
    return &found->second;
}

Result<std::vector<Job>> jobs_for(const ModelFile& file, const Wanted& wanted,
                                  const Importance& importance) {
    std::vector<Job> jobs;
    for (std::int64_t i = 0; i < file.tensor_count(); ++i) {
        const ggml_tensor& tensor = *file.find(gguf_get_tensor_name(file.c(), i));
        Job job{&tensor, type_for(tensor, wanted), nullptr};
        if (job.changes()) {
            HEDDLE_TRY_ASSIGN(job.importance, importance_of(tensor, importance, job.to));
        }
        jobs.push_back(job);
    }
    return jobs;
}

/// All of the new file but the data, which are not there yet.
Result<gguf_context_ptr> new_metadata(const ModelFile& file, const std::vector<Job>& jobs,
                                      std::uint32_t file_type) {
    heddle_clear_error();  // the functions below have no other way to say that they failed
    gguf_context_ptr out(gguf_init_empty());
    gguf_set_kv(out.get(), file.c());
    gguf_set_val_u32(out.get(), "general.quantization_version", GGML_QNT_VERSION);
    gguf_set_val_u32(out.get(), "general.file_type", file_type);
    for (const Job& job : jobs) {
        gguf_add_tensor(out.get(), job.tensor);
        if (job.changes()) gguf_set_tensor_type(out.get(), job.tensor->name, job.to);
    }
    if (*heddle_last_error() != '\0') return failure(Errc::out_of_memory, heddle_last_error());
    return out;
}

/// One tensor after the other, so that a large model needs room for its largest only.
Result<> write_model(const ModelFile& file, const std::vector<Job>& jobs, const gguf_context* out,
                     int threads, WholeFile& to) {
    std::vector<std::byte> bytes(gguf_get_meta_size(out));
    gguf_get_meta_data(out, bytes.data());
    HEDDLE_TRY(to.write(bytes));
    Progress progress("quantizing", jobs.size());
    std::size_t written = 0;  // of the data
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        const Job& job = jobs[i];
        progress.step(job.tensor->name);
        const std::byte* data = file.data_of(*job.tensor);
        const std::size_t size = gguf_get_tensor_size(out, static_cast<std::int64_t>(i));
        if (job.changes()) HEDDLE_TRY(convert(job, data, threads, bytes));
        HEDDLE_TRY(to.write(std::span(job.changes() ? bytes.data() : data, size)));
        written += size;
        const std::vector<std::byte> padding(GGML_PAD(written, gguf_get_alignment(out)) - written);
        HEDDLE_TRY(to.write(padding));
        written += padding.size();
    }
    return to.finish();
}

/// What was done, beside the model if that itself is printed.
void print_summary(const QuantizeOptions& options, const std::vector<Job>& jobs,
                   const gguf_context* out) {
    std::size_t before = 0, after = 0, changed = 0, unreadable = 0;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        before += ggml_nbytes(jobs[i].tensor);
        after += gguf_get_tensor_size(out, static_cast<std::int64_t>(i));
        changed += jobs[i].changes();
        unreadable += is_weight_matrix(*jobs[i].tensor) && !is_readable(jobs[i].tensor->type);
    }
    std::string line = fmt::format("{}: {} of {} tensors changed, {} -> {}", options.output,
                                   changed, jobs.size(), bytes_text(before), bytes_text(after));
    if (unreadable > 0) {
        line += fmt::format("; {} of whole numbers or f64 left as they are", unreadable);
    }
    line += '\n';
    if (is_standard_output(options.output)) {
        print_beside(line);
    } else {
        print("{}", line);
    }
}

Result<> quantize(const QuantizeOptions& options) {
    expect_files_cut_short();
    HEDDLE_TRY_ASSIGN(const ModelFile file, ModelFile::open(options.input));
    HEDDLE_TRY_ASSIGN(const Wanted wanted, Wanted::of(options, file));
    Importance importance;
    if (!options.importance.empty()) {
        HEDDLE_TRY_ASSIGN(importance, read_importance(options.importance));
    }
    std::error_code ignored;
    if (std::filesystem::equivalent(options.input, options.output, ignored)) {
        return invalid(options.output, ": is the input itself");
    }
    const int threads = options.threads > 0
                            ? options.threads
                            : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    HEDDLE_TRY_ASSIGN(const auto jobs, jobs_for(file, wanted, importance));
    HEDDLE_TRY_ASSIGN(const gguf_context_ptr out,
                      new_metadata(file, jobs, wanted.types.file_type()));
    HEDDLE_TRY_ASSIGN(WholeFile to, new_file(options.output));
    HEDDLE_TRY(write_model(file, jobs, out.get(), threads, to));
    print_summary(options, jobs, out.get());
    return ok();
}

}  // namespace

void add_quantize(CLI::App& app, int& status) {
    auto options = std::make_shared<QuantizeOptions>();
    CLI::App* command = app.add_subcommand("quantize", "Write a model with smaller weights");
    command->add_option("input", options->input, "GGUF file to read")
        ->type_name("FILE")
        ->required();
    command->add_option("output", options->output, "GGUF file to write")
        ->type_name("FILE")
        ->required();
    command
        ->add_option("type", options->type,
                     fmt::format("Type of the weights, such as Q8_0 or Q4_K, or a mixture: {}",
                                 fmt::join(WeightTypes::mixtures(), ", ")))
        ->type_name("TYPE")
        ->required();
    command
        ->add_option("--imatrix", options->importance, "GGUF file with the importance of weights")
        ->type_name("FILE");
    command
        ->add_option("--token-embedding-type", options->embedding_type, "Type of token_embd.weight")
        ->default_str("that of the weights")
        ->type_name("TYPE");
    command->add_option("--output-tensor-type", options->output_type, "Type of output.weight")
        ->default_str("that of the weights")
        ->type_name("TYPE");
    command->add_flag("--keep-output", options->keep_output, "Leave output.weight as it is");
    add_shared(*command, shared::kThreads, options->threads)
        ->default_str("one for each core")
        ->check(whole_number(1, kMostThreads));
    command->callback(
        [options, &status] { status = report_outcome("quantize", quantize(*options)); });
}

}  // namespace heddle::tool
