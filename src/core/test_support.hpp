#pragma once

#include <initializer_list>

#include "core/context.hpp"
#include "ggml/op_list.h"

namespace heddle {

/// A context for one test, released with it. Its tensors have no data unless asked for.
class TestContext {
public:
    explicit TestContext(std::size_t size = std::size_t{1} << 20, bool no_alloc = true)
        : context_(*make_context(size, nullptr, no_alloc)) {}

    operator Context&() { return *context_; }

    Tensor* tensor(Type type, std::initializer_list<std::int64_t> extents,
                   std::string_view name = "") {
        Tensor* made = *new_tensor(*context_, type, {extents.begin(), extents.size()});
        set_name(*made, name);
        return made;
    }
    Tensor* f32(std::initializer_list<std::int64_t> extents, std::string_view name = "") {
        return tensor(GGML_TYPE_F32, extents, name);
    }

    /// A node made by hand, for tests of what lies below the ops.
    Tensor* node(std::initializer_list<Tensor*> sources, Op op = GGML_OP_ADD) {
        Tensor* made = f32({1});
        made->op = op;
        std::copy(sources.begin(), sources.end(), made->src);
        return made;
    }

private:
    OwnedContext context_;
};

}  // namespace heddle
