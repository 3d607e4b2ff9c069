#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.hpp"

namespace heddle {

/// Why a node is declined: the reason of every kernel that was asked, and what the node is made of.
/// Keeps no copies: names and reasons are texts that stay, as those of kernels are.
class Objections {
public:
    /// `kernel` is empty where the reason is that of none: no kernel was asked.
    void add(std::string_view kernel, std::string_view reason) { all_.push_back({kernel, reason}); }

    /// The reasons: "x is not f32" of one kernel, "add: x is not f32; add_blocks: x has no blocks"
    /// of several.
    std::string text() const;

    /// The same with types and extents: "x is not f32 (f32[1,4] = SUM_ROWS(f16[8,4]))".
    std::string text_for(const Tensor& node) const;

private:
    struct Entry {
        std::string_view kernel, reason;
    };
    std::vector<Entry> all_;
};

/// Type and extents without trailing ones: "f16[8,4]".
std::string describe_shape(const Tensor& tensor);

}  // namespace heddle
