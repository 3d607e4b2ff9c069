#pragma once

#include "backends/cpu/kernels/test_support.hpp"

/// Tests of ops that move data: every byte of the result is written, and none beside it.
namespace heddle::cpu {

/// Which bytes of the memory of `root` belong to elements of `view`, a view of it.
inline std::vector<bool> bytes_of(const Tensor& view, const Tensor& root) {
    std::vector<bool> owned(byte_size(root));
    const std::int64_t block = block_size(view.type);
    for_elements(view, [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
        const std::byte* first = at<const std::byte>(view, i0 / block, i1, i2, i3);
        const auto offset = static_cast<std::size_t>(first - static_cast<std::byte*>(root.data));
        for (std::size_t i = 0; i < size_of(view.type); ++i) owned[offset + i] = true;
    });
    return owned;
}

/// Runs `node` in every way, each time over memory that was filled anew, and calls `check()` after
/// each. No operand may lie in the memory of the result.
template <class Check>
void run_afresh(const Workbench& bench, const Tensor& node, Check&& check) {
    constexpr int filling = 0x3C;
    const Tensor& root = node.view_src != nullptr ? *node.view_src : node;
    const std::vector<bool> owned = bytes_of(node, root);
    for_each_way([&](int tasks) {
        std::memset(root.data, filling, owned.size());
        const Result<> done = run_node(node, tasks);
        ASSERT_TRUE(done) << done.error().message;
        check();
        bench.expect_intact();
        const auto* bytes = static_cast<const unsigned char*>(root.data);
        for (std::size_t i = 0; i < owned.size(); ++i) {
            if (owned[i]) continue;
            ASSERT_EQ(bytes[i], filling) << "byte " << i << ", beside the result";
        }
    });
}

/// The result must be `expected`, to the last bit.
inline void expect_exactly(const Workbench& bench, const Tensor& node,
                           const std::vector<double>& expected) {
    run_afresh(bench, node, [&] { expect_close(node, expected, 0, 0); });
}

}  // namespace heddle::cpu
