#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "activations.glsl"

// UNARY, SQR, SQRT, LOG, SIN, COS, SCALE, CLAMP and LEAKY_RELU. Any strides.
layout(constant_id = 1) const int FUNCTION = 0;  // numbers of UNARY, then those below
layout(constant_id = 2) const int TYPE_X = TYPE_F32;
layout(constant_id = 3) const int TYPE_Y = TYPE_F32;

const int SQR = 100, SQRT = 101, LOG = 102, SIN = 103, COS = 104, SCALE = 105, CLAMP = 106, LEAKY = 107;

float xielu(float x) {
    const float alpha_n = args.f[0], alpha_p = args.f[1], beta = args.f[2], eps = args.f[3];
    if (x > 0) return alpha_p * x * x + beta * x;
    return (exp_minus_1(min(x, eps)) - x) * alpha_n + beta * x;
}

float apply(float x) {
    switch (FUNCTION) {
        case 0: return abs(x);
        case 1: return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0;
        case 2: return -x;
        case 3: return x > 0 ? 1.0 : 0.0;
        case 4: return tanh_of(x);
        case 5: return x > 0 ? x : exp_minus_1(x);
        case 6: return x > 0 ? x : 0.0;
        case 7: return sigmoid(x);
        case 8: return gelu(x);
        case 9: return gelu_quick(x);
        case 10: return silu(x);
        case 11: return x * hard_sigmoid(x);
        case 12: return hard_sigmoid(x);
        case 13: return exp(x);
        case 14: return exp_minus_1(x);
        case 15: return softplus(x);
        case 16: return gelu_erf(x);
        case 17: return xielu(x);
        case 18: return floor(x);
        case 19: return ceil(x);
        case 20: return sign(x) * floor(abs(x) + 0.5);
        case 21: return trunc(x);
        case SQR: return x * x;
        case SQRT: return sqrt(x);
        case LOG: return log(x);
        case SIN: return sin(x);
        case COS: return cos(x);
        case SCALE: return args.f[0] * x + args.f[1];
        case CLAMP: return max(min(x, args.f[1]), args.f[0]);
        default: return x > 0 ? x : args.f[0] * x;
    }
}

void main() {
    const uint i = element_number();
    if (i >= args.count) return;
    const Operand x = args.src[0], y = args.y;
    const ivec4 at = unravel(i, y.extent);
    put(y, at, apply(get(x, at, TYPE_X)), TYPE_Y);
}
