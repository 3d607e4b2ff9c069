#include <fmt/core.h>

#include <atomic>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <thread>
#include <unordered_map>

#include "commands.hpp"
#include "console.hpp"
#include "heddle/heddle.hpp"
#include "outcome.hpp"

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

Result<ggml_type> type_named(const std::string& name) {
    std::string known;
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<ggml_type>(i);
        const char* const given = ggml_type_name(type);
        if (given == nullptr || *given == '\0') continue;
        const bool usable = ggml_is_quantized(type) || type == GGML_TYPE_F16 ||
                            type == GGML_TYPE_BF16 || type == GGML_TYPE_F32;
        if (!usable || ggml_get_type_traits(type)->to_float == nullptr) {
            if (type != GGML_TYPE_F32) continue;
        }
        const bool equal =
            std::equal(name.begin(), name.end(), given, given + std::strlen(given),
                       [](char a, char b) { return std::tolower(a) == std::tolower(b); });
        if (equal) return type;
        known += (known.empty() ? "" : ", ") + std::string(given);
    }
    return invalid("no type is called '", name, "'; there are ", known);
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

/// The type a tensor becomes: only matrices of weights whose rows are whole blocks change.
ggml_type type_for(const ggml_tensor& tensor, const QuantizeOptions& options, ggml_type wanted,
                   ggml_type embedding, ggml_type output) {
    const std::string name = tensor.name;
    if (ggml_n_dims(&tensor) < 2 || !name.ends_with("weight")) return tensor.type;
    if (ggml_is_quantized(tensor.type) && ggml_get_type_traits(tensor.type)->to_float == nullptr) {
        return tensor.type;
    }
    ggml_type type = wanted;
    if (name == "token_embd.weight") type = embedding;
    if (name == "output.weight") type = options.keep_output ? tensor.type : output;
    if (tensor.ne[0] % ggml_blck_size(type) == 0) return type;
    return tensor.ne[0] % ggml_blck_size(GGML_TYPE_Q8_0) == 0 ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
}

/// Rows of a tensor of the file, from one type to the other.
Result<std::vector<std::byte>> convert(const ggml_tensor& tensor, const std::byte* data,
                                       ggml_type to, const std::vector<float>* importance,
                                       int threads) {
    const std::int64_t rows = ggml_nrows(&tensor), width = tensor.ne[0];
    std::vector<std::byte> out(static_cast<std::size_t>(rows) * ggml_row_size(to, width));
    const std::size_t row_size = ggml_row_size(tensor.type, width);
    // Experts have rows of importance of their own.
    const std::int64_t per_matrix = tensor.ne[1];
    ggml_quantize_init(to);
    std::atomic<std::int64_t> next{0};
    std::atomic<bool> fine{true};
    constexpr std::int64_t kRows = 16;
    const auto work = [&] {
        std::vector<float> values(static_cast<std::size_t>(kRows * width));
        for (std::int64_t begin; fine && (begin = next.fetch_add(kRows)) < rows;) {
            for (std::int64_t row = begin; row < std::min(begin + kRows, rows); ++row) {
                const std::byte* source = data + static_cast<std::size_t>(row) * row_size;
                if (tensor.type == GGML_TYPE_F32) {
                    std::memcpy(values.data(), source, row_size);
                } else {
                    ggml_get_type_traits(tensor.type)->to_float(source, values.data(), width);
                }
                const float* weights = nullptr;
                if (importance != nullptr) weights = importance->data() + row / per_matrix * width;
                std::byte* target =
                    out.data() + static_cast<std::size_t>(row) * ggml_row_size(to, width);
                const std::size_t written =
                    ggml_quantize_chunk(to, values.data(), target, 0, 1, width, weights);
                if (written != ggml_row_size(to, width)) fine = false;
            }
        }
    };
    std::vector<std::thread> team;
    for (int i = 1; i < threads; ++i) team.emplace_back(work);
    work();
    for (std::thread& worker : team) worker.join();
    if (!fine) {
        return failure(Errc::unsupported, "'", tensor.name, "' cannot become ", ggml_type_name(to),
                       ": ", heddle_last_error());
    }
    return out;
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

/// The number that stands for the file's main type in its metadata.
std::uint32_t file_type_of(ggml_type type) {
    for (int i = 0; i < 64; ++i) {
        if (ggml_ftype_to_ggml_type(static_cast<ggml_ftype>(i)) == type) {
            return static_cast<std::uint32_t>(i);
        }
    }
    return 0;
}

Result<> quantize(const QuantizeOptions& options) {
    HEDDLE_TRY_ASSIGN(const ModelFile file, ModelFile::open(options.input));
    HEDDLE_TRY_ASSIGN(const ggml_type wanted, type_named(options.type));
    ggml_type embedding = wanted, output = wanted;
    if (!options.embedding_type.empty()) {
        HEDDLE_TRY_ASSIGN(embedding, type_named(options.embedding_type));
    }
    if (!options.output_type.empty()) {
        HEDDLE_TRY_ASSIGN(output, type_named(options.output_type));
    }
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

    gguf_context_ptr out(gguf_init_empty());
    gguf_set_kv(out.get(), file.c());
    gguf_set_val_u32(out.get(), "general.quantization_version", GGML_QNT_VERSION);
    gguf_set_val_u32(out.get(), "general.file_type", file_type_of(wanted));
    std::vector<std::vector<std::byte>> converted(static_cast<std::size_t>(file.tensor_count()));
    Progress progress("quantizing", converted.size());
    std::size_t before = 0, after = 0, changed = 0;
    for (std::int64_t i = 0; i < file.tensor_count(); ++i) {
        const ggml_tensor& tensor = *file.find(gguf_get_tensor_name(file.c(), i));
        const ggml_type to = type_for(tensor, options, wanted, embedding, output);
        progress.step(tensor.name);
        gguf_add_tensor(out.get(), &tensor);
        before += ggml_nbytes(&tensor);
        if (to == tensor.type) {
            gguf_set_tensor_data(out.get(), tensor.name, file.data_of(tensor));
            after += ggml_nbytes(&tensor);
            continue;
        }
        HEDDLE_TRY_ASSIGN(const auto* weights, importance_of(tensor, importance, to));
        auto& bytes = converted[static_cast<std::size_t>(i)];
        HEDDLE_TRY_ASSIGN(bytes, convert(tensor, file.data_of(tensor), to, weights, threads));
        gguf_set_tensor_type(out.get(), tensor.name, to);
        gguf_set_tensor_data(out.get(), tensor.name, bytes.data());
        after += bytes.size();
        ++changed;
    }
    HEDDLE_TRY(make_file(options.output, [&](const std::string& unfinished) -> Result<> {
        if (gguf_write_to_file(out.get(), unfinished.c_str(), false)) return ok();
        return failure(Errc::io, heddle_last_error());
    }));
    fmt::print("{}: {} of {} tensors changed, {} -> {}\n", options.output, changed,
               file.tensor_count(), bytes_text(before), bytes_text(after));
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
    command->add_option("type", options->type, "Type of the weights, such as Q8_0 or Q4_K")
        ->required();
    command
        ->add_option("--imatrix", options->importance, "GGUF file with the importance of weights")
        ->type_name("FILE");
    command->add_option("--token-embedding-type", options->embedding_type,
                        "Type of token_embd.weight, if another one");
    command->add_option("--output-tensor-type", options->output_type,
                        "Type of output.weight, if another one");
    command->add_flag("--keep-output", options->keep_output, "Leave output.weight as it is");
    command->add_option("-t,--threads", options->threads, "Threads; all cores if left out")
        ->check(CLI::Range(1, 4096));
    command->callback(
        [options, &status] { status = report_outcome("quantize", quantize(*options)); });
}

}  // namespace heddle::tool
