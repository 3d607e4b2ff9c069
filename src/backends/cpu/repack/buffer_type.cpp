#include "backends/cpu/repack/buffer_type.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cpu/large_pages.hpp"
#include "backends/cpu/pool_cache.hpp"
#include "backends/cpu/repack/repack_kernel.hpp"
#include "backends/cpu/topology.hpp"
#include "ggml-impl.h"

namespace heddle::cpu {
namespace {

/// Bytes that keep a thread busy for longer than it takes to wake it.
constexpr std::size_t kBytesPerTask = 256 * 1024;

/// A matrix to be rearranged, by several threads.
struct Repacking {
    const RepackLayout& layout;
    const std::byte* from;
    std::byte* to;
    std::int64_t rows;      ///< of a matrix
    std::int64_t matrices;  ///< one after the other
    std::int64_t blocks;    ///< of a row
    std::atomic<std::int64_t> next{0};

    static void run(void* context, int) { static_cast<Repacking*>(context)->work(); }

    void work() {
        const std::int64_t micro_panels = (rows + kRepackRows - 1) / kRepackRows;
        const std::size_t pitch = layout.block_size * static_cast<std::size_t>(blocks);
        for (std::int64_t i = next++; i < micro_panels * matrices; i = next++) {
            const std::int64_t first = i % micro_panels * kRepackRows;
            const std::size_t at =
                static_cast<std::size_t>(i / micro_panels * rows + first) * pitch;
            repack_micro_panel(layout, from + at, std::min(kRepackRows, rows - first), blocks,
                               to + at);
        }
    }
};

Result<> repack(Repacking& work, std::size_t size) {
    const auto most = static_cast<std::size_t>(usable_cpus());
    const int tasks = static_cast<int>(std::clamp<std::size_t>(size / kBytesPerTask, 1, most));
    HEDDLE_TRY_ASSIGN(const PoolLease lease, lease_pool(tasks, nullptr));
    if (lease.pool() == nullptr) {
        work.work();
    } else {
        lease.pool()->run({Repacking::run, &work}, tasks);
    }
    return ok();
}

class RepackBuffer {
public:
    RepackBuffer(HostMemory memory, std::size_t size) : memory_(std::move(memory)), size_(size) {}

    void* base() { return memory_.get(); }

    /// Says how the tensor will be laid out.
    Result<> prepare(ggml_tensor& tensor) {
        if (tensor.view_src != nullptr) return ok();
        const RepackLayout* layout = repack_layout_of(tensor.type);
        if (layout == nullptr || tensor.ne[1] % kRepackRowStep != 0 || !is_contiguous(tensor)) {
            return failure(Errc::unsupported, "there is no layout for ", describe(tensor),
                           ": it takes dense matrices of q4_0, q8_0, iq4_nl, mxfp4, q2_K or "
                           "q4_K, with a multiple of ",
                           kRepackRowStep, " rows");
        }
        tensor.extra = const_cast<RepackLayout*>(layout);
        return ok();
    }

    Result<> write_tensor(ggml_tensor& tensor, std::size_t offset,
                          std::span<const std::byte> bytes) {
        HEDDLE_TRY(check_whole(tensor, offset, bytes.size()));
        const auto& layout = *static_cast<const RepackLayout*>(tensor.extra);
        Repacking work{.layout = layout,
                       .from = bytes.data(),
                       .to = static_cast<std::byte*>(tensor.data),
                       .rows = tensor.ne[1],
                       .matrices = tensor.ne[2] * tensor.ne[3],
                       .blocks = tensor.ne[0] / layout.block_elements};
        return repack(work, bytes.size());
    }

    /// Where all bytes are the same it does not matter where they go.
    Result<> fill_tensor(ggml_tensor& tensor, std::size_t offset, std::size_t size,
                         std::uint8_t value) {
        HEDDLE_TRY(check_whole(tensor, offset, size));
        std::memset(tensor.data, value, size);
        return ok();
    }
    void clear(std::uint8_t value) { std::memset(memory_.get(), value, size_); }

private:
    static Result<> check_whole(const ggml_tensor& tensor, std::size_t offset, std::size_t size) {
        const std::size_t all = byte_size(tensor);
        if (offset != 0 || size != all) {
            return invalid(size, " bytes at offset ", offset, " are not all of the tensor's ", all,
                           ": repacked weights are written whole");
        }
        if (tensor.view_src != nullptr || tensor.extra == nullptr) {
            return invalid("the tensor was not placed there by itself, so it has no layout");
        }
        return ok();
    }

    HostMemory memory_;
    const std::size_t size_;
};
static_assert(plugin::BufferImpl<RepackBuffer> && plugin::WritesTensors<RepackBuffer> &&
              plugin::FillsTensors<RepackBuffer> && plugin::PreparesTensors<RepackBuffer> &&
              !plugin::Reads<RepackBuffer> && !plugin::CopiesTensors<RepackBuffer>);

class RepackBufferType : public plugin::BufferType<RepackBufferType> {
public:
    explicit RepackBufferType(ggml_backend_dev_t device) : BufferType(device) {}

    const char* name() { return "CPU_REPACK"; }
    std::size_t alignment() { return TENSOR_ALIGNMENT; }
    bool is_host() { return false; }

    Result<std::unique_ptr<RepackBuffer>> allocate(std::size_t size) {
        HEDDLE_TRY_ASSIGN(HostMemory memory, allocate_weights(size));
        return std::make_unique<RepackBuffer>(std::move(memory), size);
    }
};

}  // namespace

constinit std::atomic<ggml_backend_buffer_type_t> made_repack_type{nullptr};

ggml_backend_buffer_type_t repack_buffer_type(ggml_backend_dev_t device) {
    static plugin::Immortal<RepackBufferType> storage;
    static RepackBufferType& type = storage.make(device);
    made_repack_type.store(type.handle(), std::memory_order_release);
    return type.handle();
}

bool has_repacked_products() { return static_cast<bool>(repack_kernel_of(GGML_TYPE_Q4_0)); }

}  // namespace heddle::cpu
