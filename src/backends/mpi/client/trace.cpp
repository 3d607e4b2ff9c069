#include "backends/mpi/client/trace.hpp"

#include <limits>
#include <map>

namespace heddle::mpi {
namespace {

constexpr int kAsked = 20;

/// What to add to a worker's clock, in nanoseconds, and how far that may be off.
struct Offset {
    std::int64_t add = 0, error = std::numeric_limits<std::int64_t>::max();
};

Result<Offset> offset_of(Cluster& cluster, int rank) {
    Offset best;
    for (int i = 0; i < kAsked; ++i) {
        const std::uint32_t request = cluster.next_number();
        const std::int64_t before = clock_now();
        HEDDLE_TRY_ASSIGN(const Bytes answer,
                          cluster.ask(rank, request, seal(question(Kind::clock, request))));
        const std::int64_t after = clock_now(), error = (after - before) / 2;
        ByteReader in(answer);
        const auto there = in.get<std::int64_t>();
        if (error < best.error) best = {before + error - there, error};
    }
    return best;
}

Result<std::vector<Span>> spans_of(Cluster& cluster, const Cluster::TracedStream& stream) {
    const std::uint32_t request = cluster.next_number();
    ByteWriter out = begin({.kind = Kind::spans, .stream = stream.number});
    out.put(request);
    HEDDLE_TRY_ASSIGN(const Bytes answer, cluster.ask(stream.rank, request, seal(std::move(out))));
    ByteReader in(answer);
    return get_spans(in);
}

}  // namespace

void each_span(Cluster& cluster, const std::function<void(const heddle_trace_span&)>& take) {
    std::map<int, Offset> offsets;
    for (const Cluster::TracedStream& stream : cluster.traced_streams()) {
        if (!offsets.contains(stream.rank)) {
            const auto offset = offset_of(cluster, stream.rank);
            if (!offset) continue;
            offsets[stream.rank] = *offset;
        }
        const Offset& offset = offsets[stream.rank];
        const auto spans = spans_of(cluster, stream);
        if (!spans) continue;
        const std::string process =
            text("rank ", stream.rank, " on ", cluster.facts(stream.rank).host);
        const std::string track = text("stream ", stream.number);
        const auto seconds = [](std::int64_t time) { return static_cast<double>(time) * 1e-9; };
        for (const Span& span : *spans) {
            take({process.c_str(), track.c_str(), words_of(span.kind).data(),
                  seconds(span.start + offset.add), seconds(span.end + offset.add),
                  seconds(offset.error), span.transfer, span.kind == Kind::send});
        }
    }
}

}  // namespace heddle::mpi
