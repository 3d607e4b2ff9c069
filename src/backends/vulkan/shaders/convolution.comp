#version 450
#extension GL_GOOGLE_include_directive : require
#include "arguments.glsl"

// Convolutions and patches: an invocation for each element of the result, which gathers what it
// needs. One-dimensional data comes as images of one row.
layout(constant_id = 1) const int FUNCTION = 0;
layout(constant_id = 2) const int TYPE_A = TYPE_F32;  // of the first operand
layout(constant_id = 3) const int TYPE_B = TYPE_F32;
layout(constant_id = 4) const int TYPE_Y = TYPE_F32;

const int IM2COL = 0, IM2COL_BACK = 1, IM2COL_3D = 2, COL2IM_1D = 3, CONV_2D = 4, CONV_2D_DW = 5;
const int CONV_3D = 6, CONV_TRANSPOSE_1D = 7, CONV_TRANSPOSE_2D = 8;

// args.i: strides along three axes, paddings, dilations, then what stands at each function.
int stride_of(int axis) { return args.i[axis]; }
int padding_of(int axis) { return args.i[3 + axis]; }
int dilation_of(int axis) { return args.i[6 + axis]; }

// Where tap `k` of output `o` lies along an axis.
int place_of(int axis, int o, int k) { return o * stride_of(axis) + k * dilation_of(axis) - padding_of(axis); }

// An element, or zero outside of the first `axes` dimensions.
float padded(Operand image, ivec4 at, int axes, int type) {
    for (int d = 0; d < axes; ++d) {
        if (at[d] < 0 || at[d] >= image.extent[d]) return 0;
    }
    return get(image, at, type);
}

float im2col(ivec4 at) {
    const Operand kernel = args.src[0], image = args.src[1];
    const int across = kernel.extent.x, down = kernel.extent.y;
    const int x = place_of(0, at.y, at.x % across), y = place_of(1, at.z, at.x / across % down);
    return padded(image, ivec4(x, y, at.x / across / down, at.w), 2, TYPE_B);
}

// The output whose tap `k` lies at `at`; -1 if there is none.
int output_at(int axis, int at, int k, int outputs) {
    const int from = at + padding_of(axis) - k * dilation_of(axis);
    if (from < 0 || from % stride_of(axis) != 0) return -1;
    const int found = from / stride_of(axis);
    return found < outputs ? found : -1;
}

// Every element takes back what patches took from it.
float im2col_back(ivec4 at) {
    const Operand columns = args.src[0], kernel = args.src[1];
    const int across = kernel.extent.x, down = kernel.extent.y;
    float total = 0;
    for (int kh = 0; kh < down; ++kh) {
        const int oh = output_at(1, at.y, kh, columns.extent.z);
        if (oh < 0) continue;
        for (int kw = 0; kw < across; ++kw) {
            const int ow = output_at(0, at.x, kw, columns.extent.y);
            if (ow < 0) continue;
            total += get(columns, ivec4((at.z * down + kh) * across + kw, ow, oh, at.w), TYPE_A);
        }
    }
    return total;
}

// args.i[9]: channels, args.i[10]: outputs along the depth.
float im2col_3d(ivec4 at) {
    const Operand kernel = args.src[0], volume = args.src[1];
    const int channels = args.i[9], depth = args.i[10];
    const int kw = at.x % kernel.extent.x, rest = at.x / kernel.extent.x;
    const int kh = rest % kernel.extent.y, kd = rest / kernel.extent.y % kernel.extent.z;
    const int channel = rest / kernel.extent.y / kernel.extent.z;
    const ivec4 from = ivec4(place_of(0, at.y, kw), place_of(1, at.z, kh), place_of(2, at.w % depth, kd),
                             at.w / depth * channels + channel);
    return padded(volume, from, 3, TYPE_B);
}

// args.i[9]: taps.
float col2im_1d(ivec4 at) {
    const Operand columns = args.src[0];
    const int taps = args.i[9], step = stride_of(0), place = at.x + padding_of(0);
    const int first = place < taps ? 0 : (place - taps) / step + 1;
    float total = 0;
    for (int c = first; c * step <= place && c < columns.extent.y; ++c) {
        total += get(columns, ivec4(at.y * taps + place - c * step, c, 0, 0), TYPE_A);
    }
    return total;
}

float conv_2d(ivec4 at) {
    const Operand kernel = args.src[0], image = args.src[1];
    float total = 0;
    for (int ic = 0; ic < kernel.extent.z; ++ic) {
        for (int ky = 0; ky < kernel.extent.y; ++ky) {
            const int row = place_of(1, at.y, ky);
            if (row < 0 || row >= image.extent.y) continue;
            for (int kx = 0; kx < kernel.extent.x; ++kx) {
                total += get(kernel, ivec4(kx, ky, ic, at.z), TYPE_A) *
                         padded(image, ivec4(place_of(0, at.x, kx), row, ic, at.w), 2, TYPE_B);
            }
        }
    }
    return total;
}

float conv_2d_dw(ivec4 at) {
    const Operand kernel = args.src[0], image = args.src[1];
    float total = 0;
    for (int ky = 0; ky < kernel.extent.y; ++ky) {
        for (int kx = 0; kx < kernel.extent.x; ++kx) {
            const ivec4 from = ivec4(place_of(0, at.x, kx), place_of(1, at.y, ky), at.zw);
            total += get(kernel, ivec4(kx, ky, 0, at.z), TYPE_A) * padded(image, from, 2, TYPE_B);
        }
    }
    return total;
}

// args.i[9]: channels, args.i[10]: channels of the result.
float conv_3d(ivec4 at) {
    const Operand kernel = args.src[0], volume = args.src[1];
    const int channels = args.i[9], outputs = args.i[10], o = at.w % outputs, n = at.w / outputs;
    float total = 0;
    for (int ic = 0; ic < channels; ++ic) {
        for (int kz = 0; kz < kernel.extent.z; ++kz) {
            for (int ky = 0; ky < kernel.extent.y; ++ky) {
                for (int kx = 0; kx < kernel.extent.x; ++kx) {
                    const ivec4 from = ivec4(place_of(0, at.x, kx), place_of(1, at.y, ky),
                                             place_of(2, at.z, kz), n * channels + ic);
                    total += get(kernel, ivec4(kx, ky, kz, o * channels + ic), TYPE_A) *
                             padded(volume, from, 3, TYPE_B);
                }
            }
        }
    }
    return total;
}

// Inputs whose kernel covers output `o`: the first and the last of `count`.
ivec2 covering(int o, int taps, int step, int count) {
    return ivec2(o < taps ? 0 : (o - taps) / step + 1, min(o / step, count - 1));
}

float conv_transpose_1d(ivec4 at) {
    const Operand kernel = args.src[0], signal = args.src[1];
    const int step = stride_of(0);
    const ivec2 along = covering(at.x, kernel.extent.x, step, signal.extent.x);
    float total = 0;
    for (int ic = 0; ic < kernel.extent.z; ++ic) {
        for (int i = along.x; i <= along.y; ++i) {
            total += get(kernel, ivec4(at.x - i * step, at.y, ic, 0), TYPE_A) *
                     get(signal, ivec4(i, ic, 0, 0), TYPE_B);
        }
    }
    return total;
}

float conv_transpose_2d(ivec4 at) {
    const Operand kernel = args.src[0], image = args.src[1];
    const int step = stride_of(0);
    const ivec2 across = covering(at.x, kernel.extent.x, step, image.extent.x);
    const ivec2 down = covering(at.y, kernel.extent.y, step, image.extent.y);
    float total = 0;
    for (int ic = 0; ic < kernel.extent.w; ++ic) {
        for (int row = down.x; row <= down.y; ++row) {
            for (int column = across.x; column <= across.y; ++column) {
                total += get(kernel, ivec4(at.x - column * step, at.y - row * step, at.z, ic), TYPE_A) *
                         get(image, ivec4(column, row, ic, at.w), TYPE_B);
            }
        }
    }
    return total;
}

float value_at(ivec4 at) {
    switch (FUNCTION) {
        case IM2COL: return im2col(at);
        case IM2COL_BACK: return im2col_back(at);
        case IM2COL_3D: return im2col_3d(at);
        case COL2IM_1D: return col2im_1d(at);
        case CONV_2D: return conv_2d(at);
        case CONV_2D_DW: return conv_2d_dw(at);
        case CONV_3D: return conv_3d(at);
        case CONV_TRANSPOSE_1D: return conv_transpose_1d(at);
        default: return conv_transpose_2d(at);
    }
}

void main() {
    const uint i = element_number();
    if (i >= args.count) return;
    const ivec4 at = unravel(i, args.y.extent);
    put(args.y, at, value_at(at), TYPE_Y);
}
