#include "core/operands.h"

#include <charconv>
#include <cstdlib>

namespace gfxemu {

i64 to_int(std::string_view s) {
    bool neg = false;
    if (!s.empty() && (s[0] == '-' || s[0] == '+')) {
        neg = s[0] == '-';
        s.remove_prefix(1);
    }
    u64 v = 0;
    if (starts(s, "0x"))
        std::from_chars(s.data() + 2, s.data() + s.size(), v, 16);
    else
        std::from_chars(s.data(), s.data() + s.size(), v, 10);
    return neg ? -(i64)v : (i64)v;
}
void set_int(Opnd& o, i64 v) {
    o.kind = Opnd::IMM;
    o.imm32 = (u32)v;
    o.imm16 = (u16)v;
    o.immbf = (u16)v;
    o.imm64f = o.imm64i = (u64)v;
}
static void set_f(Opnd& o, double v) {
    o.kind = Opnd::IMM;
    o.inline_float = true;
    o.imm32 = std::bit_cast<u32>((float)v);
    o.imm16 = f32_to_f16_rne((float)v);
    o.immbf = f32_to_bf16_rne((float)v);
    if (std::fabs(v - 0.15915494309189532) < 1e-4) {
        o.imm32 = 0x3e22f983;
        o.imm16 = 0x3118;
        o.immbf = 0x3e22;
        o.imm64f = o.imm64i = 0x3fc45f306dc9c882ull;
    } else
        o.imm64f = o.imm64i = std::bit_cast<u64>(v);
}
static void set_lit(Opnd& o, u64 v) {
    o.kind = Opnd::IMM;
    o.literal = true;
    o.imm32 = (u32)v;
    o.imm16 = (u16)v;
    o.immbf = (u16)v;
    o.imm64f = v >> 32 ? v : v << 32;
    o.imm64i = v;
}

bool parse_operand(std::string_view t, Opnd& o) {
    auto reg = [&](std::string_view p, Opnd::Kind k, int base) -> bool {
        std::string_view r = t.substr(p.size());
        if (r.empty()) return false;
        if (r[0] == '[') {
            size_t c = r.find(':');
            i64 a, b;
            if (c == r.npos) {
                a = b = to_int(r.substr(1, r.size() - 2));
            } else {
                a = to_int(r.substr(1, c - 1));
                b = to_int(r.substr(c + 1, r.size() - c - 2));
            }
            o.kind = k;
            o.reg = (u16)(a + base);
            o.n = (u8)(b - a + 1);
            return true;
        }
        if (!isdigit((unsigned char)r[0])) return false;
        if (ends(r, ".l")) {
            o.half = 1;
            r.remove_suffix(2);
        } else if (ends(r, ".h")) {
            o.half = 2;
            r.remove_suffix(2);
        }
        for (char c : r)
            if (!isdigit((unsigned char)c)) return false;
        o.kind = k;
        o.reg = (u16)(to_int(r) + base);
        o.n = 1;
        return true;
    };
    if (t.empty()) return false;
    if (t[0] == '-' && t.size() > 1 && !isdigit((unsigned char)t[1])) {
        if (!parse_operand(t.substr(1), o)) return false;
        o.neg = true;
        return true;
    }
    if (t[0] == '|' && t.back() == '|') {
        if (!parse_operand(t.substr(1, t.size() - 2), o)) return false;
        o.abs = true;
        return true;
    }
    auto wrap = [&](std::string_view p) { return starts(t, p) && t.back() == ')'; };
    if (wrap("neg(")) {
        if (!parse_operand(t.substr(4, t.size() - 5), o)) return false;
        o.neg = true;
        return true;
    }
    if (wrap("abs(")) {
        if (!parse_operand(t.substr(4, t.size() - 5), o)) return false;
        o.abs = true;
        return true;
    }
    if (wrap("sext(")) {
        if (!parse_operand(t.substr(5, t.size() - 6), o)) return false;
        o.sext = true;
        return true;
    }
    if (wrap("lit(") || wrap("lit64(")) {
        size_t b = t.find('(');
        set_lit(o, (u64)to_int(t.substr(b + 1, t.size() - b - 2)));
        return true;
    }
    if (isdigit((unsigned char)t[0]) || t[0] == '-') {
        if (t.find("0x") != t.npos) {
            i64 v = to_int(t);
            set_lit(o, (u64)v);
            return true;
        }
        if (t.find('.') != t.npos || t.find('e') != t.npos) {
            set_f(o, std::strtod(std::string(t).c_str(), nullptr));
            return true;
        }
        for (size_t k = t[0] == '-'; k < t.size(); k++)
            if (!isdigit((unsigned char)t[k])) return false;
        set_int(o, to_int(t));
        return true;
    }
    auto S = [&](int r, int n) {
        o.kind = Opnd::S;
        o.reg = (u16)r;
        o.n = (u8)n;
        return true;
    };
    if (t == "vcc") return S(S_VCC, 2);
    if (t == "vcc_lo") return S(S_VCC, 1);
    if (t == "vcc_hi") return S(S_VCC + 1, 1);
    if (t == "exec") return S(S_EXEC, 2);
    if (t == "exec_lo") return S(S_EXEC, 1);
    if (t == "exec_hi") return S(S_EXEC + 1, 1);
    if (t == "m0") return S(S_M0, 1);
    if (t == "flat_scratch") return S(S_FLATSCR, 2);
    if (t == "flat_scratch_lo") return S(S_FLATSCR, 1);
    if (t == "flat_scratch_hi") return S(S_FLATSCR + 1, 1);
    if (t == "xnack_mask") return S(S_XNACK, 2);
    if (t == "xnack_mask_lo") return S(S_XNACK, 1);
    if (t == "xnack_mask_hi") return S(S_XNACK + 1, 1);
    if (t == "null" || t == "off") {
        o.kind = Opnd::NUL;
        return true;
    }
    if (t == "scc" || t == "src_scc") {
        o.kind = Opnd::SCC;
        return true;
    }
    if (t == "vccz" || t == "src_vccz") {
        o.kind = Opnd::VCCZ;
        return true;
    }
    if (t == "execz" || t == "src_execz") {
        o.kind = Opnd::EXECZ;
        return true;
    }
    if (t == "src_shared_base") {
        set_lit(o, SHARED_APERTURE);
        o.imm32 = (u32)(SHARED_APERTURE >> 32);
        return true;
    }
    if (t == "src_private_base") {
        set_lit(o, PRIVATE_APERTURE);
        o.imm32 = (u32)(PRIVATE_APERTURE >> 32);
        return true;
    }
    if (t == "src_shared_limit") {
        set_lit(o, SHARED_APERTURE | 0xffffffff);
        o.imm32 = (u32)(SHARED_APERTURE >> 32);
        return true;
    }
    if (t == "src_private_limit") {
        set_lit(o, PRIVATE_APERTURE | 0xffffffff);
        o.imm32 = (u32)(PRIVATE_APERTURE >> 32);
        return true;
    }
    if (t == "src_pops_exiting_wave_id") {
        set_int(o, 0);
        return true;
    }
    if (starts(t, "ttmp")) return reg("ttmp", Opnd::S, S_TTMP);
    if (t[0] == 'v') return reg("v", Opnd::V, 0);
    if (t[0] == 'a') return reg("a", Opnd::V, A_BASE);
    if (t[0] == 's') return reg("s", Opnd::S, 0);
    return false;
}

std::vector<u32> bits_list(std::string_view v) { // [0,1,2]
    std::vector<u32> r;
    if (v.size() < 2) return r;
    v = v.substr(1, v.size() - 2);
    while (!v.empty()) {
        size_t c = v.find(',');
        r.push_back((u32)to_int(v.substr(0, c)));
        if (c == v.npos) break;
        v.remove_prefix(c + 1);
    }
    return r;
}
u8 mask_of(std::string_view v) {
    auto l = bits_list(v);
    u8 m = 0;
    for (size_t i = 0; i < l.size(); i++) m |= (u8)(l[i] << i);
    return m;
}
u8 sdwa_select(std::string_view v) {
    if (starts(v, "BYTE_")) return (u8)(v[5] - '0');
    if (starts(v, "WORD_")) return (u8)(4 + v[5] - '0');
    return 6;
}

} // namespace gfxemu
