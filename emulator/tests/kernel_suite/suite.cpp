// Runs the kernels of kernels.hip through the emulator and compares with a CPU matrix product.
//   suite CODE_OBJECT...      exit 0 when every kernel of every object agrees
// Small-integer inputs must agree exactly; random ones within the rounding of an f32 sum. The decoders of the narrow
// formats below follow the OCP and FNUZ definitions and share no code with matrix.cpp.
#include "../test_support.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

using namespace gfxemu;

namespace {

enum class E { f32, f64, f16, bf16, i8, u8, fp8, bf8, i4, fp4 };

double small(uint8_t code, int mantissa, int bias) {
    const int man = code & ((1 << mantissa) - 1), exp = (code & 0x7f) >> mantissa;
    const double v = exp ? std::ldexp(1.0 + double(man) / (1 << mantissa), exp - bias)
                         : std::ldexp(double(man) / (1 << mantissa), 1 - bias);
    return code & 0x80 ? -v : v;
}

struct Input {
    E type;
    int size;
    std::vector<uint8_t> bytes;
    std::vector<double> values;
};

int size_of(E e) { return e == E::f64 ? 8 : e == E::f32 ? 4 : e == E::f16 || e == E::bf16 ? 2 : 1; }

Input make(E e, size_t count, bool fnuz, bool integers, std::mt19937& rng) {
    Input in{e, size_of(e), {}, {}};
    if (e == E::i4 || e == E::fp4) { // two to a byte, even element low
        static const double e2m1[] = {0, .5, 1, 1.5, 2, 3, 4, 6};
        in.bytes.resize(count / 2);
        for (size_t i = 0; i < count; ++i) {
            const unsigned code = rng() & 15;
            in.bytes[i / 2] |= uint8_t(code << (i % 2 * 4));
            in.values.push_back(e == E::i4 ? int(code ^ 8) - 8 : (code & 8 ? -1 : 1) * e2m1[code & 7]);
        }
        return in;
    }
    in.bytes.resize(count * size_t(in.size));
    for (size_t i = 0; i < count; ++i) {
        uint8_t* at = in.bytes.data() + i * size_t(in.size);
        double v = integers ? double(int(rng() % 7) - 3) : double(int32_t(rng())) / 0x40000000;
        switch (e) {
        case E::f64: std::memcpy(at, &v, 8); break;
        case E::f32: {
            float f = float(v);
            v = f;
            std::memcpy(at, &f, 4);
            break;
        }
        case E::f16: {
            _Float16 h = _Float16(v);
            v = double(h);
            std::memcpy(at, &h, 2);
            break;
        }
        case E::bf16: {
            float f = float(v);
            uint32_t b;
            std::memcpy(&b, &f, 4);
            b &= 0xffff0000u;
            std::memcpy(&f, &b, 4);
            v = f;
            const uint16_t h = uint16_t(b >> 16);
            std::memcpy(at, &h, 2);
            break;
        }
        case E::i8:
            *at = uint8_t(rng());
            v = int8_t(*at);
            break;
        case E::u8:
            *at = uint8_t(rng());
            v = *at;
            break;
        case E::fp8:
        case E::bf8: {
            const int man = e == E::fp8 ? 3 : 2, bias = (e == E::fp8 ? 7 : 15) + fnuz;
            if (integers) { // the code of a small integer
                const int n = int(rng() % 5) - 2;
                const int one = bias << man, code = n == 0 ? 0 : std::abs(n) == 1 ? one : one + (1 << man);
                *at = uint8_t(code | (n < 0 ? 0x80 : 0));
            } else
                do *at = uint8_t(rng());
                while ((*at & 0x7f) > (e == E::fp8 ? 0x58 : 0x50) || *at == 0x80);
            v = small(*at, man, bias);
            break;
        }
        default: break;
        }
        in.values.push_back(v);
    }
    return in;
}

struct Case {
    const char* name;
    int m;
    E a, b;
    const char* out;
    bool b_is_kn = false;
    int scale_block = 0;
    int max_k = 128;
};

const Case kCases[] = {
    {"mfma_i32_32x32x16_i8", 32, E::i8, E::i8, "i32"},
    {"mfma_i32_16x16x32_i8", 16, E::i8, E::i8, "i32"},
    {"mfma_f32_32x32x16_fp8_fp8", 32, E::fp8, E::fp8, "f32"},
    {"mfma_f32_32x32x16_bf8_fp8", 32, E::bf8, E::fp8, "f32"},
    {"mfma_f32_16x16x32_fp8_fp8", 16, E::fp8, E::fp8, "f32"},
    {"mfma_f32_32x32x8_bf16", 32, E::bf16, E::bf16, "f32"},
    {"mfma_f32_16x16x16_bf16", 16, E::bf16, E::bf16, "f32"},
    {"mfma_f32_32x32x8_f16", 32, E::f16, E::f16, "f32"},
    {"mfma_f32_32x32x2_f32", 32, E::f32, E::f32, "f32"},
    {"mfma_f32_16x16x4_f32", 16, E::f32, E::f32, "f32"},
    {"mfma_f64_16x16x4_f64", 16, E::f64, E::f64, "f64"},
    {"mfma_f32_32x32x16_bf16", 32, E::bf16, E::bf16, "f32"},
    {"mfma_f32_16x16x32_bf16", 16, E::bf16, E::bf16, "f32"},
    {"mfma_f32_32x32x16_f16", 32, E::f16, E::f16, "f32"},
    {"mfma_i32_32x32x32_i8", 32, E::i8, E::i8, "i32"},
    {"mfma_i32_16x16x64_i8", 16, E::i8, E::i8, "i32"},
    {"mfma_scale_f32_32x32x64_fp8", 32, E::fp8, E::fp8, "f32", false, 32},
    {"mfma_scale_f32_16x16x128_fp8_fp4", 16, E::fp8, E::fp4, "f32", false, 32},
    {"mfma_f32_32x32x64_fp8_bf8", 32, E::fp8, E::bf8, "f32"},
    {"wmma_f32_16x16x16_fp8_fp8_tr", 16, E::fp8, E::fp8, "f32", true},
    {"wmma_i32_16x16x32_iu4", 16, E::i4, E::i4, "i32"},
    {"mfma_scale_f32_16x16x128_fp8", 16, E::fp8, E::fp8, "f32", false, 32},
    {"mfma_f32_32x32x16_bf16_tr", 32, E::bf16, E::bf16, "f32", true, 0, 32},
    {"mfma_f32_16x16x32_fp8_tr", 16, E::fp8, E::fp8, "f32", true, 0, 64},
    {"wmma_f32_16x16x16_bf16", 16, E::bf16, E::bf16, "f32"},
    {"wmma_f32_16x16x16_f16", 16, E::f16, E::f16, "f32"},
    {"wmma_f16_16x16x16_f16", 16, E::f16, E::f16, "f16"},
    {"wmma_f32_16x16x16_fp8_fp8", 16, E::fp8, E::fp8, "f32"},
    {"wmma_f32_16x16x16_bf8_fp8", 16, E::bf8, E::fp8, "f32"},
    {"wmma_i32_16x16x16_iu8", 16, E::i8, E::i8, "i32"},
    {"wmma_i32_16x16x16_iu8_unsigned_a", 16, E::u8, E::i8, "i32"},
    {"wmma_f32_16x16x16_bf16_tr", 16, E::bf16, E::bf16, "f32", true},
};

struct Buffer { // device memory: registered for as long as it lives
    std::vector<uint8_t> data;
    Buffer(std::vector<uint8_t> d, const char* tag) : data(std::move(d)) {
        register_range(data.data(), data.size(), tag);
    }
    ~Buffer() { unregister_range(data.data()); }
};

std::map<Arch, std::set<std::string>> executed;

void launch_wave(const CodeObject& code, const std::string& kernel, std::initializer_list<const void*> pointers, int k,
    std::initializer_list<const void*> after = {}) {
    Launch p;
    auto put = [&](const void* v, size_t n) {
        p.kernarg.insert(p.kernarg.end(), static_cast<const uint8_t*>(v), static_cast<const uint8_t*>(v) + n);
    };
    for (const void* ptr : pointers) put(&ptr, 8);
    put(&k, 4);
    if (after.size()) {
        put("\0\0\0", 4);
        for (const void* ptr : after) put(&ptr, 8);
    }
    p.block.x = uint32_t(wave_size(code.arch()));
    for (auto& [name, n] : launch(code, kernel, p).counters.by_mnemonic) executed[code.arch()].insert(name);
}

bool run_case(const CodeObject& code, const Case& c, std::mt19937& rng) {
    const bool fnuz = code.arch() == Arch::gfx942;
    bool good = true;
    for (bool integers : {true, false}) {
        const int n = c.m, k = c.max_k;
        Input a = make(c.a, size_t(n * k), fnuz, integers, rng), b = make(c.b, size_t(n * k), fnuz, integers, rng);
        std::vector<uint8_t> sa, sb;
        if (c.scale_block)
            for (auto* s : {&sa, &sb})
                for (int i = 0; i < n * k / c.scale_block; ++i) s->push_back(uint8_t(125 + rng() % 5));
        const int osize = !std::strcmp(c.out, "f64") ? 8 : !std::strcmp(c.out, "f16") ? 2 : 4;
        Buffer da(a.bytes, "a"), db(b.bytes, "b"), dc(std::vector<uint8_t>(size_t(n * n * osize), 0xee), "c");
        Buffer dsa(sa.empty() ? std::vector<uint8_t>(16) : sa, "sa"),
            dsb(sb.empty() ? std::vector<uint8_t>(16) : sb, "sb");
        if (c.scale_block)
            launch_wave(
                code, c.name, {da.data.data(), db.data.data(), dc.data.data()}, k, {dsa.data.data(), dsb.data.data()});
        else
            launch_wave(code, c.name, {da.data.data(), db.data.data(), dc.data.data()}, k);
        int bad = 0;
        double worst = 0;
        for (int i = 0; i < n; ++i)
            for (int j = 0; j < n; ++j) {
                double want = 0, scale = 0;
                for (int x = 0; x < k; ++x) {
                    double t = a.values[size_t(i * k + x)] * b.values[size_t(c.b_is_kn ? x * n + j : j * k + x)];
                    if (c.scale_block)
                        t *= std::ldexp(1.0, sa[size_t(i * k + x) / 32] + sb[size_t(j * k + x) / 32] - 254);
                    want += t;
                    scale += std::fabs(t);
                }
                const uint8_t* at = dc.data.data() + (i * n + j) * osize;
                double got;
                if (!std::strcmp(c.out, "i32")) {
                    int32_t v;
                    std::memcpy(&v, at, 4);
                    got = v;
                } else if (osize == 8)
                    std::memcpy(&got, at, 8);
                else if (osize == 2) {
                    _Float16 v;
                    std::memcpy(&v, at, 2);
                    got = double(v);
                } else {
                    float v;
                    std::memcpy(&v, at, 4);
                    got = v;
                }
                const double tol = integers || !std::strcmp(c.out, "i32") ? 0
                                                                          : scale * (osize == 2      ? 4e-3
                                                                                        : osize == 8 ? 1e-14
                                                                                                     : 2e-6);
                const double err = std::fabs(got - want);
                if (!(err <= tol)) {
                    ++bad;
                    worst = std::max(worst, err);
                }
            }
        if (bad) {
            std::printf(
                "FAIL %s %s: %d of %d differ, worst %g\n", c.name, integers ? "integers" : "random", bad, n * n, worst);
            good = false;
        }
    }
    return good;
}

bool run_swaps(const CodeObject& code) {
    std::vector<uint8_t> a(256), b(256);
    auto word = [](std::vector<uint8_t>& v, int i) -> uint32_t& { return reinterpret_cast<uint32_t*>(v.data())[i]; };
    for (int i = 0; i < 64; ++i) {
        word(a, i) = 0xa000 + uint32_t(i);
        word(b, i) = 0xb000 + uint32_t(i);
    }
    Buffer da(a, "a"), db(b, "b"), dc(std::vector<uint8_t>(1024), "c");
    launch_wave(code, "permlane_swaps", {da.data.data(), db.data.data(), dc.data.data()}, 0);
    int bad = 0;
    for (int i = 0; i < 64; ++i) {
        // Odd rows of the first operand trade places with even rows of the second; rows of 16, then of 32 lanes.
        const int r16 = i / 16 % 2, r32 = i / 32;
        const uint32_t want[4] = {r16 ? word(b, i - 16) : word(a, i), r16 ? word(b, i) : word(a, i + 16),
            r32 ? word(b, i - 32) : word(a, i), r32 ? word(b, i) : word(a, i + 32)};
        for (int q = 0; q < 4; ++q) bad += word(dc.data, 64 * q + i) != want[q];
    }
    if (bad) std::printf("FAIL permlane_swaps: %d of 256 words differ\n", bad);
    return !bad;
}

} // namespace

int main(int argc, char** argv) {
    int failed = 0, ran = 0;
    std::mt19937 rng(11);
    for (int i = 1; i < argc; ++i) {
        std::ifstream f(argv[i], std::ios::binary);
        const std::vector<char> elf((std::istreambuf_iterator<char>(f)), {});
        const auto code = CodeObject::load(elf.data(), elf.size());
        int here = 0, bad = 0;
        for (const auto& [name, info] : code->kernels()) {
            bool good = false, known = name == "permlane_swaps";
            try {
                if (known) good = run_swaps(*code);
                for (const Case& c : kCases)
                    if (name == c.name) {
                        known = true;
                        good = run_case(*code, c, rng);
                    }
                if (!known) std::printf("FAIL %s: no case\n", name.c_str());
            } catch (const std::exception& e) {
                std::printf("FAIL %s: %s\n", name.c_str(), e.what());
            }
            ++here;
            bad += !good;
        }
        std::printf("%s (%s): %d kernels, %d failed\n", argv[i], arch_name(code->arch()), here, bad);
        ran += here;
        failed += bad;
    }
    for (auto& [arch, names] : executed) note_tested("kernel_suite", arch_name(arch), names);
    std::printf("%d kernels, %d failed\n", ran, failed);
    return failed || !ran;
}
