#include "bench/onednn.hpp"

namespace heddle::tool::bench {

std::string onednn_name() { return {}; }

Result<std::unique_ptr<OneDnnProduct>> make_onednn_product(const ProductSize&) {
    return failure(Errc::unsupported, "built without oneDNN");
}

}  // namespace heddle::tool::bench
