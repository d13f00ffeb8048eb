// Tests of the matrix unit.
//   gfxemu_matrix_test             unit tests (conversions, modifiers, aliasing, spellings); exit 0 when all pass
//   gfxemu_matrix_test probe ...   element map of an instruction, found with one-hot inputs (see matrix_formulas.py)
//   gfxemu_matrix_test run ...     one instruction on registers read from stdin (see matrix_tinygrad.py)
#include "matrix_test.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>

using namespace gfxemu;

namespace {

using Regs = std::vector<uint32_t>;
Regs make(int rows) { return Regs(size_t(rows) * 64, 0u); }

void set_bits(Regs& r, int lane, int bit, int width, uint64_t v) {
    for (int i = 0; i < width; ++i) {
        const int b = bit + i;
        uint32_t& w = r[size_t(b / 32) * 64 + size_t(lane)];
        w = (w & ~(1u << (b % 32))) | uint32_t((v >> i) & 1u) << (b % 32);
    }
}
bool any(const Regs& r, int lane, int bit, int width) {
    for (int i = 0; i < width; ++i) {
        const int b = bit + i;
        if ((r[size_t(b / 32) * 64 + size_t(lane)] >> (b % 32)) & 1u) return true;
    }
    return false;
}

// probe ARCH MNEMONIC LANES A_WIDTH A_COUNT A_ONE B_WIDTH B_COUNT B_ONE D_WIDTH D_COUNT CBSZ ABID BLGP
// (widths in bits, counts in elements a lane, ONE the code of 1.0 in hex). Prints "A_LANE A_BIT B_LANE B_BIT D_LANE
// D_BIT" for every product that reaches an output, then "C C_LANE C_BIT D_LANE D_BIT" for the accumulator and, of a
// scaled instruction, "S A_LANE A_BIT SCALE_LANE" and "T B_LANE B_BIT SCALE_LANE". Nothing here knows a layout.
int probe(char** v) {
    const Arch arch = arch_from_name(v[0]);
    const std::string name = v[1];
    const int lanes = std::atoi(v[2]);
    struct Side {
        int width, count;
        uint64_t one;
    } a{std::atoi(v[3]), std::atoi(v[4]), std::strtoull(v[5], nullptr, 16)},
        b{std::atoi(v[6]), std::atoi(v[7]), std::strtoull(v[8], nullptr, 16)}, d{std::atoi(v[9]), std::atoi(v[10]), 0};
    MatrixMods m;
    m.cbsz = uint32_t(std::atoi(v[11]));
    m.abid = uint32_t(std::atoi(v[12]));
    m.blgp = uint32_t(std::atoi(v[13]));
    Regs one_scale(64, 0x7f7f7f7fu);
    if (name.find("scale") != std::string::npos) m.scale_a = m.scale_b = one_scale.data();
    auto rows = [](const Side& s) { return (s.width * s.count + 31) / 32; };
    const Regs zero_c = make(rows(d));
    const int nb = lanes * b.count;
    std::vector<Regs> planes; // plane p: 1 in every B slot whose number has bit p
    for (int p = 0; (1 << p) < nb; ++p) {
        Regs r = make(rows(b));
        for (int s = 0; s < nb; ++s)
            if ((s >> p) & 1) set_bits(r, s / b.count, s % b.count * b.width, b.width, b.one);
        planes.push_back(std::move(r));
    }
    Regs all = make(rows(b));
    for (int s = 0; s < nb; ++s) set_bits(all, s / b.count, s % b.count * b.width, b.width, b.one);
    Regs out = make(rows(d));
    for (int s = 0; s < lanes * a.count; ++s) {
        Regs ra = make(rows(a));
        set_bits(ra, s / a.count, s % a.count * a.width, a.width, a.one);
        matrix_exec(arch, name, ra.data(), all.data(), zero_c.data(), out.data(), m);
        std::vector<int> hit;
        for (int t = 0; t < lanes * d.count; ++t)
            if (any(out, t / d.count, t % d.count * d.width, d.width)) hit.push_back(t);
        std::vector<int> partner(hit.size(), 0);
        for (size_t p = 0; p < planes.size(); ++p) {
            matrix_exec(arch, name, ra.data(), planes[p].data(), zero_c.data(), out.data(), m);
            for (size_t h = 0; h < hit.size(); ++h)
                if (any(out, hit[h] / d.count, hit[h] % d.count * d.width, d.width)) partner[h] |= 1 << p;
        }
        for (size_t h = 0; h < hit.size(); ++h)
            std::printf("%d %d %d %d %d %d\n", s / a.count, s % a.count * a.width, partner[h] / b.count,
                partner[h] % b.count * b.width, hit[h] / d.count, hit[h] % d.count * d.width);
    }
    const Regs za = make(rows(a)), zb = make(rows(b));
    for (int s = 0; s < lanes * d.count; ++s) {
        Regs rc = make(rows(d));
        set_bits(rc, s / d.count, s % d.count * d.width, d.width,
            d.width == 64   ? 0x3ff0000000000000ull
            : d.width == 16 ? 0x3c00u
                            : 0x3f800000u);
        matrix_exec(arch, name, za.data(), zb.data(), rc.data(), out.data(), m);
        for (int t = 0; t < lanes * d.count; ++t)
            if (any(out, t / d.count, t % d.count * d.width, d.width))
                std::printf("C %d %d %d %d\n", s / d.count, s % d.count * d.width, t / d.count, t % d.count * d.width);
    }
    if (m.scale_a) // which lane's scale an element meets: exponent + 1 where the lane number has bit p
        for (int side = 0; side < 2; ++side) {
            const Side& x = side ? b : a;
            const Side& y = side ? a : b;
            Regs ones = make(rows(y));
            for (int s = 0; s < lanes * y.count; ++s)
                set_bits(ones, s / y.count, s % y.count * y.width, y.width, y.one);
            for (int s = 0; s < lanes * x.count; ++s) {
                Regs hot = make(rows(x));
                set_bits(hot, s / x.count, s % x.count * x.width, x.width, x.one);
                int lane = 0;
                for (int p = 0; p < 6; ++p) {
                    Regs scale(64, 0x7f7f7f7fu);
                    for (int l = 0; l < 64; ++l)
                        if ((l >> p) & 1) scale[size_t(l)] = 0x80808080u;
                    (side ? m.scale_b : m.scale_a) = scale.data();
                    matrix_exec(arch, name, (side ? ones : hot).data(), (side ? hot : ones).data(), zero_c.data(),
                        out.data(), m);
                    if (std::find(out.begin(), out.end(), 0x40000000u) != out.end()) lane |= 1 << p;
                }
                (side ? m.scale_b : m.scale_a) = one_scale.data();
                std::printf("%c %d %d %d\n", side ? 'T' : 'S', s / x.count, s % x.count * x.width, lane);
            }
        }
    return 0;
}

// run ARCH MNEMONIC A_ROWS B_ROWS D_ROWS CBSZ ABID BLGP NEG_LO NEG_HI CLAMP OP_SEL OP_SEL_HI SCALED COUNT
// stdin: COUNT times the little-endian words of A, B, C (rows of 64) and, when SCALED, two scale rows; stdout: the
// words of D.
int run(char** v) {
    const Arch arch = arch_from_name(v[0]);
    const std::string name = v[1];
    const int ar = std::atoi(v[2]), br = std::atoi(v[3]), dr = std::atoi(v[4]);
    MatrixMods m;
    m.cbsz = uint32_t(std::atoi(v[5]));
    m.abid = uint32_t(std::atoi(v[6]));
    m.blgp = uint32_t(std::atoi(v[7]));
    m.neg_lo = uint32_t(std::atoi(v[8]));
    m.neg_hi = uint32_t(std::atoi(v[9]));
    m.clamp = std::atoi(v[10]);
    m.op_sel = uint32_t(std::atoi(v[11]));
    m.op_sel_hi = uint32_t(std::atoi(v[12]));
    const bool scaled = std::atoi(v[13]);
    for (int n = std::atoi(v[14]); n > 0; --n) {
        Regs a = make(ar), b = make(br), c = make(dr), d = make(dr), sa = make(1), sb = make(1);
        for (Regs* r : {&a, &b, &c})
            if (std::fread(r->data(), 4, r->size(), stdin) != r->size()) return 2;
        if (scaled)
            for (Regs* r : {&sa, &sb})
                if (std::fread(r->data(), 4, r->size(), stdin) != r->size()) return 2;
        if (scaled) {
            m.scale_a = sa.data();
            m.scale_b = sb.data();
        }
        matrix_exec(arch, name, a.data(), b.data(), c.data(), d.data(), m);
        std::fwrite(d.data(), 4, d.size(), stdout);
    }
    return 0;
}

// ---- modifiers and arithmetic

void fill_random(Regs& r, std::mt19937& rng) {
    for (uint32_t& w : r) w = rng();
}
float f32_at(const Regs& r, int row, int lane) {
    float v;
    std::memcpy(&v, &r[size_t(row) * 64 + size_t(lane)], 4);
    return v;
}
uint32_t word(float v) {
    uint32_t b;
    std::memcpy(&b, &v, 4);
    return b;
}

void test_semantics() {
    std::mt19937 rng(3);
    auto throws = [](const std::function<void()>& f) {
        try {
            f();
        } catch (const std::invalid_argument&) {
            return true;
        }
        return false;
    };
    { // i8: wraps; all -128 * -128 over 16 k on an accumulator near the limit
        Regs a = make(2), b = make(2), c = make(16), d = make(16);
        std::fill(a.begin(), a.end(), 0x80808080u);
        b = a;
        std::fill(c.begin(), c.end(), 0x7fffffffu);
        matrix_exec(Arch::gfx942, "v_mfma_i32_32x32x16_i8", a.data(), b.data(), c.data(), d.data(), {});
        CHECK(d[5] == 0x7fffffffu + 16u * 16384u);
    }
    { // iu8: signedness per operand, clamp against wrap
        Regs a = make(2), b = make(2), c = make(8), d = make(8);
        std::fill(a.begin(), a.end(), 0xffffffffu);
        std::fill(b.begin(), b.end(), 0x02020202u);
        MatrixMods m;
        matrix_exec(Arch::gfx1200, "v_wmma_i32_16x16x16_iu8", a.data(), b.data(), c.data(), d.data(), m);
        CHECK(d[0] == 255u * 2 * 16);
        m.neg_lo = 1;
        matrix_exec(Arch::gfx1200, "v_wmma_i32_16x16x16_iu8", a.data(), b.data(), c.data(), d.data(), m);
        CHECK(int32_t(d[0]) == -32);
        std::fill(c.begin(), c.end(), 0x80000000u);
        matrix_exec(Arch::gfx1200, "v_wmma_i32_16x16x16_iu8", a.data(), b.data(), c.data(), d.data(), m);
        CHECK(d[0] == 0x80000000u - 32u);
        m.clamp = true;
        matrix_exec(Arch::gfx1200, "v_wmma_i32_16x16x16_iu8", a.data(), b.data(), c.data(), d.data(), m);
        CHECK(d[0] == 0x80000000u);
        m = {};
        m.neg_lo = 2;
        std::fill(b.begin(), b.end(), 0xfefefefeu);
        std::fill(c.begin(), c.end(), 0u);
        matrix_exec(Arch::gfx1200, "v_wmma_i32_16x16x16_iu8", a.data(), b.data(), c.data(), d.data(), m);
        CHECK(int32_t(d[0]) == -2 * 255 * 16);
        std::fill(a.begin(), a.end(), 0xffffffffu);
        std::fill(b.begin(), b.end(), 0x33333333u);
        m.neg_lo = 1;
        matrix_exec(Arch::gfx1200, "v_wmma_i32_16x16x32_iu4", a.data(), b.data(), c.data(), d.data(), m);
        CHECK(int32_t(d[0]) == -3 * 32);
        m.neg_lo = 0;
        matrix_exec(Arch::gfx1200, "v_wmma_i32_16x16x16_iu4", a.data(), b.data(), c.data(), d.data(), m);
        CHECK(d[0] == 15u * 3 * 16);
    }
    { // WMMA neg: low / high halves of A, absolute value then negation of C
        Regs a = make(4), b = make(4), c = make(8), d = make(8);
        std::fill(a.begin(), a.end(), 0x40003f80u);
        std::fill(b.begin(), b.end(), 0x3f803f80u); // bf16 pairs (1, 2) and (1, 1)
        std::fill(c.begin(), c.end(), word(-5.f));
        const char* n = "v_wmma_f32_16x16x16_bf16";
        auto one = [&](uint32_t lo, uint32_t hi) {
            MatrixMods m;
            m.neg_lo = lo;
            m.neg_hi = hi;
            matrix_exec(Arch::gfx1200, n, a.data(), b.data(), c.data(), d.data(), m);
            return f32_at(d, 3, 7);
        };
        CHECK(one(0, 0) == 24 - 5);
        CHECK(one(1, 0) == 8 - 5);
        CHECK(one(0, 1) == -8 - 5);
        CHECK(one(1, 1) == -24 - 5);
        CHECK(one(3, 0) == 24 - 5);
        CHECK(one(4, 0) == 24 + 5);
        CHECK(one(0, 4) == 24 + 5);
        CHECK(one(4, 4) == 24 - 5);
        MatrixMods m;
        m.neg_lo = 1;
        CHECK(throws([&] {
            matrix_exec(Arch::gfx1200, "v_wmma_f32_16x16x16_fp8_fp8", a.data(), b.data(), c.data(), d.data(), m);
        }));
    }
    { // f64 neg
        Regs a = make(2), b = make(2), c = make(8), d = make(8);
        const uint64_t one = 0x3ff0000000000000ull;
        for (int l = 0; l < 64; ++l) {
            set_bits(a, l, 0, 64, one);
            set_bits(b, l, 0, 64, one);
            for (int r = 0; r < 4; ++r) set_bits(c, l, 64 * r, 64, one);
        }
        for (uint32_t neg = 0; neg < 8; ++neg) {
            MatrixMods m;
            m.blgp = neg;
            matrix_exec(Arch::gfx942, "v_mfma_f64_16x16x4_f64", a.data(), b.data(), c.data(), d.data(), m);
            uint64_t bits = d[3] | uint64_t(d[64 + 3]) << 32;
            double v;
            std::memcpy(&v, &bits, 8);
            CHECK(v == ((neg & 1) ^ ((neg >> 1) & 1) ? -4 : 4) + (neg & 4 ? -1 : 1));
        }
    }
    // Aliased C and D give what separate ones give, on every instruction.
    const struct {
        Arch arch;
        const char* names[64];
    } all[] = {
        {Arch::gfx1200, {"v_wmma_f32_16x16x16_f16", "v_wmma_f32_16x16x16_bf16", "v_wmma_f16_16x16x16_f16",
                            "v_wmma_bf16_16x16x16_bf16", "v_wmma_f32_16x16x16_fp8_fp8", "v_wmma_f32_16x16x16_fp8_bf8",
                            "v_wmma_f32_16x16x16_bf8_fp8", "v_wmma_f32_16x16x16_bf8_bf8", "v_wmma_i32_16x16x16_iu8",
                            "v_wmma_i32_16x16x16_iu4", "v_wmma_i32_16x16x32_iu4"}},
        {Arch::gfx942, {"v_mfma_f32_32x32x1_2b_f32", "v_mfma_f32_16x16x1_4b_f32", "v_mfma_f32_4x4x1_16b_f32",
                           "v_mfma_f32_32x32x2_f32", "v_mfma_f32_16x16x4_f32", "v_mfma_f32_16x16x8_xf32",
                           "v_mfma_f32_32x32x4_xf32", "v_mfma_f32_32x32x4_2b_f16", "v_mfma_f32_16x16x4_4b_f16",
                           "v_mfma_f32_4x4x4_16b_f16", "v_mfma_f32_32x32x8_f16", "v_mfma_f32_16x16x16_f16",
                           "v_mfma_f32_32x32x4_2b_bf16", "v_mfma_f32_16x16x4_4b_bf16", "v_mfma_f32_4x4x4_16b_bf16",
                           "v_mfma_f32_32x32x8_bf16", "v_mfma_f32_16x16x16_bf16", "v_mfma_i32_32x32x4_2b_i8",
                           "v_mfma_i32_16x16x4_4b_i8", "v_mfma_i32_4x4x4_16b_i8", "v_mfma_i32_32x32x16_i8",
                           "v_mfma_i32_16x16x32_i8", "v_mfma_f64_16x16x4_f64", "v_mfma_f64_4x4x4_4b_f64",
                           "v_mfma_f32_16x16x32_fp8_fp8", "v_mfma_f32_16x16x32_fp8_bf8", "v_mfma_f32_16x16x32_bf8_fp8",
                           "v_mfma_f32_16x16x32_bf8_bf8", "v_mfma_f32_32x32x16_fp8_fp8", "v_mfma_f32_32x32x16_fp8_bf8",
                           "v_mfma_f32_32x32x16_bf8_fp8", "v_mfma_f32_32x32x16_bf8_bf8"}},
        {Arch::gfx950,
            {"v_mfma_f32_16x16x32_f16", "v_mfma_f32_32x32x16_f16", "v_mfma_f32_16x16x32_bf16",
                "v_mfma_f32_32x32x16_bf16", "v_mfma_i32_16x16x64_i8", "v_mfma_i32_32x32x32_i8",
                "v_mfma_f32_16x16x128_f8f6f4", "v_mfma_f32_32x32x64_f8f6f4", "v_mfma_scale_f32_16x16x128_f8f6f4",
                "v_mfma_scale_f32_32x32x64_f8f6f4", "v_mfma_f32_32x32x16_fp8_fp8", "v_mfma_i32_32x32x16_i8"}}};
    for (const auto& g : all)
        for (const char* n : g.names) {
            if (!n) break;
            MatrixShape s{};
            CHECK(matrix_lookup(g.arch, n, &s));
            CHECK(!matrix_lookup(Arch::gfx1030, n, nullptr));
            Regs a = make(s.a_regs), b = make(s.b_regs), c = make(s.c_regs), d = make(s.d_regs), sc(64, 0x7f807e7fu);
            fill_random(a, rng);
            fill_random(b, rng);
            fill_random(c, rng);
            MatrixMods m;
            m.scale_a = m.scale_b = sc.data();
            matrix_exec(g.arch, n, a.data(), b.data(), c.data(), d.data(), m);
            matrix_exec(g.arch, n, a.data(), b.data(), c.data(), c.data(), m);
            bool same = true;
            for (int r = 0; r < s.d_regs; ++r)
                for (int l = 0; l < wave_size(g.arch); ++l)
                    same &= d[size_t(r) * 64 + size_t(l)] == c[size_t(r) * 64 + size_t(l)];
            CHECK(same);
        }
    CHECK(!matrix_lookup(Arch::gfx950, "v_mfma_f32_16x16x8_xf32", nullptr) &&
          !matrix_lookup(Arch::gfx942, "v_mfma_f32_32x32x16_bf16", nullptr));
    CHECK(!matrix_lookup(Arch::gfx942, "v_mfma_f32_32x32x4bf16", nullptr) &&
          !matrix_lookup(Arch::gfx942, "v_mul_f32", nullptr));
    for (const char* n : {"v_mfma_f32_32x32x8f16", "v_mfma_f32_32x32x8bf16_1k", "v_mfma_f32_32x32x4bf16_1k",
             "v_mfma_f32_32x32x4f16", "v_mfma_i32_32x32x16i8", "v_mfma_f64_16x16x4f64", "v_mfma_f32_32x32x1f32",
             "v_mfma_f32_16x16x8xf32", "v_mfma_f32_4x4x4bf16_1k", "v_mfma_f64_4x4x4f64", "v_mfma_f32_4x4x1f32_e64"})
        CHECK(matrix_lookup(Arch::gfx942, n, nullptr));
    { // modifiers that have no meaning on an instruction are refused
        Regs a = make(8), b = make(8), c = make(32), d = make(32);
        auto bad = [&](Arch arch, const char* n, MatrixMods m) {
            return throws([&] { matrix_exec(arch, n, a.data(), b.data(), c.data(), d.data(), m); });
        };
        MatrixMods m;
        m.cbsz = 1;
        CHECK(bad(Arch::gfx942, "v_mfma_f32_32x32x8_bf16", m));
        CHECK(!bad(Arch::gfx942, "v_mfma_f32_32x32x4_2b_bf16", m));
        m.cbsz = 2;
        CHECK(bad(Arch::gfx942, "v_mfma_f32_32x32x4_2b_bf16", m));
        CHECK(!bad(Arch::gfx950, "v_mfma_f32_32x32x64_f8f6f4", m));
        m.cbsz = 5;
        CHECK(bad(Arch::gfx950, "v_mfma_f32_32x32x64_f8f6f4", m));
        m = {};
        m.clamp = true;
        CHECK(bad(Arch::gfx942, "v_mfma_i32_32x32x16_i8", m));
        m = {};
        CHECK(bad(Arch::gfx950, "v_mfma_scale_f32_32x32x64_f8f6f4", m));
    }
    { // infinities and NaN reach exactly the row and column that they belong to; overflow gives infinity
        Regs a = make(4), b = make(4), c = make(16), d = make(16);
        std::fill(a.begin(), a.end(), 0x3f803f80u);
        b = a;
        set_bits(a, 5, 0, 16, 0x7f80); // row 5
        matrix_exec(Arch::gfx950, "v_mfma_f32_32x32x16_bf16", a.data(), b.data(), c.data(), d.data(), {});
        int inf = 0;
        for (uint32_t w : d) inf += w == 0x7f800000u;
        CHECK(inf == 32);
        set_bits(b, 9, 0, 16, 0); // inf * 0 in column 9
        matrix_exec(Arch::gfx950, "v_mfma_f32_32x32x16_bf16", a.data(), b.data(), c.data(), d.data(), {});
        int nan = 0;
        inf = 0;
        for (uint32_t w : d) {
            nan += w == 0x7fc00000u;
            inf += w == 0x7f800000u;
        }
        CHECK(nan == 1 && inf == 31);
        std::fill(a.begin(), a.end(), 0x7f7f7f7fu);
        std::fill(b.begin(), b.end(), 0x7f7f7f7fu);
        matrix_exec(Arch::gfx950, "v_mfma_f32_32x32x16_bf16", a.data(), b.data(), c.data(), d.data(), {});
        CHECK(d[0] == 0x7f800000u);
    }
    { // bf16 / f16 subnormal inputs count, f32 subnormal results stay
        Regs a = make(4), b = make(4), c = make(16), d = make(16);
        std::fill(a.begin(), a.end(), 0x00010001u);
        std::fill(b.begin(), b.end(), 0x3f803f80u);
        matrix_exec(Arch::gfx950, "v_mfma_f32_32x32x16_bf16", a.data(), b.data(), c.data(), d.data(), {});
        CHECK(d[0] == 16u << 16);
        std::fill(b.begin(), b.end(), 0x3c003c00u);
        matrix_exec(Arch::gfx950, "v_mfma_f32_32x32x16_f16", a.data(), b.data(), c.data(), d.data(), {});
        CHECK(f32_at(d, 0, 0) == 0x1p-20f);
    }
    { // scales: 2^3 on A's second block of 32 k of row 4 only, byte 2 of the word; B's byte 1
        Regs a = make(8), b = make(8), c = make(4), d = make(4), sa(64, 0x7f7f7f7fu), sb(64, 0x7f7f7f7fu);
        std::fill(a.begin(), a.end(), 0x38383838u);
        b = a; // all 1.0
        sa[16 + 4] = 0x7f827f7fu;
        sb[48 + 6] = 0x7f7f807fu; // 2^1 on B's last block, column 6
        MatrixMods m;
        m.scale_a = sa.data();
        m.scale_b = sb.data();
        m.op_sel = 2;
        m.op_sel_hi = 1; // A byte 2, B byte 1
        matrix_exec(Arch::gfx950, "v_mfma_scale_f32_16x16x128_f8f6f4", a.data(), b.data(), c.data(), d.data(), m);
        for (int i = 0; i < 16; ++i)
            for (int j = 0; j < 16; ++j)
                CHECK(f32_at(d, i % 4, 16 * (i / 4) + j) == 128.f + (i == 4 ? 7 * 32 : 0) + (j == 6 ? 32 : 0));
        sa[16 + 4] = 0x7fff7f7fu; // scale NaN
        matrix_exec(Arch::gfx950, "v_mfma_scale_f32_16x16x128_f8f6f4", a.data(), b.data(), c.data(), d.data(), m);
        CHECK(d[0 * 64 + 16 + 3] == 0x7fc00000u && f32_at(d, 1, 16 + 3) == 128.f);
    }
}

// A product's D registers, packed in order, as the B operand of a second product: C2 = A2 * (A1 * B1), with A2's k in
// the order of `key(l, e)`. All values are small integers, exact in bf16.
void chain(Arch arch, const char* first, const char* second, int m, int k1, int tiles, int d_regs, int e2,
    const std::function<int(int, int, int)>& key, const std::function<int(int, int)>& k_of_first,
    const std::function<int(int, int)>& row_of_d) {
    std::mt19937 rng(5);
    const int lanes = wave_size(arch), inner = m * tiles, steps = inner * m / lanes / e2;
    std::vector<int> a1(size_t(inner * k1)), b1(size_t(k1 * m)), a2(size_t(m * inner));
    for (auto* v : {&a1, &b1, &a2})
        for (int& x : *v) x = int(rng() % 3) - 1;
    auto bf = [](int v) { return uint64_t(f32_to_bf16_rne(float(v))); };
    std::vector<int> packed(size_t(inner * m)); // [tile][register][lane]
    const int e1 = k1 * m / lanes;
    for (int t = 0; t < tiles; ++t) {
        Regs a = make(e1 / 2), b = make(e1 / 2), d = make(d_regs);
        for (int l = 0; l < lanes; ++l)
            for (int e = 0; e < e1; ++e) {
                const int k = k_of_first(l, e);
                set_bits(a, l, 16 * e, 16, bf(a1[size_t((t * m + l % m) * k1 + k)]));
                set_bits(b, l, 16 * e, 16, bf(b1[size_t(k * m + l % m)]));
            }
        matrix_exec(arch, first, a.data(), b.data(), d.data(), d.data(), {});
        for (int r = 0; r < d_regs; ++r)
            for (int l = 0; l < lanes; ++l) packed[size_t((t * d_regs + r) * lanes + l)] = int(f32_at(d, r, l));
    }
    Regs c = make(d_regs);
    for (int s = 0; s < steps; ++s) {
        Regs a = make(e2 / 2), b = make(e2 / 2);
        for (int l = 0; l < lanes; ++l)
            for (int e = 0; e < e2; ++e) {
                set_bits(b, l, 16 * e, 16, bf(packed[size_t((s * e2 + e) * lanes + l)]));
                set_bits(a, l, 16 * e, 16, bf(a2[size_t(l % m * inner + key(s, l, e))]));
            }
        matrix_exec(arch, second, a.data(), b.data(), c.data(), c.data(), {});
    }
    for (int l = 0; l < lanes; ++l)
        for (int r = 0; r < d_regs; ++r) {
            const int i = row_of_d(l, r), j = l % m;
            int want = 0;
            for (int x = 0; x < inner; ++x) {
                int p = 0;
                for (int y = 0; y < k1; ++y) p += a1[size_t(x * k1 + y)] * b1[size_t(y * m + j)];
                want += a2[size_t(i * inner + x)] * p;
            }
            CHECK(f32_at(c, r, l) == float(want));
        }
}

void test_chaining() {
    auto d32 = [](int l, int r) { return 8 * (r / 4) + 4 * (l / 32) + r % 4; };
    auto d16 = [](int l, int r) { return 4 * (l / 16) + r; };
    auto d12 = [](int l, int r) { return 8 * (l / 16) + r; };
    auto g8 = [](int m) { return [m](int l, int e) { return 8 * (l / m) + e; }; };
    auto g4 = [](int m) { return [m](int l, int e) { return 4 * (l / m) + e; }; };
    chain(
        Arch::gfx1200, "v_wmma_f32_16x16x16_bf16", "v_wmma_f32_16x16x16_bf16", 16, 16, 1, 8, 8,
        [](int, int l, int e) { return 8 * (l / 16) + e; }, g8(16), d12);
    chain(
        Arch::gfx942, "v_mfma_f32_16x16x16_bf16", "v_mfma_f32_16x16x16_bf16", 16, 16, 1, 4, 4,
        [](int, int l, int e) { return 4 * (l / 16) + e; }, g4(16), d16);
    chain(
        Arch::gfx950, "v_mfma_f32_16x16x32_bf16", "v_mfma_f32_16x16x32_bf16", 16, 32, 2, 4, 8,
        [](int, int l, int e) { return 16 * (e / 4) + 4 * (l / 16) + e % 4; }, g8(16), d16);
    chain(
        Arch::gfx942, "v_mfma_f32_32x32x8_bf16", "v_mfma_f32_32x32x8_bf16", 32, 8, 1, 16, 4,
        [](int s, int l, int e) { return 8 * s + 4 * (l / 32) + e; }, g4(32), d32);
    chain(
        Arch::gfx950, "v_mfma_f32_32x32x16_bf16", "v_mfma_f32_32x32x16_bf16", 32, 16, 1, 16, 8,
        [](int s, int l, int e) { return 16 * s + 8 * (e / 4) + 4 * (l / 32) + e % 4; }, g8(32), d32);
}

} // namespace

int main(int argc, char** argv) {
    if (argc > 15 && !std::strcmp(argv[1], "probe")) return probe(argv + 2);
    if (argc > 16 && !std::strcmp(argv[1], "run")) return run(argv + 2);
    test_conversions();
    test_semantics();
    test_chaining();
    std::printf("%d checks, %d failures\n", checks_run, failures);
    return failures != 0;
}
