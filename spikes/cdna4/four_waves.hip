// Is a workgroup of 4 waves x 64 queries better than the dual-wave kernel's 8 x 32? A wave alone on its SIMD has 512
// registers, and a fragment of K or V that it reads from LDS serves two matrix instructions. The main loop of the
// pinned basis, D = 128, one head, whole tiles; scores are taken as they are (basis 0), so only small inputs are right.
#include "harness.h"

#include "waveattn/attention/dualwave_layout.h"
#include "waveattn/core/launch.h"

#include <cmath>
#include <cstdio>
#include <vector>

using namespace waveattn;

namespace {

constexpr int head_dim = 128, block_q = 256;

using Atom = tile::Mfma32x32x16<bfloat16, arch::gfx950>;
using Lds = detail::DualwaveLdsGfx950<head_dim>;
using Slot = arch::LdsPointer<char>;
constexpr int mfmas = 16, k_steps = 8, dim_blocks = 4, lag = 6, meeting = 8, early = 7, loads = 4, row_bytes = 256;
constexpr unsigned below = 4096; // as DualwaveStream::below

struct Wave {
    arch::uint4v q[2][k_steps], fragment[mfmas];
    arch::float16v s[2][2], o[2][dim_blocks];
    float t[2][32], sum[2][2], scale;
    unsigned p[2][16];
    unsigned k_lane, v_lane, k_memory, v_memory, k_at, v_at, unit;
    arch::BufferResource k, v;

    WAVEATTN_DEVICE void read_k(Slot slot, int i) {
        fragment[i] = *(arch::LdsPointer<arch::uint4v>)(slot + Lds::k_fragment(int(k_lane), i / k_steps, i % k_steps));
    }
    WAVEATTN_DEVICE void read_v(Slot slot, int i) {
        const auto half = [&](int n) {
            const int place = Lds::v_fragment(int(v_lane), i / dim_blocks, i % dim_blocks, n);
            return __builtin_bit_cast(
                arch::uint2v, arch::lds_read_transposed_16((arch::LdsPointer<arch::short4v>)(slot + place)));
        };
        fragment[i].lo = half(0), fragment[i].hi = half(1);
    }
    template <int I> WAVEATTN_DEVICE void load_k(Slot slot) {
        constexpr int skip = I * Lds::k_unit;
        arch::buffer_load_to_lds<skip>(
            k, slot + int(unit) * Lds::k_unit, k_memory, k_at + unsigned(I * row_bytes - skip));
        if (I == loads - 1) k_at += 64 * row_bytes;
    }
    template <int I> WAVEATTN_DEVICE void load_v(Slot slot) {
        constexpr int skip = I * Lds::v_unit;
        arch::buffer_load_to_lds<skip>(
            v, slot + int(unit) * Lds::v_unit, v_memory, v_at + unsigned(I * row_bytes - skip));
        if (I == loads - 1) v_at += 64 * row_bytes;
    }
    template <int Reads> WAVEATTN_DEVICE void meet() {
        arch::wait<loads, (Reads < 15 ? Reads : 15)>();
        arch::compiler_fence();
        arch::bare_barrier();
        arch::compiler_fence();
    }
    static constexpr int share(int count, int i, int first, int last) {
        return i < first ? 0 : i >= last ? count : count * (i + 1 - first) / (last + 1 - first);
    }
    static constexpr int score_exponentials(int i) { return share(16, i, 0, 14) + share(early, i, 8, 14); }
    static constexpr int value_exponentials(int i) { return 16 + early + share(16 - early, i, 0, 10); }
    WAVEATTN_DEVICE void exponent(int h, int e) {
        t[h][e] = s[h][e / 16][e % 16] * scale;
        arch::pin(t[h][e]);
    }
    // Exponentials from..to and the pairs that were done a step before.
    WAVEATTN_DEVICE void exponentials(int h, int from, int to, int pair_from, int pair_to) {
#pragma unroll
        for (int e = from; e < to; ++e) {
            t[h][e] = arch::exp2(t[h][e]);
            arch::pin(t[h][e]);
        }
#pragma unroll
        for (int i = pair_from; i < pair_to; ++i) {
            const arch::bf16x2 pair = arch::to_bf16_pair(t[h][2 * i], t[h][2 * i + 1]);
            p[h][i] = __builtin_bit_cast(unsigned, pair);
            sum[h][i % 2] = arch::dot2(pair, arch::bf16x2{1.f, 1.f}, sum[h][i % 2]);
            arch::pin(sum[h][i % 2]);
        }
    }
    WAVEATTN_DEVICE void score_work(int i, int h) {
        exponentials(h, score_exponentials(i - 1), score_exponentials(i), score_exponentials(i - 2) / 2,
            score_exponentials(i - 1) / 2);
#pragma unroll
        for (int e = 2 * i; e < 2 * i + 2 && i < 8; ++e) exponent(h, 16 + e);
    }
    WAVEATTN_DEVICE void value_work(int i, int h) {
        exponentials(h, value_exponentials(i - 1), value_exponentials(i), value_exponentials(i - 2) / 2,
            value_exponentials(i - 1) / 2);
#pragma unroll
        for (int e = share(16, i - 1, 10, 15); e < share(16, i, 10, 15); ++e) exponent(h, e);
    }
    WAVEATTN_DEVICE void score_step(int i, int h) {
        auto& block = s[h][i / k_steps];
        block = Atom::mma(fragment[i], q[h][i % k_steps], i % k_steps == 0 ? arch::float16v{} : block);
        arch::pin(block); // in the half of the registers that VALU instructions reach
    }
    WAVEATTN_DEVICE void value_step(int i, int h) {
        const unsigned* const w = p[h] + i / dim_blocks * 4;
        o[h][i % dim_blocks] = Atom::mma(fragment[i], arch::uint4v{w[0], w[1], w[2], w[3]}, o[h][i % dim_blocks]);
    }
    // The last use of a fragment is in the second half of its step, so the next read into it comes `lag` steps later.
    WAVEATTN_DEVICE void score_phase(Slot k_source, Slot v_source, Slot v_target) {
        arch::wait_lds<2>();
        arch::schedule_barrier();
#pragma unroll
        for (int i = 0; i < mfmas; ++i) {
            if (i == meeting) meet<4>();
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                score_step(i, h);
                arch::schedule_barrier();
                if (h == 0) i < lag ? read_k(k_source, mfmas - lag + i) : read_v(v_source, i - lag);
                score_work(i, h);
                arch::schedule_barrier();
            }
            if (i == 8) load_v<0>(v_target);
            if (i == 10) load_v<1>(v_target);
            if (i == 12) load_v<2>(v_target);
            if (i == 14) load_v<3>(v_target);
            arch::schedule_barrier();
        }
    }
    WAVEATTN_DEVICE void value_phase(Slot v_source, Slot k_source, Slot k_target) {
        arch::wait_lds<4>();
        arch::schedule_barrier();
#pragma unroll
        for (int i = 0; i < mfmas; ++i) {
            if (i == meeting) meet<2>();
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                value_step(i, h);
                arch::schedule_barrier();
                if (h == 0) i < lag ? read_v(v_source, mfmas - lag + i) : read_k(k_source, i - lag);
                value_work(i, h);
                arch::schedule_barrier();
            }
            if (i == 8) load_k<0>(k_target);
            if (i == 10) load_k<1>(k_target);
            if (i == 12) load_k<2>(k_target);
            if (i == 14) load_k<3>(k_target);
            arch::schedule_barrier();
        }
    }
};

__global__ __launch_bounds__(256, 1) void four_waves(
    const bfloat16* q, const bfloat16* k, const bfloat16* v, float* o, int tiles, float scale_log2) {
    if constexpr (arch::compiled_for<arch::gfx950>) {
        alignas(16) __shared__ char k0[Lds::k_bytes], k1[Lds::k_bytes], k2[Lds::k_bytes];
        // K's slots then start beyond 64 KiB, where one base register serves them all.
        constexpr int v_slot = 21856;
        alignas(16) __shared__ char v0[v_slot], v1[v_slot], v2[v_slot];
        const Slot ks[3] = {(Slot)k0, (Slot)k1, (Slot)k2}, vs[3] = {(Slot)v0, (Slot)v1, (Slot)v2};
        const int wave = arch::uniform(int(arch::thread_x() / 64)), lane = int(arch::lane_id());
        Wave w;
        w.scale = scale_log2, w.unit = unsigned(4 * wave);
        w.k_lane = unsigned(Lds::k_lane(lane)), w.v_lane = unsigned(Lds::v_lane(lane));
        w.k_memory = unsigned(Lds::k_row(4 * wave, lane / 16) * row_bytes + lane % 16 * 16);
        w.v_memory = unsigned(Lds::v_row(4 * wave, lane / 16) * row_bytes + lane % 16 * 16);
        w.k_at = w.v_at = below;
        const unsigned bytes = unsigned(tiles) * 64 * row_bytes + below;
        w.k = arch::buffer_resource(reinterpret_cast<const char*>(k) - below, bytes);
        w.v = arch::buffer_resource(reinterpret_cast<const char*>(v) - below, bytes);
        const auto fill = [&](auto slot_k, auto slot_v) {
            if (slot_k) w.load_k<0>(slot_k), w.load_k<1>(slot_k), w.load_k<2>(slot_k), w.load_k<3>(slot_k);
            if (slot_v) w.load_v<0>(slot_v), w.load_v<1>(slot_v), w.load_v<2>(slot_v), w.load_v<3>(slot_v);
        };
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
            for (int step = 0; step < k_steps; ++step)
                w.q[h][step] = *reinterpret_cast<const arch::uint4v*>(
                    q + (64 * wave + 32 * h + lane % 32) * head_dim + 8 * Lds::k_chunk(step, lane / 32));
        fill(ks[0], vs[0]), fill(ks[1], Slot{}), fill(ks[2], Slot{});
        arch::wait<0, 0>();
        arch::bare_barrier();
#pragma unroll
        for (int h = 0; h < 2; ++h) {
#pragma unroll
            for (int d = 0; d < dim_blocks; ++d) w.o[h][d] = arch::float16v{};
            w.sum[h][0] = w.sum[h][1] = 0.f;
        }
#pragma unroll
        for (int i = 0; i < mfmas; ++i) w.read_k(ks[0], i);
#pragma unroll
        for (int i = 0; i < mfmas; ++i) w.score_step(i, 0), w.score_step(i, 1);
        fill(Slot{}, vs[1]);
#pragma unroll
        for (int e = 0; e < 16; ++e) w.exponent(0, e), w.exponent(1, e);
        arch::wait<loads, 0>();
        arch::bare_barrier();
        fill(ks[0], Slot{});
#pragma unroll
        for (int i = 0; i < mfmas - lag; ++i) w.read_k(ks[1], i);
        // Tiles 1.. in rounds of the ring; tiles = 3 n + 1.
#pragma unroll 1
        for (int j = 1; j < tiles; j += 3) {
            w.score_phase(ks[1], vs[0], vs[2]), w.value_phase(vs[0], ks[2], ks[1]);
            w.score_phase(ks[2], vs[1], vs[0]), w.value_phase(vs[1], ks[0], ks[2]);
            w.score_phase(ks[0], vs[2], vs[1]), w.value_phase(vs[2], ks[1], ks[0]);
        }
#pragma unroll
        for (int i = 0; i < mfmas; ++i) w.read_v(vs[0], i);
#pragma unroll
        for (int i = 0; i < mfmas; ++i) w.score_work(i, 0), w.score_work(i, 1);
        arch::wait<0, 0>();
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
            for (int i = 0; i < mfmas; ++i) {
                w.value_step(i, h);
                if (i < 12) w.value_work(i, h);
                arch::schedule_barrier();
            }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float sum = w.sum[h][0] + w.sum[h][1];
            sum += arch::shuffle_xor(sum, 32);
            float* const row = o + (64 * wave + 32 * h + lane % 32) * head_dim;
#pragma unroll
            for (int d = 0; d < dim_blocks; ++d)
#pragma unroll
                for (int r = 0; r < 16; ++r) row[32 * d + Atom::d_row(lane, r)] = w.o[h][d][r] * arch::reciprocal(sum);
        }
    }
}

} // namespace

int main() {
    const int tiles = 31, keys = 64 * tiles;
    bench::Options options;
    options.data = "uniform";
    const auto q = options.tensor<bfloat16>(1, block_q, head_dim, 1),
               k = options.tensor<bfloat16>(1, keys, head_dim, 2), v = options.tensor<bfloat16>(1, keys, head_dim, 3);
    const bench::DeviceBuffer<float> o(block_q * head_dim);
    const float scale = 1 / std::sqrt(float(head_dim));
    launch("four_waves", four_waves, 1, 256, 0, nullptr, q.data(), k.data(), v.data(), o.data(), tiles,
        scale * 1.44269504f);
    std::vector<float> got(block_q * head_dim);
    check_hip(hipMemcpy(got.data(), o.data(), got.size() * sizeof(float), hipMemcpyDeviceToHost), "hipMemcpy");
    const auto values = [&](std::int64_t tokens, unsigned which) {
        auto list = bench::make_values(options.data, 1, tokens, head_dim, options.seed * 16 + which);
        for (float& value : list) value = to_float(from_float<bfloat16>(value));
        return list;
    };
    const auto hq = values(block_q, 1), hk = values(keys, 2), hv = values(keys, 3);
    double error = 0, size = 0;
    for (int i = 0; i < block_q; ++i) {
        std::vector<double> out(head_dim);
        double sum = 0;
        for (int j = 0; j < keys; ++j) {
            double score = 0;
            for (int d = 0; d < head_dim; ++d)
                score += double(hq[std::size_t(i * head_dim + d)]) * double(hk[std::size_t(j * head_dim + d)]);
            const double weight = std::exp(score * double(scale));
            sum += weight;
            for (int d = 0; d < head_dim; ++d)
                out[std::size_t(d)] += weight * double(hv[std::size_t(j * head_dim + d)]);
        }
        for (int d = 0; d < head_dim; ++d) {
            const double want = out[std::size_t(d)] / sum, is = double(got[std::size_t(i * head_dim + d)]);
            error += (is - want) * (is - want), size += want * want;
        }
    }
    std::printf("4 waves x 64 queries: relative L2 %.2g\n", std::sqrt(error / size));
    return error / size < 1e-4 ? 0 : 1;
}
