#include "tests/campaign/doors/small_model.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/campaign/settings.hpp"
#include "tests/cli/small_model.hpp"

namespace heddle::campaign {

const GgufDraft& small_model() {
    static const GgufDraft model = [] {
        const std::string path = settings().scratch + "/model";
        cli_test::SmallModel().write(path);
        std::ifstream in(path, std::ios::binary);
        const std::string content{std::istreambuf_iterator<char>(in), {}};
        std::filesystem::remove(path);
        const auto* bytes = reinterpret_cast<const std::byte*>(content.data());
        return draft_of({bytes, bytes + content.size()});
    }();
    return model;
}

}  // namespace heddle::campaign
