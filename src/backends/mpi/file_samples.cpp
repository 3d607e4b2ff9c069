#include "backends/mpi/file_samples.hpp"

#include <algorithm>

namespace heddle::mpi {

std::uint64_t block_count(std::uint64_t size, std::uint64_t block) {
    return size / block + (size % block != 0 ? 1 : 0);
}

std::uint64_t part_of(std::uint64_t size) {
    std::uint64_t part = FileSamples::kPart;
    while (block_count(size, part) > FileSamples::kMost) part *= 2;
    return part;
}

void put_samples(ByteWriter& out, const FileSamples& samples) {
    out.put(samples.size);
    out.put(samples.head);
    out.raw(samples.head_digest);
    out.put(samples.block);
    out.put(static_cast<std::uint8_t>(samples.is_full));
    out.put(static_cast<std::uint32_t>(samples.blocks.size()));
    for (const FileSamples::Block& block : samples.blocks) {
        if (!samples.is_full) out.put(block.offset);
        out.raw(block.digest);
    }
}

Result<FileSamples> get_samples(ByteReader& in) {
    FileSamples samples;
    samples.size = in.get<std::uint64_t>();
    samples.head = in.get<std::uint64_t>();
    samples.head_digest = get_digest(in);
    samples.block = in.get<std::uint64_t>();
    samples.is_full = in.get<std::uint8_t>() != 0;
    const std::size_t count = in.get<std::uint32_t>();
    const std::uint64_t longest = samples.is_full ? FileSamples::kLongestPart : FileSamples::kPart;
    if (samples.block == 0 || samples.block > longest || count > FileSamples::kMost ||
        samples.head > samples.size ||
        (samples.is_full && count != block_count(samples.size, samples.block))) {
        in.fail();
    }
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
        const auto offset = samples.is_full ? i * samples.block : in.get<std::uint64_t>();
        samples.blocks.push_back({offset, get_digest(in)});
        if (offset >= samples.size) in.fail();
    }
    if (!in.finished()) return failure(Errc::corrupt, "samples of a file that break off");
    return samples;
}

void put_differences(ByteWriter& out, std::span<const std::uint32_t> blocks) {
    out.put(static_cast<std::uint32_t>(blocks.size()));
    for (const std::uint32_t block : blocks) out.put(block);
}

Result<std::vector<std::uint32_t>> get_differences(ByteReader& in, std::size_t blocks) {
    std::vector<std::uint32_t> all;
    const std::size_t count = in.get<std::uint32_t>();
    if (count > blocks) in.fail();
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
        const auto block = in.get<std::uint32_t>();
        if (block >= blocks || (!all.empty() && block <= all.back())) in.fail();
        all.push_back(block);
    }
    if (!in.finished()) return failure(Errc::corrupt, "a list of blocks that breaks off");
    return all;
}

}  // namespace heddle::mpi
