#include <cmath>

#include "model/llama.hpp"

namespace heddle::tool {
namespace {

constexpr std::int64_t kMost = 1 << 24;  ///< of whole numbers in a file

/// A whole number in a range that can be computed with.
Result<std::int64_t> number(const ModelFile& file, const std::string& key, std::int64_t most) {
    HEDDLE_TRY_ASSIGN(const std::int64_t value, file.integer(key));
    if (value < 1 || value > most) {
        return failure(Errc::corrupt, file.path(), ": '", key, "' is ", value, "; 1 to ", most,
                       " is possible");
    }
    return value;
}

/// A real number that can be computed with; `otherwise` where the file has none.
Result<float> real(const ModelFile& file, const std::string& key, float otherwise) {
    if (!file.has(key)) return otherwise;
    HEDDLE_TRY_ASSIGN(const double value, file.real(key));
    const auto rounded = static_cast<float>(value);
    if (std::isfinite(rounded) && rounded > 0) return rounded;
    return failure(Errc::corrupt, file.path(), ": '", key, "' is ", value,
                   "; a number above 0 is needed");
}

Result<> read_rope(const ModelFile& file, Shape& shape) {
    shape.rope.dimensions = static_cast<int>(shape.head_width);
    if (file.has("llama.rope.dimension_count")) {
        HEDDLE_TRY_ASSIGN(const std::int64_t turned,
                          number(file, "llama.rope.dimension_count", shape.head_width));
        shape.rope.dimensions = static_cast<int>(turned);
    }
    shape.rope.original_context = static_cast<int>(shape.context);
    HEDDLE_TRY_ASSIGN(shape.rope.base, real(file, "llama.rope.freq_base", 10000.0f));
    HEDDLE_TRY_ASSIGN(const float factor, real(file, "llama.rope.scaling.factor", 1.0f));
    std::string scaling = "none";
    if (file.has("llama.rope.scaling.type")) {
        HEDDLE_TRY_ASSIGN(scaling, file.text("llama.rope.scaling.type"));
    }
    if (scaling == "none") return ok();
    if (scaling != "linear" && scaling != "yarn") {
        return failure(Errc::unsupported, file.path(), ": rope scaling of the kind '", scaling,
                       "'; known are linear and yarn");
    }
    shape.rope.scale = 1.0f / factor;
    if (scaling == "yarn") shape.rope.extrapolation = 1.0f;
    const std::string key = "llama.rope.scaling.original_context_length";
    if (file.has(key)) {
        HEDDLE_TRY_ASSIGN(const std::int64_t original, number(file, key, kMost));
        shape.rope.original_context = static_cast<int>(original);
    }
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
    HEDDLE_TRY_ASSIGN(shape.epsilon, real(file, "llama.attention.layer_norm_rms_epsilon", 1e-5f));
    HEDDLE_TRY(read_rope(file, shape));
    return shape;
}

}  // namespace heddle::tool
