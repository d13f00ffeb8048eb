// Control flow, calls, work-item ids, waves of either size.
#include "core_test.h"

namespace core_test {

void control_cases() {
    test("divergent", [&] {
        auto c = build("div",
            R"(KERNEL k(const u32* a, u32* o) { int i = GID; u32 x = a[i], n = 0; while (x != 1) { if (x & 1) x = 3 * x + 1; else x >>= 1; if (++n > 200) break; } if (n % 3 == 0) o[i] = n; else if (n % 3 == 1) o[i] = n * 1000; else { u32 s = 0; for (u32 k = 0; k < n % 17; k++) s += k * a[(i + k) & 255]; o[i] = s; } })");
        Buf<uint32_t> a(256), o(256);
        for (int i = 0; i < 256; i++) a[i] = 1 + (rng() & 0xffff);
        run(*c, "k", {2}, {128}, Args() << a.p() << o.p());
        for (int i = 0; i < 256; i++) {
            uint32_t x = a[i], n = 0, e;
            while (x != 1) {
                if (x & 1)
                    x = 3 * x + 1;
                else
                    x >>= 1;
                if (++n > 200) break;
            }
            if (n % 3 == 0)
                e = n;
            else if (n % 3 == 1)
                e = n * 1000;
            else {
                e = 0;
                for (uint32_t k = 0; k < n % 17; k++) e += k * a[(i + k) & 255];
            }
            CHECK(o[i] == e, "%d: %u %u", i, o[i], e);
        }
    });
    test("calls", [&] {
        auto c = build("calls",
            R"(DEV __attribute__((noinline)) float poly(float x, int n) { float r = 0; for (int i = 0; i < n; i++) r = r * x + (float)i; return r; } DEV __attribute__((noinline)) float f2(float x) { return poly(x, 5) + poly(x + 1.0f, 3); }
            KERNEL k(const float* a, float* o) { o[GID] = f2(a[GID]); })");
        Buf<float> a(128), o(128);
        for (int i = 0; i < 128; i++) a[i] = rf(-2, 2);
        run(*c, "k", {1}, {128}, Args() << a.p() << o.p());
        for (int i = 0; i < 128; i++) {
            auto p = [](double x, int n) {
                double r = 0;
                for (int i = 0; i < n; i++) r = r * x + i;
                return r;
            };
            CHECK(near(o[i], p(a[i], 5) + p(a[i] + 1, 3), 1e-5, 1e-4), "%d: %g", i, o[i]);
        }
    });
    test("recursion", [&] {
        auto c = build("rec",
            R"(DEV __attribute__((noinline)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); } KERNEL k(int* o) { o[TX] = fib(TX & 7); })",
            "-mllvm -amdgpu-assume-dynamic-stack-object-size=4096");
        Buf<int> o(64);
        run(*c, "k", {1}, {64}, Args() << o.p());
        int f[8] = {0, 1, 1, 2, 3, 5, 8, 13};
        for (int i = 0; i < 64; i++) CHECK(o[i] == f[i & 7], "%d: %d", i, o[i]);
    });
    test("ids_3d", [&] {
        auto c = build("ids",
            R"(KERNEL k(u32* o) { int tz = (int)__builtin_amdgcn_workitem_id_z(); u32 b = BX + BY * 3 + BZ * 6, t = TX + TY * 4 + tz * 12, n = __builtin_amdgcn_workgroup_size_x() * __builtin_amdgcn_workgroup_size_y() * __builtin_amdgcn_workgroup_size_z(); o[b * 24 + t] = b << 16 | t << 8 | n + __builtin_amdgcn_grid_size_x(); })");
        Buf<uint32_t> o(24 * 12);
        run(*c, "k", {3, 2, 2}, {4, 3, 2}, Args() << o.p());
        for (int i = 0; i < 288; i++)
            CHECK(o[i] == ((uint32_t)(i / 24) << 16 | (uint32_t)(i % 24) << 8 | (24 + 12)), "%d: %x", i, o[i]);
    });
    test("spin_groups", [&] { // a later workgroup waits for an earlier one and the other way round
        auto c = build("spin",
            R"(KERNEL k(u32* f, u32* o) { if (TX == 0) { if (BX == 0) { while (__hip_atomic_load(f, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) != 3) __builtin_amdgcn_s_sleep(1); o[0] = 1; } else __hip_atomic_fetch_add(f, 1u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT); } })");
        Buf<uint32_t> f(1), o(1);
        run(*c, "k", {4}, {64}, Args() << f.p() << o.p());
        CHECK(o[0] == 1, "flag");
    });
    test("dyn_index", [&] { // register arrays indexed at run time: GPR-index mode on gfx9, v_movrel on gfx10+
        auto c = build("dynidx",
            R"(typedef float f32x16 __attribute__((ext_vector_type(16))); KERNEL k(const float* a, float* o, int s, int t) { f32x16 v; for (int i = 0; i < 16; i++) v[i] = a[TX * 16 + i] * 2.0f; v[s & 15] = 99.0f; o[TX * 3] = v[t & 15]; int d = TX % 16; o[TX * 3 + 1] = v[d]; v[d] += 5.0f; float q = 0; for (int i = 0; i < 16; i++) q += v[i]; o[TX * 3 + 2] = q; })");
        Buf<float> a(1024), o(192);
        for (auto& x : a.v) x = (float)(rng() % 100);
        for (int t = 3; t < 8; t += 4) {
            run(*c, "k", {1}, {64}, Args() << a.p() << o.p() << 3 << t);
            for (int i = 0; i < 64; i++) {
                float v[16], q = 0;
                for (int j = 0; j < 16; j++) v[j] = a[i * 16 + j] * 2;
                v[3] = 99;
                CHECK(o[3 * i] == v[t] && o[3 * i + 1] == v[i % 16], "%d", i);
                v[i % 16] += 5;
                for (float x : v) q += x;
                CHECK(o[3 * i + 2] == q, "%d sum", i);
            }
        }
    });
    if (!wave64())
        test("wave64", [&] {
            auto c = build("wave64",
                R"(KERNEL k(const int* a, int* o) { int v = a[GID]; u64 b = __builtin_amdgcn_ballot_w64(v > 0); int s = 0; while (v > 0) { s += v & 1; v >>= 1; } o[GID] = s * 1000 + __builtin_popcountl(b); })",
                "-mwavefrontsize64");
            Buf<int> a(128), o(128);
            for (auto& x : a.v) x = (int)(rng() % 1000) - 500;
            auto k = run(*c, "k", {1}, {128}, Args() << a.p() << o.p());
            CHECK(k.waves == 2, "waves");
            for (int i = 0; i < 128; i++) {
                int n = 0;
                for (int j = 0; j < 64; j++) n += a[(i & 64) + j] > 0;
                CHECK(o[i] == (a[i] > 0 ? __builtin_popcount((unsigned)a[i]) : 0) * 1000 + n, "%d: %d", i, o[i]);
            }
        });
    test("big_regs", [&] { // more live values than registers: AGPR moves on gfx9, spills elsewhere
        auto c = build("bigr",
            R"(KERNEL __attribute__((launch_bounds(256, 4))) k(const float* a, float* o, int n) { float v[160]; for (int i = 0; i < 160; i++) v[i] = a[i * 64 + TX % 64]; for (int r = 0; r < n; r++) for (int i = 0; i < 160; i++) v[i] = v[i] * 0.5f + v[(i + 37) % 160]; for (int i = 0; i < 160; i++) o[i * 64 + TX % 64] = v[i]; })");
        Buf<float> a(160 * 64), o(160 * 64);
        for (auto& x : a.v) x = rf(-1, 1);
        run(*c, "k", {1}, {64}, Args() << a.p() << o.p() << 3);
        for (int l = 0; l < 64; l += 9) {
            std::vector<float> v(160);
            for (int i = 0; i < 160; i++) v[i] = a[i * 64 + l];
            for (int r = 0; r < 3; r++)
                for (int i = 0; i < 160; i++) v[i] = v[i] * 0.5f + v[(i + 37) % 160];
            for (int i = 0; i < 160; i++)
                CHECK(near(o[i * 64 + l], v[i], 1e-5, 1e-5), "%d %d: %g %g", i, l, o[i * 64 + l], v[i]);
        }
    });
}

} // namespace core_test
