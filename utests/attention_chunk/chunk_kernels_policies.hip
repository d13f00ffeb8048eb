#include "chunk_kernels.h"

namespace waveattn::test {
namespace {
template <std::size_t... I> std::vector<NamedPolicy> instantiate(std::index_sequence<I...>) {
    return {{chunk_policies[I].name, chunk_policies[I].policy,
        &chunk_attention_with<256, KvFormat::int8, 12, chunk_policies[I].policy>}...};
}
} // namespace

const std::vector<NamedPolicy>& all_policies() {
    static const auto all = instantiate(std::make_index_sequence<std::size(chunk_policies)>{});
    return all;
}

} // namespace waveattn::test
