#include "backends/mpi/file_comparison.hpp"

#include <algorithm>
#include <random>

#include "backends/mpi/model_table.hpp"

namespace heddle::mpi {
namespace {

Error differs(const std::string& name, std::uint64_t begin, std::uint64_t end) {
    return failure(Errc::not_found, name, " differs from the file here between bytes ", begin,
                   " and ", end);
}

Result<Digest> digest_of_block(const OpenFile& file, std::uint64_t offset, std::uint64_t block) {
    return file.digest(offset, std::min(block, file.size() - offset));
}

}  // namespace

Result<FileSamples> sample_file(const OpenFile& file, unsigned seed, Verify how,
                                DigestStore& digests) {
    FileSamples samples;
    samples.size = file.size();
    if (file.size() == 0) return failure(Errc::not_found, file.path(), " is empty");
    if (how == Verify::off) return samples;
    if (const auto table = model_table(file)) {
        samples.head = table->head;
        HEDDLE_TRY_ASSIGN(samples.head_digest, file.digest(0, samples.head));
    }
    if (how == Verify::full) {
        samples.is_full = true;
        samples.block = part_of(file.size());
        HEDDLE_TRY_ASSIGN(const auto all, digests.of(file, samples.block));
        for (std::size_t i = 0; i < all.size(); ++i) {
            samples.blocks.push_back({i * samples.block, all[i]});
        }
        return samples;
    }
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < FileSamples::kSamples; ++i) {
        const std::uint64_t offset = i == 0 ? 0 : random() % file.size();
        HEDDLE_TRY_ASSIGN(const Digest digest, digest_of_block(file, offset, samples.block));
        samples.blocks.push_back({offset, digest});
    }
    return samples;
}

Result<std::vector<std::uint32_t>> compare(const OpenFile& file, const FileSamples& samples,
                                           const std::string& name, DigestStore& digests,
                                           const std::atomic<bool>* stops) {
    if (file.size() != samples.size) {
        return failure(Errc::not_found, name, " has ", file.size(), " bytes, not ", samples.size);
    }
    if (samples.head > 0) {
        HEDDLE_TRY_ASSIGN(const Digest digest, file.digest(0, samples.head));
        if (digest != samples.head_digest) return differs(name, 0, samples.head);
    }
    std::vector<Digest> found;
    if (samples.is_full) {
        HEDDLE_TRY_ASSIGN(found, digests.of(file, samples.block, stops));
    }
    std::vector<std::uint32_t> differences;
    for (std::size_t i = 0; i < samples.blocks.size(); ++i) {
        const auto& [offset, expected] = samples.blocks[i];
        if (!samples.is_full) {
            HEDDLE_TRY_ASSIGN(const Digest digest, digest_of_block(file, offset, samples.block));
            found.push_back(digest);
        }
        if (i < found.size() && found[i] == expected) continue;
        // Without a head nothing says that the rest is of any use.
        if (!samples.is_full || samples.head == 0) {
            return differs(name, offset, std::min(offset + samples.block, samples.size));
        }
        differences.push_back(static_cast<std::uint32_t>(i));
    }
    return differences;
}

}  // namespace heddle::mpi
