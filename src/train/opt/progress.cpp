#include "train/opt/progress.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

namespace heddle {
namespace {

constexpr int kCells = 8, kParts = 8;  // of the bar, and of a cell

/// Whole cells, one that is filled in part, and blanks.
std::string bar(std::int64_t done, std::int64_t all) {
    constexpr std::array<std::string_view, kParts> left{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const auto parts = static_cast<int>(
        std::clamp<std::int64_t>(all > 0 ? done * kCells * kParts / all : 0, 0, kCells * kParts));
    std::string text;
    for (int i = 0; i < parts / kParts; ++i) text += "█";
    text += left[static_cast<std::size_t>(parts % kParts)];
    const int used = (parts + kParts - 1) / kParts;
    return text.append(static_cast<std::size_t>(kCells - used), ' ');
}

template <class... Values>
std::string formatted(const char* format, Values... values) {
    std::array<char, 256> line{};
    std::snprintf(line.data(), line.size(), format, values...);
    return line.data();
}

}  // namespace

std::string clock_text(std::int64_t microseconds) {
    const long long seconds = std::max<std::int64_t>(microseconds, 0) / 1'000'000;
    return formatted("%02lld:%02lld:%02lld", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

std::string progress_line(const Progress& progress, const Outcome& outcome) {
    const auto loss = outcome.loss(), accuracy = outcome.accuracy();
    const std::int64_t left = progress.all_batches - progress.batches;
    const std::int64_t to_go =
        progress.batches > 0 ? progress.elapsed / progress.batches * left : 0;
    const long long points = progress.batches * progress.batch;
    const long long all_points = progress.all_batches * progress.batch;
    const std::string numbers =
        formatted("] data=%07lld/%07lld loss=%.5f±%.5f acc=%.2f±%.2f%% t=", points, all_points,
                  loss.value, loss.uncertainty, 100 * accuracy.value, 100 * accuracy.uncertainty);
    return (progress.train ? "train: [" : "val:   [") +
           bar(progress.batches, progress.all_batches) + numbers + clock_text(progress.elapsed) +
           " ETA=" + clock_text(to_go) + (left > 0 ? " \r" : " \n");
}

}  // namespace heddle
