#include "registry/backend_list.hpp"

#include <algorithm>
#include <array>

#include "registry/backend_rows.hpp"

namespace heddle {
namespace {

template <bool (*belongs)(const KnownBackend&)>
constexpr auto names_of() {
    constexpr auto count = std::ranges::count_if(kKnownBackends, belongs);
    std::array<std::string_view, count> names;
    std::size_t i = 0;
    for (const KnownBackend& backend : kKnownBackends) {
        if (belongs(backend)) names[i++] = backend.name;
    }
    return names;
}

constexpr bool is_on_request(const KnownBackend& backend) {
    return backend.loading == Loading::request;
}
constexpr bool is_found(const KnownBackend& backend) { return !is_on_request(backend); }

constexpr auto kFound = names_of<is_found>();
constexpr auto kOnRequest = names_of<is_on_request>();

}  // namespace

std::span<const KnownBackend> known_backends() { return kKnownBackends; }

std::span<const std::string_view> plugins_found() { return kFound; }

std::span<const std::string_view> plugins_on_request() { return kOnRequest; }

}  // namespace heddle
