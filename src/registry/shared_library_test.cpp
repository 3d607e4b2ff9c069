#include "registry/shared_library.hpp"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "registry/test_support.hpp"

namespace heddle {
namespace {

using test::Directory;
using testing::HasSubstr;
namespace fs = std::filesystem;

std::string refusal(const fs::path& path) {
    const auto library = SharedLibrary::open(path);
    return library ? "" : library.error().message;
}

TEST(SharedLibrary, FindsSymbolsAndClosesItself) {
    const Directory directory;
    const auto path = directory.put("good", "good.so");
    {
        auto library = SharedLibrary::open(path);
        ASSERT_TRUE(library) << library.error().message;
        EXPECT_NE(library->find("ggml_backend_init"), nullptr);
        EXPECT_EQ(library->find("no_such_symbol"), nullptr);
        EXPECT_TRUE(test::is_open(path));
    }
    EXPECT_FALSE(test::is_open(path));
}

TEST(SharedLibrary, RefusesWhatIsNoLibraryWithAReason) {
    const Directory directory;
    EXPECT_EQ(refusal(directory.path() / "missing.so"), "there is no such file");
    EXPECT_EQ(refusal(directory.path()), "is not a file");
    EXPECT_EQ(refusal(directory.write("text.so", "I am a text, not a library.")),
              "is not a shared library");
    EXPECT_EQ(refusal(directory.write("empty.so", "")), "is not a shared library");
    EXPECT_EQ(refusal(""), "the name of a shared library is empty");
    const fs::path pipe = directory.path() / "pipe.so";
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    EXPECT_EQ(refusal(pipe), "is not a file");  // opening it would wait for ever
}

TEST(SharedLibrary, SurvivesALibraryCutOffAtAnyLength) {
    const Directory directory;
    const auto path = directory.put("good", "cut.so");
    const auto whole = fs::file_size(path);
    for (std::uintmax_t size :
         {whole * 15 / 16, whole * 3 / 4, whole / 2, whole / 4, whole / 8, std::uintmax_t{4096},
          std::uintmax_t{100}, std::uintmax_t{64}, std::uintmax_t{63}, std::uintmax_t{0}}) {
        fs::resize_file(path, size);
        const auto library = SharedLibrary::open(path);
        if (size <= 4096) {  // no code can be there; what is cut off of a longer one may not matter
            ASSERT_FALSE(library) << size;
            EXPECT_NE(library.error().message, "") << size;
        }
    }
}

TEST(SharedLibrary, RefusesAProgramOfAnotherKindOfMachine) {
    const Directory directory;
    const auto path = directory.put("good", "foreign.so");
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4);
    file.put(1);  // 32 bits
    file.close();
    EXPECT_EQ(refusal(path), "is for machines with words of another size or order");
}

TEST(SharedLibrary, NamesTheMachineThatALibraryIsFor) {
    const Directory directory;
    const auto path = directory.put("good", "foreign.so");
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offsetof(Elf64_Ehdr, e_machine));
    file.put(static_cast<char>(EM_SPARCV9));
    file.close();
    EXPECT_THAT(refusal(path),
                testing::StartsWith("is for machines of kind 43 (elf.h), this one is "));
}

}  // namespace
}  // namespace heddle
