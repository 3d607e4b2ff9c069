#include "bench/roofline.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace heddle::tool::bench {
namespace {

// Units are pixels. The list of points stands to the right of the plot.
constexpr double kLeft = 70, kTop = 54, kWidth = 720, kHeight = 460;
constexpr double kListLeft = kLeft + kWidth + 34, kEntryLeft = kListLeft + 26, kLine = 16;

struct Place {
    double x, y;
};

/// Powers of ten that everything lies between.
struct Axis {
    int low, high;

    static Axis around(double least, double most) {
        const int low = static_cast<int>(std::floor(std::log10(least)));
        return {low, std::max(low + 1, static_cast<int>(std::ceil(std::log10(most) + 0.05)))};
    }
    /// 0 at the lower end, 1 at the upper.
    double share(double value) const { return (std::log10(value) - low) / (high - low); }
};

class Picture {
public:
    explicit Picture(const Roofline& data)
        : data_(data), intensity_(axis_of_intensity()), speed_(axis_of_speed()) {}

    std::string draw() {
        const double list = kTop + 20 + kLine * static_cast<double>(data_.points.size());
        const double height = std::max(kTop + kHeight + 64, list + 20);
        const double width = data_.points.empty() ? kListLeft : kEntryLeft + widest_entry();
        out_ = fmt::format(
            R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" height="{1:.0f}">)"
            "\n{2}\n",
            width, height, kStyle);
        out_ += fmt::format(R"(<rect class="page" width="{:.0f}" height="{:.0f}" rx="14"/>)"
                            "\n",
                            width, height);
        text(kLeft, 30, "title", data_.title);
        draw_grid();
        for (const Roofline::Roof& roof : data_.roofs) {
            draw_roof(roof, &roof == &data_.roofs.back());
        }
        draw_points();
        return out_ + "</svg>\n";
    }

private:
    double widest_entry() const {
        constexpr double kCharacter = 7;  // of the font for entries; most are narrower
        std::size_t longest = 40;
        for (const auto& point : data_.points) longest = std::max(longest, point.label.size());
        return kCharacter * static_cast<double>(longest + 1);
    }

    Axis axis_of_intensity() const {
        double least = 0.1, most = 100;
        for (const auto& point : data_.points) {
            least = std::min(least, point.flops_per_byte);
            most = std::max(most, point.flops_per_byte);
        }
        return Axis::around(least, most);
    }
    Axis axis_of_speed() const {
        double most = 1e9, least = 1e300;
        for (const auto& roof : data_.roofs) most = std::max(most, roof.peak * 1.3);
        for (const auto& point : data_.points) {
            most = std::max(most, point.flops_per_second);
            least = std::min(least, point.flops_per_second);
        }
        return Axis::around(std::min(least, most / 1000), most);
    }

    double x(double intensity) const { return kLeft + kWidth * intensity_.share(intensity); }
    double y(double speed) const { return kTop + kHeight * (1 - speed_.share(speed)); }
    Place place(const Roofline::Point& point) const {
        return {x(point.flops_per_byte), y(point.flops_per_second)};
    }

    void text(double at_x, double at_y, const char* style, const std::string& words,
              const char* anchor = "start") {
        out_ += fmt::format(R"(<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)"
                            "\n",
                            style, at_x, at_y, anchor, escaped(words));
    }
    void line(Place from, Place to, const char* style) {
        out_ += fmt::format(R"(<path class="{}" d="M{:.1f} {:.1f}L{:.1f} {:.1f}"/>)"
                            "\n",
                            style, from.x, from.y, to.x, to.y);
    }

    void draw_grid() {
        for (int power = intensity_.low; power <= intensity_.high; ++power) {
            const double at = x(std::pow(10, power));
            line({at, kTop}, {at, kTop + kHeight}, "grid");
            text(at, kTop + kHeight + 18, "soft", fmt::format("{:g}", std::pow(10, power)),
                 "middle");
        }
        for (int power = speed_.low; power <= speed_.high; ++power) {
            const double at = y(std::pow(10, power));
            line({kLeft, at}, {kLeft + kWidth, at}, "grid");
            text(kLeft - 8, at + 4, "soft", fmt::format("{:g}", std::pow(10, power - 9)), "end");
        }
        text(kLeft + kWidth / 2, kTop + kHeight + 42, "soft", "operations per byte", "middle");
        text(kLeft - 8, kTop - 8, "soft", "GFLOP/s", "end");
    }

    /// Bandwidth rises until it meets the peak.
    void draw_roof(const Roofline::Roof& roof, bool main) {
        const double low = std::pow(10, intensity_.low), high = std::pow(10, intensity_.high);
        const double floor = std::pow(10, speed_.low);
        const double begin = std::max(low, floor / roof.bandwidth);
        const double ridge = std::clamp(roof.peak / roof.bandwidth, begin, high);
        const char* style = main ? "roof" : "roof lesser";
        const Place corner{x(ridge), y(std::min(roof.peak, ridge * roof.bandwidth))};
        line({x(begin), y(begin * roof.bandwidth)}, corner, style);
        line(corner, {x(high), y(roof.peak)}, style);
        const char* threads = roof.threads == 1 ? "thread" : "threads";
        // Roofs may be as good as equal: their names stand on different sides.
        text(kLeft + kWidth - 6, y(roof.peak) + (main ? -7 : 15), "name",
             fmt::format("{:.0f} GFLOP/s, {} {}", roof.peak * 1e-9, roof.threads, threads), "end");
        const double middle = std::sqrt(begin * ridge);
        // Everything that grows in proportion has this slope on the page.
        const double slope = std::atan2(kHeight / (speed_.high - speed_.low),
                                        kWidth / (intensity_.high - intensity_.low));
        out_ += fmt::format(
            R"svg(<text class="name" text-anchor="middle" transform="translate({:.1f} {:.1f}) rotate({:.1f})">{:.1f} GB/s</text>)svg"
            "\n",
            x(middle), y(middle * roof.bandwidth) + (main ? -8 : 18), -slope * 57.29578,
            roof.bandwidth * 1e-9);
    }

    /// Dots first, then their numbers where there is room.
    void draw_points() {
        for (const auto& point : data_.points) taken_.push_back(place(point));
        double list_y = kTop + 6;
        int number = 0;
        for (const auto& point : data_.points) {
            const Place at = place(point);
            const Place label = room_near(at);
            ++number;
            if (std::hypot(label.x - at.x, label.y - at.y) > 14) line(at, label, "leader");
            const std::string_view color = color_of(point);
            out_ += fmt::format(
                R"(<circle class="dot" style="fill:{}" cx="{:.1f}" cy="{:.1f}" r="3.5"><title>{}: {:.1f} GFLOP/s</title></circle>)"
                "\n",
                color, at.x, at.y, escaped(point.label), point.flops_per_second * 1e-9);
            out_ += fmt::format(
                R"(<circle class="dot" style="fill:{}" cx="{:.1f}" cy="{:.1f}" r="3.5"/>)"
                "\n",
                color, kListLeft - 4, list_y - 4);
            text(label.x, label.y + 3.5, "number", std::to_string(number), "middle");
            text(kListLeft + 18, list_y, "number", std::to_string(number), "end");
            text(kEntryLeft, list_y, "entry", point.label);
            list_y += kLine;
        }
    }

    /// One for each op and type, as far as there are colours.
    std::string_view color_of(const Roofline::Point& point) {
        static constexpr std::array<std::string_view, 10> kColors{
            "#d9822b", "#2f7d6d", "#3f6fb5", "#8a5aa8", "#b0476b",
            "#a8823a", "#4c7f3f", "#5b6b7c", "#7a5c48", "#3b8399"};
        const std::size_t op = point.label.find(' ');
        const std::string kind =
            point.label.substr(0, op == std::string::npos ? op : point.label.find(' ', op + 1));
        auto found = std::ranges::find(kinds_, kind);
        if (found == kinds_.end()) found = kinds_.insert(kinds_.end(), kind);
        return kColors[static_cast<std::size_t>(found - kinds_.begin()) % kColors.size()];
    }

    /// The nearest place for a number that touches no dot and no other number.
    Place room_near(Place at) {
        constexpr double kPi = 3.14159265358979;
        for (const double radius : {11.0, 18.0, 26.0, 35.0, 45.0, 58.0, 72.0}) {
            for (int i = 0; i < 16; ++i) {
                const double angle = -kPi / 4 + i * kPi / 8;
                const Place candidate{at.x + radius * std::cos(angle),
                                      at.y + radius * std::sin(angle)};
                const bool inside = candidate.x > kLeft && candidate.x < kLeft + kWidth &&
                                    candidate.y > kTop && candidate.y < kTop + kHeight;
                const bool is_free = std::ranges::none_of(taken_, [&](Place other) {
                    return std::abs(other.x - candidate.x) < 15 &&
                           std::abs(other.y - candidate.y) < 11 &&
                           (other.x != at.x || other.y != at.y);
                });
                if (!inside || !is_free) continue;
                taken_.push_back(candidate);
                return candidate;
            }
        }
        return at;
    }

    static constexpr const char* kStyle = R"(<style>
.page { fill: #fffefb; }
text { font: 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #23272c; }
.title { font-size: 16px; font-weight: 600; }
.soft { fill: #6a7076; }
.name { fill: #2f7d6d; font-size: 11px; }
.number { font-size: 10px; font-weight: 600; }
.entry { font-size: 11px; }
.grid { stroke: #e3dfd6; }
.roof { stroke: #2f7d6d; stroke-width: 2; }
.lesser { stroke-width: 1; stroke-dasharray: 5 4; }
.leader { stroke: #b9b4a8; stroke-width: .7; }
.dot { fill: #d9822b; stroke: #fffefb; }
</style>)";

    const Roofline& data_;
    Axis intensity_, speed_;
    std::vector<Place> taken_;
    std::vector<std::string> kinds_;  ///< ops and types that have a colour
    std::string out_;
};

constexpr const char* kPage = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Roofline</title>
<link rel="icon" href="data:,">
<style>
body {{ margin: 0; padding: 28px; background: #f6f4ef; color: #23272c;
       font: 14px/1.45 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }}
.card {{ background: #fffefb; border: 1px solid #e3dfd6; border-radius: 14px; margin: 0 auto 26px;
        box-shadow: 0 1px 2px #0000000d, 0 6px 24px #0000000a; max-width: 1240px; overflow-x: auto; }}
svg {{ max-width: 100%; height: auto; display: block; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ padding: 5px 14px; text-align: right; border-bottom: 1px solid #e3dfd6; }}
th {{ color: #6a7076; font-weight: 500; }}
td.text, th.text {{ text-align: left; }}
tr:last-child td {{ border: 0; }}
</style>
</head>
<body>
<div class="card">{}</div>
<div class="card">{}</div>
</body>
</html>
)";

}  // namespace

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
    }
    return out;
}

std::string Roofline::svg() const { return Picture(*this).draw(); }

std::string Roofline::html(const std::string& table) const {
    return fmt::format(kPage, svg(), table);
}

}  // namespace heddle::tool::bench
