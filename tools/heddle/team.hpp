#pragma once

#include <functional>

namespace heddle::tool {

/// Runs `work` on this thread and on up to `threads` - 1 more: on fewer where the system has no
/// more. Returns when all are done. What the work throws, such as for want of memory, is thrown
/// here.
void run_on_threads(int threads, const std::function<void()>& work);

}  // namespace heddle::tool
