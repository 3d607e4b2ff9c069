#pragma once

#include <cstdint>
#include <string>

#include "train/opt/outcome.hpp"

namespace heddle {

/// How far an epoch has come.
struct Progress {
    bool train;  ///< not evaluating
    std::int64_t batches, all_batches;
    std::int64_t batch;    ///< points of each
    std::int64_t elapsed;  ///< microseconds since the first began
};

/// One line for a terminal: a bar, points, loss, accuracy, time gone and time to go. Ends with a
/// carriage return, or with a line break after the last batch.
std::string progress_line(const Progress& progress, const Outcome& outcome);

/// Hours, minutes and seconds: "01:02:03".
std::string clock_text(std::int64_t microseconds);

}  // namespace heddle
