// LDS: bounds, races between waves, bank conflicts.
#include "core/memory.h"

#include <algorithm>

namespace gfxemu {

// ---------------------------------------------------------------- bounds
void lds_bounds(Wave& w, const Inst& i, const u32* address, u64 mask, u32 bytes) {
    u32 last = 0;
    if (mask == w.full)
        GFX_LANES(w, l, last = std::max(last, address[l]));
    else
        each_lane(mask, [&](int l) { last = std::max(last, address[l]); });
    if (!mask || (u64)last + bytes <= w.wg->lds_size) return;
    each_lane(mask, [&](int l) {
        if ((u64)address[l] + bytes > w.wg->lds_size)
            fault(w, i, Fault::Kind::lds_bounds,
                std::to_string(bytes) + "-byte access at LDS offset " + hex(address[l]) + ", " +
                    std::to_string(w.wg->lds_size) + " bytes allocated",
                l);
    });
}

// ---------------------------------------------------------------- races
void LdsShadow::reset(size_t count) {
    stride = (count + 7) & ~size_t(3);
    store.resize(stride * COLUMNS);
    // Everything else is read only where the interval is the present one.
    std::fill_n(column(W_EPOCH), stride, ~0u);
    std::fill_n(column(R_EPOCH), stride, ~0u);
    std::fill_n(column(DMA), stride, 0u);
}

namespace {

constexpr u32 several_waves = 0xfffe;

[[noreturn]] void report_race(
    Wave& w, const Inst& i, u32 word, const char* what, u32 other_inst, u32 other_wave, int lane) {
    auto& image = *w.wg->run->code->impl;
    const Inst* other;
    {
        std::lock_guard lock(image.decode_mutex);
        other = image.insts[other_inst].get();
    }
    fault(w, i, Fault::Kind::lds_race,
        std::string(what) + " at LDS offset " + hex(word * 4) + " conflicts with " +
            (other_wave == several_waves ? "several waves" : "wave " + std::to_string(other_wave)) + " executing `" +
            other->text + "` at pc " + hex(other->pc - (u64)image.base) + " in the same barrier interval",
        lane);
}

// Whose load to LDS covers the dword at offset `at`.
std::string dma_source(Workgroup& g, u32 at) {
    for (auto& wave : g.waves) {
        FifoQ& q = wave->q[Q_VM];
        for (size_t e = 0; e < q.size(); e++) {
            Dma* d = q.at(e).dma.get();
            if (!d) continue;
            bool covers = false;
            each_lane(d->mask, [&](int l) { covers |= at + 4 > d->addr[l] && at < d->addr[l] + d->bytes; });
            if (covers)
                return ": wave " + std::to_string(wave->id) + ", `" + d->inst->text + "` at pc " +
                       hex(d->inst->pc - (u64)g.run->code->impl->base) + ", " + std::to_string(q.size() - 1 - e) +
                       " vector memory operations after it";
        }
    }
    return "";
}

// One access of a wave to the shadow of the LDS.
struct Toucher {
    Wave& w;
    const Inst& i;
    bool write;
    StoreValue value;
    const void* ctx;
    LdsShadow& s = w.wg->shadow;
    const u32 epoch = w.epoch, wave = w.id, me = 1u << (w.id & 31);

    // Whole dwords [first, last) that nobody else touches in conflict: the usual case, four at a time. False where
    // there may be a conflict, to be judged dword by dword; touching twice does no harm.
    bool touch_run(u32 first, u32 last) {
        u32 k = first;
        for (; k + 4 <= last; k += 4)
            if (!touch_four(k)) return false;
        for (; k < last; k++)
            if (!touch_one(k)) return false;
        return true;
    }

    // Bytes `mask` of a dword, exactly. `at`: where lane `lane`'s access begins.
    void touch_exactly(u32 k, u32 mask, int lane, u32 at) {
        u32 *we = s.at(LdsShadow::W_EPOCH, k), *ws = s.at(LdsShadow::W_SET, k), *wm = s.at(LdsShadow::W_MASK, k);
        u32 *re = s.at(LdsShadow::R_EPOCH, k), *rs = s.at(LdsShadow::R_SET, k), *rm = s.at(LdsShadow::R_MASK, k);
        u32 *ww = s.at(LdsShadow::W_WAVE, k), *rw = s.at(LdsShadow::R_WAVE, k);
        if (*s.at(LdsShadow::DMA, k)) [[unlikely]]
            fault(w, i, *s.at(LdsShadow::DMA_WAVE, k) == wave ? Fault::Kind::wait_hazard : Fault::Kind::lds_race,
                "LDS offset " + hex(k * 4) + " is the target of an LDS-DMA load that has not been waited for" +
                    dma_source(*w.wg, k * 4),
                lane);
        bool same = false; // stores the value that another wave stored
        if (*we == epoch && (*ws & ~me) && (*wm & mask)) {
            same = write && value && same_value(k, mask, lane, at);
            if (write ? !same : !(*ws & me))
                report_race(w, i, k, write ? "write" : "read", *s.at(LdsShadow::W_INST, k),
                    *ww == wave ? several_waves : *ww, lane);
        }
        if (write) {
            if (*re == epoch && (*rs & ~me & ~(same ? *ws : 0)) && (*rm & mask))
                report_race(w, i, k, "write", *s.at(LdsShadow::R_INST, k), *rw, lane);
            *wm = same || (*we == epoch && *ww == wave) ? *wm | mask : mask;
            *ws = same ? *ws | me : me;
            *we = epoch;
            *ww = wave;
            *s.at(LdsShadow::W_INST, k) = i.idx;
        } else if (*re == epoch && (*rs == me || (*rm & mask))) {
            if (*rs != me) *rw = several_waves;
            *rs |= me;
            *rm |= mask;
        } else {
            *re = epoch;
            *rw = wave;
            *rs = me;
            *rm = mask;
            *s.at(LdsShadow::R_INST, k) = i.idx;
        }
    }

private:
    bool same_value(u32 k, u32 mask, int lane, u32 at) const {
        for (u32 byte = 0; byte < 4; byte++)
            if ((mask >> byte & 1) && w.wg->lds[k * 4 + byte] != value(w, i, ctx, lane, k * 4 + byte - at))
                return false;
        return true;
    }

    template <class V> V load(LdsShadow::Column c, u32 k) const {
        V v;
        std::memcpy(&v, s.at(c, k), sizeof v);
        return v;
    }
    template <class V> void put(LdsShadow::Column c, u32 k, V v) { std::memcpy(s.at(c, k), &v, sizeof v); }

    // V: u32, or a vector of four. `pick(c, a, b)` is c ? a : b by element, `none` whether no bit is set.
    template <class V, class Pick, class None> bool touch(u32 k, Pick pick, None none) {
        const V zero{}, now = zero + epoch, mine = zero + me, others = zero + ~me, bytes = zero + 15u;
        const V written = pick(load<V>(LdsShadow::W_EPOCH, k) == now, load<V>(LdsShadow::W_SET, k), zero);
        const auto read_now = load<V>(LdsShadow::R_EPOCH, k) == now;
        const V readers = pick(read_now, load<V>(LdsShadow::R_SET, k), zero);
        if (!none(load<V>(LdsShadow::DMA, k) | (written & others) | (write ? readers & others : zero))) return false;
        if (write) {
            put(LdsShadow::W_EPOCH, k, now);
            put(LdsShadow::W_SET, k, mine);
            put(LdsShadow::W_MASK, k, bytes);
            put(LdsShadow::W_WAVE, k, zero + wave);
            put(LdsShadow::W_INST, k, zero + i.idx);
        } else {
            const V by_me = pick(read_now, load<V>(LdsShadow::R_WAVE, k), zero + wave);
            put(LdsShadow::R_EPOCH, k, now);
            put(LdsShadow::R_SET, k, readers | mine);
            put(LdsShadow::R_MASK, k, bytes);
            put(LdsShadow::R_WAVE, k, pick((readers & others) == zero, by_me, zero + several_waves));
            put(LdsShadow::R_INST, k, pick(read_now, load<V>(LdsShadow::R_INST, k), zero + i.idx));
        }
        return true;
    }
    bool touch_one(u32 k) {
        return touch<u32>(k, [](bool c, u32 a, u32 b) { return c ? a : b; }, [](u32 v) { return v == 0; });
    }
    bool touch_four(u32 k) {
        typedef u32 V4 __attribute__((vector_size(16)));
        return touch<V4>(
            k, [](auto c, V4 a, V4 b) { return ((V4)c & a) | (~(V4)c & b); },
            [](V4 v) { return _mm_testz_si128((__m128i)v, (__m128i)v) != 0; });
    }
};

// The lanes' accesses as runs of whole dwords; false where some access is not made of whole dwords, or in conflict.
bool touch_runs(Toucher& t, const u32* address, u64 mask, u32 bytes) {
    if (bytes % 4) return false;
    u32 first = ~0u, last = ~0u; // of the run, in bytes
    for (u64 b = mask; b; b &= b - 1) {
        u32 a = address[std::countr_zero(b)];
        if (a % 4) return false;
        if (a == last) {
            last += bytes;
        } else if (a + bytes != last || a < first) {
            if (first != ~0u && !t.touch_run(first / 4, last / 4)) return false;
            first = a;
            last = a + bytes;
        }
    }
    return first == ~0u || t.touch_run(first / 4, last / 4);
}

} // namespace

// Waves that store the same value to the same place do not race: compilers let every holder of a replicated value store
// it.
void lds_touch(Wave& w, const Inst& i, const u32* address, u64 mask, u32 bytes, bool write, bool atomic,
    StoreValue value, const void* ctx) {
    if (w.wg->waves.size() < 2 && !w.q[Q_VM].size()) return;
    Toucher t{w, i, write && !atomic, value, ctx};
    if (touch_runs(t, address, mask, bytes)) return;
    u32 previous = ~0u;
    each_lane(mask, [&](int l) {
        u32 a = address[l], end = a + bytes;
        if (a == previous) return;
        previous = a;
        for (u32 k = a / 4; k * 4 < end; k++) {
            u32 from = std::max(a, k * 4) & 3, to = std::min(end, k * 4 + 4) - k * 4;
            t.touch_exactly(k, ((1u << to) - 1) & ~((1u << from) - 1), l, a);
        }
    });
}

// LDS operations still outstanding when their wave signals a barrier belong to the next interval as well.
void remark_outstanding(Wave& w) {
    Workgroup& g = *w.wg;
    if (!g.run->chk.race || g.waves.size() < 2) return;
    const u32 epoch = w.epoch + 1, me = 1u << (w.id & 31);
    auto mark = [&](const LdsOp& op, u32 k) {
        bool write = op.write;
        auto at = [&](LdsShadow::Column on_write, LdsShadow::Column on_read) -> u32& {
            return *g.shadow.at(write ? on_write : on_read, k);
        };
        u32& e = at(LdsShadow::W_EPOCH, LdsShadow::R_EPOCH);
        u32& set = at(LdsShadow::W_SET, LdsShadow::R_SET);
        u32& wave = at(LdsShadow::W_WAVE, LdsShadow::R_WAVE);
        if (e != epoch) set = 0;
        wave = set & ~me ? several_waves : w.id;
        set |= me;
        e = epoch;
        at(LdsShadow::W_MASK, LdsShadow::R_MASK) = 15;
        at(LdsShadow::W_INST, LdsShadow::R_INST) = op.idx;
    };
    FifoQ& q = w.q[Q_LGKM];
    for (size_t n = 0; n < q.size(); n++)
        for (LdsOp* op : {q.at(n).lop.get(), q.at(n).lop2.get()}) {
            if (!op) continue;
            each_lane(op->mask, [&](int l) {
                for (u32 k = op->addr[l] / 4; k * 4 < op->addr[l] + op->bytes; k++) mark(*op, k);
            });
        }
}

// ---------------------------------------------------------------- bank conflicts
// Banks are 4 bytes wide: 32 of them; 64 for the 64- and 128-bit reads of gfx950. A pass serves as many lanes as fill
// the banks once (32 dwords: 32 lanes of b32, 16 of b64, 8 of b128; twice that with 64 banks). A pass takes as many
// cycles as the largest number of distinct dwords on one bank; the cycles above one are counted. Lanes pass in order,
// but for the 96- and 128-bit reads of gfx9: order measured on MI300X and MI355X (HipKittens,
// analysis/paper_experiments/phases).
namespace {

// Cycles beyond the first that a pass over the lanes of `mask` takes.
u32 pass_conflicts(const u32* address, u64 mask, u32 bytes, u32 banks) {
    u32 first = ~0u, last = 0;
    each_lane(mask, [&](int l) {
        first = std::min(first, address[l]);
        last = std::max(last, address[l]);
    });
    if (last + bytes - (first & ~3u) <= banks * 4) return 0; // a window of one row: every dword has its own bank
    u32 count[64], seen[64][8], most = 1, previous = ~0u;
    std::memset(count, 0, banks * 4);
    each_lane(mask, [&](int l) {
        u32 word = address[l] / 4;
        if (word == previous) return;
        previous = word;
        for (u32 k = 0; k < std::max(1u, bytes / 4); k++) {
            u32 d = word + k, bank = d & (banks - 1), n = count[bank];
            if (std::find(seen[bank], seen[bank] + std::min(n, 8u), d) != seen[bank] + std::min(n, 8u)) continue;
            if (n < 8) seen[bank][n] = d;
            count[bank] = n + 1;
            most = std::max(most, n + 1);
        }
    });
    return most - 1;
}

} // namespace

void count_bank_conflicts(Wave& w, const u32* address, u64 mask, u32 bytes, bool write) {
    static const u8 wide_order[32] = {0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15, 24, 25, 26, 27, 4, 5, 6, 7, 16, 17,
        18, 19, 8, 9, 10, 11, 28, 29, 30, 31};
    u32 reordered[64];
    if (w.gfx9 && !write && bytes >= 12) {
        u64 m = 0;
        for (u32 l = 0; l < 64; l++) {
            u32 from = (l & 32) | wide_order[l & 31];
            reordered[l] = address[from];
            m |= (mask >> from & 1) << l;
        }
        address = reordered;
        mask = m;
    }
    u32 banks = w.arch == Arch::gfx950 && !write && (bytes == 8 || bytes == 16) ? 64 : 32;
    u32 words = bytes == 12 ? 4 : std::max(1u, bytes / 4), group = banks / words;
    for (u32 l = 0; l < (u32)w.lanes; l += group) {
        u64 lanes = mask & (group >= 64 ? ~0ull : ((1ull << group) - 1) << l);
        if (lanes) w.wg->ctr->lds_conflict_cycles += pass_conflicts(address, lanes, bytes, banks);
    }
}

} // namespace gfxemu
