#include "ops/add_id.hpp"

#include "backends/cpu/kernels/elementwise/spans.hpp"
#include "ggml/op_list.h"

namespace heddle::cpu {
namespace {

std::string_view objection(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1], &ids = *node.src[2];
    if (a.type != GGML_TYPE_F32 || b.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) {
        return "a, b and the result are not f32";
    }
    if (ids.type != GGML_TYPE_I32) return "ids are not i32";
    if (!same_shape(node, a)) return "the result does not have the extents of a";
    if (a.ne[0] != b.ne[0]) return "rows of a and b differ in length";
    if (a.ne[1] != ids.ne[0] || a.ne[2] != ids.ne[1]) return "ids are not one for each row of a";
    if (!has_packed_rows(a) || !has_packed_rows(b) || !has_packed_rows(node)) {
        return "rows are not dense";
    }
    return {};
}

/// To each row the row of b that its id names.
void run(const Tensor& node, const Task& task) {
    const Tensor &a = *node.src[0], &b = *node.src[1], &ids = *node.src[2];
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        const std::int32_t id = *at<const std::int32_t>(ids, row.i1, row.i2);
        if (id < 0 || id >= b.ne[1]) {
            task.fail([&] {
                return text("id ", id, " is not below ", b.ne[1], ", the number of rows of b");
            });
            return;
        }
        const float* x = row_at<const float>(a, row);
        const float* added = at<const float>(b, 0, id);
        float* y = row_at<float>(node, row);
        for (std::int64_t i = 0; i < node.ne[0]; ++i) y[i] = x[i] + added[i];
    });
}

}  // namespace

extern const Kernel kAddId{
    .name = "add_id", .op = GGML_OP_ADD_ID, .objection = objection, .run = run};

}  // namespace heddle::cpu
