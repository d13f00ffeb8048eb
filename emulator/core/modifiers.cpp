#include "core/modifiers.h"

#include <algorithm>

namespace gfxemu {
namespace {

// The lane that lane `l` reads, or -1.
int dpp_source(std::string_view control, int n, const std::vector<u32>& quad, int l, int lanes) {
    int row = l & ~15, x = l & 15;
    if (control == "quad_perm") return (l & ~3) | (int)quad.at((size_t)(l & 3));
    if (control == "row_shl") return x + n < 16 ? row + x + n : -1;
    if (control == "row_shr") return x - n >= 0 ? row + x - n : -1;
    if (control == "row_ror") return row + ((x - n) & 15);
    if (control == "row_mirror") return row + 15 - x;
    if (control == "row_half_mirror") return (l & ~7) + 7 - (l & 7);
    if (control == "row_share" || control == "row_newbcast") return row + n;
    if (control == "row_xmask") return row + (x ^ n);
    if (control == "row_bcast") return n == 15 ? row - 1 : l >= 32 ? 31 : -1;
    if (control == "wave_shl") return l + 1 < lanes ? l + 1 : -1;
    if (control == "wave_shr") return l - 1;
    if (control == "wave_rol") return (l + 1) % lanes;
    if (control == "wave_ror") return (l + lanes - 1) % lanes;
    throw Unsupported{"dpp control " + std::string(control)};
}

struct DppText {
    std::string_view control, value;
    std::vector<u32> dpp8;
    u64 row_mask = 0xf, bank_mask = 0xf;
    bool bound_ctrl = false, fetch_inactive = false;
    bool present() const { return !control.empty() || !dpp8.empty(); }
};

std::unique_ptr<Dpp> make_dpp(const DppText& t, int lanes) {
    auto d = std::make_unique<Dpp>();
    int n = t.value.empty() ? 0 : (int)to_int(t.value);
    auto quad = t.control == "quad_perm" ? bits_list(t.value) : std::vector<u32>();
    d->write_mask = 0;
    for (int l = 0; l < 64; l++) {
        if (t.dpp8.empty()) {
            int from = dpp_source(t.control, n, quad, l, lanes);
            d->map[l] = from < 0 || from >= lanes ? 0xff : (u8)from;
        } else {
            d->map[l] = (u8)((l & ~7) | (int)t.dpp8.at((size_t)(l & 7)));
        }
        if ((t.row_mask >> (l / 16 & 3) & 1) && (t.bank_mask >> (l / 4 & 3) & 1)) d->write_mask |= 1ull << l;
    }
    d->bound_zero = t.bound_ctrl || !t.dpp8.empty();
    d->fi = t.fetch_inactive;
    return d;
}

// offset:swizzle(...) of ds_swizzle_b32: the 16-bit pattern.
u32 swizzle_pattern(std::string_view arguments) {
    std::vector<std::string_view> a;
    for (;;) {
        size_t comma = arguments.find(',');
        a.push_back(trim_blanks(arguments.substr(0, comma)));
        if (comma == arguments.npos) break;
        arguments.remove_prefix(comma + 1);
    }
    auto number = [&](size_t k) { return (u32)to_int(a.at(k)); };
    if (a[0] == "QUAD_PERM") return 0x8000 | number(1) | number(2) << 2 | number(3) << 4 | number(4) << 6;
    // The other modes print a lane map (lane & and_mask | or_mask) ^ xor_mask.
    if (a[0] == "BROADCAST") return (31 & ~(number(1) - 1)) | number(2) << 5;
    if (a[0] == "SWAP") return 0x1f | number(1) << 10;
    if (a[0] == "REVERSE") return 0x1f | (number(1) - 1) << 10;
    if (a[0] != "BITMASK_PERM") throw Unsupported{"swizzle " + std::string(a[0])};
    std::string bits(a.at(1)); // most significant first: 0, 1, p (preserve), i (invert)
    bits.erase(std::remove(bits.begin(), bits.end(), '"'), bits.end());
    u32 and_mask = 0, or_mask = 0, xor_mask = 0;
    for (int b = 0; b < 5; b++) {
        char c = bits.at((size_t)(4 - b));
        if (c == '1') or_mask |= 1u << b;
        if (c == 'p' || c == 'i') and_mask |= 1u << b;
        if (c == 'i') xor_mask |= 1u << b;
    }
    return and_mask | or_mask << 5 | xor_mask << 10;
}

// Cache hints and the like: no effect on results.
bool is_hint(std::string_view key) {
    for (auto hint :
        {"slc", "dlc", "nt", "sc1", "nv", "scope", "scc", "matrix_a_reuse", "matrix_b_reuse", "nontemporal"})
        if (key == hint) return true;
    return false;
}

class ModifierReader {
public:
    explicit ModifierReader(Inst& inst) : i(inst) {}
    SourceSelects selects;
    DppText dpp;
    Sdwa destination;
    bool sdwa = false;

    void read(std::string_view text) {
        size_t colon = text.find(':');
        std::string_view key = text.substr(0, colon);
        std::string_view v = colon == text.npos ? std::string_view() : text.substr(colon + 1);
        bool known = memory(key, v) || arithmetic(key, v) || lane_exchange(key, v) || sub_dword(key, v) || is_hint(key);
        if (!known) throw Unsupported{"modifier or operand '" + std::string(text) + "'"};
    }

private:
    Inst& i;

    template <class T> static bool set(T& field, i64 value) {
        field = (T)value;
        return true;
    }
    bool memory(std::string_view key, std::string_view v) {
        if (key == "offset" && starts(v, "swizzle(")) return set(i.offset, swizzle_pattern(v.substr(8, v.size() - 9)));
        if (key == "offset") return set(i.offset, to_int(v));
        if (key == "offset0") return set(i.offset0, to_int(v));
        if (key == "offset1") return set(i.offset1, to_int(v));
        if (key == "glc" || key == "sc0") return set(i.glc, true);
        if (key == "th") return set(i.glc, i.glc || v.find("RETURN") != v.npos);
        if (key == "offen") return set(i.offen, true);
        if (key == "idxen") return set(i.idxen, true);
        if (key == "lds") return set(i.lds, true);
        if (key == "gds") throw Unsupported{"gds"};
        return false;
    }
    bool arithmetic(std::string_view key, std::string_view v) {
        if (key == "op_sel") return set(i.op_sel, mask_of(v));
        if (key == "op_sel_hi") return set(i.op_sel_hi, mask_of(v)) && set(i.has_op_sel_hi, true);
        if (key == "neg_lo") return set(i.neg_lo, mask_of(v));
        if (key == "neg_hi") return set(i.neg_hi, mask_of(v));
        if (key == "clamp") return set(i.clamp, true);
        if (key == "mul") return set(i.omod, to_int(v) == 2 ? 1 : 2);
        if (key == "div") return set(i.omod, 3);
        if (key == "cbsz") return set(i.cbsz, to_int(v));
        if (key == "abid") return set(i.abid, to_int(v));
        if (key == "blgp") return set(i.blgp, to_int(v));
        if (key == "neg" && !v.empty()) return set(i.blgp, mask_of(v)); // double-precision MFMA
        if (key == "bitop3") return set(i.bitop, to_int(v));
        if (key == "byte_sel") return set(i.byte_sel, to_int(v));
        return false;
    }
    bool lane_exchange(std::string_view key, std::string_view v) {
        if (key == "row_mask") return set(dpp.row_mask, to_int(v));
        if (key == "bank_mask") return set(dpp.bank_mask, to_int(v));
        if (key == "bound_ctrl") return set(dpp.bound_ctrl, true);
        if (key == "fi") return set(dpp.fetch_inactive, to_int(v) != 0);
        if (key == "dpp8") {
            dpp.dpp8 = bits_list(v);
            return true;
        }
        if (!starts(key, "quad_perm") && !starts(key, "row_") && !starts(key, "wave_")) return false;
        dpp.control = key;
        dpp.value = v;
        return true;
    }
    bool sub_dword(std::string_view key, std::string_view v) {
        if (key == "src0_sel") return set(selects.src0, sdwa_select(v));
        if (key == "src1_sel") return set(selects.src1, sdwa_select(v));
        if (key == "dst_sel") return set(destination.dst_sel, sdwa_select(v)) && set(sdwa, true);
        if (key == "dst_unused")
            return set(destination.dst_unused, v == "UNUSED_SEXT"       ? 1
                                               : v == "UNUSED_PRESERVE" ? 2
                                                                        : 0) &&
                   set(sdwa, true);
        return false;
    }
};

} // namespace

SourceSelects apply_modifiers(Arch arch, Inst& i, const std::vector<std::string_view>& modifiers, bool sdwa) {
    ModifierReader reader(i);
    for (auto text : modifiers) reader.read(text);
    if (reader.dpp.present()) i.dpp = make_dpp(reader.dpp, wave_size(arch));
    if (sdwa || reader.sdwa) i.sdwa = std::make_unique<Sdwa>(reader.destination);
    i.has_mods = i.dpp || i.sdwa || i.clamp || i.omod;
    for (int k = 0; k < i.nop; k++) i.has_mods |= i.op[k].neg || i.op[k].abs || i.op[k].sext;
    return reader.selects;
}

} // namespace gfxemu
