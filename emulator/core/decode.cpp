// From a line of disassembly to an Inst: mnemonic, operands, modifiers, the handler and the registers touched.
#include "core/modifiers.h"

#include <charconv>

namespace gfxemu {
namespace {

const OpTable& table() {
    static const OpTable t = [] {
        OpTable x;
        for (auto add : {register_float, register_compare, register_integer, register_packed, register_narrow,
                 register_lanes, register_scalar, register_control})
            add(x);
        return x;
    }();
    return t;
}

void exec_unsupported(Wave& w, const Inst& i) {
    fault(w, i, Fault::Kind::unsupported, "instruction is not implemented");
}

bool has_any(const std::string& mn, std::initializer_list<const char*> parts) {
    for (auto* p : parts)
        if (mn.find(p) != mn.npos) return true;
    return false;
}
bool is_any(const std::string& mn, std::initializer_list<const char*> names) {
    for (auto* n : names)
        if (mn == n) return true;
    return false;
}
bool starts_any(const std::string& mn, std::initializer_list<const char*> prefixes) {
    for (auto* p : prefixes)
        if (starts(mn, p)) return true;
    return false;
}

// op_sel selects register halves (not packed, mix or conversion-select forms).
bool op_sel_is_half(const std::string& mn) {
    return !starts_any(mn, {"v_pk_", "v_dot"}) && !has_any(mn, {"_mix", "fp8", "bf8", "scalef32", "permlane"});
}

// gfx9: the 16-bit forms that came with op_sel keep the other half of the destination, the older ones clear it.
bool keeps_high_half_gfx9(const std::string& mn) {
    return is_any(
               mn, {"v_mad_f16", "v_fma_f16", "v_mad_u16", "v_mad_i16", "v_div_fixup_f16", "v_add_i16", "v_sub_i16"}) ||
           has_any(mn, {"_mixlo_", "scalef32"}) || starts(mn, "v_ashr_pk_") ||
           (starts_any(mn, {"v_med3_", "v_min3_", "v_max3_"}) && ends(mn, "16"));
}

int hardware_register(const std::string& name) {
    static const std::unordered_map<std::string, int> ids = {{"HW_REG_MODE", 1}, {"HW_REG_STATUS", 2},
        {"HW_REG_TRAPSTS", 3}, {"HW_REG_HW_ID", 4}, {"HW_REG_HW_ID1", 4}, {"HW_REG_HW_ID2", 24},
        {"HW_REG_GPR_ALLOC", 5}, {"HW_REG_LDS_ALLOC", 6}, {"HW_REG_IB_STS", 7}, {"HW_REG_SH_MEM_BASES", 15},
        {"HW_REG_FLAT_SCR_LO", 20}, {"HW_REG_FLAT_SCR_HI", 21}, {"HW_REG_XCC_ID", 26}, {"HW_REG_SHADER_CYCLES", 29},
        {"HW_REG_SHADER_CYCLES_LO", 29}, {"HW_REG_SHADER_CYCLES_HI", 30}, {"HW_REG_XNACK_MASK", 22},
        {"HW_REG_STATE_PRIV", 2}, {"HW_REG_WAVE_STATE_PRIV", 2}, {"HW_REG_WAVE_MODE", 1}, {"HW_REG_WAVE_STATUS", 2},
        {"HW_REG_WAVE_HW_ID1", 4}, {"HW_REG_WAVE_HW_ID2", 24}, {"HW_REG_WAVE_SCHED_MODE", 27},
        {"HW_REG_SCHED_MODE", 27}, {"HW_REG_EXCP_FLAG_PRIV", 3}, {"HW_REG_EXCP_FLAG_USER", 3}, {"HW_REG_TRAP_CTRL", 3}};
    if (auto it = ids.find(name); it != ids.end()) return it->second;
    if (!name.empty() && isdigit((unsigned char)name[0])) return (int)to_int(name);
    throw Unsupported{"hardware register " + name};
}

// A row of lanes that hold a constant. Kept for good: instructions of any code object share it.
const u32* constant_row(u32 value) {
    struct alignas(64) Row {
        u32 lanes[64];
    };
    static std::mutex mutex;
    static auto* rows = new std::unordered_map<u32, std::unique_ptr<Row>>;
    std::lock_guard lock(mutex);
    auto& row = (*rows)[value];
    if (!row) {
        row = std::make_unique<Row>();
        std::fill_n(row->lanes, 64, value);
    }
    return row->lanes;
}

class Decoder {
public:
    Decoder(Arch arch_, Inst& inst) : arch(arch_), gfx9(wave_size(arch_) == 64), i(inst) {}

    void decode(std::string_view line) {
        size_t separator = line.find(" :: "); // two halves of a dual-issue instruction
        decode_one(line.substr(0, separator));
        if (separator != line.npos) {
            i.dual = std::make_unique<Inst>();
            i.dual->pc = i.pc;
            Decoder(arch, *i.dual).decode_one(line.substr(separator + 4));
            for (int k = 0; k < i.dual->ntouch && i.ntouch < 10; k++) i.touch[i.ntouch++] = i.dual->touch[k];
        }
        i.text = std::string(line);
    }

private:
    Arch arch;
    bool gfx9;
    Inst& i;
    std::string mn;
    bool sdwa = false, legacy16 = false;
    std::vector<std::string_view> operands, modifiers;

    void decode_one(std::string_view line) {
        i.text = std::string(line);
        size_t blank = line.find(' ');
        read_mnemonic(std::string(line.substr(0, blank)));
        std::string_view rest = blank == line.npos ? std::string_view() : line.substr(blank + 1);
        if (scheduling_hint() || waitcnt(rest)) return;
        split(rest);
        for (auto t : operands) read_operand(t);
        SourceSelects selects = apply_modifiers(arch, i, modifiers, sdwa);
        if (starts_any(mn, {"s_cbranch", "s_branch", "s_call_b64"}))
            i.target = i.pc + 4 + (u64)((i64)(i16)(u16)i.word * 4);
        if (wait_by_counter()) return;
        i.ctl = control();
        if (memory() || matrix()) return;
        if (i.sdwa) { // the sources follow the destination(s)
            int first = i.nop > 1 && has_any(mn, {"_co_"}) ? 2 : 1;
            if (first < i.nop) i.op[first].sel = selects.src0;
            if (first + 1 < i.nop) i.op[first + 1].sel = selects.src1;
        }
        alu();
    }

    void read_mnemonic(std::string name) {
        if (starts(name, "v_dual_")) name = "v_" + name.substr(7);
        if (starts(name, "v_")) {
            for (bool more = true; more;) {
                more = false;
                for (const char* suffix : {"_e32", "_e64", "_dpp", "_dpp8", "_sdwa", "_vi", "_gfx9"}) {
                    if (!ends(name, suffix)) continue;
                    sdwa |= !std::strcmp(suffix, "_sdwa");
                    name.resize(name.size() - std::strlen(suffix));
                    more = true;
                }
            }
        } else if (ends(name, "_e32")) {
            name.resize(name.size() - 4);
        }
        // The forms of gfx9 without op_sel.
        legacy16 = gfx9 && (ends(name, "_legacy_u16") || ends(name, "_legacy_i16") || ends(name, "_legacy_f16"));
        if (legacy16) name.erase(name.size() - 11, 7);
        i.mn = mn = alias_of(name);
    }

    bool scheduling_hint() {
        if (!is_any(mn, {"s_delay_alu", "s_clause", "s_wait_alu", "s_waitcnt_depctr", "s_wait_event"}) &&
            !starts(mn, "s_sched"))
            return false;
        i.fn = table().at("s_nop").fn;
        i.cls = Cls::other;
        return true;
    }

    // s_waitcnt of gfx9 and gfx10: named counters or the raw number.
    bool waitcnt(std::string_view rest) {
        if (mn != "s_waitcnt") return false;
        auto counter = [&](const char* name) {
            size_t at = rest.find(name);
            if (at == rest.npos) return -1;
            at += std::strlen(name);
            if (!starts(rest.substr(at), "(")) return -1; // vmcnt_hi and the like
            return (int)to_int(rest.substr(at + 1, rest.find(')', at) - at - 1));
        };
        i.w_vm = counter("vmcnt");
        i.w_lgkm = counter("lgkmcnt");
        i.w_exp = counter("expcnt");
        if (!rest.empty() && isdigit((unsigned char)rest[0])) {
            u64 raw = (u64)to_int(rest);
            int lgkm_max = gfx9 ? 15 : 63;
            i.w_vm = (int)((raw & 15) | (raw >> 14 & 3) << 4);
            i.w_lgkm = (int)(raw >> 8) & lgkm_max;
            i.w_exp = (int)(raw >> 4 & 7);
            if (i.w_vm == 63) i.w_vm = -1;
            if (i.w_lgkm == lgkm_max) i.w_lgkm = -1;
        }
        i.fn = table().at("s_waitcnt").fn;
        i.cls = Cls::waitcnt;
        return true;
    }

    // The waits for one counter or two (gfx10: s_waitcnt_vscnt ..., gfx12: s_wait_loadcnt ...).
    bool wait_by_counter() {
        if (!starts_any(mn, {"s_wait_", "s_waitcnt_"})) return false;
        int n = i.nop ? (int)i.op[i.nop - 1].imm32 : 0;
        static const std::unordered_map<std::string, i32 Inst::*> counters = {{"s_wait_loadcnt", &Inst::w_vm},
            {"s_waitcnt_vmcnt", &Inst::w_vm}, {"s_wait_storecnt", &Inst::w_vs}, {"s_waitcnt_vscnt", &Inst::w_vs},
            {"s_wait_dscnt", &Inst::w_lgkm}, {"s_waitcnt_lgkmcnt", &Inst::w_lgkm}, {"s_wait_kmcnt", &Inst::w_km},
            {"s_wait_samplecnt", &Inst::w_sample}, {"s_wait_bvhcnt", &Inst::w_bvh}, {"s_wait_expcnt", &Inst::w_exp},
            {"s_waitcnt_expcnt", &Inst::w_exp}};
        if (auto it = counters.find(mn); it != counters.end()) {
            i.*it->second = n;
        } else if (is_any(mn, {"s_wait_loadcnt_dscnt", "s_wait_storecnt_dscnt"})) {
            (mn == "s_wait_loadcnt_dscnt" ? i.w_vm : i.w_vs) = n >> 8 & 63;
            i.w_lgkm = n & 63;
        } else if (mn == "s_wait_idle") {
            i.w_vm = i.w_vs = i.w_lgkm = i.w_km = i.w_sample = i.w_bvh = 0;
        } else {
            throw Unsupported{mn};
        }
        i.fn = table().at("s_waitcnt").fn;
        i.cls = Cls::waitcnt;
        return true;
    }

    // Operands are separated by top-level commas; modifiers follow the last operand after blanks.
    void split(std::string_view rest) {
        int depth = 0;
        size_t begin = 0;
        bool in_modifiers = false, in_bars = false;
        auto take = [&](size_t end) {
            auto t = trim_blanks(rest.substr(begin, end - begin));
            if (!t.empty()) (in_modifiers ? modifiers : operands).push_back(t);
            begin = end + 1;
            return !t.empty();
        };
        for (size_t k = 0; k < rest.size(); k++) {
            char c = rest[k];
            if (c == '(' || c == '[')
                depth++;
            else if (c == ')' || c == ']')
                depth--;
            else if (c == '|')
                in_bars = !in_bars;
            else if (c == ',' && depth == 0)
                take(k);
            else if (c == ' ' && depth == 0 && !in_bars && !trim_blanks(rest.substr(begin, k - begin)).empty())
                in_modifiers |= take(k);
        }
        take(rest.size());
    }

    void add_operand(const Opnd& o) {
        if (i.nop >= 8) throw Unsupported{"too many operands"};
        i.op[i.nop] = o;
        if (o.kind == Opnd::IMM) i.op[i.nop].lanes = constant_row(o.imm32);
        i.nop++;
    }
    void read_operand(std::string_view t) {
        Opnd o;
        if (starts(t, "hwreg(")) {
            i.imm = hwreg(t.substr(6, t.size() - 7));
            set_int(o, i.imm);
            add_operand(o);
        } else if (starts(t, "sendmsg(") || starts(t, "depctr")) {
            set_int(o, t.find("DEALLOC_VGPRS") != t.npos ? 3 : t.find("REALTIME") != t.npos ? 131 : 0);
            add_operand(o);
        } else if (parse_operand(t, o)) {
            add_operand(o);
        } else if (starts_any(mn, {"s_cbranch", "s_branch", "s_call_b64"})) {
            // a label: the encoding holds the distance
        } else if (starts(t, "gpr_idx(")) {
            const char* names[] = {"SRC0", "SRC1", "SRC2", "DST"};
            i.imm = 0;
            for (int k = 0; k < 4; k++)
                if (t.find(names[k]) != t.npos) i.imm |= 1 << k;
        } else {
            modifiers.push_back(t);
        }
    }
    // "NAME" or "NAME, OFFSET, WIDTH" as s_getreg encodes it.
    static i64 hwreg(std::string_view text) {
        size_t comma = text.find(',');
        int id = hardware_register(std::string(text.substr(0, comma)));
        u32 offset = 0, width = 32;
        if (comma != text.npos) {
            text.remove_prefix(comma + 1);
            comma = text.find(',');
            offset = (u32)to_int(trim_blanks(text.substr(0, comma)));
            if (comma != text.npos) width = (u32)to_int(trim_blanks(text.substr(comma + 1)));
        }
        return id | offset << 6 | (width - 1) << 11;
    }

    void touch(const Opnd& o, bool destination) {
        if ((o.kind != Opnd::V && o.kind != Opnd::S) || i.ntouch >= 10) return;
        if (o.kind == Opnd::S && o.reg > S_M0) return;
        i.touch[i.ntouch++] = {(u16)(o.kind == Opnd::V ? o.reg : 1024 + o.reg), o.n, destination};
    }
    void touch_operands(bool first_is_destination) {
        for (int k = 0; k < i.nop; k++) touch(i.op[k], k == 0 && first_is_destination);
    }

    Control control() const {
        static const std::unordered_map<std::string, Control> table = {{"s_endpgm", Control::end},
            {"s_endpgm_saved", Control::end}, {"s_sleep", Control::sleep}, {"s_sleep_var", Control::sleep},
            {"s_barrier", Control::barrier}, {"s_barrier_signal", Control::signal},
            {"s_barrier_signal_isfirst", Control::signal_isfirst}, {"s_barrier_wait", Control::wait},
            {"s_barrier_leave", Control::leave}};
        auto it = table.find(mn);
        return it == table.end() ? Control::none : it->second;
    }

    bool memory() {
        if (!starts_any(mn, {"global_", "flat_", "scratch_", "buffer_", "tbuffer_", "ds_", "s_load", "s_buffer_load",
                                "s_store", "s_atomic", "s_dcache", "s_scratch_load", "s_prefetch"}))
            return false;
        if (!decode_mem(i, mn)) throw Unsupported{mn};
        // Loads may overwrite the destination of an earlier load of the same kind (returns are in order).
        bool loads = i.cls == Cls::vload || i.cls == Cls::lds_read || i.cls == Cls::lds_permute || i.m.rtn;
        touch_operands(i.cls == Cls::smem || (loads && !i.m.lds_dma));
        return true;
    }

    bool matrix() {
        if (!starts_any(mn, {"v_mfma", "v_wmma", "v_smfmac", "v_swmmac"})) return false;
        if (!matrix_lookup(arch, mn, &i.shape)) throw Unsupported{mn};
        i.fn = exec_matrix;
        i.cls = Cls::matrix;
        touch_operands(true);
        return true;
    }

    void alu() {
        std::string key = mn;
        if (i.clamp && table().count(mn + "#clamp")) key = mn + "#clamp";
        if (!i.has_mods && table().count(mn + "#plain")) key = mn + "#plain";
        auto it = table().find(key);
        if (it == table().end()) throw Unsupported{mn};
        i.fn = it->second.fn;
        i.cls = it->second.cls;
        if (mn[0] == 'v' && op_sel_is_half(mn)) {
            int sources = i.nop - 1;
            for (int k = 0; k < sources && k < 3; k++)
                if (i.op_sel >> k & 1) i.op[1 + k].half = 2;
            if (i.op_sel >> std::min(sources, 3) & 1) i.op[0].half = 2;
        }
        for (int k = 0; k < i.nop; k++) {
            Opnd& o = i.op[k];
            if (o.kind == Opnd::IMM && o.literal && o.imm64i >> 32 == 0 && ends(mn, "_i64"))
                o.imm64i = (u64)(i64)(i32)o.imm32;
        }
        i.hi16_keep = !legacy16 && (!gfx9 || keeps_high_half_gfx9(mn)); // gfx10 and later: all keep it
        touch_operands(true);
        if (starts(mn, "v_div_fmas")) {
            Opnd vcc;
            vcc.kind = Opnd::S;
            vcc.reg = S_VCC;
            vcc.n = 2;
            touch(vcc, false);
        }
    }
};

} // namespace

Inst Inst::copy_alu() const {
    Inst t;
    t.fn = fn;
    t.pc = pc;
    t.size = size;
    t.idx = idx;
    t.cls = cls;
    t.nop = nop;
    std::copy(op, op + nop, t.op);
    t.op_sel = op_sel;
    t.op_sel_hi = op_sel_hi;
    t.has_op_sel_hi = has_op_sel_hi;
    t.neg_lo = neg_lo;
    t.neg_hi = neg_hi;
    t.omod = omod;
    t.clamp = clamp;
    t.has_mods = has_mods;
    t.hi16_keep = hi16_keep;
    t.bitop = bitop;
    t.imm = imm;
    t.mn = mn;
    t.text = text;
    return t;
}

const Inst* CodeObject::Impl::decode(u64 pc) {
    u64 offset = pc - (u64)base - text_lo;
    std::lock_guard<std::mutex> lock(decode_mutex);
    if (offset >= text_hi - text_lo || (offset & 3))
        throw Fault(Fault::Kind::memory, "gfxemu: instruction fetch outside the code at pc " + hex(pc - (u64)base));
    if (Inst* i = code[offset / 4].load()) return i;
    u32 line = line_of[offset / 4];
    if (!line) throw Fault(Fault::Kind::unsupported, "gfxemu: nothing was disassembled at pc " + hex(pc - (u64)base));
    auto i = std::make_unique<Inst>();
    i->pc = pc;
    i->idx = (u32)insts.size();
    i->size = words_of[offset / 4] * 4u;
    std::memcpy(&i->word, base + text_lo + offset, 4);
    try {
        Decoder(arch, *i).decode(lines[line - 1]);
    } catch (const Unsupported& u) {
        i->unsupported = true;
        i->fn = exec_unsupported;
        i->text = lines[line - 1] + "   [" + u.what + "]";
        i->dual.reset();
        i->ctl = Control::none;
        i->ntouch = 0;
        if (i->mn.empty()) i->mn = "?";
    }
    for (int k = 0; k < i->ntouch; k++)
        for (u32 r = 0; r < i->touch[k].n; r++) i->blocks.set(RegisterBlocks::of(i->touch[k].reg + r), true);
    Inst* result = i.get();
    insts.push_back(std::move(i));
    code[offset / 4].store(result, std::memory_order_release);
    return result;
}

} // namespace gfxemu
