#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

#include "core/context.hpp"
#include "core/log.hpp"
#include "heddle/sim.h"
#include "ops/binary.hpp"
#include "ops/build.hpp"
#include "ops/matmul.hpp"
#include "runtime/buffer.hpp"
#include "runtime/device.hpp"
#include "runtime/placement.hpp"
#include "runtime/stream.hpp"
#include "runtime/transfer.hpp"
#include "sched/cost/cost.hpp"
#include "sched/cost/file.hpp"

namespace heddle::sched {
namespace {

constexpr double kEnough = 1e-3;     // seconds of work that can be told from noise
constexpr double kPatience = 10e-3;  // seconds of the caller's time for one size of one thing
constexpr int kRepeats = 3;
constexpr std::size_t kSmallCopy = std::size_t{4} << 10, kLargeCopy = std::size_t{4} << 20;

double host_seconds() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
}

/// The clock that counts for a device: its own if it has one, else the host's.
class DeviceClock {
public:
    explicit DeviceClock(Device& device) : device_(&device) {
        if (device.reg == nullptr) return;
        clock_ =
            reinterpret_cast<heddle_sim_clock_t>(find_function(*device.reg, "heddle_sim_clock"));
    }
    bool is_its_own() const { return clock_ != nullptr; }
    double now() const { return clock_ != nullptr ? clock_(device_) : host_seconds(); }

private:
    Device* device_;
    heddle_sim_clock_t clock_ = nullptr;
};

/// Tensors of a measurement with their memory.
class Desk {
public:
    static Result<Desk> make() {
        HEDDLE_TRY_ASSIGN(OwnedContext context, make_context(std::size_t{64} << 10, nullptr, true));
        return Desk(std::move(context));
    }

    Context& context() { return *context_; }

    Result<Tensor*> tensor(BufferType& type, Type element, std::int64_t columns,
                           std::int64_t rows) {
        const std::int64_t extents[] = {columns, rows};
        HEDDLE_TRY_ASSIGN(Tensor * made, new_tensor(*context_, element, extents));
        HEDDLE_TRY(place(*made, type));
        HEDDLE_TRY(zero_tensor(*made));
        return made;
    }

    Result<> place(Tensor& tensor, BufferType& type) {
        HEDDLE_TRY_ASSIGN(OwnedBuffer allocated, allocate(type, alloc_size_of(type, tensor)));
        Buffer& buffer = *buffers_.emplace_back(std::move(allocated));
        HEDDLE_TRY_ASSIGN(void* base, base_of(buffer));
        return place_tensor(buffer, tensor, base);
    }

private:
    explicit Desk(OwnedContext context) : context_(std::move(context)) {}

    OwnedContext context_;
    std::vector<OwnedBuffer> buffers_;
};

/// Products of matrices from this size on are bound by operations, not by memory.
constexpr std::int64_t kTellingProduct = 512;

/// Least time of doing `work` and waiting for `streams`, by the clock. Once before, to warm up.
Result<double> least_time(const DeviceClock& clock, std::initializer_list<Stream*> streams,
                          const std::function<Result<>()>& work) {
    double least = 0;
    const double begin = host_seconds();
    for (int i = -1; i < kRepeats; ++i) {
        const double start = clock.now();
        HEDDLE_TRY(work());
        for (Stream* stream : streams) HEDDLE_TRY(finish(*stream));
        const double took = clock.now() - start;
        if (i < 0) continue;
        least = i == 0 ? took : std::min(least, took);
        // A clock of its own is exact: once is enough.
        if (clock.is_its_own() || host_seconds() - begin > kPatience) break;
    }
    return least;
}

/// Measures one runner.
class RunnerProbe {
public:
    explicit RunnerProbe(const Runner& runner) : runner_(runner), clock_(*runner.device) {}

    Result<DeviceCosts> run() {
        DeviceCosts costs;
        HEDDLE_TRY_ASSIGN(costs.speed.overhead, sum_seconds(16, nullptr));
        HEDDLE_TRY(measure_bandwidth(costs.speed));
        costs.speed.flops = 0;
        constexpr Type types[kTypeClasses] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0};
        for (std::size_t i = 0; i < kTypeClasses; ++i) {
            HEDDLE_TRY_ASSIGN(costs.product_flops[i], product_flops(types[i], costs.speed));
            if (costs.speed.flops == 0) costs.speed.flops = costs.product_flops[i];
        }
        if (costs.speed.flops == 0) costs.speed.flops = Speed{}.flops;
        return costs;
    }

private:
    /// Time of computing `node`, whose sources have memory; negative if the device cannot.
    Result<double> node_seconds(Desk& desk, Tensor& node) {
        if (!supports_op(*runner_.device, node)) return -1.0;
        HEDDLE_TRY(desk.place(node, *runner_.type));
        HEDDLE_TRY_ASSIGN(Graph * graph, new_graph(desk.context(), 8, false));
        HEDDLE_TRY(expand(*graph, node, true));
        return least_time(clock_, {runner_.stream},
                          [&] { return compute_async(*runner_.stream, *graph); });
    }

    /// Time of adding two vectors; `bytes` is what they and the sum take.
    Result<double> sum_seconds(std::int64_t n, double* bytes) {
        HEDDLE_TRY_ASSIGN(Desk desk, Desk::make());
        HEDDLE_TRY_ASSIGN(Tensor * a, desk.tensor(*runner_.type, GGML_TYPE_F32, n, 1));
        HEDDLE_TRY_ASSIGN(Tensor * b, desk.tensor(*runner_.type, GGML_TYPE_F32, n, 1));
        HEDDLE_TRY_ASSIGN(Tensor * sum, build<ops::Add>(desk.context(), {}, {a, b}));
        if (bytes != nullptr) *bytes = bytes_touched(*sum);
        HEDDLE_TRY_ASSIGN(const double seconds, node_seconds(desk, *sum));
        return seconds < 0 ? Speed{}.overhead : seconds;  // such as a device for products alone
    }

    Result<> measure_bandwidth(Speed& speed) {
        const double begin = host_seconds();
        for (std::int64_t n = std::int64_t{1} << 18; n <= std::int64_t{1} << 26; n *= 4) {
            double bytes = 0;
            HEDDLE_TRY_ASSIGN(const double seconds, sum_seconds(n, &bytes));
            const double moving = seconds - speed.overhead;
            if (moving > 0) speed.bandwidth = bytes / moving;
            if (seconds > kEnough || host_seconds() - begin > kPatience) break;
        }
        return ok();
    }

    /// Operations per second; 0 if the device has no such products.
    Result<double> product_flops(Type type, const Speed& speed) {
        double flops = 0;
        const double begin = host_seconds();
        for (std::int64_t n = 256; n <= 4096; n *= 2) {
            HEDDLE_TRY_ASSIGN(Desk desk, Desk::make());
            HEDDLE_TRY_ASSIGN(Tensor * a, desk.tensor(*runner_.type, type, n, n));
            HEDDLE_TRY_ASSIGN(Tensor * b, desk.tensor(*runner_.type, GGML_TYPE_F32, n, n));
            HEDDLE_TRY_ASSIGN(Tensor * product, build<ops::MulMat>(desk.context(), {}, {a, b}));
            HEDDLE_TRY_ASSIGN(const double seconds, node_seconds(desk, *product));
            if (seconds < 0) return 0.0;
            const double multiplying = seconds - speed.overhead;
            const double operations = 2.0 * static_cast<double>(n * n * n);
            if (multiplying > 0) flops = operations / multiplying;
            // Small products only show how fast memory is, however long they take.
            if (n < kTellingProduct) continue;
            if (seconds > kEnough || host_seconds() - begin > kPatience) break;
        }
        return flops;
    }

    const Runner& runner_;
    const DeviceClock clock_;
};

Result<double> copy_time(const Runner& from, const Runner& to, std::size_t bytes) {
    HEDDLE_TRY_ASSIGN(Desk desk, Desk::make());
    const auto n = static_cast<std::int64_t>(bytes);
    HEDDLE_TRY_ASSIGN(Tensor * source, desk.tensor(*from.type, GGML_TYPE_I8, n, 1));
    HEDDLE_TRY_ASSIGN(Tensor * target, desk.tensor(*to.type, GGML_TYPE_I8, n, 1));
    DeviceClock clock(*to.device);
    if (!clock.is_its_own()) clock = DeviceClock(*from.device);
    return least_time(clock, {from.stream, to.stream}, [&] {
        return copy_tensor_async(*from.stream, *to.stream, *source, *target);
    });
}

Result<Link> measure_link(const Runner& from, const Runner& to) {
    HEDDLE_TRY_ASSIGN(const double small, copy_time(from, to, kSmallCopy));
    HEDDLE_TRY_ASSIGN(const double large, copy_time(from, to, kLargeCopy));
    Link link;
    const auto bytes = static_cast<double>(kLargeCopy - kSmallCopy);
    if (large > small) link.bandwidth = bytes / (large - small);
    link.latency = std::max(0.0, small - static_cast<double>(kSmallCopy) / link.bandwidth);
    return link;
}

/// What the measurements of a device hold for. Fields of the file are between tabs, lines end.
std::string key_of(const Runner& runner) {
    std::string key = text(heddle::name_of(*runner.device), " | ", description_of(*runner.device),
                           " | ", HEDDLE_VERSION, " | ", HEDDLE_COMMIT);
    std::replace_if(
        key.begin(), key.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
    return key;
}

void enter(CostModel& model, RunnerId runner, const DeviceCosts& costs) {
    model.set_speed(runner, costs.speed);
    for (std::size_t i = 0; i < kTypeClasses; ++i) {
        model.set_product_flops(runner, static_cast<TypeClass>(i), costs.product_flops[i]);
    }
}

}  // namespace

Result<CostModel> measure_costs(const Team& team, const std::string& cache_file) {
    CostFile file = cache_file.empty() ? CostFile{} : CostFile::read(cache_file);
    CostModel model(team);
    bool has_measured = false;
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < team.size(); ++i) {
        const auto id = static_cast<RunnerId>(i);
        const Runner& runner = team[id];
        keys.push_back(key_of(runner));
        if (!runner.available) continue;
        auto known = file.devices.find(keys[i]);
        if (known == file.devices.end()) {
            auto costs = RunnerProbe(runner).run();
            if (!costs) return std::move(costs).error().within(text("measuring ", runner.name));
            known = file.devices.emplace(keys[i], *costs).first;
            has_measured = true;
        }
        enter(model, id, known->second);
    }
    for (std::size_t i = 0; i < team.size() * team.size(); ++i) {
        const auto from = static_cast<RunnerId>(i / team.size());
        const auto to = static_cast<RunnerId>(i % team.size());
        const Runner &source = team[from], &target = team[to];
        if (from == to || !source.available || !target.available) continue;
        if (source.type == target.type) continue;  // nothing is ever copied
        const std::pair keys_of_both{keys[i / team.size()], keys[i % team.size()]};
        auto known = file.links.find(keys_of_both);
        if (known == file.links.end()) {
            auto link = measure_link(source, target);
            if (!link) {
                return std::move(link).error().within(
                    text("measuring copies from ", source.name, " to ", target.name));
            }
            known = file.links.emplace(keys_of_both, *link).first;
            has_measured = true;
        }
        model.set_link(from, to, known->second);
    }
    model.origin = has_measured ? "measured" : "cached";
    if (has_measured && !cache_file.empty()) {
        // Not worth failing for: the next program measures again.
        if (const auto written = file.write(cache_file); !written) {
            log_line(GGML_LOG_LEVEL_WARN, written.error().message);
        }
    }
    return model;
}

}  // namespace heddle::sched
