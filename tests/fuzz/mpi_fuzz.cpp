// Hostile messages of other ranks. Whatever the bytes are, they are refused or understood; what was
// understood can be written again, and is then the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "backends/mpi/codec.hpp"
#include "backends/mpi/file_samples.hpp"
#include "backends/mpi/pieces.hpp"
#include "backends/mpi/protocol.hpp"

namespace {

using namespace heddle;
using namespace heddle::mpi;

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "mpi_fuzz: %s\n", what);
    std::abort();
}

void try_graph(ByteView bytes) {
    ByteReader in(bytes);
    const auto graph = get_graph(in);
    if (!graph) return;
    ByteWriter out;
    put_graph(out, *graph);
    ByteReader again(out.view());
    const auto same = get_graph(again);
    require(same.has_value(), "a graph is not understood a second time");
    ByteWriter twice;
    put_graph(twice, *same);
    require(std::ranges::equal(out.view(), twice.view()), "a graph changes on its way");
    for (const Record& record : graph->records) {
        require(record.tensor.op >= 0 && record.tensor.op < GGML_OP_COUNT, "an op is none");
        require(byte_size(record.tensor) < SIZE_MAX / 2, "a tensor cannot be counted");
    }
}

void try_pieces(ByteView bytes) {
    ByteReader in(bytes);
    const std::size_t limit = in.get<std::uint64_t>();
    if (const auto pieces = get_pieces(in, limit)) {
        require(pieces->offset + extent_of(*pieces) <= limit, "pieces pass the end");
    }
}

void try_facts(ByteView bytes) {
    ByteReader in(bytes);
    const auto facts = get_facts(in);
    if (!facts) return;
    ByteWriter out;
    put_facts(out, *facts);
    ByteReader again(out.view());
    require(get_facts(again).has_value(), "facts are not understood a second time");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const ByteView all(reinterpret_cast<const std::byte*>(data), size);
    if (all.empty()) return 0;
    const ByteView rest = all.subspan(1);
    switch (data[0] % 5) {
        case 0:
            (void)open(rest);
            break;
        case 1:
            try_graph(rest);
            break;
        case 2:
            try_pieces(rest);
            break;
        case 3:
            try_facts(rest);
            break;
        default: {
            ByteReader in(rest);
            (void)get_samples(in);
        }
    }
    return 0;
}
