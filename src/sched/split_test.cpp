#include "sched/split.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "ggml/ops.h"
#include "runtime/stream.hpp"
#include "sched/stage_test_support.hpp"

namespace heddle::sched {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A graph over simulated devices and the CPU, cut.
class SplitTest : public test::StageTest {
protected:
    void use(const std::string& parameters, int devices = 1, bool offload = false) {
        make_team(start_streams(parameters, devices), offload);
    }
    void make_team(const std::vector<Stream*>& streams, bool offload = false) {
        StageTest::make_team(streams, {}, offload);
    }

    /// Places and cuts; the outcome as "[nodes] runner (inputs)" for each split.
    std::vector<std::string> cut(Graph& graph, int slots = 1, const Pins& pins = {}) {
        cut_graph(graph, slots, pins);
        if (HasFatalFailure()) return {};
        check_consistency();
        std::vector<std::string> words;
        for (const Split& split : splits_.splits) words.push_back(words_for(split));
        return words;
    }

    std::string words_for(const Split& split) {
        std::string nodes, inputs;
        for (auto i = split.begin; i < split.end; ++i) {
            nodes += (nodes.empty() ? "" : " ") + name_at(i);
        }
        for (const auto i : split.inputs) {
            const Copy& copy = splits_.copies[std::size_t(i)];
            inputs += (inputs.empty() ? "" : " ") + std::string(index_[copy.tensor].name);
        }
        return "[" + nodes + "] " + (*team_)[split.runner].name + " (" + inputs + ")";
    }
    std::string name_at(std::int32_t position) {
        return index_[splits_.order[std::size_t(position)]].name;
    }

    /// What holds for every outcome.
    void check_consistency() {
        std::int32_t position = 0;
        std::uint32_t patch = 0;
        for (const Split& split : splits_.splits) {
            EXPECT_EQ(split.begin, position);
            EXPECT_LT(split.begin, split.end);
            EXPECT_EQ(split.first_patch, patch);
            position = split.end;
            for (; patch < split.last_patch; ++patch) {
                const Patch& each = splits_.patches[patch];
                EXPECT_GE(each.position, split.begin);
                EXPECT_LT(each.position, split.end);
                const Tensor& node = index_[splits_.order[std::size_t(each.position)]];
                EXPECT_EQ(node.src[each.slot], &index_[each.original]);
                EXPECT_EQ(splits_.copies[std::size_t(each.copy)].tensor, each.original);
            }
        }
        EXPECT_EQ(position, index_.graph().n_nodes);
        EXPECT_EQ(patch, splits_.patches.size());
    }

    const Copy& copy_of(const Tensor* tensor) {
        for (const Copy& copy : splits_.copies) {
            if (&index_[copy.tensor] == tensor) return copy;
        }
        ADD_FAILURE() << "no copy of " << tensor->name;
        static const Copy none;
        return none;
    }
    std::size_t copies_of(const Tensor* tensor) {
        return std::size_t(std::count_if(splits_.copies.begin(), splits_.copies.end(),
                                         [&](auto& c) { return &index_[c.tensor] == tensor; }));
    }
};

Tensor* named(Tensor* tensor, const char* name) { return ggml_set_name(tensor, name); }

/// a = mul_mat(wg, x), b = silu(a), d = mul_mat(wc, b), e = silu(d), f = mul_mat(wg, e).
class Chain : public SplitTest {
protected:
    void build(std::int64_t rows = 4) {
        wg = weight("wg", on(0)), wc = weight("wc", host()), x = input("x", rows);
        a = named(ggml_mul_mat(context(), wg, x), "a");
        b = named(ggml_silu(context(), a), "b");
        d = named(ggml_mul_mat(context(), wc, b), "d");
        e = named(ggml_silu(context(), d), "e");
        f = named(ggml_mul_mat(context(), wg, e), "f");
    }
    Tensor *wg, *wc, *x, *a, *b, *d, *e, *f;
};

TEST_F(Chain, WeightsDecideAndNeighboursFollow) {
    use("devices=1");
    build();
    EXPECT_THAT(cut(graph({f})), ElementsAre("[a b] SIM0 (x)", "[d] CPU (b)", "[e f] SIM0 (d)"));
    EXPECT_EQ(copy_of(x).kind, Copy::Kind::input);
    EXPECT_EQ(copy_of(x).writer, kNoTensor);
    EXPECT_EQ(copy_of(b).kind, Copy::Kind::value);
    EXPECT_EQ(copy_of(b).from, 0);
    EXPECT_EQ(copy_of(b).to, 1);
    EXPECT_EQ(copy_of(b).writer, index_.find(b));
    EXPECT_EQ(copy_of(b).bytes, ggml_nbytes(b));
}

TEST_F(Chain, WeightsAreCopiedToADeviceThatWantsThem) {
    use("devices=1,offload=1", 1, true);
    build();
    EXPECT_THAT(cut(graph({f})), ElementsAre("[a b] SIM0 (x)", "[d e f] SIM0 (wc)"));
    EXPECT_EQ(copy_of(wc).kind, Copy::Kind::constant);
    EXPECT_EQ(copy_of(wc).from, 1);
}

TEST_F(Chain, WhatADeviceLacksRunsOnTheHost) {
    use("devices=1,ops=all,-UNARY");
    build();
    EXPECT_THAT(cut(graph({f})), ElementsAre("[a] SIM0 (x)", "[b d e] CPU (a)", "[f] SIM0 (e)"));
}

TEST_F(Chain, PinsHold) {
    use("devices=1");
    build();
    EXPECT_THAT(cut(graph({f}), 1, {{e, 1}}),
                ElementsAre("[a b] SIM0 (x)", "[d e] CPU (b)", "[f] SIM0 (e)"));
}

TEST_F(Chain, TextNamesSplitsAndSizes) {
    use("devices=1");
    build();
    cut(graph({f}));
    EXPECT_EQ(to_text(splits_, index_, *team_),
              "split 0: SIM0, 2 nodes, 1 inputs: [x (1K)]\n"
              "split 1: CPU, 1 nodes, 1 inputs: [b (1K)]\n"
              "split 2: SIM0, 2 nodes, 1 inputs: [d (1K)]\n");
}

TEST_F(Chain, TheGraphIsAsItWas) {
    use("devices=1");
    build();
    Graph& g = graph({f});
    std::vector<Tensor> before;
    for (Tensor* node : nodes_of(g)) before.push_back(*node);
    cut(g, 3);
    for (std::size_t i = 0; i < before.size(); ++i) {
        EXPECT_EQ(std::memcmp(&before[i], g.nodes[i], sizeof(Tensor)), 0) << before[i].name;
    }
}

TEST_F(Chain, StandInsHaveLayoutNameAndNothingElse) {
    use("devices=1");
    build();
    cut(graph({f}));
    const Tensor& stand_in = splits_.stand_in(copy_of(x), 0);
    EXPECT_STREQ(stand_in.name, "SIM0#x#0");
    EXPECT_TRUE(same_layout(stand_in, *x));
    EXPECT_EQ(stand_in.op, GGML_OP_NONE);
    EXPECT_EQ(stand_in.flags, 0);
    EXPECT_EQ(stand_in.buffer, nullptr);
    EXPECT_EQ(stand_in.view_src, nullptr);
}

TEST_F(Chain, EverySlotHasAStandInOfItsOwnButConstantsShareOne) {
    use("devices=1,offload=1", 1, true);
    build();
    cut(graph({f}), 3);
    const Copy& copy = copy_of(x);
    EXPECT_EQ(copy.stand_ins, 3);
    EXPECT_STREQ(splits_.stand_in(copy, 2).name, "SIM0#x#2");
    EXPECT_EQ(splits_.stand_in(copy, 1).flags, GGML_TENSOR_FLAG_INPUT | GGML_TENSOR_FLAG_OUTPUT);
    EXPECT_EQ(copy_of(wc).stand_ins, 1);
    EXPECT_STREQ(splits_.stand_in(copy_of(wc), 2).name, "SIM0#wc#0");
}

TEST_F(SplitTest, LongNamesKeepTheirSlot) {
    use("devices=1");
    Tensor* x = input("x");
    const std::string long_name(63, 'n');
    ggml_set_name(x, long_name.c_str());
    cut(graph({ggml_mul_mat(context(), weight("w", on(0)), x)}), 12);
    EXPECT_EQ(splits_.stand_in(copy_of(x), 11).name, "SIM0#" + std::string(55, 'n') + "#11");
    EXPECT_EQ(std::strlen(splits_.stand_in(copy_of(x), 11).name), 63U);
}

TEST_F(SplitTest, AcceleratorsOfHostMemoryNeedNoCopies) {
    use("devices=1");
    Stream* cpu = owned_.back().get();
    Device accelerator = *cpu->device;
    accelerator.iface.supports_op = [](Device*, const Tensor* t) {
        return t->op == GGML_OP_MUL_MAT;
    };
    accelerator.iface.get_type = [](Device*) { return GGML_BACKEND_DEVICE_TYPE_ACCEL; };
    Stream stream = *cpu;
    stream.device = &accelerator;
    make_team({&stream, cpu});
    Tensor *w = weight("w", host()), *x = input("x");
    Tensor* p1 = named(ggml_mul_mat(context(), w, x), "p1");
    Tensor* p2 = named(ggml_silu(context(), p1), "p2");
    Tensor* p3 = named(ggml_mul_mat(context(), w, p2), "p3");
    cut(graph({ggml_silu(context(), p3)}));
    ASSERT_EQ(splits_.splits.size(), 4U);
    EXPECT_THAT(splits_.copies, IsEmpty());
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(splits_.splits[i].runner, i % 2);
}

TEST_F(SplitTest, InputsAttractWhatHasNoWeights) {
    use("devices=1");
    Tensor* x = input("x");
    EXPECT_THAT(cut(graph({named(ggml_silu(context(), x), "y")})), ElementsAre("[y] CPU ()"));
    Tensor* leaf = floats({16}, "leaf");
    EXPECT_THAT(cut(graph({named(ggml_silu(context(), leaf), "y")})), ElementsAre("[y] SIM0 ()"));
}

TEST_F(SplitTest, AStoreIntoGivenMemoryIsCopiedToOnce) {
    use("devices=1");
    Tensor *w = weight("w", host()), *x = input("x");
    Tensor* kv = bench_.place(floats({16, 8}, "kv"), on(0));
    Tensor* p1 = named(ggml_mul_mat(context(), w, x), "p1");
    Tensor* place = named(ggml_view_2d(context(), kv, 16, 4, kv->nb[1], 0), "place");
    Tensor* store = named(ggml_cpy(context(), p1, place), "store");
    Tensor* look = named(ggml_view_2d(context(), kv, 16, 4, kv->nb[1], 0), "look");
    Tensor* p2 = named(ggml_mul_mat(context(), look, p1), "p2");
    EXPECT_THAT(cut(graph({store, p2})),
                ElementsAre("[p1 place] CPU ()", "[store look p2] SIM0 (p1)"));
}

TEST_F(SplitTest, AnEmptyGraphHasNoSplits) {
    use("devices=1");
    EXPECT_THAT(cut(graph({})), IsEmpty());
    EXPECT_EQ(to_text(splits_, index_, *team_), "");
}

TEST_F(SplitTest, ViewsInFrontBelongToTheFirstSplit) {
    use("devices=1");
    Tensor* x = input("x");
    Tensor* v = named(ggml_transpose(context(), x), "v");
    Tensor* y = named(ggml_mul_mat(context(), weight("w", on(0)), x), "y");
    Tensor* z = named(ggml_cont(context(), v), "z");
    EXPECT_THAT(cut(graph({v, y, z})), ElementsAre("[v y z] SIM0 (x v)"));
    EXPECT_TRUE(same_layout(splits_.stand_in(copy_of(v), 0), *v));
    EXPECT_EQ(copy_of(v).bytes, ggml_nbytes(v));
}

TEST_F(SplitTest, NothingButViewsIsOneSplit) {
    use("devices=1");
    Tensor* v = named(ggml_transpose(context(), input("x")), "v");
    EXPECT_EQ(cut(graph({v})).size(), 1U);
}

TEST_F(SplitTest, AHundredInputsFitIntoOneSplit) {
    use("devices=1");
    Tensor* sum = named(ggml_mul_mat(context(), weight("w", on(0)), input("x")), "sum");
    for (int i = 0; i < 100; ++i) {
        sum = ggml_add(context(), sum, input(("x" + std::to_string(i)).c_str()));
    }
    cut(graph({sum}));
    ASSERT_EQ(splits_.splits.size(), 1U);
    EXPECT_EQ(splits_.splits[0].inputs.size(), 101U);
}

TEST_F(SplitTest, OneCopyServesAllSplitsOfARunnerUntilItsMemoryIsWritten) {
    use("devices=1");
    Tensor *wg = weight("wg", on(0)), *wc = weight("wc", host()), *x = input("x");
    Tensor* c = named(ggml_mul_mat(context(), wc, x), "c");                            // host
    Tensor* g1 = named(ggml_add(context(), ggml_mul_mat(context(), wg, c), c), "g1");  // device
    Tensor* changed = named(ggml_scale_inplace(context(), c, 2), "changed");  // host, writes c
    Tensor* g2 = named(ggml_mul_mat(context(), wg, c), "g2");                 // device, reads anew
    cut(graph({g1, changed, g2}), 1, {{changed, 1}});
    EXPECT_EQ(copies_of(c), 2U);
    EXPECT_EQ(splits_.copies.back().writer, index_.find(changed));

    Tensor* h =
        named(ggml_mul_mat(context(), wc, g1), "h");  // host in between, writes nothing of c
    cut(graph({g1, h, ggml_add(context(), ggml_mul_mat(context(), wg, h), c)}));
    EXPECT_EQ(copies_of(c), 1U);
}

TEST_F(SplitTest, ViewsOfOneMemoryAreStaleTogether) {
    use("devices=1");
    Tensor *wg = weight("wg", on(0)), *x = input("x");
    Tensor* kv = bench_.place(floats({16, 8}, "kv"), host());
    Tensor* look = ggml_view_2d(context(), kv, 16, 4, kv->nb[1], 0);
    Tensor* before = ggml_mul_mat(context(), wg, look);
    Tensor* store = ggml_cpy(context(), x, ggml_view_2d(context(), kv, 16, 4, kv->nb[1], 0));
    Tensor* after = ggml_mul_mat(context(), wg, look);
    cut(graph({before, store, after}));
    EXPECT_EQ(copies_of(look), 2U);
    EXPECT_EQ(copy_of(look).kind, Copy::Kind::value);  // the graph writes it
}

TEST_F(SplitTest, OnlyWeightsAreConstant) {
    use("devices=1");
    Tensor* on_host = bench_.place(floats({16, 4}, "on_host"), host());
    Tensor* on_device = bench_.place(floats({16, 4}, "on_device"), on(0));
    Tensor* constant = weight("constant", on(0), {16, 4});
    Tensor* first = ggml_add(context(), input("x"), on_host);
    Tensor* second = ggml_add(context(), first, on_device);
    Tensor* third = ggml_add(context(), second, constant);
    cut(graph({third}), 1, {{first, 0}, {second, 1}, {third, 1}});
    EXPECT_EQ(copy_of(on_host).kind, Copy::Kind::input);
    EXPECT_EQ(copy_of(on_device).kind, Copy::Kind::value);
    EXPECT_EQ(copy_of(constant).kind, Copy::Kind::constant);
    EXPECT_EQ(copy_of(constant).from, 0);
}

// ---- experts -----------------------------------------------------------------------------------

class Experts : public SplitTest {
protected:
    void build() {
        use("devices=1,offload=1", 1, true);
        gate = weight("gate", host(), {16, 16, 8}), up = weight("up", host(), {16, 16, 8});
        wg = weight("wg", on(0)), x = input("x", 32);
        hidden = ggml_mul_mat(context(), wg, x);
        ids = ggml_new_tensor_2d(context(), GGML_TYPE_I32, 2, 32);
        ggml_set_input(ggml_set_name(ids, "ids"));
    }
    Tensor* choose(Tensor* experts, Tensor* which) {
        return ggml_mul_mat_id(context(), experts, ggml_reshape_3d(context(), hidden, 16, 1, 32),
                               which);
    }
    Tensor *gate, *up, *wg, *x, *hidden, *ids;
};

TEST_F(Experts, OnlyTheChosenOnesAreNeeded) {
    build();
    Tensor *g = choose(gate, ids), *u = choose(up, ids);
    cut(graph({g, u}));
    EXPECT_EQ(copy_of(gate).chooser, index_.find(g));
    EXPECT_EQ(copy_of(up).chooser, index_.find(u));
}

TEST_F(Experts, ReadersOfTheSameChoiceShareACopy) {
    build();
    cut(graph({ggml_add(context(), choose(gate, ids), choose(gate, ids))}));
    EXPECT_EQ(copies_of(gate), 1U);
    EXPECT_NE(copy_of(gate).chooser, kNoTensor);
}

TEST_F(Experts, AnotherChoiceInTheSplitNeedsAll) {
    build();
    Tensor* others = ggml_new_tensor_2d(context(), GGML_TYPE_I32, 2, 32);
    ggml_set_input(others);
    cut(graph({choose(gate, ids), choose(gate, others)}));
    EXPECT_EQ(copies_of(gate), 1U);
    EXPECT_EQ(copy_of(gate).chooser, kNoTensor);
}

TEST_F(Experts, AnotherChoiceInALaterSplitNeedsACopyOfItsOwn) {
    build();
    Tensor* others = ggml_new_tensor_2d(context(), GGML_TYPE_I32, 2, 32);
    ggml_set_input(others);
    Tensor* first = choose(gate, ids);
    Tensor* second = choose(up, ids);  // begins the next split
    cut(graph({first, second, choose(gate, others)}));
    EXPECT_EQ(copies_of(gate), 2U);
    for (const Copy& copy : splits_.copies) {
        if (&index_[copy.tensor] == gate) {
            EXPECT_NE(copy.chooser, kNoTensor);
        }
    }
}

TEST_F(Experts, IdsComputedHereAreKnownWhenTheNextSplitBegins) {
    build();
    Tensor* inside = bench_.place(floats({16, 32}, "inside"), on(0));
    hidden = named(ggml_mul_mat(context(), wg, inside), "hidden");
    Tensor* top = named(ggml_top_k(context(), hidden, 2), "top");
    Tensor* chosen = named(choose(gate, top), "chosen");
    const auto words = cut(graph({hidden, top, chosen}));
    ASSERT_EQ(words.size(), 2U);
    EXPECT_THAT(words[0], HasSubstr("] SIM0 ()"));
    EXPECT_THAT(words[1], HasSubstr("chosen] SIM0 (gate)"));
    EXPECT_EQ(copy_of(gate).chooser, index_.find(chosen));
}

TEST_F(Experts, OtherReadersNeedAll) {
    build();
    Tensor* row = ggml_sum_rows(context(), gate);
    cut(graph({choose(gate, ids), row}), 1, {{row, 0}});
    EXPECT_EQ(copies_of(gate), 1U);
    EXPECT_EQ(copy_of(gate).chooser, kNoTensor);
}

// ---- detours -----------------------------------------------------------------------------------

TEST_F(SplitTest, ANodeWhoseMemoryIsWhereItCannotRunTakesADetour) {
    use("devices=1,ops=all,-SET_ROWS,-UNARY");
    Tensor *wg = weight("wg", on(0)), *x = input("x");
    Tensor* kv = bench_.place(floats({16, 8}, "kv"), on(0));
    Tensor* rows = ggml_new_tensor_1d(context(), GGML_TYPE_I64, 4);
    ggml_set_input(rows);
    Tensor* a = named(ggml_mul_mat(context(), wg, x), "a");
    Tensor* store = named(ggml_set_rows(context(), kv, a, rows), "store");
    Tensor* after = named(ggml_mul_mat(context(), kv, x), "after");
    cut(graph({store, after}));
    ASSERT_EQ(splits_.detours.size(), 1U);
    const Detour& detour = splits_.detours[0];
    EXPECT_EQ(detour.node, index_.find(store));
    EXPECT_TRUE(detour.fetch_first);
    EXPECT_EQ(splits_.splits[std::size_t(detour.split)].runner, 1);
    EXPECT_THAT(splits_.splits[std::size_t(detour.split)].detours, ElementsAre(0));
    const Tensor& stand_in = splits_.stand_ins[std::size_t(detour.stand_in)];
    EXPECT_STREQ(stand_in.name, "CPU#store#0");
    EXPECT_EQ(stand_in.op, GGML_OP_SET_ROWS);
    EXPECT_EQ(stand_in.view_src, nullptr);
    EXPECT_EQ(stand_in.src[1], store->src[1]);
    EXPECT_EQ(stand_in.flags, GGML_TENSOR_FLAG_COMPUTE);
}

TEST_F(SplitTest, WhatADetourWroteIsReadInALaterSplit) {
    use("devices=1,ops=all,-SET_ROWS,-UNARY");
    Tensor* x = input("x");
    Tensor* kv = bench_.place(floats({16, 8}, "kv"), on(0));
    Tensor* rows = ggml_new_tensor_1d(context(), GGML_TYPE_I64, 4);
    ggml_set_input(ggml_set_name(rows, "rows"));
    Tensor* one = named(ggml_set_rows(context(), kv, x, rows), "one");
    Tensor* two = named(ggml_set_rows(context(), one, x, rows), "two");
    Tensor* y = named(ggml_silu(context(), two), "y");
    EXPECT_THAT(cut(graph({one, two, y})),
                ElementsAre(HasSubstr("[one] CPU"), HasSubstr("[two] CPU"), "[y] CPU (two)"));
    EXPECT_EQ(splits_.detours.size(), 2U);
    EXPECT_EQ(copy_of(two).writer, index_.find(two));
    EXPECT_EQ(copy_of(two).from, 0);
}

TEST_F(SplitTest, AChangeInPlaceFromAnotherRunnerIsADetour) {
    use("devices=1");
    Tensor* a = named(ggml_mul_mat(context(), weight("w", on(0)), input("x")), "a");
    Tensor* changed = named(ggml_scale_inplace(context(), a, 2), "changed");
    EXPECT_THAT(cut(graph({changed}), 1, {{changed, 1}}),
                ElementsAre("[a] SIM0 (x)", "[changed] CPU (a)"));
    EXPECT_EQ(splits_.detours.size(), 1U);
}

TEST_F(SplitTest, AnOwnResultInGivenMemoryNeedsNotBeFetched) {
    use("devices=1,ops=all,-UNARY");
    Tensor* y = bench_.place(ggml_silu(context(), input("x")), on(0));
    cut(graph({y}));
    ASSERT_EQ(splits_.detours.size(), 1U);
    EXPECT_FALSE(splits_.detours[0].fetch_first);
}

TEST_F(SplitTest, ACastIsNotAReaderOfItself) {
    use("devices=1,ops=all,-CPY");
    Tensor* y = bench_.place(ggml_cast(context(), input("x"), GGML_TYPE_F16), on(0));
    ASSERT_EQ(y->src[1], y);
    cut(graph({y}));
    ASSERT_EQ(splits_.detours.size(), 1U);
    EXPECT_THAT(splits_.copies, IsEmpty());
    const Tensor& stand_in = splits_.stand_ins[std::size_t(splits_.detours[0].stand_in)];
    EXPECT_EQ(stand_in.src[1], &stand_in);
}

TEST_F(SplitTest, MomentsOutOfReachAreRefused) {
    use("devices=1");
    Tensor* w = bench_.place(floats({16}, "w"), host());
    ggml_set_param(w);
    Tensor *gradient = floats({16}, "gradient"), *values = floats({7}, "values");
    Tensor *m = bench_.place(floats({16}, "m"), on(0)), *v = bench_.place(floats({16}, "v"), on(0));
    Tensor* step = ggml_opt_step_adamw(context(), w, gradient, m, v, values);
    named(step, "step");
    ASSERT_TRUE(index_.read(graph({step})));
    Abilities abilities(index_, *team_);
    const auto placed = place(abilities, {});
    ASSERT_TRUE(placed);
    const auto made = split(abilities, *placed, 1);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().message,
              "'step' f32[16,1,1,1] on CPU changes 'm' f32[16,1,1,1], which is not in its memory");
}

TEST_F(SplitTest, AStandInFollowsItsNodeToAnotherAddress) {
    use("devices=1,ops=all,-UNARY");
    const auto build = [&](const char* name) -> Graph& {
        Tensor* x = input(name);
        return graph({bench_.place(named(ggml_silu(context(), x), name), on(0))});
    };
    cut(build("first"));
    Graph& again = build("second");
    index_.rebind(again);
    rebind(splits_, index_);
    const Tensor& stand_in = splits_.stand_ins[std::size_t(splits_.detours[0].stand_in)];
    EXPECT_EQ(stand_in.src[0], again.leafs[0]);
    EXPECT_STREQ(stand_in.name, "CPU#second#0");
}

// ---- reordering --------------------------------------------------------------------------------

class Reordered : public SplitTest {
protected:
    /// Three sums of a device, in one split, whose backend does this to their order.
    std::vector<std::string> cut_with(void (*optimize)(Stream*, Graph*)) {
        use("devices=1");
        (*team_)[0].stream->iface.graph_optimize = optimize;
        Tensor* w = weight("w", on(0));
        std::vector<Tensor*> sums;
        for (const char* name : {"a", "b", "c"}) {
            sums.push_back(
                named(ggml_mul_mat(context(), w, input(("x" + std::string(name)).c_str())), name));
        }
        Graph& g = graph({sums[0], sums[1], sums[2]});
        auto words = cut(g);
        EXPECT_EQ(g.nodes[0], sums[0]);
        EXPECT_EQ(g.nodes[1], sums[1]);
        return words;
    }
};

TEST_F(Reordered, ABackendMayPermute) {
    EXPECT_THAT(cut_with([](Stream*, Graph* g) { std::swap(g->nodes[0], g->nodes[1]); }),
                ElementsAre("[b a c] SIM0 (xa xb xc)"));
    EXPECT_STREQ(index_[splits_.patches[0].original].name, "xb");
    EXPECT_EQ(splits_.patches[0].position, 0);
}

TEST_F(Reordered, TheLastNodeStaysLast) {
    EXPECT_THAT(cut_with([](Stream*, Graph* g) { std::swap(g->nodes[0], g->nodes[2]); }),
                ElementsAre("[a b c] SIM0 (xa xb xc)"));
}

TEST_F(Reordered, WhatIsNoPermutationIsIgnored) {
    EXPECT_THAT(cut_with([](Stream*, Graph* g) { g->nodes[0] = g->nodes[1]; }),
                ElementsAre("[a b c] SIM0 (xa xb xc)"));
    EXPECT_THAT(cut_with([](Stream*, Graph* g) { g->n_nodes = 1; }),
                ElementsAre("[a b c] SIM0 (xa xb xc)"));
}

TEST_F(SplitTest, SlotsAreCounted) {
    use("devices=1");
    ASSERT_TRUE(index_.read(graph({})));
    Abilities abilities(index_, *team_);
    const auto made = split(abilities, {}, 0);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().message, "a scheduler needs at least 1 slot for copies, not 0");
}

}  // namespace
}  // namespace heddle::sched
