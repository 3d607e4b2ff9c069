// Reports of indices that point outside of their table; faults.cpp reads them.
layout(buffer_reference, std430, buffer_reference_align = 8) buffer IndexFault {
    uint claim;
    int op;
    int64_t index;
    int64_t extent;
};

// Whether an index lies in its table. One that does not is reported, once, and goes unused.
bool is_inside(int index, int extent) {
    if (index >= 0 && index < extent) return true;
    IndexFault fault = IndexFault(args.faults);
    if (atomicCompSwap(fault.claim, 0u, 1u) == 0u) {
        fault.op = args.op;
        fault.index = index;
        fault.extent = extent;
    }
    return false;
}
