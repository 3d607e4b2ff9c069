#include "backends/cuda/board.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>

#include "backends/gpu/architectures.hpp"

namespace heddle::cuda {
namespace {

/// As CMake's list, separated by commas.
constexpr const char* kCompiledFor = HEDDLE_CUDA_COMPILED_FOR;

std::string bus_address(const cudaDeviceProp& properties) {
    std::array<char, 32> address{};
    std::snprintf(address.data(), address.size(), "%04x:%02x:%02x.0",
                  static_cast<unsigned>(properties.pciDomainID),
                  static_cast<unsigned>(properties.pciBusID),
                  static_cast<unsigned>(properties.pciDeviceID));
    return address.data();
}

Result<Board> describe_gpu(int ordinal, const DeviceQueries& driver) {
    cudaDeviceProp properties{};
    HEDDLE_TRY(check(driver.properties(&properties, ordinal), "asking for its properties"));
    const gpu::Capability capability{properties.major, properties.minor};
    if (!gpu::runs_on(kCompiledFor, capability)) {
        return failure(Errc::unsupported, properties.name, " has compute capability ",
                       capability.major, '.', capability.minor,
                       ", and this library was compiled for ", kCompiledFor);
    }
    int virtual_memory = 0;
    // 102 is the driver's number for virtual memory management; the runtime has no name for it.
    if (cudaDeviceGetAttribute(&virtual_memory, static_cast<cudaDeviceAttr>(102), ordinal) !=
        cudaSuccess) {
        cudaGetLastError();
    }
    Board board;
    board.description = properties.name;
    board.id = bus_address(properties);
    board.ordinal = ordinal;
    board.is_integrated = properties.integrated != 0;
    board.has_virtual_memory = virtual_memory != 0;
    board.total_memory = properties.totalGlobalMem;
    board.facts = {.multiprocessors = properties.multiProcessorCount,
                   .architecture = 10 * capability.number(),
                   .shared_per_block = properties.sharedMemPerBlockOptin};
    return board;
}

/// 13000 is 13.0.
std::string words_of_version(int version) { return text(version / 1000, '.', version % 1000 / 10); }

/// As many devices as asked for, in turn on the GPUs there are.
std::vector<Board> share_out(const std::vector<Board>& gpus, int count) {
    std::vector<Board> boards;
    const std::size_t wanted = static_cast<std::size_t>(count);
    for (std::size_t i = 0; i < wanted; ++i) {
        const std::size_t which = i % gpus.size();
        Board board = gpus[which];
        board.sharing = static_cast<int>((wanted - which + gpus.size() - 1) / gpus.size());
        board.description += text(" (physical device ", which, ", virtual device ", i, ")");
        board.id += text("-v", i);
        boards.push_back(std::move(board));
    }
    return boards;
}

}  // namespace

Survey survey_devices(const Options& options) {
    return survey_devices(options, {cudaDriverGetVersion, cudaGetDeviceCount, [](auto... words) {
                                        return cudaGetDeviceProperties(words...);
                                    }});
}

Survey survey_devices(const Options& options, const DeviceQueries& driver) {
    Survey survey;
    int version = 0, count = 0;
    if (driver.driver_version(&version) == cudaSuccess && version == 0) {
        // Asked for devices, the runtime would only say that the driver is too old.
        survey.left_out.emplace_back(
            "CUDA: there is no device: no driver of NVIDIA's is installed");
        return survey;
    }
    const cudaError_t counted = driver.count(&count);
    if (counted == cudaErrorInsufficientDriver) {
        cudaGetLastError();
        survey.left_out.push_back(
            text("CUDA: there is no device: the driver is too old: it is for CUDA ",
                 words_of_version(version), ", and this library needs ",
                 words_of_version(CUDART_VERSION)));
        return survey;
    }
    if (auto asked = check(counted, "CUDA: there is no device"); !asked) {
        survey.left_out.push_back(asked.error().message);
        return survey;
    }
    std::vector<Board> gpus;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
        auto board = describe_gpu(ordinal, driver);
        if (board) {
            gpus.push_back(*std::move(board));
        } else {
            survey.left_out.push_back(text("CUDA: device ", ordinal,
                                           " of the driver is left out: ", board.error().message));
        }
    }
    const bool is_virtual = options.virtual_devices > 0 && !gpus.empty();
    survey.boards = is_virtual ? share_out(gpus, options.virtual_devices) : std::move(gpus);
    for (std::size_t i = 0; i < survey.boards.size(); ++i) {
        survey.boards[i].name = text("CUDA", i);
        survey.boards[i].options = options;
    }
    return survey;
}

Result<MemoryReport> report_memory(const Board& board) {
    HEDDLE_TRY(board.select());
    MemoryReport report;
    HEDDLE_TRY(check(cudaMemGetInfo(&report.free, &report.total), "asking ", board.name,
                     " for its memory"));
    const auto sharing = static_cast<std::size_t>(board.sharing);
    return MemoryReport{report.free / sharing, report.total / sharing};
}

std::size_t available_host_memory() {
    std::ifstream lines("/proc/meminfo");
    std::size_t available = 0, huge_total = 0, huge_free = 0, huge_size = 0;
    for (std::string key; lines >> key;) {
        std::size_t amount = 0;
        if (!(lines >> amount)) break;
        if (key == "MemAvailable:") available = amount;
        if (key == "HugePages_Total:") huge_total = amount;
        if (key == "HugePages_Free:") huge_free = amount;
        if (key == "Hugepagesize:") huge_size = amount;
        lines.ignore(64, '\n');
    }
    constexpr std::size_t kibi = 1024;
    return (huge_total > 0 ? huge_free * huge_size : available) * kibi;
}

}  // namespace heddle::cuda
