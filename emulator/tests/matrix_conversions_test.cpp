// Tests of the matrix unit's number formats.
#include "matrix_test.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

using namespace gfxemu;

namespace {

// ---- conversions: every code is compared with a nearest-value search over the decoded set, which shares no code with
// the encoder

float nearest_even(
    float v, const std::vector<std::pair<float, int>>& grid) { // grid sorted by value; ties go to the even code
    auto it = std::lower_bound(grid.begin(), grid.end(), v, [](const auto& g, float x) { return g.first < x; });
    if (it == grid.begin()) return it->first;
    if (it == grid.end()) return grid.back().first;
    const auto lo = *(it - 1), hi = *it;
    const double dl = double(v) - lo.first, dh = double(hi.first) - v;
    if (dl != dh) return dl < dh ? lo.first : hi.first;
    return (lo.second & 1) == 0 ? lo.first : hi.first;
}

void test_fp8() {
    struct Known {
        Arch arch;
        bool e5m2;
        uint8_t code;
        float value;
    };
    // Limits as the OCP OFP8 specification (gfx950, gfx12) and the CDNA3 ISA document (gfx942) state them.
    const Known known[] = {{Arch::gfx950, false, 0x7e, 448.f}, {Arch::gfx950, false, 0x08, 0x1p-6f},
        {Arch::gfx950, false, 0x01, 0x1p-9f}, {Arch::gfx950, false, 0x38, 1.f}, {Arch::gfx1200, false, 0xfe, -448.f},
        {Arch::gfx1200, true, 0x7b, 57344.f}, {Arch::gfx950, true, 0x04, 0x1p-14f},
        {Arch::gfx950, true, 0x01, 0x1p-16f}, {Arch::gfx950, true, 0x3c, 1.f}, {Arch::gfx942, false, 0x7f, 240.f},
        {Arch::gfx942, false, 0x08, 0x1p-7f}, {Arch::gfx942, false, 0x01, 0x1p-10f}, {Arch::gfx942, false, 0x40, 1.f},
        {Arch::gfx942, true, 0x7f, 57344.f}, {Arch::gfx942, true, 0x04, 0x1p-15f}, {Arch::gfx942, true, 0x01, 0x1p-17f},
        {Arch::gfx942, true, 0x40, 1.f}};
    for (const Known& k : known) {
        CHECK(fp8_to_f32(k.arch, k.code, k.e5m2) == k.value);
        CHECK(f32_to_fp8(k.arch, k.value, k.e5m2, false) == k.code);
    }
    for (int code : {0x7f, 0xff}) {
        CHECK(std::isnan(fp8_to_f32(Arch::gfx950, uint8_t(code), false)));
        CHECK(std::isnan(fp8_to_f32(Arch::gfx1200, uint8_t(code), false)));
    }
    for (int code : {0x7d, 0x7e, 0x7f, 0xfd, 0xff}) CHECK(std::isnan(fp8_to_f32(Arch::gfx950, uint8_t(code), true)));
    CHECK(std::isinf(fp8_to_f32(Arch::gfx950, 0x7c, true)) && fp8_to_f32(Arch::gfx950, 0xfc, true) < 0);
    CHECK(std::isnan(fp8_to_f32(Arch::gfx942, 0x80, false)) && std::isnan(fp8_to_f32(Arch::gfx942, 0x80, true)));
    std::mt19937 rng(1);
    for (Arch arch : {Arch::gfx942, Arch::gfx950})
        for (bool e5m2 : {false, true}) {
            std::vector<std::pair<float, int>> grid;
            int finite = 0;
            for (int i = 0; i < 256; ++i) {
                const float v = fp8_to_f32(arch, uint8_t(i), e5m2);
                if (std::isfinite(v)) {
                    ++finite;
                    if (!(i == 0x80 && v == 0)) grid.push_back({v, i});
                }
                if (std::isfinite(v)) CHECK(f32_to_fp8(arch, v, e5m2, false) == i);
            }
            CHECK(finite == (arch == Arch::gfx942 ? 255 : e5m2 ? 248 : 254));
            std::sort(grid.begin(), grid.end());
            const float top = grid.back().first;
            std::vector<float> probe_values;
            for (size_t i = 0; i + 1 < grid.size(); ++i) {
                const float mid = float((double(grid[i].first) + grid[i + 1].first) / 2);
                probe_values.insert(probe_values.end(), {mid, std::nextafter(mid, -1e9f), std::nextafter(mid, 1e9f)});
            }
            std::uniform_int_distribution<uint32_t> any_bits;
            for (int i = 0; i < 200000; ++i) {
                uint32_t b = any_bits(rng);
                b = (b & 0x807fffffu) | ((100u + (b >> 23) % 45u) << 23);
                float v;
                std::memcpy(&v, &b, 4);
                probe_values.push_back(v);
            }
            for (float v : probe_values) {
                if (std::fabs(v) > top) continue;
                const float got = fp8_to_f32(arch, f32_to_fp8(arch, v, e5m2, false), e5m2);
                CHECK(got == nearest_even(v, grid));
            }
            for (float v : {1e6f, 1e30f, 65535.f * 4, std::numeric_limits<float>::infinity()}) {
                CHECK(fp8_to_f32(arch, f32_to_fp8(arch, v, e5m2, true), e5m2) == top);
                CHECK(fp8_to_f32(arch, f32_to_fp8(arch, -v, e5m2, true), e5m2) == -top);
                const float over = fp8_to_f32(arch, f32_to_fp8(arch, v, e5m2, false), e5m2);
                CHECK(arch == Arch::gfx950 && e5m2 ? std::isinf(over) : std::isnan(over));
            }
            CHECK(std::isnan(fp8_to_f32(arch, f32_to_fp8(arch, std::nanf(""), e5m2, true), e5m2)));
            CHECK(f32_to_fp8(arch, -0.f, e5m2, false) == (arch == Arch::gfx942 ? 0 : 0x80));
        }
    // e4m3fn: values up to 464 (midpoint of 448 and the absent 480) round to 448; beyond, overflow.
    CHECK(
        f32_to_fp8(Arch::gfx950, 464.f, false, false) == 0x7e && f32_to_fp8(Arch::gfx950, 465.f, false, false) == 0x7f);
    CHECK(f32_to_fp8(Arch::gfx942, 247.9f, false, false) == 0x7f &&
          f32_to_fp8(Arch::gfx942, 248.f, false, false) == 0x80);
}

void test_half() {
    for (uint32_t i = 0; i < 65536; ++i) {
        const float v = f16_to_f32(uint16_t(i)), hw = float(__builtin_bit_cast(_Float16, uint16_t(i)));
        if (std::isnan(hw)) {
            CHECK(std::isnan(v));
            CHECK(std::isnan(f16_to_f32(f32_to_f16_rne(v))));
        } else {
            CHECK(v == hw && std::signbit(v) == std::signbit(hw));
            CHECK(f32_to_f16_rne(v) == i);
            CHECK(f32_to_f16_rtz(v) == i);
        }
        const float b = bf16_to_f32(uint16_t(i));
        if (std::isnan(b))
            CHECK(std::isnan(bf16_to_f32(f32_to_bf16_rne(b))));
        else
            CHECK(f32_to_bf16_rne(b) == i);
    }
    std::mt19937 rng(2);
    for (int i = 0; i < 500000; ++i) {
        uint32_t b = rng();
        if (i & 1) b = (b & 0x807fffffu) | ((95u + (b >> 23) % 50u) << 23);
        if (i % 3 == 0) b &= 0xffffe000u | (b & 0x1000u); // ties
        float v;
        std::memcpy(&v, &b, 4);
        if (std::isnan(v)) {
            CHECK(std::isnan(f16_to_f32(f32_to_f16_rne(v))));
            continue;
        }
        CHECK(f32_to_f16_rne(v) == __builtin_bit_cast(uint16_t, _Float16(v)));
        const float z = f16_to_f32(f32_to_f16_rtz(v));
        CHECK(std::fabs(z) <= std::fabs(v) && std::signbit(z) == std::signbit(v));
        if (std::isfinite(z))
            CHECK(std::isinf(v) || std::fabs(v) >= 65536.f ||
                  std::fabs(f16_to_f32(uint16_t((f32_to_f16_rtz(v) & 0x7fff) + 1))) > std::fabs(v));
        const float lo = bf16_to_f32(uint16_t(b >> 16)), hi = bf16_to_f32(uint16_t((b >> 16) + 1)),
                    r = bf16_to_f32(f32_to_bf16_rne(v));
        if (std::isfinite(hi) && std::isfinite(v)) {
            const double dl = std::fabs(double(v) - lo), dh = std::fabs(double(hi) - v);
            CHECK(r == (dl < dh || (dl == dh && !((b >> 16) & 1)) ? lo : hi));
        }
    }
}

void test_small() {
    // The OCP microscaling specification lists all e2m1 values; its limits for e2m3, e3m2 and e8m0.
    const float e2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (int i = 0; i < 8; ++i) {
        CHECK(fp4_e2m1_to_f32(uint8_t(i)) == e2m1[i]);
        CHECK(fp4_e2m1_to_f32(uint8_t(i | 8)) == -e2m1[i]);
    }
    CHECK(fp6_e2m3_to_f32(0x1f) == 7.5f && fp6_e2m3_to_f32(0x08) == 1.f && fp6_e2m3_to_f32(0x01) == 0.125f &&
          fp6_e2m3_to_f32(0x3f) == -7.5f);
    CHECK(bf6_e3m2_to_f32(0x1f) == 28.f && bf6_e3m2_to_f32(0x04) == 0.25f && bf6_e3m2_to_f32(0x01) == 0.0625f &&
          bf6_e3m2_to_f32(0x0c) == 1.f);
    CHECK(e8m0_to_f32(127) == 1.f && e8m0_to_f32(0) == 0x1p-127f && e8m0_to_f32(254) == 0x1p127f &&
          std::isnan(e8m0_to_f32(255)));
}

} // namespace

void gfxemu::test_conversions() {
    test_fp8();
    test_half();
    test_small();
}
