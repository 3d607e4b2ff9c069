// GET_ROWS, SET_ROWS and GET_ROWS_BACK. An index outside of the table reads zeros, writes nothing,
// and is reported.

#include "backends/gpu/conditions/index.hpp"

#include "backends/vulkan/kernels/common.hpp"
#include "ggml/op_list.h"

namespace heddle::vulkan {
namespace {

/// As shaders/index.comp has them.
enum Function { get, set, back };

void record_plain(const Tensor& node, Recorder& recorder, int function, std::int64_t count) {
    Arguments a = arguments(node);
    if (function == back) a.i[0] = static_cast<std::int32_t>(element_count(*node.src[1]));
    recorder.run_elements(
        {.shader = Shader::index, .values = {function, type_of(node.src[0]), type_of(&node)}}, a,
        count);
}

void record_get(const Tensor& node, Recorder& recorder) {
    record_plain(node, recorder, get, element_count(node));
}
void record_set(const Tensor& node, Recorder& recorder) {
    record_plain(node, recorder, set, element_count(*node.src[0]));
}
void record_back(const Tensor& node, Recorder& recorder) {
    record_plain(node, recorder, back, element_count(node));
}

void record_get_blocks(const Tensor& node, Recorder& recorder) {
    recorder.run_elements(
        {.shader = Shader::decode, .values = {type_of(node.src[0]), type_of(&node), 1}},
        arguments(node), element_count(node) / 8);
}

void record_set_blocks(const Tensor& node, Recorder& recorder) {
    Arguments a = arguments(node);
    a.y = unit_operand(&node);
    recorder.run_elements({.shader = Shader::encode,
                           .workgroup = 64,
                           .values = {type_of(node.src[0]), type_of(&node), 1}},
                          a, element_count(*node.src[0]) / block_size(node.type));
}

using namespace gpu::index;

constexpr Kernel kKernels[] = {
    {"get_rows_plain", GGML_OP_GET_ROWS, get_plain_objection, record_get},
    {"get_rows_blocks", GGML_OP_GET_ROWS, get_blocks_objection, record_get_blocks},
    {"set_rows_plain", GGML_OP_SET_ROWS, set_plain_objection, record_set},
    {"set_rows_blocks", GGML_OP_SET_ROWS, set_blocks_objection, record_set_blocks},
    {"get_rows_back", GGML_OP_GET_ROWS_BACK, back_objection, record_back},
};

}  // namespace

std::span<const Kernel> index_kernels() { return kKernels; }

}  // namespace heddle::vulkan
