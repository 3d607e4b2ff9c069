// What the shaders of attention have in common. args.i: 0 heads that share keys and values, 1 groups
// of such heads, 2 heads of a key, 3 heads of a value, 4 splits of the keys, 5 keys of a split.

// The factor of a row's sum of values, and with it the sink.
float finish_row(float largest, float total, int head) {
    if (is_there(args.src[4])) {
        const float sink = get_f32(args.src[4], ivec4(head, 0, 0, 0));
        const float top = max(largest, sink);
        const float shrink = total > 0 ? exp(largest - top) : 0.0;
        return shrink / (total * shrink + exp(sink - top));
    }
    return total > 0 ? 1 / total : 0.0;
}

// A partial result of a row: its values, the sum of its weights and the largest score.
uint64_t partial_of(uint row, int split, int value_size) {
    return args.scratch + (uint64_t(row) * uint64_t(args.i[4]) + uint64_t(split)) * uint64_t(value_size + 2) * 4;
}
