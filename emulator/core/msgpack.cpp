#include "core/msgpack.h"

namespace gfxemu {
namespace {

struct Reader {
    const u8* at;
    const u8* end;

    u64 big_endian(int bytes) {
        if (end - at < bytes) throw std::runtime_error("gfxemu: truncated metadata");
        u64 v = 0;
        while (bytes--) v = v << 8 | *at++;
        return v;
    }
    Msg string(u64 size) {
        if ((u64)(end - at) < size) throw std::runtime_error("gfxemu: truncated metadata");
        Msg m;
        m.type = Msg::string;
        m.text.assign((const char*)at, size);
        at += size;
        return m;
    }
    Msg array(u64 count, int depth) {
        Msg m;
        m.type = Msg::array;
        while (count--) m.items.push_back(read(depth + 1));
        return m;
    }
    Msg map(u64 count, int depth) {
        Msg m;
        m.type = Msg::map;
        while (count--) {
            m.keys.push_back(read(depth + 1).text);
            m.items.push_back(read(depth + 1));
        }
        return m;
    }
    static Msg integer(i64 v) {
        Msg m;
        m.type = Msg::integer;
        m.number = v;
        return m;
    }
    Msg read(int depth) {
        if (depth > 32) throw std::runtime_error("gfxemu: metadata too deep");
        u8 tag = (u8)big_endian(1);
        if (tag < 0x80) return integer(tag);
        if (tag < 0x90) return map(tag & 15, depth);
        if (tag < 0xa0) return array(tag & 15, depth);
        if (tag < 0xc0) return string(tag & 31);
        if (tag >= 0xe0) return integer((i8)tag);
        switch (tag) {
        case 0xc0: return Msg{};
        case 0xc2:
        case 0xc3: {
            Msg m = integer(tag & 1);
            m.type = Msg::boolean;
            return m;
        }
        case 0xc4:
        case 0xd9: return string(big_endian(1));
        case 0xc5:
        case 0xda: return string(big_endian(2));
        case 0xc6:
        case 0xdb: return string(big_endian(4));
        case 0xca: big_endian(4); return Msg{}; // floating point: not used by the metadata
        case 0xcb: big_endian(8); return Msg{};
        case 0xcc: return integer((i64)big_endian(1));
        case 0xcd: return integer((i64)big_endian(2));
        case 0xce: return integer((i64)big_endian(4));
        case 0xcf: return integer((i64)big_endian(8));
        case 0xd0: return integer((i8)big_endian(1));
        case 0xd1: return integer((i16)big_endian(2));
        case 0xd2: return integer((i32)big_endian(4));
        case 0xd3: return integer((i64)big_endian(8));
        case 0xdc: return array(big_endian(2), depth);
        case 0xdd: return array(big_endian(4), depth);
        case 0xde: return map(big_endian(2), depth);
        case 0xdf: return map(big_endian(4), depth);
        default: throw std::runtime_error("gfxemu: metadata type not understood");
        }
    }
};

} // namespace

Msg parse_msgpack(const u8* begin, const u8* end) { return Reader{begin, end}.read(0); }

} // namespace gfxemu
