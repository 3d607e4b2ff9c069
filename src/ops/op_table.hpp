#pragma once

#include <array>

#include "ops/descriptor.hpp"

namespace heddle {

/// Descriptors, for tables with a row for each of them.
template <Descriptor... Ds>
struct OpList {
    /// `make.operator()<D>()` of each; row number = number of the op. Does not compile where a
    /// number is missing or named twice.
    template <class Row, class Make>
    static constexpr auto table(const Make& make) {
        std::array<Row, sizeof...(Ds)> rows{};
        std::array<bool, sizeof...(Ds)> seen{};
        const auto add = [&](Op op, const Row& row) {
            const auto number = static_cast<std::size_t>(op);
            if (number >= sizeof...(Ds) || seen[number]) throw "an op is missing or twice";
            seen[number] = true;
            rows[number] = row;
        };
        (add(Ds::id, make.template operator()<Ds>()), ...);
        return rows;
    }

    /// All of them as data.
    static constexpr auto infos() {
        return table<OpInfo>([]<Descriptor D>() constexpr { return kOpInfo<D>; });
    }
};

}  // namespace heddle
