#include <sstream>

#include "recipe.hpp"

namespace heddle::fuzz {

std::string to_text(const Case& which) {
    std::ostringstream out;
    out << "devices:";
    for (const int device : which.devices) out << ' ' << device;
    out << "\nsettings: slots=" << which.slots << " budget=" << which.budget
        << " threads=" << which.threads << (which.blas ? " blas" : "")
        << (which.offload ? " offload" : "") << (which.by_cost ? " by_cost" : "")
        << (which.observed ? " observed" : "") << (which.tracing ? " tracing" : "")
        << (which.synchronous ? " synchronous" : "") << (which.checked ? " checked" : "") << '\n';
    for (const Run& run : which.runs) {
        out << "run: graph " << run.graph << (run.rebuild ? ", rebuilt" : "")
            << (run.reserve ? ", reserved" : "") << (run.new_weights ? ", new weights" : "")
            << (run.size > 0 ? text(", in size ", run.size) : "")
            << (run.wait ? ", waited for" : "");
        constexpr const char* kFaults[] = {"", "alloc", "copy", "node", "lost"};
        if (run.fault.kind != Fault::Kind::none) {
            out << ", with " << kFaults[static_cast<int>(run.fault.kind)] << '=' << run.fault.number
                << " on device " << run.fault.device;
        }
        out << '\n';
    }
    return std::move(out).str();
}

}  // namespace heddle::fuzz
