// Do the lane maps of the 8-bit matrix atoms hold, and which fp8 does the target have?
#include "harness.h"

#include "waveattn/attention/sage_attention.h"
#include "waveattn/attention/sage_host.h"

using namespace waveattn;

namespace {

template <class Atom, class Result> __global__ void multiply(const std::uint8_t* a, const std::uint8_t* b, Result* d) {
    if constexpr (arch::compiled_for<arch::any_wave64>) {
        const int lane = int(arch::lane_id());
        std::uint8_t left[Atom::elements], right[Atom::elements];
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

template <class Atom, class Result, class Value> void compare(const char* name, Value value) {
    std::vector<std::uint8_t> a(Atom::rows * Atom::depth), b(Atom::depth * Atom::cols);
    std::mt19937 random(3);
    for (auto* codes : {&a, &b})
        for (auto& code : *codes) code = std::uint8_t(random() % 0x7f);
    const bench::DeviceBuffer<std::uint8_t> device_a(a), device_b(b);
    const bench::DeviceBuffer<Result> d(Atom::rows * Atom::cols);
    launch(name, multiply<Atom, Result>, 1, 64, 0, nullptr, device_a.data(), device_b.data(), d.data());
    std::vector<Result> got(Atom::rows * Atom::cols);
    check_hip(hipMemcpy(got.data(), d.data(), got.size() * sizeof(Result), hipMemcpyDeviceToHost), "hipMemcpy");
    int wrong = 0;
    for (int row = 0; row < Atom::rows; ++row)
        for (int col = 0; col < Atom::cols; ++col) {
            double want = 0;
            for (int k = 0; k < Atom::depth; ++k)
                want += value(a[row * Atom::depth + k]) * value(b[k * Atom::cols + col]);
            wrong += std::abs(double(got[row * Atom::cols + col]) - want) > 1e-5 * std::abs(want);
        }
    std::printf("%s: %d of %zu elements differ\n", name, wrong, got.size());
}

} // namespace

int main() {
    const auto& device = arch::current_device();
    const Fp8Format format = sage_fp8_format(device.target);
    const auto int8 = [](std::uint8_t code) { return double(std::int8_t(code)); };
    const auto fp8 = [&](std::uint8_t code) { return double(sage::decode_fp8(code, format)); };
    std::printf("%s, fp8 %s\n", device.gcn_arch.c_str(), format == Fp8Format::fnuz ? "FNUZ" : "OCP");
    compare<tile::MfmaI32_32x32x16_I8, std::int32_t>("i32_32x32x16_i8", int8);
    compare<tile::MfmaI32_16x16x32_I8, std::int32_t>("i32_16x16x32_i8", int8);
    compare<tile::MfmaF32_32x32x16_Fp8, float>("f32_32x32x16_fp8_fp8", fp8);
    compare<tile::MfmaF32_16x16x32_Fp8, float>("f32_16x16x32_fp8_fp8", fp8);
}
