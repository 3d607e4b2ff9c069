#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml.h"

/// Tests of what every device must do, whatever it is made of. A backend author names the plug-in
/// in HEDDLE_CONFORMANCE_DEVICES and gets all of them.
namespace heddle::conformance {

/// A device under test.
struct Subject {
    std::string label;
    ggml_backend_dev_t device;

    friend void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.label; }
};

/// Every device that is here. Those that were asked for and are absent are listed in one line.
const std::vector<Subject>& all_subjects();

std::string label_of(const testing::TestParamInfo<Subject>& info);

class Device : public testing::TestWithParam<Subject> {
protected:
    void SetUp() override;

    ggml_backend_dev_t device() const { return GetParam().device; }
    ggml_backend_buffer_type_t buffer_type() const {
        return ggml_backend_dev_buffer_type(device());
    }
    ggml_backend_ptr new_stream() const;
    ggml_backend_dev_props props() const;
};

/// Headers, and memory of a buffer type for all of them.
class Workspace {
public:
    Workspace();

    ggml_context* context() const { return context_.get(); }
    ggml_tensor* floats(std::int64_t n0, std::int64_t n1 = 1) const {
        return ggml_new_tensor_2d(context(), GGML_TYPE_F32, n0, n1);
    }
    ggml_cgraph* new_graph() const { return ggml_new_graph_custom(context(), 64, false); }

    /// False if there is no memory.
    bool place(ggml_backend_buffer_type_t type);
    ggml_backend_buffer_t buffer() const { return buffer_.get(); }

private:
    ggml_context_ptr context_;
    ggml_backend_buffer_ptr buffer_;
};

void write(ggml_tensor* tensor, const std::vector<float>& values);
std::vector<float> read(const ggml_tensor* tensor);

/// 0, 1, 2, ... from `first` on: small whole numbers, with which every device computes exactly.
std::vector<float> counting(std::size_t count, float first = 0);

/// `values` times 2 to the power of `times`.
std::vector<float> doubled(std::vector<float> values, int times = 1);

/// An op that multiplies by two, exactly, and that the device supports. Devices differ in what they
/// can do; the rules of running graphs are the same for all.
class Doubling {
public:
    static constexpr std::int64_t kSide = 64;  ///< tensors are squares of this side

    /// Empty if the device supports none.
    static std::optional<Doubling> find(ggml_backend_dev_t device);

    /// A node that is twice `x`. `two` is what `make_two` gave.
    ggml_tensor* twice(ggml_context* context, ggml_tensor* x, ggml_tensor* two) const;

    /// The same in the memory of `x`; null if this op cannot.
    ggml_tensor* twice_inplace(ggml_context* context, ggml_tensor* x) const;

    /// A second operand, for ops that need one; filled by `fill_two` once it has memory.
    static ggml_tensor* make_two(const Workspace& workspace) {
        return workspace.floats(kSide, kSide);
    }
    static void fill_two(ggml_tensor* two);

private:
    enum class Kind { add, scale, product };
    explicit Doubling(Kind kind) : kind_(kind) {}

    Kind kind_;
};

/// A graph that doubles its input several times over, with memory on a device.
class Chain {
public:
    /// Fails the test, and is not usable, if there is no memory.
    Chain(const Doubling& doubling, ggml_backend_buffer_type_t type, int steps = 1);

    ggml_tensor* input() const { return input_; }
    ggml_tensor* output() const { return steps_.back(); }
    ggml_tensor* step(int i) const { return steps_[static_cast<std::size_t>(i)]; }
    ggml_cgraph* graph() const { return graph_; }
    std::vector<float> expected(float first) const;

private:
    Workspace workspace_;
    ggml_tensor* input_;
    std::vector<ggml_tensor*> steps_;
    ggml_cgraph* graph_;
};

inline constexpr std::size_t kSquare = Doubling::kSide * Doubling::kSide;

/// Leaves the test if the device has no op to compute with.
#define HEDDLE_NEEDS_DOUBLING(name)                                                   \
    const auto name##_found = ::heddle::conformance::Doubling::find(device());        \
    if (!name##_found) GTEST_SKIP() << "supports none of ADD, SCALE, MUL_MAT in F32"; \
    const ::heddle::conformance::Doubling& name = *name##_found

}  // namespace heddle::conformance
