#pragma once

namespace heddle::sim {

/// Which process this is, counted along the line of its parents: one more after each fork(). Costs
/// no call of the system. Threads, and locks that they hold, do not come along to a child, so what
/// needs a thread remembers where it was made.
unsigned process_number() noexcept;

}  // namespace heddle::sim
