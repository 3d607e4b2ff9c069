// Moves one element or block without looking at what it means; it lies at a multiple of its fields'
// alignment.
void copy_unit(uint64_t to, uint64_t from, int bytes) {
    if (bytes == 4) {
        store32(to, load32(from));
    } else if (bytes == 2) {
        store16(to, load16(from));
    } else if (bytes == 8) {
        Longs(to).v = Longs(from).v;
    } else if (bytes == 16) {
        Quads(to).v = Quads(from).v;
    } else if (bytes % 2 == 0) {
        for (int i = 0; i < bytes; i += 2) store16(to + i, load16(from + i));
    } else {
        for (int i = 0; i < bytes; ++i) store8(to + i, load8(from + i));
    }
}
