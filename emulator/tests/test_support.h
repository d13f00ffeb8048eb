// What the tests of the core share: kernels compiled by clang as the test runs, buffers, arguments, the list of what
// ran.
#pragma once
#include "core/gfxemu.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

namespace gfxemu {

// Stands before every kernel.
inline const char* prelude() {
    return R"(
typedef unsigned int u32; typedef unsigned long u64; typedef unsigned char u8; typedef unsigned short u16;
typedef _Float16 f16; typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4))); typedef u32 u32x4 __attribute__((ext_vector_type(4)));
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
#define SYNC() do { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); \
                    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); } while (0)
)";
}

struct TestDirectory {
    std::string path = (std::filesystem::temp_directory_path() / "gfxemu-test-XXXXXX").string();
    TestDirectory() {
        if (!mkdtemp(path.data())) throw std::runtime_error("cannot create " + path);
    }
    ~TestDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
};

// Compiles HIP source (after the prelude) for a target with GFXEMU_CLANG and loads it.
inline std::shared_ptr<CodeObject> build_kernels(const std::string& directory, const std::string& target,
    const std::string& name, const std::string& source, const std::string& options = "") {
    std::string base = directory + "/" + name + "." + target;
    std::ofstream(base + ".hip") << prelude() << source;
    const char* clang = std::getenv("GFXEMU_CLANG");
    std::string command = std::string(clang ? clang : "clang++-22") + " -x hip --offload-arch=" + target +
                          " --cuda-device-only --no-gpu-bundle-output -nogpulib -nogpuinc -std=c++20 -O3 " + options +
                          " " + base + ".hip -o " + base + ".co 2>" + base + ".log";
    auto read = [](const std::string& path) {
        std::ifstream f(path, std::ios::binary);
        return std::string((std::istreambuf_iterator<char>(f)), {});
    };
    if (std::system(command.c_str())) throw std::runtime_error("compile failed: " + read(base + ".log"));
    std::string bytes = read(base + ".co");
    return CodeObject::load(bytes.data(), bytes.size());
}

// Host memory that kernels may touch.
template <class T> struct Buf {
    std::vector<T> v;
    explicit Buf(size_t n) : v(n) { register_range(v.data(), n * sizeof(T), "test"); }
    ~Buf() { unregister_range(v.data()); }
    T& operator[](size_t i) { return v[i]; }
    T* p() { return v.data(); }
    size_t n() { return v.size(); }
};

struct Args {
    std::vector<uint8_t> bytes;
    template <class T> Args& operator<<(T x) {
        size_t at = (bytes.size() + alignof(T) - 1) / alignof(T) * alignof(T);
        bytes.resize(at + sizeof(T));
        std::memcpy(&bytes[at], &x, sizeof(T));
        return *this;
    }
};

inline Counters run_kernel(
    CodeObject& code, const std::string& kernel, Dim3 grid, Dim3 block, const Args& args, uint32_t lds = 0) {
    Launch l;
    l.grid = grid;
    l.block = block;
    l.kernarg = args.bytes;
    l.dynamic_lds = lds;
    return launch(code, kernel, l).counters;
}

// Notes the mnemonics that a test program exercised: GFXEMU_TESTED=DIR, read by gfxemu-coverage.
inline void note_tested(const std::string& program, const std::string& target, const std::set<std::string>& mnemonics) {
    const char* directory = std::getenv("GFXEMU_TESTED");
    if (!directory || !*directory) return;
    std::filesystem::create_directories(directory);
    std::ofstream f(std::string(directory) + "/" + program + "." + target + ".txt");
    for (auto& m : mnemonics) f << m << '\n';
}

} // namespace gfxemu
