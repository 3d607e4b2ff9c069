// One word, extent, stride or type of a recorded node is changed; then the node is offered to the
// CPU and computed, whatever the device said. It may be refused or computed. It may not read or
// write outside of its operands, nor divide by zero, nor take forever.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "core/graph.hpp"
#include "core/sound_layout.hpp"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "golden/build_case.hpp"
#include "guarded_memory.hpp"
#include "heddle/heddle.h"
#include "ops/custom.hpp"

namespace heddle {
namespace {

constexpr std::size_t kCasesPerFile = 8;
constexpr std::size_t kPiece = std::size_t{1} << 20;

class ChangedNodes : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        ggml_backend_cpu_set_n_threads(cpu_.get(), 1);
        auto cases = golden::read_case_file(GetParam());
        ASSERT_TRUE(cases) << cases.error().message;
        cases_ = *std::move(cases);
        cases_.ops.resize(std::min(cases_.ops.size(), kCasesPerFile));
    }
    void TearDown() override { heddle_set_error_mode(HEDDLE_ERROR_MODE_ABORT); }

    /// Calls `change(node, variant)` on fresh copies of each node, for 0, 1, ... until it says that
    /// there are no more, and computes what comes of it.
    template <class Change>
    void compute_changed(const Change& change) {
        for (const golden::OpCase& golden : cases_.ops) {
            const auto context = golden::make_raw_context(golden);
            ASSERT_TRUE(context) << context.error().message;
            const auto raw = golden::make_raw_node(golden, **context);
            ASSERT_TRUE(raw) << raw.error().message;
            Headers headers(*raw->node);
            compute(headers.node);
            headers.restore();
            for (int variant = 0; change(headers, variant); ++variant) {
                compute(headers.node);
                headers.restore();
            }
        }
        EXPECT_GT(computed_, 0) << "not even nodes as they were";
    }

    /// A node and its operands, apart from each other and from where their memory was.
    struct Headers {
        explicit Headers(const Tensor& raw) {
            node = raw;
            node.view_src = nullptr;
            node.flags |= GGML_TENSOR_FLAG_COMPUTE;
            for (std::size_t slot = 0; slot < kMaxSources; ++slot) {
                if (raw.src[slot] == nullptr) continue;
                operands[slot] = raw.src[slot] == &raw ? node : *raw.src[slot];
                operands[slot].view_src = nullptr;
                node.src[slot] = &operands[slot];
                tensors[count++] = &operands[slot];
            }
            tensors[count++] = &node;
            kept_node_ = node;
            std::copy(std::begin(operands), std::end(operands), kept_operands_);
        }

        void restore() {
            node = kept_node_;
            std::copy(std::begin(kept_operands_), std::end(kept_operands_), operands);
        }

        Tensor node{};
        Tensor operands[kMaxSources]{};
        Tensor* tensors[kMaxSources + 1]{};  ///< operands, then the node
        int count = 0;

    private:
        Tensor kept_node_{};
        Tensor kept_operands_[kMaxSources]{};
    };

private:
    /// Gives the tensor as much memory as it says that it has. False if that is more than there is
    /// here; what cannot be counted gets none, as it has to be refused.
    bool place(Tensor& tensor, std::size_t piece) {
        std::size_t bytes = 0;
        if (!has_sound_layout(tensor, &bytes)) bytes = 0;
        tensor.buffer = nullptr;
        tensor.data = memory_.last(piece, std::min(bytes, memory_.size()));
        return bytes <= memory_.size();
    }

    void compute(Tensor& node) {
        ggml_backend_dev_supports_op(ggml_backend_get_device(cpu_.get()), &node);
        bool fits = place(node, kMaxSources);
        for (std::size_t slot = 0; slot < kMaxSources; ++slot) {
            if (node.src[slot] != nullptr) fits &= place(*node.src[slot], slot);
        }
        if (!fits) return;
        if (ggml_backend_graph_compute(cpu_.get(), graph_of(node)) == GGML_STATUS_SUCCESS) {
            ++computed_;
        } else {
            EXPECT_STRNE(heddle_last_error(), "") << describe(node);
        }
    }

    Graph* graph_of(Tensor& node) {
        list_[0] = &node;
        graph_ = {};
        graph_.nodes = list_;
        graph_.n_nodes = 1;
        return &graph_;
    }

    golden::CaseFile cases_;
    GuardedMemory memory_{kMaxSources + 1, kPiece};
    ggml_backend_ptr cpu_{ggml_backend_cpu_init()};
    Graph graph_{};
    Tensor* list_[1]{};
    int computed_ = 0;
};

template <class T, std::size_t N>
bool choose(const T (&values)[N], int variant, int fields, int* field, T* value) {
    if (variant >= fields * static_cast<int>(N)) return false;
    *field = variant / static_cast<int>(N);
    *value = values[static_cast<std::size_t>(variant) % N];
    return true;
}

TEST_P(ChangedNodes, AnyWordOfTheParametersMayBeAnything) {
    constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
    constexpr std::int32_t least = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t values[] = {0, -1, 1, 2, most, least};
    constexpr int words = GGML_MAX_OP_PARAMS / sizeof(std::int32_t);
    compute_changed([&](Headers& headers, int variant) {
        int word = 0;
        std::int32_t value = 0;
        if (!choose(values, variant, words, &word, &value)) return false;
        headers.node.op_params[word] = value;
        return true;
    });
}

TEST_P(ChangedNodes, AnyExtentMayBeAnything) {
    constexpr std::int64_t changes[] = {0,  -1, 1, 2, std::int64_t{1} << 20, std::int64_t{1} << 62,
                                        -2, -3};
    compute_changed([&](Headers& headers, int variant) {
        int field = 0;
        std::int64_t value = 0;
        if (!choose(changes, variant, headers.count * kMaxDims, &field, &value)) return false;
        std::int64_t& extent = headers.tensors[field / kMaxDims]->ne[field % kMaxDims];
        // Neighbours of what it was, and values of their own.
        extent = value == -2 ? extent + 1 : value == -3 ? extent - 1 : value;
        return true;
    });
}

TEST_P(ChangedNodes, AnyStrideMayBeAnything) {
    constexpr std::size_t values[] = {
        0, 1, 2, 4, 4096, std::size_t{1} << 40, std::size_t{1} << 63, SIZE_MAX};
    compute_changed([&](Headers& headers, int variant) {
        int field = 0;
        std::size_t value = 0;
        if (!choose(values, variant, headers.count * kMaxDims, &field, &value)) return false;
        headers.tensors[field / kMaxDims]->nb[field % kMaxDims] = value;
        return true;
    });
}

TEST_P(ChangedNodes, AnyTypeMayBeAnother) {
    constexpr int values[] = {GGML_TYPE_F32,
                              GGML_TYPE_F16,
                              GGML_TYPE_BF16,
                              GGML_TYPE_I32,
                              GGML_TYPE_I64,
                              GGML_TYPE_F64,
                              GGML_TYPE_I8,
                              GGML_TYPE_Q4_0,
                              GGML_TYPE_Q8_0,
                              GGML_TYPE_Q4_K,
                              4,
                              GGML_TYPE_COUNT};
    compute_changed([&](Headers& headers, int variant) {
        int field = 0, value = 0;
        if (!choose(values, variant, headers.count, &field, &value)) return false;
        headers.tensors[field]->type = static_cast<Type>(value);
        return true;
    });
}

TEST_P(ChangedNodes, AnyOpMayBeAnother) {
    compute_changed([&](Headers& headers, int variant) {
        const int op = variant - 1;
        if (op > GGML_OP_COUNT) return false;
        // What callers do in functions of their own is theirs.
        if (!ops::runs_callers_function(static_cast<Op>(op))) headers.node.op = static_cast<Op>(op);
        return true;
    });
}

/// Those of single nodes.
std::vector<std::string> files() {
    auto found = golden::list_case_files(HEDDLE_GOLDEN_DATA).value_or({});
    std::erase_if(found, [](const std::string& path) {
        return std::filesystem::path(path).stem().string().starts_with("graph_");
    });
    return found;
}

INSTANTIATE_TEST_SUITE_P(All, ChangedNodes, testing::ValuesIn(files()), [](const auto& info) {
    return std::filesystem::path(info.param).stem().string();
});

}  // namespace
}  // namespace heddle
