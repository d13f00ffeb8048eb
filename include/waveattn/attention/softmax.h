// Softmax along the last axis, through a read and a write operation, in fp32 on every target.
//
//   out[b, h, i, :] = epilogue( exp(in[b, h, i, :] - max) / sum(exp(in[b, h, i, :] - max)) )
//
// Rows may have any length; the input is read twice and nothing is stored in between. A row that holds NaN or
// +infinity, or nothing but -infinity, becomes NaN, as 0/0 does in the formula.
//
// Errors: InvalidArgument for shapes and pointers; UnsupportedDevice. Launches like executeFlashAttention.
#pragma once

#include "waveattn/attention/wave_dispatch.h"
#include "waveattn/core/divide.h"
#include "waveattn/core/launch.h"
#include "waveattn/iop/check.h"
#include "waveattn/tile/lane_group.h"

namespace waveattn {

#ifdef __HIP__

namespace detail {

template <class In, class Out> struct SoftmaxParams {
    In in;
    Out out;
    std::int32_t columns, rows, heads; // rows of a head
    std::int64_t count;                // rows in all
};

inline constexpr int softmax_waves = 4; // of a workgroup

// Each row belongs to RowWaves waves: 1 for short rows, else the whole workgroup.
template <class Arch, int RowWaves> struct SoftmaxDPP {
    static constexpr int threads = RowWaves * Arch::wave_size; // of a row
    static constexpr int width = 4;                            // columns of a read

    template <class Params> WAVEATTN_DEVICE static void exec(const Params& p) {
        const int thread = int(arch::thread_x()) % threads;
        const std::int64_t row =
            std::int64_t(arch::block_x()) * (softmax_waves / RowWaves) + arch::uniform(int(arch::thread_x()) / threads);
        // No barrier is skipped: a workgroup has several rows only where a row is one wave's.
        if (row >= p.count) return;
        const auto plane = std::int32_t(row / p.rows);
        iop::Point at{0, std::int32_t(row % p.rows), plane % p.heads, plane / p.heads, p.heads};

        // The maximum and the sum of exponentials, online.
        float row_max = -arch::infinity, sum = 0.f;
        for (at.dim = thread * width; at.dim < p.columns; at.dim += threads * width) {
            float x[width];
            read(p, at, x);
            float next = row_max;
#    pragma unroll
            for (int i = 0; i < width; ++i) next = arch::max(next, x[i]);
            const float base = next == -arch::infinity ? 0.f : next;
            sum *= exponential(row_max - base);
#    pragma unroll
            for (int i = 0; i < width; ++i) sum += exponential(x[i] - base);
            row_max = next;
        }
        const float thread_max = row_max;
        row_max = reduce(row_max, [](float a, float b) { return arch::max(a, b); });
        sum *= exponential(thread_max - (row_max == -arch::infinity ? 0.f : row_max));
        sum = reduce(sum, [](float a, float b) { return a + b; });
        const float inverse = arch::reciprocal(sum); // infinity for a row of -infinity, whose terms are NaN below

        for (at.dim = thread * width; at.dim < p.columns; at.dim += threads * width) {
            float x[width];
            read(p, at, x);
#    pragma unroll
            for (int i = 0; i < width; ++i) x[i] = exponential(x[i] - row_max) * inverse;
            if constexpr (requires { p.out.write(at, x); }) {
                if (at.dim + width <= p.columns) {
                    p.out.write(at, x);
                    continue;
                }
            }
#    pragma unroll
            for (int i = 0; i < width; ++i) {
                iop::Point one = at;
                one.dim += i;
                if (one.dim < p.columns) p.out.write(one, x[i]);
            }
        }
    }

private:
    // The difference is taken first, so that large values cost no accuracy.
    WAVEATTN_DEVICE static float exponential(float x) { return arch::exp2(x * arch::log2e); }
    // `width` values, -infinity past the end of the row.
    template <class Params> WAVEATTN_DEVICE static void read(const Params& p, iop::Point at, float (&x)[width]) {
        if (at.dim + width <= p.columns)
            p.in.read(at, x);
        else
#    pragma unroll
            for (int i = 0; i < width; ++i) {
                iop::Point one = at;
                one.dim += i;
                x[i] = one.dim < p.columns ? float(p.in.read(one)) : -arch::infinity;
            }
    }
    // Over all threads of the row.
    template <class Combine> WAVEATTN_DEVICE static float reduce(float x, Combine combine) {
        x = tile::wave_reduce(x, combine);
        if constexpr (RowWaves > 1) {
            __shared__ float of_wave[RowWaves];
            arch::barrier();
            if (arch::lane_id() == 0) of_wave[arch::thread_x() / unsigned(Arch::wave_size)] = x;
            arch::barrier();
            x = of_wave[0];
#    pragma unroll
            for (int i = 1; i < RowWaves; ++i) x = combine(x, of_wave[i]);
        }
        return x;
    }
};

template <class Arch, int RowWaves, class Params>
__global__ __launch_bounds__((softmax_waves * Arch::wave_size)) void softmax_kernel(Params params) {
    if constexpr (arch::compiled_for<Arch>)
        SoftmaxDPP<Arch, RowWaves>::exec(params);
    else
        arch::trap_stub();
}

} // namespace detail

// The shape (B, H, rows, columns) is that of the output view.
template <iop::AnyReadOp In, class T, class E>
void executeSoftmax(const In& in, const iop::Write<T, E>& out, hipStream_t stream = nullptr) {
    const auto& shape = out.view.shape;
    detail::check_view("out", out.view, true);
    for (std::int64_t size : shape)
        require<Unsupported>(size < detail::max_count, "more than 2^30 entries along one axis: ", size);
    iop::check_covers("in", in, shape[0], shape[1], shape[2], shape[3]);
    const auto& device = arch::current_device();
    if (out.view.empty()) return;
    const std::int64_t count = shape[0] * shape[1] * shape[2];
    using Params = detail::SoftmaxParams<iop::AsRead<In>, iop::Write<T, E>>;
    const Params params{
        iop::as_read(in), out, std::int32_t(shape[3]), std::int32_t(shape[2]), std::int32_t(shape[1]), count};
    detail::with_wave_size(device, "softmax", [&](auto arch) {
        using Arch = decltype(arch);
        constexpr int waves = detail::softmax_waves, threads = waves * Arch::wave_size;
        if (shape[3] <= 1024)
            launch("softmax", detail::softmax_kernel<Arch, 1, Params>, ceil_div(count, std::int64_t(waves)), threads, 0,
                stream, params);
        else
            launch("softmax", detail::softmax_kernel<Arch, waves, Params>, count, threads, 0, stream, params);
    });
}

// Contiguous (rows, columns).
template <class T, class O, iop::Epilogue E = iop::Chain<>>
void executeSoftmax(
    const T* in, O* out, std::int64_t rows, std::int64_t columns, hipStream_t stream = nullptr, E epilogue = {}) {
    executeSoftmax(
        make_attention_read(in, 1, rows, columns), make_attention_write(out, 1, rows, columns, epilogue), stream);
}

#endif

} // namespace waveattn
