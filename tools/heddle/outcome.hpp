#pragma once

#include <string>
#include <string_view>

#include "core/whole_file.hpp"
#include "heddle/result.hpp"

namespace heddle::tool {

/// The exit status for `outcome`. What failed is told in one line.
int report_outcome(std::string_view command, const Result<>& outcome);

/// Tells in one line what failed.
void tell_failure(std::string_view command, std::string_view sentence);

/// A file for the program to write: whole or not at all, even where a signal ends the program.
Result<WholeFile> new_file(const std::string& path);

/// The same for a file whose content is there.
Result<> write_file(const std::string& path, std::string_view content);

/// A file that is cut short while it is mapped ends the program with a sentence, not a signal.
void expect_files_cut_short();

/// Whether a file of this name is what the program prints to.
bool is_standard_output(const std::string& path);

/// Descriptors 0 to 2 that are closed refuse to be read or written from now on. Otherwise the next
/// file that is opened would take their number, and what is printed would go into it.
void keep_standard_streams();

/// Whether all that was printed has reached standard output.
Result<> finish_output();

}  // namespace heddle::tool
