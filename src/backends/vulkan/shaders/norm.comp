#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"
#include "group.glsl"

// NORM, RMS_NORM, L2_NORM and RMS_NORM_BACK: a workgroup for each row. GROUP_NORM: one for each
// group of channels. With SCALED the row is multiplied by the second operand, tiled over it.
layout(constant_id = 1) const int FUNCTION = 0;
layout(constant_id = 2) const int SCALED = 0;

const int NORM = 0, RMS_NORM = 1, L2_NORM = 2, GROUP_NORM = 3, RMS_NORM_BACK = 4;

float sum_of_squares(Operand x, ivec4 row, float mean) {
    float part = 0;
    for (int i = int(lane()); i < x.extent.x; i += int(width())) {
        const float difference = get_f32(x, ivec4(i, row.yzw)) - mean;
        part += difference * difference;
    }
    return group_sum(part);
}

void norm_row(uint r) {
    const Operand x = args.src[0], factor = args.src[1];
    const ivec4 row = unravel_row(r, x.extent);
    const float n = float(x.extent.x), eps = args.f[0];
    float mean = 0, scale;
    if (FUNCTION == NORM) {
        float part = 0;
        for (int i = int(lane()); i < x.extent.x; i += int(width())) part += get_f32(x, ivec4(i, row.yzw));
        mean = group_sum(part) / n;
    }
    const float squares = sum_of_squares(x, row, mean);
    // The epsilon of L2_NORM is the least length divided by; it is not added.
    scale = FUNCTION == L2_NORM ? 1 / max(sqrt(squares), eps) : 1 / sqrt(squares / n + eps);
    for (int i = int(lane()); i < x.extent.x; i += int(width())) {
        const ivec4 at = ivec4(i, row.yzw);
        float value = (get_f32(x, at) - mean) * scale;
        if (SCALED != 0) value *= get_f32(factor, at % factor.extent);
        put_f32(args.y, at, value);
    }
}

// A group is a run of channels (dimension 2) of one image.
void norm_group(uint r) {
    const Operand x = args.src[0];
    const int groups = args.i[0], per_group = args.i[1];
    const int first = int(r) % groups * per_group, image = int(r) / groups;
    const int channels = min(per_group, x.extent.z - first);
    const ivec4 shape = ivec4(x.extent.xy, max(channels, 0), 1);
    const int size = shape.x * shape.y * shape.z;
    if (size == 0) return;  // as for all invocations of the workgroup
    float part = 0;
    for (int i = int(lane()); i < size; i += int(width())) {
        part += get_f32(x, unravel(uint(i), shape) + ivec4(0, 0, first, image));
    }
    const float mean = group_sum(part) / float(size);
    part = 0;
    for (int i = int(lane()); i < size; i += int(width())) {
        const float difference = get_f32(x, unravel(uint(i), shape) + ivec4(0, 0, first, image)) - mean;
        part += difference * difference;
    }
    const float scale = 1 / sqrt(group_sum(part) / float(size) + args.f[0]);
    for (int i = int(lane()); i < size; i += int(width())) {
        const ivec4 at = unravel(uint(i), shape) + ivec4(0, 0, first, image);
        put_f32(args.y, at, (get_f32(x, at) - mean) * scale);
    }
}

void rms_norm_back(uint r) {
    const Operand dy = args.src[0], x = args.src[1];
    const ivec4 row = unravel_row(r, x.extent);
    const float n = float(x.extent.x), eps = args.f[0];
    float square = 0, product = 0;
    for (int i = int(lane()); i < x.extent.x; i += int(width())) {
        const float value = get_f32(x, ivec4(i, row.yzw));
        square += value * value;
        product += value * get_f32(dy, ivec4(i, row.yzw));
    }
    const float squares = group_sum(square), together = group_sum(product);
    const float ratio = together / (squares + n * eps), size = sqrt(squares / n + eps);
    for (int i = int(lane()); i < x.extent.x; i += int(width())) {
        const ivec4 at = ivec4(i, row.yzw);
        put_f32(args.y, at, (get_f32(dy, at) - get_f32(x, at) * ratio) / size);
    }
}

void main() {
    const uint r = group_number();
    if (r >= args.count) return;
    if (FUNCTION == GROUP_NORM) {
        norm_group(r);
    } else if (FUNCTION == RMS_NORM_BACK) {
        rms_norm_back(r);
    } else {
        norm_row(r);
    }
}
