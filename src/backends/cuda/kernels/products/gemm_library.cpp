#include "backends/cuda/kernels/products/gemm_library.hpp"

#include <cublasLt.h>
#include <dlfcn.h>

#include <array>
#include <mutex>

#include "backends/cuda/kernels/products/half_activations.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_reduce.h"
#include "ops/matmul.hpp"

/// Products of many columns with float weights, by cuBLASLt, if it is there. Sums and results are
/// f32. F32 weights are multiplied as TF32 unless precision is asked for.
namespace heddle::cuda {
namespace {

constexpr std::int64_t kLeastColumns = 9;
constexpr std::size_t kWorkspace = 32 << 20;

/// The functions of the library. It is opened when the first product is to be judged, so that the
/// backend loads without it.
class Library {
public:
    static const Library& get() {
        static const Library library;
        return library;
    }
    bool is_there() const { return is_there_; }

    /// The handle of the current device; null if the library cannot make one.
    cublasLtHandle_t handle() const {
        static std::mutex one_at_a_time;
        static std::array<cublasLtHandle_t, 64> handles{};
        int device = 0;
        if (cudaGetDevice(&device) != cudaSuccess || device < 0) return nullptr;
        if (static_cast<std::size_t>(device) >= handles.size()) return nullptr;
        const std::lock_guard guard(one_at_a_time);
        cublasLtHandle_t& handle = handles[static_cast<std::size_t>(device)];
        if (handle == nullptr && create(&handle) != CUBLAS_STATUS_SUCCESS) handle = nullptr;
        return handle;
    }

    decltype(&cublasLtCreate) create = nullptr;
    decltype(&cublasLtMatmul) matmul = nullptr;
    decltype(&cublasLtMatmulDescCreate) description_create = nullptr;
    decltype(&cublasLtMatmulDescDestroy) description_destroy = nullptr;
    decltype(&cublasLtMatmulDescSetAttribute) description_set = nullptr;
    decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
    decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
    decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
    decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
    decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
    decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
    decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;

private:
    Library() {
        void* const opened = dlopen("libcublasLt.so." HEDDLE_CUBLASLT_MAJOR, RTLD_NOW | RTLD_LOCAL);
        if (opened == nullptr) return;
        is_there_ = true;
        find(opened, "cublasLtCreate", create);
        find(opened, "cublasLtMatmul", matmul);
        find(opened, "cublasLtMatmulDescCreate", description_create);
        find(opened, "cublasLtMatmulDescDestroy", description_destroy);
        find(opened, "cublasLtMatmulDescSetAttribute", description_set);
        find(opened, "cublasLtMatrixLayoutCreate", layout_create);
        find(opened, "cublasLtMatrixLayoutDestroy", layout_destroy);
        find(opened, "cublasLtMatrixLayoutSetAttribute", layout_set);
        find(opened, "cublasLtMatmulPreferenceCreate", preference_create);
        find(opened, "cublasLtMatmulPreferenceDestroy", preference_destroy);
        find(opened, "cublasLtMatmulPreferenceSetAttribute", preference_set);
        find(opened, "cublasLtMatmulAlgoGetHeuristic", heuristic);
    }
    template <class Function>
    void find(void* opened, const char* name, Function& function) {
        function = reinterpret_cast<Function>(dlsym(opened, name));
        is_there_ = is_there_ && function != nullptr;
    }

    bool is_there_ = false;
};

/// Things of the library that are made and given back.
class Product {
public:
    Product(const Library& library, cublasComputeType_t compute, cudaDataType_t type)
        : library_(library), type_(type) {
        const cublasOperation_t transposed = CUBLAS_OP_T;
        good_ = library.description_create(&description_, compute, CUDA_R_32F) ==
                    CUBLAS_STATUS_SUCCESS &&
                library.description_set(description_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                        sizeof transposed) == CUBLAS_STATUS_SUCCESS &&
                library.preference_create(&preference_) == CUBLAS_STATUS_SUCCESS;
        prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    }
    Product(const Product&) = delete;
    Product& operator=(const Product&) = delete;
    ~Product() {
        for (const cublasLtMatrixLayout_t layout : layouts_)
            if (layout != nullptr) library_.layout_destroy(layout);
        if (preference_ != nullptr) library_.preference_destroy(preference_);
        if (description_ != nullptr) library_.description_destroy(description_);
    }

    /// Matrices of weights (0), activations (1) and results (2), `count` of them `apart` elements.
    void set_layout(std::size_t which, std::int64_t rows, std::int64_t columns, std::int64_t pitch,
                    int count, std::int64_t apart) {
        const cudaDataType_t type = which == 2 ? CUDA_R_32F : type_;
        cublasLtMatrixLayout_t& layout = layouts_[which];
        good_ = good_ &&
                library_.layout_create(&layout, type, static_cast<std::uint64_t>(rows),
                                       static_cast<std::uint64_t>(columns),
                                       pitch) == CUBLAS_STATUS_SUCCESS &&
                library_.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                    sizeof count) == CUBLAS_STATUS_SUCCESS &&
                library_.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart,
                                    sizeof apart) == CUBLAS_STATUS_SUCCESS;
    }

    /// Chooses a kernel for operands whose addresses are multiples of `alignment`.
    bool choose(cublasLtHandle_t handle, std::uint32_t alignment) {
        for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
            prefer(attribute, alignment);
        int found = 0;
        good_ = good_ &&
                library_.heuristic(handle, description_, layouts_[0], layouts_[1], layouts_[2],
                                   layouts_[2], preference_, 1, &chosen_,
                                   &found) == CUBLAS_STATUS_SUCCESS &&
                found == 1;
        return good_;
    }

    bool run(cublasLtHandle_t handle, const void* a, const void* b, void* y, void* workspace,
             cudaStream_t stream) const {
        const float one = 1, zero = 0;
        return library_.matmul(handle, description_, &one, a, layouts_[0], b, layouts_[1], &zero, y,
                               layouts_[2], y, layouts_[2], &chosen_.algo, workspace, kWorkspace,
                               stream) == CUBLAS_STATUS_SUCCESS;
    }

private:
    template <class Value>
    void prefer(cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
        good_ = good_ && library_.preference_set(preference_, attribute, &value, sizeof value) ==
                             CUBLAS_STATUS_SUCCESS;
    }

    const Library& library_;
    cudaDataType_t type_;
    bool good_ = false;
    cublasLtMatmulDesc_t description_ = nullptr;
    cublasLtMatmulPreference_t preference_ = nullptr;
    std::array<cublasLtMatrixLayout_t, 3> layouts_{};
    cublasLtMatmulHeuristicResult_t chosen_{};
};

bool is_aligned(const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0; }

bool is_f32(const Tensor& node) { return node.src[0]->type == GGML_TYPE_F32; }

std::string_view objection(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (const auto reason = product_objection(node); !reason.empty()) return reason;
    if (a.type != GGML_TYPE_F32 && a.type != GGML_TYPE_F16 && a.type != GGML_TYPE_BF16)
        return "weights are not f32, f16 or bf16";
    if (is_empty(node) || a.ne[0] == 0) return "an operand is empty";
    if (node.ne[1] * node.ne[2] * node.ne[3] < kLeastColumns) return "too few columns";
    const std::size_t element = size_of(a.type);
    if (a.nb[1] % 16 != 0 || a.nb[2] % 16 != 0 || a.nb[3] % 16 != 0 ||
        (a.view_src != nullptr && a.view_offs % 16 != 0))
        return "rows of the weights do not begin at multiples of 16 bytes";
    if (a.nb[1] < static_cast<std::size_t>(a.ne[0]) * element) return "rows of the weights overlap";
    if (is_f32(node) && (b.type != GGML_TYPE_F32 || !is_contiguous(b) || b.ne[0] % 4 != 0))
        return "f32 activations are not contiguous";
    if (!Library::get().is_there()) return "cuBLASLt is not there";
    return {};
}

std::size_t scratch(const Tensor& node, const DeviceFacts&) {
    const std::size_t acts = is_f32(node) ? 0 : HalfActivations(*node.src[1]).bytes();
    return acts + kWorkspace;
}

cudaDataType_t data_type(ggml_type type) {
    return type == GGML_TYPE_F32 ? CUDA_R_32F : type == GGML_TYPE_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

/// Columns of all results that use one matrix of weights lie next to each other. `acts`: columns of
/// `depth` elements of the weights' type. False if the library declines.
bool multiply(const Tensor& node, const std::byte* acts, std::int64_t depth, std::byte* workspace,
              const Launch& launch) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    const Library& library = Library::get();
    const cublasLtHandle_t handle = library.handle();
    const bool wants_precision =
        unpack<ops::MulMat::Params>(node).precision == GGML_PREC_F32 && is_f32(node);
    Product product(
        library,
        is_f32(node) && !wants_precision ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
        data_type(a.type));

    const std::int64_t element = static_cast<std::int64_t>(size_of(a.type));
    const std::int64_t repeat2 = b.ne[2] / a.ne[2], repeat3 = b.ne[3] / a.ne[3];
    const std::int64_t columns = node.ne[1] * repeat2, rows = a.ne[1];
    const int matrices = static_cast<int>(a.ne[2]);
    product.set_layout(0, a.ne[0], rows, static_cast<std::int64_t>(a.nb[1]) / element, matrices,
                       static_cast<std::int64_t>(a.nb[2]) / element);
    product.set_layout(1, a.ne[0], columns, depth, matrices, columns * depth);
    product.set_layout(2, rows, columns, rows, matrices, columns * rows);
    const std::uint32_t result_alignment = rows % 4 == 0 ? 16 : 4;
    if (handle == nullptr || !is_aligned(a) || !product.choose(handle, result_alignment))
        return false;
    const std::int64_t plane = node.ne[1] * node.ne[2];  // columns of one i3
    for (std::int64_t i3 = 0; i3 < node.ne[3]; ++i3) {
        const auto* weights = static_cast<const std::byte*>(a.data) +
                              static_cast<std::size_t>(i3 / repeat3) * a.nb[3];
        auto* const y = static_cast<float*>(node.data) + i3 * plane * rows;
        if (!product.run(handle, weights, acts + i3 * plane * depth * element, y, workspace,
                         launch.stream))
            return false;
    }
    return true;
}

void launch_library(const Tensor& node, const Launch& launch) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (is_f32(node)) {
        if (!is_aligned(b) ||
            !multiply(node, static_cast<const std::byte*>(b.data), b.ne[0], launch.scratch, launch))
            launch_gemm_generic(node, launch);
        return;
    }
    const HalfActivations halves(b);
    convert_activations(b, a.type, launch.scratch, launch);
    if (!multiply(node, launch.scratch, halves.depth, launch.scratch + halves.bytes(), launch))
        return launch_gemm_generic(node, launch);
    if (a.type == GGML_TYPE_F16)
        finish_results(halves, launch.scratch, {{{static_cast<float*>(node.data), a.ne[1]}}, 1},
                       launch);
}

}  // namespace

bool can_group_by_library(const Tensor& product) {
    const Tensor& a = *product.src[0];
    return !is_f32(product) && a.ne[2] == 1 && a.ne[3] == 1 && is_aligned(a) && is_aligned(product);
}

bool launch_library_products(std::span<const Tensor* const> nodes, const TileSource& source,
                             const Tensor* sum, const Launch& launch) {
    const Tensor& first = *nodes.front();
    const ggml_type type = first.src[0]->type;
    const HalfActivations halves(*first.src[1]);
    convert_to_tiles(source, type, WeightOrder::plain,
                     TiledActivations::dense(halves.columns, first.src[0]->ne[0]), launch.scratch,
                     launch);
    ScaledResults results{};
    for (const Tensor* node : nodes) {
        if (!multiply(*node, launch.scratch, halves.depth, launch.scratch + halves.bytes(), launch))
            return false;
        results.of[results.count++] = {static_cast<float*>(node->data), node->ne[0]};
    }
    if (sum != nullptr) {
        results.of[0].addend =
            static_cast<const float*>(sum->src[sum->src[0] == &first ? 1 : 0]->data);
        results.of[0].sum = static_cast<float*>(sum->data);
    }
    if (type == GGML_TYPE_F16 || sum != nullptr)
        finish_results(halves, launch.scratch, results, launch);
    return true;
}

const Kernel kGemmLibrary{"gemm_library", GGML_OP_MUL_MAT, objection, scratch, launch_library};

}  // namespace heddle::cuda
