// Arithmetic, conversions, exchanges between lanes.
#include "core_test.h"

namespace core_test {

void arithmetic_cases() {
    test("vadd", [&] {
        auto c = build("vadd",
            R"(KERNEL vadd(const float* a, const float* b, float* c, int n) { int i = GID; if (i < n) c[i] = a[i] + b[i]; })");
        int n = 1000;
        Buf<float> a(n), b(n), o(n);
        for (int i = 0; i < n; i++) a[i] = rf(-9, 9), b[i] = rf(-9, 9);
        auto k = run(*c, "vadd", {8}, {128}, Args() << a.p() << b.p() << o.p() << n);
        for (int i = 0; i < n; i++) CHECK(o[i] == a[i] + b[i], "%d: %g", i, o[i]);
        CHECK(k.waves == (wave64() ? 16u : 32u) && k.vmem_load_bytes == 8000 && k.vmem_store_bytes == 4000, "counters");
    });
    test("trans", [&] {
        auto c = build("trans", R"(KERNEL k(const float* a, float* c) { int i = GID; float x = a[i];
            c[i * 8] = __builtin_amdgcn_exp2f(x); c[i * 8 + 1] = __builtin_amdgcn_logf(x); c[i * 8 + 2] = __builtin_amdgcn_rcpf(x); c[i * 8 + 3] = __builtin_amdgcn_rsqf(x);
            c[i * 8 + 4] = __builtin_amdgcn_sqrtf(x); c[i * 8 + 5] = __builtin_amdgcn_sinf(x); c[i * 8 + 6] = __builtin_amdgcn_fractf(x); c[i * 8 + 7] = __builtin_floorf(x) + __builtin_rintf(x); })");
        int n = 256;
        Buf<float> a(n), o(n * 8);
        for (int i = 0; i < n; i++) a[i] = rf(0.01f, 30);
        a[0] = 1;
        a[1] = 120;
        run(*c, "k", {2}, {128}, Args() << a.p() << o.p());
        for (int i = 0; i < n; i++) {
            double x = a[i];
            double e[8] = {std::exp2(x), std::log2(x), 1 / x, 1 / std::sqrt(x), std::sqrt(x),
                std::sin(2 * M_PI * (x - std::floor(x))), x - std::floor(x), std::floor(x) + std::nearbyint(x)};
            for (int j = 0; j < 8; j++)
                CHECK(near(o[i * 8 + j], e[j], 1.2e-7, j == 5 ? 1e-6 : 1e-7), "%d.%d: %g %g (x=%g)", i, j, o[i * 8 + j],
                    e[j], x);
        }
    });
    test("divide", [&] {
        auto c = build("divide",
            R"(KERNEL k(const float* a, const float* b, float* c, double* d) { int i = GID; c[i] = a[i] / b[i]; d[i] = (double)a[i] / (double)b[i]; })");
        int n = 512;
        Buf<float> a(n), b(n), o(n);
        Buf<double> d(n);
        for (int i = 0; i < n; i++)
            a[i] = rf(-100, 100) * std::pow(10.f, rf(-30, 30)), b[i] = rf(-100, 100) * std::pow(10.f, rf(-3, 3));
        a[0] = 0;
        b[1] = 0;
        a[2] = INFINITY;
        b[3] = INFINITY;
        b[4] = 1e-39f;
        a[5] = 1e-40f;
        b[5] = 3;
        run(*c, "k", {4}, {128}, Args() << a.p() << b.p() << o.p() << d.p());
        for (int i = 0; i < n; i++) {
            CHECK(near(o[i], a[i] / b[i], 1e-7, 1e-45), "%d: %g/%g = %g", i, a[i], b[i], o[i]);
            CHECK(near(d[i], (double)a[i] / (double)b[i], 1e-15), "%d f64", i);
        }
    });
    test("intdiv", [&] {
        auto c = build("intdiv",
            R"(KERNEL k(const int* a, const int* b, int* c, const u64* x, u64* y) { int i = GID; c[2 * i] = a[i] / b[i]; c[2 * i + 1] = (u32)a[i] % (u32)b[i]; y[i] = x[i] / (x[i + 1] | 1) + x[i] * x[i + 1]; })");
        int n = 256;
        Buf<int> a(n), b(n), o(2 * n);
        Buf<uint64_t> x(n + 1), y(n);
        for (int i = 0; i < n; i++)
            a[i] = (int)rng(), b[i] = (int)(rng() >> (i % 31)) | 1, x[i] = (uint64_t)rng() << 32 | rng();
        for (int i = 0; i < n; i += 3) x[i] >>= 33;
        run(*c, "k", {2}, {128}, Args() << a.p() << b.p() << o.p() << x.p() << y.p());
        for (int i = 0; i < n; i++) {
            CHECK(o[2 * i] == (int)((long)a[i] / b[i]), "%d: %d/%d = %d", i, a[i], b[i], o[2 * i]);
            CHECK((unsigned)o[2 * i + 1] == (unsigned)a[i] % (unsigned)b[i], "%d mod", i);
            CHECK(y[i] == x[i] / (x[i + 1] | 1) + x[i] * x[i + 1], "%d u64", i);
        }
    });
    test("divide_denormal", [&] { // quotients below the normal range are rounded once, whatever the divisor's size
        auto c = build("dden",
            R"(KERNEL k(const float* a, const float* b, float* c, const double* x, const double* y, double* z) { int i = GID; c[i] = a[i] / b[i]; z[i] = x[i] / y[i]; })");
        int n = 512;
        Buf<float> a(n), b(n), o(n);
        Buf<double> x(n), y(n), z(n);
        for (int i = 0; i < n; i++) {
            a[i] = std::ldexp(rf(-2, 2), (int)(rng() % 40) - 20);
            b[i] = std::ldexp(rf(1, 2), 127 - (int)(rng() % 30));
            x[i] = std::ldexp((double)rf(-2, 2), (int)(rng() % 80) - 40) * (1 + rf(0, 1) * 1e-9);
            y[i] = std::ldexp((double)rf(1, 2) + rf(0, 1) * 1e-9, 1023 - (int)(rng() % 60));
        }
        a[0] = 1;
        b[0] = 0x1.8p127f;
        x[0] = 1;
        y[0] = 0x1.8p1023;
        run(*c, "k", {4}, {128}, Args() << a.p() << b.p() << o.p() << x.p() << y.p() << z.p());
        for (int i = 0; i < n; i++) {
            CHECK(o[i] == a[i] / b[i], "%d: %a / %a = %a, not %a", i, a[i], b[i], o[i], a[i] / b[i]);
            CHECK(z[i] == x[i] / y[i], "%d: %a / %a = %a, not %a", i, x[i], y[i], z[i], x[i] / y[i]);
        }
    });
    test("int8_dequant", [&] {
        auto c = build("deq",
            R"(KERNEL k(const signed char* q, const float* s, float* o, const u8* u, f16* h) { int i = GID; o[i] = (float)q[i] * s[BX]; h[i] = (f16)((float)u[i] - 128.0f) * (f16)s[BX]; })");
        Buf<int8_t> q(256);
        Buf<uint8_t> u(256);
        Buf<float> s(2), o(256);
        Buf<_Float16> h(256);
        for (int i = 0; i < 256; i++) q[i] = (int8_t)rng(), u[i] = (uint8_t)rng();
        s[0] = 0.125f;
        s[1] = 3;
        run(*c, "k", {2}, {128}, Args() << q.p() << s.p() << o.p() << u.p() << h.p());
        for (int i = 0; i < 256; i++) {
            CHECK(o[i] == q[i] * s[i / 128], "%d", i);
            CHECK((float)h[i] == (float)(_Float16)((_Float16)((float)u[i] - 128) * (_Float16)s[i / 128]), "h %d: %g", i,
                (float)h[i]);
        }
    });
    test("half_bf16", [&] {
        auto c = build("half",
            R"(KERNEL k(const float* a, f16* h, bf16* b, float* o, f16x2* p) { int i = GID; float x = a[i]; h[i] = (f16)x; b[i] = (bf16)x; f16 y = (f16)x; o[2 * i] = (float)(y * y + (f16)1.5f); o[2 * i + 1] = (float)b[i] * 2.0f;
            f16x2 v = {y, (f16)(x + 1.0f)}; f16x2 w = {(f16)2.0f, (f16)-3.0f}; p[i] = v * w + v; })");
        int n = 256;
        Buf<float> a(n), o(2 * n);
        Buf<_Float16> h(n), p(2 * n);
        Buf<uint16_t> b(n);
        for (int i = 0; i < n; i++) a[i] = rf(-40, 40);
        a[0] = 1e-6f;
        a[1] = 65519.f;
        a[2] = 1e-8f;
        a[3] = 3e38f;
        run(*c, "k", {2}, {128}, Args() << a.p() << h.p() << b.p() << o.p() << p.p());
        for (int i = 0; i < n; i++) {
            CHECK(std::bit_cast<uint16_t>(h[i]) == std::bit_cast<uint16_t>((_Float16)a[i]), "f16 %d", i);
            CHECK(b[i] == f32_bf(a[i]), "bf16 %d: %x %x", i, b[i], f32_bf(a[i]));
            CHECK(near(o[2 * i + 1], bf(b[i]) * 2, 0), "bf %d", i);
            float y = (float)(_Float16)a[i];
            if (i > 3) CHECK(near(o[2 * i], (double)y * y + 1.5, 1e-3, 1e-3), "fma %d %g", i, o[2 * i]);
            float z = (float)(_Float16)(a[i] + 1);
            if (i > 3)
                CHECK(near((float)p[2 * i], 3.0 * y, 2e-3) && near((float)p[2 * i + 1], -2.0 * z, 2e-3, 1e-3), "pk %d",
                    i);
        }
    });
    test("bitops", [&] {
        auto c = build("bits",
            R"(DEV int min(int a, int b) { return a < b ? a : b; } KERNEL k(const u32* a, u32* o, const u64* q, u64* p) { int i = TX; u32 x = a[i], y = a[i + 1]; u32* r = o + i * 16; r[0] = __builtin_clz(x | 1); r[1] = __builtin_ctz(x | 0x100); r[2] = __builtin_popcount(x); r[3] = __builtin_bitreverse32(x); r[4] = __builtin_amdgcn_perm(x, y, 0x0c050207); r[5] = __builtin_amdgcn_ubfe(x, 5, 9); r[6] = __builtin_amdgcn_sbfe(x, 7, 11); r[7] = __builtin_amdgcn_alignbit(x, y, 13);
            r[8] = (x << 7) | (x >> 25); r[9] = (x & y) | (~x & 0x1234); r[10] = __builtin_amdgcn_sad_u8(x, y, 3); r[11] = (x * y) >> 3; r[12] = (u32)(((u64)x * y) >> 32); r[13] = (x & 0xffffff) * (y & 0xffffff); r[14] = min((int)x, (int)y); r[15] = x > y ? x - y : y - x; p[2 * i] = (q[i] << (x & 63)) ^ (q[i] >> (y & 63)); p[2 * i + 1] = (u64)((long)q[i] >> (x & 31)) + (q[i] < q[i + 1] ? 5 : q[i + 1]); })");
        Buf<uint32_t> a(65), o(1024);
        Buf<uint64_t> q(65), p(128);
        for (int i = 0; i < 65; i++) a[i] = rng(), q[i] = (uint64_t)rng() << 32 | rng();
        run(*c, "k", {1}, {64}, Args() << a.p() << o.p() << q.p() << p.p());
        for (int i = 0; i < 64; i++) {
            uint32_t x = a[i], y = a[i + 1], rv = 0, sad = 3;
            for (int k = 0; k < 32; k++) rv |= (x >> k & 1) << (31 - k);
            for (int k = 0; k < 32; k += 8) {
                int d = (int)(x >> k & 255) - (int)(y >> k & 255);
                sad += (uint32_t)std::abs(d);
            }
            uint64_t cat = (uint64_t)x << 32 | y;
            uint32_t pm = 0;
            uint8_t sel[4] = {7, 2, 5, 12};
            for (int k = 0; k < 4; k++) pm |= (sel[k] == 12 ? 0 : (uint32_t)(cat >> (8 * sel[k])) & 255) << (8 * k);
            uint32_t e[16] = {(uint32_t)__builtin_clz(x | 1), (uint32_t)__builtin_ctz(x | 0x100),
                (uint32_t)__builtin_popcount(x), rv, pm, x >> 5 & 511, (uint32_t)((int)(x << 14) >> 21),
                (uint32_t)(cat >> 13), x << 7 | x >> 25, (x & y) | (~x & 0x1234), sad, (x * y) >> 3,
                (uint32_t)(((uint64_t)x * y) >> 32), (x & 0xffffff) * (y & 0xffffff),
                (uint32_t)std::min((int)x, (int)y), x > y ? x - y : y - x};
            for (int k = 0; k < 16; k++) CHECK(o[16 * i + k] == e[k], "%d.%d: %x %x", i, k, o[16 * i + k], e[k]);
            CHECK(p[2 * i] == ((q[i] << (x & 63)) ^ (q[i] >> (y & 63))), "shift64 %d", i);
            CHECK(p[2 * i + 1] == (uint64_t)((int64_t)q[i] >> (x & 31)) + (q[i] < q[i + 1] ? 5 : q[i + 1]), "ashr64 %d",
                i);
        }
    });
    test("int16", [&] {
        auto c = build("i16",
            R"(typedef short s16x2 __attribute__((ext_vector_type(2))); KERNEL k(const short* a, const short* b, short* o, const s16x2* v, s16x2* w) { int i = TX; short x = a[i], y = b[i]; o[i * 6] = x + y; o[i * 6 + 1] = x * y; o[i * 6 + 2] = x < y ? x : y; o[i * 6 + 3] = (u16)x >> 3; o[i * 6 + 4] = x >> (y & 7); o[i * 6 + 5] = (short)((u16)x > (u16)y ? x - y : y); w[i] = v[i] * v[i + 1] + v[i + 2]; })");
        Buf<int16_t> a(64), b(64), o(384), v(132), w(128);
        for (int i = 0; i < 64; i++) a[i] = (int16_t)rng(), b[i] = (int16_t)rng();
        for (int i = 0; i < 132; i++) v[i] = (int16_t)rng();
        run(*c, "k", {1}, {64}, Args() << a.p() << b.p() << o.p() << v.p() << w.p());
        for (int i = 0; i < 64; i++) {
            int x = a[i], y = b[i];
            int e[6] = {
                x + y, x * y, std::min(x, y), (uint16_t)x >> 3, x >> (y & 7), (uint16_t)x > (uint16_t)y ? x - y : y};
            for (int k = 0; k < 6; k++)
                CHECK(o[6 * i + k] == (int16_t)e[k], "%d.%d: %d %d", i, k, o[6 * i + k], (int16_t)e[k]);
            for (int h = 0; h < 2; h++)
                CHECK(w[2 * i + h] == (int16_t)(v[2 * i + h] * v[2 * i + 2 + h] + v[2 * i + 4 + h]), "pk %d", i);
        }
    });
    test("fp_misc", [&] {
        auto c = build("fpm",
            R"(KERNEL k(const float* a, float* o, int* n, double* d) { int i = TX; float x = a[i], y = a[i + 1], z = a[i + 2]; float* r = o + i * 12; r[0] = __builtin_amdgcn_fmed3f(x, y, z); r[1] = __builtin_fminf(__builtin_fminf(x, y), z); r[2] = __builtin_fmaxf(x, __builtin_fmaxf(y, z)); r[3] = __builtin_fmaf(x, y, -z); r[4] = __builtin_amdgcn_ldexpf(x, (int)y); r[5] = __builtin_amdgcn_frexp_mantf(x); r[6] = __builtin_fminf(__builtin_fmaxf(x, 0.0f), 1.0f); r[7] = (x * 2.0f) - __builtin_fabsf(y); r[8] = __builtin_truncf(x) + __builtin_ceilf(y); r[9] = x > y ? z : -x; r[10] = __builtin_copysignf(x, y); r[11] = __builtin_isnan(z) ? 1.0f : __builtin_isinf(y) ? 2.0f : 3.0f;
            n[i * 4] = (int)x; n[i * 4 + 1] = (int)(u32)y; n[i * 4 + 2] = __builtin_amdgcn_frexp_expf(x); n[i * 4 + 3] = (int)(long)((double)x * 1e6); d[i * 3] = __builtin_fma((double)x, (double)y, (double)z); d[i * 3 + 1] = __builtin_floor((double)x) + (double)n[i * 4]; d[i * 3 + 2] = __builtin_fmin((double)x, (double)y) * 0.5; })");
        Buf<float> a(66), o(768);
        Buf<int> n(256);
        Buf<double> d(192);
        for (int i = 0; i < 66; i++) a[i] = rf(-30, 30);
        a[5] = 0.1f;
        a[7] = INFINITY;
        a[11] = -0.0f;
        run(*c, "k", {1}, {64}, Args() << a.p() << o.p() << n.p() << d.p());
        for (int i = 0; i < 64; i++) {
            float x = a[i], y = a[i + 1], z = a[i + 2];
            int ex;
            float mant = std::frexp(x, &ex);
            float md = std::max(std::min(x, y), std::min(std::max(x, y), z));
            if (std::isinf(x) || std::isinf(y) || std::isinf(z)) continue;
            float e[12] = {md, std::min(std::min(x, y), z), std::max(std::max(x, y), z), std::fma(x, y, -z),
                std::ldexp(x, (int)y), mant, std::clamp(x, 0.f, 1.f), x * 2 - std::fabs(y),
                std::trunc(x) + std::ceil(y), x > y ? z : -x, std::copysign(x, y), 3};
            for (int k = 0; k < 12; k++)
                CHECK(o[12 * i + k] == e[k] || (k == 7 && near(o[12 * i + k], e[k], 1e-6)), "%d.%d: %g %g", i, k,
                    o[12 * i + k], e[k]);
            CHECK(n[4 * i] == (int)x && (y < 0 || n[4 * i + 1] == (int)(unsigned)y) && n[4 * i + 2] == ex, "int %d", i);
            CHECK(n[4 * i + 3] == (int)(long)((double)x * 1e6), "long %d %d", n[4 * i + 3], i);
            CHECK(d[3 * i] == std::fma((double)x, (double)y, (double)z) &&
                      d[3 * i + 1] == std::floor((double)x) + (int)x && d[3 * i + 2] == std::fmin(x, y) * 0.5,
                "double %d", i);
        }
    });
    if (target() == "gfx942" || target() == "gfx950" || target() == "gfx1200")
        test("fp8", [&] {
            auto c = build("fp8",
                R"(typedef float f32x2 __attribute__((ext_vector_type(2))); KERNEL k(const float* a, u32* p, float* o) { int i = TX; u32 v = __builtin_amdgcn_cvt_pk_fp8_f32(a[4 * i], a[4 * i + 1], 0, false); v = __builtin_amdgcn_cvt_pk_fp8_f32(a[4 * i + 2], a[4 * i + 3], v, true); p[i] = v; f32x2 l = __builtin_amdgcn_cvt_pk_f32_fp8(v, false), h = __builtin_amdgcn_cvt_pk_f32_fp8(v, true); o[4 * i] = l.x; o[4 * i + 1] = l.y; o[4 * i + 2] = h.x; o[4 * i + 3] = __builtin_amdgcn_cvt_f32_fp8(v, 3); })");
            Buf<float> a(256), o(256);
            Buf<uint32_t> p(64);
            for (int i = 0; i < 256; i++) a[i] = rf(-100, 100);
            run(*c, "k", {1}, {64}, Args() << a.p() << p.p() << o.p());
            for (int i = 0; i < 256; i++) CHECK(near(o[i], a[i], 0.0626, 0.01), "%d: %g %g", i, o[i], a[i]);
        });
    test("bytes_sdwa", [&] {
        auto c = build("sdwa",
            R"(KERNEL k(const u32* a, u32* o, f16x2* h, const f16x2* g) { int i = TX; u32 x = a[i], y = a[i + 1]; o[i * 4] = (x & 0xff) * (y >> 24) + ((x >> 8) & 0xff); o[i * 4 + 1] = ((x >> 16) & 0xff) + (y & 0xffff); o[i * 4 + 2] = (u32)(int)(signed char)(x >> 16) + (u32)(int)(short)(y >> 16); o[i * 4 + 3] = (x & 0xffff) < (y >> 16) ? (x >> 24) : (y & 0xff); f16x2 p = g[i], q = g[i + 1]; f16x2 r; r.x = p.y * q.x + p.x; r.y = p.x - q.y; h[i] = r; })");
        Buf<uint32_t> a(65), o(256);
        Buf<_Float16> h(128), g(130);
        for (auto& x : a.v) x = rng();
        for (auto& x : g.v) x = (_Float16)(float)((int)(rng() % 64) - 32);
        run(*c, "k", {1}, {64}, Args() << a.p() << o.p() << h.p() << g.p());
        for (int i = 0; i < 64; i++) {
            uint32_t x = a[i], y = a[i + 1];
            uint32_t e[4] = {(x & 255) * (y >> 24) + (x >> 8 & 255), (x >> 16 & 255) + (y & 0xffff),
                (uint32_t)(int)(int8_t)(x >> 16) + (uint32_t)(int)(int16_t)(y >> 16),
                (x & 0xffff) < y >> 16 ? x >> 24 : y & 255};
            for (int k = 0; k < 4; k++) CHECK(o[4 * i + k] == e[k], "%d.%d %x %x", i, k, o[4 * i + k], e[k]);
            CHECK((float)h[2 * i] == (float)g[2 * i + 1] * (float)g[2 * i + 2] + (float)g[2 * i] &&
                      (float)h[2 * i + 1] == (float)g[2 * i] - (float)g[2 * i + 3],
                "half %d", i);
        }
    });
    if (target() == "gfx1200")
        test("true16", [&] { // 16-bit operands in the high halves of registers
            auto c = build("true16",
                R"(KERNEL k(const f16* a, const u16* u, f16* o, u16* p) { int i = GID; f16 x = a[2 * i], y = a[2 * i + 1]; f16x2 v = {x, y};
            asm("v_add_f16 %0, %1, %2" : "=v"(x) : "v"(x), "v"(y)); f16 z = x * y + (f16)(float)(x > y ? x : y); u16 s = u[2 * i], t = u[2 * i + 1]; u16 m = (u16)(s * t + (s >> 3)), n = (u16)(s > t ? s ^ t : s & 0xff0f);
            f16 h; asm("v_mov_b16_e32 v65.h, %1\n v_mov_b16_e32 v65.l, 0\n v_mul_f16_e32 v66.h, v65.h, %1\n v_mov_b16_e32 %0, v66.h" : "=v"(h) : "v"(y) : "v65", "v66");
            o[3 * i] = z; o[3 * i + 1] = h; o[3 * i + 2] = v.y > v.x ? v.x : (f16)((float)v.y * 0.5f); p[2 * i] = m; p[2 * i + 1] = n; })",
                "-Xclang -target-feature -Xclang +real-true16");
            int n = 256;
            Buf<_Float16> a(2 * n), o(3 * n);
            Buf<uint16_t> u(2 * n), p(2 * n);
            for (int i = 0; i < 2 * n; i++) a[i] = (_Float16)rf(-4, 4), u[i] = (uint16_t)rng();
            run(*c, "k", {2}, {128}, Args() << a.p() << u.p() << o.p() << p.p());
            for (int i = 0; i < n; i++) {
                _Float16 y = a[2 * i + 1], x = (_Float16)(a[2 * i] + y),
                         z = (_Float16)std::fma((double)x, (double)y, (double)(x > y ? x : y));
                unsigned s = u[2 * i], t = u[2 * i + 1];
                CHECK(near(o[3 * i], z, 2e-3, 2e-3) && o[3 * i + 1] == (_Float16)(y * y) &&
                          o[3 * i + 2] == (y > a[2 * i] ? a[2 * i] : (_Float16)((float)y * 0.5f)),
                    "%d: %g %g, %g, %g", i, (double)o[3 * i], (double)z, (double)o[3 * i + 1], (double)o[3 * i + 2]);
                CHECK(
                    p[2 * i] == (uint16_t)(s * t + (s >> 3)) && p[2 * i + 1] == (uint16_t)(s > t ? s ^ t : s & 0xff0f),
                    "%d: %x %x", i, p[2 * i], p[2 * i + 1]);
            }
        });
    test("mad16_wide", [&] { // v_mad_legacy_u16 on gfx9: the upper half is cleared
        auto c = build("mad16",
            R"(KERNEL k(const u16* a, u32* o, u16 s) { int i = GID; u16 m = (u16)(a[3 * i] * a[3 * i + 1] + a[3 * i + 2]); o[2 * i] = m; o[2 * i + 1] = (u32)(u16)(a[3 * i] * s + a[3 * i + 1]) << 1; })");
        int n = 256;
        Buf<uint16_t> a(3 * n);
        Buf<uint32_t> o(2 * n);
        for (int i = 0; i < 3 * n; i++) a[i] = (uint16_t)rng();
        run(*c, "k", {2}, {128}, Args() << a.p() << o.p() << (uint16_t)40503);
        for (int i = 0; i < n; i++)
            CHECK(o[2 * i] == (uint16_t)(unsigned(a[3 * i]) * a[3 * i + 1] + a[3 * i + 2]) &&
                      o[2 * i + 1] == (uint32_t)(uint16_t)(unsigned(a[3 * i]) * 40503u + a[3 * i + 1]) << 1,
                "%d: %x %x", i, o[2 * i], o[2 * i + 1]);
    });
    if (wave64())
        test("mfma_overlap", [&] { // LLVM lets D share a part of the registers of C (and of A): the sources are read
                                   // first
            auto c = build("overlap",
                R"(typedef u32 u32x2 __attribute__((ext_vector_type(2))); typedef int i32x4 __attribute__((ext_vector_type(4)));
            KERNEL k(const u32x2* a, const u32x2* b, const f32x4* c, f32x4* o, i32x4* q) { u32x2 A = a[TX], B = b[TX]; f32x4 C = c[TX], d, e; i32x4 I = {TX, 2 * TX, 3 * TX, 4 * TX}, x, y;
            asm volatile("v_mfma_f32_16x16x16_f16 %0, %1, %2, %3\n s_nop 15" : "=&v"(d) : "v"(A), "v"(B), "v"(C));
            asm volatile("v_mfma_f32_16x16x16_f16 v[102:105], %1, %2, v[100:103]\n s_nop 15" : "={v[102:105]}"(e) : "v"(A), "v"(B), "{v[100:103]}"(C) : "v100", "v101");
            asm volatile("v_mfma_i32_16x16x32_i8 %0, %1, %2, %3\n s_nop 15" : "=&v"(x) : "v"(A), "v"(B), "v"(I));
            asm volatile("v_mfma_i32_16x16x32_i8 v[102:105], %1, %2, v[100:103]\n s_nop 15" : "={v[102:105]}"(y) : "v"(A), "v"(B), "{v[100:103]}"(I) : "v100", "v101");
            o[2 * TX] = d; o[2 * TX + 1] = e; q[2 * TX] = x; q[2 * TX + 1] = y; })");
            Buf<uint32_t> a(128), b(128);
            Buf<float> cc(256), o(512);
            Buf<int> q(512);
            for (int i = 0; i < 128; i++)
                for (auto* p : {&a, &b}) {
                    _Float16 h[2] = {(_Float16)rf(-2, 2), (_Float16)rf(-2, 2)};
                    std::memcpy(&(*p)[i], h, 4);
                }
            for (int i = 0; i < 256; i++) cc[i] = rf(-4, 4);
            run(*c, "k", {1}, {64}, Args() << a.p() << b.p() << cc.p() << o.p() << q.p());
            for (int l = 0; l < 64; l++)
                for (int r = 0; r < 4; r++) {
                    CHECK(o[8 * l + r] == o[8 * l + 4 + r], "lane %d row %d: %g %g", l, r, o[8 * l + r],
                        o[8 * l + 4 + r]);
                    CHECK(q[8 * l + r] == q[8 * l + 4 + r], "i8 lane %d row %d", l, r);
                }
        });
    test("bpermute", [&] {
        auto c = build("bperm",
            R"(KERNEL k(const int* a, int* o) { int v = a[TX]; for (int m = 1; m < 32; m *= 2) v += __builtin_amdgcn_ds_bpermute((TX ^ m) * 4, v); o[TX] = v; o[TX + 64] = __builtin_amdgcn_ds_swizzle(a[TX], 0x041f); o[TX + 128] = __builtin_amdgcn_ds_permute(((TX + 5) & 31) * 4, a[TX]); })");
        Buf<int> a(64), o(192);
        for (int i = 0; i < 64; i++) a[i] = (int)(rng() & 0xffff);
        int n = wave64() ? 64 : 32;
        run(*c, "k", {1}, {32}, Args() << a.p() << o.p());
        (void)n;
        int s = 0;
        for (int i = 0; i < 32; i++) s += a[i];
        for (int i = 0; i < 32; i++) {
            CHECK(o[i] == s, "%d: %d %d", i, o[i], s);
            CHECK(o[64 + i] == a[i ^ 1], "swizzle %d", i);
            CHECK(o[128 + ((i + 5) & 31)] == a[i], "permute %d", i);
        }
    });
    test("dpp", [&] {
        std::string x =
            wave64()
                ? R"(o[TX + 320] = __builtin_amdgcn_update_dpp(7, v, 0x142, 0xa, 0xf, 0); o[TX + 384] = __builtin_amdgcn_update_dpp(7, v, 0x143, 0xc, 0xf, 0);)"
                : R"(o[TX + 320] = __builtin_amdgcn_update_dpp(0, v, 0x165, 0xf, 0xf, 1); o[TX + 384] = __builtin_amdgcn_permlanex16(v, v, 0x76543210, 0xfedcba98, false, false);)";
        auto c = build("dpp",
            R"(KERNEL k(const int* a, int* o) { int v = a[TX]; o[TX] = __builtin_amdgcn_update_dpp(-1, v, 0x1b, 0xf, 0xf, 0); o[TX + 64] = __builtin_amdgcn_update_dpp(-1, v, 0x101, 0xf, 0xf, 0); o[TX + 128] = __builtin_amdgcn_update_dpp(-1, v, 0x111, 0xf, 0xf, 1);
            o[TX + 192] = __builtin_amdgcn_update_dpp(-1, v, 0x140, 0xf, 0xf, 0) + v; o[TX + 256] = __builtin_amdgcn_update_dpp(5, v, 0x128, 0x5, 0x3, 0); )" +
                x + "}");
        Buf<int> a(64), o(448);
        for (int i = 0; i < 64; i++) a[i] = (int)rng();
        int n = wave64() ? 64 : 32;
        run(*c, "k", {1}, {(uint32_t)n}, Args() << a.p() << o.p());
        for (int i = 0; i < n; i++) {
            int r = i & ~15, l = i & 15;
            CHECK(o[i] == a[i ^ 3], "quad %d", i);
            CHECK(o[64 + i] == (l < 15 ? a[i + 1] : -1), "shl %d", i);
            CHECK(o[128 + i] == (l ? a[i - 1] : 0), "shr %d", i);
            CHECK(o[192 + i] == (int)((unsigned)a[r + 15 - l] + (unsigned)a[i]), "mirror %d", i);
            bool on = ((i / 16) & 1) == 0 && (l / 4) < 2;
            CHECK(o[256 + i] == (on ? a[r + ((l - 8) & 15)] : 5), "ror masked %d", i);
            if (wave64()) {
                CHECK(o[320 + i] == ((i / 16) & 1 ? a[r - 1] : 7), "bcast15 %d", i);
                CHECK(o[384 + i] == (i >= 32 ? a[31] : 7), "bcast31 %d", i);
            } else {
                CHECK(o[320 + i] == a[i ^ 5], "xmask %d", i);
                CHECK(o[384 + i] == a[i ^ 16], "permlanex16 %d", i);
            }
        }
    });
    test("ballot_mbcnt", [&] {
        auto c = build("ballot",
            R"(KERNEL k(const int* a, u32* o, u64* m) { bool p = a[TX] > 0; u64 b = __builtin_amdgcn_ballot_w64(p); if (sizeof(b) == 8) m[TX] = b; u32 below = __builtin_amdgcn_mbcnt_hi((u32)(b >> 32), __builtin_amdgcn_mbcnt_lo((u32)b, 0)); o[TX] = below + 100 * __builtin_amdgcn_readfirstlane(a[TX]) + 10000 * __builtin_amdgcn_readlane(a[TX], 3); })");
        int n = wave64() ? 64 : 32;
        Buf<int> a(n);
        Buf<uint32_t> o(n);
        Buf<uint64_t> m(n);
        for (int i = 0; i < n; i++) a[i] = (int)(rng() % 9) - 4;
        run(*c, "k", {1}, {(uint32_t)n}, Args() << a.p() << o.p() << m.p());
        uint64_t e = 0;
        for (int i = 0; i < n; i++)
            if (a[i] > 0) e |= 1ull << i;
        for (int i = 0; i < n; i++) {
            CHECK(m[i] == e, "mask %d %lx %lx", i, m[i], e);
            CHECK(o[i] == (uint32_t)(__builtin_popcountll(e & ((1ull << i) - 1)) + 100 * a[0] + 10000 * a[3]), "%d", i);
        }
    });
    test("wave_reduce", [&] {
        auto c = build("wred",
            R"(KERNEL k(const int* a, int* o, const float* f, float* g) { o[TX] = __builtin_amdgcn_wave_reduce_add_u32((u32)a[TX], 1); o[64 + TX] = (int)__builtin_amdgcn_wave_reduce_max_u32((u32)a[TX], 2); if (TX % 3) o[128 + TX] = (int)__builtin_amdgcn_wave_reduce_min_u32((u32)a[TX], 0); })");
        int n = wave64() ? 64 : 32;
        Buf<int> a(64), o(192);
        Buf<float> f(64), g(64);
        for (auto& x : a.v) x = (int)(rng() & 0xffffff);
        run(*c, "k", {1}, {(uint32_t)n}, Args() << a.p() << o.p() << f.p() << g.p());
        int s = 0, m = 0, mi = 1 << 30;
        for (int i = 0; i < n; i++) {
            s += a[i];
            m = std::max(m, a[i]);
            if (i % 3) mi = std::min(mi, a[i]);
        }
        for (int i = 0; i < n; i++)
            CHECK(o[i] == s && o[64 + i] == m && (i % 3 == 0 || o[128 + i] == mi), "%d: %d %d %d", i, o[i], o[64 + i],
                o[128 + i]);
    });
}

} // namespace core_test
