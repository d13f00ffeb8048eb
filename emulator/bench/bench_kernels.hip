// Loops of known content for the interpreter's benchmark. One wave per workgroup, `trips` trips.
#define KERNEL extern "C" __attribute__((global, amdgpu_flat_work_group_size(64, 64))) void
#define LANE int(__builtin_amdgcn_workitem_id_x())
#define REPEAT4(x) x x x x
#define REPEAT16(x) REPEAT4(REPEAT4(x))

// Single-precision arithmetic.
KERNEL valu_f32(float* out, int trips) {
    float a = LANE, b = 1.5f, c = 0.25f, d = 2.0f;
    for (int k = 0; k < trips; ++k)
        asm volatile(REPEAT16("v_fma_f32 %0, %1, %2, %0\n v_mul_f32 %1, 0.5, %1\n v_add_f32 %2, %2, %3\n v_max_f32 %3, %0, %3\n")
                     : "+v"(a), "+v"(b), "+v"(c), "+v"(d));
    out[LANE] = a + b + c + d;
}

// Integer and bit arithmetic, moves.
KERNEL valu_int(int* out, int trips) {
    int a = LANE, b = 3, c = 5, d = 7;
    for (int k = 0; k < trips; ++k)
        asm volatile(REPEAT16("v_add_lshl_u32 %0, %1, %2, 1\n v_and_b32 %1, %0, %3\n v_xor_b32 %2, 0x55, %2\n v_mov_b32 %3, %0\n")
                     : "+v"(a), "+v"(b), "+v"(c), "+v"(d));
    out[LANE] = a + b + c + d;
}

// Scalar arithmetic, a compare and a conditional move.
KERNEL salu(int* out, int trips) {
    int a = trips, b = 3, c = 5;
    for (int k = 0; k < trips; ++k)
        asm volatile(REPEAT16("s_lshl_b32 %0, %1, 1\n s_and_b32 %1, %0, %2\n s_cmp_lt_u32 %0, %1\n s_cselect_b32 %2, %0, %1\n")
                     : "+s"(a), "+s"(b), "+s"(c)::"scc");
    out[LANE] = a + b + c;
}

// What a compiler makes of a softmax row: loads, exponentials, divisions, an exchange through LDS.
KERNEL softmax(const float* in, float* out, int trips) {
    __attribute__((shared)) static float row[64];
    float m = -1e30f, sum = 0, x[8];
    for (int k = 0; k < trips; ++k) {
        for (int i = 0; i < 8; ++i) x[i] = in[(k & 15) * 512 + i * 64 + LANE];
        float t = x[0];
        for (int i = 1; i < 8; ++i) t = __builtin_fmaxf(t, x[i]);
        row[LANE] = t;
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
        __builtin_amdgcn_s_barrier();
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
        t = __builtin_fmaxf(t, row[LANE ^ 1]);
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
        __builtin_amdgcn_s_barrier();
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
        float next = __builtin_fmaxf(m, t), scale = __builtin_amdgcn_exp2f(m - next);
        sum *= scale;
        for (int i = 0; i < 8; ++i) sum += __builtin_amdgcn_exp2f(x[i] - next);
        m = next;
    }
    out[LANE] = m / sum;
}

#if defined(__gfx942__) || defined(__gfx950__)
typedef float acc __attribute__((ext_vector_type(16)));
typedef __bf16 frag __attribute__((ext_vector_type(4)));
typedef short frag_bits __attribute__((ext_vector_type(4)));
KERNEL matrix(float* out, int trips) {
    acc c = {};
    frag_bits a = {short(LANE), 1, 2, 3}, b = {0x3f80, 0x4000, short(LANE), 5};
    for (int k = 0; k < trips; ++k)
        for (int i = 0; i < 8; ++i) c = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, 0, 0, 0);
    out[LANE] = c[0] + c[15];
}
#elif defined(__gfx1200__)
typedef float acc __attribute__((ext_vector_type(8)));
typedef __bf16 frag __attribute__((ext_vector_type(8)));
KERNEL matrix(float* out, int trips) {
    acc c = {};
    frag a, b;
    for (int i = 0; i < 8; ++i) a[i] = __bf16(LANE + i), b[i] = __bf16(i);
    for (int k = 0; k < trips; ++k)
        for (int i = 0; i < 8; ++i) c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c);
    out[LANE] = c[0] + c[7];
}
#endif
