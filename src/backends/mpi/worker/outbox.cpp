#include "backends/mpi/worker/outbox.hpp"

namespace heddle::mpi {

void Outbox::send(int to, Bytes message) {
    if (to == 0) set_credit(message, credit_.exchange(0, std::memory_order_relaxed));
    fabric_.send(to, std::move(message));
}

void Outbox::answer(std::uint32_t request, const Result<>& outcome, ByteView more) {
    ByteWriter out = begin({.kind = Kind::answer}, more.size() + 64);
    out.put(request);
    put_outcome(out, outcome);
    out.raw(more);
    send(0, seal(std::move(out)));
}

}  // namespace heddle::mpi
