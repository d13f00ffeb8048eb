// Compiles small HIP kernels for every architecture with clang, runs them in the emulator and compares with the host.
// Usage: core_test [arch...] [name-substring after --only=]
#include "core/gfxemu.h"
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
using namespace gfxemu;

static std::string g_arch, g_only, g_dir;
static int g_fail = 0, g_pass = 0;
static const char* PRELUDE = R"(
typedef unsigned int u32; typedef unsigned long u64; typedef unsigned char u8; typedef unsigned short u16;
typedef _Float16 f16; typedef _Float16 f16x2 __attribute__((ext_vector_type(2))); typedef float f32x4 __attribute__((ext_vector_type(4))); typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef __bf16 bf16;
#define DEV __attribute__((device))
#define LDS __attribute__((shared))
#define KERNEL extern "C" __attribute__((global)) void
#define TX ((int)__builtin_amdgcn_workitem_id_x())
#define TY ((int)__builtin_amdgcn_workitem_id_y())
#define BX ((int)__builtin_amdgcn_workgroup_id_x())
#define BY ((int)__builtin_amdgcn_workgroup_id_y())
#define BZ ((int)__builtin_amdgcn_workgroup_id_z())
#define BD ((int)__builtin_amdgcn_workgroup_size_x())
#define GID (BX * BD + TX)
#define SYNC() do { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); } while (0)
)";

static std::shared_ptr<CodeObject> build(
    const std::string& name, const std::string& src, const std::string& extra = "") {
    std::string base = g_dir + "/" + name + "." + g_arch;
    {
        std::ofstream f(base + ".hip");
        f << PRELUDE << src;
    }
    const char* cc = std::getenv("GFXEMU_CLANG");
    std::string cmd = std::string(cc ? cc : "clang++-22") + " -x hip --offload-arch=" + g_arch +
                      " --cuda-device-only --no-gpu-bundle-output -nogpulib -nogpuinc -std=c++20 -O3 " + extra + " " +
                      base + ".hip -o " + base + ".co 2>" + base + ".log";
    if (std::system(cmd.c_str())) {
        std::ifstream l(base + ".log");
        std::string s((std::istreambuf_iterator<char>(l)), {});
        throw std::runtime_error("compile failed: " + s);
    }
    std::ifstream f(base + ".co", std::ios::binary);
    std::vector<char> b((std::istreambuf_iterator<char>(f)), {});
    return CodeObject::load(b.data(), b.size());
}
template <class T> struct Buf {
    std::vector<T> v;
    explicit Buf(size_t n) : v(n) { register_range(v.data(), n * sizeof(T), "test"); }
    ~Buf() { unregister_range(v.data()); }
    T& operator[](size_t i) { return v[i]; }
    T* p() { return v.data(); }
    size_t n() { return v.size(); }
};
struct Args {
    std::vector<uint8_t> b;
    template <class T> Args& operator<<(T x) {
        size_t o = (b.size() + alignof(T) - 1) / alignof(T) * alignof(T);
        b.resize(o + sizeof(T));
        std::memcpy(&b[o], &x, sizeof(T));
        return *this;
    }
};
static Counters run(CodeObject& c, const std::string& k, Dim3 g, Dim3 b, const Args& a, uint32_t lds = 0) {
    Launch l;
    l.grid = g;
    l.block = b;
    l.kernarg = a.b;
    l.dynamic_lds = lds;
    return launch(c, k, l).counters;
}
static std::mt19937 rng(1);
static float rf(float lo, float hi) { return std::uniform_real_distribution<float>(lo, hi)(rng); }

#define CHECK(c, ...)                                                                                                  \
    do {                                                                                                               \
        if (!(c)) {                                                                                                    \
            char m_[256];                                                                                              \
            snprintf(m_, sizeof m_, __VA_ARGS__);                                                                      \
            throw std::runtime_error(std::string("line ") + std::to_string(__LINE__) + ": " + m_);                     \
        }                                                                                                              \
    } while (0)
static bool near(double a, double b, double rel, double abs = 0) {
    if (std::isnan(a) && std::isnan(b)) return true;
    return a == b || std::fabs(a - b) <= std::max(abs, rel * std::fabs(b));
}
static void test(const std::string& name, const std::function<void()>& f) {
    if (!g_only.empty() && name.find(g_only) == std::string::npos) return;
    try {
        f();
        g_pass++;
        printf("%-8s %-24s ok\n", g_arch.c_str(), name.c_str());
    } catch (const std::exception& e) {
        g_fail++;
        printf("%-8s %-24s FAILED: %s\n", g_arch.c_str(), name.c_str(), e.what());
    }
    fflush(stdout);
}
static void expect_fault(Fault::Kind k, const std::function<void()>& f) {
    try {
        f();
    } catch (const Fault& e) {
        if (e.kind != k) throw std::runtime_error(std::string("wrong fault: ") + e.what());
        if (std::getenv("VERBOSE")) printf("%s\n", e.what());
        return;
    }
    throw std::runtime_error("no fault raised");
}
static uint16_t f32_bf(float f) {
    uint32_t u = std::bit_cast<uint32_t>(f);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
static float bf(uint16_t h) { return std::bit_cast<float>((uint32_t)h << 16); }

#include "core_cases.inc"

int main(int argc, char** argv) {
    std::vector<std::string> archs;
    for (int i = 1; i < argc; i++) {
        std::string a = argv[i];
        if (a.rfind("--only=", 0) == 0)
            g_only = a.substr(7);
        else
            archs.push_back(a);
    }
    if (archs.empty()) archs = {"gfx1030", "gfx1200", "gfx942", "gfx950"};
    char t[] = "/tmp/gfxemu-test-XXXXXX";
    if (!mkdtemp(t)) return 2;
    g_dir = t;
    for (auto& a : archs) {
        g_arch = a;
        cases();
    }
    printf("%d passed, %d failed\n", g_pass, g_fail);
    if (!g_fail)
        std::system(("rm -rf " + g_dir).c_str());
    else
        printf("kept %s\n", g_dir.c_str());
    return g_fail != 0;
}
