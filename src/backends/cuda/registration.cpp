// ggml-cuda.h, and the registration "CUDA".

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "backends/cuda/device.hpp"
#include "backends/named_functions.hpp"
#include "ggml-cuda.h"
#include "heddle/backend/reserve.h"

namespace heddle::cuda {
namespace {

// ---- options -----------------------------------------------------------------------------------

/// A whole number from the environment; none, with a warning, for anything else.
std::optional<std::int64_t> number_from(const char* name) {
    const char* words = std::getenv(name);
    if (words == nullptr) return std::nullopt;
    std::int64_t number = 0;
    const char* const end = words + std::strlen(words);
    const auto [stop, failed] = std::from_chars(words, end, number);
    if (failed == std::errc{} && stop == end) return number;
    plugin::log(GGML_LOG_LEVEL_WARN, text("CUDA: ", name, " is '", words, "', no whole number"));
    return std::nullopt;
}

Options options_from_environment() {
    Options options;
    const std::int64_t devices = number_from("GGML_CUDA_DEVICES").value_or(0);
    options.virtual_devices =
        static_cast<int>(std::clamp<std::int64_t>(devices, 0, GGML_CUDA_MAX_DEVICES));
    options.is_pinned = std::getenv("GGML_CUDA_NO_PINNED") == nullptr;
    options.is_managed = std::getenv("GGML_CUDA_ENABLE_UNIFIED_MEMORY") != nullptr;
    options.may_register_host = std::getenv("GGML_CUDA_REGISTER_HOST") != nullptr;
    options.is_replaying = std::getenv("GGML_CUDA_DISABLE_GRAPHS") == nullptr;
    options.is_fusing = std::getenv("GGML_CUDA_DISABLE_FUSION") == nullptr;
    options.offload_batch =
        number_from("GGML_OP_OFFLOAD_MIN_BATCH").value_or(options.offload_batch);
    return options;
}

// ---- registration ------------------------------------------------------------------------------

class CudaRegistration : public plugin::Registration<CudaRegistration> {
public:
    CudaRegistration() : options_(options_from_environment()) {
        Survey survey = survey_devices(options_);
        for (Board& board : survey.boards) {
            devices_.push_back(std::make_unique<CudaDevice>(handle(), std::move(board)));
        }
        host_.emplace(devices_.empty() ? nullptr : devices_.front()->handle(),
                      devices_.empty() ? nullptr : &devices_.front()->board());
        announce(survey.left_out);
    }

    const char* name() { return GGML_CUDA_NAME; }
    std::size_t device_count() { return devices_.size(); }
    ggml_backend_dev_t device(std::size_t index) { return devices_[index]->handle(); }
    void* find(std::string_view name);

    const Options& options() const { return options_; }
    ggml_backend_buffer_type_t host_memory() { return host_->handle(); }
    CudaDevice* device_at(int index) {
        const auto number = static_cast<std::size_t>(index);
        return index >= 0 && number < devices_.size() ? devices_[number].get() : nullptr;
    }

private:
    void announce(const std::vector<std::string>& left_out) const;

    const Options options_;
    std::vector<std::unique_ptr<CudaDevice>> devices_;
    std::optional<HostMemory> host_;
};

void CudaRegistration::announce(const std::vector<std::string>& left_out) const {
    constexpr std::size_t mebi = 1024 * 1024;
    for (const std::string& sentence : left_out) plugin::log(GGML_LOG_LEVEL_WARN, sentence);
    if (devices_.empty()) return;
    std::size_t total = 0;
    for (const auto& device : devices_) {
        total += device->board().total_memory / static_cast<std::size_t>(device->board().sharing);
    }
    plugin::log(GGML_LOG_LEVEL_INFO,
                text("CUDA: ", devices_.size(), " devices, ", total / mebi, " MiB in all"));
    for (const auto& device : devices_) {
        const Board& board = device->board();
        plugin::log(GGML_LOG_LEVEL_INFO,
                    text("  ", board.name, ": ", board.description, ", compute capability ",
                         board.facts.architecture / 100, '.', board.facts.architecture % 100 / 10,
                         ", virtual memory management ", board.has_virtual_memory ? "yes" : "no",
                         ", ", board.total_memory / mebi, " MiB"));
    }
}

CudaRegistration* the_registration() {
    const ggml_backend_reg_t registration = ggml_backend_cuda_reg();
    return registration != nullptr ? static_cast<CudaRegistration*>(registration->context)
                                   : nullptr;
}

CudaDevice* device_number(int index) {
    CudaRegistration* const registration = the_registration();
    return registration != nullptr ? registration->device_at(index) : nullptr;
}

/// As device_number(), but says so where there is no such device.
CudaDevice* known_device(const char* function, int index) {
    CudaDevice* const device = device_number(index);
    if (device == nullptr) {
        plugin::report(invalid(function, ": device ", index, " is not one of the ",
                               ggml_backend_cuda_get_device_count(), " CUDA devices"));
    }
    return device;
}

// ---- functions found by name -------------------------------------------------------------------

/// Sums over devices are made by who asks, with copies and ADD: streams are checked, no more.
struct Communicator {
    std::vector<ggml_backend_t> streams;
};

void* comm_init(ggml_backend_t* backends, std::size_t count) {
    return plugin::ask<void*>(nullptr, [&]() -> void* {
        if (backends == nullptr || count == 0) return nullptr;
        for (std::size_t i = 0; i < count; ++i) {
            if (cuda_stream(backends[i]) == nullptr) return nullptr;
        }
        return new Communicator{{backends, backends + count}};
    });
}

void comm_free(void* communicator) { delete static_cast<Communicator*>(communicator); }

bool comm_allreduce_tensor(void*, ggml_tensor**) { return false; }

ggml_status stream_reserve(ggml_backend_t stream, ggml_cgraph* graph) {
    return plugin::attempt_status([&] { return std::string("reserve"); },
                                  [&]() -> Result<> {
                                      CudaStream* const found = cuda_stream(stream);
                                      if (found == nullptr || graph == nullptr)
                                          return invalid("no CUDA stream, or no graph");
                                      return found->reserve(*graph);
                                  });
}

ggml_backend_feature* get_features(ggml_backend_reg_t) {
    static std::array<ggml_backend_feature, 3> features{
        {{"ARCHS", HEDDLE_CUDA_COMPILED_FOR}, {"USE_GRAPHS", "1"}, {nullptr, nullptr}}};
    return features.data();
}

void* CudaRegistration::find(std::string_view name) {
    static const std::array functions{
        named("ggml_backend_comm_init", comm_init),
        named("ggml_backend_comm_free", comm_free),
        named("ggml_backend_comm_allreduce_tensor", comm_allreduce_tensor),
        named("ggml_backend_register_host_buffer", ggml_backend_cuda_register_host_buffer),
        named("ggml_backend_unregister_host_buffer", ggml_backend_cuda_unregister_host_buffer),
        named("ggml_backend_get_features", get_features),
        named(HEDDLE_STREAM_RESERVE, stream_reserve),
    };
    return find_function(functions, name);
}

}  // namespace
}  // namespace heddle::cuda

using heddle::cuda::CudaDevice;
using heddle::cuda::CudaRegistration;

ggml_backend_reg_t ggml_backend_cuda_reg(void) {
    return heddle::plugin::registration<CudaRegistration>();
}

ggml_backend_t ggml_backend_cuda_init(int device) {
    CudaDevice* const found = heddle::cuda::known_device("ggml_backend_cuda_init", device);
    if (found == nullptr) return nullptr;
    return found->handle()->iface.init_backend(found->handle(), nullptr);
}

bool ggml_backend_is_cuda(ggml_backend_t backend) {
    return heddle::cuda::cuda_stream(backend) != nullptr;
}

ggml_backend_buffer_type_t ggml_backend_cuda_buffer_type(int device) {
    CudaDevice* const found = heddle::cuda::device_number(device);
    return found != nullptr ? found->buffer_type() : nullptr;
}

ggml_backend_buffer_type_t ggml_backend_cuda_host_buffer_type(void) {
    CudaRegistration* const registration = heddle::cuda::the_registration();
    return registration != nullptr ? registration->host_memory() : nullptr;
}

int ggml_backend_cuda_get_device_count(void) {
    CudaRegistration* const registration = heddle::cuda::the_registration();
    return registration != nullptr ? static_cast<int>(registration->device_count()) : 0;
}

void ggml_backend_cuda_get_device_description(int device, char* description,
                                              size_t description_size) {
    if (description == nullptr || description_size == 0) return;
    description[0] = '\0';
    CudaDevice* const found =
        heddle::cuda::known_device("ggml_backend_cuda_get_device_description", device);
    if (found == nullptr) return;
    const std::string_view words = found->description();
    description[words.copy(description, description_size - 1)] = '\0';
}

void ggml_backend_cuda_get_device_memory(int device, size_t* free, size_t* total) {
    heddle::cuda::MemoryReport report;
    CudaDevice* const found =
        heddle::cuda::known_device("ggml_backend_cuda_get_device_memory", device);
    if (found != nullptr) {
        auto asked = heddle::cuda::report_memory(found->board());
        if (asked) {
            report = *asked;
        } else {
            heddle::plugin::report(asked.error());
        }
    }
    if (free != nullptr) *free = report.free;
    if (total != nullptr) *total = report.total;
}

bool ggml_backend_cuda_register_host_buffer(void* buffer, size_t size) {
    CudaRegistration* const registration = heddle::cuda::the_registration();
    if (registration == nullptr || !registration->options().may_register_host) return false;
    const cudaError_t status =
        cudaHostRegister(buffer, size, cudaHostRegisterPortable | cudaHostRegisterReadOnly);
    if (status == cudaSuccess) return true;
    cudaGetLastError();
    heddle::plugin::log(GGML_LOG_LEVEL_DEBUG,
                        heddle::text("CUDA: page-locking ", heddle::cuda::describe_bytes(size),
                                     " of host memory: ", cudaGetErrorString(status)));
    return false;
}

void ggml_backend_cuda_unregister_host_buffer(void* buffer) {
    CudaRegistration* const registration = heddle::cuda::the_registration();
    if (registration == nullptr || !registration->options().may_register_host) return;
    if (cudaHostUnregister(buffer) != cudaSuccess) cudaGetLastError();
}

bool ggml_backend_cuda_allreduce_tensor(ggml_backend_t*, ggml_tensor**, size_t) { return false; }
