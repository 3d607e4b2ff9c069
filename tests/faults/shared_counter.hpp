/// The counter that a test and the programs it starts look at.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string>

#include "tests/faults/fault_points.hpp"
#include "tests/faults/preloaded.hpp"

namespace heddle::faults {

/// A counter in memory that the program shares.
class SharedCounter {
public:
    explicit SharedCounter(const std::string& path) {
        const int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
        EXPECT_EQ(ftruncate(file, sizeof(Counter)), 0);
        void* const memory =
            mmap(nullptr, sizeof(Counter), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        EXPECT_NE(memory, MAP_FAILED);
        use_counter(*new (memory) Counter);
        setenv(kCounterVariable, path.c_str(), 1);
    }
};

}  // namespace heddle::faults
