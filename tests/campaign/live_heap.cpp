#include "live_heap.hpp"

#ifdef HEDDLE_CAMPAIGN_SANITIZED
#include <sanitizer/allocator_interface.h>
#else
#include "tests/faults/allocation_faults.hpp"
#endif

namespace heddle::campaign {

#ifdef HEDDLE_CAMPAIGN_SANITIZED
long live_heap() { return static_cast<long>(__sanitizer_get_current_allocated_bytes()); }
#else
long live_heap() { return faults::live_blocks(); }
#endif

}  // namespace heddle::campaign
