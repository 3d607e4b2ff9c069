#include "bench/onednn.hpp"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <random>
#include <vector>

namespace heddle::tool::bench {
namespace {

std::vector<float> random_values(std::int64_t count) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = uniform(random);
    return values;
}

class Product final : public OneDnnProduct {
public:
    explicit Product(const ProductSize& size)
        : size_(size),
          a_(random_values(size.rows * size.columns)),
          b_(random_values(size.n * size.columns)),
          y_(static_cast<std::size_t>(size.rows * size.n)) {}

    Result<> run(int threads) override {
        omp_set_num_threads(threads);
        // Matrices are row by row here: y = b * transposed a.
        const auto status =
            dnnl_sgemm('N', 'T', size_.n, size_.rows, size_.columns, 1.0f, b_.data(), size_.columns,
                       a_.data(), size_.columns, 0.0f, y_.data(), size_.rows);
        if (status == dnnl_success) return ok();
        return failure(Errc::device, "oneDNN gives status ", int{status}, " for a product of ",
                       size_.rows, "x", size_.columns, " n=", size_.n);
    }

private:
    ProductSize size_;
    std::vector<float> a_, b_, y_;
};

}  // namespace

std::string onednn_name() {
    const dnnl_version_t* version = dnnl_version();
    return text("oneDNN ", version->major, ".", version->minor, ".", version->patch);
}

Result<std::unique_ptr<OneDnnProduct>> make_onednn_product(const ProductSize& size) {
    return std::unique_ptr<OneDnnProduct>(std::make_unique<Product>(size));
}

}  // namespace heddle::tool::bench
