/// What a process holds that it must give back.
#pragma once

#include <string>

namespace heddle::faults {

struct Held {
    long blocks = 0, mappings = 0, descriptors = 0, threads = 0;

    static Held now();

    bool operator==(const Held&) const = default;
    std::string difference_to(const Held& before) const;
};

/// What is held, once threads that were joined are gone from the system's list too.
Held held_after(const Held& before);

}  // namespace heddle::faults
