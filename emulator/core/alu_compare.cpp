// Vector compares.
#include "core/alu.h"

namespace gfxemu {
namespace {

template <class G, int OP> void vcmp(Wave& w, const Inst& i) {
    alignas(64) typename G::T ta[64], tb[64];
    alignas(64) u8 c[64];
    u64 m = w.exec();
    int s = i.nop == 2 ? 0 : 1; // gfx10+ v_cmpx has no destination
    const auto* a = src<G, true>(w, i, s, ta, m);
    const auto* b = src<G, false>(w, i, s + 1, tb, m);
    std::memset(c, 0, 64);
    auto f = [](auto x, auto y) -> bool {
        switch (OP) {
        case 0: return false;
        case 1: return x < y;
        case 2: return x == y;
        case 3: return x <= y;
        case 4: return x > y;
        case 5: return is_fp<G> ? (x < y || x > y) : x != y;
        case 6: return x >= y;
        case 7: return x == x && y == y;
        case 8: return x != x || y != y;
        case 9: return !(x >= y);
        case 10: return !(x < y || x > y);
        case 11: return !(x > y);
        case 12: return !(x <= y);
        case 13: return !(x == y);
        case 14: return !(x < y);
        default: return true;
        }
    };
    GFX_LANES(w, l, c[l] = f(a[l], b[l]));
    u64 r = pack_mask(c, w.lanes) & m;
    bool x = i.mn[5] == 'x';
    if (!x)
        wr_mask(w, i.op[0], r);
    else {
        if (i.nop == 3) wr_mask(w, i.op[0], r);
        w.set_exec(r);
    }
}
template <class G> void reg_cmp(OpTable& t, const char* ty) {
    std::string s = ty;
    auto add = [&](const char* n, Handler h) {
        t["v_cmp_" + std::string(n) + "_" + s] = {h, Cls::valu};
        t["v_cmpx_" + std::string(n) + "_" + s] = {h, Cls::valu};
    };
    add("f", &vcmp<G, 0>);
    add("lt", &vcmp<G, 1>);
    add("eq", &vcmp<G, 2>);
    add("le", &vcmp<G, 3>);
    add("gt", &vcmp<G, 4>);
    add("ge", &vcmp<G, 6>);
    if (is_fp<G>) {
        add("lg", &vcmp<G, 5>);
        add("o", &vcmp<G, 7>);
        add("u", &vcmp<G, 8>);
        add("nge", &vcmp<G, 9>);
        add("nlg", &vcmp<G, 10>);
        add("ngt", &vcmp<G, 11>);
        add("nle", &vcmp<G, 12>);
        add("neq", &vcmp<G, 13>);
        add("nlt", &vcmp<G, 14>);
        add("tru", &vcmp<G, 15>);
    } else {
        add("ne", &vcmp<G, 5>);
        add("t", &vcmp<G, 15>);
    }
}
// The bit of the class that a value belongs to; eb, mb: exponent and mantissa bits.
u32 float_class(u64 bits, int eb, int mb) {
    u64 e = bits >> mb & ((1ull << eb) - 1), f = bits & ((1ull << mb) - 1);
    bool s = bits >> (eb + mb) & 1;
    if (e == (1ull << eb) - 1) {
        if (f) return f >> (mb - 1) & 1 ? 2 : 1;
        return s ? 4 : 512;
    }
    if (e == 0) {
        if (f == 0) return s ? 32 : 64;
        return s ? 16 : 128;
    }
    return s ? 8 : 256;
}
template <class G> void cmp_class(Wave& w, const Inst& i) {
    alignas(64) typename G::T ta[64];
    alignas(64) u32 tb[64];
    u64 m = w.exec(), r = 0;
    int s = i.nop == 2 ? 0 : 1;
    if constexpr (std::is_same_v<G, F16>) {
        alignas(64) u32 tu[64];
        const u32* a = src<U16, true>(w, i, s, tu, m);
        const u32* b = src<U16, false>(w, i, s + 1, tb, m);
        const Opnd& o = i.op[s];
        for (int l = 0; l < w.lanes; l++) {
            u32 h = a[l];
            if (o.abs) h &= 0x7fff;
            if (o.neg) h ^= 0x8000;
            if (float_class(h, 5, 10) & b[l]) r |= 1ull << l;
        }
    } else {
        bool f32 = w.flush32;
        w.flush32 = false;
        const auto* a = src<G, true>(w, i, s, ta, m);
        const u32* b = src<U32, false>(w, i, s + 1, tb, m);
        w.flush32 = f32;
        for (int l = 0; l < w.lanes; l++) {
            u32 c;
            if constexpr (std::is_same_v<G, F64>)
                c = float_class(std::bit_cast<u64>(a[l]), 11, 52);
            else
                c = float_class(fbits(a[l]), 8, 23);
            if (c & b[l]) r |= 1ull << l;
        }
    }
    r &= m;
    if (i.mn[5] != 'x')
        wr_mask(w, i.op[0], r);
    else {
        if (i.nop == 3) wr_mask(w, i.op[0], r);
        w.set_exec(r);
    }
}

} // namespace

void register_compare(OpTable& t) {
    reg_cmp<F32>(t, "f32");
    reg_cmp<F16>(t, "f16");
    reg_cmp<F64>(t, "f64");
    reg_cmp<I32>(t, "i32");
    reg_cmp<U32>(t, "u32");
    reg_cmp<I16>(t, "i16");
    reg_cmp<U16>(t, "u16");
    reg_cmp<I64>(t, "i64");
    reg_cmp<U64>(t, "u64");
    for (const char* x : {"v_cmp_class_", "v_cmpx_class_"}) {
        std::string s = x;
        t[s + "f32"] = {&cmp_class<F32>, Cls::valu};
        t[s + "f16"] = {&cmp_class<F16>, Cls::valu};
        t[s + "f64"] = {&cmp_class<F64>, Cls::valu};
    }
}

} // namespace gfxemu
