// Draws how losses fall from epoch to epoch, for the examples that train.
#pragma once

#include <fstream>
#include <string>
#include <vector>

struct Curve {
    std::string name, colour;
    std::vector<double> losses;  // one for each epoch
};

/// All curves in one picture, as shares of the first loss of the first curve.
inline bool write_svg(const char* path, const std::vector<Curve>& curves) {
    std::ofstream out(path);
    const std::vector<double>& first = curves.front().losses;
    out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 460 250' font-family='sans-serif' "
           "font-size='12'>\n<rect width='460' height='250' fill='white'/>\n"
           "<path d='M50 20V210H440' fill='none' stroke='black'/>\n"
           "<text x='12' y='34'>100%</text><text x='28' y='214'>0%</text>\n"
           "<text x='390' y='230'>epoch "
        << first.size() << "</text>\n";
    int y = 40;
    for (const Curve& curve : curves) {
        out << "<polyline fill='none' stroke-width='2' stroke='" << curve.colour << "' points='";
        for (std::size_t i = 0; i < curve.losses.size(); ++i) {
            out << 50 + 380 * i / (first.size() - 1) << ','
                << 210 - 180 * curve.losses[i] / first[0] << ' ';
        }
        out << "'/>\n<text x='300' y='" << y << "' fill='" << curve.colour << "'>" << curve.name
            << "</text>\n";
        y += 18;
    }
    out << "</svg>\n";
    out.close();  // what is left in memory is written now, or not
    return out.good();
}
