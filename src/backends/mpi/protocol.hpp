#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/mpi/bytes.hpp"
#include "backends/mpi/fabric.hpp"
#include "core/error.hpp"

/// What ranks say to each other. Rank 0 is the program; every other rank is a worker that serves
/// its devices and does what rank 0 says, in the order it says it.
///
/// A message is a header and what its kind has behind it. Commands of a stream carry its number
/// and their place in it, counted from 1. When a stream has done all that it was told to, the
/// worker says so unasked.
namespace heddle::mpi {

inline constexpr std::uint16_t kProtocol = 7;

// Limits are checked before anything is allocated.
inline constexpr std::size_t kChunk = std::size_t{1} << 20;  ///< most bytes of data in a message
inline constexpr std::size_t kLongestMessage = kChunk + (std::size_t{64} << 10);
inline constexpr std::size_t kMostRecords = std::size_t{1} << 20;  ///< tensors of a graph
inline constexpr std::size_t kLongestGraph = kMostRecords * 256;   ///< bytes of a graph
inline constexpr std::size_t kLongestSentence = 2048;              ///< of why something failed
inline constexpr std::size_t kMostDevices = 256, kMostBufferTypes = 16;
inline constexpr std::size_t kMostStreams = 1024;  ///< of a worker
inline constexpr std::size_t kMostGraphs = 64;     ///< that a worker keeps for a stream

/// Bytes that rank 0 sends a worker before it hears that the first of them were dealt with.
inline constexpr std::size_t kWindow = std::size_t{32} << 20;

/// Messages of a transfer between workers that are under way before the first was taken.
inline constexpr std::uint32_t kTransferWindow = 16;

/// What a worker takes from another one before rank 0 has told it of the transfer, which may come
/// later: bytes, and notices that no stream has waited for.
inline constexpr std::size_t kMostUnasked = std::size_t{256} << 20, kMostNotices = 1 << 16;

/// Messages up to this size are sent together, up to that size.
inline constexpr std::size_t kSmallMessage = std::size_t{4} << 10;
inline constexpr std::size_t kLongestBatch = std::size_t{16} << 10;

inline constexpr std::uint32_t kMostRounds = 100'000;  ///< of a measurement
inline constexpr std::size_t kMostMembers = 64;        ///< of a sum
inline constexpr std::size_t kMostRankGroups = 64;     ///< of ranks that add up by MPI

enum class Kind : std::uint16_t {
    none,
    // Worker to rank 0.
    hello,     ///< who it is and what it has
    beat,      ///< it is alive; memory of its devices
    answer,    ///< to a question: request, code, sentence, more
    data,      ///< part of what was read: request, offset, bytes
    done,      ///< a stream has come so far: code, sentence
    reject,    ///< it was told something that cannot be, and leaves: sentence
    given_up,  ///< rank: it has nothing more to do with that other worker, which is to be told
    // Rank 0 to a worker; questions begin with the number of the request.
    welcome,
    refused,  ///< it may not take part, or no longer: sentence
    goodbye,
    ask_op,    ///< request, device, records: may it run there?
    ask_size,  ///< request, device, buffer type, records: bytes that the last one takes
    allocate,  ///< request, device, buffer type, buffer, size
    free_buffer,
    clear,
    reset,
    fill,
    write,
    write_whole,  ///< part of a tensor that has to be written in one piece
    read,
    copy,
    new_stream,  ///< request, device
    free_stream,
    threads,
    abort,        ///< the stream is to stop what it does, up to the place of the header
    graph,        ///< part of a graph: number, bytes of all, bytes
    graph_delta,  ///< number, number of one that the worker has, what differs from that
    drop_graph,
    watch,    ///< request; the header has stream and place: answered when it is reached
    notify,   ///< rank, tag; header as above: tell that rank then
    cancel,   ///< rank: nothing more will come from it
    group,    ///< request, number, ranks: they will add up by MPI, and wait for what comes next
    join,     ///< request, number, whether they make that group now, all of them
    measure,  ///< request, rank, whether it begins, bytes, rounds: ping-pong of MPI itself
    clock,    ///< request: what time it is there
    trace,    ///< whether the stream of the header keeps spans from now on
    spans,    ///< request: those that the stream of the header has kept
    ping,
    batch,  ///< several small messages, one behind the other
    // Rank 0 to a worker, in a stream.
    run,
    stream_write,
    stream_read,
    stream_copy,
    send,
    receive,
    wait,    ///< for another stream of this worker
    await,   ///< for a notice of another worker: rank, tag
    sum,     ///< over workers: tag, group or 0, turn in it, tensor, members in order
    resume,  ///< the failure of the stream is known; go on
    // Worker to worker.
    chunk,   ///< tag, outcome, offset, bytes
    taken,   ///< tag: a chunk was used
    notice,  ///< tag, outcome of the stream
    // Files.
    file,   ///< request, file, path, size, samples
    load,   ///< tensor, pieces, their distance in the file, file, place in it
    offer,  ///< request, size and digest of the beginning of a tensor: is it in a file there?
    count
};

/// Of a command of a stream, for people.
std::string_view words_of(Kind kind);

/// Whether rank 0 may keep it back for a moment, to send it together with what follows.
bool can_wait(Kind kind);

/// Whether other streams are not to wait until a stream has done it.
constexpr bool may_take_long(Kind kind) {
    return kind != Kind::stream_write && kind != Kind::stream_copy && kind != Kind::resume;
}

/// Whether it is done by a stream, in its turn.
constexpr bool is_of_stream(Kind kind) { return kind >= Kind::run && kind <= Kind::resume; }

struct Header {
    Kind kind = Kind::none;
    std::uint32_t stream = 0;
    std::uint64_t place = 0;   ///< of a command in its stream
    std::uint64_t credit = 0;  ///< to rank 0: bytes dealt with since the last message
};

inline constexpr std::size_t kHeaderSize = 32;

/// Begins a message; `seal` ends it.
ByteWriter begin(const Header& header, std::size_t expected = 128);
Bytes seal(ByteWriter writer);

/// Of a message that was sealed here.
Kind kind_of(const Bytes& message);

/// Cuts the first message off a batch; fails if there is none.
Result<ByteView> first_of(ByteView& batch);

/// Set what is only known when a message is sent.
void set_place(Bytes& message, std::uint64_t place);
void set_credit(Bytes& message, std::uint64_t credit);

struct Opened {
    Header header;
    ByteView body;
};

/// Fails if this is no message of this protocol. What it gives points into the message.
Result<Opened> open(const Message& message);

// ---- who takes part ----------------------------------------------------------------------------

struct BufferTypeFacts {
    std::string name;
    std::uint64_t alignment = 0, max_size = 0;
    bool asks_size = false;      ///< how much a tensor takes depends on more than its bytes
    bool whole_tensors = false;  ///< tensors are written in one piece
    bool readable = true;
};

struct DeviceFacts {
    std::string name, description, id;
    std::uint64_t free = 0, total = 0;
    std::vector<BufferTypeFacts> buffer_types;  ///< the first is the device's own
};

struct WorkerFacts {
    std::uint16_t protocol = kProtocol;
    std::string version;       ///< of Heddle
    std::uint64_t tables = 0;  ///< see `table_hash`
    std::string host, boot;    ///< `boot` tells machines apart
    std::uint32_t process = 0, cores = 0;
    bool is_chosen = false;    ///< devices were named: all are shown
    bool has_folders = false;  ///< of files, named with --files
    std::vector<DeviceFacts> devices;
};

/// Differs where ops or types differ, which travel as numbers.
std::uint64_t table_hash();

/// What a worker on this machine says of itself.
WorkerFacts own_facts();

void put_facts(ByteWriter& out, const WorkerFacts& facts);
Result<WorkerFacts> get_facts(ByteReader& in);

/// Why a worker cannot take part; empty if it can.
std::string refusal(const WorkerFacts& worker, const WorkerFacts& own);

// ---- other workers -----------------------------------------------------------------------------

/// A worker, but not `self`. `ranks`: how many there are, rank 0 included.
Result<int> get_other_worker(ByteReader& in, int self, int ranks);

/// What a worker tells rank 0 when it has nothing more to do with another one.
Bytes given_up(int rank);

// ---- traces ------------------------------------------------------------------------------------

/// A command that a stream has done; times are nanoseconds of the worker's steady clock.
struct Span {
    Kind kind = Kind::none;
    std::int64_t start = 0, end = 0;
    std::uint32_t transfer = 0;  ///< if it is one between workers
};
inline constexpr std::size_t kMostSpans = 4096;  ///< that a stream keeps, the last ones

void put_spans(ByteWriter& out, std::span<const Span> spans);
Result<std::vector<Span>> get_spans(ByteReader& in);

/// Now, as spans tell it.
std::int64_t clock_now();

// ---- failures ----------------------------------------------------------------------------------

void put_outcome(ByteWriter& out, const Result<>& outcome);
Result<> get_outcome(ByteReader& in);

}  // namespace heddle::mpi
