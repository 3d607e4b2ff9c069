#include "backends/blas/products.hpp"

#include <cblas.h>

#include <algorithm>
#include <climits>
#include <functional>
#include <mutex>
#include <new>
#include <thread>

#include "ggml/op_list.h"
#include "ggml/ops_reduce.h"
#include "ops/matmul.hpp"
#include "quant/traits.hpp"

/// Only OpenBLAS has it; other libraries choose their threads themselves.
// NOLINTNEXTLINE(readability-redundant-declaration): its header has it too, but not as weak
extern "C" [[gnu::weak]] void openblas_set_num_threads(int count);

namespace heddle::blas {
namespace {

/// Below this many columns and rows the CPU's own kernels are faster than the way to the
/// library and back.
constexpr std::int64_t kLeastExtent = 32;

/// Elements that are worth a thread of their own when they are converted.
constexpr std::int64_t kElementsPerThread = 1 << 18;

/// A matrix as the library takes it.
struct Matrix {
    const float* data;
    int row_length;  ///< elements from row to row
    CBLAS_TRANSPOSE order = CblasNoTrans;
};

/// The result of a product: `rows` times `columns`, densely packed; `depth` terms for each element.
struct Extent {
    int rows, columns, depth;
};

/// y = left * right, rows one after the other. The number of threads belongs to the whole library,
/// so one product runs at a time; it has all the CPUs anyway.
void multiply(const Matrix& left, const Matrix& right, Extent extent, int threads, float* y) {
    static std::mutex one_at_a_time;
    const std::lock_guard guard(one_at_a_time);
    if (&openblas_set_num_threads != nullptr) openblas_set_num_threads(threads);
    cblas_sgemm(CblasRowMajor, left.order, right.order, extent.rows, extent.columns, extent.depth,
                1.0F, left.data, left.row_length, right.data, right.row_length, 0.0F, y,
                extent.columns);
}

bool fits_int(std::initializer_list<std::int64_t> counts) {
    return std::all_of(counts.begin(), counts.end(), [](std::int64_t n) { return n <= INT_MAX; });
}

// ---- matrix products ---------------------------------------------------------------------------

/// How often one matrix of `a` is used, and how many of its uses lie next to each other in `b` and
/// in the result: those are one product with more rows.
struct Groups {
    std::int64_t repeats2, repeats3;  ///< matrices of b for one of a, in dimensions 2 and 3
    std::int64_t merged;              ///< matrices of b in one product

    Groups(const Tensor& a, const Tensor& b)
        : repeats2(b.ne[2] / a.ne[2]),
          repeats3(b.ne[3] / a.ne[3]),
          merged(a.ne[2] == 1 ? repeats2 * repeats3 : repeats2) {}
};

/// With OpenBLAS 0.3 on a Zen 4 core the CPU's own kernels are faster at every size: 1.0
/// to 1.9 times with f32, 1.1 to 4 times with f16 and bf16, which are converted here for each
/// product. Those stay on offer all the same, for who has asked for this device, and may have a
/// library that is better on their machine. Blocks are declined: decoding costs several times the
/// product.
std::string_view mul_mat_objection(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (unpack<ops::MulMat::Params>(node).hint == GGML_HINT_SRC0_IS_HADAMARD) {
        return "a Hadamard matrix has a faster way";
    }
    if (b.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "b is not f32";
    if (!is_contiguous(a) || !is_contiguous(b) || !is_contiguous(node)) {
        return "an operand is not contiguous";
    }
    if (node.ne[0] < kLeastExtent || node.ne[1] < kLeastExtent || b.ne[0] < kLeastExtent) {
        return "too small to be worth it";
    }
    if (type_info(a.type).is_quantized) return "the CPU's kernels for blocks are faster";
    if (a.type != GGML_TYPE_F32 && quant::traits_of(a.type).to_float == nullptr) {
        return "the type of a cannot be converted to f32";
    }
    if (is_empty(a) || is_empty(b)) return "an operand is empty";
    if (!fits_int({node.ne[0], b.ne[0], node.ne[1] * Groups(a, b).merged})) {
        return "more elements than the library can count";
    }
    return {};
}

/// Decodes rows [begin, end) of a dense matrix.
void decode_rows(const Tensor& a, const std::byte* from, float* to, std::int64_t begin,
                 std::int64_t end) {
    const auto decode = quant::traits_of(a.type).to_float;
    for (std::int64_t row = begin; row < end; ++row) {
        decode(from + static_cast<std::size_t>(row) * a.nb[1], to + row * a.ne[0], a.ne[0]);
    }
}

/// The matrix of `a` at `from` in f32: itself, or its copy in the workspace.
Result<const float*> as_floats(const Tensor& a, const std::byte* from, Workspace& workspace) {
    if (a.type == GGML_TYPE_F32) return reinterpret_cast<const float*>(from);
    const std::int64_t count = a.ne[0] * a.ne[1], rows = a.ne[1];
    HEDDLE_TRY_ASSIGN(float* const to, workspace.reserve(static_cast<std::size_t>(count)));
    const std::int64_t worthwhile = std::max<std::int64_t>(1, count / kElementsPerThread);
    const std::int64_t parts =
        std::min({worthwhile, rows, static_cast<std::int64_t>(std::max(workspace.threads, 1))});

    std::vector<std::thread> others;
    std::int64_t taken = rows;  // from here on other threads have them
    try {
        others.reserve(static_cast<std::size_t>(parts - 1));
        for (std::int64_t part = parts - 1; part > 0; --part) {
            const std::int64_t begin = rows * part / parts;
            others.emplace_back(decode_rows, std::cref(a), from, to, begin, taken);
            taken = begin;
        }
    } catch (const std::exception&) {
        // No more threads to be had: the rest is done here.
    }
    decode_rows(a, from, to, 0, taken);
    for (std::thread& other : others) other.join();
    return to;
}

Result<> run_mul_mat(const Tensor& node, Workspace& workspace) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    const Groups groups(a, b);
    const std::int64_t b_size = b.ne[0] * b.ne[1], y_size = node.ne[0] * node.ne[1];
    const Extent extent{.rows = static_cast<int>(b.ne[1] * groups.merged),
                        .columns = static_cast<int>(a.ne[1]),
                        .depth = static_cast<int>(a.ne[0])};
    const auto* b_data = static_cast<const float*>(b.data);
    auto* y_data = static_cast<float*>(node.data);

    for (std::int64_t i3 = 0; i3 < a.ne[3]; ++i3) {
        for (std::int64_t i2 = 0; i2 < a.ne[2]; ++i2) {
            const std::byte* from = static_cast<const std::byte*>(a.data) +
                                    static_cast<std::size_t>(i2) * a.nb[2] +
                                    static_cast<std::size_t>(i3) * a.nb[3];
            HEDDLE_TRY_ASSIGN(const float* const floats, as_floats(a, from, workspace));
            const std::int64_t apart = a.ne[2] == 1 ? 1 : groups.repeats3;
            for (std::int64_t r3 = 0; r3 < apart; ++r3) {
                const std::int64_t first =
                    (i3 * groups.repeats3 + r3) * b.ne[2] + i2 * groups.repeats2;
                multiply({b_data + first * b_size, extent.depth},
                         {floats, extent.depth, CblasTrans}, extent, workspace.threads,
                         y_data + first * y_size);
            }
        }
    }
    return ok();
}

// ---- outer products ----------------------------------------------------------------------------

/// A dense matrix seen with its dimensions swapped.
bool is_dense_transposed(const Tensor& t) {
    return t.nb[1] == sizeof(float) && t.nb[0] == static_cast<std::size_t>(t.ne[1]) * sizeof(float);
}

std::string_view out_prod_objection(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (a.type != GGML_TYPE_F32 || b.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) {
        return "an operand is not f32";
    }
    if (!is_matrix(a) || !is_matrix(b)) return "an operand is not a matrix";
    if (!is_contiguous(a) || !is_contiguous(node)) return "a is not contiguous";
    if (!is_contiguous(b) && !is_dense_transposed(b))
        return "b is neither contiguous nor transposed";
    if (is_empty(a) || is_empty(b)) return "an operand is empty";
    if (!fits_int({a.ne[0], a.ne[1], b.ne[0]})) return "more elements than the library can count";
    return {};
}

Result<> run_out_prod(const Tensor& node, Workspace& workspace) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    const Extent extent{.rows = static_cast<int>(b.ne[0]),
                        .columns = static_cast<int>(a.ne[0]),
                        .depth = static_cast<int>(a.ne[1])};
    const Matrix left = is_contiguous(b)
                            ? Matrix{static_cast<const float*>(b.data), extent.rows, CblasTrans}
                            : Matrix{static_cast<const float*>(b.data), extent.depth};
    multiply(left, {static_cast<const float*>(a.data), extent.columns}, extent, workspace.threads,
             static_cast<float*>(node.data));
    return ok();
}

constexpr Product kProducts[] = {
    {GGML_OP_MUL_MAT, mul_mat_objection, run_mul_mat},
    {GGML_OP_OUT_PROD, out_prod_objection, run_out_prod},
};

}  // namespace

Result<float*> Workspace::reserve(std::size_t count) {
    if (count <= memory_.size()) return memory_.data();
    try {
        memory_ = {};  // first, so that both need not fit
        memory_.resize(count);
    } catch (const std::exception&) {
        memory_ = {};
        return failure(Errc::out_of_memory, "no memory for a matrix of ", count,
                       " numbers converted to f32");
    }
    return memory_.data();
}

std::span<const Product> all_products() { return kProducts; }

const Product* find_product(Op op) {
    for (const Product& product : kProducts) {
        if (product.op == op) return &product;
    }
    return nullptr;
}

}  // namespace heddle::blas
