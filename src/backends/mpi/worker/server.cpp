#include "backends/mpi/worker/server.hpp"

#include "heddle/backend/guard.hpp"
#include "heddle/heddle.h"

namespace heddle::mpi {
namespace {

constexpr int kTimeoutsOfSilence = 3;
constexpr std::chrono::seconds kWelcome{60};
constexpr std::chrono::milliseconds kReject{100};  ///< for the last message to get away

}  // namespace

Server::Server(Fabric& fabric, const std::vector<ggml_backend_dev_t>& devices,
               const ServeOptions& options)
    : outbox_(fabric), options_(options), files_(options.folders, options.digests) {
    for (std::size_t i = 0; i < devices.size(); ++i) {
        const std::size_t budget = i < options.budgets.size() ? options.budgets[i] : 0;
        devices_.push_back(std::make_unique<ServedDevice>(devices[i], budget));
    }
}

Server::~Server() {
    {
        const std::lock_guard guard(beat_lock_);
        stops_ = true;
        beat_stops_.notify_all();
    }
    if (beat_.joinable()) beat_.join();
    end_waits();  // also those of a message that is being dealt with
    driver_.finish();
    mailbox_.stop();
    for (const auto& [number, stream] : streams_) stream->abandon();
    for (const Stream& stream : retired_) stream->abandon();
    threads_.end();
    streams_.clear();
    retired_.clear();
}

WorkerFacts Server::facts() const {
    WorkerFacts facts = own_facts();
    facts.is_chosen = options_.is_chosen;
    facts.has_folders = !options_.folders.empty();
    for (const auto& device : devices_) facts.devices.push_back(device->facts());
    return facts;
}

// ---- life --------------------------------------------------------------------------------------

Result<> Server::serve() {
    heddle_set_thread_error_mode(HEDDLE_ERROR_MODE_RETURN);
    const NoPipeSignal guard;
    ByteWriter hello = begin({.kind = Kind::hello}, 1024);
    put_facts(hello, facts());
    outbox_.send(0, seal(std::move(hello)));
    HEDDLE_TRY(wait_for_welcome());
    heard_ = Clock::now();
    beat_ = std::thread([this] { keep_beating(); });
    while (!driver_.has_stopped()) {
        driver_.stand_in(beat_interval(), !has_streams_);
        if (!is_silent()) continue;
        driver_.catch_up();  // a thread may have dealt with one message all the time
        if (!is_silent() || driver_.has_stopped()) continue;
        leave_for_silence();
    }
    return outcome_;
}

bool Server::is_silent() const {
    return Clock::now() - heard_.load() > kTimeoutsOfSilence * timeout_;
}

std::chrono::milliseconds Server::beat_interval() const {
    return std::min<std::chrono::milliseconds>(timeout_ / 4, std::chrono::seconds(1));
}

bool Server::decide(Result<> outcome) {
    const std::lock_guard guard(leaving_lock_);
    if (std::exchange(leaves_, true)) return false;
    outcome_ = std::move(outcome);
    return true;
}

void Server::end_waits() {
    driver_.stop();
    loader_.stop();
    files_.stop();
}

void Server::leave(Result<> outcome) {
    if (decide(std::move(outcome))) end_waits();
}

void Server::leave_for_silence() {
    leave(failure(Errc::device, "nothing was heard of rank 0 for ",
                  kTimeoutsOfSilence * timeout_.count(), " ms"));
}

void Server::drop_out(const Error& reason) {
    if (!decide(reason)) return;
    static_cast<void>(plugin::attempt([&] {
        ByteWriter reject = begin({.kind = Kind::reject});
        reject.text(reason.message.substr(0, kLongestSentence));
        outbox_.send(0, seal(std::move(reject)));
        const auto until = Clock::now() + kReject;
        outbox_.fabric().make_room(
            0, [&] { return Clock::now() > until; }, 0);
    }));
    end_waits();
}

void Server::take(Message message) {
    if (message.source == 0) heard_ = Clock::now();
    auto handled = plugin::attempt([&] { return handle(message); });
    if (outbox_.owes_much()) beat();
    if (!handled) drop_out(handled.error());
}

void Server::hear(const Message& message) {
    if (message.source != 0) return;
    heard_ = Clock::now();
    const auto opened = open(message);
    if (!opened) return;
    const auto look_at = [&](Kind kind) {
        if (kind == Kind::goodbye) leave(ok());
        if (kind == Kind::refused) leave(failure(Errc::device, "rank 0 has given this worker up"));
    };
    if (opened->header.kind != Kind::batch) return look_at(opened->header.kind);
    for (ByteView rest = opened->body; !rest.empty();) {
        const auto first = first_of(rest);
        if (!first) return;
        look_at(kind_of(Bytes(first->begin(), first->end())));
    }
}

Result<> Server::wait_for_welcome() {
    const auto until = Clock::now() + kWelcome;
    Backoff backoff;
    while (Clock::now() < until) {
        std::optional<Message> message = outbox_.fabric().receive();
        if (!message) {
            backoff.pause();
            continue;
        }
        if (message->source != 0) {  // another worker was welcomed before
            driver_.put_back(*std::move(message));
            continue;
        }
        HEDDLE_TRY_ASSIGN(const Opened opened, open(*message));
        ByteReader in(opened.body);
        if (opened.header.kind == Kind::welcome) {
            timeout_ = std::chrono::milliseconds(in.get<std::uint32_t>());
            const Polling polling{in.get<std::uint32_t>()};
            if (timeout_.count() > 0 && in.finished()) {
                set_polling(polling);
                return ok();
            }
        }
        const std::string reason = opened.header.kind == Kind::refused ? in.text() : "";
        return failure(Errc::unsupported, "rank 0 does not take this worker: ", reason);
    }
    return failure(Errc::device, "rank 0 does not answer");
}

void Server::beat() {
    ByteWriter out = begin({.kind = Kind::beat});
    for (const auto& device : devices_) {
        const plugin::MemoryAmount memory = device->memory();
        out.put(static_cast<std::uint64_t>(memory.free));
        out.put(static_cast<std::uint64_t>(memory.total));
    }
    outbox_.send(0, seal(std::move(out)));
}

/// On a thread of its own: that of messages may be busy with a large buffer.
void Server::keep_beating() {
    heddle_set_thread_error_mode(HEDDLE_ERROR_MODE_RETURN);
    std::unique_lock guard(beat_lock_);
    while (!beat_stops_.wait_for(guard, beat_interval(), [&] { return stops_; })) {
        guard.unlock();
        if (auto done = plugin::attempt([&] { beat(); }); !done) drop_out(done.error());
        guard.lock();
    }
}

Result<> Server::make_room() {
    // Nothing is heard while one message is dealt with, so the silence may be this process's own.
    // If this thread deals with it, it looks once more; if another one does, `serve` decides.
    const auto gives_up = [&] {
        return driver_.has_stopped() || (driver_.is_handling() && is_silent());
    };
    while (!outbox_.fabric().make_room(0, gives_up)) {
        if (driver_.has_stopped() || !driver_.let_sends_move()) {
            return failure(Errc::device, "rank 0 does not take what it asked for");
        }
    }
    return ok();
}

void Server::listen_until(const IsDoneWithin& is_done) {
    constexpr std::chrono::milliseconds kLook{5}, kAtOnce{0};
    bool any = false;
    while (driver_.is_handling() && !driver_.has_stopped() && !is_done(any ? kAtOnce : kLook)) {
        any = driver_.let_sends_move();
        if (!any && is_silent()) leave_for_silence();
    }
}

Result<> Server::wait_for_loads(ServedBuffer& buffer) {
    listen_until([&](std::chrono::milliseconds time) { return buffer.is_loaded_within(time); });
    return buffer.wait_for_loads();
}

Result<> Server::wait_in_job(ServedBuffer& buffer) {
    constexpr std::chrono::milliseconds kAtOnce{0};
    if (!buffer.is_loaded_within(kAtOnce)) threads_.go_on_without_this_one();
    return buffer.wait_for_loads();
}

// ---- messages ----------------------------------------------------------------------------------

Result<> Server::handle(Message& message) {
    if (message.source != 0) {
        handle_worker(message);
        return ok();
    }
    const std::size_t size = message.bytes.size();
    HEDDLE_TRY_ASSIGN(const Opened opened, open(message));
    ByteReader in(opened.body);
    if (is_of_stream(opened.header.kind)) return handle_of_stream(opened.header, in, message);
    if (opened.header.kind == Kind::batch) return handle_batch(opened.body);
    auto handled = handle_command(opened.header, in);
    if (handled) outbox_.settle(size);
    return handled;
}

Result<> Server::handle_batch(ByteView batch) {
    while (!batch.empty()) {
        HEDDLE_TRY_ASSIGN(const ByteView first, first_of(batch));
        Message message{0, Bytes(first.begin(), first.end())};
        if (kind_of(message.bytes) == Kind::batch) {
            return failure(Errc::corrupt, "a batch inside a batch");
        }
        HEDDLE_TRY(handle(message));
    }
    outbox_.settle(kHeaderSize);
    return ok();
}

/// A worker that sends nonsense harms the transfers with it, no more.
void Server::handle_worker(Message& message) {
    const int source = message.source;
    if (mailbox_.is_lost(source)) return;
    const auto handled = [&]() -> Result<> {
        HEDDLE_TRY_ASSIGN(const Opened opened, open(message));
        ByteReader in(opened.body);
        switch (opened.header.kind) {
            case Kind::chunk:
                return mailbox_.take_chunk(message, in);
            case Kind::taken:
                mailbox_.take_receipt(source, in);
                return ok();
            case Kind::notice:
                return mailbox_.take_notice(source, in);
            default:
                return failure(Errc::corrupt, "a message that workers do not send each other");
        }
    }();
    if (!handled) give_up(source);
}

/// The other one may wait for this one: rank 0 tells it.
void Server::give_up(int rank) {
    mailbox_.cancel(rank);
    outbox_.fabric().forget(rank);
    outbox_.send(0, given_up(rank));
}

Result<> Server::handle_command(const Header& header, ByteReader& in) {
    switch (header.kind) {
        case Kind::goodbye:
            leave(ok());
            return ok();
        case Kind::refused:
            return failure(Errc::device, "rank 0 has given this worker up: ", in.text());
        case Kind::ping:
            return ok();
        case Kind::ask_op:
            return ask_op(in);
        case Kind::ask_size:
            return ask_size(in);
        case Kind::allocate:
            return allocate(in);
        case Kind::free_buffer:
            return free_buffer(in);
        case Kind::clear:
            return clear(in);
        case Kind::reset:
            return reset(in);
        case Kind::fill:
            return fill(in);
        case Kind::write:
            return write(in);
        case Kind::write_whole:
            return write_whole(in);
        case Kind::read:
            return read(in);
        case Kind::copy:
            return copy(in);
        case Kind::file:
            return take_file(in);
        case Kind::load:
            return load(in);
        case Kind::offer:
            return take_offer(in);
        default:
            return handle_more(header, in);
    }
}

/// What concerns streams, graphs and other ranks.
Result<> Server::handle_more(const Header& header, ByteReader& in) {
    switch (header.kind) {
        case Kind::new_stream:
            return new_stream(header, in);
        case Kind::free_stream:
            return free_stream(header);
        case Kind::threads:
            return set_threads(header, in);
        case Kind::abort:
            return stop_work(header, in);
        case Kind::graph:
            return take_graph(header, in);
        case Kind::graph_delta:
            return take_graph_delta(header, in);
        case Kind::drop_graph:
            return drop_graph(header, in);
        case Kind::watch:
            return watch(header, in);
        case Kind::notify:
            return notify(header, in);
        case Kind::cancel:
            return cancel(in);
        case Kind::group:
            return take_group(in);
        case Kind::measure:
            return measure(in);
        case Kind::clock:
            return tell_time(in);
        case Kind::trace:
            return set_tracing(header, in);
        case Kind::spans:
            return tell_spans(header, in);
        default:
            return failure(Errc::corrupt, "a message of kind ", static_cast<int>(header.kind),
                           ", which rank 0 does not send");
    }
}

}  // namespace heddle::mpi
