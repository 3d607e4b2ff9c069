#pragma once

#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/isa.hpp"
#include "backends/cpu/kernel.hpp"
#include "core/half.hpp"
#include "core/test_support.hpp"
#include "ops/build.hpp"
#include "quant/codec.hpp"

/// What tests of kernels share: tensors with memory that notices stray writes, and ways to run a
/// node with any number of tasks on every instruction set of the machine.
namespace heddle::cpu {

// ---- running -----------------------------------------------------------------------------------

/// Where the tasks of a test run meet.
class TestGate final : public Gate {
public:
    explicit TestGate(int tasks) : barrier_(tasks), progress_(static_cast<std::size_t>(tasks)) {
        progress = progress_.data();
        number = 1;
    }

    void sync() override { barrier_.arrive_and_wait(); }
    void fail(std::string message) override {
        const std::lock_guard guard(lock_);
        if (message_.empty()) message_ = std::move(message);
    }
    void wait_for_prepared(std::int64_t count, std::int64_t all) override {
        prepared_ += count;
        while (prepared_ != all) std::this_thread::yield();
    }
    const std::string& message() const { return message_; }

private:
    std::barrier<> barrier_;
    std::vector<Progress> progress_;
    std::atomic<std::int64_t> prepared_{0};
    std::mutex lock_;
    std::string message_;
};

/// Runs `kernel` with exactly so many tasks and bytes of scratch.
inline Result<> run_tasks(const Kernel& kernel, const Tensor& node, int tasks,
                          std::size_t scratch) {
    constexpr std::size_t guard_size = 256;
    constexpr std::byte guard{0xA5};
    std::vector<std::byte> memory(scratch + guard_size + 64, guard);
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    std::byte* aligned = memory.data() + (64 - address % 64) % 64;
    TestGate gate(tasks);
    std::vector<std::thread> threads;
    for (int index = 1; index < tasks; ++index) {
        threads.emplace_back([&, index] {
            kernel.run(node, {.index = index, .count = tasks, .scratch = aligned, .gate = &gate});
        });
    }
    kernel.run(node, {.index = 0, .count = tasks, .scratch = aligned, .gate = &gate});
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = scratch; i < scratch + guard_size; ++i) {
        if (aligned[i] != guard) return invalid(kernel.name, " writes past its scratch");
    }
    if (!gate.message().empty()) return invalid(gate.message());
    return ok();
}

inline Demand demand_of(const Kernel& kernel, const Tensor& node, int threads) {
    return kernel.demand != nullptr ? kernel.demand(node, threads) : rows_demand(node, threads);
}

/// Runs `node` with exactly `tasks` tasks, although so small a node would be given fewer: kernels
/// are right for any number. Scratch grows with the tasks.
inline Result<> run_node(const Tensor& node, int tasks) {
    Objections why;
    const Kernel* kernel = choose_kernel(node, &why);
    if (kernel == nullptr) return invalid("declined: ", why.text_for(node));
    const Demand demand = demand_of(*kernel, node, tasks);
    const bool enough = demand.tasks >= tasks;
    return run_tasks(*kernel, node, tasks,
                     enough ? demand.scratch : demand.scratch * static_cast<std::size_t>(tasks));
}

/// Runs `node` with as many tasks as its kernel asks for if it may have `threads`.
inline Result<> run_demanded(const Tensor& node, int threads) {
    Objections why;
    const Kernel* kernel = choose_kernel(node, &why);
    if (kernel == nullptr) return invalid("declined: ", why.text_for(node));
    const Demand demand = demand_of(*kernel, node, threads);
    return run_tasks(*kernel, node, demand.tasks, demand.scratch);
}

/// Why the node is declined; empty if it is not.
inline std::string objection_to(const Tensor& node) {
    Objections why;
    return choose_kernel(node, &why) != nullptr ? "" : why.text();
}

/// Calls `body()` once for each instruction set of this machine, with kernels in that form.
template <class Body>
void for_each_target(Body&& body) {
    for (const char* name : isa_names()) {
        SCOPED_TRACE(name);
        ASSERT_TRUE(use_isa(name));
        body();
    }
    ASSERT_TRUE(use_isa("best"));
}

/// Calls `body(tasks)` with 1, 2 and 5 tasks, on each instruction set.
template <class Body>
void for_each_way(Body&& body) {
    for_each_target([&] {
        for (const int tasks : {1, 2, 5}) {
            SCOPED_TRACE(testing::Message() << tasks << " tasks");
            body(tasks);
        }
    });
}

// ---- values ------------------------------------------------------------------------------------

/// Element (i0, i1, i2, i3) as a number, whatever the type.
inline double value_at(const Tensor& t, std::int64_t i0, std::int64_t i1 = 0, std::int64_t i2 = 0,
                       std::int64_t i3 = 0) {
    const std::int64_t block = block_size(t.type);
    const std::byte* from = at<const std::byte>(t, i0 / block, i1, i2, i3);
    const auto load = [&]<class T>(T value) {
        std::memcpy(&value, from, sizeof value);
        return value;
    };
    switch (t.type) {
        case GGML_TYPE_F32:
            return load(0.0f);
        case GGML_TYPE_F64:
            return load(0.0);
        case GGML_TYPE_F16:
            return f16_to_f32(load(std::uint16_t{}));
        case GGML_TYPE_BF16:
            return bf16_to_f32(load(std::uint16_t{}));
        case GGML_TYPE_I8:
            return load(std::int8_t{});
        case GGML_TYPE_I16:
            return load(std::int16_t{});
        case GGML_TYPE_I32:
            return load(std::int32_t{});
        case GGML_TYPE_I64:
            return static_cast<double>(load(std::int64_t{}));
        default:
            break;
    }
    std::vector<float> values(static_cast<std::size_t>(block));
    quant::codec_of(t.type)->decode(from, values.data(), block);
    return values[static_cast<std::size_t>(i0 % block)];
}

/// Calls `body(i0, i1, i2, i3)` for each element, in logical order.
template <class Body>
void for_elements(const Tensor& t, Body&& body) {
    for (std::int64_t i3 = 0; i3 < t.ne[3]; ++i3) {
        for (std::int64_t i2 = 0; i2 < t.ne[2]; ++i2) {
            for (std::int64_t i1 = 0; i1 < t.ne[1]; ++i1) {
                for (std::int64_t i0 = 0; i0 < t.ne[0]; ++i0) body(i0, i1, i2, i3);
            }
        }
    }
}

/// All elements in logical order.
inline std::vector<double> values_of(const Tensor& t) {
    std::vector<double> values;
    values.reserve(static_cast<std::size_t>(element_count(t)));
    for_elements(t, [&](auto... i) { values.push_back(value_at(t, i...)); });
    return values;
}

/// Stores numbers in logical order, rounded to the type of `t`.
inline void set_values(const Tensor& t, const std::vector<double>& values) {
    if (quant::codec_of(t.type) != nullptr) {
        const std::vector<float> floats(values.begin(), values.end());
        const std::vector<float> even(floats.size(), 1.0f);
        ASSERT_TRUE(
            quant::encode_rows(t.type, floats.data(), t.data, row_count(t), t.ne[0], even.data()));
        return;
    }
    std::size_t next = 0;
    for_elements(t, [&](auto... i) {
        const double value = values[next++];
        const auto store = [&](auto number) { std::memcpy(at(t, i...), &number, sizeof number); };
        switch (t.type) {
            case GGML_TYPE_F32:
                return store(static_cast<float>(value));
            case GGML_TYPE_F64:
                return store(value);
            case GGML_TYPE_F16:
                return store(f32_to_f16(static_cast<float>(value)));
            case GGML_TYPE_BF16:
                return store(f32_to_bf16(static_cast<float>(value)));
            case GGML_TYPE_I8:
                return store(static_cast<std::int8_t>(value));
            case GGML_TYPE_I16:
                return store(static_cast<std::int16_t>(value));
            case GGML_TYPE_I32:
                return store(static_cast<std::int32_t>(value));
            case GGML_TYPE_I64:
                return store(static_cast<std::int64_t>(value));
            default:
                FAIL() << "no values of type " << name_of(t.type);
        }
    });
}

/// The relative error that rounding to `type` alone may cause, and some more for the arithmetic.
inline double rounding_of(Type type) {
    if (type == GGML_TYPE_F16) return 0x1p-11;
    if (type == GGML_TYPE_BF16) return 0x1p-8;
    return 2e-6;
}

/// Every element is within `relative` of the expected one, or within `absolute` of it. Infinite
/// ones and NaN must be the same.
inline void expect_close(const Tensor& result, const std::vector<double>& expected, double relative,
                         double absolute = 1e-7) {
    const std::vector<double> actual = values_of(result);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
        if (std::isnan(expected[i])) {
            ASSERT_TRUE(std::isnan(actual[i])) << "element " << i << " is " << actual[i];
        } else if (std::isinf(expected[i])) {
            ASSERT_EQ(actual[i], expected[i]) << "element " << i;
        } else {
            ASSERT_NEAR(actual[i], expected[i], absolute + relative * std::abs(expected[i]))
                << "element " << i;
        }
    }
}

// ---- tensors -----------------------------------------------------------------------------------

/// Makes tensors with memory of their own, each between two guard zones.
class Workbench {
public:
    operator Context&() { return context_; }

    /// A densely packed tensor, filled with the byte 0x3C.
    Tensor* tensor(Type type, const Extents& extent) {
        return place(context_.tensor(type, {extent[0], extent[1], extent[2], extent[3]}));
    }

    /// The same, filled with numbers from `low` to `high`.
    Tensor* random(Type type, const Extents& extent, double low = -1, double high = 1) {
        Tensor* made = tensor(type, extent);
        fill(*made, low, high);
        return made;
    }

    /// The same, filled with the given numbers.
    Tensor* numbers(Type type, const Extents& extent, const std::vector<double>& values) {
        Tensor* made = tensor(type, extent);
        set_values(*made, values);
        return made;
    }

    /// Gives a node that has just been built its memory. Views have that of their source.
    Tensor* place(Tensor* node) {
        if (node->data != nullptr) return node;
        if (node->view_src != nullptr) {
            node->data = static_cast<std::byte*>(node->view_src->data) + node->view_offs;
            return node;
        }
        const std::size_t size = byte_size(*node);
        std::vector<Line>& lines = storage_.emplace_back((size + 63) / 64 + 2);
        std::memset(lines.data(), static_cast<int>(kGuard), lines.size() * sizeof(Line));
        node->data = lines[1].bytes;
        std::memset(node->data, 0x3C, size);
        sizes_.push_back(size);
        return node;
    }

    /// A built node, with memory.
    template <Descriptor D>
    Tensor* node(const Args<D>& args, std::initializer_list<Tensor*> src) {
        return finish(build<D>(context_, args, src));
    }
    template <Descriptor D>
    Tensor* node_in_place(const Args<D>& args, std::initializer_list<Tensor*> src) {
        return finish(build_in_place<D>(context_, args, src));
    }

    /// The elements of `x` from `from` on, every `step`-th in each dimension: extents and strides
    /// of any kind, over the memory of `x`.
    Tensor* slice(Tensor* x, const Extents& from, const Extents& extent,
                  const Extents& step = {1, 1, 1, 1}) {
        Tensor* part = finish(view_tensor(context_, *x));
        for (int d = 0; d < kMaxDims; ++d) {
            const auto u = static_cast<std::size_t>(d);
            part->view_offs += static_cast<std::size_t>(from[u]) * x->nb[d];
            part->nb[d] = x->nb[d] * static_cast<std::size_t>(step[u]);
            part->ne[d] = extent[u];
        }
        part->data = static_cast<std::byte*>(part->view_src->data) + part->view_offs;
        return part;
    }

    /// Dimension d of `x` becomes dimension axis[d].
    Tensor* permuted(Tensor* x, const std::array<int, 4>& axis) {
        Tensor* view = finish(view_tensor(context_, *x));
        for (std::size_t d = 0; d < kMaxDims; ++d) {
            view->ne[axis[d]] = x->ne[d];
            view->nb[axis[d]] = x->nb[d];
        }
        return view;
    }

    void fill(const Tensor& t, double low = -1, double high = 1) {
        std::uniform_real_distribution<double> uniform(low, high);
        std::vector<double> values(static_cast<std::size_t>(element_count(t)));
        for (double& value : values) value = uniform(random_);
        set_values(t, values);
    }

    /// Fails if anything was written beside a tensor.
    void expect_intact() const {
        std::size_t index = 0;
        for (const std::vector<Line>& lines : storage_) {
            const std::byte* bytes = lines[0].bytes;
            const std::size_t end = 64 + sizes_[index++];
            for (std::size_t i = 0; i < lines.size() * 64; ++i) {
                if (i >= 64 && i < end) continue;
                ASSERT_EQ(bytes[i], kGuard) << "beside tensor " << index - 1 << ", byte "
                                            << static_cast<std::int64_t>(i) - 64;
            }
        }
    }

    std::mt19937& generator() { return random_; }

private:
    static constexpr std::byte kGuard{0xA5};
    struct alignas(64) Line {
        std::byte bytes[64];
    };

    static Tensor* finish_or_null(Result<Tensor*> made) {
        EXPECT_TRUE(made) << (made ? "" : made.error().message);
        return made ? *made : nullptr;
    }
    Tensor* finish(Result<Tensor*> made) {
        Tensor* node = finish_or_null(std::move(made));
        return node == nullptr ? nullptr : place(node);
    }

    TestContext context_{std::size_t{4} << 20};
    std::deque<std::vector<Line>> storage_;
    std::vector<std::size_t> sizes_;
    std::mt19937 random_{1};
};

/// Runs `node` in every way and compares with `expected`; the operands must not be changed by it.
inline void expect_result(const Workbench& bench, const Tensor& node,
                          const std::vector<double>& expected, double relative,
                          double absolute = 1e-7) {
    for_each_way([&](int tasks) {
        const Result<> done = run_node(node, tasks);
        ASSERT_TRUE(done) << done.error().message;
        expect_close(node, expected, relative, absolute);
        bench.expect_intact();
    });
}

}  // namespace heddle::cpu
