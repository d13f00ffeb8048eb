// Do the bf16 and fp8 WMMA instructions hold their operands where tile/wmma_gfx12.h says? And what does
// global_load_tr_b128 deliver?
//
// Random products against a CPU product in double (bf16: fp32 rounding only; fp8 on small integers: exact), and a
// matrix of its own indices through the transposing load. Run it on a card before trusting another compiler. Exit code
// 0: yes.
#include "waveattn/arch/capability.h"
#include "waveattn/core/launch.h"
#include "waveattn/tile/wmma_gfx12.h"

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

using namespace waveattn;

namespace {

template <class Atom>
__global__ void multiply(const typename Atom::element* a, const typename Atom::element* b, float* d) {
    if constexpr (arch::compiled_for<arch::gfx1200>) {
        const int lane = int(arch::lane_id());
        typename Atom::element a_lane[8], b_lane[8];
        for (int e = 0; e < 8; ++e) {
            a_lane[e] = a[Atom::a_row(lane) * 16 + Atom::a_k(lane, e)];
            b_lane[e] = b[Atom::b_k(lane, e) * 16 + Atom::b_column(lane)];
        }
        typename Atom::Operand a_words, b_words;
        __builtin_memcpy(&a_words, a_lane, sizeof(a_words));
        __builtin_memcpy(&b_words, b_lane, sizeof(b_words));
        const auto c = Atom::mma(a_words, b_words, typename Atom::Accumulator{});
        for (int r = 0; r < 8; ++r) d[Atom::c_row(lane, r) * 16 + Atom::c_column(lane)] = c[r];
    } else
        arch::trap_stub();
}

__global__ void transpose(const std::uint16_t* matrix, std::uint16_t* received) {
    if constexpr (arch::compiled_for<arch::gfx1200>) {
        using Map = tile::TransposedLoad;
        const int lane = int(arch::lane_id());
        const auto fragment = arch::load_transposed_b128(
            (arch::GlobalPointer)(matrix + Map::row_16bit(lane) * 16 + Map::column_16bit(lane)));
        __builtin_memcpy(received + lane * 8, &fragment, sizeof(fragment));
    } else
        arch::trap_stub();
}

template <class T> struct Memory {
    T* data;
    std::size_t count;
    explicit Memory(const std::vector<T>& values) : count(values.size()) {
        check_hip(hipMalloc(&data, count * sizeof(T)), "hipMalloc");
        check_hip(hipMemcpy(data, values.data(), count * sizeof(T), hipMemcpyHostToDevice), "hipMemcpy");
    }
    ~Memory() { (void)hipFree(data); }
    std::vector<T> host() const {
        std::vector<T> values(count);
        check_hip(hipMemcpy(values.data(), data, count * sizeof(T), hipMemcpyDeviceToHost), "hipMemcpy");
        return values;
    }
};

template <class Atom> double largest_error(bool integers) {
    using T = typename Atom::element;
    std::mt19937 random(1);
    double largest = 0;
    for (int round = 0; round < 20; ++round) {
        std::vector<T> a(256), b(256);
        for (auto* matrix : {&a, &b})
            for (T& value : *matrix)
                value = from_float<T>(
                    integers ? float(int(random() % 17) - 8) : std::uniform_real_distribution<float>(-1, 1)(random));
        const Memory<T> device_a(a), device_b(b);
        const Memory<float> device_d(std::vector<float>(256, NAN));
        launch("multiply", multiply<Atom>, 1, 32, 0, nullptr, device_a.data, device_b.data, device_d.data);
        const auto d = device_d.host();
        for (std::size_t i = 0; i < 16; ++i)
            for (std::size_t j = 0; j < 16; ++j) {
                double want = 0;
                for (std::size_t k = 0; k < 16; ++k)
                    want += double(to_float(a[i * 16 + k])) * double(to_float(b[k * 16 + j]));
                const double error = std::abs(d[i * 16 + j] - want);
                if (!(error <= largest)) largest = std::isfinite(error) ? error : 1e9;
            }
    }
    return largest;
}

} // namespace

int main() {
    const arch::Device& device = arch::current_device();
    arch::require_target<arch::gfx1200>(device, "this spike");
    const double bf16 = largest_error<tile::WmmaBf16>(false), fp8 = largest_error<tile::WmmaE4m3>(true);
    std::vector<std::uint16_t> indices(256);
    for (std::size_t i = 0; i < 256; ++i) indices[i] = std::uint16_t(i);
    const Memory<std::uint16_t> matrix(indices), received(std::vector<std::uint16_t>(256));
    launch("transpose", transpose, 1, 32, 0, nullptr, matrix.data, received.data);
    const auto got = received.host();
    int misplaced = 0;
    for (std::size_t lane = 0; lane < 32; ++lane)
        for (std::size_t e = 0; e < 8; ++e) misplaced += got[lane * 8 + e] != (8 * (lane / 16) + e) * 16 + lane % 16;
    std::printf("%s: bf16 max error %.3g, fp8 max error %.3g, elements misplaced by global_load_tr_b128: %d of 256\n",
        device.gcn_arch.c_str(), bf16, fp8, misplaced);
    return bf16 <= 1e-6 && fp8 == 0 && misplaced == 0 ? 0 : 1;
}
