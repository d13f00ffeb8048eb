#include "chunk_kernels.h"

#include <map>
#include <stdexcept>
#include <tuple>

namespace waveattn::test {
namespace {
using Key = std::tuple<int, KvFormat, int>;
using Table = std::map<Key, std::vector<NamedPolicy>>;
template <int D, KvFormat Format, int Group> void add(Table& table) {
    auto& policies = table[{D, Format, Group}];
    policies = {{"default", chunk_default, &chunk_attention_with<D, Format, Group, chunk_default>},
        {"half wave", chunk_half_wave, &chunk_attention_with<D, Format, Group, chunk_half_wave>}};
    // The fused kernel for groups of any size that its kernel is padded for, so for the least.
    if (detail::ChunkRecord<detail::ChunkTraits<D, Format, Group>>::fits(Group / 2 + 1))
        policies.push_back({"fused", chunk_fused, &chunk_attention_with<D, Format, Group, chunk_fused>});
}
} // namespace

// Every format with every head_dim, and every padded group at least once.
std::vector<NamedPolicy> shipped_policies(int head_dim, KvFormat format, int group) {
    static const Table table = [] {
        Table all;
        add<256, KvFormat::f16, 12>(all), add<256, KvFormat::int8, 12>(all), add<256, KvFormat::q4_0, 16>(all);
        add<256, KvFormat::int8_q4_0, 2>(all);
        add<128, KvFormat::f16, 4>(all), add<128, KvFormat::int8, 8>(all), add<128, KvFormat::q4_0, 12>(all);
        add<128, KvFormat::int8_q4_0, 1>(all);
        add<64, KvFormat::f16, 1>(all), add<64, KvFormat::int8, 16>(all), add<64, KvFormat::q4_0, 8>(all);
        add<64, KvFormat::int8_q4_0, 4>(all), add<64, KvFormat::f16, 12>(all);
        return all;
    }();
    return table.at({head_dim, format, padded_chunk_group(group)});
}

} // namespace waveattn::test
