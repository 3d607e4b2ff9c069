#include "backends/sim/stream.hpp"

#include <cstring>

#include "backends/sim/device.hpp"
#include "backends/sim/graph_work.hpp"
#include "core/graph.hpp"
#include "heddle/backend/nodes.hpp"
#include "ops/order_check.hpp"

namespace heddle::sim {

static_assert(plugin::WritesAsync<SimStream> && plugin::ReadsAsync<SimStream> &&
              plugin::WritesPiecesAsync<SimStream> && plugin::ReadsPiecesAsync<SimStream> &&
              plugin::CopiesAsync<SimStream> && plugin::Synchronizes<SimStream>);

SimStream::SimStream(Board& board) : board_(board) { lane_.number = board_.enter(*worker_); }

SimStream::~SimStream() {
    if (worker_->is_stranded()) {
        worker_.release();  // the board, which may be locked for ever as well, still knows of it
        return;
    }
    worker_->last().wait();
    board_.leave(*worker_);
}

// ---- computing ---------------------------------------------------------------------------------

Result<> SimStream::check_process() const {
    if (!worker_->is_stranded()) return ok();
    return failure(Errc::device,
                   "the stream was made before fork(), and its thread is not in this process");
}

std::optional<Error> SimStream::take_failure() {
    if (auto failed = worker_->take_error()) return failed;
    return board_.timeline.take_failure();
}

Result<> SimStream::compute(ggml_cgraph& graph) {
    HEDDLE_TRY(check_process());
    if (auto failed = take_failure()) return *std::move(failed);
    HEDDLE_TRY(check_order(nodes_of(graph)));
    const auto work = std::make_shared<GraphWork>();
    Result<> outcome = ok();
    const int count = ggml_graph_n_nodes(&graph);
    for (int i = 0; i < count && outcome; ++i) {
        const Tensor& node = *ggml_graph_node(&graph, i);
        if (!plugin::wants_computing(node)) continue;
        outcome = [&]() -> Result<> {
            HEDDLE_TRY_ASSIGN(const GraphWork::Step step, work->prepare(board_, node));
            HEDDLE_TRY(board_.timeline.compute(lane_, node, step.far_bytes));
            work->add(step);
            return ok();
        }();
    }
    if (work->is_empty() || !board_.parameters.numbers) return outcome;
    HEDDLE_TRY(work->finish());
    worker_->submit({}, [work] { return work->run(); });  // what comes before a failure is done
    return outcome;
}

Result<> SimStream::synchronize() {
    HEDDLE_TRY(check_process());
    worker_->last().wait();
    board_.timeline.wait_on_host(board_.timeline.stands_at(lane_));
    if (auto failed = worker_->untold_error()) return *std::move(failed);
    return ok();
}

// ---- copies between host and device ------------------------------------------------------------

Result<std::byte*> SimStream::own_data(const Tensor& tensor, std::size_t offset,
                                       std::size_t size) const {
    HEDDLE_TRY_ASSIGN(const Place place, place_of(tensor, offset, size));
    if (place.board == &board_) return place.data;
    return invalid(describe(tensor), " is in memory of ", place.board->name, ", not of ",
                   board_.name);
}

Result<> SimStream::write_async(Tensor& tensor, std::size_t offset,
                                std::span<const std::byte> bytes) {
    return write_pieces_async(tensor, bytes.data(), {offset, bytes.size(), 1, 0, 0});
}

Result<> SimStream::read_async(const Tensor& tensor, std::size_t offset,
                               std::span<std::byte> bytes) {
    return read_pieces_async(tensor, bytes.data(), {offset, bytes.size(), 1, 0, 0});
}

Result<> SimStream::write_pieces_async(Tensor& tensor, const std::byte* data,
                                       plugin::Pieces pieces) {
    HEDDLE_TRY(check_process());
    HEDDLE_TRY_ASSIGN(std::byte* const to, own_data(tensor, pieces.offset, extent_of(pieces)));
    HEDDLE_TRY(board_.timeline.transfer(&lane_, Direction::in, pieces.count * pieces.size,
                                        name_of(tensor)));
    worker_->submit({}, [=] {
        copy_pieces(to, pieces.tensor_stride, data, pieces.host_stride, pieces);
        return ok();
    });
    return ok();
}

Result<> SimStream::read_pieces_async(const Tensor& tensor, std::byte* data,
                                      plugin::Pieces pieces) {
    HEDDLE_TRY(check_process());
    HEDDLE_TRY_ASSIGN(const std::byte* const from,
                      own_data(tensor, pieces.offset, extent_of(pieces)));
    HEDDLE_TRY(board_.timeline.transfer(&lane_, Direction::out, pieces.count * pieces.size,
                                        name_of(tensor)));
    worker_->submit({}, [=] {
        copy_pieces(data, pieces.host_stride, from, pieces.tensor_stride, pieces);
        return ok();
    });
    return ok();
}

// ---- copies between streams --------------------------------------------------------------------

bool SimStream::copy_async(ggml_backend_t source, const Tensor& from, Tensor& to) {
    const std::size_t bytes = byte_size(from);
    const auto origin = place_of(from, 0, bytes);
    const auto target = place_of(to, 0, bytes);
    if (source == nullptr || !origin || !target || target->board != &board_) return false;
    if (!origin->on_device && !target->on_device) return false;  // the host's own affair
    if (!board_.timeline.shares_clock_with(origin->board->timeline)) return false;

    Result<> done = ok();
    if (SimStream* other = sim_stream(source)) {
        if (origin->board != &other->board_) return false;
        done = copy_from(*other, *origin, *target, bytes, name_of(from));
    } else {
        // A stream that works in the background could still write what is to be copied.
        if (origin->on_device || source->iface.synchronize != nullptr) return false;
        done = copy_snapshot(*origin, *target, bytes, name_of(from));
    }
    // A copy that failed was tried: the next graph says so, and no other way is to be taken.
    if (!done) plugin::report(std::move(done).error().within(board_.name));
    return true;
}

Result<> SimStream::copy_from(SimStream& source, const Place& origin, const Place& target,
                              std::size_t bytes, std::string_view name) {
    HEDDLE_TRY(check_process());
    HEDDLE_TRY(source.check_process());
    Timeline& time = board_.timeline;
    if (origin.on_device && target.on_device) {
        HEDDLE_TRY(
            Timeline::copy(source.board_.timeline, &source.lane_, time, &lane_, bytes, name));
    } else {
        time.wait_in(lane_, time.stands_at(source.lane_));
        const Direction direction = target.on_device ? Direction::in : Direction::out;
        Timeline& engine = target.on_device ? time : origin.board->timeline;
        HEDDLE_TRY_ASSIGN(const Span span, engine.transfer(&lane_, direction, bytes, name));
        time.wait_in(source.lane_, span.end);
    }
    if (!board_.parameters.numbers) return ok();
    const Ticket copied = worker_->submit(source.worker_->last(), [origin, target, bytes] {
        std::memmove(target.data, origin.data, bytes);
        return ok();
    });
    // The source's memory may be used for something else right away, but not before this.
    if (&source != this) source.worker_->submit(copied, {});
    return ok();
}

Result<> SimStream::copy_snapshot(const Place& origin, const Place& target, std::size_t bytes,
                                  std::string_view name) {
    HEDDLE_TRY(check_process());
    HEDDLE_TRY(board_.timeline.transfer(&lane_, Direction::in, bytes, name));
    // The caller may write the source again at once, so its bytes are taken now.
    const auto snapshot =
        std::make_shared<std::vector<std::byte>>(origin.data, origin.data + bytes);
    worker_->submit({}, [snapshot, target] {
        std::memcpy(target.data, snapshot->data(), snapshot->size());
        return ok();
    });
    return ok();
}

// ---- events ------------------------------------------------------------------------------------

Result<> SimStream::record(SimEvent& event) {
    HEDDLE_TRY(check_process());
    event.ticket = worker_->last();
    event.time = board_.timeline.stands_at(lane_);
    return ok();
}

Result<> SimStream::wait(const SimEvent& event) {
    HEDDLE_TRY(check_process());
    board_.timeline.wait_in(lane_, event.time);
    worker_->submit(event.ticket, {});
    return ok();
}

}  // namespace heddle::sim
