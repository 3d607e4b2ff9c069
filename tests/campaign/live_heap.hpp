#pragma once

namespace heddle::campaign {

/// Heap in use: blocks, or bytes where a sanitizer has the allocator. Only differences mean
/// something.
long live_heap();

}  // namespace heddle::campaign
