// Is this file a whole shared library? Asked before the system's loader is: that one maps what the
// headers promise and touches it, and on a truncated file the process gets a bus error.

#include <elf.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "registry/shared_library.hpp"

namespace heddle {
namespace {

#if UINTPTR_MAX > 0xFFFFFFFF
using Header = Elf64_Ehdr;
using Segment = Elf64_Phdr;
constexpr unsigned char kClass = ELFCLASS64;
#else
using Header = Elf32_Ehdr;
using Segment = Elf32_Phdr;
constexpr unsigned char kClass = ELFCLASS32;
#endif

/// The machine this library is for.
#if defined(__x86_64__)
constexpr unsigned kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kMachine = EM_AARCH64;
#elif defined(__riscv)
constexpr unsigned kMachine = EM_RISCV;
#elif defined(__powerpc64__)
constexpr unsigned kMachine = EM_PPC64;
#else
constexpr unsigned kMachine = EM_NONE;  // the system's loader has to find out
#endif
constexpr unsigned char kByteOrder =
    std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

std::string machine_name(unsigned machine) {
    switch (machine) {
        case EM_X86_64:
            return "x86-64";
        case EM_AARCH64:
            return "AArch64";
        case EM_386:
            return "i386";
        default:
            return text("machines of kind ", machine, " (elf.h)");
    }
}

/// Why the file cannot be for this machine; empty if it can.
std::string misfit(const Header& header) {
    if (header.e_ident[EI_CLASS] != kClass || header.e_ident[EI_DATA] != kByteOrder) {
        return "is for machines with words of another size or order";
    }
    if (kMachine != EM_NONE && header.e_machine != kMachine) {
        return text("is for ", machine_name(header.e_machine), ", this one is ",
                    machine_name(kMachine));
    }
    return {};
}

template <class T>
bool read_at(std::ifstream& file, std::uint64_t offset, T& value) {
    file.seekg(static_cast<std::streamoff>(offset));
    return static_cast<bool>(file.read(reinterpret_cast<char*>(&value), sizeof value));
}

Result<> check_segments(std::ifstream& file, const Header& header, std::uint64_t size) {
    bool has_dynamic_section = false;
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Segment segment;
        if (!read_at(file, header.e_phoff + std::uint64_t{i} * sizeof segment, segment)) {
            return failure(Errc::corrupt, "is cut off: segment header ", i, " of ", header.e_phnum,
                           " lies behind its ", size, " bytes");
        }
        has_dynamic_section |= segment.p_type == PT_DYNAMIC;
        if (segment.p_type != PT_LOAD && segment.p_type != PT_DYNAMIC) continue;
        if (segment.p_offset > size || segment.p_filesz > size - segment.p_offset) {
            return failure(Errc::corrupt, "is cut off: segment ", i, " has ", segment.p_filesz,
                           " bytes from ", segment.p_offset, " on, the file has ", size);
        }
    }
    if (!has_dynamic_section) return failure(Errc::corrupt, "has no dynamic section");
    return ok();
}

}  // namespace

Result<> check_shared_library(const std::filesystem::path& path) {
    std::error_code code;
    const auto status = std::filesystem::status(path, code);
    if (status.type() == std::filesystem::file_type::not_found) {
        return failure(Errc::not_found, "there is no such file");
    }
    if (code) return failure(Errc::io, "cannot be looked at: ", code.message());
    if (!std::filesystem::is_regular_file(status)) return invalid("is not a file");
    const std::uint64_t size = std::filesystem::file_size(path, code);
    std::ifstream file(path, std::ios::binary);
    if (code || !file) return failure(Errc::io, "cannot be read");

    Header header;
    if (!read_at(file, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
        return failure(Errc::corrupt, "is not a shared library");
    }
    if (std::string reason = misfit(header); !reason.empty()) {
        return Error{Errc::unsupported, std::move(reason)};
    }
    if (header.e_type != ET_DYN) {
        return failure(Errc::corrupt, "is not a shared library but a file of another kind");
    }
    if (header.e_phentsize != sizeof(Segment)) {
        return failure(Errc::corrupt, "has segment headers of ", header.e_phentsize, " bytes, not ",
                       sizeof(Segment));
    }
    return check_segments(file, header, size);
}

}  // namespace heddle
