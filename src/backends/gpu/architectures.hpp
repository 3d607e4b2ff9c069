#pragma once

#include <charconv>
#include <string_view>

namespace heddle::gpu {

/// Compute capability of a device, 9.0 being {9, 0}.
struct Capability {
    int major = 0;
    int minor = 0;
    int number() const { return 10 * major + minor; }
};

namespace detail {

/// Whether code made for one entry of CMake's list of architectures runs on such a device.
inline bool runs_on(std::string_view entry, Capability device) {
    int made_for = 0;
    const auto [end, failed] = std::from_chars(entry.data(), entry.data() + entry.size(), made_for);
    if (failed != std::errc{}) return false;
    const std::string_view rest(end, static_cast<std::size_t>(entry.data() + entry.size() - end));
    if (rest.starts_with('a')) return made_for == device.number();
    const bool has_machine_code = !rest.ends_with("-virtual"), has_ptx = !rest.ends_with("-real");
    const bool is_same_family = made_for / 10 == device.major && made_for % 10 <= device.minor;
    if (rest.starts_with('f')) return is_same_family;
    return (has_machine_code && is_same_family) || (has_ptx && made_for <= device.number());
}

}  // namespace detail

/// Whether code made for `list`, CMake's architectures separated by commas ("80-real,90a"), runs on
/// a device. Machine code runs on later devices of its family, PTX on all later ones, and code with
/// the suffix 'a' on that very device alone.
inline bool runs_on(std::string_view list, Capability device) {
    while (!list.empty()) {
        const std::size_t comma = list.find(',');
        if (detail::runs_on(list.substr(0, comma), device)) return true;
        if (comma == std::string_view::npos) break;
        list.remove_prefix(comma + 1);
    }
    return false;
}

}  // namespace heddle::gpu
