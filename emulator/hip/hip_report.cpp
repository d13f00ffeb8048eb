// GFXEMU_REPORT: one JSON line for each launch. GFXEMU_VERBOSE: a summary at exit.
#include "hip/modules.h"

#include <cstdio>

namespace gfxemu::hip {
namespace {

std::atomic<uint64_t> launches{0}, faults{0}, instructions{0};
std::atomic<double> busy{0};

std::string quote(const std::string& s) {
    std::string out = "\"";
    for (char c : s) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if ((unsigned char)c < 32) {
            char b[8];
            std::snprintf(b, sizeof b, "\\u%04x", c);
            out += b;
        } else
            out += c;
    }
    return out + "\"";
}

} // namespace

void report(const LaunchRecord& r) {
    if (settings().report.empty()) return;
    auto& k = r.function.info;
    auto& d = r.device;
    auto& l = r.launch;
    auto& c = r.counters;
    auto o = occupancy(d, k, l.block.x * l.block.y * l.block.z, l.dynamic_lds);
    std::string line = "{\"kernel\":" + quote(k.name) + ",\"demangled\":" + quote(r.function.demangled) +
                       ",\"arch\":" + quote(d.target->name) + ",\"isa\":" + quote(arch_name(d.arch));
    auto number = [&](const char* name, uint64_t v) { line += std::string(",\"") + name + "\":" + std::to_string(v); };
    auto dim = [&](const char* name, const Dim3& v) {
        line += std::string(",\"") + name + "\":[" + std::to_string(v.x) + "," + std::to_string(v.y) + "," +
                std::to_string(v.z) + "]";
    };
    number("device", uint64_t(d.id));
    dim("grid", l.grid);
    dim("block", l.block);
    number("lds", k.static_lds + l.dynamic_lds);
    number("static_lds", k.static_lds);
    number("dynamic_lds", l.dynamic_lds);
    number("vgprs", k.vgprs);
    number("agprs", k.agprs);
    number("sgprs", k.sgprs);
    number("vgpr_spills", k.vgpr_spills);
    number("sgpr_spills", k.sgpr_spills);
    number("scratch", k.scratch_per_lane);
    number("wave", k.wave64 || wave_size(d.arch) == 64 ? 64 : 32);
    number("blocks_per_unit", uint64_t(o.blocks));
    number("register_waves_per_simd", uint64_t(o.register_limit));
    char text[64];
    std::snprintf(text, sizeof text, ",\"waves_per_simd\":%.2f", o.waves_per_simd);
    line += text;
    if (r.fault) line += ",\"fault\":" + quote(r.fault);
    line += ",\"counters\":{\"waves\":" + std::to_string(c.waves);
    number("instructions", c.instructions);
    number("valu", c.valu);
    number("trans", c.trans);
    number("salu", c.salu);
    number("smem", c.smem);
    number("branch", c.branch);
    number("barrier", c.barrier);
    number("waitcnt", c.waitcnt);
    number("other", c.other);
    number("matrix", c.matrix);
    number("matrix_flops", c.matrix_flops);
    number("vmem_load", c.vmem_load);
    number("vmem_store", c.vmem_store);
    number("vmem_load_bytes", c.vmem_load_bytes);
    number("vmem_store_bytes", c.vmem_store_bytes);
    number("vmem_segments", c.vmem_segments);
    number("lds_read", c.lds_read);
    number("lds_write", c.lds_write);
    number("lds_permute", c.lds_permute);
    number("lds_read_bytes", c.lds_read_bytes);
    number("lds_write_bytes", c.lds_write_bytes);
    number("lds_dma_bytes", c.lds_dma_bytes);
    number("lds_conflict_cycles", c.lds_conflict_cycles);
    number("scratch", c.scratch);
    line += ",\"by_mnemonic\":{";
    bool first = true;
    for (auto& [name, n] : c.by_mnemonic) {
        line += (first ? "" : ",") + quote(name) + ":" + std::to_string(n);
        first = false;
    }
    std::snprintf(text, sizeof text, "}},\"seconds\":%.6f", r.seconds);
    line += text;
    if (!r.timing.empty()) line += ",\"timing\":" + r.timing;
    line += "}\n";
    static auto* mutex = new std::mutex;
    std::lock_guard lock(*mutex);
    if (std::FILE* f = std::fopen(settings().report.c_str(), "a")) {
        std::fputs(line.c_str(), f);
        std::fclose(f);
    }
}

void count_launch(uint64_t count, double seconds, bool fault) {
    ++launches;
    faults += fault;
    instructions += count;
    busy = busy + seconds;
}

void print_summary() {
    message("%llu launches, %llu faults, %llu wave-instructions, %.3f s in kernels", (unsigned long long)launches,
        (unsigned long long)faults, (unsigned long long)instructions, double(busy));
}

} // namespace gfxemu::hip

// Not a function of HIP: the wave-instructions that the process has executed so far, on all devices. A host program
// reads it before a launch and after having waited for it.
HIP_API uint64_t hipGfxemuInstructions() { return gfxemu::hip::instructions; }
