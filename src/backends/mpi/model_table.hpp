#pragma once

#include <optional>
#include <vector>

#include "backends/mpi/open_file.hpp"

namespace heddle::mpi {

/// What stands in front of the data of a GGUF file, as far as it matters here.
struct ModelTable {
    struct Part {
        std::uint64_t offset = 0, size = 0;  ///< in the file, inside it
    };
    std::uint64_t head = 0;  ///< bytes in front of the data: keys and the table of tensors
    std::vector<Part> tensors;
};

/// Nothing if it is no GGUF file, or a broken one.
std::optional<ModelTable> model_table(const OpenFile& file);

}  // namespace heddle::mpi
