// What ranks send each other, and what becomes of messages that are none.
#include "backends/mpi/protocol.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "backends/mpi/codec.hpp"
#include "backends/mpi/delta.hpp"
#include "backends/mpi/environment.hpp"
#include "backends/mpi/packing.hpp"
#include "backends/mpi/pieces.hpp"
#include "backends/mpi/test_support.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"

namespace heddle::mpi {
namespace {

using testing::HasSubstr;

TEST(Messages, ComeOutAsTheyWentIn) {
    ByteWriter out = begin({.kind = Kind::run, .stream = 7, .place = 9});
    out.put(std::uint32_t{5});
    Bytes message = seal(std::move(out));
    set_credit(message, 11);
    const Message received{0, std::move(message)};
    const auto opened = open(received);
    ASSERT_TRUE(opened);
    EXPECT_EQ(opened->header.kind, Kind::run);
    EXPECT_EQ(opened->header.stream, 7U);
    EXPECT_EQ(opened->header.place, 9U);
    EXPECT_EQ(opened->header.credit, 11U);
    EXPECT_EQ(ByteReader(opened->body).get<std::uint32_t>(), 5U);
}

TEST(Messages, ThatStopAStreamGoAtOnceAndWaitForNoTurn) {
    const Message received{0, seal(begin({.kind = Kind::abort, .stream = 7, .place = 9}))};
    EXPECT_EQ(open(received)->header.place, 9U);
    EXPECT_FALSE(can_wait(Kind::abort));
    EXPECT_FALSE(is_of_stream(Kind::abort));
    EXPECT_FALSE(can_wait(Kind::group) || can_wait(Kind::join)) << "others wait for the answer";
}

TEST(Messages, ThatAreNoneAreRefusedWithWhatIsWrong) {
    const Bytes good = seal(begin({.kind = Kind::ping}));
    const auto refusal_of = [](const Bytes& bytes, std::size_t refused = 0) {
        const Message message{0, bytes, refused};
        const auto opened = open(message);
        return opened ? std::string("accepted") : opened.error().message;
    };
    EXPECT_EQ(refusal_of(Bytes(5)), "a message of 5 bytes");
    const std::string too_long = text("a message of ", kLongestMessage + 1, " bytes, more than ");
    EXPECT_THAT(refusal_of(Bytes(kLongestMessage + 1)), HasSubstr(too_long));
    EXPECT_THAT(refusal_of({}, kLongestMessage + 1), HasSubstr(too_long)) << "only announced";
    EXPECT_EQ(refusal_of(Bytes(kHeaderSize, std::byte{0})), "a message that is not Heddle's");
    Bytes bad = good;
    bad[4] = std::byte{99};
    EXPECT_EQ(refusal_of(bad), "a message of protocol 99, not 7");
    bad = good;
    bad[6] = std::byte{250};
    EXPECT_EQ(refusal_of(bad), "a message of kind 250");
    bad = good;
    bad.push_back(std::byte{0});
    EXPECT_EQ(refusal_of(bad), "a message with 1 bytes instead of 0");
}

TEST(Messages, ThatDidNotComeThroughAreNoMessages) {
    const Message message{1, {}, 0, true};
    const auto opened = open(message);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().message, "a message that did not come through");
}

TEST(Messages, ThatGiveARankUpNameAnotherWorker) {
    constexpr int kSelf = 2, kRanks = 4;
    const auto named = [](int rank) {
        const Message message{kSelf, given_up(rank)};
        const auto opened = open(message);
        EXPECT_EQ(opened->header.kind, Kind::given_up);
        ByteReader in(opened->body);
        return get_other_worker(in, kSelf, kRanks);
    };
    EXPECT_EQ(*named(1), 1);
    EXPECT_EQ(*named(3), 3);
    for (const int bad : {0, kSelf, kRanks, -1}) EXPECT_FALSE(named(bad)) << bad;
    EXPECT_EQ(named(4).error().message, "rank 4 is no other worker");
    ByteReader nothing({});
    EXPECT_FALSE(get_other_worker(nothing, kSelf, kRanks));
    EXPECT_FALSE(can_wait(Kind::given_up) || is_of_stream(Kind::given_up));
}

WorkerFacts sample_facts() {
    WorkerFacts facts = own_facts();
    facts.devices = {{"CPU", "a CPU", "", 10, 20, {{"CPU", 32, SIZE_MAX, false, false, true}}}};
    return facts;
}

TEST(Facts, ComeOutAsTheyWentInAndBreakOffNowhere) {
    ByteWriter out;
    put_facts(out, sample_facts());
    const Bytes whole = out.take();
    ByteReader in(whole);
    const auto facts = get_facts(in);
    ASSERT_TRUE(facts);
    EXPECT_EQ(facts->version, heddle_version());
    ASSERT_EQ(facts->devices.size(), 1U);
    EXPECT_EQ(facts->devices[0].buffer_types[0].max_size, SIZE_MAX);
    for (std::size_t size = 0; size < whole.size(); ++size) {
        ByteReader part(ByteView(whole).first(size));
        EXPECT_FALSE(get_facts(part)) << size;
    }
}

TEST(Facts, OfAnotherVersionAreRefusedInWords) {
    const WorkerFacts own = sample_facts();
    WorkerFacts other = own;
    EXPECT_EQ(refusal(other, own), "");
    other.version = "0.0.1";
    EXPECT_THAT(refusal(other, own), HasSubstr("it has Heddle 0.0.1 with op table "));
    other = own;
    other.tables ^= 1;
    EXPECT_THAT(refusal(other, own), HasSubstr(", this program "));
    other.protocol = 9;
    EXPECT_EQ(refusal(other, own), "it speaks protocol 9, this program 7");
}

/// A product, a view of it and a cast, which names itself.
GraphRecords sample_graph() {
    const ggml_context_ptr context = small_context();
    ggml_tensor* const a = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 4, 3);
    ggml_tensor* const b = ggml_scale(context.get(), a, 2);
    GraphRecords graph;
    graph.records = describe_node(*b, [](const Tensor&) { return 1U; });
    Record view = describe_alone(*ggml_view_1d(context.get(), b, 4, 16));
    view.view_of = 1;
    view.tensor.view_offs = 16;
    graph.records.push_back(view);
    graph.nodes = {1, 1, 2};
    return graph;
}

Bytes bytes_of(const GraphRecords& graph) {
    ByteWriter out;
    put_graph(out, graph);
    return out.take();
}

std::string refusal_of(const GraphRecords& graph) {
    const Bytes bytes = bytes_of(graph);
    ByteReader in(bytes);
    const auto read = get_graph(in);
    return read ? "accepted" : read.error().message;
}

TEST(Graphs, ComeOutAsTheyWentInAndBreakOffNowhere) {
    const Bytes whole = bytes_of(sample_graph());
    ByteReader in(whole);
    const auto graph = get_graph(in);
    ASSERT_TRUE(graph) << graph.error().message;
    EXPECT_EQ(bytes_of(*graph), whole);
    for (std::size_t size = 0; size < whole.size(); ++size) {
        ByteReader part(ByteView(whole).first(size));
        EXPECT_FALSE(get_graph(part)) << size;
    }
}

TEST(Graphs, ThatCannotBeAreRefusedWithWhatIsWrong) {
    GraphRecords graph = sample_graph();
    graph.records[1].sources[0] = 2;
    EXPECT_EQ(refusal_of(graph), "tensor 1 of a message has an operand that comes later");
    graph = sample_graph();
    graph.records[2].view_of = 2;
    EXPECT_EQ(refusal_of(graph), "tensor 2 of a message is a view of one that comes later");
    graph = sample_graph();
    graph.records[2].tensor.view_offs = 40;
    EXPECT_EQ(refusal_of(graph), "tensor 2 of a message passes the end of what it is a view of");
    graph = sample_graph();
    graph.records[1].tensor.op = GGML_OP_MAP_CUSTOM1;
    EXPECT_EQ(refusal_of(graph), "tensor 1 of a message runs a function of another process");
    graph = sample_graph();
    graph.records[1].tensor.op = static_cast<ggml_op>(GGML_OP_COUNT);
    EXPECT_EQ(refusal_of(graph), "tensor 1 of a message has an op that does not exist");
    graph = sample_graph();
    graph.records[0].tensor.ne[0] = -1;
    EXPECT_NE(refusal_of(graph), "accepted");
    graph = sample_graph();
    graph.nodes.push_back(3);
    EXPECT_EQ(refusal_of(graph), "a graph that breaks off");
    graph = sample_graph();
    graph.records.push_back(graph.records[2]);
    graph.records[3].view_of = 2;
    EXPECT_EQ(refusal_of(graph), "tensor 3 of a message is a view of a view");
}

TEST(Graphs, WithFlippedBytesAreRefusedOrWhole) {
    const Bytes whole = bytes_of(sample_graph());
    std::mt19937 random(3);
    for (int i = 0; i < 20'000; ++i) {
        Bytes bytes = whole;
        for (int flips = 1 + i % 3; flips > 0; --flips) {
            bytes[random() % bytes.size()] ^= std::byte(1U << random() % 8);
        }
        ByteReader in(bytes);
        if (const auto graph = get_graph(in)) {
            EXPECT_EQ(graph->records.size(), 3U);
        }
    }
}

TEST(Deltas, TurnAGraphIntoTheNextAndAreRefusedPastItsEnd) {
    std::mt19937 random(5);
    Bytes base(3000);
    for (std::byte& byte : base) byte = static_cast<std::byte>(random());
    for (int round = 0; round < 300; ++round) {
        Bytes next = base;
        for (int changes = round % 7; changes > 0; --changes) {
            next[random() % next.size()] = static_cast<std::byte>(random());
        }
        if (round % 5 == 0) next.front() = ~base.front(), next.back() = ~base.back();
        ByteWriter out;
        put_delta(out, base, next);
        EXPECT_LE(out.size(), 9U * 9);
        ByteReader in(out.view());
        EXPECT_EQ(*apply_delta(base, in), next);
        if (out.size() == 0) continue;
        ByteReader cut(out.view().first(out.size() - 1));
        EXPECT_FALSE(apply_delta(base, cut));
        ByteReader shorter(out.view());
        if (next.back() != base.back()) {
            EXPECT_FALSE(apply_delta(ByteView(base).first(2999), shorter));
        }
    }
    ByteWriter past;
    past.put(std::uint32_t{2999});
    past.put(std::uint32_t{2});
    past.put(std::uint16_t{0});
    ByteReader in(past.view());
    EXPECT_EQ(apply_delta(base, in).error().message, "a change of 2 bytes at byte 2999 of 3000");
}

/// As a message would carry it.
Bytes packed(ByteView content) {
    ByteWriter out;
    put_packed(out, content);
    return out.take();
}

TEST(Packing, KeepsEveryBitAndMakesMasksSmall) {
    const auto bytes_of_floats = [](const std::vector<float>& values) {
        const auto view = std::as_bytes(std::span(values));
        return Bytes(view.begin(), view.end());
    };
    std::vector<float> mask(4096, 0.0F), numbers(4096);
    for (std::size_t i = 0; i < mask.size(); ++i) {
        if (i % 3 != 0) mask[i] = -std::numeric_limits<float>::infinity();
        numbers[i] = static_cast<float>(i);
    }
    std::vector<std::uint16_t> halves(4096, 0xFC00);
    for (std::size_t i = 0; i < halves.size(); i += 3) halves[i] = 0;  // pairs of more kinds
    const auto view = std::as_bytes(std::span(halves));
    const Bytes half_mask(view.begin(), view.end());
    std::vector<float> almost = mask;
    almost.back() = 1;
    const std::pair<Bytes, std::size_t> cases[] = {
        {bytes_of_floats(mask), 4096 / 8 + 9},  // a bit each, two values, the kind
        {half_mask, 4096 / 8 + 5},
        {bytes_of_floats(std::vector<float>(4096)), 4096 / 8 + 9},
        {bytes_of_floats(numbers), 4096 * 4 + 1},
        {bytes_of_floats(almost), 4096 * 4 + 1},
        {Bytes(1000), 1001},  // too few
        {Bytes(1027, std::byte{5}), 1028},
        {Bytes(), 1}};
    for (const auto& [content, size] : cases) {
        const Bytes message = packed(content);
        EXPECT_EQ(message.size(), size);
        ByteReader in(message);
        const auto found = Unpacked::get(in, content.size());
        ASSERT_TRUE(found) << found.error().message;
        EXPECT_TRUE(std::ranges::equal(found->view(), content));
        ByteReader again(message), cut(ByteView(message).first(message.size() - 1));
        EXPECT_FALSE(Unpacked::get(again, content.size() + 32)) << "of another tensor";
        EXPECT_FALSE(Unpacked::get(cut, content.size())) << "it breaks off";
    }
    Bytes unknown = packed(half_mask);
    unknown[0] = std::byte{9};
    ByteReader in(unknown);
    EXPECT_EQ(Unpacked::get(in, 8192).error().message,
              "contents that are not the 8192 bytes of a tensor");
}

TEST(PiecesOfTensors, PastTheEndAreRefused) {
    const auto is_accepted = [](const Pieces& pieces) {
        ByteWriter out;
        put_pieces(out, pieces);
        ByteReader in(out.view());
        return get_pieces(in, 100).has_value();
    };
    EXPECT_TRUE(is_accepted({20, 10, 3, 35, 0}));
    EXPECT_FALSE(is_accepted({21, 10, 3, 35, 0}));
    EXPECT_FALSE(is_accepted({0, 0, 1, 0, 0}));
    EXPECT_FALSE(is_accepted({0, 10, 0, 0, 0}));
    EXPECT_FALSE(is_accepted({SIZE_MAX - 4, 10, 1, 0, 0}));
    EXPECT_FALSE(is_accepted({0, 10, SIZE_MAX / 2, SIZE_MAX / 2, 0}));
    EXPECT_FALSE(is_accepted({0, 100, SIZE_MAX / 4, 0, 0})) << "the same bytes, too often";
}

TEST(PiecesOfTensors, AreCutToTheSizeOfMessages) {
    std::vector<std::size_t> sizes;
    const auto note = [&](const Pieces& part, std::size_t) -> Result<> {
        sizes.push_back(part.size * part.count);
        return ok();
    };
    ASSERT_TRUE(in_parts({0, 2 * kChunk + 5, 1, 0, 0}, note));
    EXPECT_EQ(sizes, (std::vector<std::size_t>{kChunk, kChunk, 5}));
    sizes.clear();
    ASSERT_TRUE(in_parts({0, kChunk / 2, 5, kChunk, kChunk / 2}, note));
    EXPECT_EQ(sizes, (std::vector<std::size_t>{kChunk, kChunk, kChunk / 2}));
}

TEST(Wishes, OfTheEnvironmentAreUnderstoodOrRefusedWithAnExample) {
    EXPECT_EQ(*parse_hosts("n1,n2:2"), (std::vector<std::string>{"n1", "n2", "n2"}));
    for (const char* bad :
         {"", ",", "n1:0", "n1:x", ":2", "-oProxyCommand=x", "n1;ls", "n1:9999"}) {
        EXPECT_FALSE(parse_hosts(bad)) << bad;
    }
    EXPECT_EQ(parse_hosts("n1:x").error().message, "'n1:x' is no host such as n1 or n1:2");
    EXPECT_EQ(parse_seconds("1.5", "T")->count(), 1500);
    EXPECT_EQ(parse_seconds("soon", "HEDDLE_MPI_TIMEOUT").error().message,
              "HEDDLE_MPI_TIMEOUT=soon is no number of seconds from 0.05 to 86400");
    EXPECT_FALSE(parse_seconds("0", "T"));
    EXPECT_EQ(parse_folders("/a=/b,/m=/n")->at(1).second, "/n");
    EXPECT_EQ(parse_folders("/a=b").error().message,
              "HEDDLE_MPI_FILES: '/a=b' is no pair of folders such as /models=/data/models");
    EXPECT_EQ(*parse_verify("full"), Verify::full);
    EXPECT_EQ(parse_verify("twice").error().message,
              "HEDDLE_MPI_VERIFY=twice: there are sample, full and off");
    EXPECT_EQ(parse_polling("20")->microseconds, 20U);
    EXPECT_EQ(parse_polling("spin")->microseconds, Polling::kSpin);
    EXPECT_EQ(parse_polling("-1").error().message,
              "HEDDLE_MPI_POLL=-1: there are auto, spin and microseconds from 1 to 100000");
    EXPECT_EQ(*parse_offering("auto"), Offering::automatic);
    EXPECT_EQ(*parse_offering("always"), Offering::always);
    EXPECT_EQ(*parse_offering("never"), Offering::never);
    EXPECT_EQ(parse_offering("yes").error().message,
              "HEDDLE_MPI_DIGESTS=yes: there are auto, always and never");
    EXPECT_EQ(*parse_sum("ordered"), SumsBy::order);
    EXPECT_EQ(*parse_sum("auto"), SumsBy::order) << "until there are sums by NCCL";
    EXPECT_EQ(*parse_sum("mpi"), SumsBy::mpi);
    EXPECT_EQ(parse_sum("gloo").error().message,
              "HEDDLE_MPI_SUM=gloo: there are ordered, mpi and auto");
    Environment sums;
    sums.sum = "nccl";
    EXPECT_EQ(settings_of(sums).error().message,
              "HEDDLE_MPI_SUM=nccl: this build has no sums by NCCL; there are ordered, mpi and "
              "auto");
    Environment order;
    for (const char* good : {"", "first", "last"}) {
        order.order = good;
        EXPECT_TRUE(settings_of(order)) << good;
    }
    order.order = "middle";
    EXPECT_EQ(settings_of(order).error().message,
              "HEDDLE_MPI_ORDER=middle: there are first and last");
    EXPECT_EQ(parse_local("threads=3,devices=CPU+SIM0")->devices.size(), 2U);
    EXPECT_FALSE(parse_local("threads=0"));
    EXPECT_FALSE(parse_local("devices="));
    EXPECT_EQ(parse_local("colour=red").error().message,
              "'colour=red': there are threads=NUMBER, devices=NAME+NAME and serve");
}

}  // namespace
}  // namespace heddle::mpi
