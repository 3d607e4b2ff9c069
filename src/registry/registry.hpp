#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "ggml-backend-impl.h"
#include "registry/shared_library.hpp"

namespace heddle {

/// All backends of a process and all their devices, in the order in which they were registered.
///
/// Any thread may call anything at any time. Readers look at a picture that never changes; who
/// changes something publishes a new one. So no lock is held while a backend is asked for a name or
/// for its devices, and a library is not closed under a reader's feet. What stays the caller's
/// duty: not to use handles of a backend that was unloaded.
class Registry {
public:
    using Library = std::shared_ptr<SharedLibrary>;

    /// A backend, and what keeps its code in memory.
    struct Entry {
        ggml_backend_reg_t registration;
        Library library;       ///< null for a backend that is part of the program
        std::string origin;    ///< the file it came from, empty likewise
        bool is_last = false;  ///< behind those that are registered later
    };

    /// A device, and whose it is. Kept here so that a device that is gone need not be asked.
    struct Listed {
        ggml_backend_dev_t device;
        ggml_backend_reg_t owner;   ///< the backend it names as its own
        ggml_backend_reg_t source;  ///< the backend that listed it; may be another one
    };

    /// All there is at one moment.
    struct Picture {
        std::vector<Entry> entries;
        std::vector<Listed> devices;
    };

    /// The moment's picture, and everything in it kept in memory as long as it is held.
    std::shared_ptr<const Picture> picture() const;

    /// Adds a backend and its devices; false if it is known already. Its devices are asked for
    /// here.
    bool add(ggml_backend_reg_t registration, Library library = nullptr, std::string origin = {});

    /// Adds a device by itself, or does nothing if it is known.
    void add(ggml_backend_dev_t device);

    /// Lists the devices of a known backend anew, after it has been told to change them.
    void refresh(ggml_backend_reg_t registration);

    /// Moves a known backend and its devices behind all others, also those that come later.
    void keep_last(ggml_backend_reg_t registration);

    /// Drops a backend with its devices and gives what was kept about it. Fails with `not_found` if
    /// it is not known; it is not touched then.
    Result<Entry> remove(ggml_backend_reg_t registration);

    /// Whether this backend is registered. It is not asked itself.
    bool has(ggml_backend_reg_t registration) const;

    /// The first backend or device of that name, in any case; null if there is none.
    ggml_backend_reg_t find_registration(std::string_view name) const;
    ggml_backend_dev_t find_device(std::string_view name) const;

    /// The first device of that kind; null if there is none.
    ggml_backend_dev_t find_device(enum ggml_backend_dev_type type) const;

private:
    /// Publishes what `change` makes of a copy of the current picture, unless it returns false.
    template <class Change>
    bool publish(const Change& change);

    mutable std::mutex mutex_;
    std::shared_ptr<const Picture> current_ = std::make_shared<Picture>();
};

/// What a backend or a device calls itself; "" if it does not say.
std::string_view name_of(ggml_backend_reg_t registration);
std::string_view name_of(ggml_backend_dev_t device);

/// Whether two names are the same but for the case of ASCII letters.
bool same_name(std::string_view a, std::string_view b);

}  // namespace heddle
