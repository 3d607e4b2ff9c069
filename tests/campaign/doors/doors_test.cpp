// What the doors are made of: drafts of files, words of commands, and who may be freed when.
#include <gtest/gtest.h>

#include <array>

#include "tests/campaign/doors/api_world.hpp"
#include "tests/campaign/doors/command_words.hpp"
#include "tests/campaign/doors/gguf_draft.hpp"

namespace heddle::campaign {
namespace {

gguf_context* read(const GgufDraft& draft) {
    return gguf_init_from_buffer(draft.bytes.data(), draft.bytes.size(), {true, nullptr});
}

TEST(GgufDraft, IsWellFormedUntilItIsDamaged) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        Choices choices(seed);
        const GgufDraft draft = draw_gguf(choices);
        gguf_context* file = read(draft);
        ASSERT_NE(file, nullptr) << "seed " << seed;
        EXPECT_EQ(gguf_get_n_kv(file), static_cast<std::int64_t>(draft.pairs));
        EXPECT_EQ(gguf_get_n_tensors(file), static_cast<std::int64_t>(draft.tensors));
        gguf_free(file);
    }
}

TEST(GgufDraft, OfWrittenBytesHasTheItemsThatWereDrawn) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        Choices choices(seed);
        const GgufDraft drawn = draw_gguf(choices);
        const GgufDraft found = draft_of(drawn.bytes);
        ASSERT_EQ(found.items.size(), drawn.items.size()) << "seed " << seed;
        for (std::size_t i = 0; i < found.items.size(); ++i) {
            EXPECT_EQ(found.items[i].begin, drawn.items[i].begin);
            EXPECT_EQ(found.items[i].end, drawn.items[i].end);
        }
    }
}

TEST(GgufDraft, DamageIsMostlyRefused) {
    int refused = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        Choices choices(seed);
        GgufDraft draft = draw_gguf(choices);
        Trace trace;
        damage(draft, choices, trace);
        gguf_context* file = read(draft);
        refused += file == nullptr;
        gguf_free(file);
    }
    EXPECT_GT(refused, 100);
    EXPECT_LT(refused, 200) << "nothing behind the first check is ever reached";
}

TEST(CommandWords, AreReadFromWhatFishIsTold) {
    const auto commands = command_words(
        "complete -c heddle -n 'not __fish_seen_subcommand_from bench run' -l version -d 'x'\n"
        "complete -c heddle -n '__fish_seen_subcommand_from bench; and "
        "__fish_seen_subcommand_from ops' -s t -l threads -x -d 'x'\n"
        "complete -c heddle -n '__fish_seen_subcommand_from run' -F\n"
        "complete -c heddle -n '__fish_seen_subcommand_from run' -l policy -x -a 'rules cost' -d "
        "'it'\\''s'\n");
    ASSERT_EQ(commands.size(), 3u);
    EXPECT_TRUE(commands[0].words.empty());
    EXPECT_EQ(commands[1].words, (std::vector<std::string>{"bench", "ops"}));
    ASSERT_EQ(commands[1].options.size(), 1u);
    EXPECT_EQ(commands[1].options[0].name, "--threads");
    EXPECT_TRUE(commands[1].options[0].takes_value);
    EXPECT_TRUE(commands[2].takes_file);
    ASSERT_EQ(commands[2].options.size(), 1u);
    EXPECT_EQ(commands[2].options[0].choices, (std::vector<std::string>{"rules", "cost"}));
}

TEST(ApiWorld, ContextOutlivesABufferThatKnowsItAndIsNotUsedAfterIt) {
    ApiWorld world;
    ggml_context* made = ggml_init({1 << 12, nullptr, true});
    const int context = world.add(Kind::context, made, {});
    world.add_tensor(ggml_new_tensor_1d(made, GGML_TYPE_F32, 4), std::array{context});
    const int buffer =
        world.add(Kind::buffer,
                  ggml_backend_alloc_ctx_tensors_from_buft(made, ggml_backend_cpu_buffer_type()),
                  std::array{context});
    EXPECT_FALSE(world.may_free(context));
    EXPECT_TRUE(world.may_free(buffer));
    EXPECT_EQ(world.usable_tensors().size(), 1u);

    world.free(buffer);
    EXPECT_TRUE(world.usable_tensors().empty()) << "its data are gone";
    EXPECT_TRUE(world.may_free(context));
}

TEST(ApiWorld, ContextOutlivesWhoKnowsAContextThatHasItsTensors) {
    ApiWorld world;
    const auto make = [&] {
        return world.add(Kind::context, ggml_init({1 << 12, nullptr, true}), {});
    };
    const int operands = make(), graphs = make();
    world.link(std::array{operands, graphs});
    EXPECT_FALSE(world.may_free(operands)) << "the other one is in use";
    ggml_backend_t cpu = ggml_backend_cpu_init();
    const int stream = world.add(Kind::stream, cpu, std::array{graphs});
    const int allocator = world.add(
        Kind::allocator, ggml_gallocr_new(ggml_backend_cpu_buffer_type()), std::array{graphs});
    world.free(allocator);
    EXPECT_TRUE(world.usable(Kind::context).empty());
    EXPECT_FALSE(world.may_free(operands)) << "the stream may still reach it";
    world.free(stream);
    EXPECT_TRUE(world.may_free(operands));
}

}  // namespace
}  // namespace heddle::campaign
