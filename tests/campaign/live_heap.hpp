#pragma once

namespace heddle::campaign {

/// Heap in use: blocks, or bytes where a sanitizer has the allocator. Only differences mean
/// something.
long live_heap();

/// A door that keeps objects from case to case says how they are released: they have caches that
/// grow, and heap is measured without them.
void when_measuring(void (*release)());

void release_kept();

}  // namespace heddle::campaign
