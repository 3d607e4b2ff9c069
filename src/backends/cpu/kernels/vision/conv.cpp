#include <algorithm>

#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/dot/multiplier.hpp"
#include "backends/cpu/kernels/node_flops.hpp"
#include "backends/cpu/kernels/vision/patches.hpp"
#include "ops/convolution.hpp"

namespace heddle::cpu {
namespace {

/// Output channels that are computed together.
constexpr int kColumns = 16;

/// Bytes of patches that should be at hand at once, and how many patches these may be.
constexpr std::int64_t kPatchBytes = 1 << 20;
constexpr std::int64_t kFewestPatches = 16, kMostPatches = 128;

/// A convolution as products of patches, a chunk of them at a time, and kernels.
struct Convolution {
    SlidingVolume volume;
    const Tensor *node, *kernel;
    std::int64_t out_channels;

    Type type() const { return kernel->type; }
    std::int64_t depth() const { return volume.patch_size(); }

    /// Bytes from one row to the next, an odd number of cache lines: rows a power of two apart
    /// would crowd the same few places of the cache.
    static std::size_t pitch_of(Type type, std::int64_t elements) {
        return (row_size(type, elements) / 64 + 1) / 2 * 128 + 64;
    }
    std::size_t patch_pitch() const { return pitch_of(type(), depth()); }
    std::size_t column_pitch() const { return pitch_of(GGML_TYPE_F32, depth()); }

    std::int64_t patches_per_chunk() const {
        const std::int64_t fitting = kPatchBytes / static_cast<std::int64_t>(patch_pitch());
        return std::clamp(fitting, kFewestPatches, kMostPatches);
    }
    std::int64_t chunks_per_batch() const {
        const std::int64_t patches = patches_per_chunk();
        return (volume.pixels() + patches - 1) / patches;
    }

    /// Kernels of f16 are widened, `kColumns` at a time.
    bool widens() const { return type() != GGML_TYPE_F32; }

    std::size_t scratch_per_task() const {
        const std::size_t columns = widens() ? kColumns * column_pitch() : 0;
        return static_cast<std::size_t>(patches_per_chunk()) * patch_pitch() + columns;
    }

    /// Where the pixels of an output channel lie.
    float* plane(std::int64_t batch, std::int64_t channel) const {
        return static_cast<float*>(node->data) + (batch * out_channels + channel) * volume.pixels();
    }

    void multiply(const MatrixView& view, std::int64_t batch, std::int64_t pixel, Range channels,
                  std::byte* scratch) const;
};

void Convolution::multiply(const MatrixView& view, std::int64_t batch, std::int64_t pixel,
                           Range channels, std::byte* scratch) const {
    const MultiplyRows multiply_rows = plain_multiply_of(type());
    const auto* weights = static_cast<const std::byte*>(kernel->data);
    const std::size_t row = row_size(type(), depth());
    for (std::int64_t first = channels.begin; first < channels.end; first += kColumns) {
        const auto count = static_cast<int>(std::min<std::int64_t>(kColumns, channels.end - first));
        const std::byte* columns[kColumns];
        float* results[kColumns];
        for (int c = 0; c < count; ++c) {
            columns[c] = weights + static_cast<std::size_t>(first + c) * row;
            results[c] = plane(batch, first + c) + pixel;
            if (!widens()) continue;
            std::byte* widened = scratch + static_cast<std::size_t>(c) * column_pitch();
            f16_to_f32_row(columns[c], reinterpret_cast<float*>(widened), depth());
            columns[c] = widened;
        }
        multiply_rows(view, columns, results, count);
    }
}

/// The data are rounded to the kernel's type; sums are of single precision.
void run(const Convolution& conv, const Task& task) {
    if (is_empty(*conv.node)) return;
    const std::int64_t patches = conv.patches_per_chunk(), chunks = conv.chunks_per_batch();
    // Where there are few chunks, several tasks share each, and part the output channels.
    const std::int64_t wanted = 2 * task.count / (chunks * conv.volume.batches) + 1;
    const std::int64_t blocks = (conv.out_channels + kColumns - 1) / kColumns;
    const std::int64_t parts = task.count > 1 ? std::min(wanted, blocks) : 1;
    std::byte* gathered =
        task.scratch + static_cast<std::size_t>(task.index) * conv.scratch_per_task();
    std::byte* widened = gathered + static_cast<std::size_t>(patches) * conv.patch_pitch();

    const Range pieces = task.share(conv.volume.batches * chunks * parts);
    std::int64_t ready = -1;  // the chunk whose patches are gathered
    for (std::int64_t piece = pieces.begin; piece < pieces.end; ++piece) {
        const std::int64_t part = piece % parts, chunk = piece / parts;
        const std::int64_t batch = chunk / chunks, first = chunk % chunks * patches;
        const std::int64_t end = std::min(first + patches, conv.volume.pixels());
        if (chunk != ready) {
            gather_patches(conv.volume, batch, {first, end}, conv.type(), gathered,
                           conv.patch_pitch());
            ready = chunk;
        }
        const MatrixView view{.type = conv.type(),
                              .rows = gathered,
                              .pitch = conv.patch_pitch(),
                              .count = end - first,
                              .depth = conv.depth()};
        const Range channels{blocks * part / parts * kColumns,
                             std::min(blocks * (part + 1) / parts * kColumns, conv.out_channels)};
        conv.multiply(view, batch, first, channels, widened);
    }
}

Demand demand(const Convolution& conv, double flops, int threads) {
    const std::int64_t blocks = (conv.out_channels + kColumns - 1) / kColumns;
    const std::int64_t pieces = conv.volume.batches * conv.chunks_per_batch() * blocks;
    const int tasks = worthwhile_tasks(0, flops, pieces, threads);
    return {.tasks = tasks, .scratch = static_cast<std::size_t>(tasks) * conv.scratch_per_task()};
}

std::string_view objection(const Convolution& conv) {
    if (!is_contiguous(*conv.kernel)) return "the kernel is not contiguous";
    if (conv.type() != GGML_TYPE_F32 && conv.type() != GGML_TYPE_F16) {
        return "the kernel is not f32 or f16";
    }
    if (conv.volume.data->type != GGML_TYPE_F32) return "x is not f32";
    if (!is_contiguous(*conv.node)) return "the result is not contiguous";
    return patches_objection(conv.volume, conv.type());
}

Convolution conv_2d(const Tensor& node) {
    const auto window = unpack<ops::Conv2d::Params>(node);
    const Tensor &kernel = *node.src[0], &x = *node.src[1];
    return {.volume = {.data = &x,
                       .width = sliding_axis(window, 0, x, kernel.ne[0], node.ne[0]),
                       .height = sliding_axis(window, 1, x, kernel.ne[1], node.ne[1]),
                       .depth = {},
                       .channels = x.ne[2],
                       .batches = x.ne[3],
                       .channel_pitch = x.nb[2],
                       .batch_pitch = x.nb[3]},
            .node = &node,
            .kernel = &kernel,
            .out_channels = kernel.ne[3]};
}

Convolution conv_3d(const Tensor& node) {
    const auto [window, channels, batches, out_channels] = unpack<ops::Conv3d::Params>(node);
    const Tensor &kernel = *node.src[0], &x = *node.src[1];
    return {.volume = {.data = &x,
                       .width = sliding_axis(window, 0, x, kernel.ne[0], node.ne[0]),
                       .height = sliding_axis(window, 1, x, kernel.ne[1], node.ne[1]),
                       .depth = sliding_axis(window, 2, x, kernel.ne[2], node.ne[2]),
                       .channels = channels,
                       .batches = batches,
                       .channel_pitch = x.nb[3],
                       .batch_pitch = x.nb[3] * static_cast<std::size_t>(channels)},
            .node = &node,
            .kernel = &kernel,
            .out_channels = out_channels};
}

/// The functions of a kernel for the op of descriptor `D`.
template <class D, Convolution (*kOf)(const Tensor&)>
struct Entry {
    static std::string_view objection(const Tensor& node) { return cpu::objection(kOf(node)); }
    static void run(const Tensor& node, const Task& task) { cpu::run(kOf(node), task); }
    static Demand demand(const Tensor& node, int threads) {
        return cpu::demand(kOf(node), flops_of<D>(node), threads);
    }
    static constexpr Kernel kernel(std::string_view name) {
        return {.name = name, .op = D::id, .objection = objection, .run = run, .demand = demand};
    }
};

}  // namespace

extern const Kernel kConv2d = Entry<ops::Conv2d, conv_2d>::kernel("conv_2d");
extern const Kernel kConv3d = Entry<ops::Conv3d, conv_3d>::kernel("conv_3d");

}  // namespace heddle::cpu
