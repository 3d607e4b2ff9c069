// The factor of the mask for a head, that makes attention fade with distance. args.f: 1 the largest
// bias, 2 a power of two not above the number of heads, 3 and 4 the bases of the factors.
float slope_of(int head) {
    const float max_bias = args.f[1], power = args.f[2];
    if (max_bias <= 0) return 1;
    const float h = float(head);
    return h < power ? pow(args.f[3], h + 1) : pow(args.f[4], 2 * (h - power) + 1);
}
