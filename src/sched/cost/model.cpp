#include <algorithm>

#include "ggml/op_list.h"
#include "ops/catalogue.hpp"
#include "sched/cost/cost.hpp"

namespace heddle::sched {

TypeClass class_of(Type type) {
    if (type == GGML_TYPE_F16 || type == GGML_TYPE_BF16) return TypeClass::half;
    return type_info(type).is_quantized ? TypeClass::quantized : TypeClass::single;
}

CostModel::CostModel(const Team& team)
    : speeds_(team.size()),
      products_(team.size(), std::array<double, kTypeClasses>{}),
      links_(team.size() * team.size()),
      kept_(team.size(), 0) {}

void CostModel::set_speed(RunnerId runner, Speed speed) { speeds_[place_of(runner)] = speed; }

void CostModel::set_link(RunnerId from, RunnerId to, Link link) {
    links_[place_of(from) * speeds_.size() + place_of(to)] = link;
}

void CostModel::set_product_flops(RunnerId runner, TypeClass weights, double flops) {
    products_[place_of(runner)][static_cast<std::size_t>(weights)] = flops;
}

void CostModel::set_kept_constants(RunnerId runner, std::size_t bytes) {
    kept_[place_of(runner)] = bytes;
}

double CostModel::product_flops(RunnerId runner, TypeClass weights) const {
    return products_[place_of(runner)][static_cast<std::size_t>(weights)];
}

Link CostModel::link(RunnerId from, RunnerId to) const {
    const std::size_t source = from == kNoRunner ? speeds_.size() - 1 : place_of(from);
    const std::size_t target = to == kNoRunner ? speeds_.size() - 1 : place_of(to);
    return links_[source * speeds_.size() + target];
}

double CostModel::node_seconds(const Tensor& node, RunnerId runner) const {
    const OpInfo* op = find_op(node.op);
    if (node.op == GGML_OP_NONE || op == nullptr || op->is_view) return 0;
    const Cost cost = cost_of(node);
    const Speed& speed = speeds_[place_of(runner)];
    double flops = speed.flops;
    if ((node.op == GGML_OP_MUL_MAT || node.op == GGML_OP_MUL_MAT_ID) && node.src[0] != nullptr) {
        const double measured = product_flops(runner, class_of(node.src[0]->type));
        if (measured > 0) flops = measured;
    }
    return speed.overhead + std::max(cost.flops / flops, cost.bytes / speed.bandwidth);
}

double CostModel::copy_seconds(std::size_t bytes, RunnerId from, RunnerId to) const {
    const Link way = link(from, to);
    return way.latency + static_cast<double>(bytes) / way.bandwidth;
}

}  // namespace heddle::sched
