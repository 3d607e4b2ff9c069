// SUM, SUM_ROWS, MEAN, CUMSUM, ARGMAX and COUNT_EQUAL.

#include "backends/gpu/conditions/reduce.hpp"

#include "backends/vulkan/kernels/common.hpp"
#include "ggml/op_list.h"

namespace heddle::vulkan {
namespace {

/// As shaders/reduce.comp has them.
enum Function { sum_parts, sum_all, count_parts, count_all, sum_rows, argmax };
constexpr std::int64_t kParts = 256;

std::size_t parts_scratch(const Tensor&, const DeviceFacts&) { return kParts * sizeof(float); }

/// Workgroups that each leave one number in the scratch memory, for one workgroup to add up.
template <int kFirst, int kSecond>
void record_whole(const Tensor& node, Recorder& recorder) {
    Arguments a = arguments(node);
    a.i[0] = static_cast<std::int32_t>(element_count(*node.src[0]));
    const std::int32_t from = type_of(node.src[0]), to = type_of(&node);
    recorder.run_rows({.shader = Shader::reduce, .values = {kFirst, from, to}}, a, kParts);
    recorder.barrier();
    recorder.run_rows({.shader = Shader::reduce, .values = {kSecond, from, to}}, a, 1);
}

void record_rows(const Tensor& node, Recorder& recorder, float divisor) {
    Arguments a = arguments(node);
    a.f[0] = divisor;
    recorder.run_rows({.shader = Shader::reduce,
                       .workgroup = row_workgroup(node.src[0]->ne[0]),
                       .values = {sum_rows, type_of(node.src[0]), type_of(&node)}},
                      a, row_count(node));
}
void record_sum_rows(const Tensor& node, Recorder& recorder) { record_rows(node, recorder, 1); }
void record_mean(const Tensor& node, Recorder& recorder) {
    record_rows(node, recorder, static_cast<float>(node.src[0]->ne[0]));
}

void record_cumsum(const Tensor& node, Recorder& recorder) {
    recorder.run_rows({.shader = Shader::cumsum, .workgroup = row_workgroup(node.ne[0])},
                      arguments(node), row_count(node));
}

void record_argmax(const Tensor& node, Recorder& recorder) {
    recorder.run_rows({.shader = Shader::reduce,
                       .workgroup = row_workgroup(node.src[0]->ne[0]),
                       .values = {argmax, type_of(node.src[0])}},
                      arguments(node), node.src[0]->ne[1]);
}

using namespace gpu::reduce;

constexpr Kernel kKernels[] = {
    {"sum", GGML_OP_SUM, sum_objection, record_whole<sum_parts, sum_all>, parts_scratch},
    {"count_equal", GGML_OP_COUNT_EQUAL, count_objection, record_whole<count_parts, count_all>,
     parts_scratch},
    {"sum_rows", GGML_OP_SUM_ROWS, sum_rows_objection, record_sum_rows},
    {"mean", GGML_OP_MEAN, sum_rows_objection, record_mean},
    {"cumsum", GGML_OP_CUMSUM, cumsum_objection, record_cumsum},
    {"argmax", GGML_OP_ARGMAX, argmax_objection, record_argmax},
};

}  // namespace

std::span<const Kernel> reduce_kernels() { return kKernels; }

}  // namespace heddle::vulkan
