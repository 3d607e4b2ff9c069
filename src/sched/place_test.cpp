#include "sched/place.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "backends/sim/test_support.hpp"
#include "ggml-cpu.h"
#include "ggml/ops.h"
#include "runtime/test_support.hpp"

namespace heddle::sched {
namespace {

using testing::HasSubstr;

/// A device that says what a test wants about ops and memory. It computes nothing.
class Board : public test::FakeDevice {
public:
    explicit Board(std::string_view called) {
        name = called;
        device.iface.supports_op = [](Device* d, const Tensor* node) {
            ++of(d).questions;
            return of(d).lacks.count(node->op) == 0 &&
                   (of(d).only.empty() || of(d).only.count(node->op) != 0);
        };
        device.iface.offload_op = [](Device* d, const Tensor*) { return of(d).wants; };
    }

    /// Makes it an accelerator of the host's memory.
    void use_host_memory() {
        device.iface.get_buffer_type = [](Device*) { return ggml_backend_cpu_buffer_type(); };
        device.iface.supports_buft = [](Device*, BufferType* t) {
            return ggml_backend_buft_is_host(t);
        };
    }

    std::set<Op> lacks, only;
    bool wants = false;
    int questions = 0;

private:
    static Board& of(Device* d) {
        return *static_cast<Board*>(static_cast<test::FakeDevice*>(d->context));
    }
};

/// Boards G0, G1, ... before the CPU, and a graph to place on them.
class PlaceTest : public testing::Test {
protected:
    Board& add_board(std::string_view name) {
        boards.push_back(std::make_unique<Board>(name));
        streams.push_back(boards.back()->start());
        return *boards.back();
    }

    /// Gives the tensor memory of the kind.
    Tensor* give(Tensor* tensor, BufferType* type, Usage usage) {
        buffers.emplace_back(*allocate(*type, ggml_nbytes(tensor) + 64));
        set_usage(*buffers.back(), usage);
        tensor->buffer = buffers.back().get();
        tensor->data = *base_of(*buffers.back());
        return tensor;
    }
    Tensor* weight(BufferType* type, const char* name) {
        return give(matrix(name), type, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    Tensor* matrix(const char* name) {
        return ggml_set_name(ggml_new_tensor_2d(context, GGML_TYPE_F32, 4, 4), name);
    }
    Tensor* input(const char* name = "x") {
        Tensor* x = matrix(name);
        ggml_set_input(x);
        return x;
    }
    Tensor* named(const char* name, Tensor* tensor) {
        ggml_build_forward_expand(graph, ggml_set_name(tensor, name));
        return tensor;
    }

    Result<Placement> place() {
        streams.emplace_back(ggml_backend_cpu_init());
        std::vector<Stream*> all;
        for (const OwnedStream& each : streams) all.push_back(each.get());
        team = *Team::make(all, {}, offload);
        for (const RunnerId lost : unavailable) team.set_available(lost, false);
        if (auto read = index.read(*graph); !read) return std::move(read).error();
        Abilities abilities(index, team);
        return sched::place(abilities, pins);
    }

    /// The runner of each node and, behind a colon, the rule: "a G0:weight b G0:spread_down".
    std::string placed(bool with_rules = true) {
        const auto result = place();
        if (!result) return result.error().message;
        placement = *result;
        std::string words;
        for (const TensorId id : index.nodes()) {
            if (index.is_view(id)) continue;
            words += text(words.empty() ? "" : " ", heddle::name_of(index[id]), ' ',
                          team[placement[id].runner].name);
            if (with_rules) words += text(':', name_of(placement[id].rule));
        }
        return words;
    }

    const Choice& choice(const Tensor* tensor) { return placement[index.find(tensor)]; }

    /// The graph of most examples.
    void build_two_homes() {
        wg = weight(&boards[0]->type, "wg");
        wc = weight(ggml_backend_cpu_buffer_type(), "wc");
        x = input();
        a = named("a", ggml_mul_mat(context, wg, x));
        b = named("b", ggml_silu(context, a));
        d = named("d", ggml_mul_mat(context, wc, b));
        e = named("e", ggml_silu(context, d));
        f = named("f", ggml_mul_mat(context, wg, e));
    }

    std::vector<std::unique_ptr<Board>> boards;
    std::vector<OwnedStream> streams;
    std::vector<OwnedBuffer> buffers;
    sim::ContextOwner owner{ggml_init({4 << 20, nullptr, true})};
    Context* context = owner.get();
    Graph* graph = ggml_new_graph(context);
    bool offload = false;
    std::vector<RunnerId> unavailable;
    Pins pins;

    Team team;
    GraphIndex index;
    Placement placement;
    Tensor *wg = nullptr, *wc = nullptr, *x = nullptr, *a = nullptr, *b = nullptr, *d = nullptr,
           *e = nullptr, *f = nullptr;
};

// ---- the default rules -------------------------------------------------------------------------

TEST_F(PlaceTest, WeightsDecideAndAcceleratorsSpreadOverTheRest) {
    add_board("G0");
    build_two_homes();
    EXPECT_EQ(placed(), "a G0:weight b G0:spread_down d CPU:weight e G0:spread_up f G0:weight");
    EXPECT_EQ(team[choice(x).runner].name, "CPU");
    EXPECT_EQ(choice(x).rule, Rule::input);
    EXPECT_EQ(choice(wg).rule, Rule::own_memory);
    EXPECT_EQ(choice(wg).home, 0);
    EXPECT_EQ(choice(wc).home, 1);
    EXPECT_EQ(&index[choice(a).because], wg);
    EXPECT_EQ(&index[choice(b).because], a);
    EXPECT_EQ(&index[choice(e).because], f);
    EXPECT_EQ(choice(a).home, kNoRunner) << "it has no memory yet";
}

TEST_F(PlaceTest, ADeviceThatAsksForItGetsNodesWithWeightsOnTheHost) {
    add_board("G0").wants = true;
    build_two_homes();
    offload = true;
    EXPECT_EQ(placed(), "a G0:weight b G0:spread_down d G0:offload e G0:spread_down f G0:weight");
}

TEST_F(PlaceTest, NothingIsOffloadedUnlessTheCallerAllowsIt) {
    add_board("G0").wants = true;
    build_two_homes();
    EXPECT_EQ(placed(false), "a G0 b G0 d CPU e G0 f G0");
}

TEST_F(PlaceTest, NodesADeviceLacksGoToTheHost) {
    add_board("G0").lacks = {GGML_OP_UNARY};
    build_two_homes();
    EXPECT_EQ(placed(), "a G0:weight b CPU:spread_up d CPU:weight e CPU:spread_down f G0:weight");
}

TEST_F(PlaceTest, AnAcceleratorOfTheSameMemoryTakesWhatItCan) {
    Board& board = add_board("A");
    board.use_host_memory();
    board.only = {GGML_OP_MUL_MAT};
    wc = weight(ggml_backend_cpu_buffer_type(), "wc");
    x = input();
    a = named("p1", ggml_mul_mat(context, wc, x));
    b = named("p2", ggml_silu(context, a));
    d = named("p3", ggml_mul_mat(context, wc, b));
    e = named("p4", ggml_silu(context, d));
    EXPECT_EQ(placed(false), "p1 A p2 CPU p3 A p4 CPU");
    EXPECT_EQ(team[choice(x).runner].name, "CPU");
}

TEST_F(PlaceTest, AMorePreferredRunnerOfTheSameMemoryIsAnUpgrade) {
    Board& board = add_board("A");
    board.use_host_memory();
    board.only = {GGML_OP_MUL_MAT};
    x = input();
    a = named("a", ggml_silu(context, x));
    ggml_set_input(a);  // so that it is on the host, and the product follows it
    b = named("b", ggml_mul_mat(context, a, a));
    EXPECT_EQ(placed(), "a CPU:input b A:upgrade");
}

TEST_F(PlaceTest, InputsAttractGraphsWithoutWeights) {
    add_board("G0");
    x = input();
    a = named("a", ggml_silu(context, x));
    b = named("b", ggml_silu(context, a));
    EXPECT_EQ(placed(), "a CPU:best_sources b CPU:best_sources");
}

TEST_F(PlaceTest, WithoutAnInputTheFirstDeviceTakesAGraphWithoutWeights) {
    add_board("G0");
    x = matrix("x");
    a = named("a", ggml_silu(context, x));
    b = named("b", ggml_silu(context, a));
    EXPECT_EQ(placed(), "a G0:first_able b G0:best_sources");
    EXPECT_EQ(choice(x).rule, Rule::reader);
    EXPECT_EQ(choice(x).runner, 0);
}

TEST_F(PlaceTest, StoresGoWhereTheCacheIs) {
    Board& board = add_board("G0");
    wc = weight(ggml_backend_cpu_buffer_type(), "wc");
    Tensor* kv = give(matrix("kv"), &board.type, GGML_BACKEND_BUFFER_USAGE_ANY);
    x = input();
    a = named("p1", ggml_mul_mat(context, wc, x));
    Tensor* part = ggml_view_2d(context, kv, 4, 4, kv->nb[1], 0);
    Tensor* store = named("store", ggml_cpy(context, a, part));
    Tensor* seen = ggml_view_2d(context, kv, 4, 4, kv->nb[1], 0);
    named("p2", ggml_mul_mat(context, seen, a));
    EXPECT_EQ(placed(), "p1 CPU:weight store G0:viewed_memory p2 G0:spread_down");
    EXPECT_EQ(choice(part).runner, 0);
    EXPECT_EQ(choice(store).home, 0);
    EXPECT_EQ(choice(kv).home, 0);
}

TEST_F(PlaceTest, RotationsDoNotFollowTheirTinyWeights) {
    add_board("G0");
    Tensor* factors = give(ggml_new_tensor_1d(context, GGML_TYPE_F32, 2),
                           ggml_backend_cpu_buffer_type(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    wg = weight(&boards[0]->type, "wg");
    x = input();
    a = named("a", ggml_mul_mat(context, wg, x));
    Tensor* heads = ggml_reshape_3d(context, a, 4, 1, 4);
    Tensor* places = ggml_new_tensor_1d(context, GGML_TYPE_I32, 4);
    ggml_set_input(places);
    named("turned", ggml_rope_ext(context, heads, places, factors, 4, 0, 0, 1e4F, 1, 0, 1, 0, 0));
    EXPECT_EQ(placed(), "a G0:weight turned G0:spread_down");
}

TEST_F(PlaceTest, ANodeNoNeighbourCanRunGoesWhereMostOfItsSourcesAre) {
    add_board("G0").lacks = {GGML_OP_ADD};
    add_board("G1").lacks = {GGML_OP_ADD};
    add_board("G2");
    wg = weight(&boards[0]->type, "wg");
    Tensor* other = weight(&boards[1]->type, "other");
    x = input();
    a = named("a", ggml_mul_mat(context, wg, wg));
    b = named("b", ggml_add(context, a, x));
    d = named("d", ggml_mul_mat(context, other, other));
    EXPECT_EQ(placed(), "a G0:weight b CPU:best_sources d G1:weight")
        << "G2 could run b, but reaches none of its sources";
}

TEST_F(PlaceTest, ViewsAreWhereTheirRootIs) {
    add_board("G0");
    build_two_homes();
    Tensor* turned = ggml_transpose(context, f);
    named("turned", turned);
    Tensor* leaf = matrix("leaf");
    Tensor* reshaped = named("reshaped", ggml_reshape_1d(context, leaf, 16));
    named("g", ggml_silu(context, reshaped));
    EXPECT_EQ(placed(false), "a G0 b G0 d CPU e G0 f G0 g G0");
    EXPECT_EQ(choice(turned).runner, 0);
    EXPECT_EQ(choice(turned).rule, Rule::view);
    EXPECT_EQ(choice(leaf).runner, 0) << "it goes to the reader of its view";
    EXPECT_EQ(choice(reshaped).runner, 0);
}

TEST_F(PlaceTest, InPlaceNodesRunWhereTheMemoryIsTheyWrite) {
    add_board("G0");
    wg = weight(&boards[0]->type, "wg");
    x = input();
    a = named("a", ggml_add_inplace(context, x, wg));
    EXPECT_EQ(placed(), "a CPU:viewed_memory") << "its weight is on G0, but it writes the input";
}

TEST_F(PlaceTest, LeafsNoNodeReadsAreOnTheHost) {
    add_board("G0");
    x = matrix("x");
    ggml_build_forward_expand(graph, x);
    EXPECT_EQ(placed(), "");
    EXPECT_EQ(choice(x).runner, 1);
}

TEST_F(PlaceTest, AnEmptyGraphIsPlaced) {
    add_board("G0");
    EXPECT_EQ(placed(), "");
    EXPECT_TRUE(placement.choices.empty());
}

TEST_F(PlaceTest, TwentyDevicesHaveTwentyShares) {
    std::string expected;
    Tensor* last = input();
    for (int i = 0; i < 20; ++i) {
        Board& board = add_board(text("G", i));
        last = ggml_mul_mat(context, weight(&board.type, "w"), last);
        named(text("n", i).c_str(), last);
        expected += text(i == 0 ? "" : " ", "n", i, " G", i);
    }
    EXPECT_EQ(placed(false), expected);
}

TEST_F(PlaceTest, DevicesAreAskedAtMostOncePerNode) {
    add_board("G0").lacks = {GGML_OP_UNARY};
    build_two_homes();
    placed();
    EXPECT_LE(boards[0]->questions, 5);
}

// ---- pins --------------------------------------------------------------------------------------

TEST_F(PlaceTest, APinDecides) {
    add_board("G0");
    build_two_homes();
    pins[e] = 1;
    EXPECT_EQ(placed(), "a G0:weight b G0:spread_down d CPU:weight e CPU:pinned f G0:weight");
}

TEST_F(PlaceTest, APinIsNotUpgraded) {
    add_board("A").use_host_memory();
    wc = weight(ggml_backend_cpu_buffer_type(), "wc");
    a = named("a", ggml_mul_mat(context, wc, wc));
    pins[a] = 1;
    EXPECT_EQ(placed(), "a CPU:pinned");
}

TEST_F(PlaceTest, APinOnAViewHasNoEffect) {
    add_board("G0");
    wg = weight(&boards[0]->type, "wg");
    a = named("a", ggml_mul_mat(context, wg, wg));
    b = ggml_transpose(context, a);
    named("b", b);
    pins[b] = 1;
    EXPECT_EQ(placed(), "a G0:weight");
    EXPECT_EQ(choice(b).runner, 0);
}

TEST_F(PlaceTest, APinToADeviceThatCannotRunTheNodeIsAnError) {
    add_board("G0").lacks = {GGML_OP_UNARY};
    build_two_homes();
    pins[b] = 0;
    EXPECT_EQ(placed(),
              "SILU of 'b' f32[4,4,1,1] is pinned to G0, which cannot run it: does not "
              "support it");
}

TEST_F(PlaceTest, APinToALostDeviceIsRemembered) {
    add_board("G0");
    add_board("G1");
    build_two_homes();
    pins[e] = 1;
    unavailable = {1};
    EXPECT_EQ(placed(false), "a G0 b G0 d CPU e G0 f G0");
    EXPECT_TRUE(choice(e).lost_pin);
    EXPECT_THAT(to_text(placement, index, team), HasSubstr("its pin is to a device"));
}

// ---- memory where the op cannot run ------------------------------------------------------------

TEST_F(PlaceTest, ANodeWhoseMemoryIsWhereItCannotRunIsComputedAway) {
    Board& board = add_board("G0");
    board.lacks = {GGML_OP_CPY};
    wc = weight(ggml_backend_cpu_buffer_type(), "wc");
    Tensor* kv = give(matrix("kv"), &board.type, GGML_BACKEND_BUFFER_USAGE_ANY);
    x = input();
    a = named("p1", ggml_mul_mat(context, wc, x));
    Tensor* store = named("store", ggml_cpy(context, a, kv));
    EXPECT_EQ(placed(), "p1 CPU:weight store CPU:away");
    EXPECT_EQ(choice(store).home, 0);
    EXPECT_EQ(&index[choice(store).because], kv);
    EXPECT_THAT(to_text(placement, index, team), HasSubstr("on CPU: away 'kv', memory of G0"));
}

TEST_F(PlaceTest, MemoryOfADeviceOutsideTheTeamIsNoHome) {
    add_board("G0");
    Board outside("X");
    Tensor* far = weight(&outside.type, "far");
    x = input();
    a = named("a", ggml_mul_mat(context, far, x));
    Tensor* result = give(ggml_silu(context, a), &outside.type, GGML_BACKEND_BUFFER_USAGE_ANY);
    named("result", result);
    EXPECT_EQ(placed(), "a CPU:best_sources result CPU:away");
    EXPECT_EQ(choice(far).home, kNoRunner);
    EXPECT_EQ(choice(far).runner, choice(a).runner);
    EXPECT_EQ(choice(result).home, kNoRunner);
    buffers.clear();
}

TEST_F(PlaceTest, NodesOfALostDeviceRunElsewhereAndItsMemoryStaysItsOwn) {
    add_board("G0");
    build_two_homes();
    Tensor* result = give(ggml_silu(context, f), &boards[0]->type, GGML_BACKEND_BUFFER_USAGE_ANY);
    named("result", result);
    unavailable = {0};
    EXPECT_EQ(placed(false), "a CPU b CPU d CPU e CPU f CPU result CPU");
    EXPECT_EQ(choice(wg).home, 0);
    EXPECT_EQ(choice(result).rule, Rule::away);
    EXPECT_EQ(choice(result).home, 0);
}

TEST_F(PlaceTest, APinAwayFromItsMemoryIsComputedAway) {
    Board& board = add_board("G0");
    a = give(ggml_silu(context, input()), &board.type, GGML_BACKEND_BUFFER_USAGE_ANY);
    named("a", a);
    pins[a] = 1;
    EXPECT_EQ(placed(), "a CPU:away");
    EXPECT_EQ(choice(a).home, 0);
}

// ---- what no device can run --------------------------------------------------------------------

TEST_F(PlaceTest, AnOpNoDeviceCanRunIsAnErrorWithTheReasonOfEach) {
    add_board("G0").only = {GGML_OP_ADD};
    x = input();
    a = named("a", ggml_silu(context, x));
    a->src[0]->type = GGML_TYPE_Q4_0;  // no kernel reads that
    const auto result = place();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::unsupported);
    EXPECT_THAT(result.error().message,
                testing::StartsWith("no device can run SILU of 'a' f32[4,4,1,1] (G0: does not "
                                    "support it; CPU: "));
    EXPECT_THAT(result.error().message, testing::Not(HasSubstr("CPU: does not support it")));
}

TEST(Objection, IsInTheWordsOfTheDevice) {
    ASSERT_TRUE(sim::configure("devices=1,ops=all,-SILU"));
    const sim::Stream stream(ggml_backend_dev_init(sim::device(), nullptr));
    const sim::ContextOwner context(ggml_init({1 << 20, nullptr, true}));
    Tensor* x = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 4);
    Runner runner;
    runner.stream = stream.get();
    runner.device = sim::device();
    EXPECT_EQ(objection(runner, *ggml_sqr(context.get(), x)), "");
    const std::string words = objection(runner, *ggml_silu(context.get(), x));
    EXPECT_NE(words, "");
    EXPECT_NE(words, "does not support it");
    runner.available = false;
    EXPECT_EQ(objection(runner, *x), "is not available");
}

// ---- teams -------------------------------------------------------------------------------------

TEST(TeamTest, NeedsACpuAsItsLast) {
    Board board("G0");
    const OwnedStream stream = board.start();
    EXPECT_EQ(Team::make({}, {}, false).error().message, "a scheduler needs at least one stream");
    Stream* only[] = {stream.get()};
    EXPECT_THAT(Team::make(only, {}, false).error().message,
                HasSubstr("the last stream of a scheduler must be of a CPU device"));
    Stream* missing[] = {nullptr};
    EXPECT_EQ(Team::make(missing, {}, false).error().message, "stream 0 of the scheduler is NULL");
}

TEST(TeamTest, RefusesMemoryThatADeviceCannotUse) {
    Board board("G0");
    const OwnedStream cpu(ggml_backend_cpu_init());
    Stream* streams[] = {cpu.get()};
    BufferType* types[] = {&board.type};
    EXPECT_EQ(Team::make(streams, types, false).error().message,
              "stream 0 of the scheduler, 'CPU': its device does not support buffer type 'G0'");
}

TEST(TeamTest, KnowsItsRunners) {
    Board board("G0");
    const OwnedStream stream = board.start(), cpu(ggml_backend_cpu_init());
    Stream* streams[] = {stream.get(), cpu.get()};
    Team team = *Team::make(streams, {}, true);
    EXPECT_EQ(team.size(), 2u);
    EXPECT_EQ(team.last(), 1);
    EXPECT_TRUE(team.offloads());
    EXPECT_EQ(team.find(cpu.get()), 1);
    EXPECT_EQ(team.find(nullptr), kNoRunner);
    EXPECT_TRUE(team[0].is_async);
    EXPECT_FALSE(team[0].on_host);
    EXPECT_TRUE(team[1].on_host);
    EXPECT_FALSE(team[1].is_async);
    EXPECT_TRUE(team.can_use(0, board.type));
    EXPECT_FALSE(team.can_use(1, board.type));
    EXPECT_TRUE(team.can_use(1, *ggml_backend_cpu_buffer_type()));
}

}  // namespace
}  // namespace heddle::sched
