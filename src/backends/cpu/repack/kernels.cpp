#include "backends/cpu/repack/product.hpp"
#include "ggml/op_list.h"

namespace heddle::cpu {
namespace {

std::string_view objection_to_weights(const Tensor& a, const Tensor& b, const Tensor& y) {
    if (a.view_src != nullptr) return "views of repacked weights cannot be read";
    if (!repack_kernel_of(a.type))
        return "this CPU has no repacked layout for the type of the weights";
    if (a.ne[1] % kRepackRowStep != 0) return "rows of repacked weights come in eights";
    if (!is_contiguous(a) || a.ne[3] != 1) return "repacked weights are dense matrices";
    if (b.type != GGML_TYPE_F32 || b.nb[0] != sizeof(float)) return "b is not rows of dense f32";
    if (y.type != GGML_TYPE_F32 || y.nb[0] != sizeof(float)) return "the result is not dense f32";
    return {};
}

std::string_view objection_to_product(const Tensor& node) {
    const Tensor& a = *node.src[0];
    if (a.ne[2] != 1) return "repacked weights of a product are one matrix";
    return objection_to_weights(a, *node.src[1], node);
}

std::string_view objection_to_mixture(const Tensor& node) {
    const Tensor& ids = *node.src[2];
    if (ids.type != GGML_TYPE_I32 || ids.nb[0] != sizeof(std::int32_t)) {
        return "ids are not dense rows of i32";
    }
    return objection_to_weights(*node.src[0], *node.src[1], node);
}

Demand demand(const Tensor& node, int threads) { return RepackProduct(node).demand(threads); }

void run(const Tensor& node, const Task& task) {
    if (!is_empty(node)) RepackProduct(node).run(task);
}

}  // namespace

extern const Kernel kMulMatRepacked{.name = "mul_mat_repacked",
                                    .op = GGML_OP_MUL_MAT,
                                    .objection = objection_to_product,
                                    .run = run,
                                    .demand = demand,
                                    .reads_repacked = true};

extern const Kernel kMulMatIdRepacked{.name = "mul_mat_id_repacked",
                                      .op = GGML_OP_MUL_MAT_ID,
                                      .objection = objection_to_mixture,
                                      .run = run,
                                      .demand = demand,
                                      .reads_repacked = true};

}  // namespace heddle::cpu
