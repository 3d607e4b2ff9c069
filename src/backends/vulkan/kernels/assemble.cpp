// CONCAT, REPEAT, REPEAT_BACK, PAD, PAD_REFLECT_1D, ROLL, SET, ACC, and the windows of image
// models.

#include "backends/gpu/conditions/assemble.hpp"

#include "backends/vulkan/kernels/common.hpp"
#include "backends/vulkan/kernels/copy.hpp"
#include "ggml/op_list.h"

namespace heddle::vulkan {
namespace {

/// As shaders/assemble.comp has them.
enum Function {
    concat,
    repeat,
    repeat_back,
    pad,
    reflect,
    roll,
    set,
    acc,
    win_part,
    win_unpart,
    get_rel_pos,
    add_rel_pos
};

void record(const Tensor& node, Recorder& recorder, int function, const Arguments& arguments,
            std::int64_t count) {
    const int unit = static_cast<int>(size_of(node.type));
    recorder.run_elements({.shader = Shader::assemble,
                           .values = {function, type_of(node.src[0]), type_of(&node), unit}},
                          arguments, count);
}

/// Whole blocks are moved.
void record_units(const Tensor& node, Recorder& recorder, int function, const Arguments& plain) {
    Arguments a = plain;
    a.y = unit_operand(&node);
    a.src[0] = unit_operand(node.src[0]);
    a.src[1] = unit_operand(node.src[1]);
    record(node, recorder, function, a, element_count(node) / block_size(node.type));
}

void record_concat(const Tensor& node, Recorder& recorder) {
    Arguments a = arguments(node);
    a.i[0] = unpack<ops::Concat::Params>(node).dim;
    record_units(node, recorder, concat, a);
}

void record_repeat(const Tensor& node, Recorder& recorder) {
    record_units(node, recorder, repeat, arguments(node));
}

template <int kFunction>
void record_plain(const Tensor& node, Recorder& recorder) {
    Arguments a = arguments(node);
    if (kFunction == add_rel_pos) a.i[0] = static_cast<std::int32_t>(node.src[1]->ne[0]);
    record(node, recorder, kFunction, a, element_count(node));
}

void record_pad(const Tensor& node, Recorder& recorder) {
    const auto params = unpack<ops::Pad::Params>(node);
    Arguments a = arguments(node);
    for (std::size_t d = 0; d < kMaxDims; ++d) a.i[d] = params.amount[d].before;
    a.i[4] = params.circular;
    record(node, recorder, pad, a, element_count(node));
}

void record_reflect(const Tensor& node, Recorder& recorder) {
    Arguments a = arguments(node);
    a.i[0] = unpack<ops::PadReflect1d::Params>(node).before;
    record(node, recorder, reflect, a, element_count(node));
}

void record_roll(const Tensor& node, Recorder& recorder) {
    Arguments a = arguments(node);
    const auto params = unpack<ops::Roll::Params>(node);
    for (std::size_t d = 0; d < kMaxDims; ++d) a.i[d] = params.shift[d];
    record(node, recorder, roll, a, element_count(node));
}

/// The result starts as a copy of a, unless it is a; b is written to a part of it.
template <int kFunction>
void record_region(const Tensor& node, Recorder& recorder) {
    const auto params = unpack<ops::RegionOp::Params>(node);
    Arguments a = arguments(node);
    if (params.in_place == 0 && node.data != node.src[0]->data) {
        record_bytes(recorder, a.y.data, a.src[0].data, byte_size(node));
        recorder.barrier();
    }
    a.y.data += static_cast<std::uint64_t>(params.offset);
    a.y.stride[1] = params.nb1, a.y.stride[2] = params.nb2, a.y.stride[3] = params.nb3;
    record(node, recorder, kFunction, a, element_count(*node.src[1]));
}

void record_win_part(const Tensor& node, Recorder& recorder) {
    const auto params = unpack<ops::WinPart::Params>(node);
    Arguments a = arguments(node);
    a.i[0] = params.across, a.i[1] = params.width;
    record(node, recorder, win_part, a, element_count(node));
}

void record_win_unpart(const Tensor& node, Recorder& recorder) {
    const std::int32_t width = unpack<ops::WinUnpart::Params>(node).width;
    Arguments a = arguments(node);
    a.i[0] = static_cast<std::int32_t>((node.ne[1] + width - 1) / width);
    a.i[1] = width;
    record(node, recorder, win_unpart, a, element_count(node));
}

using namespace gpu::assemble;

constexpr Kernel kKernels[] = {
    {"concat", GGML_OP_CONCAT, concat_objection, record_concat},
    {"repeat", GGML_OP_REPEAT, repeat_objection, record_repeat},
    {"repeat_back", GGML_OP_REPEAT_BACK, repeat_back_objection, record_plain<repeat_back>},
    {"pad", GGML_OP_PAD, pad_objection, record_pad},
    {"pad_reflect_1d", GGML_OP_PAD_REFLECT_1D, reflect_objection, record_reflect},
    {"roll", GGML_OP_ROLL, roll_objection, record_roll},
    {"set", GGML_OP_SET, set_objection, record_region<set>},
    {"acc", GGML_OP_ACC, acc_objection, record_region<acc>},
    {"win_part", GGML_OP_WIN_PART, win_part_objection, record_win_part},
    {"win_unpart", GGML_OP_WIN_UNPART, win_unpart_objection, record_win_unpart},
    {"get_rel_pos", GGML_OP_GET_REL_POS, get_rel_pos_objection, record_plain<get_rel_pos>},
    {"add_rel_pos", GGML_OP_ADD_REL_POS, add_rel_pos_objection, record_plain<add_rel_pos>},
};

}  // namespace

std::span<const Kernel> assemble_kernels() { return kKernels; }

}  // namespace heddle::vulkan
