// The lane maps of the 8-bit matrix atoms against the instructions, and one kernel of the family: quick to compile, for
// the mutation checks too.
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
    DeviceOperands device(host, options.format);
    DeviceArray<float> o(in.q.size());
    if (arch::current_device().target == arch::Target::gfx942)
        attend<arch::gfx942>(device, s, o.data());
    else
        attend<arch::gfx950>(device, s, o.data());
    const Oracle want = quantised_oracle(host, s, Causal::none, options.format);
    CHECK(compare(o.host(), want.o).relative_l2 < 0.034);
    CHECK(o.guards_intact());
}
