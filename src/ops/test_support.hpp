#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/test_support.hpp"
#include "ops/build.hpp"

namespace heddle {

/// For tests of builders: a context, and tensors in it that messages call by their name.
class NodeTest : public testing::Test {
protected:
    TestContext context;

    Tensor* tensor(std::string_view name, const Extents& extent, Type type = GGML_TYPE_F32) {
        return context.tensor(type, {extent[0], extent[1], extent[2], extent[3]}, name);
    }
};

/// Why there is no tensor.
inline std::string refusal(const Result<Tensor*>& made) {
    return made ? "built" : made.error().message;
}

template <Descriptor D>
std::string refusal(Context& context, const Args<D>& args, std::initializer_list<Tensor*> src) {
    return refusal(build<D>(context, args, src));
}

/// Type and extents, such as "f16[4,3,1,1]".
inline std::string summary(const Tensor& y) {
    return text(name_of(y.type), describe(extents_of(y)));
}

}  // namespace heddle
