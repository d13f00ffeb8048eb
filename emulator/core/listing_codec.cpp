// How a listing is stored. The text is rebuilt by walking .text:
//  - each distinct encoding is described once, in order of first appearance;
//  - it names a template, the text with its numbers taken out ("v_add_f32_e32 v#, v#, v#");
//  - a template has a rule for each number: a constant, a number before it plus a constant, or a field of the encoding
//    plus or minus a constant. Only numbers that no rule gives for all uses of the template are stored.
// Rules need no knowledge of the instruction set: whatever fits is right, for the text is compared after encoding.
#include "core/compression.h"
#include "core/listing.h"

#include <algorithm>

namespace gfxemu {
namespace {

constexpr char decimal_mark = 1, hex_mark = 2; // stand for a number in a template

// ---- bytes ----
struct Writer {
    std::string bytes;
    void number(u64 v) { // 7 bits a byte, low ones first
        for (; v >= 128; v >>= 7) bytes += char(v | 128);
        bytes += char(v);
    }
    void signed_number(i64 v) { number((u64)v << 1 ^ (u64)(v >> 63)); }
    void text(const std::string& s) {
        number(s.size());
        bytes += s;
    }
};
struct Reader {
    const u8* at;
    const u8* end;
    [[noreturn]] static void corrupt() { throw std::runtime_error("gfxemu: corrupt listing"); }
    u8 byte() {
        if (at == end) corrupt();
        return *at++;
    }
    u64 number() {
        u64 v = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            u8 b = byte();
            v |= (u64)(b & 127) << shift;
            if (b < 128) return v;
        }
        corrupt();
    }
    i64 signed_number() {
        u64 v = number();
        return (i64)(v >> 1) ^ -(i64)(v & 1);
    }
    std::string_view text() {
        u64 n = number();
        if (n > (u64)(end - at)) corrupt();
        std::string_view s((const char*)at, n);
        at += n;
        return s;
    }
};

// ---- templates ----
using Numbers = std::vector<i64>;

std::string number_text(i64 v, bool hex) {
    if (!hex) return std::to_string((u64)v);
    char b[24];
    std::snprintf(b, sizeof b, "0x%llx", (unsigned long long)v);
    return b;
}

// Takes the numbers out of the operands; those that would not print the same again stay.
std::string take_numbers(std::string_view line, Numbers& numbers) {
    size_t at = std::min(line.find(' '), line.size());
    std::string out(line.substr(0, at));
    while (at < line.size()) {
        bool hex = line[at] == '0' && at + 1 < line.size() && line[at + 1] == 'x';
        size_t end = at + (hex ? 2 : 0);
        while (end < line.size() && (hex ? isxdigit((unsigned char)line[end]) : isdigit((unsigned char)line[end])))
            end++;
        std::string token(line.substr(at, end - at));
        i64 v = token.size() > (hex ? 2 : 0) && token.size() < 19
                    ? (i64)std::strtoull(token.c_str(), nullptr, hex ? 16 : 10)
                    : 0;
        if (!token.empty() && number_text(v, hex) == token) {
            numbers.push_back(v);
            out += hex ? hex_mark : decimal_mark;
            at = end;
        } else {
            size_t n = std::max<size_t>(token.size(), 1);
            out += line.substr(at, n);
            at += n;
        }
    }
    return out;
}
std::string put_numbers(std::string_view text, const Numbers& numbers) {
    std::string out;
    size_t next = 0;
    for (char c : text) {
        if (c != decimal_mark && c != hex_mark)
            out += c;
        else if (next < numbers.size())
            out += number_text(numbers[next++], c == hex_mark);
        else
            Reader::corrupt();
    }
    return out;
}
size_t count_numbers(std::string_view text) {
    return (size_t)std::count_if(text.begin(), text.end(), [](char c) { return c == decimal_mark || c == hex_mark; });
}

// ---- rules ----
using Encoding = std::string_view; // the bytes of an instruction

i64 field(Encoding e, u32 offset, u32 width) {
    u64 v = 0;
    for (size_t byte = offset / 8; byte <= (offset + width - 1) / 8 && byte < e.size(); byte++)
        v |= (u64)(u8)e[byte] << (byte - offset / 8) * 8;
    return (i64)(v >> (offset % 8) & ((1ull << width) - 1));
}

struct Rule {
    enum Kind : u8 { constant, after, plus_field, minus_field, stored } kind = stored;
    u8 a = 0, width = 0; // after: which number; fields: first bit
    i64 bias = 0;

    // What the rule gives, without its bias.
    i64 base(const Numbers& before, Encoding e) const {
        switch (kind) {
        case after: return before.at(a);
        case plus_field: return field(e, a, width);
        case minus_field: return -field(e, a, width);
        default: return 0;
        }
    }
};

struct Use {
    Numbers numbers;
    Encoding encoding;
};

bool fits(Rule& r, const std::vector<Use>& uses, size_t slot) {
    r.bias = uses[0].numbers[slot] - r.base(uses[0].numbers, uses[0].encoding);
    for (auto& u : uses)
        if (r.base(u.numbers, u.encoding) + r.bias != u.numbers[slot]) return false;
    return true;
}
Rule find_rule(const std::vector<Use>& uses, size_t slot) {
    Rule r{Rule::constant};
    if (fits(r, uses, slot)) return r;
    r.kind = Rule::after;
    for (size_t k = 0; k < slot && k < 256; k++) {
        r.a = (u8)k;
        if (fits(r, uses, slot)) return r;
    }
    size_t bits = uses[0].encoding.size() * 8;
    for (auto& u : uses) bits = std::min(bits, u.encoding.size() * 8);
    for (u32 width = 32; width >= 2; width--)
        for (u32 first = 0; first + width <= std::min<size_t>(bits, 256); first++)
            for (auto kind : {Rule::plus_field, Rule::minus_field}) {
                r = {kind, (u8)first, (u8)width, 0};
                if (fits(r, uses, slot)) return r;
            }
    return Rule{};
}

// ---- the walk ----
Encoding encoding_at(std::span<const u8> text, size_t word, size_t words) {
    return {(const char*)text.data() + word * 4, words * 4};
}
using Known = std::unordered_map<Encoding, u32>; // index of a distinct encoding

// The known encoding that begins at `word`. No encoding is a prefix of another one.
const Known::value_type* match(const Known& known, std::span<const u8> text, size_t word) {
    size_t left = text.size() / 4 - word;
    for (size_t words = 1; words <= std::min<size_t>(left, 8); words++)
        if (auto it = known.find(encoding_at(text, word, words)); it != known.end()) return &*it;
    return nullptr;
}

struct Header {
    u32 version = 2, distinct = 0; // distinct: one entry for each distinct encoding, else one for each instruction
    u64 payload = 0;               // bytes before compression, without this header
};

Bytes pack(const Disassembly& d, std::span<const u8> text, bool distinct) {
    struct Template {
        std::string text;
        std::vector<Use> uses;
    };
    std::vector<Template> templates;
    std::unordered_map<std::string, u32> index;
    std::string words, low, high; // of each entry: words, template
    std::vector<std::pair<u32, u32>> order;
    Known known;
    for (size_t at = 0, n; at < d.line_of.size(); at += n) {
        n = std::max<size_t>(d.words_of[at], 1);
        Encoding e = encoding_at(text, at, n);
        if (distinct && !known.emplace(e, 0).second) continue;
        Use use;
        use.encoding = e;
        std::string line = d.line_of[at] ? take_numbers(d.lines[d.line_of[at] - 1], use.numbers) : std::string();
        auto [it, added] = index.try_emplace(line, (u32)templates.size());
        if (added) templates.push_back({line, {}});
        auto& t = templates[it->second];
        words += char(n);
        low += char(it->second);
        high += char(it->second >> 8);
        order.push_back({it->second, (u32)t.uses.size()});
        t.uses.push_back(std::move(use));
    }
    if (templates.size() > 65536) throw std::runtime_error("gfxemu: too many forms of instructions for a listing");

    Writer w;
    w.number(templates.size());
    std::vector<std::vector<Rule>> rules(templates.size());
    for (size_t k = 0; k < templates.size(); k++) {
        w.text(templates[k].text);
        for (size_t slot = 0; slot < templates[k].uses[0].numbers.size(); slot++) {
            Rule r = find_rule(templates[k].uses, slot);
            rules[k].push_back(r);
            w.bytes += char(r.kind);
            if (r.kind == Rule::stored) continue;
            w.bytes += char(r.a);
            w.bytes += char(r.width);
            w.signed_number(r.bias);
        }
    }
    for (auto* column : {&words, &low, &high}) w.text(*column);
    for (auto [t, use] : order)
        for (size_t slot = 0; slot < rules[t].size(); slot++)
            if (rules[t][slot].kind == Rule::stored) w.signed_number(templates[t].uses[use].numbers[slot]);

    Header h{2, distinct, w.bytes.size()};
    Bytes packed = zlib_compress(w.bytes.data(), w.bytes.size()), out(sizeof h + packed.size());
    std::memcpy(out.data(), &h, sizeof h);
    std::copy(packed.begin(), packed.end(), out.begin() + sizeof h);
    return out;
}

bool same(const Disassembly& a, const Disassembly& b) {
    if (a.words_of != b.words_of) return false;
    for (size_t k = 0; k < a.line_of.size(); k++) {
        if (!a.line_of[k] != !b.line_of[k]) return false;
        if (a.line_of[k] && a.lines[a.line_of[k] - 1] != b.lines[b.line_of[k] - 1]) return false;
    }
    return true;
}

} // namespace

std::vector<u8> encode_listing(const Disassembly& d, std::span<const u8> text) {
    for (bool distinct : {true, false}) {
        Bytes out = pack(d, text, distinct);
        try {
            if (same(d, decode_listing(out, text))) return out;
        } catch (const std::runtime_error&) { // not prefix-free: name every instruction
        }
    }
    throw std::runtime_error("gfxemu: a listing does not reproduce the disassembly");
}

Disassembly decode_listing(std::span<const u8> listing, std::span<const u8> text) {
    Header h;
    if (listing.size() < sizeof h) Reader::corrupt();
    std::memcpy(&h, listing.data(), sizeof h);
    if (h.version != 2) throw std::runtime_error("gfxemu: a listing of another version");
    Bytes payload = zlib_decompress(listing.data() + sizeof h, listing.size() - sizeof h, h.payload);
    Reader r{payload.data(), payload.data() + payload.size()};

    struct Template {
        std::string_view text;
        std::vector<Rule> rules;
    };
    std::vector<Template> templates(std::min<u64>(r.number(), 65536));
    for (auto& t : templates) {
        t.text = r.text();
        t.rules.resize(count_numbers(t.text));
        for (auto& rule : t.rules) {
            rule.kind = Rule::Kind(r.byte());
            if (rule.kind == Rule::stored) continue;
            rule.a = r.byte();
            rule.width = r.byte();
            rule.bias = r.signed_number();
        }
    }
    std::string_view words = r.text(), low = r.text(), high = r.text();
    if (low.size() != words.size() || high.size() != words.size()) Reader::corrupt();

    Disassembly d(text.size() / 4);
    Known known;
    size_t next = 0;
    for (size_t at = 0; at < d.line_of.size();) {
        auto* old = h.distinct ? match(known, text, at) : nullptr;
        size_t n = old ? old->first.size() / 4 : 0;
        u32 index = old ? old->second : (u32)d.lines.size();
        if (!old) {
            if (next == words.size()) Reader::corrupt();
            n = (u8)words[next];
            size_t t = (u8)low[next] | (size_t)(u8)high[next] << 8;
            next++;
            if (!n || at + n > d.line_of.size() || t >= templates.size()) Reader::corrupt();
            Encoding e = encoding_at(text, at, n);
            Numbers numbers;
            for (auto& rule : templates[t].rules) {
                if (rule.kind == Rule::after && rule.a >= numbers.size()) Reader::corrupt();
                numbers.push_back(rule.kind == Rule::stored ? r.signed_number() : rule.base(numbers, e) + rule.bias);
            }
            d.lines.push_back(put_numbers(templates[t].text, numbers));
            if (h.distinct) known.emplace(e, index);
        }
        if (!d.lines[index].empty()) d.put(at, n, index);
        at += n;
    }
    if (next != words.size() || r.at != r.end) Reader::corrupt();
    return d;
}

} // namespace gfxemu
