#include "tests/faults/held.hpp"

#include <dirent.h>

#include <chrono>
#include <memory>
#include <thread>

#include "tests/faults/fault_points.hpp"

namespace heddle::faults {
namespace {

long entries_of(const char* directory) {
    const auto close = [](DIR* opened) { closedir(opened); };
    const std::unique_ptr<DIR, decltype(close)> opened(opendir(directory), close);
    long count = 0;
    while (opened != nullptr && readdir(opened.get()) != nullptr) ++count;
    return count;
}

}  // namespace

Held Held::now() {
    const long descriptors = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task");
    return {live_blocks(), live_mappings(), descriptors, threads};
}

std::string Held::difference_to(const Held& before) const {
    std::string text;
    const auto add = [&](const char* what, long more) {
        if (more != 0) text += std::to_string(more) + " " + what + " more than before; ";
    };
    add("blocks", blocks - before.blocks);
    add("mappings", mappings - before.mappings);
    add("descriptors", descriptors - before.descriptors);
    add("threads", threads - before.threads);
    return text;
}

Held held_after(const Held& before) {
    Held now = Held::now();
    for (int i = 0; i < 100 && now.threads > before.threads; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        now = Held::now();
    }
    return now;
}

}  // namespace heddle::faults
