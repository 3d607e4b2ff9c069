// ggml-cuda.h, and the registration "CUDA".

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "backends/cuda/all_reduce.hpp"
#include "backends/cuda/device.hpp"
#include "backends/gpu/environment.hpp"
#include "backends/named_functions.hpp"
#include "ggml-cuda.h"
#include "ggml-impl.h"
#include "heddle/backend/nodes.hpp"
#include "heddle/backend/reserve.h"
#include "heddle/backend/trace.h"

namespace heddle::cuda {
namespace {

// ---- options -----------------------------------------------------------------------------------

std::optional<std::int64_t> number_from(const char* name) {
    return gpu::whole_number("CUDA", name, std::getenv(name));
}

/// Of the ways that the environment may ask for, ours is one and none another.
bool reduction_from_environment() {
    const char* const words = std::getenv("GGML_CUDA_ALLREDUCE");
    if (words == nullptr) return true;
    const std::string_view way = words;
    if (way == "none") return false;
    if (way != "internal") {
        plugin::log(GGML_LOG_LEVEL_WARN, text("CUDA: GGML_CUDA_ALLREDUCE is '", way,
                                              "'; there are internal, which is used, and none"));
    }
    return true;
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
    options.is_fusing = number_from("GGML_CUDA_DISABLE_FUSION").value_or(0) == 0;
    options.is_reducing = reduction_from_environment();
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

/// Null if one of the streams is not of these devices, or sums over them cannot be made: who asks
/// makes them with copies and ADD then.
std::unique_ptr<AllReduce> make_reduction(ggml_backend_t* backends, std::size_t count) {
    CudaRegistration* const registration = the_registration();
    if (backends == nullptr || registration == nullptr || !registration->options().is_reducing) {
        return nullptr;
    }
    std::vector<CudaStream*> streams;
    for (std::size_t i = 0; i < count; ++i) {
        streams.push_back(cuda_stream(backends[i]));
        if (streams.back() == nullptr) return nullptr;
    }
    auto made = AllReduce::make(streams);
    if (made) return *std::move(made);
    plugin::log(GGML_LOG_LEVEL_WARN, text("CUDA: no sums over devices: ", made.error().message));
    return nullptr;
}

/// False if nothing was done: the tensors do not belong together. A failure on the way is reported,
/// and counts as done: what the tensors hold is no longer what it was.
bool reduce(AllReduce* reduction, ggml_tensor** tensors) {
    if (reduction == nullptr || tensors == nullptr) return false;
    const std::span<ggml_tensor* const> all(tensors, reduction->size());
    if (std::ranges::find(all, nullptr) != all.end()) return false;
    const auto added = reduction->add_up(all);
    if (added) return true;
    if (added.error().code != Errc::device) return false;
    plugin::report(added.error());
    return true;
}

void* comm_init(ggml_backend_t* backends, std::size_t count) {
    return plugin::ask<void*>(nullptr,
                              [&]() -> void* { return make_reduction(backends, count).release(); });
}

void comm_free(void* reduction) { delete static_cast<AllReduce*>(reduction); }

bool comm_allreduce_tensor(void* reduction, ggml_tensor** tensors) {
    return plugin::ask<bool>(false,
                             [&] { return reduce(static_cast<AllReduce*>(reduction), tensors); });
}

ggml_status stream_reserve(ggml_backend_t stream, ggml_cgraph* graph) {
    return plugin::attempt_status([&] { return std::string("reserve"); },
                                  [&]() -> Result<> {
                                      CudaStream* const found = cuda_stream(stream);
                                      if (found == nullptr || graph == nullptr)
                                          return invalid("no CUDA stream, or no graph");
                                      return found->reserve(*graph);
                                  });
}

bool fused_with(ggml_backend_t backend, const ggml_cgraph* graph, int* with) {
    const auto status = plugin::attempt_status(
        [&] { return std::string("heddle_fused_with"); },
        [&]() -> Result<> {
            const CudaStream* const stream = cuda_stream(backend);
            if (stream == nullptr || graph == nullptr || with == nullptr)
                return invalid("no CUDA stream, no graph, or no room for the answer");
            return find_fused(stream->board(), const_cast<ggml_cgraph&>(*graph),
                              {with, static_cast<std::size_t>(graph->n_nodes)});
        });
    return status == GGML_STATUS_SUCCESS;
}

bool stream_trace(ggml_backend_t backend, bool on) {
    return plugin::ask<bool>(false, [&] {
        CudaStream* const stream = cuda_stream(backend);
        if (stream != nullptr) stream->set_tracing(on);
        return stream != nullptr;
    });
}

bool stream_times(ggml_backend_t backend, int back, double* seconds, int count) {
    return plugin::ask<bool>(false, [&] {
        CudaStream* const stream = cuda_stream(backend);
        if (stream == nullptr || stream->trace() == nullptr || back < 0 || count < 0) return false;
        if (!stream->synchronize()) return false;
        return stream->trace()->times(static_cast<std::size_t>(back),
                                      {seconds, static_cast<std::size_t>(count)});
    });
}

/// As programs know architectures: 900 for "90a" and for "90-real".
std::string architecture_numbers() {
    std::string numbers;
    bool is_number = true;
    for (const char c : std::string_view(HEDDLE_CUDA_COMPILED_FOR ",")) {
        if (c == ',') {
            numbers += "0,";
            is_number = true;
        } else if (is_number && std::isdigit(static_cast<unsigned char>(c)) != 0) {
            numbers += c;
        } else {
            is_number = false;
        }
    }
    numbers.pop_back();
    return numbers;
}

ggml_backend_feature* get_features(ggml_backend_reg_t) {
    static const std::string architectures = architecture_numbers();
    static std::vector<ggml_backend_feature> features = [] {
        std::vector<ggml_backend_feature> all{{"ARCHS", architectures.c_str()}};
        if (the_registration()->options().is_replaying) all.push_back({"USE_GRAPHS", "1"});
        all.push_back({"FA_ALL_QUANTS", "1"});  // a cache may have any two types
        all.push_back({nullptr, nullptr});
        return all;
    }();
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
        named(HEDDLE_STREAM_TRACE, stream_trace),
        named(HEDDLE_STREAM_TIMES, stream_times),
        named("heddle_fused_with", fused_with),
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

bool ggml_backend_cuda_allreduce_tensor(ggml_backend_t* backends, ggml_tensor** tensors,
                                        size_t n_backends) {
    return heddle::plugin::ask<bool>(false, [&] {
        const auto reduction = heddle::cuda::make_reduction(backends, n_backends);
        if (!heddle::cuda::reduce(reduction.get(), tensors)) return false;
        // What the sum needs goes with `reduction`.
        for (std::size_t i = 0; i < n_backends; ++i) ggml_backend_synchronize(backends[i]);
        return true;
    });
}
