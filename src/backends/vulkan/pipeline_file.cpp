#include "backends/vulkan/pipeline_file.hpp"

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace heddle::vulkan {
namespace {

/// What the driver puts first.
VkPipelineCacheHeaderVersionOne header_of(const Board& board) {
    VkPipelineCacheHeaderVersionOne header{};
    header.headerSize = sizeof header;
    header.headerVersion = VK_PIPELINE_CACHE_HEADER_VERSION_ONE;
    header.vendorID = board.properties.vendorID;
    header.deviceID = board.properties.deviceID;
    std::memcpy(header.pipelineCacheUUID, board.properties.pipelineCacheUUID, VK_UUID_SIZE);
    return header;
}

}  // namespace

std::string pipeline_file(const Board& board) {
    if (board.options.cache_directory.empty()) return {};
    std::string name = text("vulkan-", std::hex, board.properties.vendorID, '-',
                            board.properties.deviceID, '-', board.properties.driverVersion, '-');
    for (const std::uint8_t byte : board.properties.pipelineCacheUUID) {
        name += "0123456789abcdef"[byte >> 4];
        name += "0123456789abcdef"[byte & 15];
    }
    return (std::filesystem::path(board.options.cache_directory) / (name + ".bin")).string();
}

std::vector<std::byte> read_pipeline_file(const std::string& file, const Board& board) {
    if (file.empty()) return {};
    // Another process may put a new file at the path meanwhile: all is asked of the open one.
    std::ifstream stream(file, std::ios::binary | std::ios::ate);
    const std::streamsize size = stream.tellg();
    constexpr std::streamsize least = sizeof(VkPipelineCacheHeaderVersionOne), most = 256 << 20;
    if (!stream || size < least || size > most) return {};
    std::vector<std::byte> bytes(static_cast<std::size_t>(size));
    if (!stream.seekg(0) || !stream.read(reinterpret_cast<char*>(bytes.data()), size)) return {};
    const VkPipelineCacheHeaderVersionOne expected = header_of(board);
    if (std::memcmp(bytes.data(), &expected, sizeof expected) != 0) return {};
    return bytes;
}

void write_pipeline_file(const std::string& file, std::span<const std::byte> bytes) {
    std::error_code failed;
    const std::filesystem::path path(file);
    std::filesystem::create_directories(path.parent_path(), failed);
    if (failed) return;
    // Processes share the folder, and devices of one process that stand for the same card.
    static std::atomic<unsigned> written{0};
    const std::string part = text(file, '.', getpid(), '.', written++);
    {
        std::ofstream stream(part, std::ios::binary | std::ios::trunc);
        stream.write(reinterpret_cast<const char*>(bytes.data()),
                     static_cast<std::streamsize>(bytes.size()));
        if (!stream.flush()) {  // a disk may be full
            std::filesystem::remove(part, failed);
            return;
        }
    }
    std::filesystem::rename(part, path, failed);
    if (failed) std::filesystem::remove(part, failed);
}

}  // namespace heddle::vulkan
