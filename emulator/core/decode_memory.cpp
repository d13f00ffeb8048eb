// Memory instructions by name.
#include "core/memory.h"

#include <algorithm>

namespace gfxemu {

namespace {

// The name after "atomic_" (vector memory) or "ds_" without _rtn.
bool parse_atomic(std::string_view s, MemOp& m) {
    struct Entry {
        const char* name;
        AtOp op;
        u8 bytes;
    };
    static const Entry table[] = {{"swap", AtOp::swap, 4}, {"swap_b32", AtOp::swap, 4}, {"swap_x2", AtOp::swap, 8},
        {"swap_b64", AtOp::swap, 8}, {"cmpswap", AtOp::cmpswap, 4}, {"cmpswap_b32", AtOp::cmpswap, 4},
        {"cmpswap_x2", AtOp::cmpswap, 8}, {"cmpswap_b64", AtOp::cmpswap, 8}, {"add", AtOp::add, 4},
        {"add_u32", AtOp::add, 4}, {"add_x2", AtOp::add, 8}, {"add_u64", AtOp::add, 8}, {"sub", AtOp::sub, 4},
        {"sub_u32", AtOp::sub, 4}, {"sub_x2", AtOp::sub, 8}, {"sub_u64", AtOp::sub, 8}, {"rsub_u32", AtOp::rsub, 4},
        {"rsub_u64", AtOp::rsub, 8}, {"smin", AtOp::smin, 4}, {"min_i32", AtOp::smin, 4}, {"smin_x2", AtOp::smin, 8},
        {"min_i64", AtOp::smin, 8}, {"umin", AtOp::umin, 4}, {"min_u32", AtOp::umin, 4}, {"umin_x2", AtOp::umin, 8},
        {"min_u64", AtOp::umin, 8}, {"smax", AtOp::smax, 4}, {"max_i32", AtOp::smax, 4}, {"smax_x2", AtOp::smax, 8},
        {"max_i64", AtOp::smax, 8}, {"umax", AtOp::umax, 4}, {"max_u32", AtOp::umax, 4}, {"umax_x2", AtOp::umax, 8},
        {"max_u64", AtOp::umax, 8}, {"and", AtOp::and_, 4}, {"and_b32", AtOp::and_, 4}, {"and_x2", AtOp::and_, 8},
        {"and_b64", AtOp::and_, 8}, {"or", AtOp::or_, 4}, {"or_b32", AtOp::or_, 4}, {"or_x2", AtOp::or_, 8},
        {"or_b64", AtOp::or_, 8}, {"xor", AtOp::xor_, 4}, {"xor_b32", AtOp::xor_, 4}, {"xor_x2", AtOp::xor_, 8},
        {"xor_b64", AtOp::xor_, 8}, {"inc", AtOp::inc, 4}, {"inc_u32", AtOp::inc, 4}, {"inc_x2", AtOp::inc, 8},
        {"inc_u64", AtOp::inc, 8}, {"dec", AtOp::dec, 4}, {"dec_u32", AtOp::dec, 4}, {"dec_x2", AtOp::dec, 8},
        {"dec_u64", AtOp::dec, 8}, {"add_f32", AtOp::fadd, 4}, {"add_f64", AtOp::fadd, 8},
        {"pk_add_f16", AtOp::pk_add_f16, 4}, {"pk_add_bf16", AtOp::pk_add_bf16, 4}, {"fmin", AtOp::fmin, 4},
        {"min_f32", AtOp::fmin, 4}, {"min_num_f32", AtOp::fmin, 4}, {"fmin_x2", AtOp::fmin, 8},
        {"min_f64", AtOp::fmin, 8}, {"min_num_f64", AtOp::fmin, 8}, {"fmax", AtOp::fmax, 4}, {"max_f32", AtOp::fmax, 4},
        {"max_num_f32", AtOp::fmax, 4}, {"fmax_x2", AtOp::fmax, 8}, {"max_f64", AtOp::fmax, 8},
        {"max_num_f64", AtOp::fmax, 8}, {"csub", AtOp::clamp_sub, 4}, {"csub_u32", AtOp::clamp_sub, 4},
        {"sub_clamp_u32", AtOp::clamp_sub, 4}, {"cond_sub_u32", AtOp::cond_sub, 4}, {"fcmpswap", AtOp::fcmpswap, 4},
        {"cmpswap_f32", AtOp::fcmpswap, 4}, {"wrxchg_b32", AtOp::swap, 4}, {"wrxchg_b64", AtOp::swap, 8},
        {"storexchg_b32", AtOp::swap, 4}, {"storexchg_b64", AtOp::swap, 8}, {"cmpst_b32", AtOp::cmpswap, 4},
        {"cmpst_b64", AtOp::cmpswap, 8}, {"cmpstore_b32", AtOp::cmpswap, 4}, {"cmpstore_b64", AtOp::cmpswap, 8},
        {"cmpst_f32", AtOp::fcmpswap, 4}, {"cmpst_f64", AtOp::fcmpswap, 8}, {"cmpstore_f32", AtOp::fcmpswap, 4},
        {"mskor_b32", AtOp::mskor, 4}, {"mskor_b64", AtOp::mskor, 8}};
    for (auto& e : table)
        if (s == e.name) {
            m.atomic = true;
            m.aop = e.op;
            m.bytes = e.bytes;
            m.dwords = e.bytes / 4;
            return true;
        }
    return false;
}
// The name after load_, store_, read_, write_.
bool parse_size(std::string_view s, MemOp& m) {
    struct Entry {
        const char* name;
        u8 bytes, words;
        bool sx; // sign-extended
        u8 d16;  // 1 low half, 2 high half
    };
    static const Entry table[] = {{"dword", 4, 1, 0, 0}, {"b32", 4, 1, 0, 0}, {"dwordx2", 4, 2, 0, 0},
        {"b64", 4, 2, 0, 0}, {"dwordx3", 4, 3, 0, 0}, {"b96", 4, 3, 0, 0}, {"dwordx4", 4, 4, 0, 0},
        {"b128", 4, 4, 0, 0}, {"ubyte", 1, 1, 0, 0}, {"u8", 1, 1, 0, 0}, {"sbyte", 1, 1, 1, 0}, {"i8", 1, 1, 1, 0},
        {"ushort", 2, 1, 0, 0}, {"u16", 2, 1, 0, 0}, {"sshort", 2, 1, 1, 0}, {"i16", 2, 1, 1, 0}, {"byte", 1, 1, 0, 0},
        {"b8", 1, 1, 0, 0}, {"short", 2, 1, 0, 0}, {"b16", 2, 1, 0, 0}, {"short_d16", 2, 1, 0, 1},
        {"d16_b16", 2, 1, 0, 1}, {"short_d16_hi", 2, 1, 0, 2}, {"d16_hi_b16", 2, 1, 0, 2}, {"ubyte_d16", 1, 1, 0, 1},
        {"d16_u8", 1, 1, 0, 1}, {"ubyte_d16_hi", 1, 1, 0, 2}, {"d16_hi_u8", 1, 1, 0, 2}, {"sbyte_d16", 1, 1, 1, 1},
        {"d16_i8", 1, 1, 1, 1}, {"sbyte_d16_hi", 1, 1, 1, 2}, {"d16_hi_i8", 1, 1, 1, 2}, {"byte_d16_hi", 1, 1, 0, 2},
        {"d16_hi_b8", 1, 1, 0, 2}, {"u16_d16", 2, 1, 0, 1}, {"u16_d16_hi", 2, 1, 0, 2}, {"u8_d16", 1, 1, 0, 1},
        {"u8_d16_hi", 1, 1, 0, 2}, {"i8_d16", 1, 1, 1, 1}, {"i8_d16_hi", 1, 1, 1, 2}, {"b16_d16_hi", 2, 1, 0, 2},
        {"b8_d16_hi", 1, 1, 0, 2}};
    for (auto& e : table)
        if (s == e.name) {
            m.bytes = e.bytes;
            m.dwords = e.words;
            m.sx = e.sx;
            m.d16 = e.d16;
            return true;
        }
    return false;
}

bool drop(Inst& i) { // caches and prefetches: no effect here
    i.fn = [](Wave&, const Inst&) {};
    i.cls = Cls::other;
    i.nop = 0;
    return true;
}

bool decode_scalar(Inst& i, std::string_view mn) {
    MemOp& m = i.m;
    if (starts(mn, "s_dcache") || starts(mn, "s_prefetch")) return drop(i);
    i.cls = Cls::smem;
    if (starts(mn, "s_store_")) {
        i.fn = exec_sstore;
        return parse_size(mn.substr(8), m);
    }
    if (starts(mn, "s_atomic_")) {
        i.fn = exec_satomic;
        return parse_atomic(mn.substr(9), m);
    }
    bool buffer = starts(mn, "s_buffer_load_");
    if (!buffer && !starts(mn, "s_load_")) return false;
    i.fn = exec_smem;
    i.imm = buffer;
    std::string_view size = mn.substr(buffer ? 14 : 7);
    if (size == "dwordx8" || size == "b256")
        m.dwords = 8;
    else if (size == "dwordx16" || size == "b512")
        m.dwords = 16;
    else
        return parse_size(size, m);
    return true;
}

bool decode_lds(Inst& i, std::string_view name) {
    MemOp& m = i.m;
    m.space = Space::lds;
    if (name == "nop") return drop(i);
    i.cls = Cls::lds_permute;
    if (name == "bpermute_b32" || name == "bpermute_fi_b32")
        i.fn = exec_bpermute;
    else if (name == "permute_b32")
        i.fn = exec_permute;
    else if (name == "swizzle_b32")
        i.fn = exec_swizzle;
    if (i.fn) return true;
    i.fn = exec_ds;
    struct Transposing {
        const char* name;
        u8 words, bits;
    };
    for (auto& t : {Transposing{"read_b64_tr_b16", 2, 16}, {"read_b64_tr_b8", 2, 8}, {"read_b64_tr_b4", 2, 4},
             {"read_b96_tr_b6", 3, 6}}) {
        if (name != t.name) continue;
        m.dwords = t.words;
        m.tr = t.bits;
        i.cls = Cls::lds_read;
        return true;
    }
    // Both spellings: up to gfx9/gfx10, since gfx11. `stride`: elements between the two accesses of a unit of offset.
    struct Form {
        const char* prefix;
        bool store;
        u32 stride;
    };
    for (auto& f : {Form{"read2st64_", false, 64}, {"read2_", false, 1}, {"load_2addr_stride64_", false, 64},
             {"load_2addr_", false, 1}, {"write2st64_", true, 64}, {"write2_", true, 1},
             {"store_2addr_stride64_", true, 64}, {"store_2addr_", true, 1}, {"read_", false, 0}, {"load_", false, 0},
             {"write_", true, 0}, {"store_", true, 0}}) {
        if (!starts(name, f.prefix)) continue;
        i.cls = f.store ? Cls::lds_write : Cls::lds_read;
        m.store = f.store;
        if (!parse_size(name.substr(std::strlen(f.prefix)), m)) return false;
        m.two = f.stride != 0;
        m.stride = (u32)m.dwords * 4 * f.stride;
        return true;
    }
    std::string atomic(name);
    if (size_t at = atomic.find("_rtn"); at != atomic.npos) {
        atomic.erase(at, 4);
        m.rtn = true;
    }
    i.cls = Cls::lds_atomic;
    i.imm = starts(atomic, "cmpstore"); // the compare value comes last
    return parse_atomic(atomic, m);
}

bool decode_vector(Inst& i, std::string_view name) {
    MemOp& m = i.m;
    for (auto* cache : {"inv", "wb", "wbinv", "gl0_inv", "gl1_inv", "wbl2", "invl2", "wbinvl1", "wbinvl1_vol"})
        if (name == cache) return drop(i);
    if (starts(name, "prefetch")) return drop(i);
    i.fn = m.space == Space::buffer ? exec_buffer : exec_vmem;
    i.cls = Cls::vload;
    if (starts(name, "atomic_")) {
        i.cls = Cls::vatomic;
        m.rtn = i.glc; // the returning form names a destination first
        return parse_atomic(name.substr(7), m);
    }
    if (starts(name, "store_")) {
        i.cls = Cls::vstore;
        m.store = true;
        return parse_size(name.substr(6), m);
    }
    if (starts(name, "load_lds_")) {
        m.lds_dma = true;
        return parse_size(name.substr(9), m);
    }
    if (starts(name, "load_tr_b128") || starts(name, "load_tr_b64")) {
        m.tr = starts(name, "load_tr_b128") ? 16 : 8;
        m.dwords = m.tr == 16 ? 4 : 2;
        return true;
    }
    if (!starts(name, "load_")) return false;
    m.lds_dma = i.lds;
    return parse_size(name.substr(5), m);
}

} // namespace

bool decode_mem(Inst& i, std::string_view mn) {
    struct Prefix {
        const char* text;
        Space space;
    };
    for (auto& p : {Prefix{"global_", Space::global}, {"flat_", Space::flat}, {"scratch_", Space::scratch},
             {"buffer_", Space::buffer}}) {
        if (!starts(mn, p.text)) continue;
        i.m.space = p.space;
        return decode_vector(i, mn.substr(std::strlen(p.text)));
    }
    if (starts(mn, "ds_")) return decode_lds(i, mn.substr(3));
    return starts(mn, "s_") && decode_scalar(i, mn);
}

} // namespace gfxemu
