// The lane maps of the 8-bit matrix atoms against the instructions, and one kernel of the family, with long tails:
// quick to compile, for the mutation checks too.
#include "sage_support.h"

#include "waveattn/tile/mfma_cdna_8bit.h"

#include <doctest/doctest.h>

using namespace waveattn;
using namespace waveattn::test;

namespace {

// D = A.B of one atom, operands and result as its maps say: a, b and d are matrices in memory.
template <class Atom, class Result> __global__ void multiply(const std::uint8_t* a, const std::uint8_t* b, Result* d) {
    if constexpr (arch::compiled_for<arch::any_wave64>) {
        const int lane = int(arch::lane_id());
        alignas(16) std::uint8_t left[Atom::elements], right[Atom::elements];
        for (int e = 0; e < Atom::elements; ++e) {
            left[e] = a[Atom::a_row(lane) * Atom::depth + Atom::a_k(lane, e)];
            right[e] = b[Atom::b_k(lane, e) * Atom::cols + Atom::b_col(lane)];
        }
        typename Atom::Operand x, y;
        __builtin_memcpy(&x, left, sizeof(x));
        __builtin_memcpy(&y, right, sizeof(y));
        typename Atom::Accumulator sum{};
        sum = Atom::mma(x, y, sum);
        for (int r = 0; r < Atom::registers; ++r) d[Atom::d_row(lane, r) * Atom::cols + Atom::d_col(lane)] = sum[r];
    }
}

template <class Atom, class Result> void check_atom(double (*value)(std::uint8_t)) {
    std::mt19937 random(7);
    std::vector<std::uint8_t> a(std::size_t(Atom::rows * Atom::depth)), b(std::size_t(Atom::depth * Atom::cols));
    for (auto* codes : {&a, &b})
        for (auto& code : *codes) code = std::uint8_t(random() % 256);
    // No NaN codes: of fnuz 0x80, of OCP 0x7f and 0xff.
    for (auto* codes : {&a, &b})
        for (auto& code : *codes)
            if (code == 0x80 || (code & 0x7f) == 0x7f) code = 1;
    DeviceArray<std::uint8_t> device_a(a), device_b(b);
    DeviceArray<Result> d(std::size_t(Atom::rows * Atom::cols));
    launch("multiply", multiply<Atom, Result>, 1, 64, 0, nullptr, device_a.data(), device_b.data(), d.data());
    const auto got = d.host();
    int wrong = 0;
    for (int row = 0; row < Atom::rows; ++row)
        for (int col = 0; col < Atom::cols; ++col) {
            double want = 0, size = 0;
            for (int k = 0; k < Atom::depth; ++k) {
                const double term =
                    value(a[std::size_t(row * Atom::depth + k)]) * value(b[std::size_t(k * Atom::cols + col)]);
                want += term, size += std::abs(term);
            }
            wrong += std::abs(double(got[std::size_t(row * Atom::cols + col)]) - want) > 1e-6 * size;
        }
    CHECK(wrong == 0);
}
double of_int8(std::uint8_t code) { return std::int8_t(code); }
double of_fp8(std::uint8_t code) { return double(sage::decode_fp8(code, device_fp8())); }

template <class Arch> void attend(const DeviceOperands& device, const AttentionShape& s, float* o) {
    const auto out = make_contiguous(o, s.batch, s.heads_q, s.q_len, s.head_dim);
    const AttentionShape checked = detail::check_sage(device.views, out, {});
    detail::SageParams p = detail::sage_params(device.views, checked, {});
    p.o = o, p.o_batch = out.stride[0], p.o_head = out.stride[1], p.o_row = out.stride[2];
    p.output = OutputType::float32, p.wide_stores = true;
    detail::launch_sage<Arch, 64, 4, SageBias::none>(p, checked, nullptr);
}
std::vector<float> attend(const SageHostOperands& host, const AttentionShape& s) {
    DeviceOperands device(host, device_fp8());
    DeviceArray<float> o(host.q.size());
    if (arch::current_device().target == arch::Target::gfx942)
        attend<arch::gfx942>(device, s, o.data());
    else
        attend<arch::gfx950>(device, s, o.data());
    CHECK(o.guards_intact());
    return o.host();
}

} // namespace

TEST_CASE("core: lane maps of the 8-bit atoms") {
    check_atom<tile::MfmaI32_32x32x16_I8, std::int32_t>(of_int8);
    check_atom<tile::MfmaI32_16x16x32_I8, std::int32_t>(of_int8);
    check_atom<tile::MfmaF32_32x32x16_Fp8, float>(of_fp8);
    check_atom<tile::MfmaF32_16x16x32_Fp8, float>(of_fp8);
}

TEST_CASE("core: a kernel is within fp8's error of the oracle") {
    const AttentionShape s{1, 2, 1, 130, 200, 64, 64};
    const SageInputs in = sage_inputs(SageData::gaussian, s, 3);
    const SageHostOptions options{.scale = 0.125f, .format = device_fp8()};
    const SageHostOperands host = sage_quantize_host(in.q, in.k, in.v, s, options);
    const Oracle want = quantised_oracle(host, s, Causal::none, options.format);
    CHECK(compare(attend(host, s), want.o).relative_l2 < 0.034);
}

// One key holds most of a row, thousands of equal ones the rest, each less than fp8 can hold beside it: v is 0 for the
// one and 1 for the others, so o is their share of the weight. Their weights are off by 2^-4 of their size, or by half
// a step of fp8's smallest, which is less than 2^-7 of a row's sum together (sage_kernel.h: least_sum).
TEST_CASE("core: long tails of equal keys") {
    struct Tail {
        int keys, large; // and where the large one is
        float score;
    };
    for (const Tail& tail : {Tail{8192, 0, 10.7f}, {8192, 4097, 9.5f}, {3000, 2, 9.f}, {20000, 0, 12.f},
             {20000, 9000, 13.f}, {700, 699, 8.f}, {131072, 0, 10.7f}}) {
        if (tail.keys > 100000 && !full()) continue;
        CAPTURE(tail.keys);
        CAPTURE(tail.large);
        const AttentionShape s{1, 1, 1, 33, tail.keys, 64, 64};
        SageInputs in{std::vector<float>(33 * 64), std::vector<float>(std::size_t(tail.keys) * 64),
            std::vector<float>(std::size_t(tail.keys) * 64, 1.f)};
        for (std::size_t i = 0; i < in.q.size(); i += 64) in.q[i] = 1.f;
        in.k[std::size_t(tail.large) * 64] = tail.score;
        for (std::size_t d = 0; d < 64; ++d) in.v[std::size_t(tail.large) * 64 + d] = 0.f;
        const SageHostOptions options{.scale = 1.f, .smooth_k = false, .format = device_fp8()};
        const auto o = attend(sage_quantize_host(in.q, in.k, in.v, s, options), s);
        const double others = tail.keys - 1, want = others / (others + std::exp(double(tail.score)));
        double error = 0;
        for (float value : o) {
            REQUIRE(std::isfinite(value));
            error = std::max(error, std::abs(double(value) - want));
        }
        MESSAGE(tail.keys, " keys, the large one is ", tail.large, ": the others hold ", want, ", o is off by ", error);
        CHECK(error < want / 16 + 0x1p-7);
    }
}

// The same with random scores around: rows differ, large keys come again after rows were raised, and what is raised
// must stay in fp8's range. All but the large keys' values have a mean of 1, so that a lost tail shows.
TEST_CASE("core: long tails of random keys") {
    struct Tail {
        int period, first;
        float score;
    };
    for (const Tail& tail : {Tail{8192, 0, 11.f}, {8192, 5000, 11.f}, {1024, 300, 10.f}, {256, 130, 10.f}}) {
        CAPTURE(tail.period);
        CAPTURE(tail.first);
        const AttentionShape s{1, 1, 1, 32, 8192, 64, 64};
        SageInputs in = sage_inputs(SageData::gaussian, s, 5);
        for (std::size_t i = 0; i < in.q.size(); i += 64) in.q[i] = 8.f;
        for (std::size_t j = 0; j < 8192; ++j) {
            const bool large = int(j) % tail.period == tail.first;
            in.k[j * 64] = large ? tail.score : 0.f; // times 8 / sqrt(64)
            for (std::size_t d = 0; d < 64; ++d)
                in.v[j * 64 + d] = large ? 0.05f * in.v[j * 64 + d] : 1.f + 0.3f * in.v[j * 64 + d];
        }
        const SageHostOptions options{.scale = 0.125f, .format = device_fp8()};
        const SageHostOperands host = sage_quantize_host(in.q, in.k, in.v, s, options);
        const Oracle want = quantised_oracle(host, s, Causal::none, options.format);
        const Difference o = compare(attend(host, s), want.o);
        MESSAGE("a large key in ", tail.period, " from ", tail.first, " on: relative L2 ", o.relative_l2);
        CHECK(o.relative_l2 < 0.034);
    }
}
