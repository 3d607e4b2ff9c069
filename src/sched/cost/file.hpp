#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "sched/cost/cost.hpp"

namespace heddle::sched {

/// What was measured of a device.
struct DeviceCosts {
    Speed speed;
    std::array<double, kTypeClasses> product_flops{};  ///< 0: it has no such products
};

/// Measurements that are kept between programs: lines of text with fields between tabs.
///
///     heddle costs 1
///     device  <key>  <flops> <bandwidth> <overhead> <product flops by class>...
///     link    <key of source>  <key of target>  <bandwidth> <latency>
class CostFile {
public:
    /// An empty one if there is no such file, or it is not one of these.
    static CostFile read(const std::string& path);

    /// Replaces the file as a whole, so that others read the old one or the new one. Makes the
    /// directory if need be.
    Result<> write(const std::string& path) const;

    std::map<std::string, DeviceCosts> devices;
    std::map<std::pair<std::string, std::string>, Link> links;

private:
    bool take(const std::string& line);
};

}  // namespace heddle::sched
