// The lane maps of tile/wmma_gfx12.h: as data, and on the device against a CPU product.
#include <doctest/doctest.h>

#include "reference.h"

#include "waveattn/core/launch.h"
#include "waveattn/tile/wmma_gfx12.h"

#include <set>

using namespace waveattn;
using namespace waveattn::test;

namespace {
using Maps = tile::Wmma16x16x16;

// D[row][column] = A[row][k] B[k][column], operands and result placed by the lane maps.
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
        typename Atom::Accumulator c = {};
        c = Atom::mma(a_words, b_words, c);
        for (int r = 0; r < 8; ++r) d[Atom::c_row(lane, r) * 16 + Atom::c_column(lane)] = float(c[r]);
    } else
        arch::trap_stub();
}

// What each lane receives of a row-major 16 x 16 matrix through the transposing load of its element size.
template <class Word> __global__ void load_transposed(const Word* matrix, Word* received) {
    if constexpr (arch::compiled_for<arch::gfx1200>) {
        using Map = tile::TransposedLoad;
        const int lane = int(arch::lane_id());
        if constexpr (sizeof(Word) == 2) {
            const auto fragment = arch::load_transposed_b128(
                (arch::GlobalPointer)(matrix + Map::row_16bit(lane) * 16 + Map::column_16bit(lane)));
            __builtin_memcpy(received + lane * 8, &fragment, sizeof(fragment));
        } else {
            const auto fragment = arch::load_transposed_b64(
                (arch::GlobalPointer)(matrix + Map::row_8bit(lane) * 16 + Map::column_8bit(lane)));
            __builtin_memcpy(received + lane * 8, &fragment, sizeof(fragment));
        }
    } else
        arch::trap_stub();
}

template <class Atom> Difference device_product(bool integers) {
    using T = typename Atom::element;
    std::vector<T> a(256), b(256);
    std::mt19937 random(7);
    for (auto* matrix : {&a, &b})
        for (T& value : *matrix)
            if constexpr (std::is_same_v<T, std::int8_t>)
                value = T(int(random() % 255) - 127);
            else
                value = from_float<T>(
                    integers ? float(int(random() % 17) - 8) : std::uniform_real_distribution<float>(-1, 1)(random));
    const DeviceArray<T> device_a(a), device_b(b);
    const DeviceArray<float> device_d(256);
    launch("multiply", multiply<Atom>, 1, 32, 0, nullptr, device_a.data(), device_b.data(), device_d.data());
    check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
    std::vector<double> want(256, 0.0);
    for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 16; ++j)
            for (int k = 0; k < 16; ++k)
                want[std::size_t(i * 16 + j)] +=
                    double(to_float(a[std::size_t(i * 16 + k)])) * double(to_float(b[std::size_t(k * 16 + j)]));
    return compare(device_d.host(), want);
}

template <class Word> bool transposes() {
    std::vector<Word> matrix(256);
    for (std::size_t i = 0; i < 256; ++i) matrix[i] = Word(i);
    const DeviceArray<Word> source(matrix), received(256);
    launch("load_transposed", load_transposed<Word>, 1, 32, 0, nullptr, source.data(), received.data());
    check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
    const auto got = received.host();
    for (int lane = 0; lane < 32; ++lane)
        for (int e = 0; e < 8; ++e)
            if (got[std::size_t(lane * 8 + e)] != matrix[std::size_t((8 * (lane / 16) + e) * 16 + lane % 16)])
                return false;
    return true;
}
} // namespace

TEST_CASE("every element has exactly one place, and A and B agree on k") {
    std::set<int> a, b, c;
    for (int lane = 0; lane < 32; ++lane)
        for (int e = 0; e < 8; ++e) {
            a.insert(Maps::a_row(lane) * 16 + Maps::a_k(lane, e));
            b.insert(Maps::b_k(lane, e) * 16 + Maps::b_column(lane));
            c.insert(Maps::c_row(lane, e) * 16 + Maps::c_column(lane));
            CHECK(Maps::a_k(lane, e) == Maps::b_k(lane, e));
        }
    CHECK(a.size() == 256);
    CHECK(b.size() == 256);
    CHECK(c.size() == 256);
}

TEST_CASE("the accumulator of one product is the B operand of the next") {
    for (int lane = 0; lane < 32; ++lane)
        for (int e = 0; e < 8; ++e) {
            CHECK(Maps::c_row(lane, e) == Maps::b_k(lane, e));
            CHECK(Maps::c_column(lane) == Maps::b_column(lane));
        }
}

TEST_CASE("the transposing loads address every 8 elements of a row once") {
    std::set<int> wide, narrow;
    for (int lane = 0; lane < 32; ++lane) {
        wide.insert(tile::TransposedLoad::row_16bit(lane) * 16 + tile::TransposedLoad::column_16bit(lane));
        narrow.insert(tile::TransposedLoad::row_8bit(lane) * 16 + tile::TransposedLoad::column_8bit(lane));
    }
    CHECK(wide.size() == 32);
    CHECK(narrow.size() == 32);
}

TEST_CASE("products on the device") {
    // Sums of 16 products below 1 in fp32.
    CHECK(device_product<tile::WmmaBf16>(false).max_abs <= 1e-6);
    CHECK(device_product<tile::WmmaF16>(false).max_abs <= 1e-6);
    CHECK(device_product<tile::WmmaBf16>(true).max_abs == 0);
    CHECK(device_product<tile::WmmaE4m3>(true).max_abs == 0);
    CHECK(device_product<tile::WmmaI8>(true).max_abs == 0);
}

TEST_CASE("transposing loads deliver the A operand of the transposed matrix") {
    CHECK(transposes<std::uint16_t>());
    CHECK(transposes<std::uint8_t>());
}
