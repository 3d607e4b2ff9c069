// Functions of one number, as UNARY and GLU define them. Those that GLSL has may overflow for large
// arguments, so they are kept within range.
float exp_minus_1(float x) {
    if (abs(x) > 0.3) return exp(x) - 1;
    // The series, to the last bit of a float.
    return x * (1 + x * (0.5 + x * (1.0 / 6 + x * (1.0 / 24 + x * (1.0 / 120 + x * (1.0 / 720 + x / 5040))))));
}
float log_1_plus(float x) {
    const float sum = 1 + x;
    return sum == 1 ? x : log(sum) * (x / (sum - 1));
}
float tanh_of(float x) { return tanh(clamp(x, -20.0, 20.0)); }
float sigmoid(float x) { return 1 / (1 + exp(-x)); }
float silu(float x) { return x / (1 + exp(-x)); }
float gelu(float x) {
    return 0.5 * x * (1 + tanh_of(0.79788456080286535588 * x * (1 + 0.044715 * x * x)));
}
float gelu_quick(float x) { return x / (1 + exp(-1.702 * x)); }
float hard_sigmoid(float x) { return min(1.0, max(0.0, (x + 3) / 6)); }
float softplus(float x) { return x > 20 ? x : log_1_plus(exp(x)); }

// The error function: a series near zero, a continued fraction's approximation beyond.
float erf_of(float x) {
    const float a = abs(x), s = x * x;
    if (a < 1) {
        float term = x, sum = x;
        [[unroll]] for (int n = 1; n < 14; ++n) {
            term *= -s / float(n);
            sum += term / float(2 * n + 1);
        }
        return sum * 1.1283791670955126;
    }
    if (a > 5.5) return sign(x);
    float fraction = 0;
    [[unroll]] for (int n = 40; n > 0; --n) fraction = 0.5 * float(n) / (a + fraction);
    return sign(x) * (1 - exp(-s) / ((a + fraction) * 1.7724538509055160));
}
float gelu_erf(float x) { return 0.5 * x * (1 + erf_of(x * 0.70710678118654752440)); }

float glu_of(int function, float x, float g, float alpha, float limit) {
    switch (function) {
        case 0: return x > 0 ? x * g : 0.0;
        case 1: return gelu(x) * g;
        case 2: return silu(x) * g;
        case 3: {
            const float bounded = min(x, limit), linear = max(min(g, limit), -limit);
            return bounded / (1 + exp(-alpha * bounded)) * (linear + 1);
        }
        case 4: return gelu_erf(x) * g;
        default: return gelu_quick(x) * g;
    }
}
