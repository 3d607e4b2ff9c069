#include <array>

#include "backends/cpu/kernel.hpp"

namespace heddle::cpu {

extern const Kernel kIm2col, kIm2col3d, kIm2colBack, kCol2im1d;
extern const Kernel kConv2d, kConv3d, kConv2dDw, kConvTranspose1d, kConvTranspose2d;
extern const Kernel kPool1d, kPool2d, kPool2dBack;
extern const Kernel kUpscale;
extern const Kernel kWinPart, kWinUnpart, kGetRelPos, kAddRelPos;

std::span<const Kernel> vision_kernels() {
    static const std::array kernels{
        kIm2col,   kIm2col3d,        kIm2colBack,      kCol2im1d,  kConv2d,    kConv3d,
        kConv2dDw, kConvTranspose1d, kConvTranspose2d, kPool1d,    kPool2d,    kPool2dBack,
        kUpscale,  kWinPart,         kWinUnpart,       kGetRelPos, kAddRelPos,
    };
    return kernels;
}

}  // namespace heddle::cpu
