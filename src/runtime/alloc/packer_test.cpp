#include "runtime/alloc/packer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "runtime/alloc/lifetimes.hpp"
#include "runtime/alloc/test_support.hpp"
#include "runtime/buffer_type.hpp"
#include "runtime/host_buffer.hpp"

namespace heddle::alloc {
namespace {

Block block(std::size_t size, std::int32_t first, std::int32_t last) {
    return {.size = size, .arena = 0, .first = first, .last = last};
}

/// The definition, pair by pair.
void expect_sound(const std::vector<Block>& blocks, const Packing& packing, std::size_t limit) {
    ASSERT_EQ(packing.places.size(), blocks.size());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        const Place& a = packing.places[i];
        ASSERT_LT(a.chunk, packing.chunks.size());
        EXPECT_LE(a.offset + blocks[i].size, packing.chunks[a.chunk]);
        EXPECT_LE(a.offset + blocks[i].size, std::max(limit, packing.chunks[a.chunk]));
        for (std::size_t j = 0; j < i; ++j) {
            const Place& b = packing.places[j];
            const bool together =
                blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
            const bool apart = a.chunk != b.chunk || a.offset + blocks[i].size <= b.offset ||
                               b.offset + blocks[j].size <= a.offset;
            EXPECT_TRUE(!together || apart) << "blocks " << j << " and " << i;
        }
    }
    EXPECT_GE(packing.total(), packing.bound);
}

TEST(Packer, NothingTakesNothing) {
    const Packing packing = *pack({}, 100);
    EXPECT_TRUE(packing.chunks.empty());
    EXPECT_EQ(packing.bound, 0u);
}

TEST(Packer, BlocksThatNeverMeetShareTheirMemory) {
    const std::vector<Block> blocks{block(64, 0, 1), block(64, 2, 3), block(32, 1, 2)};
    const Packing packing = *pack(blocks, SIZE_MAX / 2);
    expect_sound(blocks, packing, SIZE_MAX / 2);
    EXPECT_EQ(packing.total(), 96u);
}

TEST(Packer, ALargeBlockThatComesLateDoesNotPileUp) {
    // In order of time, the long small one would lie between two holes too small for the large one.
    const std::vector<Block> blocks{block(40, 0, 1), block(10, 1, 5), block(40, 2, 3),
                                    block(80, 4, 5)};
    const Packing packing = *pack(blocks, SIZE_MAX / 2);
    expect_sound(blocks, packing, SIZE_MAX / 2);
    EXPECT_EQ(packing.total(), packing.bound);
}

TEST(Packer, ChunksStayBelowTheirLimitUnlessABlockIsLargerByItself) {
    const std::vector<Block> blocks{block(8, 0, 3), block(8, 0, 3), block(24, 1, 2),
                                    block(16, 1, 3)};
    const Packing packing = *pack(blocks, 16);
    expect_sound(blocks, packing, 16);
    EXPECT_EQ(std::ranges::count_if(packing.chunks, [](std::size_t size) { return size > 16; }), 1);
    EXPECT_EQ(packing.total(), 56u);
}

TEST(Packer, SizesThatCannotBeCountedAreRefused) {
    const std::vector<Block> blocks{block(SIZE_MAX / 8, 0, 1), block(SIZE_MAX / 8, 2, 3),
                                    block(SIZE_MAX / 8, 4, 5)};
    EXPECT_EQ(pack(blocks, SIZE_MAX).error().message,
              "planning memory: 3 blocks take more bytes than can be counted");
}

TEST(Packer, RandomBlocksAreSoundAndNearTheBound) {
    std::mt19937 random(1);
    double sum = 0, worst = 0;
    for (int round = 0; round < 100; ++round) {
        std::vector<Block> blocks;
        for (int i = 0; i < 120; ++i) {
            const auto first = static_cast<std::int32_t>(random() % 100);
            const auto length = static_cast<std::int32_t>(random() % (i % 8 == 0 ? 60 : 6));
            blocks.push_back(block(32 * (random() % 64), first, first + length));
        }
        const Packing packing = *pack(blocks, SIZE_MAX / 2);
        expect_sound(blocks, packing, SIZE_MAX / 2);
        expect_sound(blocks, *pack(blocks, 4096), 4096);
        const double ratio =
            static_cast<double>(packing.total()) / static_cast<double>(packing.bound);
        sum += ratio;
        worst = std::max(worst, ratio);
    }
    EXPECT_LE(sum / 100, 1.02);
    EXPECT_LE(worst, 1.10);
}

TEST(Packer, ABlockThatIsShortLivedAndLargeIsNotTakenForTiny) {
    // One moment of many blocks in a long time of few: on average over time they are nothing.
    std::vector<Block> blocks{block(32, 0, 100'000)};
    for (int i = 0; i < 600; ++i) blocks.push_back(block(32 * (1 + i % 7), 50'000, 50'000 + i % 3));
    for (int i = 0; i < 50; ++i) blocks.push_back(block(96, 50'001 + i % 2, 50'002 + i % 5));
    const Packing packing = *pack(blocks, SIZE_MAX / 2);
    expect_sound(blocks, packing, SIZE_MAX / 2);
    EXPECT_LE(packing.total(), packing.bound + packing.bound / 20);
}

TEST(Packer, SizesOfAnyMagnitudeAreSound) {
    std::mt19937_64 random(2);
    for (int round = 0; round < 100; ++round) {
        std::vector<Block> blocks;
        const std::size_t count = 1 + random() % 80;
        for (std::size_t i = 0; i < count; ++i) {
            const auto first = static_cast<std::int32_t>(random() % 50);
            const auto length = static_cast<std::int32_t>(random() % 20);
            blocks.push_back(block(random() >> (9 + random() % 55), first, first + length));
        }
        const Packing packing = *pack(blocks, SIZE_MAX / 2);
        expect_sound(blocks, packing, SIZE_MAX / 2);
        expect_sound(blocks, *pack(blocks, packing.bound / 3), packing.bound / 3);
        EXPECT_EQ(pack(blocks, SIZE_MAX / 2)->total(), packing.total());
    }
}

TEST(Packer, ManyBlocksAreSoundToo) {
    std::mt19937 random(3);
    std::vector<Block> blocks;
    for (int i = 0; i < 3000; ++i) {
        const auto first = static_cast<std::int32_t>(random() % 2000);
        const auto length = static_cast<std::int32_t>(random() % (i % 8 == 0 ? 900 : 20));
        blocks.push_back(block(32 * (random() % 256), first, first + length));
    }
    const Packing packing = *pack(blocks, SIZE_MAX / 2);
    expect_sound(blocks, packing, SIZE_MAX / 2);
    EXPECT_LE(packing.total(), packing.bound + packing.bound / 10);
    expect_sound(blocks, *pack(blocks, packing.bound / 3), packing.bound / 3);
}

TEST(Packer, WhatWasPackedBeforeChangesNothing) {
    std::mt19937 random(4);
    Packer kept;
    for (int round = 0; round < 200; ++round) {
        std::vector<Block> blocks;
        const std::size_t count = random() % (round % 20 == 0 ? 3000 : 150);
        for (std::size_t i = 0; i < count; ++i) {
            const auto first = static_cast<std::int32_t>(random() % (1 + count));
            const auto length = static_cast<std::int32_t>(random() % (i % 8 == 0 ? 60 : 6));
            blocks.push_back(block(32 * (random() % 64), first, first + length));
        }
        const std::size_t limit = round % 2 == 0 ? SIZE_MAX / 2 : 4096;
        const Packing& again = **kept.pack(blocks, limit);
        const Packing once = *pack(blocks, limit);
        expect_sound(blocks, again, limit);
        EXPECT_EQ(again.chunks, once.chunks);
        for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(again.places[i].chunk, once.places[i].chunk);
            EXPECT_EQ(again.places[i].offset, once.places[i].offset);
        }
    }
}

// ---- whole graphs ------------------------------------------------------------------------------

/// Memory planned over the most bytes that are alive at one time.
double ratio_of(const Graph& graph) {
    BufferType* const types[] = {&host_buffer_type()};
    const std::size_t alignments[] = {alignment_of(*types[0])};
    LifetimeFinder finder;
    const Assignment all{.arenas = types, .alignments = alignments, .nodes = {}, .leafs = {}};
    const Packing packing = *pack((*finder.find(graph, all))->blocks, SIZE_MAX);
    return static_cast<double>(packing.total()) / static_cast<double>(packing.bound);
}

TEST(Packer, TransformersTakeNoMoreThanTheirBound) {
    for (const std::int64_t tokens : {1, 32, 512}) {
        test::SampleGraph sample(32 * 64 + 64);
        test::Transformer(sample, {.tokens = tokens}).build();
        EXPECT_EQ(ratio_of(sample.graph()), 1.0) << tokens << " tokens";
    }
}

TEST(Packer, RandomGraphsStayNearTheirBound) {
    double sum = 0;
    for (int i = 0; i < 200; ++i) {
        const int nodes = 20 + i % 50 * 40;
        test::SampleGraph sample(static_cast<std::size_t>(nodes) + 64);
        test::build_random(sample, nodes, static_cast<std::uint32_t>(i));
        const double ratio = ratio_of(sample.graph());
        EXPECT_LE(ratio, 1.10) << "seed " << i;
        sum += ratio;
    }
    EXPECT_LE(sum / 200, 1.02);
}

TEST(Packer, LargeGraphsStayNearTheirBound) {
    double sum = 0;
    for (std::uint32_t seed = 0; seed < 5; ++seed) {
        test::SampleGraph sample(16'064);
        test::build_random(sample, 16'000, seed);
        const double ratio = ratio_of(sample.graph());
        EXPECT_LE(ratio, 1.05) << "seed " << seed;
        sum += ratio;
    }
    EXPECT_LE(sum / 5, 1.02);
    test::SampleGraph sample(320 * 64 + 64);
    test::Transformer(sample, {.layers = 320}).build();
    EXPECT_EQ(ratio_of(sample.graph()), 1.0);
}

}  // namespace
}  // namespace heddle::alloc
