#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

/// What the machine is made of, as far as the CPU backend must know.
namespace heddle::cpu {

using CpuList = std::vector<int>;  ///< numbers of CPUs, ascending

/// All of a file of the kernel; empty if there is none, or it cannot be read.
std::string read_file(const std::string& path);

/// A CPU list as the kernel writes it: "0-3,8,10-11". An empty text is an empty list.
Result<CpuList> parse_cpu_list(std::string_view text);

/// Memory and the CPUs close to it.
struct NumaNode {
    int number = 0;
    CpuList cpus;
};

/// The nodes that have CPUs, by number. `root` holds the files of the kernel; empty where
/// there are none.
std::vector<NumaNode> read_numa_nodes(const std::string& root = "/sys/devices/system/node");

/// How many CPUs the quota in file `path` ("200000 100000", or "max 100000") amounts to,
/// rounded up; 0 for no limit.
int read_cpu_quota(const std::string& path = "/sys/fs/cgroup/cpu.max");

/// How many CPUs this process may keep busy at once: those it may run on when this is first
/// asked, or fewer where a quota says so. At least 1.
int usable_cpus();

/// CPUs the calling thread may run on; empty where that cannot be asked.
CpuList thread_cpus();

/// Lets the calling thread run on `cpus` only.
Result<> pin_thread(const CpuList& cpus);

/// The CPU the calling thread is on; -1 where that cannot be asked.
int current_cpu();

/// The model as its maker calls it, or "CPU".
std::string cpu_model();

/// The first value of `key` in text of the form "key : value", without surrounding blanks.
std::string_view find_value(std::string_view text, std::string_view key);

/// Bytes of physical memory; 0 where that cannot be asked.
std::size_t physical_memory();

/// Bytes that programs can get without others being swapped out; all of the physical memory where
/// that cannot be asked.
std::size_t available_memory();

/// The same as /proc/meminfo says it; 0 if that does not say.
std::size_t available_memory(std::string_view meminfo);

}  // namespace heddle::cpu
