// What rank 0 asks of streams: each command becomes a job, done in its turn.
#include <algorithm>

#include "backends/mpi/packing.hpp"
#include "backends/mpi/worker/calls.hpp"
#include "backends/mpi/worker/server.hpp"
#include "heddle/backend/guard.hpp"

namespace heddle::mpi {
namespace {

using Job = Executor::Job;

Error failed_call(Errc code) { return {code, heddle_last_error()}; }

Errc code_of(ggml_status status) {
    return status == GGML_STATUS_ALLOC_FAILED ? Errc::out_of_memory
           : status == GGML_STATUS_ABORTED    ? Errc::aborted
                                              : Errc::device;
}

Result<> compute(ggml_backend_t stream, const ServedGraph& graph,
                 const std::vector<SharedBuffer>& buffers) {
    for (const SharedBuffer& buffer : buffers) HEDDLE_TRY(buffer->wait_for_loads());
    heddle_clear_error();
    const ggml_status status = ggml_backend_graph_compute_async(stream, graph.c());
    if (status == GGML_STATUS_SUCCESS) return ok();
    return failed_call(code_of(status));
}

}  // namespace

Result<Server::Stream> Server::stream(std::uint32_t number) const {
    const auto found = streams_.find(number);
    if (found != streams_.end()) return found->second;
    return failure(Errc::corrupt, "there is no stream ", number);
}

Server::Stream Server::stream_or_freed(std::uint32_t number) const {
    if (auto found = stream(number)) return *std::move(found);
    const auto freed = std::ranges::find(retired_, number, &Executor::number);
    return freed != retired_.end() ? *freed : nullptr;
}

Result<int> Server::other_rank(ByteReader& in) const {
    return get_other_worker(in, outbox_.rank(), outbox_.size());
}

// ---- streams -----------------------------------------------------------------------------------

Result<> Server::new_stream(const Header& header, ByteReader& in) {
    const auto request = in.get<std::uint32_t>();
    HEDDLE_TRY_ASSIGN(const std::size_t device, device_index(in));
    if (header.stream == 0 || streams_.contains(header.stream)) {
        return failure(Errc::corrupt, "stream ", header.stream, " is there already");
    }
    if (streams_.size() >= kMostStreams) {
        return failure(Errc::corrupt, "more than ", kMostStreams, " streams");
    }
    heddle_clear_error();
    ggml_backend_ptr made(ggml_backend_dev_init(devices_[device]->device(), nullptr));
    if (made == nullptr) {
        outbox_.answer(request, failed_call(Errc::device));
        return ok();
    }
    streams_[header.stream] = std::make_shared<Executor>(
        Executor::Surroundings{outbox_, driver_, threads_}, header.stream, device, std::move(made));
    threads_.make_enough(streams_.size() + retired_.size());
    has_streams_ = true;
    streams_[header.stream]->let_device_ask(devices_[device]->device());
    const unsigned cores = std::max(std::thread::hardware_concurrency(), 1U);
    ByteWriter threads;
    threads.put(options_.threads > 0 ? static_cast<std::int32_t>(options_.threads)
                                     : static_cast<std::int32_t>(cores));
    ByteReader again(threads.view());
    HEDDLE_TRY(set_threads(header, again));
    outbox_.answer(request, ok());
    return ok();
}

/// What is in its queue is done first, while other messages are taken in: it may wait for them.
Result<> Server::free_stream(const Header& header) {
    HEDDLE_TRY_ASSIGN(Stream gone, stream(header.stream));
    streams_.erase(header.stream);
    graphs_.drop_all(header.stream);
    gone->retire();
    retired_.push_back(std::move(gone));
    std::erase_if(retired_, [](const Stream& each) { return each->has_ended(); });
    return ok();
}

Result<> Server::set_threads(const Header& header, ByteReader& in) {
    const auto count = in.get<std::int32_t>();
    HEDDLE_TRY_ASSIGN(const Stream target, stream(header.stream));
    if (!in.finished() || count < 1 || count > 4096) return broken("a number of threads");
    const auto set =
        reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(
            ggml_backend_dev_backend_reg(devices_[target->device()]->device()),
            "ggml_backend_set_n_threads"));
    if (set != nullptr) set(target->stream(), count);
    return ok();
}

Result<> Server::stop_work(const Header& header, const ByteReader& in) {
    HEDDLE_TRY_ASSIGN(const Stream target, stream(header.stream));
    if (!in.finished()) return broken("a wish to stop");
    target->stop_up_to(header.place);
    return ok();
}

/// Another thread of the program may have freed the stream just before; so in what follows.
Result<> Server::watch(const Header& header, ByteReader& in) {
    const auto request = in.get<std::uint32_t>();
    // The event is reached, whatever became of it; who waits for the stream is told.
    when_done(header, [this, request](const Result<>&) { outbox_.answer(request, ok()); });
    return ok();
}

void Server::when_done(const Header& header, const Executor::Then& then) const {
    const Stream target = stream_or_freed(header.stream);
    if (target == nullptr) return then(ok());
    target->when_done(header.place, then);
}

Result<> Server::notify(const Header& header, ByteReader& in) {
    HEDDLE_TRY_ASSIGN(const int rank, other_rank(in));
    const auto tag = in.get<std::uint32_t>();
    when_done(header, [this, rank, tag](const Result<>& state) {
        ByteWriter out = begin({.kind = Kind::notice});
        out.put(tag);
        put_outcome(out, state);
        outbox_.send(rank, seal(std::move(out)));
    });
    return ok();
}

Result<> Server::cancel(ByteReader& in) {
    HEDDLE_TRY_ASSIGN(const int rank, other_rank(in));
    mailbox_.cancel(rank);
    outbox_.fabric().forget(rank);
    return ok();
}

/// Plays ping-pong with another rank, at once and alone: what MPI itself can do is measured.
Result<> Server::measure(ByteReader& in) {
    const auto request = in.get<std::uint32_t>();
    const auto rank = in.get<std::uint32_t>();
    const bool begins = in.get<std::uint8_t>() != 0;
    const std::size_t size = in.get<std::uint32_t>();
    const auto rounds = in.get<std::uint32_t>();
    const auto ranks = static_cast<std::uint32_t>(outbox_.size());
    if (!in.finished() || rank >= ranks || rank == static_cast<std::uint32_t>(outbox_.rank()) ||
        size == 0 || size > kChunk || rounds == 0 || rounds > kMostRounds) {
        return broken("a measurement");
    }
    const auto seconds =
        outbox_.fabric().ping_pong({static_cast<int>(rank), begins, size, static_cast<int>(rounds)},
                                   Clock::now() + timeout_ / 2);
    ByteWriter more;
    more.put(seconds.value_or(0));
    outbox_.answer(request, ok(), more.view());
    return ok();
}

Result<> Server::tell_time(ByteReader& in) {
    const auto request = in.get<std::uint32_t>();
    ByteWriter more;
    more.put(clock_now());
    outbox_.answer(request, ok(), more.view());
    return ok();
}

Result<> Server::set_tracing(const Header& header, ByteReader& in) {
    const bool on = in.get<std::uint8_t>() != 0;
    HEDDLE_TRY_ASSIGN(const Stream target, stream(header.stream));
    if (!in.finished()) return broken("a wish for spans");
    target->set_tracing(on);
    return ok();
}

Result<> Server::tell_spans(const Header& header, ByteReader& in) {
    const auto request = in.get<std::uint32_t>();
    const Stream target = stream_or_freed(header.stream);
    ByteWriter more;
    put_spans(more, target != nullptr ? target->spans() : std::vector<Span>());
    outbox_.answer(request, ok(), more.view());
    return ok();
}

// ---- graphs ------------------------------------------------------------------------------------

Result<> Server::take_graph(const Header& header, ByteReader& in) {
    const Graphs::Name name{in.get<std::uint32_t>(), header.stream};
    const std::size_t total = in.get<std::uint32_t>();
    const ByteView part = in.rest();
    if (!in.ok()) return broken("a graph");
    HEDDLE_TRY(stream(header.stream));  // each may have so many
    HEDDLE_TRY_ASSIGN(auto whole, graphs_.add_part(name, total, part));
    return whole ? keep_graph(name, *std::move(whole)) : ok();
}

Result<> Server::take_graph_delta(const Header& header, ByteReader& in) {
    const Graphs::Name name{in.get<std::uint32_t>(), header.stream};
    const Graphs::Name base{in.get<std::uint32_t>(), header.stream};
    if (!in.ok()) return broken("a graph");
    HEDDLE_TRY_ASSIGN(Bytes whole, graphs_.change(name, base, in));
    return keep_graph(name, std::move(whole));
}

Result<> Server::keep_graph(const Graphs::Name& name, Bytes whole) {
    HEDDLE_TRY_ASSIGN(const Stream target, stream(name.stream));
    ByteReader in(whole);
    HEDDLE_TRY_ASSIGN(const GraphRecords records, get_graph(in));
    const std::size_t device = target->device();
    auto made = ServedGraph::make(records, buffers_, {*devices_[device], device});
    if (!made && made.error().code == Errc::corrupt) return std::move(made).error();
    graphs_.keep(name, std::move(whole), std::move(made));
    return ok();
}

Result<> Server::drop_graph(const Header& header, ByteReader& in) {
    return graphs_.drop({in.get<std::uint32_t>(), header.stream});
}

// ---- jobs --------------------------------------------------------------------------------------

Result<> Server::handle_of_stream(const Header& header, ByteReader& in, Message& message) {
    const std::size_t bytes = message.bytes.size();
    HEDDLE_TRY_ASSIGN(const Stream target, stream(header.stream));
    auto made = [&]() -> Result<Job> {
        switch (header.kind) {
            case Kind::run:
                return run_job(*target, in);
            case Kind::stream_write:
                return write_job(in, message);
            case Kind::stream_read:
                return read_job(in);
            case Kind::stream_copy:
                return copy_job(in);
            case Kind::send:
                return send_job(in);
            case Kind::receive:
                return receive_job(in);
            case Kind::wait:
                return wait_job(*target, in);
            case Kind::await:
                return await_job(in);
            case Kind::sum:
                return sum_job(in);
            default:
                return Job{.resumes = true};
        }
    }();
    if (!made) return std::move(made).error();
    made->place = header.place;
    made->bytes = bytes;
    made->kind = header.kind;
    return target->submit(*std::move(made));
}

Result<Job> Server::run_job(const Executor& stream, ByteReader& in) {
    const auto number = in.get<std::uint32_t>();
    if (!in.finished()) return broken("a run");
    HEDDLE_TRY_ASSIGN(const Graphs::Stored* const found, graphs_.find({number, stream.number()}));
    const Graphs::Stored& stored = *found;
    auto held =
        stored.failure ? Result<std::vector<SharedBuffer>>(*stored.failure) : stored.graph->hold();
    return Job{.run = [this, device = stream.device(), queue = stream.stream(),
                       graph = stored.graph, held = std::move(held)]() -> Result<> {
                   // Not before: a job that is skipped tells nothing.
                   if (auto before = take_failure(device)) return *std::move(before);
                   if (!held) return held.error();
                   return compute(queue, *graph, *held);
               },
               .runs_on = true};
}

/// The job keeps the message: its content is not copied.
Result<Job> Server::write_job(ByteReader& in, Message& message) {
    HEDDLE_TRY_ASSIGN(Placed target, placed(in));
    HEDDLE_TRY_ASSIGN(const Pieces pieces, get_pieces(in, byte_size(target.tensor)));
    HEDDLE_TRY_ASSIGN(Unpacked content, Unpacked::get(in, pieces.size * pieces.count));
    auto bytes = std::make_shared<Bytes>(std::move(message.bytes));
    return Job{.run = [this, target = std::move(target), pieces, content = std::move(content),
                       bytes]() mutable {
        (void)wait_in_job(*target.buffer);
        return reported([&] {
            ggml_backend_tensor_set_2d(&target.tensor, content.view().data(), pieces.offset,
                                       pieces.size, pieces.count, pieces.tensor_stride,
                                       pieces.host_stride);
        });
    }};
}

Result<Job> Server::read_job(ByteReader& in) {
    const auto request = in.get<std::uint32_t>();
    HEDDLE_TRY_ASSIGN(Placed source, placed(in));
    HEDDLE_TRY_ASSIGN(const Pieces pieces, get_pieces(in, byte_size(source.tensor)));
    if (!in.finished()) return broken("a request to read");
    return Job{.run = [this, request, source = std::move(source), pieces] {
        return send_content(request, source, pieces);
    }};
}

Result<Job> Server::copy_job(ByteReader& in) {
    HEDDLE_TRY_ASSIGN(Placed from, placed(in));
    HEDDLE_TRY_ASSIGN(Placed to, placed(in));
    if (!in.finished() || !same_layout(from.tensor, to.tensor)) return broken("a copy");
    return Job{.run = [this, from = std::move(from), to = std::move(to)]() mutable -> Result<> {
        (void)wait_in_job(*to.buffer);
        HEDDLE_TRY(wait_in_job(*from.buffer));
        return reported([&] { ggml_backend_tensor_copy(&from.tensor, &to.tensor); });
    }};
}

Result<Job> Server::send_job(ByteReader& in) {
    HEDDLE_TRY_ASSIGN(const int rank, other_rank(in));
    const auto tag = in.get<std::uint32_t>();
    HEDDLE_TRY_ASSIGN(Placed source, placed(in));
    if (!in.finished()) return broken("a transfer");
    const auto send_all = [this, rank, tag, source = std::move(source)]() -> Result<> {
        HEDDLE_TRY(source.buffer->wait_for_loads());
        const std::size_t total = byte_size(source.tensor);
        for (std::size_t sent = 0; sent < total; sent += kChunk) {
            const auto read = [&](std::span<std::byte> part) {
                return reported([&] {
                    ggml_backend_tensor_get(&source.tensor, part.data(), sent, part.size());
                });
            };
            HEDDLE_TRY(mailbox_.send_chunk(rank, tag, sent, std::min(kChunk, total - sent), read));
        }
        return ok();
    };
    return Job{
        .run =
            [this, rank, tag, send_all] {
                auto sent = plugin::attempt(send_all);
                if (!sent) mailbox_.send_failure(rank, tag, sent.error());
                mailbox_.end_sending(rank, tag);
                return sent;
            },
        .skip = [this, rank, tag](const Error& error) { mailbox_.send_failure(rank, tag, error); },
        .transfer = tag};
}

Result<Job> Server::receive_job(ByteReader& in) {
    HEDDLE_TRY_ASSIGN(const int rank, other_rank(in));
    const auto tag = in.get<std::uint32_t>();
    HEDDLE_TRY_ASSIGN(Placed target, placed(in));
    if (!in.finished()) return broken("a transfer");
    mailbox_.expect(rank, tag);
    auto receive_all = [this, rank, tag, target = std::move(target)]() mutable -> Result<> {
        (void)target.buffer->wait_for_loads();
        const std::size_t total = byte_size(target.tensor);
        const std::size_t chunks = (total + kChunk - 1) / kChunk;
        for (std::size_t done = 0; done < total;) {
            HEDDLE_TRY_ASSIGN(const Mailbox::Chunk chunk, mailbox_.next_chunk(rank, tag, chunks));
            if (chunk.offset != done || chunk.bytes.empty() || chunk.bytes.size() > total - done) {
                return failure(Errc::device, "rank ", rank, " sent ", chunk.bytes.size(),
                               " bytes for place ", chunk.offset, ", not for ", done);
            }
            HEDDLE_TRY(reported([&] {
                ggml_backend_tensor_set(&target.tensor, chunk.bytes.data(), done,
                                        chunk.bytes.size());
            }));
            done += chunk.bytes.size();
        }
        return ok();
    };
    return Job{.run =
                   [this, rank, tag, receive_all]() mutable {
                       auto received = plugin::attempt(receive_all);
                       mailbox_.end_transfer(rank, tag, received.has_value());
                       return received;
                   },
               .skip = [this, rank, tag](const Error&) { mailbox_.end_transfer(rank, tag, false); },
               .transfer = tag};
}

Result<Job> Server::wait_job(const Executor& waiting, ByteReader& in) {
    const auto number = in.get<std::uint32_t>();
    const auto place = in.get<std::uint64_t>();
    if (!in.finished()) return broken("a wait");
    if (number == waiting.number()) return failure(Errc::corrupt, "a stream waits for itself");
    Stream target = stream_or_freed(number);
    if (target == nullptr) return Job{};
    return Job{.run = [other = std::move(target), place] { return other->wait_for(place); }};
}

Result<Job> Server::await_job(ByteReader& in) {
    HEDDLE_TRY_ASSIGN(const int rank, other_rank(in));
    const auto tag = in.get<std::uint32_t>();
    if (!in.finished()) return broken("a wait");
    return Job{.run = [this, rank, tag] { return mailbox_.wait_for_notice(rank, tag); },
               .skip = [this, rank, tag](const Error&) { mailbox_.forget_notice(rank, tag); }};
}

}  // namespace heddle::mpi
