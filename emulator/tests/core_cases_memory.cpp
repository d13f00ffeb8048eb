// LDS, global, buffer and scratch memory, atomics.
#include "core_test.h"

namespace core_test {

void memory_cases() {
    test("lds_transpose", [&] {
        auto c = build("transpose",
            R"(KERNEL k(const float* a, float* o) { LDS static float t[32][33]; for (int y = TY; y < 32; y += 8) t[y][TX] = a[(BX * 32 + y) * 32 + TX]; SYNC(); for (int y = TY; y < 32; y += 8) o[(BX * 32 + y) * 32 + TX] = t[TX][y]; })");
        Buf<float> a(4096), o(4096);
        for (int i = 0; i < 4096; i++) a[i] = (float)i;
        auto k = run(*c, "k", {4}, {32, 8}, Args() << a.p() << o.p());
        for (int b = 0; b < 4; b++)
            for (int y = 0; y < 32; y++)
                for (int x = 0; x < 32; x++)
                    CHECK(o[(b * 32 + y) * 32 + x] == a[(b * 32 + x) * 32 + y], "%d %d %d", b, y, x);
        CHECK(k.lds_read && k.lds_write && k.lds_read_bytes == 16384, "counters %lu", k.lds_read_bytes);
    });
    test("dynamic_lds", [&] {
        auto c = build("dyn",
            R"(extern LDS u32 dyn[]; KERNEL k(const u32* a, u32* o, int n) { for (int i = TX; i < n; i += BD) dyn[i] = a[i]; SYNC(); for (int i = TX; i < n; i += BD) o[i] = dyn[n - 1 - i]; })");
        int n = 1500;
        Buf<uint32_t> a(n), o(n);
        for (int i = 0; i < n; i++) a[i] = rng();
        run(*c, "k", {1}, {256}, Args() << a.p() << o.p() << n, n * 4);
        for (int i = 0; i < n; i++) CHECK(o[i] == a[n - 1 - i], "%d", i);
        expect_fault(
            Fault::Kind::lds_bounds, [&] { run(*c, "k", {1}, {256}, Args() << a.p() << o.p() << n, n * 4 - 4); });
    });
    test("lds_types", [&] {
        auto c = build("ldst",
            R"(KERNEL k(const u32x4* a, u32x4* o, u16* h, u8* b, double* d) { LDS static u32x4 t[64]; LDS static u16 th[64]; LDS static u8 tb[64]; LDS static double td[64];
            t[TX] = a[TX]; th[TX] = (u16)(a[TX].x); tb[TX] = (u8)a[TX].y; td[TX] = a[TX].z; SYNC(); int j = 63 - TX; o[TX] = t[j]; h[TX] = th[j]; b[TX] = tb[j]; d[TX] = td[j] + td[TX]; })");
        Buf<uint32_t> a(256), o(256);
        Buf<uint16_t> h(64);
        Buf<uint8_t> b(64);
        Buf<double> d(64);
        for (int i = 0; i < 256; i++) a[i] = rng();
        run(*c, "k", {1}, {64}, Args() << a.p() << o.p() << h.p() << b.p() << d.p());
        for (int i = 0; i < 64; i++) {
            int j = 63 - i;
            for (int k = 0; k < 4; k++) CHECK(o[4 * i + k] == a[4 * j + k], "%d", i);
            CHECK(h[i] == (uint16_t)a[4 * j] && b[i] == (uint8_t)a[4 * j + 1], "%d", i);
            CHECK(d[i] == (double)a[4 * j + 2] + a[4 * i + 2], "%d", i);
        }
    });
    test("atomics", [&] {
        auto c = build("atom",
            R"(KERNEL k(u32* g, int* mx, float* f, u64* q, u32* old, u32* cas) { LDS static u32 t; LDS static int m, l; if (TX == 0) { t = 0; m = -1000000; l = 1000000; } SYNC(); __hip_atomic_fetch_add(&t, 3u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP); __hip_atomic_fetch_max(&m, TX * 7 % 101, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP); __hip_atomic_fetch_min(&l, -int(TX * 7 % 101), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
            SYNC(); old[GID] = __hip_atomic_fetch_add(g, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); if (TX == 0) { __hip_atomic_fetch_add(g + 1, t, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); __hip_atomic_fetch_max(mx, m, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); __hip_atomic_fetch_min(mx + 1, l, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
            __hip_atomic_fetch_add(f, 0.5f, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); __hip_atomic_fetch_or(q, 1ul << (TX & 63), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
            u32 e = *cas, d; do { d = e + 2; } while (!__hip_atomic_compare_exchange_strong(cas, &e, d, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)); })");
        Buf<uint32_t> g(2), old(1024), cas(1);
        Buf<int> mx(2);
        Buf<float> f(1);
        Buf<uint64_t> q(1);
        run(*c, "k", {8}, {128}, Args() << g.p() << mx.p() << f.p() << q.p() << old.p() << cas.p());
        CHECK(g[0] == 1024 && g[1] == 8 * 384, "%u %u", g[0], g[1]);
        CHECK(mx[0] == 100, "max %d", mx[0]);
        CHECK(mx[1] == -100, "min %d", mx[1]);
        CHECK(f[0] == 512, "f %g", f[0]);
        CHECK(q[0] == ~0ull, "or");
        CHECK(cas[0] == 2048, "cas %u", cas[0]);
        std::vector<int> seen(1024);
        for (int i = 0; i < 1024; i++) {
            CHECK(old[i] < 1024 && !seen[old[i]]++, "old %d", i);
        }
    });
    test("scratch", [&] {
        auto c = build("scr",
            R"(KERNEL k(const int* a, int* o, int n) { int i = GID; int buf[100]; for (int j = 0; j < 100; j++) buf[j] = a[(i + j) % n] * 3; int s = 0; for (int j = 0; j < 100; j++) { int q = buf[(u32)a[(i * 7 + j) % n] % 100]; buf[j] ^= q; s += q; } o[i] = s; })");
        int n = 333;
        Buf<int> a(n), o(256);
        for (int i = 0; i < n; i++) a[i] = (int)rng();
        auto k = run(*c, "k", {2}, {128}, Args() << a.p() << o.p() << n);
        for (int i = 0; i < 256; i++) {
            int b[100];
            for (int j = 0; j < 100; j++) b[j] = (int)((unsigned)a[(i + j) % n] * 3u);
            int s = 0;
            for (int j = 0; j < 100; j++) {
                int q = b[(unsigned)a[(i * 7 + j) % n] % 100];
                b[j] ^= q;
                s = (int)((unsigned)s + (unsigned)q);
            }
            CHECK(o[i] == s, "%d: %d %d", i, o[i], s);
        }
        CHECK(k.scratch > 0, "scratch counter");
    });
    test("scratch_wide", [&] { // 128-bit accesses to the stack, indexed at run time
        auto c = build("scratch_wide", R"(KERNEL k(const u32x4* a, u32x4* o, int n) { u32x4 s[12]; int t = TX;
            for (int i = 0; i < 12; i++) s[i] = a[t * 12 + i] + (u32)i;
            for (int i = 0; i < n; i++) s[(i * 5 + t) % 12] += s[(i + t) % 12];
            for (int i = 0; i < 12; i++) o[t * 12 + i] = s[(i + n) % 12]; })");
        const int n = 30;
        Buf<uint32_t> a(64 * 48), o(64 * 48);
        for (auto& x : a.v) x = rng();
        run(*c, "k", {1}, {64}, Args() << a.p() << o.p() << n);
        for (int t = 0; t < 64; t++) {
            uint32_t s[12][4];
            for (int i = 0; i < 48; i++) s[i / 4][i % 4] = a[t * 48 + i] + (uint32_t)(i / 4);
            for (int i = 0; i < n; i++)
                for (int e = 0; e < 4; e++) s[(i * 5 + t) % 12][e] += s[(i + t) % 12][e];
            for (int i = 0; i < 48; i++) CHECK(o[t * 48 + i] == s[(i / 4 + n) % 12][i % 4], "lane %d word %d", t, i);
        }
    });
    test("flat_stack", [&] {
        auto c = build("flat",
            R"(DEV __attribute__((noinline)) int pick(int* p, int k) { return p[k] + (p[k + 1] *= 2); } KERNEL k(const int* a, int* o, int* g) { LDS static int t[256]; int l[16]; for (int j = 0; j < 16; j++) l[j] = a[TX + j]; t[TX] = a[TX]; t[TX + 128] = 5; SYNC(); int* p = TX % 3 == 0 ? l : TX % 3 == 1 ? &t[TX & ~1] : g + TX * 2; if (TX % 3 == 1) p = &t[TX]; o[TX] = pick(p, TX % 3 == 1 ? 0 : 1); if (TX % 3 == 0) o[TX] += l[2]; })");
        Buf<int> a(160), o(128), g(300);
        for (int i = 0; i < 160; i++) a[i] = (int)(rng() & 0xffff);
        for (int i = 0; i < 300; i++) g[i] = i;
        Checks save = checks();
        checks().race = false;
        run(*c, "k", {1}, {128}, Args() << a.p() << o.p() << g.p());
        checks() = save;
        for (int i = 0; i < 128; i++) {
            if (i % 3 == 0) CHECK(o[i] == a[i + 1] + 4 * a[i + 2], "%d: %d", i, o[i]);
            if (i % 3 == 2) CHECK(o[i] == 2 * i + 1 + 2 * (2 * i + 2), "%d: %d", i, o[i]);
        }
    });
    test("globals", [&] {
        auto c = build("glob",
            R"(DEV int counter = 40; __attribute__((constant)) float ctab[8] = {1, 2, 4, 8, 16, 32, 64, 128}; DEV const float* ptrs[2] = {&ctab[1], &ctab[4]}; KERNEL k(float* o) { o[TX] = ctab[TX & 7] + ptrs[TX & 1][TX & 3]; if (TX == 0) __hip_atomic_fetch_add(&counter, 2, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); })");
        Buf<float> o(64);
        run(*c, "k", {1}, {64}, Args() << o.p());
        auto s = c->symbol("counter");
        CHECK(s.first && s.second == 4 && *(int*)s.first == 42, "counter");
        for (int i = 0; i < 64; i++)
            CHECK(o[i] == std::ldexp(1.f, i & 7) + std::ldexp(1.f, (i & 1 ? 4 : 1) + (i & 3)), "%d", i);
    });
    test("buffer_rsrc", [&] {
        auto c = build("buf",
            R"(typedef u32 v4u __attribute__((vector_size(16))); KERNEL k(float* a, float* o, int n) { __amdgpu_buffer_rsrc_t r = __builtin_amdgcn_make_buffer_rsrc(a, 0, n * 4, )" +
                std::string(target() == "gfx1030"   ? "0x31014000"
                            : target() == "gfx1200" ? "0x31004000"
                                                    : "0x00027000") +
                R"(); o[GID] = __builtin_bit_cast(float, __builtin_amdgcn_raw_buffer_load_b32(r, GID * 4, 0, 0)); v4u v = __builtin_amdgcn_raw_buffer_load_b128(r, GID * 16, 16, 0); u32 v0 = v[0], v1 = v[1], v2 = v[2], v3 = v[3]; o[256 + GID] = __builtin_bit_cast(float, v0) * 2.0f + __builtin_bit_cast(float, v1) + __builtin_bit_cast(float, v2) + __builtin_bit_cast(float, v3); __builtin_amdgcn_raw_buffer_store_b32(7u, r, (GID + 150) * 4, 0, 0); })");
        Buf<float> a(200), o(512);
        for (int i = 0; i < 200; i++) a[i] = (float)i + 1;
        run(*c, "k", {2}, {128}, Args() << a.p() << o.p() << 180);
        for (int i = 0; i < 256; i++) {
            float e = i < 180 ? i < 150 ? (float)i + 1 : o[i] : 0;
            CHECK(o[i] == e, "%d: %g %g", i, o[i], e);
            int j = 4 * i + 4;
            if (j + 3 < 150) CHECK(o[256 + i] == 5 * (float)j + 11, "x4 %d %g", i, o[256 + i]);
            if (j >= 180) CHECK(o[256 + i] == 0, "x4 %d", i);
        }
        for (int i = 150; i < 200; i++)
            CHECK(i < 180 ? std::bit_cast<uint32_t>(a[i]) == 7 : a[i] == i + 1, "store %d", i);
    });
    if (wave64())
        test("buffer_stride", [&] { // gfx9: records count by stride where an index is used, by byte otherwise; no
                                    // index: linear in spite of the swizzle bits
            auto c = build("bstride", R"K(KERNEL k(const u32* a, u32* o) { u64 p = (u64)a; u32 i = TX, b = TX * 4, x, y;
            u32x4 r = {(u32)p, (u32)(p >> 32) | 16u << 16, 8, 0x27000}, s = {(u32)p, (u32)(p >> 32) | 0xc0000000u | 16u << 16, 128, 0x110000};
            asm volatile("buffer_load_dword %0, %1, %2, 0 idxen\n s_waitcnt vmcnt(0)" : "=&v"(x) : "v"(i), "s"(r));
            asm volatile("buffer_load_dword %0, %1, %2, 0 offen\n s_waitcnt vmcnt(0)" : "=&v"(y) : "v"(b), "s"(s)); o[2 * i] = x; o[2 * i + 1] = y; })K");
            Buf<uint32_t> a(64), o(128);
            for (int i = 0; i < 64; i++) a[i] = rng() | 1;
            run(*c, "k", {1}, {64}, Args() << a.p() << o.p());
            for (int i = 0; i < 64; i++)
                CHECK(o[2 * i] == (i < 8 ? a[4 * i] : 0) && o[2 * i + 1] == (i < 32 ? a[i] : 0), "%d: %x %x", i,
                    o[2 * i], o[2 * i + 1]);
        });
    if (wave64())
        test("lds_dma", [&] {
            auto c = build("dma",
                R"K(KERNEL k(const u32* a, u32* o) { LDS static u32 t[256]; u32 w = TX / 64; __builtin_amdgcn_global_load_lds((__attribute__((address_space(1))) u32*)(a + TX), (__attribute__((address_space(3))) u32*)(t + w * 64), 4, 0, 0); asm volatile("s_waitcnt vmcnt(0)" ::: "memory"); SYNC(); o[TX] = t[255 - TX]; }
            KERNEL bad(const u32* a, u32* o) { LDS static u32 t[256]; u32 w = TX / 64; __builtin_amdgcn_global_load_lds((__attribute__((address_space(1))) u32*)(a + TX), (__attribute__((address_space(3))) u32*)(t + w * 64), 4, 0, 0); u32 v; asm volatile("s_barrier\n ds_read_b32 %0, %1\n s_waitcnt lgkmcnt(0)" : "=v"(v) : "v"(4 * (255 - TX)) : "memory"); o[TX] = v; })K");
            ;
            Buf<uint32_t> a(256), o(256);
            for (int i = 0; i < 256; i++) a[i] = rng();
            run(*c, "k", {1}, {256}, Args() << a.p() << o.p());
            for (int i = 0; i < 256; i++) CHECK(o[i] == a[255 - i], "%d", i);
            expect_fault(Fault::Kind::lds_race, [&] { run(*c, "bad", {1}, {256}, Args() << a.p() << o.p()); });
        });
    if (wave64())
        test("preload", [&] {
            auto c = build("pre",
                R"(KERNEL k(const int* a, int* o, int n, float f, long z) { int i = GID; if (i < n) o[i] = a[i] + (int)f + (int)z; })",
                "-mllvm -amdgpu-kernarg-preload-count=8");
            Buf<int> a(128), o(128);
            for (int i = 0; i < 128; i++) a[i] = i;
            run(*c, "k", {1}, {128}, Args() << a.p() << o.p() << 128 << 2.5f << 40l);
            for (int i = 0; i < 128; i++) CHECK(o[i] == i + 42, "%d: %d", i, o[i]);
        });
}

} // namespace core_test
