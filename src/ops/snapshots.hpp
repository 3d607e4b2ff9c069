#pragma once

#include <limits>

#include "ops/count.hpp"
#include "ops/rules.hpp"

namespace heddle::ops {

/// Recurrences that keep their last K states. Slot 0 of the snapshots is the state after the last
/// token, slot s the one s tokens earlier; slots older than the first token stay as they are.
struct SnapshotRule {
    struct Params {
        std::int32_t snapshots;
    };
    struct Args {
        Params params;
        std::int64_t snapshots;  ///< as given; `params` holds its low 32 bits
    };
    static constexpr std::array fields{ParamField{"K", 0}};

    static Args args(std::int64_t snapshots) {
        return {{static_cast<std::int32_t>(snapshots)}, snapshots};
    }

    static Args recover(const Tensor& node) { return args(unpack<Params>(node).snapshots); }

    static Result<> check_snapshots(const Args& args) {
        if (Count(args.snapshots).within(1, std::numeric_limits<std::int32_t>::max())) return ok();
        return invalid("snapshot count ", args.snapshots, " is not in 1 .. 2^31 - 1");
    }
};

}  // namespace heddle::ops
