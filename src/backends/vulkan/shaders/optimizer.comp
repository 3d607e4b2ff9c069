#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"

// OPT_STEP_ADAMW and OPT_STEP_SGD: weights and moments are changed in place.
layout(constant_id = 1) const int FUNCTION = 0;

float value(Operand values, int i) { return get_f32(values, ivec4(i, 0, 0, 0)); }

// Values are alpha, beta1, beta2, eps, weight decay and the corrections of both moments.
void adamw(ivec4 at) {
    const Operand m = args.src[2], v = args.src[3], p = args.src[4];
    const float alpha = value(p, 0), beta1 = value(p, 1), beta2 = value(p, 2);
    const float g = get_f32(args.src[1], at);
    const float mean = get_f32(m, at) * beta1 + g * (1 - beta1);
    const float variance = get_f32(v, at) * beta2 + g * g * (1 - beta2);
    put_f32(m, at, mean);
    put_f32(v, at, variance);
    const float change = alpha * (mean * value(p, 5)) / (sqrt(variance * value(p, 6)) + value(p, 3));
    put_f32(args.y, at, get_f32(args.y, at) * (1 - alpha * value(p, 4)) - change);
}

void sgd(ivec4 at) {
    const Operand p = args.src[2];
    const float alpha = value(p, 0);
    put_f32(args.y, at, get_f32(args.y, at) * (1 - alpha * value(p, 1)) - alpha * get_f32(args.src[1], at));
}

void main() {
    const uint i = element_number();
    if (i >= args.count) return;
    const ivec4 at = unravel(i, args.y.extent);
    if (FUNCTION == 0) {
        adamw(at);
    } else {
        sgd(at);
    }
}
