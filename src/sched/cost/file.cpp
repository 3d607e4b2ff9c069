#include "sched/cost/file.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <locale>
#include <sstream>
#include <vector>

#include "core/whole_file.hpp"

namespace heddle::sched {
namespace {

constexpr const char* kTitle = "heddle costs 1";

std::vector<std::string> fields_of(const std::string& line) {
    std::vector<std::string> fields;
    std::istringstream in(line);
    for (std::string field; std::getline(in, field, '\t');) fields.push_back(field);
    return fields;
}

/// The numbers in fields `first` and after; none if there is something else among them. Texts are
/// read and written the same way whatever the language of the system.
std::optional<std::vector<double>> numbers_of(const std::vector<std::string>& fields,
                                              std::size_t first, std::size_t count) {
    if (fields.size() != first + count) return std::nullopt;
    std::vector<double> numbers;
    for (std::size_t i = first; i < fields.size(); ++i) {
        std::istringstream in(fields[i]);
        in.imbue(std::locale::classic());
        double number = 0;
        if (!(in >> number) || in.peek() != std::istringstream::traits_type::eof()) {
            return std::nullopt;
        }
        if (!std::isfinite(number) || number < 0) return std::nullopt;
        numbers.push_back(number);
    }
    return numbers;
}

}  // namespace

/// False if the line makes no sense.
bool CostFile::take(const std::string& line) {
    const std::vector<std::string> fields = fields_of(line);
    if (fields.empty()) return false;
    if (fields[0] == "device") {
        const auto numbers = numbers_of(fields, 2, 3 + kTypeClasses);
        if (!numbers || (*numbers)[0] == 0 || (*numbers)[1] == 0) return false;
        DeviceCosts costs{{(*numbers)[0], (*numbers)[1], (*numbers)[2]}, {}};
        std::copy_n(numbers->begin() + 3, kTypeClasses, costs.product_flops.begin());
        devices[fields[1]] = costs;
        return true;
    }
    const auto numbers = numbers_of(fields, 3, 2);
    if (fields[0] != "link" || !numbers || (*numbers)[0] == 0) return false;
    links[{fields[1], fields[2]}] = {(*numbers)[0], (*numbers)[1]};
    return true;
}

CostFile CostFile::read(const std::string& path) {
    CostFile file;
    std::ifstream in(path);
    std::string line;
    if (!std::getline(in, line) || line != kTitle) return {};
    while (std::getline(in, line)) {
        if (!file.take(line)) return {};  // one broken line: the others are not to be trusted
    }
    return file;
}

Result<> CostFile::write(const std::string& path) const {
    const std::filesystem::path target(path);
    std::error_code failed;
    if (target.has_parent_path()) {
        std::filesystem::create_directories(target.parent_path(), failed);
    }
    std::ostringstream out;
    out.imbue(std::locale::classic());
    out.precision(9);
    out << kTitle << '\n';
    for (const auto& [key, costs] : devices) {
        out << "device\t" << key << '\t' << costs.speed.flops << '\t' << costs.speed.bandwidth
            << '\t' << costs.speed.overhead;
        for (const double flops : costs.product_flops) out << '\t' << flops;
        out << '\n';
    }
    for (const auto& [keys, link] : links) {
        out << "link\t" << keys.first << '\t' << keys.second << '\t' << link.bandwidth << '\t'
            << link.latency << '\n';
    }
    auto written = write_whole_file(path, std::move(out).str());
    if (!written) return std::move(written).error().within("measured costs");
    return ok();
}

}  // namespace heddle::sched
