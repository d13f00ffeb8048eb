// Lane-loop templates shared by the vector ALU files.
#pragma once
#include "core/internal.h"
#include <immintrin.h>

namespace gfxemu {

inline float h2f(u16 h) { return _cvtsh_ss(h); }
inline u16 f2h(float f) { return (u16)_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT); }
inline float b2f(u16 b) { return std::bit_cast<float>((u32)b << 16); }
inline u16 f2b(float f) {
    u32 u = std::bit_cast<u32>(f);
    if ((u & 0x7fffffff) > 0x7f800000) return (u16)(u >> 16 | 0x40);
    return (u16)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
inline u32 fbits(float f) { return std::bit_cast<u32>(f); }
inline float bitsf(u32 u) { return std::bit_cast<float>(u); }
inline float flush(float f) {
    u32 u = fbits(f);
    return (u & 0x7f800000) ? f : bitsf(u & 0x80000000);
}

// Operand types: T is what the lane function sees.
struct F32 {
    using T = float;
};
struct U32 {
    using T = u32;
};
struct I32 {
    using T = i32;
};
struct F16 {
    using T = float;
};
struct U16 {
    using T = u32;
};
struct I16 {
    using T = i32;
};
struct BF16 {
    using T = float;
};
struct F64 {
    using T = double;
};
struct U64 {
    using T = u64;
};
struct I64 {
    using T = i64;
};

template <class G>
constexpr bool is16 =
    std::is_same_v<G, F16> || std::is_same_v<G, U16> || std::is_same_v<G, I16> || std::is_same_v<G, BF16>;
template <class G> constexpr bool is64 = std::is_same_v<G, F64> || std::is_same_v<G, U64> || std::is_same_v<G, I64>;
template <class G>
constexpr bool is_fp =
    std::is_same_v<G, F32> || std::is_same_v<G, F16> || std::is_same_v<G, F64> || std::is_same_v<G, BF16>;

#define GFX_LANES(w, l, ...)                                                                                           \
    do {                                                                                                               \
        if ((w).lanes == 64) {                                                                                         \
            for (int l = 0; l < 64; l++) {                                                                             \
                __VA_ARGS__;                                                                                           \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int l = 0; l < 32; l++) {                                                                             \
                __VA_ARGS__;                                                                                           \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

void dpp_row(Wave& w, const Inst& i, const u32* in, u32* out, u64& m);

// 32-bit words of operand k; `first` marks src0, which DPP permutes.
template <bool first> inline const u32* raw32(Wave& w, const Inst& i, const Opnd& o, u32* tmp, u64& m, u32 imm) {
    if (o.kind == Opnd::V) {
        const u32* p = w.row(o.reg);
        if (!i.has_mods) [[likely]]
            return p;
        if (first && i.dpp) {
            dpp_row(w, i, p, tmp, m);
            p = tmp;
        }
        if (i.sdwa && (o.sel != 6 || o.sext)) {
            switch (o.sel) {
            case 6: break;
            case 4:
            case 5: {
                int s = (o.sel - 4) * 16;
                if (o.sext)
                    GFX_LANES(w, l, tmp[l] = (u32)(i32)(i16)(p[l] >> s));
                else
                    GFX_LANES(w, l, tmp[l] = p[l] >> s & 0xffff);
                p = tmp;
                break;
            }
            default: {
                int s = o.sel * 8;
                if (o.sext)
                    GFX_LANES(w, l, tmp[l] = (u32)(i32)(i8)(p[l] >> s));
                else
                    GFX_LANES(w, l, tmp[l] = p[l] >> s & 0xff);
                p = tmp;
            }
            }
        }
        return p;
    }
    if (o.lanes && imm == o.imm32 && !i.sdwa) return o.lanes;
    u32 v = o.kind == Opnd::IMM ? imm : rd32(w, o);
    if (i.sdwa && o.sel != 6) {
        if (o.sel >= 4)
            v = v >> ((o.sel - 4) * 16) & 0xffff;
        else
            v = v >> (o.sel * 8) & 0xff;
    }
    GFX_LANES(w, l, tmp[l] = v);
    return tmp;
}

template <class G, bool first>
inline const typename G::T* src(Wave& w, const Inst& i, int k, typename G::T* tmp, u64& m) {
    const Opnd& o = i.op[k];
    if constexpr (is64<G>) {
        if (o.kind == Opnd::V) {
            const u32* a = w.row(o.reg);
            const u32* b = w.row(o.reg + 1);
            alignas(64) u32 ta[64], tb[64];
            if (first && i.dpp) {
                dpp_row(w, i, a, ta, m);
                u64 m2 = m;
                dpp_row(w, i, b, tb, m2);
                a = ta;
                b = tb;
            }
            u64* t = (u64*)tmp;
            GFX_LANES(w, l, t[l] = a[l] | (u64)b[l] << 32);
        } else {
            u64 v = o.kind == Opnd::IMM ? (is_fp<G> ? o.imm64f : o.imm64i) : rd64(w, o);
            u64* t = (u64*)tmp;
            GFX_LANES(w, l, t[l] = v);
        }
        if (is_fp<G> && (o.neg | o.abs)) {
            u64* t = (u64*)tmp;
            u64 am = o.abs ? ~(1ull << 63) : ~0ull, xm = o.neg ? 1ull << 63 : 0;
            GFX_LANES(w, l, t[l] = (t[l] & am) ^ xm);
        }
        return tmp;
    } else if constexpr (is16<G>) {
        alignas(64) u32 t32[64];
        const u32* p = raw32<first>(w, i, o, t32, m, std::is_same_v<G, BF16> ? o.immbf : o.imm16);
        int sh = o.half == 2 && o.kind != Opnd::IMM ? 16 : 0;
        if constexpr (is_fp<G>) {
            u32 am = o.abs ? 0x7fff : 0xffff, xm = o.neg ? 0x8000 : 0;
            GFX_LANES(w, l, u32 h = ((p[l] >> sh) & am) ^ xm;
                tmp[l] = std::is_same_v<G, BF16> ? bitsf(h << 16) : bitsf(h));
            if constexpr (std::is_same_v<G, F16>) {
                u32* t = (u32*)tmp;
                for (int l = 0; l < 64; l += 8) {
                    __m256i x = _mm256_loadu_si256((const __m256i*)(t + l));
                    __m128i lo = _mm256_castsi256_si128(x), hi = _mm256_extracti128_si256(x, 1);
                    _mm256_storeu_ps(tmp + l, _mm256_cvtph_ps(_mm_packus_epi32(lo, hi)));
                }
            }
        } else if constexpr (std::is_same_v<G, I16>)
            GFX_LANES(w, l, tmp[l] = (i32)(i16)(p[l] >> sh));
        else {
            u32 am = o.abs ? 0x7fff : 0xffff, xm = o.neg ? 0x8000 : 0;
            GFX_LANES(w, l, tmp[l] = ((p[l] >> sh) & am) ^ xm);
        }
        return tmp;
    } else {
        const u32* p = raw32<first>(w, i, o, (u32*)tmp, m, o.imm32);
        if (o.neg | o.abs) {
            u32 am = o.abs ? 0x7fffffff : ~0u, xm = o.neg ? 0x80000000 : 0;
            u32* t = (u32*)tmp;
            GFX_LANES(w, l, t[l] = (p[l] & am) ^ xm);
            p = t;
        }
        if constexpr (is_fp<G>) {
            if (w.flush32) {
                u32* t = (u32*)tmp;
                GFX_LANES(w, l, t[l] = p[l] & 0x7f800000 ? p[l] : p[l] & 0x80000000);
                p = t;
            }
        }
        return (const typename G::T*)p;
    }
}

inline void blend32(Wave& w, u32* d, const u32* r, u64 m) {
    if (m == w.full) {
        if (w.lanes == 64)
            std::memcpy(d, r, 256);
        else
            std::memcpy(d, r, 128);
        return;
    }
    u32 lo = (u32)m, hi = (u32)(m >> 32);
    for (int l = 0; l < 32; l++) d[l] = lo >> l & 1 ? r[l] : d[l];
    if (w.lanes == 64)
        for (int l = 0; l < 32; l++) d[32 + l] = hi >> l & 1 ? r[32 + l] : d[32 + l];
}

void sdwa_store(Wave& w, const Inst& i, u32* d, const u32* r, u64 m);

inline void store32(Wave& w, const Inst& i, const Opnd& o, const u32* r, u64 m) {
    if (o.kind != Opnd::V) return;
    if (i.sdwa) [[unlikely]] {
        sdwa_store(w, i, w.row(o.reg), r, m);
        return;
    }
    blend32(w, w.row(o.reg), r, m);
}
inline void store16(Wave& w, const Inst& i, const Opnd& o, const u32* r, u64 m) { // r: values in the low halves
    if (o.kind != Opnd::V) return;
    u32* d = w.row(o.reg);
    if (i.sdwa) {
        sdwa_store(w, i, d, r, m);
        return;
    }
    alignas(64) u32 t[64];
    if (o.half == 2)
        GFX_LANES(w, l, t[l] = (d[l] & 0xffff) | r[l] << 16);
    else if (i.hi16_keep)
        GFX_LANES(w, l, t[l] = (d[l] & 0xffff0000) | (r[l] & 0xffff));
    else
        GFX_LANES(w, l, t[l] = r[l] & 0xffff);
    blend32(w, d, t, m);
}
inline void store64(Wave& w, const Inst&, const Opnd& o, const u64* r, u64 m) {
    if (o.kind != Opnd::V) return;
    alignas(64) u32 a[64], b[64];
    GFX_LANES(w, l, a[l] = (u32)r[l]; b[l] = (u32)(r[l] >> 32));
    blend32(w, w.row(o.reg), a, m);
    blend32(w, w.row(o.reg + 1), b, m);
}

template <class T> inline T fclamp(T x) { return x > T(0) ? (x < T(1) ? x : T(1)) : T(0); }

template <class G> inline void put(Wave& w, const Inst& i, const Opnd& o, typename G::T* r, u64 m) {
    if constexpr (is_fp<G>) {
        // Output modifiers are ignored where output denormals are kept.
        if (i.omod && (std::is_same_v<G, F32> ? w.flush32 : w.flush16)) {
            typename G::T f = i.omod == 1 ? 2 : i.omod == 2 ? 4 : (typename G::T)0.5;
            GFX_LANES(w, l, r[l] *= f);
        }
        if (i.clamp) GFX_LANES(w, l, r[l] = fclamp(r[l]));
    }
    if constexpr (std::is_same_v<G, F32>) {
        if (w.flush32) GFX_LANES(w, l, r[l] = flush(r[l]));
    }
    if constexpr (is64<G>)
        store64(w, i, o, (const u64*)r, m);
    else if constexpr (std::is_same_v<G, F16>) {
        alignas(64) u32 t[64];
        for (int l = 0; l < 64; l += 8)
            _mm256_storeu_si256((__m256i*)(t + l),
                _mm256_cvtepu16_epi32(_mm256_cvtps_ph(_mm256_loadu_ps(r + l), _MM_FROUND_TO_NEAREST_INT)));
        store16(w, i, o, t, m);
    } else if constexpr (std::is_same_v<G, BF16>) {
        alignas(64) u32 t[64];
        GFX_LANES(w, l, t[l] = f2b(r[l]));
        store16(w, i, o, t, m);
    } else if constexpr (is16<G>)
        store16(w, i, o, (const u32*)r, m);
    else
        store32(w, i, o, (const u32*)r, m);
}

// The destination's row where a 32-bit result may be written lane by lane as it is computed: every lane active and
// nothing left to do to it. (A lane's sources are read before its result is written; no other lane sees it.)
template <class D> inline typename D::T* direct_row(Wave& w, const Inst& i, u64 m) {
    if constexpr (is16<D> || is64<D>) return nullptr;
    if (m != w.full || i.op[0].kind != Opnd::V || i.sdwa || (is_fp<D> && (i.clamp || i.omod || w.flush32)))
        return nullptr;
    return (typename D::T*)w.row(i.op[0].reg);
}

// Lanes do not depend on one another, whatever rows overlap.
#ifdef __clang__
#    define GFX_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#    define GFX_INDEPENDENT _Pragma("GCC ivdep")
#endif
#define GFX_INDEPENDENT_LANES(w, l, ...)                                                                               \
    do {                                                                                                               \
        if ((w).lanes == 64) {                                                                                         \
            GFX_INDEPENDENT for (int l = 0; l < 64; l++) { __VA_ARGS__; }                                              \
        } else {                                                                                                       \
            GFX_INDEPENDENT for (int l = 0; l < 32; l++) { __VA_ARGS__; }                                              \
        }                                                                                                              \
    } while (0)

// Computes D from a lane function of the sources.
template <class D, class F> inline void compute(Wave& w, const Inst& i, u64 m, F&& lane) {
    if (auto* d = direct_row<D>(w, i, m)) {
        GFX_INDEPENDENT_LANES(w, l, d[l] = (typename D::T)lane(l));
        return;
    }
    alignas(64) typename D::T r[64];
    GFX_LANES(w, l, r[l] = (typename D::T)lane(l));
    put<D>(w, i, i.op[0], r, m);
}

template <class D, class A, auto F> void op1(Wave& w, const Inst& i) {
    alignas(64) typename A::T ta[64];
    u64 m = w.exec();
    const auto* a = src<A, true>(w, i, 1, ta, m);
    compute<D>(w, i, m, [=](int l) { return F(a[l]); });
}
template <class D, class A, class B, auto F> void op2(Wave& w, const Inst& i) {
    alignas(64) typename A::T ta[64];
    alignas(64) typename B::T tb[64];
    u64 m = w.exec();
    const auto* a = src<A, true>(w, i, 1, ta, m);
    const auto* b = src<B, false>(w, i, 2, tb, m);
    compute<D>(w, i, m, [=](int l) { return F(a[l], b[l]); });
}
template <class D, class A, class B, class C, auto F> void op3(Wave& w, const Inst& i) {
    alignas(64) typename A::T ta[64];
    alignas(64) typename B::T tb[64];
    alignas(64) typename C::T tc[64];
    u64 m = w.exec();
    const auto* a = src<A, true>(w, i, 1, ta, m);
    const auto* b = src<B, false>(w, i, 2, tb, m);
    const auto* c = src<C, false>(w, i, 3, tc, m);
    compute<D>(w, i, m, [=](int l) { return F(a[l], b[l], c[l]); });
}
// The destination is the third source (fmac forms).
template <class D, class A, class B, auto F> void op2acc(Wave& w, const Inst& i) {
    alignas(64) typename A::T ta[64];
    alignas(64) typename B::T tb[64];
    alignas(64) typename D::T tc[64];
    u64 m = w.exec();
    const auto* a = src<A, true>(w, i, 1, ta, m);
    const auto* b = src<B, false>(w, i, 2, tb, m);
    const auto* c = src<D, false>(w, i, 0, tc, m);
    compute<D>(w, i, m, [=](int l) { return F(a[l], b[l], c[l]); });
}

inline u64 pack_mask(const u8* c, int lanes) { // bytes 0 / 1 to bits
    u64 m = 0;
    for (int k = 0; k < lanes; k += 32) {
        __m256i x = _mm256_loadu_si256((const __m256i*)(c + k));
        m |= (u64)(u32)_mm256_movemask_epi8(_mm256_sub_epi8(_mm256_setzero_si256(), x)) << k;
    }
    return m;
}

#define R1(name, D, A, ...) t[name] = {&op1<D, A, []([[maybe_unused]] A::T a) { return (__VA_ARGS__); }>, Cls::valu}
#define RT(name, D, A, ...) t[name] = {&op1<D, A, []([[maybe_unused]] A::T a) { return (__VA_ARGS__); }>, Cls::trans}
#define R2(name, D, A, B, ...)                                                                                         \
    t[name] = {&op2<D, A, B, []([[maybe_unused]] A::T a, [[maybe_unused]] B::T b) { return (__VA_ARGS__); }>, Cls::valu}
#define R3(name, D, A, B, C, ...)                                                                                      \
    t[name] = {                                                                                                        \
        &op3<D, A, B, C,                                                                                               \
            []([[maybe_unused]] A::T a, [[maybe_unused]] B::T b, [[maybe_unused]] C::T c) { return (__VA_ARGS__); }>,  \
        Cls::valu}
#define RA(name, D, A, B, ...)                                                                                         \
    t[name] = {&op2acc<D, A, B, [](A::T a, B::T b, D::T c) { return (__VA_ARGS__); }>, Cls::valu}

} // namespace gfxemu
