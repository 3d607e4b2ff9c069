// ARGSORT and TOP_K: bitonic sorting.

#include "ops/sort.hpp"

#include <bit>

#include "backends/gpu/conditions/common.hpp"
#include "backends/vulkan/kernels/common.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_reduce.h"

namespace heddle::vulkan {
namespace {

/// As shaders/sort.comp has them.
enum Function { sort_pieces, step_between, merge_pieces };
constexpr std::int64_t kPiece = 2048;

std::int64_t padded_length(const Tensor& node) {
    return static_cast<std::int64_t>(
        std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(node.src[0]->ne[0], 2))));
}

std::size_t sort_scratch(const Tensor& node, const DeviceFacts&) {
    const std::int64_t length = padded_length(node);
    if (length <= kPiece) return 0;
    return static_cast<std::size_t>(length * row_count(*node.src[0])) * 8;
}

std::string_view objection(const Tensor& node) {
    if (node.type != GGML_TYPE_I32) return "the result is not I32";
    if (node.src[0] == nullptr || !gpu::is_float(*node.src[0])) return "the operand is not F32";
    if (row_count(node) != row_count(*node.src[0]) || node.ne[0] > node.src[0]->ne[0]) {
        return "shapes do not fit";
    }
    if (padded_length(node) * row_count(node) > INT32_MAX) return "there are too many elements";
    return {};
}

void record_sort(const Tensor& node, Recorder& recorder, bool is_descending) {
    const std::int64_t rows = row_count(*node.src[0]), length = padded_length(node);
    const std::int64_t piece = std::min(length, kPiece), pieces = length / piece;
    Arguments a = arguments(node);
    a.i[0] = static_cast<std::int32_t>(length);
    a.i[1] = static_cast<std::int32_t>(piece);
    const auto work = [&](int function) {
        return Recorder::Work{.shader = Shader::sort,
                              .values = {function, type_of(node.src[0]), is_descending ? 1 : 0}};
    };
    recorder.run_rows(work(sort_pieces), a, rows * pieces);
    for (std::int64_t block = 2 * piece; block <= length; block *= 2) {
        a.i[2] = static_cast<std::int32_t>(block);
        for (std::int64_t distance = block / 2; distance >= piece; distance /= 2) {
            a.i[3] = static_cast<std::int32_t>(distance);
            recorder.barrier();
            recorder.run_elements(work(step_between), a, rows * length / 2);
        }
        recorder.barrier();
        recorder.run_rows(work(merge_pieces), a, rows * pieces);
    }
}

void record_argsort(const Tensor& node, Recorder& recorder) {
    record_sort(node, recorder, unpack<ops::Argsort::Params>(node).order == GGML_SORT_ORDER_DESC);
}
void record_top_k(const Tensor& node, Recorder& recorder) { record_sort(node, recorder, true); }

constexpr Kernel kKernels[] = {
    {"argsort_bitonic", GGML_OP_ARGSORT, objection, record_argsort, sort_scratch},
    {"top_k_bitonic", GGML_OP_TOP_K, objection, record_top_k, sort_scratch},
};

}  // namespace

std::span<const Kernel> sort_kernels() { return kKernels; }

}  // namespace heddle::vulkan
