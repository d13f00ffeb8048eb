// What must be found: accesses out of bounds, races, missing waits, uninitialised reads, traps; and what must not.
#include "core_test.h"

namespace core_test {

void checks_cases() {
    // ---- faults
    test("oob", [&] {
        auto c = build("oob", R"(KERNEL k(float* a, int n) { a[GID + n] = 1.0f; })");
        Buf<float> a(256);
        run(*c, "k", {2}, {128}, Args() << a.p() << 0);
        expect_fault(Fault::Kind::memory, [&] { run(*c, "k", {2}, {128}, Args() << a.p() << 1); });
    });
    test("race", [&] {
        auto c = build("racy",
            R"(KERNEL k(float* a) { LDS static float t[256]; t[TX] = a[TX]; a[TX] = t[255 - TX]; } KERNEL war(float* a) { LDS static float t[256]; t[TX] = a[TX]; SYNC(); float x = t[255 - TX]; t[TX] = x + 1.0f; SYNC(); a[TX] = t[TX ^ 64]; })");
        Buf<float> a(256);
        expect_fault(Fault::Kind::lds_race, [&] { run(*c, "k", {1}, {256}, Args() << a.p()); });
        expect_fault(Fault::Kind::lds_race, [&] { run(*c, "war", {1}, {256}, Args() << a.p()); });
        Checks save = checks();
        checks().race = false;
        run(*c, "k", {1}, {256}, Args() << a.p());
        checks() = save;
    });
    test("lds_same_value", [&] { // every holder of a replicated value stores it: no race; another value is one
        auto c = build("same",
            R"(KERNEL k(u32* o, u32 d) { LDS static volatile u32 t[64]; u32 l = TX & 31; t[l] = l * 3 + (TX / 64) * d; u32 own = t[l]; SYNC(); o[TX] = t[31 - l] + own; })");
        Buf<uint32_t> o(256);
        run(*c, "k", {1}, {256}, Args() << o.p() << 0u);
        for (int i = 0; i < 256; i++) CHECK(o[i] == 93u, "%d: %u", i, o[i]);
        expect_fault(Fault::Kind::lds_race, [&] { run(*c, "k", {1}, {256}, Args() << o.p() << 1u); });
        auto e = build("same2",
            R"(KERNEL k(u32* o) { LDS static volatile u32 t[64]; if (TX < 128) t[TX & 63] = TX & 63; else o[TX] = t[TX & 63]; })");
        expect_fault(Fault::Kind::lds_race, [&] { run(*e, "k", {1}, {256}, Args() << o.p()); });
    });
    test("barrier_outstanding", [&] { // a write that is not waited for before the barrier is not ordered by it
        auto c = build("outst",
            target() == "gfx1200"
                ? R"K(KERNEL k(u32* o) { LDS static u32 t[256]; u32 v; u32 w = (u32)(unsigned long)(__attribute__((address_space(3))) u32*)t; asm volatile("ds_store_b32 %1, %2\n s_barrier_signal -1\n s_barrier_wait -1\n ds_load_b32 %0, %3\n s_wait_dscnt 0" : "=v"(v) : "v"(w + 4 * TX), "v"(TX), "v"(w + 4 * (255 - TX)) : "memory"); o[TX] = v; })K"
                : R"K(KERNEL k(u32* o) { LDS static u32 t[256]; u32 v; u32 w = (u32)(unsigned long)(__attribute__((address_space(3))) u32*)t; asm volatile("ds_write_b32 %1, %2\n s_barrier\n ds_read_b32 %0, %3\n s_waitcnt lgkmcnt(0)" : "=v"(v) : "v"(w + 4 * TX), "v"(TX), "v"(w + 4 * (255 - TX)) : "memory"); o[TX] = v; })K");
        Buf<uint32_t> o(256);
        expect_fault(Fault::Kind::lds_race, [&] { run(*c, "k", {1}, {256}, Args() << o.p()); });
    });
    test("wait_hazard", [&] {
        auto c = build("haz",
            target() == "gfx1200"
                ? R"(KERNEL k(u32* a) { u32 v; asm volatile("global_load_b32 %0, %1, off\n v_add_nc_u32 %0, 1, %0" : "=&v"(v) : "v"(a + TX) : "memory"); a[TX] = v; })"
                : R"(KERNEL k(u32* a) { u32 v; asm volatile("global_load_dword %0, %1, off\n v_lshlrev_b32 %0, 1, %0" : "=&v"(v) : "v"(a + TX) : "memory"); a[TX] = v; })");
        Buf<uint32_t> a(64);
        expect_fault(Fault::Kind::wait_hazard, [&] { run(*c, "k", {1}, {64}, Args() << a.p()); });
    });
    test("uninit", [&] {
        auto c = build("uninit",
            target() == "gfx1200"
                ? R"(KERNEL k(u32* a) { u32 v; asm volatile("v_add_nc_u32 %0, 1, v37" : "=v"(v) :: "v37"); a[TX] = v; } KERNEL ok(u32* a) { a[TX] = a[TX] * 3 + TX; })"
                : R"(KERNEL k(u32* a) { u32 v; asm volatile("v_lshlrev_b32 %0, 1, v37" : "=v"(v) :: "v37"); a[TX] = v; } KERNEL ok(u32* a) { a[TX] = a[TX] * 3 + TX; })");
        Buf<uint32_t> a(64);
        Checks save = checks();
        save.uninit = false;
        checks().uninit = true;
        run(*c, "ok", {1}, {64}, Args() << a.p());
        expect_fault(Fault::Kind::uninitialised, [&] { run(*c, "k", {1}, {64}, Args() << a.p()); });
        checks() = save;
        run(*c, "k", {1}, {64}, Args() << a.p());
    });
    if (wave64())
        test("uninit_packed", [&] { // op_sel / op_sel_hi name the registers that a packed 32-bit instruction reads
            auto c = build("unpk", R"(typedef float f32x2 __attribute__((ext_vector_type(2)));
            KERNEL ok(f32x2* a) { f32x2 v = a[TX], d; float s = (float)TX; asm volatile("v_pk_mul_f32 %0, v[120:121], %2 op_sel_hi:[0,1]" : "=v"(d) : "{v120}"(s), "v"(v)); a[TX] = d; }
            KERNEL bad(f32x2* a) { f32x2 v = a[TX], d; float s = (float)TX; asm volatile("v_pk_mul_f32 %0, v[120:121], %2" : "=v"(d) : "{v120}"(s), "v"(v) : "v121"); a[TX] = d; })");
            Buf<float> a(128);
            for (int i = 0; i < 128; i++) a[i] = (float)i;
            Checks save = checks();
            checks().uninit = true;
            run(*c, "ok", {1}, {64}, Args() << a.p());
            expect_fault(Fault::Kind::uninitialised, [&] { run(*c, "bad", {1}, {64}, Args() << a.p()); });
            checks() = save;
            for (int i = 0; i < 128; i++) CHECK(a[i] == (float)(i / 2) * (float)i, "%d: %g", i, a[i]);
        });
    test("trap", [&] {
        auto c = build("trap", R"(KERNEL k(int* a) { if (a[TX] == 3) __builtin_trap(); a[TX] = 1; })");
        Buf<int> a(64);
        run(*c, "k", {1}, {64}, Args() << a.p());
        a[5] = 3;
        expect_fault(Fault::Kind::trap, [&] { run(*c, "k", {1}, {64}, Args() << a.p()); });
    });
    test("limits", [&] {
        auto c = build("lim", R"(KERNEL k(volatile int* a) { while (a[0] == 0) {} })");
        Buf<int> a(1);
        setenv("GFXEMU_MAX_INSTR", "3e6", 1);
        expect_fault(Fault::Kind::limits, [&] { run(*c, "k", {1}, {64}, Args() << a.p()); });
        unsetenv("GFXEMU_MAX_INSTR");
        auto d = build("dead",
            R"(KERNEL k(int* a) { if (a[0] && TX >= 128) { while (*(volatile int*)a) { __builtin_amdgcn_s_barrier(); } } })");
        (void)d;
    });
}

} // namespace core_test
