#pragma once

#include <string>

#include "golden/case_file.hpp"
#include "golden/compare.hpp"
#include "target.hpp"

namespace heddle::tool {

/// What became of a case on a device.
struct Outcome {
    enum class Kind {
        passed,
        failed,
        declined,  ///< the device says it cannot do this
    };
    Kind kind = Kind::passed;
    double error = 0;
    double limit = 0;
    std::string what{};        ///< why it did not pass; empty if the device does not say
    bool is_computed = false;  ///< the device gave numbers, right or wrong
};

/// Computes the recorded node in memory of the device and compares it with the recorded result.
Outcome run_case(const golden::OpCase& golden, const Target& target);

/// The same for a whole graph. Intermediate results are not compared.
Outcome run_case(const golden::GraphCase& golden, const Target& target);

}  // namespace heddle::tool
