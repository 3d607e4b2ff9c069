/// The simulated accelerator: devices SIM0, SIM1, ... with memory, streams and a clock of their
/// own.
///
/// It is a plug-in that nobody sees until it is asked for by name, with parameters behind a colon:
///
///     ggml_backend_dev_by_name("sim:devices=2,mem=4G,flops=20T,link=25G,ops=all,-ROPE")
///
/// Results are exact, computed by the kernels of the processor. Times are virtual: they follow from
/// the parameters and from the order of calls alone, so they are the same on every machine. Each
/// device has an engine that computes, one that copies in and one that copies out; each works on
/// one thing at a time, in the order given; what was given later goes first only if it ends before
/// what was given earlier begins. A thing begins when its stream, its engines, the events it waits
/// for and the host's call are all there, and takes
///
///     latency + max(operations / flops, bytes / membw)     for a node
///     latency + bytes / link                               for a copy over the link
///     latency + bytes / membw                              for filling, or a copy within a device
///
/// The host has a clock too. It stands still while the host calls and computes, and moves on when
/// the host waits: for a stream, an event, or a copy that blocks.
///
/// | parameter | default | is                                                                    |
/// | --------- | ------- | --------------------------------------------------------------------- |
/// | devices   | 1       | how many                                                              |
/// | mem       | 4G      | bytes of memory of each; K, M, G, T count in 1024s                    |
/// | maxbuf    | mem     | largest buffer                                                        |
/// | flops     | 10T     | operations per second; k, M, G, T count in 1000s                      |
/// | membw     | 500G    | bytes per second to its own memory                                    |
/// | link      | 25G     | bytes per second to the host and to other devices                     |
/// | latency   | 10us    | before every node and copy; s, ms, us, ns                             |
/// | hosts     | 1       | machines that devices are spread over; the program is on the first    |
/// | net       | 1.17G   | bytes per second from one machine to another, in each direction       |
/// | hop       | 30us    | before every copy between machines, in place of `latency`             |
/// | numbers   | 1       | 0: time passes, but nothing is computed or copied between devices     |
/// | ops       | all     | a list: `all`, `none`, names to add, `-NAME` to take away             |
/// | pinned    | 0       | 1: there is a host buffer type, read and written without waiting      |
/// | offload   | 32      | rows from which on a node with weights on the host is wanted          |
/// | trace     | 0       | 1: a record is kept of all that was done, until it is cleared         |
///
/// and those of heddle_sim_fail_t, for every device. The functions below are found by name with
/// ggml_backend_reg_get_proc_address() in the registration "SIM". All may be called by any thread.
#pragma once

#include "../ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The registration, for programs that link the library instead of loading it. One device with the
/// parameters' defaults, until it is configured.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_sim_reg(void);

/// "heddle_backend_configure": makes the devices anew from `parameters`, such as
/// "devices=2,mem=4G"; their clocks begin at 0. Devices from before stay usable for those who still
/// hold them. False, with the reason in heddle_last_error(), for texts that make no sense; then
/// nothing has changed.
typedef bool (*heddle_backend_configure_t)(const char* parameters);

/// "heddle_sim_clock": virtual seconds at which all that `device` was given so far is done; the
/// host's clock, of the devices configured last, for NULL.
typedef double (*heddle_sim_clock_t)(ggml_backend_dev_t device);

/// "heddle_sim_advance": the host is busy for so many virtual seconds with something of its own,
/// such as nodes it computes itself. Gives its clock afterwards.
typedef double (*heddle_sim_advance_t)(double seconds);

/// What a device spends time on.
enum heddle_sim_kind GGML_ENUM_INT {
    HEDDLE_SIM_NODE = 0,   ///< Computes a node.
    HEDDLE_SIM_WRITE = 1,  ///< Copies from the host into its memory.
    HEDDLE_SIM_READ = 2,   ///< Copies from its memory to the host.
    HEDDLE_SIM_COPY = 3,   ///< Copies from another device, or within its memory.
    HEDDLE_SIM_FILL = 4,   ///< Fills its memory.
};

/// One thing that a device did.
struct heddle_sim_item {
    enum heddle_sim_kind kind;
    int stream;     ///< Number of the stream, from 1 on; 0: a call that blocked the host.
    double start;   ///< Virtual seconds.
    double end;     ///< Virtual seconds.
    size_t bytes;   ///< Copied or filled; 0 for nodes.
    char name[64];  ///< Of the tensor.
};

/// "heddle_sim_trace": what `device` did, in the order in which it was given, if it was made with
/// trace=1; nothing otherwise. Fills the first
/// `capacity` of `items` and returns how many there are. `item_size` is sizeof *items: the struct
/// may grow at its end.
typedef size_t (*heddle_sim_trace_t)(ggml_backend_dev_t device, struct heddle_sim_item* items,
                                     size_t capacity, size_t item_size);

/// "heddle_sim_clear_trace": forgets what `device` did so far. Its clock goes on.
typedef void (*heddle_sim_clear_trace_t)(ggml_backend_dev_t device);

/// "heddle_sim_fail": what is to go wrong with `device`, counted from now on:
///
///     alloc=N   the N-th allocation fails
///     copy=N    the N-th copy to, from or within the device moves nothing
///     node=N    the N-th node is not computed
///     lost=T    nothing that would end after T on the device's clock happens, such as lost=1.5ms
///
/// in any combination, separated by commas. NULL or an empty text: nothing goes wrong any more. An
/// allocation that fails gives NULL, a node GGML_STATUS_FAILED from the graph it is in. A copy
/// cannot say so itself: the sentence is in heddle_last_error(), and the next graph that the device
/// is given fails. False, with the reason, for texts that make no sense.
typedef bool (*heddle_sim_fail_t)(ggml_backend_dev_t device, const char* plan);

#ifdef __cplusplus
}
#endif
