/// Points at which a process can fail: calls to the system, counted by kind, and made to fail. They
/// are those of the program, of every library and of the C++ runtime, in all threads.
#pragma once

#include <array>
#include <atomic>
#include <string>

namespace heddle::faults {

/// What a point asks for.
enum class Kind : int {
    memory,   ///< malloc and its family, so `new` too
    mapping,  ///< mmap
    open,     ///< open, fopen, opendir and their families
    read,     ///< read, pread, fread, and finding a place in a file
    write,    ///< write, fwrite, fsync, rename, fclose and their families; not the standard streams
    print,    ///< the same to standard output
    thread,   ///< pthread_create
    process,  ///< fork, posix_spawn, pipe
    library,  ///< dlopen
    symbol,   ///< dlsym
    device_memory,
    device_stream,
    device_event,
    device_copy,
    device_node,
    device_lost,
};

inline constexpr std::array kSystemKinds{Kind::memory,  Kind::mapping, Kind::open,
                                         Kind::read,    Kind::write,   Kind::thread,
                                         Kind::process, Kind::library, Kind::symbol};

const char* name_of(Kind kind);

/// What happens from the chosen point on.
enum class Fault : int {
    once,          ///< that one fails, later ones work again
    from_then_on,  ///< it fails, and so do all later ones
};

/// What is counted. It lies in the process, or in memory that a tree of processes shares.
struct Counter {
    static constexpr int kNothing = -1;

    std::atomic<int> kind{kNothing};
    std::atomic<int> fault{0};
    std::atomic<long> left{0};
    std::atomic<bool> fired{false};

    /// The file whose opens and mappings are counted, whatever name it is opened by; inode 0: none.
    std::atomic<unsigned long> watched_device{0}, watched_inode{0};
    std::atomic<long> opens{0}, mappings{0};
};

/// The counter that all points look at from now on.
void use_counter(Counter& counter);

/// The `number`-th point of that kind from now on, counted from 1, fails.
void arm(Kind kind, long number, Fault fault);

/// Nothing fails any more.
void disarm();

/// Whether a point has failed since `arm`.
bool fired();

/// Counts a point; true if it is to fail.
bool strikes(Kind kind);

/// Opens and mappings of that file are counted from now on, beginning with 0.
void watch(const std::string& path);

/// What was opened or mapped under this descriptor; nothing happens if it is another file.
void count_open(int file);
void count_mapping(int file);

long watched_opens();
long watched_mappings();

/// Blocks that were allocated and not freed yet.
long live_blocks();

/// Mappings that were made and not taken back yet.
long live_mappings();

/// Where to write, as soon as a point fails, who asked for it. Nowhere at first.
void set_report(int file);

/// Writes to standard error who asked for what failed first. Allocates nothing.
void print_failed_point();

}  // namespace heddle::faults
