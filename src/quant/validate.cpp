#include <cmath>
#include <cstring>

#include "core/half.hpp"
#include "quant/codec.hpp"
#include "quant/rows.hpp"

namespace heddle::quant {
namespace {

bool is_finite_f32(const float& value) { return std::isfinite(value); }
bool is_finite_f64(const double& value) { return std::isfinite(static_cast<float>(value)); }
bool is_finite_f16(const std::uint16_t& bits) { return is_finite_half(bits); }
bool is_finite_bf16(const std::uint16_t& bits) { return std::isfinite(bf16_to_f32(bits)); }

/// What is looked for in data of one type.
struct Rule {
    bool exists = false;
    std::int64_t (*first_bad)(const void* data, std::int64_t count) = nullptr;  ///< null: all good
    const char* element = "value";
};

Rule rule_of(Type type) {
    switch (type) {
        case GGML_TYPE_F32:
            return {true, FirstBadBlock<is_finite_f32>::run};
        case GGML_TYPE_F64:
            return {true, FirstBadBlock<is_finite_f64>::run};
        case GGML_TYPE_F16:
            return {true, FirstBadBlock<is_finite_f16>::run};
        case GGML_TYPE_BF16:
            return {true, FirstBadBlock<is_finite_bf16>::run};
        case GGML_TYPE_I8:
        case GGML_TYPE_I16:
        case GGML_TYPE_I32:
        case GGML_TYPE_I64:
            return {true, nullptr};
        case GGML_TYPE_Q8_1:
            return {};  // an operand of dot products only; files never hold it
        default:
            break;
    }
    const Codec* codec = codec_of(type);
    if (codec == nullptr) return {};
    return {true, codec->first_bad_block, "scale of block"};
}

}  // namespace

Result<> validate(Type type, std::span<const std::byte> data) {
    const Rule rule = rule_of(type);
    if (!rule.exists)
        return invalid("validate: data cannot have type ", static_cast<int>(type), " (",
                       name_of(type), ")");
    if (data.size() % size_of(type) != 0)
        return invalid("validate: ", data.size(), " bytes are not whole blocks of ", size_of(type),
                       " bytes (", name_of(type), ")");
    if (rule.first_bad == nullptr) return ok();

    const auto count = static_cast<std::int64_t>(data.size() / size_of(type));
    const std::int64_t bad = rule.first_bad(data.data(), count);
    if (bad < 0) return ok();
    return failure(Errc::corrupt, "validate: ", rule.element, " ", bad, " of ", count, " (",
                   name_of(type), ") is not a finite number");
}

}  // namespace heddle::quant
