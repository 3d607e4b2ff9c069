#include "bench/synthetic.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/content.hpp"
#include "bytes_text.hpp"
#include "ggml-cpp.h"
#include "gguf.h"
#include "heddle/cpp/device.hpp"
#include "weight_types.hpp"

namespace heddle::tool::bench {
namespace {

struct Dimensions {
    const char* name;
    std::int64_t layers, width, hidden, heads, kv_heads, words;
    bool tied;  ///< the output is the embedding
};

constexpr std::array kShapes{
    Dimensions{"15M", 6, 288, 768, 6, 6, 32000, true},
    Dimensions{"110M", 12, 768, 2048, 12, 12, 32000, true},
    Dimensions{"1.1B", 22, 2048, 5632, 32, 4, 32000, false},
    Dimensions{"3B", 28, 3072, 8192, 24, 8, 128256, true},
    Dimensions{"7B", 32, 4096, 14336, 32, 8, 32000, false},
    Dimensions{"8B", 32, 4096, 14336, 32, 8, 128256, false},
    Dimensions{"13B", 40, 5120, 13824, 40, 40, 32000, false},
    Dimensions{"70B", 80, 8192, 28672, 64, 8, 128256, false},
};

Result<Dimensions> find_shape(const std::string& name) {
    for (const Dimensions& shape : kShapes) {
        if (name == shape.name) return shape;
    }
    return failure(Errc::not_found, "no shape is called '", name, "'; there are ",
                   SyntheticModel::shapes());
}

void add_metadata(gguf_context* file, const Dimensions& shape) {
    const auto number = [&](const char* key, std::int64_t value) {
        gguf_set_val_u32(file, key, static_cast<std::uint32_t>(value));
    };
    gguf_set_val_str(file, "general.architecture", "llama");
    gguf_set_val_str(file, "general.name", "synthetic");
    number("llama.block_count", shape.layers);
    number("llama.embedding_length", shape.width);
    number("llama.feed_forward_length", shape.hidden);
    number("llama.attention.head_count", shape.heads);
    number("llama.attention.head_count_kv", shape.kv_heads);
    number("llama.context_length", 4096);
    // Every word is a name of its own: nothing is ever read from or written to a text.
    std::vector<std::string> words;
    for (std::int64_t i = 0; i < shape.words; ++i) words.push_back("w" + std::to_string(i));
    std::vector<const char*> pieces;
    for (const std::string& word : words) pieces.push_back(word.c_str());
    const std::vector<float> scores(words.size());
    const std::vector<std::int32_t> kinds(words.size(), 1);
    gguf_set_val_str(file, "tokenizer.ggml.model", "llama");
    gguf_set_arr_str(file, "tokenizer.ggml.tokens", pieces.data(), pieces.size());
    gguf_set_arr_data(file, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores.data(),
                      scores.size());
    gguf_set_arr_data(file, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, kinds.data(),
                      kinds.size());
    number("tokenizer.ggml.unknown_token_id", 0);
    number("tokenizer.ggml.bos_token_id", 1);
    number("tokenizer.ggml.eos_token_id", 2);
}

/// Describes all weights, which `context` keeps.
void add_weights(gguf_context* file, ggml_context* context, const Dimensions& shape,
                 const WeightTypes& types) {
    const auto add = [&](const std::string& name, ggml_type type, std::int64_t columns,
                         std::int64_t rows) {
        ggml_tensor* tensor = ggml_new_tensor_2d(context, type, columns, rows);
        if (tensor == nullptr) return;  // the count below will be wrong
        ggml_set_name(tensor, name.c_str());
        gguf_add_tensor(file, tensor);
    };
    const std::int64_t kv_width = shape.width / shape.heads * shape.kv_heads;
    const std::int64_t w = shape.width, h = shape.hidden, n = shape.layers;
    add("token_embd.weight", types.of(shape.tied ? "output.weight" : "token_embd.weight", n), w,
        shape.words);
    add("output_norm.weight", GGML_TYPE_F32, w, 1);
    if (!shape.tied) add("output.weight", types.of("output.weight", n), w, shape.words);
    for (std::int64_t i = 0; i < n; ++i) {
        const std::string layer = "blk." + std::to_string(i) + ".";
        const auto matrix = [&](const char* name, std::int64_t columns, std::int64_t rows) {
            const std::string weight = layer + name + ".weight";
            add(weight, types.of(weight, n), columns, rows);
        };
        add(layer + "attn_norm.weight", GGML_TYPE_F32, w, 1);
        matrix("attn_q", w, w);
        matrix("attn_k", w, kv_width);
        matrix("attn_v", w, kv_width);
        matrix("attn_output", w, w);
        add(layer + "ffn_norm.weight", GGML_TYPE_F32, w, 1);
        matrix("ffn_gate", w, h);
        matrix("ffn_up", w, h);
        matrix("ffn_down", h, w);
    }
}

Result<> write_at(int file, std::size_t offset, const std::byte* data, std::size_t size) {
    while (size > 0) {
        const ssize_t written = pwrite(file, data, size, static_cast<off_t>(offset));
        if (written <= 0) {
            return failure(Errc::io, "weights cannot be written: ", std::strerror(errno));
        }
        data += written;
        offset += static_cast<std::size_t>(written);
        size -= static_cast<std::size_t>(written);
    }
    return ok();
}

/// All that stands before the weights.
Result<> write_head(int file, const gguf_context* model) {
    std::vector<std::byte> head(gguf_get_meta_size(model));
    gguf_get_meta_data(model, head.data());
    return write_at(file, 0, head.data(), head.size());
}

/// Rows are encoded once for each type and shape, and written as often as needed.
Result<> write_model(int file, const gguf_context* model, ggml_context* tensors) {
    HEDDLE_TRY(write_head(file, model));
    std::map<std::tuple<ggml_type, std::int64_t, bool>, std::vector<std::byte>> pieces;
    for (std::int64_t i = 0; i < gguf_get_n_tensors(model); ++i) {
        const ggml_tensor* t = ggml_get_tensor(tensors, gguf_get_tensor_name(model, i));
        const bool is_matrix = t->ne[1] > 1;
        std::vector<std::byte>& piece = pieces[{t->type, t->ne[0], is_matrix}];
        if (piece.empty()) {
            // Products stay about as large as their operands: f16 would overflow after some layers.
            const float most = is_matrix ? std::sqrt(3.0f / static_cast<float>(t->ne[0])) : 1.0f;
            HEDDLE_TRY_ASSIGN(piece, encoded_rows(t->type, t->ne[0], 256, most));
        }
        const std::size_t begin = gguf_get_meta_size(model) + gguf_get_tensor_offset(model, i);
        const std::size_t all = ggml_nbytes(t);
        for (std::size_t at = 0; at < all; at += piece.size()) {
            HEDDLE_TRY(write_at(file, begin + at, piece.data(), std::min(piece.size(), all - at)));
        }
    }
    return ok();
}

/// What a model file would say of itself.
struct Description {
    ggml_context_ptr tensors;
    gguf_context_ptr file;

    /// Of the whole file.
    std::size_t size() const {
        const std::int64_t last = gguf_get_n_tensors(file.get()) - 1;
        return gguf_get_meta_size(file.get()) + gguf_get_tensor_offset(file.get(), last) +
               GGML_PAD(gguf_get_tensor_size(file.get(), last), gguf_get_alignment(file.get()));
    }
};

Result<Description> describe_model(const std::string& shape_name, const std::string& type_name) {
    HEDDLE_TRY_ASSIGN(const Dimensions shape, find_shape(shape_name));
    HEDDLE_TRY_ASSIGN(const WeightTypes types, WeightTypes::find(type_name, measured_types()));
    for (const std::int64_t columns : {shape.width, shape.hidden}) {
        const ggml_type type = types.main();
        if (columns % ggml_blck_size(type) == 0) continue;
        return invalid("rows of ", columns, " elements, which the shape ", shape.name,
                       " has, cannot be of type ", ggml_type_name(type), ", whose blocks have ",
                       ggml_blck_size(type));
    }
    const auto count = static_cast<std::size_t>(shape.layers) * 9 + 8;
    Description described{
        ggml_context_ptr(ggml_init(
            {.mem_size = count * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true})),
        gguf_context_ptr(gguf_init_empty())};
    add_metadata(described.file.get(), shape);
    add_weights(described.file.get(), described.tensors.get(), shape, types);
    return described;
}

/// A file, and the path by which it can be opened.
Result<std::pair<int, std::string>> nameless_file() {
#if defined(__linux__)
    const int file = memfd_create("heddle-synthetic", MFD_CLOEXEC);
    if (file >= 0) return std::pair(file, "/proc/self/fd/" + std::to_string(file));
#endif
    std::string name = (std::filesystem::temp_directory_path() / "heddle-model-XXXXXX").string();
    const int named = mkstemp(name.data());
    if (named < 0) {
        return failure(Errc::io, name, ": cannot be made: ", std::strerror(errno));
    }
    return std::pair(named, name);
}

}  // namespace

SyntheticModel::SyntheticModel(SyntheticModel&& other) noexcept
    : file_(std::exchange(other.file_, -1)), path_(std::move(other.path_)) {}

SyntheticModel::~SyntheticModel() {
    if (file_ < 0) return;
    close(file_);
    std::error_code ignored;
    if (!path_.starts_with("/proc/")) std::filesystem::remove(path_, ignored);
}

std::string SyntheticModel::shapes() {
    std::string names;
    for (const Dimensions& shape : kShapes) {
        names += (names.empty() ? "" : ", ") + std::string(shape.name);
    }
    return names;
}

Result<SyntheticModel> SyntheticModel::make(const std::string& shape, const std::string& type) {
    HEDDLE_TRY_ASSIGN(const Description described, describe_model(shape, type));
    const auto cpu = api::Device::cpu();
    const std::size_t free = cpu ? cpu->memory().free : 0, size = described.size();
    if (free > 0 && size > free) {
        return failure(Errc::out_of_memory, "the weights of ", shape, " of ", type, " need ",
                       bytes_text(size), "; ", bytes_text(free), " of memory are free");
    }
    HEDDLE_TRY_ASSIGN(auto file, nameless_file());
    SyntheticModel made(file.first, std::move(file.second));
    HEDDLE_TRY(write_model(made.file_, described.file.get(), described.tensors.get()));
    return made;
}

Result<SyntheticModel> SyntheticModel::describe(const std::string& shape, const std::string& type) {
    HEDDLE_TRY_ASSIGN(const Description described, describe_model(shape, type));
    HEDDLE_TRY_ASSIGN(auto file, nameless_file());
    SyntheticModel made(file.first, std::move(file.second));
    HEDDLE_TRY(write_head(made.file_, described.file.get()));
    if (ftruncate(made.file_, static_cast<off_t>(described.size())) != 0) {
        return failure(Errc::io, "a file of ", described.size(),
                       " bytes cannot be made: ", std::strerror(errno));
    }
    return made;
}

}  // namespace heddle::tool::bench
