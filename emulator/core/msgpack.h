// MessagePack, as far as the metadata note of a code object needs it.
#pragma once
#include "core/internal.h"

namespace gfxemu {

// One value; maps keep the order of their keys.
struct Msg {
    enum Type { nil, boolean, integer, string, array, map } type = nil;
    i64 number = 0;
    std::string text;
    std::vector<Msg> items;
    std::vector<std::string> keys; // of a map; its values are `items`

    const Msg* get(const char* key) const {
        for (size_t k = 0; k < keys.size(); k++)
            if (keys[k] == key) return &items[k];
        return nullptr;
    }
    i64 num(const char* key, i64 fallback = 0) const {
        auto* value = get(key);
        return value ? value->number : fallback;
    }
    std::string str(const char* key) const {
        auto* value = get(key);
        return value ? value->text : std::string();
    }
};

Msg parse_msgpack(const u8* begin, const u8* end); // throws std::runtime_error

} // namespace gfxemu
