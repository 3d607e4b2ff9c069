#include "test_support.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <sstream>

#include "heddle/heddle.h"
#include "late_device.hpp"

namespace heddle::conformance {
namespace {

/// The devices that `heddle conform` was asked for; null if it is not that which runs this.
const char* only_devices() { return std::getenv("HEDDLE_CONFORMANCE_ONLY"); }

std::vector<std::string> asked_for() {
    std::vector<std::string> names;
    const char* more = only_devices();
    if (more == nullptr) {
        names = {"CPU", "BLAS", "sim"};
        more = std::getenv("HEDDLE_CONFORMANCE_DEVICES");
    }
    std::istringstream list(more != nullptr ? more : "");
    const char separator = only_devices() != nullptr ? '\n' : ',';  // parameters have commas
    for (std::string name; std::getline(list, name, separator);) {
        if (!name.empty()) names.push_back(name);
    }
    return names;
}

bool is_file(const std::string& name) {
    return name.find('/') != std::string::npos || name.ends_with(".so");
}

std::vector<ggml_backend_dev_t> devices_of(const std::string& name) {
    std::vector<ggml_backend_dev_t> devices;
    if (is_file(name)) {
        const ggml_backend_reg_t loaded = ggml_backend_load(name.c_str());
        for (std::size_t i = 0; loaded != nullptr && i < ggml_backend_dev_count(); ++i) {
            const ggml_backend_dev_t device = ggml_backend_dev_get(i);  // some may be left out
            if (ggml_backend_dev_backend_reg(device) == loaded) devices.push_back(device);
        }
        return devices;
    }
    const ggml_backend_ptr stream(ggml_backend_init_by_name(name.c_str(), nullptr));
    if (stream != nullptr) devices.push_back(ggml_backend_get_device(stream.get()));
    return devices;
}

void add_subject(std::vector<Subject>& subjects, ggml_backend_dev_t device) {
    const auto is_same = [&](const Subject& subject) { return subject.device == device; };
    if (std::ranges::any_of(subjects, is_same)) return;
    std::string label = ggml_backend_dev_name(device);
    std::ranges::replace_if(
        label, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    const auto has_label = [&](const Subject& subject) { return subject.label == label; };
    while (std::ranges::any_of(subjects, has_label)) label += "x";
    subjects.push_back({label, device});
}

std::vector<Subject> find_subjects() {
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    ggml_backend_load_all();
    std::vector<Subject> subjects;
    std::string absent;
    for (const std::string& name : asked_for()) {
        const auto devices = devices_of(name);
        if (devices.empty()) absent += " " + name;
        for (ggml_backend_dev_t device : devices) add_subject(subjects, device);
    }
    if (only_devices() == nullptr) {
        ggml_backend_register(plugin::registration<LateRegistration>());
        add_subject(subjects, late_device());
    }
    if (!absent.empty()) std::cout << "not here, not tested:" << absent << std::endl;
    return subjects;
}

}  // namespace

const std::vector<Subject>& all_subjects() {
    static const std::vector<Subject> subjects = find_subjects();
    return subjects;
}

std::string label_of(const testing::TestParamInfo<Subject>& info) { return info.param.label; }

void Device::SetUp() {
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    heddle_clear_error();
}

ggml_backend_ptr Device::new_stream() const {
    return ggml_backend_ptr(ggml_backend_dev_init(device(), nullptr));
}

ggml_backend_dev_props Device::props() const {
    ggml_backend_dev_props props;
    ggml_backend_dev_get_props(device(), &props);
    return props;
}

Workspace::Workspace() {
    constexpr std::size_t kTensors = 64;
    context_.reset(ggml_init(
        {.mem_size = kTensors * ggml_tensor_overhead() + 4 * ggml_graph_overhead_custom(64, false),
         .mem_buffer = nullptr,
         .no_alloc = true}));
}

bool Workspace::place(ggml_backend_buffer_type_t type) {
    buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(context(), type));
    return buffer_ != nullptr;
}

void write(ggml_tensor* tensor, const std::vector<float>& values) {
    ggml_backend_tensor_set(tensor, values.data(), 0, values.size() * sizeof(float));
}

std::vector<float> read(const ggml_tensor* tensor) {
    std::vector<float> values(ggml_nbytes(tensor) / sizeof(float));
    ggml_backend_tensor_get(tensor, values.data(), 0, values.size() * sizeof(float));
    return values;
}

std::vector<float> counting(std::size_t count, float first) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), first);
    return values;
}

std::vector<float> doubled(std::vector<float> values, int times) {
    for (float& value : values) value *= static_cast<float>(1 << times);
    return values;
}

std::optional<Doubling> Doubling::find(ggml_backend_dev_t device) {
    for (const Kind kind : {Kind::add, Kind::scale, Kind::product}) {
        const Workspace workspace;
        const Doubling candidate(kind);
        ggml_tensor* x = workspace.floats(kSide, kSide);
        const ggml_tensor* y = candidate.twice(workspace.context(), x, make_two(workspace));
        if (ggml_backend_dev_supports_op(device, y)) return candidate;
    }
    heddle_clear_error();
    return std::nullopt;
}

ggml_tensor* Doubling::twice(ggml_context* context, ggml_tensor* x, ggml_tensor* two) const {
    switch (kind_) {
        case Kind::add:
            return ggml_add(context, x, x);
        case Kind::scale:
            return ggml_scale(context, x, 2);
        case Kind::product:
            return ggml_mul_mat(context, two, x);
    }
    return nullptr;
}

ggml_tensor* Doubling::twice_inplace(ggml_context* context, ggml_tensor* x) const {
    switch (kind_) {
        case Kind::add:
            return ggml_add_inplace(context, x, x);
        case Kind::scale:
            return ggml_scale_inplace(context, x, 2);
        case Kind::product:
            return nullptr;
    }
    return nullptr;
}

void Doubling::fill_two(ggml_tensor* two) {
    std::vector<float> diagonal(kSquare);
    for (std::size_t i = 0; i < kSide; ++i) diagonal[i * kSide + i] = 2;
    write(two, diagonal);
}

Chain::Chain(const Doubling& doubling, ggml_backend_buffer_type_t type, int steps) {
    ggml_tensor* two = Doubling::make_two(workspace_);
    input_ = workspace_.floats(Doubling::kSide, Doubling::kSide);
    graph_ = workspace_.new_graph();
    for (ggml_tensor* last = input_; steps > 0; --steps) {
        last = doubling.twice(workspace_.context(), last, two);
        steps_.push_back(last);
    }
    ggml_build_forward_expand(graph_, output());
    if (!workspace_.place(type)) {
        ADD_FAILURE() << "no memory for a few squares: " << heddle_last_error();
        return;
    }
    ggml_backend_buffer_clear(workspace_.buffer(), 0);
    Doubling::fill_two(two);
}

std::vector<float> Chain::expected(float first) const {
    return doubled(counting(kSquare, first), static_cast<int>(steps_.size()));
}

}  // namespace heddle::conformance
