#include "tests/faults/points_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::faults {
namespace {

struct Row {
    std::string scenario;
    Kind kind;
    long points;
};

/// Prints what was done when all tests are.
class Table : public testing::Environment {
public:
    void add(Row row) { rows_.push_back(std::move(row)); }

    void TearDown() override {
        if (rows_.empty()) return;
        long sum = 0;
        std::printf("%-50s %-14s %8s\n", "scenario", "kind", "points");
        for (const Row& row : rows_) {
            std::printf("%-50s %-14s %8ld\n", row.scenario.c_str(), name_of(row.kind), row.points);
            sum += row.points;
        }
        std::printf("%-50s %-14s %8ld\n", "all", "", sum);
    }

private:
    std::vector<Row> rows_;
};

Table* const table = [] {
    auto* made = new Table;  // GoogleTest deletes it
    testing::AddGlobalTestEnvironment(made);
    return made;
}();

/// What HEDDLE_SWEEP asks for.
struct Extent {
    bool is_full = false;
    long first = 1, step = 1;
};

Extent read_extent() {
    const char* const asked = std::getenv("HEDDLE_SWEEP");
    if (asked == nullptr) return {};
    if (std::string_view(asked) == "full") return {.is_full = true};
    Extent share{.is_full = true};
    if (std::sscanf(asked, "full:%ld/%ld", &share.first, &share.step) != 2 || share.first < 1 ||
        share.first > share.step) {
        std::fprintf(stderr, "HEDDLE_SWEEP=%s is neither full nor full:N/M\n", asked);
        std::exit(2);
    }
    return share;
}

const Extent& extent() {
    static const Extent read = read_extent();
    return read;
}

}  // namespace

void record_points(Kind kind, long points) {
    if (points == 0) return;
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    table->add({std::string(test.test_suite_name()) + "." + test.name(), kind, points});
    std::string key = name_of(kind);
    std::ranges::replace(key, ' ', '_');
    testing::Test::RecordProperty(key, std::to_string(points));
}

long first_point() { return extent().first; }

long next_point(long number, long all_below) {
    constexpr long kSlower = 16;  // steps grow by a sixteenth of the way behind them
    if (extent().is_full) return number + extent().step;
    if (number < all_below) return number + 1;
    return number + 1 + (number - all_below) / kSlower;
}

}  // namespace heddle::faults
