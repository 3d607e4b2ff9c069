#include "backends/cuda/all_reduce.hpp"

#include <algorithm>

#include "backends/cuda/kernels/sum_copies.hpp"
#include "backends/cuda/peer_copies.hpp"

namespace heddle::cuda {
namespace {

constexpr std::size_t kPiece = std::size_t{8} << 20;  ///< bytes sent at a time

std::byte* data_of(const Tensor& tensor) { return static_cast<std::byte*>(tensor.data); }

bool counts(const Tensor& tensor) { return (tensor.flags & GGML_TENSOR_FLAG_COMPUTE) != 0; }

}  // namespace

Result<std::unique_ptr<AllReduce>> AllReduce::make(std::span<CudaStream* const> streams) {
    if (streams.empty() || streams.size() > kMostCopies) {
        return invalid("sums over ", streams.size(), " devices; 1 to ", kMostCopies,
                       " are possible");
    }
    for (const CudaStream* from : streams) {
        for (const CudaStream* to : streams) {
            const int ordinals[] = {from->board().ordinal, to->board().ordinal};
            if (!peer_copies().are_sound(ordinals[0], ordinals[1])) {
                return failure(Errc::unsupported, "copies from ", from->name(), " to ", to->name(),
                               " are not sound");
            }
        }
    }
    std::unique_ptr<AllReduce> made(new AllReduce);
    made->members_.reserve(streams.size());
    for (CudaStream* stream : streams) {
        HEDDLE_TRY(stream->board().select());
        Member& member = made->members_.emplace_back();
        member.stream = stream;
        void* memory = nullptr;
        const auto allocate = [&] { return cudaMalloc(&memory, kPiece * streams.size()); };
        HEDDLE_TRY(cuda::check(take(allocate), "allocating ",
                               describe_bytes(kPiece * streams.size()), " on ", stream->name()));
        member.pieces = DeviceMemory(memory);
    }
    return made;
}

std::byte* AllReduce::piece(std::size_t on, std::size_t from) const {
    return static_cast<std::byte*>(members_[on].pieces.get()) + from * kPiece;
}

Result<> AllReduce::check(std::span<Tensor* const> tensors) const {
    const Tensor& first = *tensors.front();
    if (first.type != GGML_TYPE_F32 && first.type != GGML_TYPE_F16 &&
        first.type != GGML_TYPE_BF16) {
        return failure(Errc::unsupported, "sums of ", ggml_type_name(first.type));
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const Tensor& tensor = *tensors[i];
        if (tensor.type != first.type || ggml_nelements(&tensor) != ggml_nelements(&first)) {
            return invalid(describe(tensor), " is unlike ", describe(first));
        }
        if (!is_contiguous(tensor)) return invalid(describe(tensor), " is not contiguous");
        const CudaBuffer* buffer = buffer_of(tensor);
        if (buffer == nullptr || &buffer->board() != &members_[i].stream->board()) {
            return invalid(describe(tensor), " is not in memory of ", members_[i].stream->name());
        }
        HEDDLE_TRY(buffer->check_range(tensor, {0, byte_size(tensor), 1, 0, 0}));
    }
    return ok();
}

Result<> AllReduce::send(std::span<Tensor* const> tensors, std::size_t begin, std::size_t bytes) {
    for (std::size_t from = 0; from < members_.size(); ++from) {
        CudaStream& source = *members_[from].stream;
        if (!counts(*tensors[from])) continue;
        for (std::size_t to = 0; to < members_.size(); ++to) {
            if (to == from) continue;
            HEDDLE_TRY(source.wait(members_[to].added));  // of the piece before
            HEDDLE_TRY(source.board().select());
            const auto copy = [&] {
                return copy_across(piece(to, from), members_[to].stream->board().ordinal,
                                   data_of(*tensors[from]) + begin, source.board().ordinal, bytes,
                                   source.queue());
            };
            HEDDLE_TRY(cuda::check(order(copy), "sending ", describe_bytes(bytes), " from ",
                                   source.name()));
        }
        HEDDLE_TRY(source.record(members_[from].sent));
    }
    return ok();
}

Result<> AllReduce::add_piece(std::span<Tensor* const> tensors, std::size_t begin,
                              std::size_t bytes) {
    const Type type = tensors.front()->type;
    for (std::size_t on = 0; on < members_.size(); ++on) {
        CudaStream& stream = *members_[on].stream;
        std::byte* const own = data_of(*tensors[on]) + begin;
        Addends addends;
        for (std::size_t from = 0; from < members_.size(); ++from) {
            if (!counts(*tensors[from])) continue;
            if (from != on) HEDDLE_TRY(stream.wait(members_[from].sent));
            addends.from[static_cast<std::size_t>(addends.count++)] =
                from == on ? own : piece(on, from);
        }
        HEDDLE_TRY(stream.board().select());
        const auto add = [&] {
            return sum_copies(addends, own, type, static_cast<std::int64_t>(bytes / size_of(type)),
                              stream.queue());
        };
        HEDDLE_TRY(cuda::check(order(add), "adding up on ", stream.name()));
        HEDDLE_TRY(stream.record(members_[on].added));
    }
    return ok();
}

Result<> AllReduce::add_up(std::span<Tensor* const> tensors) {
    if (ggml_nelements(tensors.front()) == 0) return ok();
    HEDDLE_TRY(check(tensors));
    const std::size_t size = byte_size(*tensors.front());
    for (std::size_t begin = 0; begin < size; begin += kPiece) {
        const std::size_t bytes = std::min(kPiece, size - begin);
        HEDDLE_TRY(send(tensors, begin, bytes));
        HEDDLE_TRY(add_piece(tensors, begin, bytes));
    }
    return ok();
}

}  // namespace heddle::cuda
