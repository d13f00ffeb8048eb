#include "matrix/instructions.h"

#include <cstring>
#include <unordered_map>

namespace gfxemu::matrix {
namespace {

constexpr Desc kTable[] = {
    {"v_wmma_f32_16x16x16_f16", k1200, 16, 16, 16, 1, T::f16, T::f16, T::f32, mNegAB | mNegC},
    {"v_wmma_f32_16x16x16_bf16", k1200, 16, 16, 16, 1, T::bf16, T::bf16, T::f32, mNegAB | mNegC},
    {"v_wmma_f16_16x16x16_f16", k1200, 16, 16, 16, 1, T::f16, T::f16, T::f16, mNegAB | mNegC},
    {"v_wmma_bf16_16x16x16_bf16", k1200, 16, 16, 16, 1, T::bf16, T::bf16, T::bf16, mNegAB | mNegC},
    {"v_wmma_f32_16x16x16_fp8_fp8", k1200, 16, 16, 16, 1, T::fp8, T::fp8, T::f32, mNegC},
    {"v_wmma_f32_16x16x16_fp8_bf8", k1200, 16, 16, 16, 1, T::fp8, T::bf8, T::f32, mNegC},
    {"v_wmma_f32_16x16x16_bf8_fp8", k1200, 16, 16, 16, 1, T::bf8, T::fp8, T::f32, mNegC},
    {"v_wmma_f32_16x16x16_bf8_bf8", k1200, 16, 16, 16, 1, T::bf8, T::bf8, T::f32, mNegC},
    {"v_wmma_i32_16x16x16_iu8", k1200, 16, 16, 16, 1, T::iu8, T::iu8, T::i32, mInt},
    {"v_wmma_i32_16x16x16_iu4", k1200, 16, 16, 16, 1, T::iu4, T::iu4, T::i32, mInt},
    {"v_wmma_i32_16x16x32_iu4", k1200, 16, 16, 32, 1, T::iu4, T::iu4, T::i32, mInt},

    {"v_mfma_f32_32x32x1_2b_f32", kCdna, 32, 32, 1, 2, T::f32, T::f32, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_16x16x1_4b_f32", kCdna, 16, 16, 1, 4, T::f32, T::f32, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_4x4x1_16b_f32", kCdna, 4, 4, 1, 16, T::f32, T::f32, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_32x32x2_f32", kCdna, 32, 32, 2, 1, T::f32, T::f32, T::f32, mBlgp},
    {"v_mfma_f32_16x16x4_f32", kCdna, 16, 16, 4, 1, T::f32, T::f32, T::f32, mBlgp},
    {"v_mfma_f32_16x16x8_xf32", k942, 16, 16, 8, 1, T::xf32, T::xf32, T::f32, 0},
    {"v_mfma_f32_32x32x4_xf32", k942, 32, 32, 4, 1, T::xf32, T::xf32, T::f32, 0},
    {"v_mfma_f32_32x32x4_2b_f16", kCdna, 32, 32, 4, 2, T::f16, T::f16, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_16x16x4_4b_f16", kCdna, 16, 16, 4, 4, T::f16, T::f16, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_4x4x4_16b_f16", kCdna, 4, 4, 4, 16, T::f16, T::f16, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_32x32x8_f16", kCdna, 32, 32, 8, 1, T::f16, T::f16, T::f32, 0},
    {"v_mfma_f32_16x16x16_f16", kCdna, 16, 16, 16, 1, T::f16, T::f16, T::f32, 0},
    {"v_mfma_f32_32x32x4_2b_bf16", kCdna, 32, 32, 4, 2, T::bf16, T::bf16, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_16x16x4_4b_bf16", kCdna, 16, 16, 4, 4, T::bf16, T::bf16, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_4x4x4_16b_bf16", kCdna, 4, 4, 4, 16, T::bf16, T::bf16, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_32x32x8_bf16", kCdna, 32, 32, 8, 1, T::bf16, T::bf16, T::f32, 0},
    {"v_mfma_f32_16x16x16_bf16", kCdna, 16, 16, 16, 1, T::bf16, T::bf16, T::f32, 0},
    {"v_mfma_i32_32x32x4_2b_i8", kCdna, 32, 32, 4, 2, T::i8, T::i8, T::i32, mCbsz | mBlgp},
    {"v_mfma_i32_16x16x4_4b_i8", kCdna, 16, 16, 4, 4, T::i8, T::i8, T::i32, mCbsz | mBlgp},
    {"v_mfma_i32_4x4x4_16b_i8", kCdna, 4, 4, 4, 16, T::i8, T::i8, T::i32, mCbsz | mBlgp},
    {"v_mfma_i32_32x32x16_i8", kCdna, 32, 32, 16, 1, T::i8, T::i8, T::i32, 0},
    {"v_mfma_i32_16x16x32_i8", kCdna, 16, 16, 32, 1, T::i8, T::i8, T::i32, 0},
    {"v_mfma_f64_16x16x4_f64", kCdna, 16, 16, 4, 1, T::f64, T::f64, T::f64, mNeg64},
    {"v_mfma_f64_4x4x4_4b_f64", kCdna, 4, 4, 4, 4, T::f64, T::f64, T::f64, mNeg64},
    {"v_mfma_f32_16x16x32_fp8_fp8", kCdna, 16, 16, 32, 1, T::fp8, T::fp8, T::f32, 0},
    {"v_mfma_f32_16x16x32_fp8_bf8", kCdna, 16, 16, 32, 1, T::fp8, T::bf8, T::f32, 0},
    {"v_mfma_f32_16x16x32_bf8_fp8", kCdna, 16, 16, 32, 1, T::bf8, T::fp8, T::f32, 0},
    {"v_mfma_f32_16x16x32_bf8_bf8", kCdna, 16, 16, 32, 1, T::bf8, T::bf8, T::f32, 0},
    {"v_mfma_f32_32x32x16_fp8_fp8", kCdna, 32, 32, 16, 1, T::fp8, T::fp8, T::f32, 0},
    {"v_mfma_f32_32x32x16_fp8_bf8", kCdna, 32, 32, 16, 1, T::fp8, T::bf8, T::f32, 0},
    {"v_mfma_f32_32x32x16_bf8_fp8", kCdna, 32, 32, 16, 1, T::bf8, T::fp8, T::f32, 0},
    {"v_mfma_f32_32x32x16_bf8_bf8", kCdna, 32, 32, 16, 1, T::bf8, T::bf8, T::f32, 0},

    {"v_mfma_f32_16x16x32_f16", k950, 16, 16, 32, 1, T::f16, T::f16, T::f32, 0},
    {"v_mfma_f32_32x32x16_f16", k950, 32, 32, 16, 1, T::f16, T::f16, T::f32, 0},
    {"v_mfma_f32_16x16x32_bf16", k950, 16, 16, 32, 1, T::bf16, T::bf16, T::f32, 0},
    {"v_mfma_f32_32x32x16_bf16", k950, 32, 32, 16, 1, T::bf16, T::bf16, T::f32, 0},
    {"v_mfma_i32_16x16x64_i8", k950, 16, 16, 64, 1, T::i8, T::i8, T::i32, 0},
    {"v_mfma_i32_32x32x32_i8", k950, 32, 32, 32, 1, T::i8, T::i8, T::i32, 0},
    {"v_mfma_f32_16x16x128_f8f6f4", k950, 16, 16, 128, 1, T::any8, T::any8, T::f32, mFormat},
    {"v_mfma_f32_32x32x64_f8f6f4", k950, 32, 32, 64, 1, T::any8, T::any8, T::f32, mFormat},
    {"v_mfma_scale_f32_16x16x128_f8f6f4", k950, 16, 16, 128, 1, T::any8, T::any8, T::f32, mFormat | mScale},
    {"v_mfma_scale_f32_32x32x64_f8f6f4", k950, 32, 32, 64, 1, T::any8, T::any8, T::f32, mFormat | mScale},
};

// Input slot (lane, e), e counting elements upwards through the lane's registers -> (block, row or column, k).
struct Pos {
    int block, i, k;
};

Pos ab_pos(const Desc& d, T t, int lane, int e) {
    const int i = lane % d.m, group = lane / d.m; // m == n for every instruction of the table
    if (d.arches == k1200) {
        const int per = d.k / 2; // two lane halves
        // 16-bit inputs alternate halves every four k; narrower ones give each half a contiguous run.
        if (bits_per(t) == 16) return {0, i, 8 * (e / 4) + 4 * group + e % 4};
        return {0, i, per * group + e};
    }
    if (d.cd == T::f64) return d.m == 4 ? Pos{group % 4, i, group / 4} : Pos{0, i, group};
    if (d.blocks > 1) return {group, i, e};
    const int groups = 64 / d.m, per = d.k / groups;
    // An 8-bit operand of f8f6f4 fills two halves of four registers, each half covering half of K.
    if ((d.mods & mFormat) && bits_per(t) == 8) return {0, i, (d.k / 2) * (e / 16) + 16 * group + e % 16};
    return {0, i, per * group + e};
}

struct PosC {
    int block, i, j;
};

PosC cd_pos(const Desc& d, int lane, int e) {
    const int j = lane % d.n, group = lane / d.n;
    if (d.arches == k1200) return {0, 8 * group + e, j};
    if (d.cd == T::f64) return d.m == 4 ? PosC{group % 4, group / 4, j} : PosC{0, 4 * e + group, j};
    if (d.m == 4) return {group, e, j};
    const int groups = 64 / d.m, per_block = d.m / groups, r = e % per_block;
    return {e / per_block, 4 * groups * (r / 4) + 4 * group + r % 4, j};
}

struct Registry {
    std::vector<Entry> entries;
    std::unordered_map<std::string, const Entry*> by_name[4];

    static int arch_bit(Arch a) {
        return a == Arch::gfx1200 ? k1200 : a == Arch::gfx942 ? k942 : a == Arch::gfx950 ? k950 : 0;
    }

    Registry() {
        entries.reserve(std::size(kTable));
        for (const Desc& d : kTable) {
            Entry e;
            e.d = &d;
            e.lanes = d.arches == k1200 ? 32 : 64;
            e.groups = e.lanes / d.m;
            e.a_elems = d.m * d.k * d.blocks / e.lanes;
            e.c_elems = d.m * d.n * d.blocks / e.lanes;
            for (int narrow = 0; narrow < (d.mods & mFormat ? 2 : 1); ++narrow)
                for (int g = 0; g < e.groups; ++g)
                    for (int x = 0; x < e.a_elems; ++x) {
                        const Pos p = ab_pos(d, narrow ? T::fp4 : d.a, g * d.m, x);
                        e.ab_row[narrow].push_back(uint16_t(p.block * d.k + p.k));
                    }
            for (int g = 0; g < e.groups; ++g)
                for (int x = 0; x < e.c_elems; ++x) {
                    const PosC p = cd_pos(d, g * d.m, x);
                    e.cd_row.push_back(uint16_t(p.block * d.m + p.i));
                }
            entries.push_back(std::move(e));
        }
        for (const Entry& e : entries)
            for (Arch a : {Arch::gfx1200, Arch::gfx942, Arch::gfx950})
                if (e.d->arches & arch_bit(a))
                    for (const std::string& n : spellings(*e.d)) by_name[int(a)].emplace(n, &e);
    }

    // The printed name, and the older spelling without block count and inner underscore ("32x32x8f16",
    // "32x32x8bf16_1k").
    static std::vector<std::string> spellings(const Desc& d) {
        std::vector<std::string> out{d.name};
        std::string s = d.name;
        for (const char* b : {"_2b_", "_4b_", "_16b_"})
            if (const size_t at = s.find(b); at != std::string::npos) s.erase(at, std::strlen(b) - 1);
        const bool mfma = s.compare(0, 7, "v_mfma_") == 0, one_k = mfma && d.a == T::bf16 && d.arches == kCdna;
        std::string joined = s;
        joined.erase(joined.find('_', joined.find('x')), 1);
        if (one_k) {
            s += "_1k";
            joined += "_1k";
        }
        out.push_back(s);
        if (mfma) out.push_back(joined);
        return out;
    }
};

const Registry& registry() {
    static const Registry r;
    return r;
}

} // namespace

const Entry* find(Arch arch, std::string_view name) {
    for (const char* suffix : {"_e32", "_e64"})
        if (name.size() > 4 && name.substr(name.size() - 4) == suffix) name.remove_suffix(4);
    const auto& map = registry().by_name[int(arch)];
    static thread_local std::string key;
    key.assign(name.data(), name.size());
    const auto it = map.find(key);
    return it == map.end() ? nullptr : it->second;
}

T format_of(uint32_t code) {
    static const T formats[] = {T::fp8, T::bf8, T::fp6, T::bf6, T::fp4};
    if (code > 4) throw std::invalid_argument("f8f6f4: format selector " + std::to_string(code) + " is not defined");
    return formats[code];
}

[[noreturn]] void unsupported(const Desc& d, const char* what) {
    throw std::invalid_argument(std::string(d.name) + ": " + what + " is not implemented");
}

void check_mods(const Desc& d, const MatrixMods& m) {
    const bool wmma = d.arches == k1200;
    if (wmma) {
        if (m.cbsz || m.abid || m.blgp) unsupported(d, "cbsz/abid/blgp");
        if (m.op_sel) unsupported(d, "op_sel");
        if (d.mods & mInt) {
            if ((m.neg_lo & 4) || (m.neg_hi & 7)) unsupported(d, "neg of an integer accumulator");
        } else {
            if (m.clamp) unsupported(d, "clamp");
            if (!(d.mods & mNegAB) && ((m.neg_lo | m.neg_hi) & 3)) unsupported(d, "neg of an 8-bit operand");
        }
        return;
    }
    if (m.clamp) unsupported(d, "clamp");
    if (!(d.mods & mScale) && m.op_sel) unsupported(d, "op_sel");
    if (!(d.mods & mNeg64) && (m.neg_lo || m.neg_hi)) unsupported(d, "neg");
    if (d.mods & mFormat) {
        if (m.abid) unsupported(d, "abid");
        return;
    }
    if (!(d.mods & mCbsz) && (m.cbsz || m.abid)) unsupported(d, "cbsz/abid");
    if (!(d.mods & (mBlgp | mNeg64)) && m.blgp) unsupported(d, "blgp");
    if (m.blgp > 7) unsupported(d, "blgp");
    if (m.cbsz > 4 || (1 << m.cbsz) > d.blocks || m.abid >= (1u << m.cbsz)) unsupported(d, "cbsz/abid out of range");
}

} // namespace gfxemu::matrix
