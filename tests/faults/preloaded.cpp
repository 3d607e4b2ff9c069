// A library that is loaded before a program, and makes its calls to the system fail: those from
// main() on, because nobody can report what fails before. What fails is said by a counter in a
// file, which the process shares with its children and with the test.

#include "tests/faults/preloaded.hpp"

#include <execinfo.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/faults/fault_points.hpp"
#include "tests/faults/real_function.hpp"

namespace heddle::faults {
namespace {

using Main = int (*)(int, char**, char**);

Main real_main = nullptr;

int main_with_faults(int argc, char** argv, char** environment) {
    const char* path = std::getenv(kCounterVariable);
    const char* report = std::getenv(kReportVariable);
    if (path != nullptr && report != nullptr) {
        void* frame = nullptr;
        backtrace(&frame, 1);  // the first one loads the unwinder
        alarm(kMostSeconds);
        const int file = open(path, O_RDWR | O_CLOEXEC);
        void* const memory =
            mmap(nullptr, sizeof(Counter), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (memory == MAP_FAILED) _exit(kNoCounter);
        set_report(open(report, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
        use_counter(*static_cast<Counter*>(memory));
    }
    return real_main(argc, argv, environment);
}

}  // namespace
}  // namespace heddle::faults

extern "C" int __libc_start_main(heddle::faults::Main main, int argc, char** argv, void (*init)(),
                                 void (*end)(), void (*end_of_linker)(), void* stack) {
    using heddle::faults::real_function;
    heddle::faults::real_main = main;
    return real_function<decltype(&__libc_start_main)>("__libc_start_main")(
        heddle::faults::main_with_faults, argc, argv, init, end, end_of_linker, stack);
}
