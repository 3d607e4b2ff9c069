#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

/// Reads the known values under tests/data/types.
namespace heddle::quant {

using Bytes = std::vector<std::uint8_t>;

inline Bytes read_bytes(const std::string& name) {
    std::ifstream file(HEDDLE_TEST_DATA "/types/" + name, std::ios::binary);
    EXPECT_TRUE(file.is_open()) << name << " is missing";
    return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<float> read_floats(const std::string& name) {
    const Bytes bytes = read_bytes(name);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
}

/// The fields of every line but the headings.
inline std::vector<std::vector<std::string>> read_table(const std::string& name) {
    const Bytes bytes = read_bytes(name);
    std::istringstream text(std::string(bytes.begin(), bytes.end()));
    std::vector<std::vector<std::string>> rows;
    std::string line;
    std::getline(text, line);
    while (std::getline(text, line)) {
        std::istringstream fields(line);
        std::vector<std::string>& row = rows.emplace_back();
        for (std::string field; std::getline(fields, field, '\t');) row.push_back(field);
    }
    EXPECT_FALSE(rows.empty()) << name << " has no rows";
    return rows;
}

inline std::uint32_t from_hex(const std::string& digits) {
    return static_cast<std::uint32_t>(std::stoul(digits, nullptr, 16));
}

}  // namespace heddle::quant
