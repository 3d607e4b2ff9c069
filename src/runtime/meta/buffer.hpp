#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/buffer.hpp"
#include "runtime/meta/device.hpp"
#include "runtime/meta/layout.hpp"

namespace heddle::meta {

/// Where the parts of a tensor are in the devices' buffers.
enum class Placing {
    same_offsets,  ///< as far from the beginning as the tensor is in the joined buffer
    by_tensor,     ///< each device has its parts close together; all tensors are known beforehand
};

/// A tensor on the devices: how it lies there, and what each of them has of it.
struct Parts {
    Split split;
    std::vector<Tensor> slices;
};

/// A buffer on each device. Its addresses are only numbers: they tell tensors apart and add up.
///
/// Tensors of a buffer that is not for computing, and that nothing computes, lie as the program
/// says: it is asked once, when they are placed. All others lie as follows from their sources.
class JoinedBuffer {
public:
    /// With `Placing::by_tensor`, `parts` may be multi-buffers, or null where a device has nothing.
    JoinedBuffer(JoinedDevice& device, std::vector<OwnedBuffer> parts, std::size_t size,
                 Placing placing);

    void* base() { return reinterpret_cast<void*>(base_); }
    Result<> prepare(Tensor& tensor);
    Result<> write_tensor(Tensor& tensor, std::size_t offset, std::span<const std::byte> bytes);
    Result<> read_tensor(const Tensor& tensor, std::size_t offset, std::span<std::byte> bytes);
    Result<> fill_tensor(Tensor& tensor, std::size_t offset, std::size_t size, std::uint8_t value);
    Result<> clear(std::uint8_t value);
    void reset();

    JoinedDevice& device() { return device_; }
    std::span<Buffer* const> buffers() const { return buffers_; }

    /// Makes tensors known whose slices have memory already, before they are placed at `offset`.
    void add(std::size_t offset, Parts parts);

    /// How a tensor of the program's lies; none for tensors that follow from others.
    std::optional<Split> given_split(const Tensor& root);

    /// Keeps how a tensor lies that has just been computed: a reader need not look at all
    /// it follows from. The tensor carries a number that tells it from later ones at its address.
    void remember(Tensor& root, const Split& split);

    /// The slices of a root that lies as `split`, placed.
    Result<Parts> parts_of(const Tensor& root, const Split& split);

    /// Gives `slice`, which may have an op and sources by now, its place on device `device`.
    Result<> place(const Tensor& root, Tensor& slice, std::size_t device);

    /// The parts of the root of `tensor`, as a read or a write from outside finds them.
    Result<Parts> parts_behind(const Tensor& tensor);

private:
    /// Slices that were placed with the buffer; empty for tensors that are not known.
    std::vector<Tensor> known_slices(const Tensor& root);
    std::optional<Split> remembered_split(const Tensor& root);

    JoinedDevice& device_;
    std::vector<OwnedBuffer> parts_;
    std::vector<Buffer*> buffers_;
    std::uintptr_t base_;
    Placing placing_;
    std::mutex mutex_;
    std::map<std::uintptr_t, Parts> known_;               ///< by address
    std::unordered_map<std::uintptr_t, Split> computed_;  ///< by the number that a tensor carries
};

/// The joined buffer behind an object; null for any other.
JoinedBuffer* joined(Buffer* buffer);

/// The devices' buffers of a joined one; empty for any other. Some may be null.
std::span<Buffer* const> device_buffers(const Buffer& buffer);

}  // namespace heddle::meta
