#pragma once

#include <string>
#include <vector>

namespace heddle::tool::bench {

/// Text as HTML and SVG want it.
std::string escaped(const std::string& text);

/// A picture of what was reached beside what can be: operations per second over operations per
/// byte, both in powers of ten.
struct Roofline {
    struct Roof {
        int threads;
        double peak;       ///< operations per second
        double bandwidth;  ///< bytes per second
    };
    struct Point {
        std::string label;
        double flops_per_byte, flops_per_second;
    };
    std::string title;
    std::vector<Roof> roofs;  ///< the last one is that of the points
    std::vector<Point> points;

    std::string svg() const;
    /// One page that needs nothing else, with `table` (HTML) below the picture.
    std::string html(const std::string& table) const;
};

}  // namespace heddle::tool::bench
