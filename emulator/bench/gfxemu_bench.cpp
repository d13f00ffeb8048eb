// Speed of the interpreter: gfxemu-bench CODE_OBJECT... (of bench_kernels.hip). Prints, for each kernel, millions of
// wave-instructions a second of CPU time on one host thread with the default checks.
#include "core/gfxemu.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <time.h>

using namespace gfxemu;

namespace {

struct Buffer {
    std::vector<float> data = std::vector<float>(16 * 512, 1.0f);
    Buffer() { register_range(data.data(), data.size() * sizeof(float), "bench"); }
    ~Buffer() { unregister_range(data.data()); }
};

template <class... T> std::vector<uint8_t> pack(T... values) {
    std::vector<uint8_t> out;
    auto add = [&](auto v) {
        out.resize((out.size() + sizeof v - 1) / sizeof v * sizeof v + sizeof v);
        std::memcpy(out.data() + out.size() - sizeof v, &v, sizeof v);
    };
    (add(values), ...);
    return out;
}

double cpu_seconds() { // other processes do not count
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

double run(const CodeObject& code, const std::string& kernel, int trips) {
    Buffer in, out;
    Launch l;
    l.grid = {1, 1, 1};
    l.block = {64, 1, 1};
    l.kernarg = kernel == "softmax" ? pack(in.data.data(), out.data.data(), trips) : pack(out.data.data(), trips);
    double start = cpu_seconds();
    uint64_t instructions = launch(code, kernel, l).counters.instructions;
    return double(instructions) / (cpu_seconds() - start) / 1e6;
}

} // namespace

int main(int argc, char** argv) {
    setenv("GFXEMU_THREADS", "1", 0);
    double seconds = std::getenv("GFXEMU_BENCH_SECONDS") ? std::atof(std::getenv("GFXEMU_BENCH_SECONDS")) : 0.5;
    for (int k = 1; k < argc; ++k) {
        std::ifstream f(argv[k], std::ios::binary);
        std::vector<char> bytes((std::istreambuf_iterator<char>(f)), {});
        auto code = CodeObject::load(bytes.data(), bytes.size());
        for (auto& [name, info] : code->kernels()) {
            run(*code, name, 4); // disassembly and decoding
            int per_trip = name == "matrix" ? 12 : name == "softmax" ? 80 : 64;
            double rate = run(*code, name, 2000);
            rate = run(*code, name, int(rate * 1e6 * seconds / per_trip) + 1);
            std::printf("%-8s %-10s %7.1f M wave-instructions/s\n", arch_name(code->arch()), name.c_str(), rate);
        }
    }
}
