#include "page_about.hpp"

#include <fmt/core.h>

#include <ctime>
#include <filesystem>
#include <thread>

#include "heddle/heddle.hpp"
#include "json_text.hpp"

namespace heddle::tool {
namespace {

std::string command = "heddle";

/// As it would be typed again.
std::string quoted(const std::string& word) {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:=+%@";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
    std::string made = "'";
    for (const char c : word) made += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return made + "'";
}

std::string machine_text() {
    const auto cpu = Device::cpu();
    const unsigned cores = std::thread::hardware_concurrency();
    return fmt::format("{}, {} {}", cpu ? cpu->properties().description : "an unknown processor",
                       cores, cores == 1 ? "core" : "cores");
}

std::string date_text() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    char text[64];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts)};
}

}  // namespace

void remember_command(const std::vector<std::string>& typed) {
    command = "heddle";
    for (const std::string& word : typed) command += " " + quoted(word);
}

std::string with_about(std::string page, const std::string& model) {
    constexpr std::string_view kMark = R"(<script id="about" type="application/json">{}</script>)";
    const std::size_t at = page.find(kMark);
    if (at == std::string::npos) return page;
    const std::string json = json_text({{"model", std::filesystem::path(model).filename().string()},
                                        {"command", command},
                                        {"machine", machine_text()},
                                        {"date", date_text()}},
                                       -1);
    std::string safe;  // nothing in it ends the element
    for (const char c : json) safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
    return page.replace(at + kMark.find("{}"), 2, safe);
}

}  // namespace heddle::tool
