#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "core/whole_file.hpp"
#include "heddle/result.hpp"

namespace heddle::tool {

/// The exit status for `outcome`. What failed is told in one line.
int report_outcome(std::string_view command, const Result<>& outcome);

/// From now on failures are told on standard output as JSON as well, for scripts: where nothing
/// else was, or in a line of its own.
enum class JsonFailures { none, alone, as_line };
void tell_failures_as_json(JsonFailures how);

/// Tells in one line what failed.
void tell_failure(std::string_view command, std::string_view sentence, int status = 1);

/// Fails where one of these files could not be written; empty names are none. It is better told
/// before the work than after it.
Result<> check_output_files(std::initializer_list<std::string_view> paths);

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
