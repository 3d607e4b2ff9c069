#include "ops/objections.hpp"

#include <algorithm>

#include "ops/catalogue.hpp"

namespace heddle {

std::string Objections::text() const {
    if (all_.empty()) return {};
    const std::string_view first = all_.front().reason;
    if (std::ranges::all_of(all_, [&](const Entry& each) { return each.reason == first; })) {
        return std::string(first);
    }
    std::string words;
    for (const auto& [kernel, reason] : all_) {
        if (!words.empty()) words += "; ";
        if (!kernel.empty()) words.append(kernel).append(": ");
        words += reason;
    }
    return words;
}

std::string Objections::text_for(const Tensor& node) const {
    std::string operands;
    for (const Tensor* source : node.src) {
        if (source == nullptr) continue;
        if (!operands.empty()) operands += ", ";
        operands += describe_shape(*source);
    }
    return heddle::text(text(), " (", describe_shape(node), " = ", describe_op_of(node), '(',
                        operands, "))");
}

std::string describe_shape(const Tensor& tensor) {
    int last = kMaxDims - 1;
    while (last > 0 && tensor.ne[last] == 1) --last;
    std::string words = heddle::text(type_info(tensor.type).name, '[', tensor.ne[0]);
    for (int d = 1; d <= last; ++d) words += ',' + std::to_string(tensor.ne[d]);
    return words + ']';
}

}  // namespace heddle
