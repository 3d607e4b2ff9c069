#pragma once

#include <array>

#include "ops/acc_set.hpp"
#include "ops/add1.hpp"
#include "ops/add_id.hpp"
#include "ops/backward.hpp"
#include "ops/binary.hpp"
#include "ops/clamp.hpp"
#include "ops/concat.hpp"
#include "ops/convolution.hpp"
#include "ops/copy.hpp"
#include "ops/custom.hpp"
#include "ops/dsv4.hpp"
#include "ops/flash_attn.hpp"
#include "ops/generate.hpp"
#include "ops/glu.hpp"
#include "ops/im2col.hpp"
#include "ops/leaky_relu.hpp"
#include "ops/lightning_indexer.hpp"
#include "ops/loss.hpp"
#include "ops/mask.hpp"
#include "ops/math.hpp"
#include "ops/matmul.hpp"
#include "ops/none.hpp"
#include "ops/norm.hpp"
#include "ops/optimizer.hpp"
#include "ops/pad.hpp"
#include "ops/pool.hpp"
#include "ops/recurrent.hpp"
#include "ops/reduce.hpp"
#include "ops/repeat.hpp"
#include "ops/roll.hpp"
#include "ops/rope.hpp"
#include "ops/rows.hpp"
#include "ops/scale.hpp"
#include "ops/soft_max.hpp"
#include "ops/solve_tri.hpp"
#include "ops/sort.hpp"
#include "ops/state_space.hpp"
#include "ops/triangle.hpp"
#include "ops/unary.hpp"
#include "ops/upscale.hpp"
#include "ops/view.hpp"
#include "ops/window.hpp"

namespace heddle {

/// Descriptors, for tables with a row for each of them.
template <Descriptor... Ds>
struct OpList {
    /// `make.operator()<D>()` of each; row number = number of the op. Does not compile where a
    /// number is missing or named twice.
    template <class Row, class Make>
    static constexpr auto table(const Make& make) {
        std::array<Row, sizeof...(Ds)> rows{};
        std::array<bool, sizeof...(Ds)> seen{};
        const auto add = [&](Op op, const Row& row) {
            const auto number = static_cast<std::size_t>(op);
            if (number >= sizeof...(Ds) || seen[number]) throw "an op is missing or twice";
            seen[number] = true;
            rows[number] = row;
        };
        (add(Ds::id, make.template operator()<Ds>()), ...);
        return rows;
    }

    /// All of them as data.
    static constexpr auto infos() {
        return table<OpInfo>([]<Descriptor D>() constexpr { return kOpInfo<D>; });
    }
};

/// Every op there is. Adding one: its header above, its name in this list.
using AllOps = OpList<
    // plain tensors and views
    ops::None, ops::Reshape, ops::View, ops::Permute, ops::Transpose,
    // element by element
    ops::Add, ops::Sub, ops::Mul, ops::Div, ops::AddId, ops::Add1, ops::Acc, ops::Set,  //
    ops::Sqr, ops::Sqrt, ops::Log, ops::Sin, ops::Cos, ops::Scale, ops::Clamp,          //
    ops::LeakyRelu, ops::Unary, ops::Glu,
    // along rows
    ops::Sum, ops::SumRows, ops::CumSum, ops::Mean, ops::Argmax, ops::CountEqual,  //
    ops::Norm, ops::RmsNorm, ops::GroupNorm, ops::L2Norm, ops::Argsort, ops::TopK,
    // products
    ops::MulMat, ops::MulMatId, ops::OutProd,
    // attention
    ops::DiagMaskInf, ops::DiagMaskZero, ops::SoftMax, ops::Rope, ops::FlashAttnExt,  //
    ops::LightningIndexer, ops::Dsv4HcComb, ops::Dsv4HcPre, ops::Dsv4HcPost,
    // moving and indexing
    ops::Dup, ops::Cpy, ops::Cont, ops::GetRows, ops::SetRows, ops::Repeat, ops::Concat,  //
    ops::Pad, ops::PadReflect1d, ops::Roll,
    // making values
    ops::Arange, ops::TimestepEmbedding, ops::Fill, ops::Diag, ops::Tri, ops::Upscale,
    // images and windows
    ops::ConvTranspose1d, ops::Im2col, ops::Im2col3d, ops::Col2im1d, ops::Conv2d,  //
    ops::Conv3d, ops::Conv2dDw, ops::ConvTranspose2d, ops::Pool1d, ops::Pool2d,    //
    ops::WinPart, ops::WinUnpart, ops::GetRelPos, ops::AddRelPos,
    // recurrences
    ops::SsmConv, ops::SsmScan, ops::RwkvWkv6, ops::RwkvWkv7, ops::GatedLinearAttn,  //
    ops::GatedDeltaNet, ops::SolveTri,
    // the caller's own
    ops::MapCustom1, ops::MapCustom2, ops::MapCustom3, ops::Custom,
    // training
    ops::CrossEntropyLoss, ops::CrossEntropyLossBack, ops::OptStepAdamw, ops::OptStepSgd,  //
    ops::SiluBack, ops::RmsNormBack, ops::GetRowsBack, ops::SoftMaxBack, ops::RopeBack,    //
    ops::RepeatBack, ops::Im2colBack, ops::Pool2dBack, ops::FlashAttnBack>;

/// The rows of all ops, by number.
inline constexpr auto kOps = AllOps::infos();

static_assert(kOps.size() == GGML_OP_COUNT);

}  // namespace heddle
