// The atom of bf16 and float16 against its lane maps, the transposing read, and the LDS layouts of the dual-wave
// kernel: places, fragments and bank conflicts.
#include <doctest/doctest.h>

#include "reference.h"

#include "waveattn/arch/capability.h"
#include "waveattn/attention/dualwave_layout.h"
#include "waveattn/core/launch.h"

#include <set>

using namespace waveattn;
using namespace waveattn::test;
using Maps = tile::Mfma32x32x16Maps;

namespace {

template <class T, class Arch> __global__ void multiply(const arch::uint4v* a, const arch::uint4v* b, float* d) {
    if constexpr (arch::compiled_for<Arch>) {
        using Atom = tile::Mfma32x32x16<T, Arch>;
        const unsigned lane = arch::lane_id();
        const arch::float16v result = Atom::mma(a[lane], b[lane], arch::float16v{});
        for (int r = 0; r < 16; ++r) d[16 * lane + unsigned(r)] = result[r];
    } else
        arch::trap_stub();
}
__global__ void read_transposed(const short* source, short* target) {
    if constexpr (arch::compiled_for<arch::gfx950>) {
        alignas(16) __shared__ short lds[256];
        const unsigned lane = arch::lane_id();
        for (int i = 0; i < 4; ++i) lds[4 * lane + unsigned(i)] = source[4 * lane + unsigned(i)];
        arch::barrier();
        const arch::short4v got =
            arch::lds_read_transposed_16(arch::lds_pointer<arch::short4v>(arch::lds_offset(lds) + 8 * lane));
        arch::wait_lds<0>();
        for (int i = 0; i < 4; ++i) target[4 * lane + unsigned(i)] = got[i];
    } else
        arch::trap_stub();
}

template <class T> void check_atom() {
    // Small integers: every product and sum is exact.
    float a[32][16], b[16][32];
    for (int i = 0; i < 32; ++i)
        for (int k = 0; k < 16; ++k)
            a[i][k] = float((i * 5 + k * 3) % 11 - 5), b[k][i] = float((i * 7 + k * k) % 13 - 6);
    std::vector<T> pa(512), pb(512);
    for (int lane = 0; lane < 64; ++lane)
        for (int e = 0; e < 8; ++e) {
            pa[std::size_t(8 * lane + e)] = from_float<T>(a[Maps::a_row(lane)][Maps::a_k(lane, e)]);
            pb[std::size_t(8 * lane + e)] = from_float<T>(b[Maps::b_k(lane, e)][Maps::b_col(lane)]);
        }
    DeviceArray<T> da(pa), db(pb);
    DeviceArray<float> dd(1024);
    const auto* qa = reinterpret_cast<const arch::uint4v*>(da.data());
    const auto* qb = reinterpret_cast<const arch::uint4v*>(db.data());
    if (arch::current_device().target == arch::Target::gfx950)
        launch("multiply", multiply<T, arch::gfx950>, 1, 64, 0, nullptr, qa, qb, dd.data());
    else
        launch("multiply", multiply<T, arch::gfx942>, 1, 64, 0, nullptr, qa, qb, dd.data());
    check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
    const auto d = dd.host();
    for (int lane = 0; lane < 64; ++lane)
        for (int r = 0; r < 16; ++r) {
            const int row = Maps::d_row(lane, r), col = Maps::d_col(lane);
            float want = 0;
            for (int k = 0; k < 16; ++k) want += a[row][k] * b[k][col];
            CHECK(d[std::size_t(16 * lane + r)] == want);
        }
}

// The 16-byte pieces [row, chunk] of a tile occupy different places of the slot.
template <class Offset> void check_places(int rows, int chunks, int bytes, Offset offset) {
    std::set<int> places;
    for (int row = 0; row < rows; ++row)
        for (int chunk = 0; chunk < chunks; ++chunk) {
            const int place = offset(row, chunk);
            CHECK(place % 16 == 0);
            CHECK(place + 16 <= bytes);
            places.insert(place);
        }
    CHECK(int(places.size()) == rows * chunks);
}
// Lanes that the LDS of gfx950 serves together in one phase: 16 of a read of 16 bytes (HipKittens' measurements), 32 of
// one of 8 bytes. 64 banks of 4 bytes.
std::vector<std::vector<int>> phases_of_16_bytes() {
    std::vector<std::vector<int>> phases(4);
    for (int lane = 0; lane < 64; ++lane) {
        const int l = lane % 32;
        const bool first = l < 4 || (l >= 12 && l < 16) || (l >= 20 && l < 28);
        phases[std::size_t(2 * (lane / 32) + (first ? 0 : 1))].push_back(lane);
    }
    return phases;
}
void check_banks(const std::vector<int>& lanes, int bytes, const std::vector<int>& addresses) {
    std::set<int> banks;
    for (int lane : lanes)
        for (int b = 0; b < bytes; b += 4) banks.insert((addresses[std::size_t(lane)] + b) / 4 % 64);
    CHECK(int(banks.size()) == int(lanes.size()) * bytes / 4);
}

template <int HeadDim> void check_gfx950_layout() {
    using Lds = detail::DualwaveLdsGfx950<HeadDim>;
    check_places(64, Lds::chunks, Lds::k_bytes, [](int row, int chunk) { return Lds::k_offset(row, chunk); });
    check_places(64, Lds::chunks, Lds::v_bytes, [](int row, int chunk) { return Lds::v_offset(row, chunk); });
    // A load straight to LDS puts lane n's 16 bytes at 16 n of a unit.
    for (int unit = 0; unit < Lds::units; ++unit)
        for (int lane = 0; lane < 64; ++lane) {
            const int place = lane / Lds::chunks, chunk = lane % Lds::chunks;
            CHECK(Lds::k_offset(Lds::k_row(unit, place), chunk) == unit * Lds::k_unit + 16 * lane);
            CHECK(Lds::v_offset(Lds::v_row(unit, place), chunk) == unit * Lds::v_unit + 16 * lane);
        }
    std::vector<int> addresses(64);
    for (int block = 0; block < 2; ++block)
        for (int step = 0; step < HeadDim / 16; ++step) {
            for (int lane = 0; lane < 64; ++lane) {
                addresses[std::size_t(lane)] = Lds::k_fragment(Lds::k_lane(lane), block, step);
                const int row = 32 * block + Maps::a_row(lane), chunk = Lds::k_chunk(step, lane / 32);
                CHECK(addresses[std::size_t(lane)] == Lds::k_offset(row, chunk));
            }
            for (const auto& lanes : phases_of_16_bytes()) check_banks(lanes, 16, addresses);
        }
    for (int step = 0; step < 4; ++step)
        for (int dim_block = 0; dim_block < HeadDim / 32; ++dim_block)
            for (int half = 0; half < 2; ++half) {
                for (int lane = 0; lane < 64; ++lane)
                    addresses[std::size_t(lane)] = Lds::v_fragment(Lds::v_lane(lane), step, dim_block, half);
                // Element j of lane l comes from lane 16 (l / 16) + 4 j + (l % 16) / 4, there element l % 4.
                for (int lane = 0; lane < 64; ++lane)
                    for (int j = 0; j < 4; ++j) {
                        const int from = 16 * (lane / 16) + 4 * j + lane % 16 / 4;
                        const int key = Maps::chained_key(step, lane, 4 * half + j), dim = 32 * dim_block + lane % 32;
                        CHECK(
                            addresses[std::size_t(from)] + 2 * (lane % 4) == Lds::v_offset(key, dim / 8) + dim % 8 * 2);
                    }
                for (int first = 0; first < 64; first += 32) {
                    std::vector<int> lanes;
                    for (int i = 0; i < 32; ++i) lanes.push_back(first + i);
                    check_banks(lanes, 8, addresses);
                }
            }
}
template <int HeadDim> void check_gfx942_layout() {
    using Lds = detail::DualwaveLdsGfx942<HeadDim>;
    check_places(64, Lds::chunks, Lds::k_bytes, [](int row, int chunk) { return Lds::k_offset(row, chunk); });
    for (int block = 0; block < 2; ++block)
        for (int step = 0; step < HeadDim / 16; ++step)
            for (int lane = 0; lane < 64; ++lane)
                CHECK(Lds::k_fragment(Lds::k_lane(lane), block, step) ==
                      Lds::k_offset(32 * block + Maps::a_row(lane), 2 * step + lane / 32));
    std::set<int> places;
    for (int key = 0; key < 64; key += 4)
        for (int dim = 0; dim < HeadDim; ++dim) {
            places.insert(Lds::v_offset(key, dim));
            CHECK(Lds::v_offset(key, dim) + 8 <= Lds::v_bytes);
            CHECK(Lds::v_next_dim(Lds::v_offset(key, dim & ~3), dim % 4) == Lds::v_offset(key, dim));
        }
    // A second chunk of a thread lies so far behind the first, whatever the first is.
    const int apart = 512 / Lds::chunks;
    for (int row = 0; row + apart < 64; ++row)
        for (int chunk = 0; chunk < Lds::chunks; ++chunk)
            CHECK(Lds::k_offset(row + apart, chunk) == Lds::k_offset(row, chunk) + Lds::k_offset(apart, 0));
    // V is written by every fourth dim: half of the 32 banks, twice the clocks of a conflict-free layout. Reads of
    // neighbouring dims have no conflict.
    for (int first = 0; first + 32 <= HeadDim; first += 32)
        for (int d = 0; d < 4; ++d) {
            std::set<int> written, read;
            for (int dim = 0; dim < 32; dim += 4) written.insert(Lds::v_offset(0, first + dim + d) / 4 % 32);
            for (int dim = 0; dim < 8; ++dim) read.insert(Lds::v_offset(0, first + 8 * d + dim) / 16 % 8);
            CHECK(written.size() == 8);
            CHECK(read.size() == 8);
        }
    CHECK(int(places.size()) == 16 * HeadDim);
    for (int step = 0; step < 4; ++step)
        for (int dim_block = 0; dim_block < HeadDim / 32; ++dim_block)
            for (int lane = 0; lane < 64; ++lane)
                for (int e = 0; e < 8; ++e) {
                    const int key = Maps::chained_key(step, lane, e), dim = 32 * dim_block + lane % 32;
                    CHECK(Lds::v_fragment(Lds::v_lane(lane), step, dim_block, 0) + 2 * e ==
                          Lds::v_offset(key & ~3, dim) + key % 4 * 2);
                }
}

} // namespace

TEST_CASE("the atom computes what its lane maps say") {
    check_atom<bfloat16>();
    check_atom<float16>();
}
TEST_CASE("a score tile is the second operand of the next product, in chained_key order") {
    for (int lane = 0; lane < 64; ++lane)
        for (int step = 0; step < 2; ++step)
            for (int e = 0; e < 8; ++e) CHECK(Maps::chained_key(step, lane, e) == Maps::d_row(lane, 8 * step + e));
}
TEST_CASE("the transposing read") {
    if (arch::current_device().target != arch::Target::gfx950) {
        MESSAGE("skipped: gfx942 has no transposing LDS read");
        return;
    }
    std::vector<std::uint16_t> values(256);
    for (std::size_t i = 0; i < 256; ++i) values[i] = std::uint16_t(i * 7 + 1);
    DeviceArray<std::uint16_t> source(values), target(256);
    launch("read_transposed", read_transposed, 1, 64, 0, nullptr, reinterpret_cast<const short*>(source.data()),
        reinterpret_cast<short*>(target.data()));
    check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
    const auto got = target.host();
    for (int lane = 0; lane < 64; ++lane)
        for (int j = 0; j < 4; ++j)
            CHECK(got[std::size_t(4 * lane + j)] ==
                  values[std::size_t(4 * (16 * (lane / 16) + 4 * j + lane % 16 / 4) + lane % 4)]);
}
TEST_CASE("LDS layouts: every chunk has its place, fragments are read where they lie, no bank conflicts") {
    check_gfx950_layout<128>();
    check_gfx950_layout<64>();
    check_gfx942_layout<128>();
    check_gfx942_layout<64>();
}
