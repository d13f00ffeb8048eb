// Launching a kernel: limits, host threads, counters, faults.
#include "core/run.h"
#include "timing/timing.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <thread>

namespace gfxemu {

Checks& checks() {
    static Checks c = [] {
        const char* list = std::getenv("GFXEMU_CHECK");
        if (!list) return Checks{};
        Checks k{false, false, false, false, false};
        std::string s = list;
        for (size_t at = 0; at < s.size();) {
            size_t end = std::min(s.find(',', at), s.size());
            std::string name = s.substr(at, end - at);
            at = end + 1;
            if (name == "all")
                k = {true, true, true, true, true};
            else if (name == "memory")
                k.memory = true;
            else if (name == "lds")
                k.lds = true;
            else if (name == "race")
                k.race = true;
            else if (name == "wait")
                k.wait = true;
            else if (name == "uninit")
                k.uninit = true;
            else
                std::fprintf(stderr, "gfxemu: GFXEMU_CHECK: there is no check '%s'\n", name.c_str());
        }
        return k;
    }();
    return c;
}

void Counters::add(const Counters& o) {
    for (u64 Counters::* field : {&Counters::waves, &Counters::instructions, &Counters::valu, &Counters::trans,
             &Counters::salu, &Counters::smem, &Counters::branch, &Counters::barrier, &Counters::waitcnt,
             &Counters::other, &Counters::matrix, &Counters::matrix_flops, &Counters::vmem_load, &Counters::vmem_store,
             &Counters::vmem_load_bytes, &Counters::vmem_store_bytes, &Counters::vmem_segments, &Counters::lds_read,
             &Counters::lds_write, &Counters::lds_permute, &Counters::lds_read_bytes, &Counters::lds_write_bytes,
             &Counters::lds_dma_bytes, &Counters::lds_conflict_cycles, &Counters::scratch})
        this->*field += o.*field;
    for (auto& [name, n] : o.by_mnemonic) by_mnemonic[name] += n;
}

void fault(Wave& w, const Inst& i, Fault::Kind kind, const std::string& text, int lane) {
    static const char* names[] = {
        "memory fault", "LDS bounds", "LDS race", "wait hazard", "uninitialised read", "trap", "unsupported", "limit"};
    const RunCtx& r = *w.wg->run;
    const u32* id = w.wg->wgid;
    std::string s = std::string("gfxemu: ") + names[(int)kind] + ": " + text;
    s += "\n  kernel " + r.kernel->name + " (" + arch_name(r.arch) + "), pc " + hex(i.pc - (u64)r.code->impl->base) +
         ": " + i.text;
    s += "\n  workgroup (" + std::to_string(id[0]) + "," + std::to_string(id[1]) + "," + std::to_string(id[2]) +
         ") wave " + std::to_string(w.id);
    if (lane >= 0) s += " lane " + std::to_string(lane);
    throw Fault(kind, s);
}

namespace {

u64 env_number(const char* name, u64 fallback) {
    const char* v = std::getenv(name);
    return v && *v ? (u64)std::strtod(v, nullptr) : fallback;
}

void check_limits(const KernelInfo& k, const Launch& l, Arch arch) {
    auto limit = [](const std::string& s) { throw Fault(Fault::Kind::limits, "gfxemu: limit: " + s); };
    u64 items = (u64)l.block.x * l.block.y * l.block.z, groups = (u64)l.grid.x * l.grid.y * l.grid.z;
    if (!items || !groups) limit("empty launch of " + k.name);
    if (items > std::min(1024u, k.max_flat_workgroup_size))
        limit(k.name + " launched with " + std::to_string(items) + " work-items a workgroup, at most " +
              std::to_string(k.max_flat_workgroup_size));
    u64 lds = k.static_lds + (u64)l.dynamic_lds, lds_limit = arch == Arch::gfx950 ? 160 * 1024 : 64 * 1024;
    if (lds > lds_limit)
        limit(k.name + " needs " + std::to_string(lds) + " bytes of LDS, at most " + std::to_string(lds_limit));
}

void count_class(Counters& c, const Inst& i, u64 n) {
    c.instructions += n;
    c.by_mnemonic[i.mn] += n;
    switch (i.cls) {
    case Cls::valu: c.valu += n; break;
    case Cls::trans: c.trans += n; break;
    case Cls::salu: c.salu += n; break;
    case Cls::smem: c.smem += n; break;
    case Cls::branch: c.branch += n; break;
    case Cls::barrier: c.barrier += n; break;
    case Cls::waitcnt: c.waitcnt += n; break;
    case Cls::other: c.other += n; break;
    case Cls::matrix: c.matrix += n; break;
    case Cls::vload: c.vmem_load += n; break;
    case Cls::vstore:
    case Cls::vatomic: c.vmem_store += n; break;
    case Cls::lds_read: c.lds_read += n; break;
    case Cls::lds_write:
    case Cls::lds_atomic: c.lds_write += n; break;
    case Cls::lds_permute: c.lds_permute += n; break;
    }
    if (i.m.space == Space::scratch && (i.cls == Cls::vload || i.cls == Cls::vstore)) c.scratch += n;
}

// Takes workgroups until there are none left. Those that wait for others are parked and resumed in turn.
class Worker {
public:
    Worker(RunCtx& run, std::atomic<u64>& next_group, u64 count, std::atomic<bool>& stop_flag)
        : r(run), next(next_group), groups(count), stop(stop_flag) {}
    Counters counters;
    std::vector<u64> counts; // by Inst::idx

    void run() {
        std::deque<std::unique_ptr<Workgroup>> parked;
        std::unique_ptr<Workgroup> spare;
        while (!stop.load(std::memory_order_relaxed)) {
            std::unique_ptr<Workgroup> g = parked.size() < 256 ? start(spare) : nullptr;
            if (!g) {
                if (parked.empty()) break;
                g = std::move(parked.front());
                parked.pop_front();
            }
            if (run_group(*g, 4u << 20))
                spare = std::move(g);
            else
                parked.push_back(std::move(g));
        }
    }

private:
    RunCtx& r;
    std::atomic<u64>& next;
    u64 groups;
    std::atomic<bool>& stop;

    std::unique_ptr<Workgroup> start(std::unique_ptr<Workgroup>& spare) {
        u64 index = next.fetch_add(1);
        if (index >= groups) return nullptr;
        auto g = spare ? std::move(spare) : std::make_unique<Workgroup>();
        g->ctr = &counters;
        g->counts = &counts;
        start_group(r, *g, index);
        return g;
    }
};

Counters run_groups(RunCtx& r, u64 groups) {
    CodeObject::Impl& code = *r.code->impl;
    u64 threads = env_number("GFXEMU_THREADS", std::max(1u, std::thread::hardware_concurrency()));
    threads = std::max<u64>(1, std::min<u64>(threads, groups));
    std::atomic<u64> next{0};
    std::atomic<bool> stop{false};
    std::mutex mutex;
    std::exception_ptr error;
    Counters total;
    auto work = [&] {
        Worker worker(r, next, groups, stop);
        try {
            worker.run();
        } catch (...) {
            std::lock_guard lock(mutex);
            if (!error) error = std::current_exception();
            stop = true;
        }
        std::scoped_lock lock(mutex, code.decode_mutex);
        for (size_t k = 0; k < worker.counts.size(); k++) {
            u64 n = worker.counts[k];
            if (!n) continue;
            count_class(worker.counters, *code.insts[k], n);
            if (code.insts[k]->dual) count_class(worker.counters, *code.insts[k]->dual, n);
        }
        total.add(worker.counters);
    };
    if (threads == 1) {
        work();
    } else {
        std::vector<std::thread> pool;
        for (u64 t = 0; t < threads; t++) pool.emplace_back(work);
        for (auto& t : pool) t.join();
    }
    if (error) std::rethrow_exception(error);
    return total;
}

} // namespace

LaunchResult launch(const CodeObject& code, const std::string& kernel, const Launch& params) {
    CodeObject::Impl& image = *code.impl;
    auto it = image.kernels.find(kernel);
    if (it == image.kernels.end()) throw std::invalid_argument("gfxemu: no kernel named " + kernel);
    check_limits(it->second, params, image.arch);
    std::call_once(image.disasm_once, [&] { image.disassemble(); });

    RunCtx r;
    r.code = &code;
    r.kernel = &it->second;
    r.params = &params;
    r.chk = checks();
    r.arch = image.arch;
    r.max_instr = env_number("GFXEMU_MAX_INSTR", 20000000000ull);
    r.seed = env_number("GFXEMU_SEED", 0);
    build_kernarg(r);
    r.ranges = registered_ranges();
    for (auto* own : {&r.kernarg, &r.packet}) r.ranges.push_back({(u64)own->data(), (u64)own->data() + own->size()});
    std::sort(r.ranges.begin(), r.ranges.end(), [](auto& a, auto& b) { return a.lo < b.lo; });

    u64 groups = (u64)params.grid.x * params.grid.y * params.grid.z;
    std::unique_ptr<TimingRun> timing = timing_start(r, groups);
    r.timing = timing.get();
    r.count_conflicts = params.count_bank_conflicts || timing;
    Counters counters = run_groups(r, groups);
    return {std::move(counters), timing ? timing_finish(*timing, r) : std::string()};
}

} // namespace gfxemu
