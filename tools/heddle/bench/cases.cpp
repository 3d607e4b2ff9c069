#include "bench/cases.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "ggml/op_list.h"

namespace heddle::tool::bench {

ggml_tensor* Inputs::make(ggml_type type, std::initializer_list<std::int64_t> extents,
                          const Content& content) {
    ggml_tensor* made =
        ggml_new_tensor(context_, type, static_cast<int>(extents.size()), extents.begin());
    if (made != nullptr) leaves_.push_back({made, content});
    return made;
}

ggml_tensor* Inputs::input(ggml_type type, std::initializer_list<std::int64_t> extents,
                           const Content& content) {
    if (next_ == first_.size()) first_.push_back(make(type, extents, content));
    return first_[next_++];
}

ggml_tensor* Inputs::weights(ggml_type type, std::initializer_list<std::int64_t> extents) {
    const std::size_t known = leaves_.size();
    ggml_tensor* tensor = nullptr;
    if (next_ == first_.size() || !new_weights_) {
        tensor = input(type, extents);
    } else {
        ++next_;
        tensor = make(type, extents, {});
    }
    if (leaves_.size() > known) {
        leaves_.back().is_weight = true;
        weight_bytes_ += ggml_nbytes(tensor);
    }
    return tensor;
}

std::vector<Case> cases_of(std::span<const SizedOp> table, const Wish& wish) {
    std::vector<Case> cases;
    for (const SizedOp& row : table) {
        if (row.model != wish.model) continue;
        const std::int64_t size = wish.quick ? row.quick_size : row.size;
        cases.push_back(
            {.op = row.op,
             .type = ggml_type_name(row.type),
             .main_type = row.type,
             .shape = fmt::format(fmt::runtime(row.shape), size),
             .build = [&row, size](Inputs& inputs) { return row.build(inputs, size, row.type); },
             .beside_copy = row.beside == SizedOp::Beside::copy,
             .usual = row.usual});
    }
    return cases;
}

std::vector<Case> all_cases(const Wish& wish) {
    std::vector<Case> all;
    for (const auto part : {product_cases, attention_cases, row_cases, copy_cases, recurrent_cases,
                            image_cases, training_cases}) {
        for (Case& each : part(wish)) {
            const bool wanted = wish.types.empty() ||
                                std::ranges::find(wish.types, each.main_type) != wish.types.end();
            if (wanted) all.push_back(std::move(each));
        }
    }
    return all;
}

std::span<const Unmeasured> unmeasured_ops() {
    static constexpr const char* kForeign = "runs a function of the caller's";
    static constexpr std::array kOps{
        Unmeasured{GGML_OP_MAP_CUSTOM1, kForeign}, Unmeasured{GGML_OP_MAP_CUSTOM2, kForeign},
        Unmeasured{GGML_OP_MAP_CUSTOM3, kForeign}, Unmeasured{GGML_OP_CUSTOM, kForeign},
        Unmeasured{GGML_OP_FLASH_ATTN_BACK, "no device computes it"}};
    return kOps;
}

}  // namespace heddle::tool::bench
