#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "ggml-backend-impl.h"

namespace heddle {

/// More devices than any machine has: a backend that claims more does not know what it says.
inline constexpr std::size_t kMostDevices = 4096;

/// Fails, and names what is missing, unless a backend has a name and every member of its table that
/// is required. Its devices are not asked for.
Result<> check_tables(ggml_backend_reg_t registration);

/// The same for a device.
Result<> check_tables(ggml_backend_dev_t device);

/// The devices of a backend that can be used, and a sentence about those that cannot.
struct UsableDevices {
    std::vector<ggml_backend_dev_t> devices;
    std::string left_out;  ///< empty if all can
};
UsableDevices usable_devices(ggml_backend_reg_t registration);

}  // namespace heddle
