#include "ops/catalogue.hpp"

#include <cstring>
#include <sstream>

#include "ggml/op_list.h"
#include "ops/all.hpp"

namespace heddle {

static_assert(kNoOp == GGML_OP_NONE);

std::span<const OpInfo> all_ops() { return kOps; }

const OpInfo* find_op(Op op) {
    const auto number = static_cast<std::size_t>(op);
    return number < kOps.size() ? &kOps[number] : nullptr;
}

std::string_view describe_op_of(const Tensor& node) {
    const OpInfo* op = find_op(node.op);
    if (op == nullptr) return "unknown op";
    std::string_view function;
    if (op->id == GGML_OP_UNARY) function = name_of(static_cast<ggml_unary_op>(node.op_params[0]));
    if (op->id == GGML_OP_GLU) function = name_of(static_cast<ggml_glu_op>(node.op_params[0]));
    return function.empty() ? op->name : function;
}

std::string_view name_of(ggml_unary_op op) { return ops::Unary::function_name(op); }
std::string_view name_of(ggml_glu_op op) { return ops::Glu::function_name(op); }

Cost cost_of(const Tensor& node) {
    const OpInfo* op = find_op(node.op);
    return op == nullptr ? Cost{} : op->cost(node);
}

double bytes_touched(const Tensor& node) {
    double bytes = static_cast<double>(byte_size(node));
    for (const Tensor* source : node.src) {
        if (source != nullptr) bytes += static_cast<double>(byte_size(*source));
    }
    return bytes;
}

std::string describe_params(const Tensor& node) {
    const OpInfo* op = find_op(node.op);
    if (op == nullptr) return {};
    std::ostringstream out;
    const auto read = [&]<class T>(const ParamField& field, T value) {
        std::memcpy(&value, node.op_params + field.word, sizeof value);
        return value;
    };
    for (const ParamField& field : op->fields) {
        if (out.tellp() > 0) out << ' ';
        out << field.name << '=';
        switch (field.kind) {
            case ParamField::Kind::i32:
                out << read(field, std::int32_t{});
                break;
            case ParamField::Kind::f32:
                out << read(field, 0.0f);
                break;
            case ParamField::Kind::size:
                out << read(field, std::size_t{});
                break;
            case ParamField::Kind::pointer:
                out << read(field, static_cast<void*>(nullptr));
                break;
        }
    }
    return std::move(out).str();
}

}  // namespace heddle
