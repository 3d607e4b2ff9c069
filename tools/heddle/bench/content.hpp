#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ggml.h"
#include "heddle/result.hpp"

namespace heddle::tool::bench {

/// What a tensor is filled with.
struct Content {
    enum class Kind {
        values,     ///< small numbers of either sign; zeros in types of whole numbers
        zeros,      ///< a mask that hides nothing
        numbers,    ///< 0, 1, 2, ... below `limit`, then again
        scattered,  ///< the same numbers, neighbours far apart
    };
    Kind kind = Kind::values;
    std::int64_t limit = 0;
};

/// Rows of a type, encoded from random numbers between -most and most: as many bytes as `rows` rows
/// have. The row is the same every so often, which no kernel notices.
Result<std::vector<std::byte>> encoded_rows(ggml_type type, std::int64_t columns, std::int64_t rows,
                                            float most = 1);

/// Fills a tensor that has memory.
Result<> fill(ggml_tensor* tensor, const Content& content);

/// All types that tensors can be filled in.
std::vector<ggml_type> measured_types();

/// The type of that name, without regard to case; "Q4_0" and "q4_0" are the same.
Result<ggml_type> find_type(const std::string& name);

}  // namespace heddle::tool::bench
