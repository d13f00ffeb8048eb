// The registry of the address ranges that kernels may touch.
#include "core/run.h"

#include <shared_mutex>

namespace gfxemu {
namespace {

struct Registry {
    std::shared_mutex mutex;
    std::map<u64, std::pair<u64, std::string>> ranges; // base: size, tag
};
Registry& registry() {
    static Registry* r = new Registry;
    return *r;
}

} // namespace

void register_range(void* base, size_t size, const char* tag) {
    auto& r = registry();
    std::unique_lock lock(r.mutex);
    r.ranges[(u64)base] = {size, tag ? tag : ""};
}
void unregister_range(void* base) {
    auto& r = registry();
    std::unique_lock lock(r.mutex);
    r.ranges.erase((u64)base);
}

std::vector<Range> registered_ranges() {
    auto& r = registry();
    std::shared_lock lock(r.mutex);
    std::vector<Range> out;
    for (auto& [base, range] : r.ranges)
        if (range.first) out.push_back({base, base + range.first});
    return out;
}

std::string describe_address(u64 address) {
    auto& r = registry();
    std::shared_lock lock(r.mutex);
    auto above = r.ranges.upper_bound(address);
    auto show = [](auto it) {
        return "[" + hex(it->first) + ", +" + hex(it->second.first) + " " + it->second.second + "]";
    };
    std::string s = hex(address);
    if (above != r.ranges.begin()) {
        auto below = std::prev(above);
        u64 end = below->first + below->second.first;
        s += "; below: " + show(below);
        if (address >= end) s += ", " + std::to_string(address - end) + " bytes past its end";
    }
    if (above != r.ranges.end())
        s += "; above: " + show(above) + ", " + std::to_string(above->first - address) + " bytes before its start";
    return s;
}

} // namespace gfxemu
