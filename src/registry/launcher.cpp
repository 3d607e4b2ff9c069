#include "registry/launcher.hpp"

#include <charconv>

namespace heddle {
namespace {

/// The first number in a text; -1 if it does not begin with one.
int first_number(const std::string& text) {
    int number = -1;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

/// Open MPI: "-n 1 program : -n 3 heddle worker".
bool is_program_among_workers(const Variable& variable) {
    return variable("OMPI_COMM_WORLD_RANK") == "0" &&
           first_number(variable("OMPI_NUM_APP_CTX")) >= 2 &&
           first_number(variable("OMPI_APP_CTX_NUM_PROCS")) == 1;
}

}  // namespace

bool wants_mpi(const Variable& variable) {
    const std::string choice = variable("HEDDLE_MPI");
    if (choice == "0") return false;
    if (!variable("HEDDLE_MPI_HOSTS").empty()) return true;
    if (choice == "1") {
        for (const char* rank : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
            if (!variable(rank).empty()) return true;
        }
    }
    return is_program_among_workers(variable);
}

bool mpi_goes_last(const Variable& variable) { return variable("HEDDLE_MPI_ORDER") == "last"; }

}  // namespace heddle
