#include "target.hpp"

#include "heddle/backend/objection.h"
#include "heddle/heddle.h"

namespace heddle::tool {
namespace {

Error unusable(const std::string& name) {
    std::string known;
    for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
        known += std::string(i > 0 ? ", " : "") + ggml_backend_dev_name(ggml_backend_dev_get(i));
    }
    return failure(Errc::not_found, "device ", name, " cannot be used; there are ", known);
}

/// As ggml_backend_init_best() looks for it, but without a stream.
ggml_backend_dev_t best_device() {
    for (const auto type : {GGML_BACKEND_DEVICE_TYPE_GPU, GGML_BACKEND_DEVICE_TYPE_IGPU,
                            GGML_BACKEND_DEVICE_TYPE_CPU}) {
        if (const auto device = ggml_backend_dev_by_type(type)) return device;
    }
    return nullptr;
}

}  // namespace

Result<ggml_backend_dev_t> find_device(const std::string& name) {
    const ggml_backend_dev_t device =
        name == "best" ? best_device() : ggml_backend_dev_by_name(name.c_str());
    return device != nullptr ? Result(device) : unusable(name);
}

Result<Target> Target::open(const std::string& name) {
    HEDDLE_TRY_ASSIGN(const ggml_backend_dev_t device, find_device(name));
    const ggml_backend_t stream = ggml_backend_dev_init(device, nullptr);
    if (stream == nullptr) return unusable(name);
    return Target(stream);
}

std::string Target::objection(const ggml_tensor& node) const {
    const auto ask =
        reinterpret_cast<heddle_device_objection_t>(procedure(HEDDLE_DEVICE_OBJECTION));
    const std::string said = ask != nullptr ? ask(device(), &node) : "";
    return said.empty() ? heddle_last_error() : said;
}

void* Target::procedure(const char* name) const {
    return ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device()), name);
}

bool Target::set_threads(int threads) const {
    const auto set =
        reinterpret_cast<ggml_backend_set_n_threads_t>(procedure("ggml_backend_set_n_threads"));
    if (set != nullptr) set(stream_.get(), threads);
    return set != nullptr;
}

bool Target::set_fusion(heddle_cpu_fusion fusion) const {
    const auto set = reinterpret_cast<heddle_cpu_set_fusion_t>(procedure("heddle_cpu_set_fusion"));
    return set != nullptr && set(stream_.get(), fusion);
}

std::vector<std::string> Target::instruction_sets() const {
    std::vector<std::string> names;
    const auto list = reinterpret_cast<heddle_cpu_isa_names_t>(procedure("heddle_cpu_isa_names"));
    if (list == nullptr) return names;
    for (const char* const* name = list(); *name != nullptr; ++name) names.emplace_back(*name);
    return names;
}

Result<> Target::use_instruction_set(const std::string& name) const {
    const auto set = reinterpret_cast<heddle_cpu_set_isa_t>(procedure("heddle_cpu_set_isa"));
    if (set == nullptr)
        return failure(Errc::unsupported, "device ", this->name(), " has one form only");
    if (!set(name.c_str())) return invalid(heddle_last_error());
    return ok();
}

}  // namespace heddle::tool
