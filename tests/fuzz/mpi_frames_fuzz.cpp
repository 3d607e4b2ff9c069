// Hostile messages of other ranks, on both sides: headers, batches, who a worker says it is, parts
// of tensors and their contents, samples of files and what differs, offers of tensors, outcomes and
// spans; and the file that digests are kept in. Whatever the bytes are, they are refused or
// understood.
#include <algorithm>
#include <functional>

#include "backends/mpi/digest_store.hpp"
#include "backends/mpi/file_samples.hpp"
#include "backends/mpi/packing.hpp"
#include "backends/mpi/pieces.hpp"
#include "backends/mpi/protocol.hpp"
#include "backends/mpi/tensor_offers.hpp"
#include "mpi_fuzz.hpp"

namespace {

using namespace heddle;
using namespace heddle::mpi;
using fuzz::require;

Bytes valid_hello() {
    WorkerFacts facts;
    facts.version = "1.2.3";
    facts.host = "n1";
    facts.boot = "0123";
    facts.devices = {{"CPU",
                      "a processor",
                      "",
                      1 << 30,
                      1 << 30,
                      {{"CPU", 64, 1 << 30, false, false, true},
                       {"CPU_REPACK", 64, 1 << 30, true, true, false}}}};
    ByteWriter hello = begin({.kind = Kind::hello});
    put_facts(hello, facts);
    return seal(std::move(hello));
}

Bytes valid_batch() {
    ByteWriter batch = begin({.kind = Kind::batch});
    for (const Kind kind : {Kind::clear, Kind::resume, Kind::run}) {
        ByteWriter one = begin({.kind = kind, .stream = 3, .place = 9});
        one.put(std::uint32_t{5});
        batch.raw(seal(std::move(one)));
    }
    return seal(std::move(batch));
}

void try_facts(ByteView bytes) {
    ByteReader in(bytes);
    const auto facts = get_facts(in);
    if (!facts) return;
    ByteWriter out;
    put_facts(out, *facts);
    ByteReader again(out.view());
    require(get_facts(again).has_value(), "facts are not understood a second time");
    require(facts->devices.size() <= kMostDevices, "too many devices");
}

/// As either side takes it in: the header, then what is behind it.
void try_message(ByteView bytes) {
    Message message;
    message.bytes.assign(bytes.begin(), bytes.end());
    const auto opened = open(message);
    if (!opened) return;
    require(opened->body.size() + kHeaderSize == bytes.size(), "a body of another length");
    require(opened->header.kind < Kind::count, "a kind that is none");
    if (opened->header.kind == Kind::hello) try_facts(opened->body);
    if (opened->header.kind != Kind::batch) return;
    ByteView rest = opened->body;
    while (!rest.empty()) {
        const std::size_t before = rest.size();
        const auto first = first_of(rest);
        if (!first) return;
        require(first->size() >= kHeaderSize && rest.size() < before, "a batch without an end");
        if (first->size() == before) break;
    }
}

void try_pieces(ByteView bytes) {
    ByteReader in(bytes);
    const std::size_t limit = in.get<std::uint64_t>();
    if (const auto pieces = get_pieces(in, limit)) {
        require(pieces->offset + extent_of(*pieces) <= limit, "pieces pass the end");
    }
}

void try_content(ByteView bytes) {
    ByteReader in(bytes);
    const std::size_t size = in.get<std::uint64_t>();
    const auto content = Unpacked::get(in, size);
    if (!content) return;
    require(content->view().size() == size, "contents of another size");
    ByteWriter out;
    put_packed(out, content->view());
    require(out.size() <= size + 1, "packed contents are longer");
    ByteReader again(out.view());
    const auto same = Unpacked::get(again, size);
    require(same && std::ranges::equal(same->view(), content->view()), "contents change");
}

void try_samples(ByteView bytes) {
    ByteReader in(bytes);
    const auto samples = get_samples(in);
    if (!samples) return;
    const auto longest = samples->is_full ? FileSamples::kLongestPart : FileSamples::kPart;
    require(samples->block > 0 && samples->block <= longest, "a block too long");
    require(samples->head <= samples->size, "a head longer than the file");
    for (const auto& block : samples->blocks) {
        require(block.offset < samples->size, "a block behind the end");
    }
    ByteWriter out;
    put_samples(out, *samples);
    ByteReader again(out.view());
    require(get_samples(again).has_value(), "samples are not understood a second time");
}

void try_differences(ByteView bytes) {
    ByteReader in(bytes);
    const std::size_t limit = in.get<std::uint16_t>();
    const auto blocks = get_differences(in, limit);
    if (!blocks) return;
    require(std::ranges::is_sorted(*blocks, std::less_equal()), "blocks do not rise");
    require(blocks->empty() || blocks->back() < limit, "a block behind the end");
}

void try_offers(ByteView bytes) {
    ByteReader offer(bytes), matches(bytes);
    if (const auto found = get_offer(offer)) {
        require(found->size >= TensorOffer::kLeast, "an offer too small");
    }
    if (const auto found = get_matches(matches)) {
        require(found->matches.size() <= TensorMatches::kMost, "too many tensors");
    }
}

void try_digests(ByteView bytes) {
    const std::string_view line(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto file = parse_digests(line);
    if (!file) return;
    require(file->digests.size() == block_count(file->version.size, file->block), "blocks lack");
    const std::string again = line_of(*file);
    const auto same = parse_digests(std::string_view(again).substr(0, again.size() - 1));
    require(same && same->digests == file->digests, "digests change");
}

void try_spans(ByteView bytes) {
    ByteReader in(bytes);
    const auto spans = get_spans(in);
    if (!spans) return;
    for (const Span& span : *spans) require(span.start <= span.end, "a span that ends before");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Bytes hello = valid_hello(), batch = valid_batch();
    const ByteView all(reinterpret_cast<const std::byte*>(data), size);
    if (all.empty()) return 0;
    const ByteView rest = all.subspan(1);
    switch (data[0] % 11) {
        case 0:
            try_message(rest);
            break;
        case 1:
            try_message(fuzz::edited(hello, rest));
            break;
        case 2:
            try_message(fuzz::edited(batch, rest));
            break;
        case 3:
            try_pieces(rest);
            break;
        case 4:
            try_samples(rest);
            break;
        case 5:
            try_spans(rest);
            break;
        case 6:
            try_content(rest);
            break;
        case 7:
            try_differences(rest);
            break;
        case 8:
            try_offers(rest);
            break;
        case 9:
            try_digests(rest);
            break;
        default: {
            ByteReader in(rest);
            (void)get_outcome(in);
            ByteReader named(rest);
            const auto rank = get_other_worker(named, 2, 4);
            require(!rank || *rank == 1 || *rank == 3, "no other worker");
        }
    }
    return 0;
}
