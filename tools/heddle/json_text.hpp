#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace heddle::tool {

/// JSON as text. Bytes from files and models that are no UTF-8 become U+FFFD. An indent of -1 puts
/// all on one line.
inline std::string json_text(const nlohmann::json& json, int indent = 2) {
    return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace heddle::tool
