// CPY, DUP and CONT: element number e of the source becomes element number e of the result.

#include "backends/vulkan/kernels/copy.hpp"

#include "backends/gpu/conditions/copy.hpp"
#include "backends/vulkan/kernels/common.hpp"
#include "ggml/op_list.h"

namespace heddle::vulkan {

void record_bytes(Recorder& recorder, std::uint64_t to, std::uint64_t from, std::size_t size) {
    int unit = 16;
    while ((to | from | size) % static_cast<unsigned>(unit) != 0) unit /= 2;
    const auto count = static_cast<std::int64_t>(size) / unit;
    Arguments a;
    for (Operand* each : {&a.y, &a.src[0]}) {
        each->extent[0] = static_cast<std::int32_t>(count);
        each->extent[1] = each->extent[2] = each->extent[3] = 1;
        each->stride[0] = unit;
    }
    a.y.data = to;
    a.src[0].data = from;
    recorder.run_elements({.shader = Shader::copy, .values = {unit, 0, 0, 1}}, a, count);
}

namespace {

void record_dense(const Tensor& node, Recorder& recorder) {
    if (node.data == node.src[0]->data) return;
    record_bytes(recorder, reinterpret_cast<std::uint64_t>(node.data),
                 reinterpret_cast<std::uint64_t>(node.src[0]->data), byte_size(node));
}

void record_units(const Tensor& node, Recorder& recorder) {
    Arguments a = arguments(node);
    a.y = unit_operand(&node);
    a.src[0] = unit_operand(node.src[0]);
    const int bytes = static_cast<int>(size_of(node.type));
    recorder.run_elements(
        {.shader = Shader::copy, .values = {bytes, 0, 0, same_shape(*node.src[0], node) ? 1 : 0}},
        a, element_count(node) / block_size(node.type));
}

void record_plain(const Tensor& node, Recorder& recorder) {
    recorder.run_elements({.shader = Shader::copy,
                           .values = {0, type_of(node.src[0]), type_of(&node),
                                      same_shape(*node.src[0], node) ? 1 : 0}},
                          arguments(node), element_count(node));
}

void record_decode(const Tensor& node, Recorder& recorder) {
    recorder.run_elements(
        {.shader = Shader::decode, .values = {type_of(node.src[0]), type_of(&node), 0}},
        arguments(node), element_count(node) / 8);
}

void record_encode(const Tensor& node, Recorder& recorder) {
    Arguments a = arguments(node);
    a.y = unit_operand(&node);
    recorder.run_elements({.shader = Shader::encode,
                           .workgroup = 64,
                           .values = {type_of(node.src[0]), type_of(&node), 0}},
                          a, element_count(node) / block_size(node.type));
}

constexpr Kernel row_of(Op op, int which) {
    const Kernel all[] = {
        {"copy_dense", op, gpu::copy::dense_objection, record_dense},
        {"copy_units", op, gpu::copy::units_objection, record_units},
        {"copy_plain", op, gpu::copy::plain_objection, record_plain},
        {"copy_decode", op, gpu::copy::decode_objection, record_decode},
        {"copy_encode", op, gpu::copy::encode_objection, record_encode},
    };
    return all[which];
}

constexpr Kernel kKernels[] = {
    row_of(GGML_OP_CPY, 0),  row_of(GGML_OP_CPY, 1),  row_of(GGML_OP_CPY, 2),
    row_of(GGML_OP_CPY, 3),  row_of(GGML_OP_CPY, 4),  row_of(GGML_OP_DUP, 0),
    row_of(GGML_OP_DUP, 1),  row_of(GGML_OP_DUP, 2),  row_of(GGML_OP_DUP, 3),
    row_of(GGML_OP_DUP, 4),  row_of(GGML_OP_CONT, 0), row_of(GGML_OP_CONT, 1),
    row_of(GGML_OP_CONT, 2), row_of(GGML_OP_CONT, 3), row_of(GGML_OP_CONT, 4),
};

}  // namespace

std::span<const Kernel> copy_kernels() { return kKernels; }

}  // namespace heddle::vulkan
