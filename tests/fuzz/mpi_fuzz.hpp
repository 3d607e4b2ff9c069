// What the fuzz targets of messages share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "backends/mpi/bytes.hpp"

namespace heddle::mpi::fuzz {

inline void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "mpi fuzz: %s\n", what);
    std::abort();
}

/// A valid message with some bytes changed: each edit is a place of two bytes, and a byte. So the
/// input need not find out first what a valid one looks like.
inline Bytes edited(ByteView valid, ByteView edits) {
    Bytes bytes(valid.begin(), valid.end());
    for (; edits.size() >= 3 && !bytes.empty(); edits = edits.subspan(3)) {
        std::uint16_t place = 0;
        std::memcpy(&place, edits.data(), sizeof place);
        bytes[place % bytes.size()] = edits[2];
    }
    return bytes;
}

}  // namespace heddle::mpi::fuzz
