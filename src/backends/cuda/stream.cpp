#include "backends/cuda/stream.hpp"

#include "backends/cuda/device.hpp"
#include "backends/cuda/peer_copies.hpp"
#include "backends/gpu/gather_products.hpp"
#include "ggml-impl.h"

namespace heddle::cuda {

static_assert(plugin::WritesAsync<CudaStream> && plugin::ReadsAsync<CudaStream> &&
              plugin::WritesPiecesAsync<CudaStream> && plugin::ReadsPiecesAsync<CudaStream> &&
              plugin::CopiesAsync<CudaStream> && plugin::Synchronizes<CudaStream> &&
              plugin::Optimizes<CudaStream>);

// ---- events ------------------------------------------------------------------------------------

Result<std::unique_ptr<CudaEvent>> CudaEvent::make(const Board&) {
    return std::make_unique<CudaEvent>();  // the driver's object is made when it is recorded
}

Result<> CudaEvent::record(const Board& board, cudaStream_t stream) {
    if (ordinal_ != board.ordinal) {
        cudaEvent_t made = nullptr;
        const auto create = [&] { return cudaEventCreateWithFlags(&made, cudaEventDisableTiming); };
        HEDDLE_TRY(check(take(create), "making an event on ", board.name));
        event_ = EventHandle(made);
        ordinal_ = board.ordinal;
    }
    return check(order([&] { return cudaEventRecord(event_.get(), stream); }),
                 "recording an event on ", board.name);
}

Result<> CudaEvent::wait_on_host() const {
    if (event_.get() == nullptr) return ok();
    return check(order([&] { return cudaEventSynchronize(event_.get()); }), "waiting for an event");
}

// ---- life --------------------------------------------------------------------------------------

Result<std::unique_ptr<CudaStream>> CudaStream::make(const Board& board) {
    HEDDLE_TRY(board.select());
    cudaStream_t made = nullptr;
    const auto create = [&] { return cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking); };
    HEDDLE_TRY(check(take(create), "making a stream on ", board.name));
    StreamHandle stream(made);
    HEDDLE_TRY_ASSIGN(Faults faults, Faults::make(board));
    void* memory = nullptr;
    constexpr std::size_t kSize = kTickets * sizeof(unsigned) + PassedColumn::kRoom;
    HEDDLE_TRY(check(take([&] { return cudaMalloc(&memory, kSize); }), "allocating ", kSize,
                     " bytes on ", board.name));
    DeviceMemory workplace(memory);
    HEDDLE_TRY(check(order([&] { return cudaMemset(memory, 0, kSize); }), "filling memory of ",
                     board.name));
    return std::unique_ptr<CudaStream>(
        new CudaStream(board, std::move(stream), std::move(faults), std::move(workplace)));
}

CudaStream::~CudaStream() {
    if (board_.select()) cudaStreamSynchronize(stream_.get());  // kernels may still use the scratch
    cudaGetLastError();
}

// ---- computing ---------------------------------------------------------------------------------

Result<> CudaStream::enqueue(const Plan& plan, std::byte* room) const {
    Launch launch{.stream = stream_.get(),
                  .scratch = room,
                  .device = board_.facts,
                  .faults = faults_.sink(),
                  .tickets = static_cast<unsigned*>(workplace_.get())};
    auto* const columns = reinterpret_cast<std::byte*>(launch.tickets + kTickets);
    const auto column = [&](int half) {
        return half != Step::kNowhere ? PassedColumn::in(columns, half) : PassedColumn{};
    };
    bool was_wide = false;
    for (const Step& step : plan.steps) {
        // Beside small kernels blocks would pile up on the multiprocessors that those leave free.
        const bool is_wide = step.is_wide(board_.facts);
        launch.is_chained = was_wide && is_wide;
        launch.reads_ahead = step.reads_ahead;
        launch.taken = column(step.takes);
        launch.left = column(step.leaves.half);
        launch.left_weights = step.leaves.weights;
        was_wide = is_wide;
        const auto start = [&] {
            step.launch(launch);
            return cudaGetLastError();
        };
        if (const cudaError_t status = order(start); status != cudaSuccess) {
            return check(status, describe_node(step.nodes().back()), ", kernel ", step.name());
        }
    }
    return ok();
}

Result<> CudaStream::enqueue_traced(const Plan& plan, ggml_cgraph& graph, std::byte* room) {
    return trace_->note(plan, graph, stream_.get(), [&](std::size_t i) {
        return enqueue({.steps = {plan.steps[i]}, .scratch = plan.scratch}, room);
    });
}

void CudaStream::optimize(ggml_cgraph& graph) const {
    if (!board_.options.is_fusing || graph.n_nodes <= 0) return;
    gpu::gather_products({graph.nodes, static_cast<std::size_t>(graph.n_nodes)});
}

Result<std::byte*> CudaStream::take_scratch(std::size_t size) {
    if (!scratch_.has(size)) {  // captured work knows the old address
        HEDDLE_TRY(synchronize());
        replay_.clear();
    }
    return scratch_.reserve(size);
}

Result<> CudaStream::reserve(ggml_cgraph& graph) {
    HEDDLE_TRY(board_.select());
    HEDDLE_TRY(take_scratch(scratch_of(board_, graph)));
    return ok();
}

Result<> CudaStream::compute(ggml_cgraph& graph) {
    HEDDLE_TRY(board_.select());
    HEDDLE_TRY(faults_.report(board_, stream_.get()));  // of graphs before this one
    if (trace_ == nullptr) {
        HEDDLE_TRY_ASSIGN(const bool is_known, replay_.launch_known(graph.uid, stream_.get()));
        if (is_known) return ok();
    }
    HEDDLE_TRY_ASSIGN(const Plan plan, Plan::make(board_, graph));
    HEDDLE_TRY_ASSIGN(std::byte* const room, take_scratch(plan.scratch));
    if (trace_ != nullptr) return enqueue_traced(plan, graph, room);
    if (!board_.options.is_replaying) return enqueue(plan, room);
    return replay_.launch(plan, graph.uid, stream_.get(), [&] { return enqueue(plan, room); });
}

Result<> CudaStream::synchronize() {
    HEDDLE_TRY(board_.select());
    HEDDLE_TRY(check(order([&] { return cudaStreamSynchronize(stream_.get()); }), "waiting for ",
                     board_.name));
    return faults_.report(board_, stream_.get());
}

// ---- copies between host and device ------------------------------------------------------------

Result<> CudaStream::check_own(const Tensor& tensor, const plugin::Pieces& pieces) const {
    const CudaBuffer* buffer = buffer_of(tensor);
    if (buffer == nullptr || &buffer->board() != &board_) {
        return invalid(describe(tensor), " is not in memory of ", board_.name);
    }
    return buffer->check_range(tensor, pieces);
}

Result<> CudaStream::transfer(Direction direction, const Tensor& tensor, std::byte* host,
                              const plugin::Pieces& pieces) {
    HEDDLE_TRY(check_own(tensor, pieces));
    HEDDLE_TRY(board_.select());
    const auto copy = [&] {
        return copy_pieces(direction, static_cast<std::byte*>(tensor.data) + pieces.offset, host,
                           pieces, stream_.get());
    };
    return check(order(copy), "enqueuing a transfer of ",
                 describe_bytes(pieces.count * pieces.size), " on ", board_.name);
}

Result<> CudaStream::write_async(Tensor& tensor, std::size_t offset,
                                 std::span<const std::byte> bytes) {
    return write_pieces_async(tensor, bytes.data(), {offset, bytes.size(), 1, 0, 0});
}

Result<> CudaStream::read_async(const Tensor& tensor, std::size_t offset,
                                std::span<std::byte> bytes) {
    return read_pieces_async(tensor, bytes.data(), {offset, bytes.size(), 1, 0, 0});
}

Result<> CudaStream::write_pieces_async(Tensor& tensor, const std::byte* data,
                                        plugin::Pieces pieces) {
    return transfer(Direction::to_device, tensor, const_cast<std::byte*>(data), pieces);
}

Result<> CudaStream::read_pieces_async(const Tensor& tensor, std::byte* data,
                                       plugin::Pieces pieces) {
    return transfer(Direction::to_host, tensor, data, pieces);
}

// ---- copies between streams --------------------------------------------------------------------

bool CudaStream::copy_async(ggml_backend_t source, const Tensor& from, Tensor& to) {
    CudaStream* const other = cuda_stream(source);
    if (other == nullptr) return false;
    const plugin::Pieces whole{0, byte_size(to), 1, 0, 0};
    if (!other->check_own(from, whole) || !check_own(to, whole)) return false;
    if (!peer_copies().are_sound(other->board_.ordinal, board_.ordinal)) return false;
    auto copied = copy_from(*other, from, to);
    // A copy that failed was tried: no other way is to be taken.
    if (!copied) plugin::report(std::move(copied).error().within(board_.name));
    return true;
}

Result<> CudaStream::copy_from(CudaStream& source, const Tensor& from, Tensor& to) {
    HEDDLE_TRY(source.board_.select());
    // On the source's queue: its memory may be used for something else right after.
    const auto copy = [&] {
        return copy_across(to.data, board_.ordinal, from.data, source.board_.ordinal, byte_size(to),
                           source.stream_.get());
    };
    HEDDLE_TRY(check(order(copy), "copying ", describe(from), " from ", source.board_.name));
    if (&source == this) return ok();
    HEDDLE_TRY(source.copied_.record(source.board_, source.stream_.get()));
    return wait(source.copied_);
}

Result<> CudaStream::record(CudaEvent& event) {
    HEDDLE_TRY(board_.select());
    return event.record(board_, stream_.get());
}

Result<> CudaStream::wait(const CudaEvent& event) {
    if (event.handle() == nullptr) return ok();
    HEDDLE_TRY(board_.select());
    return check(order([&] { return cudaStreamWaitEvent(stream_.get(), event.handle(), 0); }),
                 "waiting for an event on ", board_.name);
}

}  // namespace heddle::cuda
