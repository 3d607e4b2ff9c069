/// Streams and events: from ordinary classes to the tables of the plug-in interface.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>

#include "buffer.hpp"
#include "guard.hpp"

namespace heddle::plugin {

// Both are defined in `nodes.hpp`, for which the list of ops is needed.

/// Whether a node is a view or an input: there is nothing to compute for it on any device.
inline bool computes_nothing(const ggml_tensor& node) noexcept;

/// Whether a stream has work to do for a node of its graph.
inline bool wants_computing(const ggml_tensor& node) noexcept;

// What a stream class may have. It has `static inline ggml_guid guid = {...}`, 16 bytes drawn at
// random that say what kind of backend it is, and one of `compute(graph)` and `compute_node(node)`.
// All of these may return `Result<>` or nothing, and may throw.

template <class T>
concept HasGuid = requires {
    { &T::guid } -> std::convertible_to<ggml_guid_t>;
};
/// `compute(graph)` does the whole graph; it skips nodes without wants_computing() itself.
template <class T>
concept ComputesGraphs = requires(T& t, ggml_cgraph& graph) {
    t.compute(graph);
};
/// `compute_node(node)` is called for every node that wants computing, in order.
template <class T>
concept ComputesNodes = requires(T& t, ggml_tensor& node) {
    t.compute_node(node);
};
template <class T>
concept Synchronizes = requires(T& t) {
    t.synchronize();
};
template <class T>
concept WritesAsync = requires(T& t, ggml_tensor& tensor, std::span<const std::byte> bytes) {
    t.write_async(tensor, std::size_t{}, bytes);
};
template <class T>
concept ReadsAsync = requires(T& t, const ggml_tensor& tensor, std::span<std::byte> bytes) {
    t.read_async(tensor, std::size_t{}, bytes);
};
template <class T>
concept WritesPiecesAsync = requires(T& t, ggml_tensor& tensor, const std::byte* data,
                                     Pieces pieces) {
    t.write_pieces_async(tensor, data, pieces);
};
template <class T>
concept ReadsPiecesAsync = requires(T& t, const ggml_tensor& tensor, std::byte* data,
                                    Pieces pieces) {
    t.read_pieces_async(tensor, data, pieces);
};
/// `copy_async(source_stream, from, to)`: this stream is the destination; `source_stream` may be of
/// any backend (see stream_cast()). False, with nothing done, if it cannot.
template <class T>
concept CopiesAsync = requires(T& t, ggml_backend_t source, const ggml_tensor& from,
                               ggml_tensor& to) {
    { t.copy_async(source, from, to) } -> std::convertible_to<bool>;
};
/// `plan(graph)` gives a unique_ptr of a plan class, which `compute_plan(plan)` runs.
template <class T>
concept Plans = requires(T& t, const ggml_cgraph& graph) {
    t.plan(graph);
};
template <class T>
concept Optimizes = requires(T& t, ggml_cgraph& graph) {
    t.optimize(graph);
};

template <class T>
concept StreamImpl = HasGuid<T> &&(ComputesGraphs<T> || ComputesNodes<T>);

/// The class of events that devices of class D make; void if they make none.
template <class D>
struct EventOf {
    using type = void;
};
template <class D>
requires requires(D& device) { device.make_event(); }
struct EventOf<D> {
    using type = typename Unwrapped<decltype(std::declval<D&>().make_event())>::element_type;
};

/// The table of streams of class S on devices of class D. What S lacks is NULL.
template <class D, StreamImpl S>
class StreamTable {
    using Event = typename EventOf<D>::type;

public:
    static ggml_backend_i make() noexcept {
        ggml_backend_i table = {};
        table.get_name = [](ggml_backend_t stream) { return name(stream); };
        table.free = free;
        table.graph_compute = [](ggml_backend_t stream, ggml_cgraph* graph) {
            return attempt_status(in(stream, "compute"),
                                  [&] { return compute(self(stream), *graph); });
        };
        if constexpr (Synchronizes<S>) {
            table.synchronize = [](ggml_backend_t stream) {
                attempt_status(in(stream, "synchronize"),
                               [&] { return self(stream).synchronize(); });
            };
        }
        if constexpr (Optimizes<S>) {
            table.graph_optimize = [](ggml_backend_t stream, ggml_cgraph* graph) {
                attempt_status(in(stream, "optimize"),
                               [&] { return self(stream).optimize(*graph); });
            };
        }
        add_transfers(table);
        add_pieces(table);
        if constexpr (Plans<S>) add_plans(table);
        if constexpr (!std::is_void_v<Event>) add_events(table);
        return table;
    }

    /// Also tells our streams from others: see stream_cast().
    static void free(ggml_backend_t stream) {
        delete &self(stream);
        delete stream;
    }

    static S& self(ggml_backend_t stream) noexcept { return *static_cast<S*>(stream->context); }

private:
    static const char* name(ggml_backend_t stream) noexcept {
        return ask<const char*>("?", [&]() -> const char* {
            if constexpr (requires(S & s) { s.name(); })
                return self(stream).name();
            else
                return stream->device->iface.get_name(stream->device);
        });
    }
    static auto in(ggml_backend_t stream, const char* what) noexcept {
        return [=] { return text(name(stream), ": ", what); };
    }
    static auto in(ggml_backend_t stream, const char* what, const ggml_tensor* tensor) noexcept {
        return [=] { return text(name(stream), ": ", what, ' ', quoted(*tensor)); };
    }

    static Result<> compute(S& stream, ggml_cgraph& graph) {
        if constexpr (ComputesGraphs<S>) {
            return attempt([&] { return stream.compute(graph); });
        } else {
            const int count = ggml_graph_n_nodes(&graph);
            for (int i = 0; i < count; ++i) {
                ggml_tensor& node = *ggml_graph_node(&graph, i);
                if (!wants_computing(node)) continue;
                auto done = attempt([&] { return stream.compute_node(node); });
                if (!done) return std::move(done).error().within(quoted(node));
            }
            return ok();
        }
    }

    static void add_transfers(ggml_backend_i& table) noexcept {
        if constexpr (WritesAsync<S>) {
            table.set_tensor_async = [](ggml_backend_t stream, ggml_tensor* tensor,
                                        const void* data, std::size_t offset, std::size_t size) {
                const std::span bytes(static_cast<const std::byte*>(data), size);
                attempt_status(in(stream, "write", tensor),
                               [&] { return self(stream).write_async(*tensor, offset, bytes); });
            };
        }
        if constexpr (ReadsAsync<S>) {
            table.get_tensor_async = [](ggml_backend_t stream, const ggml_tensor* tensor,
                                        void* data, std::size_t offset, std::size_t size) {
                const std::span bytes(static_cast<std::byte*>(data), size);
                attempt_status(in(stream, "read", tensor),
                               [&] { return self(stream).read_async(*tensor, offset, bytes); });
            };
        }
        if constexpr (CopiesAsync<S>) {
            table.cpy_tensor_async = [](ggml_backend_t source, ggml_backend_t stream,
                                        const ggml_tensor* from, ggml_tensor* to) {
                if (stream->iface.free != &StreamTable::free) return false;  // not ours after all
                return attempt_or(false, in(stream, "copy", from), [&]() -> bool {
                    return self(stream).copy_async(source, *from, *to);
                });
            };
        }
    }

    static void add_pieces(ggml_backend_i& table) noexcept {
        if constexpr (WritesPiecesAsync<S>) {
            table.set_tensor_2d_async = [](ggml_backend_t stream, ggml_tensor* tensor,
                                           const void* data, std::size_t offset, std::size_t size,
                                           std::size_t count, std::size_t tensor_stride,
                                           std::size_t host_stride) {
                const Pieces pieces{offset, size, count, tensor_stride, host_stride};
                attempt_status(in(stream, "write pieces of", tensor), [&] {
                    return self(stream).write_pieces_async(
                        *tensor, static_cast<const std::byte*>(data), pieces);
                });
            };
        }
        if constexpr (ReadsPiecesAsync<S>) {
            table.get_tensor_2d_async = [](ggml_backend_t stream, const ggml_tensor* tensor,
                                           void* data, std::size_t offset, std::size_t size,
                                           std::size_t count, std::size_t tensor_stride,
                                           std::size_t host_stride) {
                const Pieces pieces{offset, size, count, tensor_stride, host_stride};
                attempt_status(in(stream, "read pieces of", tensor), [&] {
                    return self(stream).read_pieces_async(*tensor, static_cast<std::byte*>(data),
                                                          pieces);
                });
            };
        }
    }

    static void add_plans(ggml_backend_i& table) noexcept {
        using Plan = typename Unwrapped<decltype(std::declval<S&>().plan(
            std::declval<const ggml_cgraph&>()))>::element_type;
        table.graph_plan_create = [](ggml_backend_t stream, const ggml_cgraph* graph) {
            auto plan = attempt([&] { return self(stream).plan(*graph); });
            if (plan) return static_cast<void*>((*plan).release());
            report_within(std::move(plan).error(), in(stream, "plan"));
            return static_cast<void*>(nullptr);
        };
        table.graph_plan_free = [](ggml_backend_t, void* plan) { delete static_cast<Plan*>(plan); };
        table.graph_plan_compute = [](ggml_backend_t stream, void* plan) {
            return attempt_status(in(stream, "compute plan"), [&] {
                return self(stream).compute_plan(*static_cast<Plan*>(plan));
            });
        };
        if constexpr (requires(S & s, Plan & plan, const ggml_cgraph& graph) {
                          s.update_plan(plan, graph);
                      }) {
            table.graph_plan_update = [](ggml_backend_t stream, void* plan,
                                         const ggml_cgraph* graph) {
                attempt_status(in(stream, "update plan"), [&] {
                    return self(stream).update_plan(*static_cast<Plan*>(plan), *graph);
                });
            };
        }
    }

    /// Events of other kinds of device are waited for by the host: slower, but in the right order.
    static void add_events(ggml_backend_i& table) noexcept {
        table.event_record = [](ggml_backend_t stream, ggml_backend_event_t event) {
            attempt_status(in(stream, "record event"), [&]() -> Result<> {
                if (event->device->iface.event_new != stream->device->iface.event_new) {
                    return invalid("the event belongs to another kind of device");
                }
                return attempt(
                    [&] { return self(stream).record(*static_cast<Event*>(event->context)); });
            });
        };
        table.event_wait = [](ggml_backend_t stream, ggml_backend_event_t event) {
            if (event->device->iface.event_new != stream->device->iface.event_new) {
                return event->device->iface.event_synchronize(event->device, event);
            }
            attempt_status(in(stream, "wait for event"),
                           [&] { return self(stream).wait(*static_cast<Event*>(event->context)); });
        };
    }
};

/// A stream object around `impl`, for `device`, whose class is D.
template <class D, StreamImpl S>
Result<ggml_backend_t> make_stream(ggml_backend_dev_t device, std::unique_ptr<S> impl) {
    if (impl == nullptr) return failure(Errc::device, "the device gave no stream");
    auto* stream = new ggml_backend{&S::guid, StreamTable<D, S>::make(), device, impl.get()};
    impl.release();  // free deletes it
    return stream;
}

/// The S inside a stream of a device of class D of this plug-in; null for any other stream.
template <class D, StreamImpl S>
S* stream_cast(ggml_backend_t stream) noexcept {
    if (stream == nullptr || stream->iface.free != &StreamTable<D, S>::free) return nullptr;
    return &StreamTable<D, S>::self(stream);
}

}  // namespace heddle::plugin

#ifndef HEDDLE_EXPLICIT_OPS  // see ggml.h
#include "nodes.hpp"
#endif
