#include <algorithm>
#include <cfloat>
#include <cmath>

#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_nn.h"
#include "reference/reference.hpp"

namespace heddle::tool::reference {
namespace {

// ---- scaling -----------------------------------------------------------------------------------

/// Places of source pixels. These are single precision by definition: at the borders between
/// pixels the last bit decides.
struct Scaling {
    const Operands& in;
    float factor[4];
    float offset = 0.5f;

    explicit Scaling(const Operands& operands) : in(operands) {
        for (std::size_t d = 0; d < 4; ++d) {
            factor[d] = float(in.extent[d]) / float(in[0].extent(d));
        }
        if ((in.integer(0) & GGML_SCALE_FLAG_ALIGN_CORNERS) == 0) return;
        offset = 0;
        for (std::size_t d = 0; d < 2; ++d) {
            if (in.extent[d] <= 1 || in[0].extent(d) <= 1) continue;
            factor[d] = float(in.extent[d] - 1) / float(in[0].extent(d) - 1);
        }
    }

    std::int64_t nearest(std::size_t d, std::int64_t i) const {
        return static_cast<std::int64_t>(float(i) / factor[d]);
    }
    float place(std::size_t d, std::int64_t i) const {
        return (float(i) + offset) / factor[d] - offset;
    }
    std::int64_t inside(std::size_t d, std::int64_t j) const {
        return std::clamp<std::int64_t>(j, 0, in[0].extent(d) - 1);
    }
};

double bilinear(const Scaling& scaling, std::int64_t i0, std::int64_t i1, std::int64_t j2,
                std::int64_t j3) {
    const Values& a = scaling.in[0];
    const std::int64_t i[2] = {i0, i1};
    std::int64_t low[2], high[2];
    double share[2];
    for (std::size_t d = 0; d < 2; ++d) {
        const float place = scaling.place(d, i[d]);
        const auto floor = static_cast<std::int64_t>(std::floor(place));
        low[d] = scaling.inside(d, floor);
        high[d] = scaling.inside(d, floor + 1);
        share[d] = std::clamp(place - float(low[d]), 0.0f, 1.0f);
    }
    const double top =
        a(low[0], low[1], j2, j3) * (1 - share[0]) + a(high[0], low[1], j2, j3) * share[0];
    const double bottom =
        a(low[0], high[1], j2, j3) * (1 - share[0]) + a(high[0], high[1], j2, j3) * share[0];
    return top * (1 - share[1]) + bottom * share[1];
}

/// A triangle as wide as the pixels that fall into one.
double antialiased(const Scaling& scaling, std::int64_t i0, std::int64_t i1, std::int64_t j2,
                   std::int64_t j3) {
    const Values& a = scaling.in[0];
    const std::int64_t i[2] = {i0, i1};
    float place[2], width[2];
    std::int64_t begin[2], end[2];
    for (std::size_t d = 0; d < 2; ++d) {
        place[d] = (float(i[d]) + scaling.offset) / scaling.factor[d];
        width[d] = std::max(1.0f, 1.0f / scaling.factor[d]);
        begin[d] = std::max<std::int64_t>(std::int64_t(place[d] - width[d] + scaling.offset), 0);
        end[d] = std::min(std::int64_t(place[d] + width[d] + scaling.offset), a.extent(d));
    }
    const auto weight = [&](std::size_t d, std::int64_t j) {
        return std::max(1.0f - std::abs((float(j) - place[d] + scaling.offset) / width[d]), 0.0f);
    };
    double total = 0, weights = 0;
    for (std::int64_t y = begin[1]; y < end[1]; ++y) {
        for (std::int64_t x = begin[0]; x < end[0]; ++x) {
            const double share = double{weight(0, x)} * double{weight(1, y)};
            if (share <= 0) continue;
            total += share * a(x, y, j2, j3);
            weights += share;
        }
    }
    return weights > 0 ? total / weights : 0;
}

double bicubic(const Scaling& scaling, std::int64_t i0, std::int64_t i1, std::int64_t j2,
               std::int64_t j3) {
    constexpr double alpha = -0.75;
    const auto near = [](double t) { return ((alpha + 2) * t - (alpha + 3)) * t * t + 1; };
    const auto far = [](double t) {
        return ((alpha * t - 5 * alpha) * t + 8 * alpha) * t - 4 * alpha;
    };
    const Values& a = scaling.in[0];
    const std::int64_t i[2] = {i0, i1};
    std::int64_t first[2];
    double weight[2][4];
    for (std::size_t d = 0; d < 2; ++d) {
        const float place = scaling.place(d, i[d]);
        const double t = place - std::floor(place);
        first[d] = static_cast<std::int64_t>(std::floor(place)) - 1;
        weight[d][0] = far(t + 1), weight[d][1] = near(t);
        weight[d][2] = near(1 - t), weight[d][3] = far(2 - t);
    }
    double total = 0;
    for (std::int64_t y = 0; y < 4; ++y) {
        for (std::int64_t x = 0; x < 4; ++x) {
            total += weight[0][x] * weight[1][y] *
                     a(scaling.inside(0, first[0] + x), scaling.inside(1, first[1] + y), j2, j3);
        }
    }
    return total;
}

Values upscale(const Operands& in) {
    const Scaling scaling(in);
    const int mode = in.integer(0) & 0xff;
    const bool is_antialiased = (in.integer(0) & GGML_SCALE_FLAG_ANTIALIAS) != 0;
    return make_values(
        in.extent, [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
            const std::int64_t j2 = scaling.nearest(2, i2), j3 = scaling.nearest(3, i3);
            if (mode == GGML_SCALE_MODE_BICUBIC) return bicubic(scaling, i0, i1, j2, j3);
            if (mode == GGML_SCALE_MODE_NEAREST) {
                return in[0](scaling.nearest(0, i0), scaling.nearest(1, i1), j2, j3);
            }
            return (is_antialiased ? antialiased : bilinear)(scaling, i0, i1, j2, j3);
        });
}

// ---- pooling -----------------------------------------------------------------------------------

/// Positions of a window that lie inside the image.
struct Window {
    std::int64_t begin, end;

    Window(std::int64_t o, std::int64_t size, std::int64_t step, std::int64_t padding,
           std::int64_t extent)
        : begin(std::max<std::int64_t>(o * step - padding, 0)),
          end(std::min(o * step - padding + size, extent)) {}
    std::int64_t count() const { return std::max<std::int64_t>(end - begin, 0); }
};

Values pool_1d(const Operands& in) {
    const Values& a = in[0];
    const bool is_max = in.integer(0) == GGML_OP_POOL_MAX;
    return make_values(
        in.extent, [&](std::int64_t o, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
            const Window window(o, in.integer(1), in.integer(2), in.integer(3), a.extent(0));
            double largest = -FLT_MAX, total = 0;
            for (std::int64_t j = window.begin; j < window.end; ++j) {
                largest = std::max(largest, a(j, i1, i2, i3));
                total += a(j, i1, i2, i3);
            }
            if (is_max) return largest;
            // Padding does not count.
            return window.count() == 0 ? 0 : total / double(window.count());
        });
}

Window across(const Operands& in, std::int64_t o, const Values& image) {
    return {o, in.integer(1), in.integer(3), in.integer(5), image.extent(0)};
}
Window down(const Operands& in, std::int64_t o, const Values& image) {
    return {o, in.integer(2), in.integer(4), in.integer(6), image.extent(1)};
}

Values pool_2d(const Operands& in) {
    const Values& a = in[0];
    const bool is_max = in.integer(0) == GGML_OP_POOL_MAX;
    // Unlike in one dimension, padding counts as zeros.
    const double area = double(in.integer(1)) * in.integer(2);
    return make_values(in.extent,
                       [&](std::int64_t ox, std::int64_t oy, std::int64_t i2, std::int64_t i3) {
                           const Window wide = across(in, ox, a), high = down(in, oy, a);
                           double largest = -FLT_MAX, total = 0;
                           for (std::int64_t y = high.begin; y < high.end; ++y) {
                               for (std::int64_t x = wide.begin; x < wide.end; ++x) {
                                   largest = std::max(largest, a(x, y, i2, i3));
                                   total += a(x, y, i2, i3);
                               }
                           }
                           return is_max ? largest : total / area;
                       });
}

/// The first of several equal maxima takes the gradient.
Values pool_2d_back(const Operands& in) {
    const Values &gradient = in[0], &image = in[1];
    const bool is_max = in.integer(0) == GGML_OP_POOL_MAX;
    const double area = double(in.integer(1)) * in.integer(2);
    Values result(in.extent);
    gradient.for_each([&](std::int64_t ox, std::int64_t oy, std::int64_t i2, std::int64_t i3) {
        const Window wide = across(in, ox, image), high = down(in, oy, image);
        const double given = gradient(ox, oy, i2, i3);
        double* winner = nullptr;
        double largest = -FLT_MAX;
        for (std::int64_t y = high.begin; y < high.end; ++y) {
            for (std::int64_t x = wide.begin; x < wide.end; ++x) {
                if (!is_max) result(x, y, i2, i3) += given / area;
                if (image(x, y, i2, i3) <= largest) continue;
                largest = image(x, y, i2, i3);
                winner = &result(x, y, i2, i3);
            }
        }
        if (is_max && winner != nullptr) *winner += given;
    });
    return result;
}

constexpr Definition kDefinitions[] = {
    {GGML_OP_UPSCALE, upscale},
    {GGML_OP_POOL_1D, pool_1d},
    {GGML_OP_POOL_2D, pool_2d},
    {GGML_OP_POOL_2D_BACK, pool_2d_back},
};

}  // namespace

std::span<const Definition> image_definitions() { return kDefinitions; }

}  // namespace heddle::tool::reference
