#include "sched/plan/budget.hpp"

namespace heddle::sched {
namespace {

std::size_t what_is_left(std::size_t of, std::size_t taken) { return of > taken ? of - taken : 0; }

}  // namespace

std::size_t Budget::limit(const DeviceMemory& memory, std::size_t taken) const {
    switch (kind) {
        case Kind::bytes:
            return what_is_left(amount, taken);
        case Kind::leave:
            return what_is_left(memory.free, amount);
        case Kind::free_share:
            break;
    }
    // What the copies have already was free before: the share does not shrink as it is used.
    return what_is_left((memory.free + taken) / 2, taken);
}

}  // namespace heddle::sched
