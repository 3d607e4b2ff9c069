#include "runtime/meta/buffer.hpp"

#include <atomic>

#include "runtime/meta/access.hpp"
#include "runtime/meta/states.hpp"
#include "runtime/placement.hpp"

namespace heddle::meta {
namespace {

/// Addresses of joined buffers begin here, far from what any process has, and never occur twice.
constexpr std::uintptr_t kFirstAddress = std::uintptr_t{1} << 61;
constexpr std::uintptr_t kGap = std::uintptr_t{1} << 20;

std::uintptr_t reserve_addresses(std::size_t size) {
    static std::atomic<std::uintptr_t> next{kFirstAddress};
    return next.fetch_add((size + 2 * kGap - 1) & ~(kGap - 1));
}

/// More than any graph has. Without limit, a buffer that is never reset would keep them all.
constexpr std::size_t kMaxRemembered = std::size_t{1} << 16;

std::uintptr_t number_of(const Tensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.extra);
}

std::uintptr_t address_of(const Tensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.data);
}

const Tensor& root_of(const Tensor& tensor) {
    return tensor.view_src != nullptr ? *tensor.view_src : tensor;
}

}  // namespace

JoinedBuffer::JoinedBuffer(JoinedDevice& device, std::vector<OwnedBuffer> parts, std::size_t size,
                           Placing placing)
    : device_(device), parts_(std::move(parts)), base_(reserve_addresses(size)), placing_(placing) {
    for (const OwnedBuffer& part : parts_) buffers_.push_back(part.get());
}

// ---- what lies here ----------------------------------------------------------------------------

void JoinedBuffer::add(std::size_t offset, Parts parts) {
    const std::lock_guard lock(mutex_);
    known_.insert_or_assign(base_ + offset, std::move(parts));
}

std::optional<Split> JoinedBuffer::given_split(const Tensor& root) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(address_of(root));
    if (found == known_.end()) return std::nullopt;
    return found->second.split;
}

std::vector<Tensor> JoinedBuffer::known_slices(const Tensor& root) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(address_of(root));
    return found == known_.end() ? std::vector<Tensor>() : found->second.slices;
}

void JoinedBuffer::remember(Tensor& root, const Split& split) {
    if (root.buffer->usage != GGML_BACKEND_BUFFER_USAGE_COMPUTE) return;
    static std::atomic<std::uintptr_t> last{0};
    const std::lock_guard lock(mutex_);
    if (const auto found = computed_.find(number_of(root)); found != computed_.end()) {
        found->second = split;
        return;
    }
    if (computed_.size() >= kMaxRemembered) computed_.clear();
    const std::uintptr_t number = ++last;
    computed_.emplace(number, split);
    root.extra = reinterpret_cast<void*>(number);
}

std::optional<Split> JoinedBuffer::remembered_split(const Tensor& root) {
    const std::lock_guard lock(mutex_);
    const auto found = computed_.find(number_of(root));
    if (found == computed_.end()) return std::nullopt;
    return found->second;
}

Result<> JoinedBuffer::prepare(Tensor& tensor) {
    if (tensor.view_src != nullptr) return ok();
    if (placing_ == Placing::by_tensor) {
        if (given_split(tensor)) return ok();
        return invalid("placing ", heddle::describe(tensor),
                       ": the buffer was made for other tensors, each with a place of its own");
    }
    const std::uintptr_t begin = address_of(tensor), end = begin + byte_size(tensor);
    {  // What was here before is gone.
        const std::lock_guard lock(mutex_);
        known_.erase(known_.lower_bound(begin), known_.lower_bound(std::max(end, begin + 1)));
    }
    if (tensor.op != kNoOp || tensor.buffer->usage == GGML_BACKEND_BUFFER_USAGE_COMPUTE) {
        return ok();
    }
    HEDDLE_TRY_ASSIGN(const Split split, device_.ask(tensor));
    HEDDLE_TRY_ASSIGN(Parts parts, parts_of(tensor, split));
    add(begin - base_, std::move(parts));
    return ok();
}

Result<> JoinedBuffer::place(const Tensor& root, Tensor& slice, std::size_t device) {
    HEDDLE_TRY_ASSIGN(void* const start, base_of(*buffers_[device]));
    const auto address = reinterpret_cast<std::uintptr_t>(start) + (address_of(root) - base_);
    auto placed = place_tensor(*buffers_[device], slice, reinterpret_cast<void*>(address));
    if (placed) return ok();
    return std::move(placed).error().within(heddle::name_of(device_.device(device)));
}

Result<Parts> JoinedBuffer::parts_of(const Tensor& root, const Split& split) {
    Parts parts{split, known_slices(root)};
    if (!parts.slices.empty()) return parts;
    parts.slices.reserve(buffers_.size());
    for (std::size_t j = 0; j < buffers_.size(); ++j) {
        HEDDLE_TRY_ASSIGN(Tensor slice, slice_of(root, split, j));
        HEDDLE_TRY(place(root, slice, j));
        parts.slices.push_back(slice);
    }
    return parts;
}

// ---- data --------------------------------------------------------------------------------------

Result<Parts> JoinedBuffer::parts_behind(const Tensor& tensor) {
    const Tensor& root = root_of(tensor);
    Split split;
    if (auto remembered = remembered_split(root)) {
        split = *std::move(remembered);
    } else {
        HEDDLE_TRY_ASSIGN(split, States(device_).of(root));
    }
    // By the time it is read, computed sums have been put together.
    if (split.is_sum() && root.op != kNoOp) split = mirrored();
    return parts_of(root, split);
}

Result<> JoinedBuffer::write_tensor(Tensor& tensor, std::size_t offset,
                                    std::span<const std::byte> bytes) {
    HEDDLE_TRY_ASSIGN(Parts parts, parts_behind(tensor));
    return write_parts(root_of(tensor), parts, tensor.view_offs + offset, bytes, {});
}

Result<> JoinedBuffer::read_tensor(const Tensor& tensor, std::size_t offset,
                                   std::span<std::byte> bytes) {
    HEDDLE_TRY_ASSIGN(Parts parts, parts_behind(tensor));
    return read_parts(root_of(tensor), parts, tensor.view_offs + offset, bytes, {});
}

Result<> JoinedBuffer::fill_tensor(Tensor& tensor, std::size_t offset, std::size_t size,
                                   std::uint8_t value) {
    HEDDLE_TRY_ASSIGN(Parts parts, parts_behind(tensor));
    return fill_parts(root_of(tensor), parts, tensor.view_offs + offset, size, value);
}

Result<> JoinedBuffer::clear(std::uint8_t value) {
    for (Buffer* part : buffers_) {
        if (part != nullptr) HEDDLE_TRY(clear_buffer(*part, value));
    }
    return ok();
}

void JoinedBuffer::reset() {
    if (placing_ == Placing::by_tensor) return;  // its tensors stay where they are
    const std::lock_guard lock(mutex_);
    known_.clear();
    computed_.clear();
    for (Buffer* part : buffers_) reset_buffer(*part);
}

JoinedBuffer* joined(Buffer* buffer) { return plugin::buffer_cast<JoinedBuffer>(buffer); }

std::span<Buffer* const> device_buffers(const Buffer& buffer) {
    const JoinedBuffer* const own = joined(&const_cast<Buffer&>(buffer));
    if (own == nullptr) return {};
    return own->buffers();
}

}  // namespace heddle::meta
