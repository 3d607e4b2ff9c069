#pragma once

#include <atomic>
#include <mutex>

#include "backends/vulkan/board.hpp"

namespace heddle::vulkan {

class Pipelines;
class Memory;

/// The logical device of a board: its queue, its memory and its pipelines. Made when it is first
/// needed; any thread may use it.
class Gpu : public std::enable_shared_from_this<Gpu> {
public:
    static Result<std::shared_ptr<Gpu>> make(const Board& board);
    ~Gpu();
    Gpu(const Gpu&) = delete;
    Gpu& operator=(const Gpu&) = delete;

    const Board& board() const { return board_; }
    const DeviceApi& api() const { return api_; }
    VkDevice handle() const { return device_; }
    Pipelines& pipelines() const { return *pipelines_; }

    /// Where the codebooks of block formats lie, in the order of gpu::Codebooks.
    VkDeviceAddress codebooks() const;

    /// Success, or a failure whose sentence is `parts`; a lost device stays lost.
    template <class... Parts>
    Result<> check(VkResult result, const Parts&... parts) const {
        if (result == VK_ERROR_DEVICE_LOST) is_lost_ = true;
        return vulkan::check(result, parts..., " on ", board_.name);
    }

    /// Fails once the device is lost: nothing is tried any more.
    Result<> check_alive() const;

    /// Enqueues; streams share the queue.
    Result<> submit(const VkSubmitInfo& work);

    /// Returns when everything that was enqueued has finished: memory is not freed under kernels.
    void wait_idle();

    /// Bytes in buffers of this device.
    std::atomic<std::uint64_t>& live_bytes() { return live_bytes_; }

private:
    explicit Gpu(const Board& board);
    Result<> start();
    Result<> load_codebooks();

    const Board board_;
    DeviceApi api_;
    VkDevice device_ = VK_NULL_HANDLE;
    VkQueue queue_ = VK_NULL_HANDLE;
    std::mutex queue_mutex_;
    std::unique_ptr<Pipelines> pipelines_;
    std::unique_ptr<Memory> codebooks_;
    std::atomic<std::uint64_t> live_bytes_ = 0;
    std::int64_t submissions_ = 0;
    mutable std::atomic<bool> is_lost_ = false;
};

/// The logical device of a board, made at the first call.
class LazyGpu {
public:
    explicit LazyGpu(Board board) : board_(std::move(board)) {}
    const Board& board() const { return board_; }
    Result<std::shared_ptr<Gpu>> get();

    /// Null if nothing has needed it yet.
    std::shared_ptr<Gpu> peek();

private:
    const Board board_;
    std::mutex mutex_;
    std::shared_ptr<Gpu> gpu_;
};

}  // namespace heddle::vulkan
