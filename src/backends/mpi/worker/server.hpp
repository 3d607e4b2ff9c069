#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "backends/mpi/pieces.hpp"
#include "backends/mpi/worker/executor.hpp"
#include "backends/mpi/worker/graphs.hpp"
#include "backends/mpi/worker/group_sums.hpp"
#include "backends/mpi/worker/loader.hpp"
#include "backends/mpi/worker/mailbox.hpp"
#include "backends/mpi/worker/storage.hpp"
#include "backends/mpi/worker/sums.hpp"

namespace heddle::mpi {

struct ServeOptions {
    int threads = 0;                     ///< of CPU devices; 0: one for each core
    bool is_chosen = false;              ///< see WorkerFacts
    std::vector<std::string> folders{};  ///< see ServedFiles
    std::vector<std::size_t> budgets{};  ///< of devices; 0 or none: all there is
    std::shared_ptr<DigestStore> digests = std::make_shared<DigestStore>();
};

/// A worker: does what rank 0 says until that says goodbye or has been silent for three timeouts.
///
/// One thread at a time takes in messages (see Driver). What concerns buffers it does itself before
/// it looks further; what concerns streams it hands to them.
///
/// What rank 0 says is checked as if it were hostile. After the first thing that cannot be, the
/// worker says why and leaves.
class Server {
public:
    Server(Fabric& fabric, const std::vector<ggml_backend_dev_t>& devices,
           const ServeOptions& options);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    WorkerFacts facts() const;

    /// Returns when it has been said goodbye to; fails with why it left otherwise.
    Result<> serve();

private:
    struct Upload {
        Placed placed;
        Bytes bytes;
        std::size_t total = 0;
    };
    using Stream = std::shared_ptr<Executor>;

    Result<> wait_for_welcome();
    /// The end, which the first call decides. For any thread.
    void leave(Result<> outcome);
    bool decide(Result<> outcome);  ///< false if that was done before
    void end_waits();
    /// See Driver.
    void drop_out(const Error& reason);
    void give_up(int rank);
    void beat();
    void keep_beating();
    /// Deals with a message; what cannot be ends the worker.
    void take(Message message);
    /// Of a message that is dealt with later: it shows that rank 0 is there, and may say that the
    /// worker is to leave.
    void hear(const Message& message);
    Result<> handle(Message& message);
    Result<> handle_batch(ByteView batch);
    void handle_worker(Message& message);
    Result<> handle_command(const Header& header, ByteReader& in);
    Result<> handle_more(const Header& header, ByteReader& in);
    Result<> handle_of_stream(const Header& header, ByteReader& in, Message& message);
    bool is_silent() const;
    void leave_for_silence();
    std::chrono::milliseconds beat_interval() const;

    // Buffers; a failure other than `corrupt` belongs to the device, not to the protocol.
    Result<> ask_op(ByteReader& in);
    Result<> ask_size(ByteReader& in);
    Result<> allocate(ByteReader& in);
    Result<> free_buffer(ByteReader& in);
    Result<> clear(ByteReader& in);
    Result<> reset(ByteReader& in);
    Result<> fill(ByteReader& in);
    Result<> write(ByteReader& in);
    Result<> write_whole(ByteReader& in);
    Result<> read(ByteReader& in);
    Result<> copy(ByteReader& in);
    Result<> take_file(ByteReader& in);
    Result<> take_offer(ByteReader& in);
    Result<> load(ByteReader& in);

    // Streams and graphs.
    Result<> new_stream(const Header& header, ByteReader& in);
    Result<> free_stream(const Header& header);
    Result<> set_threads(const Header& header, ByteReader& in);
    Result<> stop_work(const Header& header, const ByteReader& in);
    Result<> take_graph(const Header& header, ByteReader& in);
    Result<> take_graph_delta(const Header& header, ByteReader& in);
    /// `whole` is the message it came in.
    Result<> keep_graph(const Graphs::Name& name, Bytes whole);
    Result<> drop_graph(const Header& header, ByteReader& in);
    Result<> watch(const Header& header, ByteReader& in);
    Result<> notify(const Header& header, ByteReader& in);
    /// Calls `then` when the stream of the header has come to its place.
    void when_done(const Header& header, const Executor::Then& then) const;
    Result<> cancel(ByteReader& in);
    Result<> take_group(ByteReader& in);
    /// Says whether there is such a group now.
    Result<bool> join_group(const RankGroup& group, ByteReader& in);
    Result<> measure(ByteReader& in);
    Result<> tell_time(ByteReader& in);
    Result<> set_tracing(const Header& header, ByteReader& in);
    Result<> tell_spans(const Header& header, ByteReader& in);
    Result<Executor::Job> run_job(const Executor& stream, ByteReader& in);
    Result<Executor::Job> write_job(ByteReader& in, Message& message);
    Result<Executor::Job> read_job(ByteReader& in);
    Result<Executor::Job> copy_job(ByteReader& in);
    Result<Executor::Job> send_job(ByteReader& in);
    Result<Executor::Job> receive_job(ByteReader& in);
    Result<Executor::Job> wait_job(const Executor& stream, ByteReader& in);
    Result<Executor::Job> await_job(ByteReader& in);
    Result<Executor::Job> sum_job(ByteReader& in);
    Result<std::vector<Sum::Member>> members(ByteReader& in) const;

    Result<Placed> placed(ByteReader& in);
    Result<Stream> stream(std::uint32_t number) const;
    /// Also one that was freed and still has work. Null if there is none: it has done everything.
    Stream stream_or_freed(std::uint32_t number) const;
    Result<int> other_rank(ByteReader& in) const;
    Result<std::vector<Record>> records(ByteReader& in) const;
    Result<std::size_t> device_index(ByteReader& in) const;
    /// What went wrong with a buffer's content is told by the next graph of its device.
    void note_failure(std::size_t device, Error error);
    std::optional<Error> take_failure(std::size_t device);
    Result<> send_content(std::uint32_t request, const Placed& placed, const Pieces& pieces);
    /// Until little of what was sent to rank 0 is still here. Fails if the worker leaves first.
    Result<> make_room();
    /// Until a buffer's weights have been read, or given up because the worker leaves.
    Result<> wait_for_loads(ServedBuffer& buffer);
    /// The same in a job: other streams go on meanwhile.
    Result<> wait_in_job(ServedBuffer& buffer);
    /// Until something `is_done` within a time, or the worker leaves. Where this thread is the one
    /// that listens to rank 0, it goes on to.
    using IsDoneWithin = std::function<bool(std::chrono::milliseconds)>;
    void listen_until(const IsDoneWithin& is_done);
    /// What takes long for large files: this thread listens meanwhile.
    template <class Function>
    auto listen_during(const Function& function);

    // For any thread.
    Outbox outbox_;
    Driver driver_{outbox_,
                   {.handle = [this](Message message) { take(std::move(message)); },
                    .hear = [this](const Message& message) { hear(message); },
                    .drop_out = [this](const Error& reason) { drop_out(reason); }}};
    Mailbox mailbox_{outbox_, driver_};
    StreamThreads threads_{driver_};
    const ServeOptions options_;
    std::vector<std::unique_ptr<ServedDevice>> devices_;
    Loader loader_;

    // Of the thread that deals with messages.
    Buffers buffers_;
    ServedFiles files_;  ///< which any thread may stop
    std::map<std::uint32_t, Stream> streams_;
    std::vector<Stream> retired_;  ///< that still have work
    Graphs graphs_;
    std::map<std::uint32_t, Upload> uploads_;
    std::map<std::uint32_t, std::shared_ptr<RankGroup>> groups_;

    // For any thread.
    std::chrono::milliseconds timeout_{10'000};  ///< set before there are others
    std::mutex leaving_lock_;
    bool leaves_ = false;                   ///< guarded by `leaving_lock_`
    Result<> outcome_ = ok();               ///< how it ended; set before the driver stops
    std::atomic<Clock::time_point> heard_;  ///< of rank 0
    std::atomic<bool> has_streams_{false};  ///< or had some
    std::mutex failures_lock_;
    std::map<std::size_t, Error> failures_;  ///< guarded by it
    std::mutex beat_lock_;
    std::condition_variable beat_stops_;
    bool stops_ = false;  ///< guarded by `beat_lock_`
    std::thread beat_;    ///< of the thread that serves
};

}  // namespace heddle::mpi
