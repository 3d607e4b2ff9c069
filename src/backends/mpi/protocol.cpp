#include "backends/mpi/protocol.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "core/type.hpp"
#include "ggml/op_list.h"
#include "heddle/heddle.h"
#include "ops/catalogue.hpp"

namespace heddle::mpi {
namespace {

constexpr std::uint32_t kMagic = 0x4C444448;  // "HDDL"
constexpr std::size_t kKindAt = 6, kLengthAt = 12, kPlaceAt = 16, kCreditAt = 24;

/// FNV-1a.
std::uint64_t hash_more(std::uint64_t hash, std::string_view text) {
    for (const char c : text) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
    }
    return (hash ^ 0xFF) * 0x100000001B3;
}

void put_type(ByteWriter& out, const BufferTypeFacts& type) {
    out.text(type.name);
    out.put(type.alignment);
    out.put(type.max_size);
    out.put(
        static_cast<std::uint8_t>(type.asks_size | type.whole_tensors << 1 | type.readable << 2));
}

BufferTypeFacts get_type(ByteReader& in) {
    BufferTypeFacts type;
    type.name = in.text(128);
    type.alignment = in.get<std::uint64_t>();
    type.max_size = in.get<std::uint64_t>();
    const auto flags = in.get<std::uint8_t>();
    type.asks_size = (flags & 1) != 0;
    type.whole_tensors = (flags & 2) != 0;
    type.readable = (flags & 4) != 0;
    constexpr std::uint64_t kLargest = std::uint64_t{1} << 20;
    if (!std::has_single_bit(type.alignment) || type.alignment > kLargest) in.fail();
    return type;
}

DeviceFacts get_device(ByteReader& in) {
    DeviceFacts device;
    device.name = in.text(64);
    device.description = in.text(512);
    device.id = in.text(128);
    device.free = in.get<std::uint64_t>();
    device.total = in.get<std::uint64_t>();
    const std::size_t types = in.get<std::uint8_t>();
    if (types == 0 || types > kMostBufferTypes || device.name.empty()) in.fail();
    for (std::size_t i = 0; i < types && in.ok(); ++i) device.buffer_types.push_back(get_type(in));
    return device;
}

std::string boot_id() {
    std::string id;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
    return id;
}

}  // namespace

// ---- messages ----------------------------------------------------------------------------------

ByteWriter begin(const Header& header, std::size_t expected) {
    ByteWriter out(kHeaderSize + expected);
    out.put(kMagic);
    out.put(kProtocol);
    out.put(header.kind);
    out.put(header.stream);
    out.put(std::uint32_t{0});  // length of what follows, known in the end
    out.put(header.place);
    out.put(header.credit);
    return out;
}

Bytes seal(ByteWriter writer) {
    writer.patch(kLengthAt, static_cast<std::uint32_t>(writer.size() - kHeaderSize));
    return writer.take();
}

Kind kind_of(const Bytes& message) {
    Kind kind{};
    std::memcpy(&kind, message.data() + kKindAt, sizeof kind);
    return kind;
}

bool can_wait(Kind kind) {
    switch (kind) {
        case Kind::free_buffer:
        case Kind::clear:
        case Kind::reset:
        case Kind::fill:
        case Kind::write:
        case Kind::threads:
        case Kind::graph:
        case Kind::graph_delta:
        case Kind::drop_graph:
        case Kind::trace:
        case Kind::stream_write:
        case Kind::stream_copy:
        case Kind::wait:
        case Kind::resume:
            return true;
        default:
            return false;
    }
}

Result<ByteView> first_of(ByteView& batch) {
    std::uint32_t length = 0;
    if (batch.size() >= kHeaderSize) {
        std::memcpy(&length, batch.data() + kLengthAt, sizeof length);
        if (length <= batch.size() - kHeaderSize) {
            const ByteView first = batch.first(kHeaderSize + length);
            batch = batch.subspan(first.size());
            return first;
        }
    }
    return failure(Errc::corrupt, "a batch of messages that breaks off");
}

void set_place(Bytes& message, std::uint64_t place) {
    std::memcpy(message.data() + kPlaceAt, &place, sizeof place);
}

void set_credit(Bytes& message, std::uint64_t credit) {
    std::memcpy(message.data() + kCreditAt, &credit, sizeof credit);
}

Result<Opened> open(const Message& message) {
    const std::size_t size = std::max(message.bytes.size(), message.refused);
    if (message.has_failed) return failure(Errc::device, "a message that did not come through");
    if (size > kLongestMessage) {
        return failure(Errc::corrupt, "a message of ", size, " bytes, more than ", kLongestMessage);
    }
    if (size < kHeaderSize) return failure(Errc::corrupt, "a message of ", size, " bytes");
    ByteReader in(message.bytes);
    Opened opened;
    const auto magic = in.get<std::uint32_t>();
    const auto version = in.get<std::uint16_t>();
    const auto kind = in.get<std::uint16_t>();
    opened.header.stream = in.get<std::uint32_t>();
    const auto length = in.get<std::uint32_t>();
    opened.header.place = in.get<std::uint64_t>();
    opened.header.credit = in.get<std::uint64_t>();
    opened.header.kind = static_cast<Kind>(kind);
    if (magic != kMagic) return failure(Errc::corrupt, "a message that is not Heddle's");
    if (version != kProtocol) {
        return failure(Errc::corrupt, "a message of protocol ", version, ", not ", kProtocol);
    }
    if (kind == 0 || kind >= static_cast<std::uint16_t>(Kind::count)) {
        return failure(Errc::corrupt, "a message of kind ", kind);
    }
    opened.body = in.rest();
    if (opened.body.size() != length) {
        return failure(Errc::corrupt, "a message with ", opened.body.size(), " bytes instead of ",
                       length);
    }
    return opened;
}

// ---- who takes part ----------------------------------------------------------------------------

std::uint64_t table_hash() {
    static const std::uint64_t hash = [] {
        std::uint64_t sum = 0xCBF29CE484222325;
        for (int op = 0; op < GGML_OP_COUNT; ++op) {
            sum = hash_more(sum, ggml_op_name(static_cast<ggml_op>(op)));
        }
        for (int type = 0; type < GGML_TYPE_COUNT; ++type) {
            const auto which = static_cast<ggml_type>(type);
            sum = hash_more(sum, ggml_type_name(which) != nullptr ? ggml_type_name(which) : "");
            sum = hash_more(sum, std::to_string(ggml_type_size(which)));
        }
        return sum;
    }();
    return hash;
}

WorkerFacts own_facts() {
    WorkerFacts facts;
    facts.version = heddle_version();
    facts.tables = table_hash();
    std::array<char, 256> name{};
    if (gethostname(name.data(), name.size() - 1) == 0) facts.host = name.data();
    facts.boot = boot_id();
    facts.process = static_cast<std::uint32_t>(getpid());
    facts.cores = std::thread::hardware_concurrency();
    return facts;
}

void put_facts(ByteWriter& out, const WorkerFacts& facts) {
    out.put(facts.protocol);
    out.text(facts.version);
    out.put(facts.tables);
    out.text(facts.host);
    out.text(facts.boot);
    out.put(facts.process);
    out.put(facts.cores);
    out.put(static_cast<std::uint8_t>(facts.is_chosen | facts.has_folders << 1));
    out.put(static_cast<std::uint16_t>(facts.devices.size()));
    for (const DeviceFacts& device : facts.devices) {
        out.text(device.name);
        out.text(device.description);
        out.text(device.id);
        out.put(device.free);
        out.put(device.total);
        out.put(static_cast<std::uint8_t>(device.buffer_types.size()));
        for (const BufferTypeFacts& type : device.buffer_types) put_type(out, type);
    }
}

Result<WorkerFacts> get_facts(ByteReader& in) {
    WorkerFacts facts;
    facts.protocol = in.get<std::uint16_t>();
    facts.version = in.text(64);
    facts.tables = in.get<std::uint64_t>();
    facts.host = in.text(256);
    facts.boot = in.text(64);
    facts.process = in.get<std::uint32_t>();
    facts.cores = in.get<std::uint32_t>();
    const auto flags = in.get<std::uint8_t>();
    facts.is_chosen = (flags & 1) != 0;
    facts.has_folders = (flags & 2) != 0;
    const std::size_t devices = in.get<std::uint16_t>();
    if (devices > kMostDevices) in.fail();
    for (std::size_t i = 0; i < devices && in.ok(); ++i) facts.devices.push_back(get_device(in));
    if (!in.finished()) return failure(Errc::corrupt, "a list of devices that breaks off");
    return facts;
}

std::string refusal(const WorkerFacts& worker, const WorkerFacts& own) {
    if (worker.protocol != own.protocol) {
        return text("it speaks protocol ", worker.protocol, ", this program ", own.protocol);
    }
    if (worker.version != own.version || worker.tables != own.tables) {
        return text("it has Heddle ", worker.version, " with op table ", std::hex,
                    worker.tables & 0xFFFFFF, ", this program ", own.version, " with ",
                    own.tables & 0xFFFFFF);
    }
    return {};
}

// ---- other workers -----------------------------------------------------------------------------

Result<int> get_other_worker(ByteReader& in, int self, int ranks) {
    const auto rank = in.get<std::uint32_t>();
    if (rank > 0 && rank < static_cast<std::uint32_t>(ranks) &&
        rank != static_cast<std::uint32_t>(self)) {
        return static_cast<int>(rank);
    }
    return failure(Errc::corrupt, "rank ", rank, " is no other worker");
}

Bytes given_up(int rank) {
    ByteWriter out = begin({.kind = Kind::given_up});
    out.put(static_cast<std::uint32_t>(rank));
    return seal(std::move(out));
}

// ---- traces ------------------------------------------------------------------------------------

std::string_view words_of(Kind kind) {
    switch (kind) {
        case Kind::run:
            return "compute";
        case Kind::stream_write:
            return "write";
        case Kind::stream_read:
            return "read";
        case Kind::stream_copy:
            return "copy";
        case Kind::send:
            return "send";
        case Kind::receive:
            return "receive";
        case Kind::wait:
        case Kind::await:
            return "wait";
        case Kind::sum:
            return "sum";
        default:
            return "other";
    }
}

std::int64_t clock_now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
        .count();
}

void put_spans(ByteWriter& out, std::span<const Span> spans) {
    out.put(static_cast<std::uint32_t>(spans.size()));
    for (const Span& span : spans) {
        out.put(span.kind);
        out.put(span.start);
        out.put(span.end);
        out.put(span.transfer);
    }
}

Result<std::vector<Span>> get_spans(ByteReader& in) {
    std::vector<Span> spans;
    const std::size_t count = in.get<std::uint32_t>();
    if (count > kMostSpans) in.fail();
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
        Span& span = spans.emplace_back();
        span.kind = in.get<Kind>();
        span.start = in.get<std::int64_t>();
        span.end = in.get<std::int64_t>();
        span.transfer = in.get<std::uint32_t>();
        if (!is_of_stream(span.kind) || span.end < span.start) in.fail();
    }
    if (!in.finished()) return failure(Errc::corrupt, "spans that break off");
    return spans;
}

// ---- failures ----------------------------------------------------------------------------------

void put_outcome(ByteWriter& out, const Result<>& outcome) {
    out.put(static_cast<std::uint8_t>(outcome ? 0 : 1 + static_cast<int>(outcome.error().code)));
    out.text(outcome ? std::string_view()
                     : std::string_view(outcome.error().message).substr(0, kLongestSentence));
}

Result<> get_outcome(ByteReader& in) {
    const auto code = in.get<std::uint8_t>();
    std::string sentence = in.text();
    if (!in.ok() || code > 1 + static_cast<int>(Errc::device)) {
        return failure(Errc::corrupt, "an answer that breaks off");
    }
    if (code == 0) return ok();
    return Error{static_cast<Errc>(code - 1), std::move(sentence)};
}

}  // namespace heddle::mpi
