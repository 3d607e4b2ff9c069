// Hashes of bytes and files, and what is kept of them.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "backends/mpi/digest_store.hpp"
#include "backends/mpi/environment.hpp"
#include "backends/mpi/file_samples.hpp"
#include "backends/mpi/file_test_support.hpp"

namespace heddle::mpi {
namespace {

using testing::HasSubstr;

std::string hex(const Digest& digest) {
    std::string text;
    for (const std::byte byte : digest) {
        text += "0123456789abcdef"[static_cast<unsigned>(byte) >> 4];
        text += "0123456789abcdef"[static_cast<unsigned>(byte) & 15];
    }
    return text;
}

Digest sha256_of(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

TEST(Sha256, GivesTheAnswersOfTheStandard) {
    EXPECT_EQ(hex(sha256_of("")),
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(hex(sha256_of("abc")),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(hex(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(hex(sha256_of(std::string(1'000'000, 'a'))),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, OfLeavesSideBySideIsThatOfEach) {
    const std::vector<std::byte> bytes = random_bytes(37 * kLeaf + 1234, 1);
    std::vector<Digest> leaves(38);
    hash_leaves(bytes, leaves);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
        const ByteView rest = ByteView(bytes).subspan(i * kLeaf);
        EXPECT_EQ(leaves[i], sha256(rest.first(std::min(kLeaf, rest.size())))) << "leaf " << i;
    }
}

TEST(Digests, AreThoseOfTheLeavesWhateverTheSize) {
    const std::vector<std::byte> bytes = random_bytes(5 * (std::size_t{1} << 20) + 99, 2);
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, kLeaf, kLeaf + 1, std::size_t{1} << 20, bytes.size()}) {
        const ByteView part = ByteView(bytes).first(size);
        std::vector<Digest> leaves((size + kLeaf - 1) / kLeaf);
        hash_leaves(part, leaves);
        const auto digest = digest_of(part);
        ASSERT_TRUE(digest);
        EXPECT_EQ(*digest, sha256(std::as_bytes(std::span(leaves)))) << size;
    }
}

TEST(Digests, FailAsTheFirstReadThatDoes) {
    const auto read = [](std::uint64_t at, std::size_t, Bytes&) -> Result<ByteView> {
        return failure(Errc::io, "byte ", at >> 40, " cannot be read");
    };
    EXPECT_EQ(digest_of(100 << 20, read).error().message, "byte 0 cannot be read");
}

// ---- what is kept ------------------------------------------------------------------------------

/// A file that has not been written to for a while, and a folder of caches.
class KeptDigests : public testing::Test {
protected:
    KeptDigests() { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }

    /// Digests of the file as a process gives them that starts now.
    std::vector<Digest> digests(std::size_t& hashed) const {
        DigestStore store(path);
        const auto opened = OpenFile::open(file.path);
        const auto found = store.of(*opened, kBlock);
        EXPECT_TRUE(found);
        hashed = store.hashed();
        return found ? *found : std::vector<Digest>();
    }
    std::size_t hashed() const {
        std::size_t count = 0;
        digests(count);
        return count;
    }

    static constexpr std::uint64_t kBlock = std::uint64_t{1} << 20;
    const MappedFile file{"-kept.gguf", (std::size_t{3} << 20) + 17};
    const OtherFolder cache{"-cache"};
    const std::string path = cache.path / "new" / "digests.tsv";
};

TEST_F(KeptDigests, AreNotComputedAgain) {
    std::size_t first = 0, second = 0;
    const auto before = digests(first), after = digests(second);
    EXPECT_EQ(first, 4U);
    EXPECT_EQ(second, 0U);
    EXPECT_EQ(before, after);
    EXPECT_EQ(before[3], *digest_of(ByteView(file.data, file.size).subspan(3 * kBlock)));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache.path / "new"), {}), 1)
        << "no temporary file is left";
}

TEST_F(KeptDigests, AreOfOneContentOnly) {
    EXPECT_EQ(hashed(), 4U);
    const auto written = std::filesystem::last_write_time(file.path);
    write_at(file.path, 2 * kBlock, "other");
    std::filesystem::last_write_time(file.path, written);  // as if nothing had been written
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::size_t count = 0;
    const auto found = digests(count);
    EXPECT_EQ(count, 4U);
    const auto content = bytes_of_file(file.path);
    EXPECT_EQ(found[2], *digest_of(ByteView(content).subspan(2 * kBlock, kBlock)));
    EXPECT_EQ(hashed(), 0U);
    EXPECT_EQ(std::ranges::count(bytes_of_file(path), std::byte{'\n'}), 2)
        << "one for the heading, one for the file as it is now";
}

TEST_F(KeptDigests, AreNotThoseOfAFileThatWasWrittenToAMomentAgo) {
    const auto written = std::filesystem::last_write_time(file.path);
    const auto later = written + std::chrono::hours(1);  // however slow this machine is
    std::filesystem::last_write_time(file.path, later);
    EXPECT_EQ(hashed(), 4U);
    EXPECT_EQ(hashed(), 4U) << "its time may not tell";
    std::filesystem::last_write_time(file.path, written);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(hashed(), 4U);
    EXPECT_EQ(hashed(), 0U);
}

TEST_F(KeptDigests, AreRightWhereAFileWasBeingWritten) {
    std::atomic<bool> stops{false};
    std::thread writer([&] {
        for (int i = 0; !stops; ++i) write_at(file.path, 5, i % 2 == 0 ? "busy" : "idle");
    });
    for (int i = 0; i < 5; ++i) hashed();
    stops = true;
    writer.join();
    std::size_t count = 0;
    const auto found = digests(count);
    const auto content = bytes_of_file(file.path);
    EXPECT_EQ(found[0], *digest_of(ByteView(content).first(kBlock)));
}

TEST_F(KeptDigests, SurviveLinesThatAreBroken) {
    EXPECT_EQ(hashed(), 4U);
    const auto content = bytes_of_file(path);
    const std::string good(reinterpret_cast<const char*>(content.data()), content.size());
    const std::size_t heading = good.find('\n') + 1;
    const std::string line = good.substr(heading);
    const auto put = [&](const std::string& text) { std::ofstream(path) << text; };
    put(good.substr(0, heading) + "nonsense\n\n\t\t\t\n" + line.substr(0, 40) + "\n" + line);
    EXPECT_EQ(hashed(), 0U) << "the whole line behind the broken ones";
    for (const std::string& broken :
         {std::string("another heading\n") + line, good.substr(0, heading) + "-" + line,
          good.substr(0, good.size() - 1), good.substr(0, good.size() - 3) + "\n",
          good.substr(0, good.size() - 2) + "x\n", std::string()}) {
        put(broken);
        EXPECT_EQ(hashed(), 4U) << broken;
        EXPECT_EQ(hashed(), 0U) << "it was replaced";
    }
    put(good);
    std::filesystem::resize_file(path, DigestStore::kLongest + 1);
    EXPECT_EQ(hashed(), 4U) << "a file that is too long is not read";
    EXPECT_LT(std::filesystem::file_size(path), 10'000U);
}

TEST_F(KeptDigests, AreDoneWithoutWhereTheyCannotBeWritten) {
    std::filesystem::create_directory(cache.path / "new");
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(hashed(), 4U);
    EXPECT_EQ(hashed(), 4U);
    EXPECT_TRUE(std::filesystem::is_fifo(path));
    std::filesystem::remove(path);
    std::filesystem::remove(cache.path / "new");
    std::ofstream(cache.path / "new") << "a file where a folder should be";
    EXPECT_EQ(hashed(), 4U);
    DigestStore store("/proc/no/such/digests.tsv");
    const auto opened = OpenFile::open(file.path);
    EXPECT_TRUE(store.of(*opened, kBlock));
    EXPECT_TRUE(store.of(*opened, kBlock));
    EXPECT_EQ(store.hashed(), 4U) << "known to this process";
}

TEST_F(KeptDigests, AreWholeWhenSeveralProcessesWriteThem) {
    std::vector<std::unique_ptr<MappedFile>> files;
    for (int i = 0; i < 8; ++i) {
        files.push_back(std::make_unique<MappedFile>("-many" + std::to_string(i), 5000));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::vector<std::thread> writers;
    for (const auto& each : files) {
        writers.emplace_back([&] {
            DigestStore store(path);
            EXPECT_TRUE(store.of(*OpenFile::open(each->path), kBlock));
        });
    }
    for (std::thread& writer : writers) writer.join();
    std::ifstream kept(path);
    std::string line;
    std::getline(kept, line);
    int count = 0;
    for (; std::getline(kept, line); ++count) EXPECT_TRUE(parse_digests(line)) << line;
    EXPECT_GE(count, 1);
    EXPECT_LE(count, 8);
}

TEST(DigestLines, SayWhatWasPut) {
    const FileDigests file{{1, 2, 300, -4, 5}, 100, std::vector<Digest>(3, sha256_of("abc"))};
    const std::string line = line_of(file);
    const auto again = parse_digests(std::string_view(line).substr(0, line.size() - 1));
    ASSERT_TRUE(again);
    EXPECT_EQ(again->version, file.version);
    EXPECT_EQ(again->block, 100U);
    EXPECT_EQ(again->digests, file.digests);
    EXPECT_FALSE(parse_digests(line)) << "a character too many";
}

TEST(DigestFile, LiesInTheFolderOfCaches) {
    EXPECT_EQ(digest_file("/var/c", "/h/a"), "/var/c/heddle/digests.tsv");
    EXPECT_EQ(digest_file("", "/h/a"), "/h/a/.cache/heddle/digests.tsv");
    EXPECT_EQ(digest_file("here", ""), "") << "relative to nothing";
}

}  // namespace
}  // namespace heddle::mpi
