#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "ggml.h"

namespace heddle::tool {

/// The type of that name, whatever its case, among `types`. The failure says which one may have
/// been meant, or all there are besides `more`.
Result<ggml_type> type_named(std::string_view name, std::span<const ggml_type> types,
                             std::span<const std::string> more = {});

/// Which weights of a model get which type: all the same one, or a usual mixture.
class WeightTypes {
public:
    /// "Q4_0", "Q4_K_M", ...; `types` are those that may be asked for.
    static Result<WeightTypes> find(std::string_view name, std::span<const ggml_type> types);

    static std::vector<std::string> mixtures();  ///< their names

    /// Of most weights; in half of the layers of values and of what leaves the network; of the
    /// output. The number is what stands in a file's general.file_type.
    constexpr WeightTypes(ggml_type main, ggml_type larger, ggml_type output,
                          std::uint32_t file_type)
        : main_(main), larger_(larger), output_(output), file_type_(file_type) {}

    /// Of a weight by its name in the file, "blk.3.attn_v.weight", in a model of so many layers.
    ggml_type of(std::string_view weight, std::int64_t layers) const;

    /// Of most weights.
    ggml_type main() const { return main_; }

    /// What stands in a file's general.file_type.
    std::uint32_t file_type() const { return file_type_; }

private:
    ggml_type main_, larger_, output_;
    std::uint32_t file_type_;
};

}  // namespace heddle::tool
