#pragma once

#include <memory>

#include "core/context.hpp"

namespace heddle {

struct DestroyContext {
    void operator()(Context* context) const noexcept { destroy_context(context); }
};
using OwnedContext = std::unique_ptr<Context, DestroyContext>;

/// An arena for tensors without data.
inline Result<OwnedContext> own_context(std::size_t size) {
    HEDDLE_TRY_ASSIGN(Context * made, make_context(size, nullptr, true));
    return OwnedContext(made);
}

}  // namespace heddle
