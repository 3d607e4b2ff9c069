// What needs no device: choices, sentences, commands and their arguments.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "backends/vulkan/kernel.hpp"
#include "backends/vulkan/matrices.hpp"
#include "backends/vulkan/memory_block.hpp"
#include "backends/vulkan/pipeline_file.hpp"
#include "backends/vulkan/recorder.hpp"
#include "backends/vulkan/replay.hpp"
#include "backends/vulkan/stopwatch.hpp"
#include "ggml-cpp.h"
#include "ggml/ops_nn.h"
#include "ggml/ops_reduce.h"

namespace heddle::vulkan {
namespace {

// ---- the loader and the choice of devices ------------------------------------------------------

TEST(VulkanLoader, IsMissedWithASentence) {
    const auto opened = Instance::open("libno-such-loader.so.1");
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::not_found);
    EXPECT_TRUE(opened.error().message.starts_with("there is no Vulkan loader: "));
}

TEST(VulkanLoader, IsALibraryWithItsFunctions) {
    const auto opened = Instance::open("libm.so.6");
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().message, "libm.so.6 is no Vulkan loader");
}

TEST(VulkanSelection, TakesNumbersInTheirOrder) {
    const auto numbers = parse_visible("2, 0 2", 3);
    ASSERT_TRUE(numbers);
    EXPECT_EQ(*numbers, (std::vector<std::size_t>{2, 0, 2}));
    EXPECT_TRUE(parse_visible("", 3)->empty());
}

TEST(VulkanSelection, RefusesNumbersThatAreNoDevices) {
    EXPECT_EQ(parse_visible("0,3", 3).error().message,
              "GGML_VK_VISIBLE_DEVICES is '0,3': '3' is not one of the 3 devices, counted from 0");
    EXPECT_EQ(
        parse_visible("gpu", 1).error().message,
        "GGML_VK_VISIBLE_DEVICES is 'gpu': 'gpu' is not one of the 1 devices, counted from 0");
    EXPECT_FALSE(parse_visible("-1", 1));
}

// ---- memory ------------------------------------------------------------------------------------

TEST(VulkanMemory, PrefersWhatTheOptionsSay) {
    constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    constexpr VkMemoryPropertyFlags shared =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    using Sets = std::vector<VkMemoryPropertyFlags>;
    Board board;
    EXPECT_EQ(wanted_properties(Placement::device, board), (Sets{local | shared, local}));
    board.options.uses_visible_device_memory = false;
    EXPECT_EQ(wanted_properties(Placement::device, board), (Sets{local}));
    board.options.may_spill = true;
    EXPECT_EQ(wanted_properties(Placement::device, board), (Sets{local, shared}));
    board.options.prefers_host_memory = true;
    EXPECT_EQ(wanted_properties(Placement::device, board), (Sets{shared, local}));
}

TEST(VulkanMemory, SaysAmountsForPeople) {
    EXPECT_EQ(describe_bytes(12), "12 bytes");
    EXPECT_EQ(describe_bytes(3 << 20), "3.0 MiB");
}

// ---- commands ----------------------------------------------------------------------------------

TEST(VulkanRecorder, FoldsGroupsThatOneAxisCannotHold) {
    EXPECT_EQ(fold_groups(7, 65535), (std::array<std::uint32_t, 3>{7, 1, 1}));
    const auto [x, y, z] = fold_groups(200'000, 65535);
    EXPECT_LE(x, 65535u);
    EXPECT_GE(std::uint64_t{x} * y, 200'000u);
    EXPECT_EQ(z, 1u);
}

TEST(VulkanRecorder, PutsWhatComesBesideArgumentsBehindThem) {
    const DeviceFacts device;
    Recorder recorder(device, 4096);
    const std::array<std::uint32_t, 3> extra{7, 8, 9};
    recorder.run_elements({.shader = Shader::unary, .extra = std::as_bytes(std::span(extra))}, {},
                          1000);
    recorder.run_elements({.shader = Shader::unary}, {}, 0);  // nothing to do
    ASSERT_EQ(recorder.commands().size(), 1u);
    const auto& dispatch = std::get<Dispatch>(recorder.commands()[0]);
    EXPECT_EQ(dispatch.groups, (std::array<std::uint32_t, 3>{4, 1, 1}));
    constexpr std::uint64_t address = 0x10000;
    const auto bytes = recorder.arguments_at(address, 1, 2);
    Arguments arguments;
    std::memcpy(&arguments, bytes.data() + dispatch.arguments, sizeof arguments);
    EXPECT_EQ(arguments.count, 1000u);
    EXPECT_EQ(arguments.scratch, 4096u);
    EXPECT_EQ(arguments.faults, 1u);
    EXPECT_EQ(arguments.codebooks, 2u);
    ASSERT_LE(arguments.extra + sizeof extra, address + bytes.size());
    EXPECT_EQ(std::memcmp(bytes.data() + (arguments.extra - address), extra.data(), sizeof extra),
              0);
}

TEST(VulkanStopwatch, AddsUpWhatHasTheSameName) {
    const std::string table = table_of_times({"add", "mul", "add"}, {10, 50, 30});
    EXPECT_NE(
        table.find("    50.0 55.6%      1    50.00  mul\n    40.0 44.4%      2    20.00  add\n"),
        std::string::npos)
        << table;
    EXPECT_NE(table.find("90 us in all"), std::string::npos) << table;
}

TEST(VulkanStopwatch, GoesOnWhereTheClockBeginsAgain) {
    EXPECT_EQ(ticks_between(5, 12, 36), 7u);
    EXPECT_EQ(ticks_between((std::uint64_t{1} << 36) - 2, 3, 36), 5u);
    EXPECT_EQ(ticks_between(~std::uint64_t{0}, 1, 64), 2u);
    // Bits above those that count may be anything.
    EXPECT_EQ(ticks_between(0xf005, 0x300c, 12), 7u);
}

TEST(VulkanBoard, TakesTimesOnlyWhereThereIsAClock) {
    Board board;
    board.options.is_timing = true;
    EXPECT_FALSE(board.is_timing());
    board.time_bits = 36;
    EXPECT_TRUE(board.is_timing());
    board.options.is_timing = false;
    EXPECT_FALSE(board.is_timing());
}

TEST(VulkanShaders, AreThereUnderTheirNames) {
    for (std::uint16_t i = 0; i < static_cast<std::uint16_t>(Shader::count); ++i) {
        const ShaderCode& code = code_of(static_cast<Shader>(i));
        ASSERT_GT(code.words.size(), 5u) << code.name;
        EXPECT_EQ(code.words[0], 0x07230203u) << code.name;  // SPIR-V begins so
    }
    EXPECT_STREQ(code_of(Shader::unary).name, "unary");
}

TEST(VulkanShaders, WithMatricesUseThoseOfKhronos) {
    for (const Shader shader : {Shader::gemm_matrix, Shader::attention_matrix}) {
        const ShaderCode& code = code_of(shader);
        const auto words = with_khronos_matrices(code.words);
        ASSERT_EQ(words[0], code.words[0]);
        EXPECT_EQ(words[3], code.words[3] + 3) << "three constants are new";
        std::map<std::uint32_t, std::uint32_t> constants, uses;
        std::set<std::uint32_t> layouts;
        int products = 0;
        for (std::size_t at = 5; at < words.size(); at += words[at] >> 16) {
            ASSERT_GT(words[at] >> 16, 0u);
            const std::uint32_t op = words[at] & 0xffff;
            EXPECT_FALSE(op >= 5358 && op <= 5362) << op << " is NVIDIA's";
            if (op == 43) constants[words[at + 2]] = words[at + 3];
            if (op == 4456) uses[words[at + 1]] = constants.at(words[at + 6]);
            if (op == 4459) {
                EXPECT_EQ(uses.at(words[at + 1]), 2u) << "a product is a sum";
                ++products;
            }
            if (op == 4457) layouts.insert(constants.at(words[at + 4]));
            if (op == 4458) {
                EXPECT_LT(constants.at(words[at + 3]), 2u) << "rows or columns";
            }
        }
        EXPECT_EQ(layouts, (std::set{0u, 1u})) << "rows of one factor, columns of the other";
        EXPECT_EQ(uses.size(), 3u) << code.name;
        EXPECT_GT(products, 0) << code.name;
    }
}

// ---- kernels -----------------------------------------------------------------------------------

TEST(VulkanAttention, OnMatrixUnitsTakesPrecisionF32OfWhatFitsIntoHalves) {
    const auto kernels = attention_kernels();
    const auto matrix =
        std::ranges::find(kernels, std::string_view("attention_matrix"), &Kernel::name);
    ASSERT_NE(matrix, kernels.end());
    const auto objection = [&](ggml_type keys, ggml_type values, ggml_prec precision) {
        const ggml_context_ptr context(ggml_init({8 * ggml_tensor_overhead(), nullptr, true}));
        ggml_context* const c = context.get();
        ggml_tensor* const q = ggml_new_tensor_3d(c, GGML_TYPE_F32, 64, 64, 4);
        ggml_tensor* const k = ggml_new_tensor_3d(c, keys, 64, 128, 4);
        ggml_tensor* const v = ggml_new_tensor_3d(c, values, 64, 128, 4);
        ggml_tensor* const y = ggml_flash_attn_ext(c, q, k, v, nullptr, 1, 0, 0);
        ggml_flash_attn_ext_set_prec(y, precision);
        return std::string(matrix->objection(*y));
    };
    EXPECT_EQ(objection(GGML_TYPE_F32, GGML_TYPE_BF16, GGML_PREC_DEFAULT), "");
    EXPECT_EQ(objection(GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_PREC_F32), "");
    const std::string words = "F32 is asked for, and k or v do not fit into half floats";
    EXPECT_EQ(objection(GGML_TYPE_F32, GGML_TYPE_F16, GGML_PREC_F32), words);
    EXPECT_EQ(objection(GGML_TYPE_F16, GGML_TYPE_BF16, GGML_PREC_F32), words);
}

// ---- recorded graphs ---------------------------------------------------------------------------

TEST(VulkanReplay, KeepsThoseUsedLast) {
    Replay replay;
    for (std::uint64_t uid = 1; uid <= Replay::kMostGraphs; ++uid) {
        EXPECT_FALSE(replay.take_surplus()) << uid;
        RecordedGraph graph;
        graph.uid = uid;
        replay.add(std::move(graph));
    }
    EXPECT_NE(replay.find(1), nullptr);
    const auto surplus = replay.take_surplus();
    ASSERT_TRUE(surplus) << "another would be one too many";
    EXPECT_EQ(surplus->uid, 2u) << "the first was used since";
    EXPECT_FALSE(replay.take_surplus());
    EXPECT_EQ(replay.find(2), nullptr);
}

// ---- pipelines on disk -------------------------------------------------------------------------

class VulkanPipelineFile : public testing::Test {
protected:
    VulkanPipelineFile() {
        directory_ = std::filesystem::path(testing::TempDir()) / "heddle-vulkan-pipelines";
        std::filesystem::remove_all(directory_);
        board_.properties.vendorID = 0x10de;
        board_.properties.pipelineCacheUUID[0] = 5;
        board_.options.cache_directory = directory_.string();
    }
    ~VulkanPipelineFile() override { std::filesystem::remove_all(directory_); }

    std::vector<std::byte> sample() const {
        VkPipelineCacheHeaderVersionOne header{};
        header.headerSize = sizeof header;
        header.headerVersion = VK_PIPELINE_CACHE_HEADER_VERSION_ONE;
        header.vendorID = 0x10de;
        header.pipelineCacheUUID[0] = 5;
        std::vector<std::byte> bytes(sizeof header + 100);
        std::memcpy(bytes.data(), &header, sizeof header);
        return bytes;
    }

    std::filesystem::path directory_;
    Board board_;
};

TEST_F(VulkanPipelineFile, IsWholeWhenSeveralDevicesWriteIt) {
    const std::string file = pipeline_file(board_);
    std::vector<std::byte> longer = sample();
    longer.resize(std::size_t{1} << 20);
    const auto write = [&](const std::vector<std::byte>& bytes) {
        for (int i = 0; i < 50; ++i) write_pipeline_file(file, bytes);
    };
    std::thread other(write, longer);
    write(sample());
    other.join();
    const auto read = read_pipeline_file(file, board_);
    EXPECT_TRUE(read == sample() || read == longer) << read.size() << " bytes";
    const std::filesystem::directory_iterator files(directory_);
    EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "no part is left";
}

TEST_F(VulkanPipelineFile, GivesBackWhatWasKept) {
    const std::string file = pipeline_file(board_);
    EXPECT_TRUE(read_pipeline_file(file, board_).empty());
    write_pipeline_file(file, sample());
    EXPECT_EQ(read_pipeline_file(file, board_), sample());
}

TEST_F(VulkanPipelineFile, IgnoresFilesOfOtherDevicesAndBrokenOnes) {
    const std::string file = pipeline_file(board_);
    auto bytes = sample();
    bytes[8] = std::byte{1};  // another vendor
    write_pipeline_file(file, bytes);
    EXPECT_TRUE(read_pipeline_file(file, board_).empty());
    std::ofstream(file, std::ios::trunc) << "short";
    EXPECT_TRUE(read_pipeline_file(file, board_).empty());
}

TEST_F(VulkanPipelineFile, IsNotKeptWithoutADirectory) {
    board_.options.cache_directory.clear();
    EXPECT_TRUE(pipeline_file(board_).empty());
}

}  // namespace
}  // namespace heddle::vulkan
