#include <cmath>

#include "model/llama.hpp"

namespace heddle::tool {
namespace {

/// A whole number in a range that can be computed with.
Result<std::int64_t> number(const ModelFile& file, const std::string& key, std::int64_t most) {
    HEDDLE_TRY_ASSIGN(const std::int64_t value, file.integer(key));
    if (value < 1 || value > most) {
        return failure(Errc::corrupt, file.path(), ": '", key, "' is ", value, "; 1 to ", most,
                       " is possible");
    }
    return value;
}

Result<> read_rope(const ModelFile& file, Shape& shape) {
    shape.rope.dimensions = static_cast<int>(shape.head_width);
    if (file.has("llama.rope.dimension_count")) {
        HEDDLE_TRY_ASSIGN(const std::int64_t turned,
                          number(file, "llama.rope.dimension_count", shape.head_width));
        shape.rope.dimensions = static_cast<int>(turned);
    }
    shape.rope.original_context = static_cast<int>(shape.context);
    shape.rope.base = static_cast<float>(file.real("llama.rope.freq_base").value_or(10000.0));
    const std::string scaling = file.text("llama.rope.scaling.type").value_or("none");
    const double factor = file.real("llama.rope.scaling.factor").value_or(1.0);
    if (!std::isfinite(factor) || factor <= 0) {
        return failure(Errc::corrupt, file.path(), ": rope scaling factor ", factor);
    }
    if (scaling == "none") return ok();
    if (scaling != "linear" && scaling != "yarn") {
        return failure(Errc::unsupported, file.path(), ": rope scaling of the kind '", scaling,
                       "'; known are linear and yarn");
    }
    shape.rope.scale = static_cast<float>(1.0 / factor);
    if (scaling == "yarn") shape.rope.extrapolation = 1.0f;
    auto original = file.integer("llama.rope.scaling.original_context_length");
    if (original) shape.rope.original_context = static_cast<int>(*original);
    return ok();
}

}  // namespace

Result<Shape> Shape::read(const ModelFile& file) {
    HEDDLE_TRY_ASSIGN(const std::string architecture, file.text("general.architecture"));
    if (architecture != "llama") {
        return failure(Errc::unsupported, file.path(), ": a model of the architecture '",
                       architecture, "'; 'heddle run' knows the llama family");
    }
    Shape shape;
    constexpr std::int64_t kMost = 1 << 24;
    HEDDLE_TRY_ASSIGN(shape.layers, number(file, "llama.block_count", 4096));
    HEDDLE_TRY_ASSIGN(shape.width, number(file, "llama.embedding_length", kMost));
    HEDDLE_TRY_ASSIGN(shape.hidden, number(file, "llama.feed_forward_length", kMost));
    HEDDLE_TRY_ASSIGN(shape.heads, number(file, "llama.attention.head_count", shape.width));
    shape.kv_heads = shape.heads;
    if (file.has("llama.attention.head_count_kv")) {
        HEDDLE_TRY_ASSIGN(shape.kv_heads,
                          number(file, "llama.attention.head_count_kv", shape.heads));
    }
    if (shape.heads % shape.kv_heads != 0) {
        return failure(Errc::corrupt, file.path(), ": ", shape.heads,
                       " heads do not share keys of ", shape.kv_heads, " evenly");
    }
    shape.head_width = shape.width / shape.heads;
    if (file.has("llama.attention.key_length")) {
        HEDDLE_TRY_ASSIGN(shape.head_width, number(file, "llama.attention.key_length", kMost));
    }
    HEDDLE_TRY_ASSIGN(shape.context, number(file, "llama.context_length", kMost));
    const ggml_tensor* words = file.find("token_embd.weight");
    if (words == nullptr) return failure(Errc::corrupt, file.path(), ": has no token_embd.weight");
    shape.words = words->ne[1];
    shape.epsilon =
        static_cast<float>(file.real("llama.attention.layer_norm_rms_epsilon").value_or(1e-5));
    HEDDLE_TRY(read_rope(file, shape));
    return shape;
}

}  // namespace heddle::tool
