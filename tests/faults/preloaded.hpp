/// What a test and the library that is loaded before a program agree on.
#pragma once

namespace heddle::faults {

inline constexpr char kCounterVariable[] = "HEDDLE_TEST_FAULT_COUNTER";  ///< file of a Counter
inline constexpr char kReportVariable[] = "HEDDLE_TEST_FAULT_REPORT";    ///< who asked is added
inline constexpr unsigned kMostSeconds = 60;  ///< a program that takes so long hangs: SIGALRM
inline constexpr int kNoCounter = 126;        ///< exit status where there is no counter

}  // namespace heddle::faults
