/// The program `heddle` in a process of its own, short of this or that.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace heddle::campaign {

struct ProgramRun {
    std::vector<std::string> arguments;
    std::string directory;      ///< where it runs; its output is kept beside
    std::size_t memory = 0;     ///< most bytes of address space; 0: as many as there are
    std::size_t file_size = 0;  ///< most bytes of a file; 0: any
    std::size_t processes = 0;  ///< most processes and threads; 0: any
    enum class Out { file, closed, full } out = Out::file;
    unsigned seconds = 20;  ///< it is interrupted then
};

struct ProgramOutcome {
    int status = -1;           ///< 128 and more: the signal that ended it
    bool was_stopped = false;  ///< it was interrupted after its time
    bool hung = false;         ///< and did not end then either
    std::string out, err;      ///< what it wrote, as far as that was kept
};

ProgramOutcome run_program(const std::string& program, const ProgramRun& run);

}  // namespace heddle::campaign
