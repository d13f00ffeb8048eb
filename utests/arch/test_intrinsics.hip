// The common intrinsics and group reductions on the device: lanes, exchanges, arithmetic at the edges.
#include "reference.h"

#include <doctest/doctest.h>

#include "waveattn/arch/capability.h"
#include "waveattn/core/launch.h"
#include "waveattn/tile/lane_group.h"

using namespace waveattn;
using namespace waveattn::test;

namespace {

constexpr std::size_t threads = 128; // 4 waves of 32 or 2 of 64

__global__ __launch_bounds__(128) void lanes(int* lane, int* first, int* exchanged, float* sums) {
    if constexpr (arch::this_pass != arch::Target::unsupported) {
        const int t = int(arch::thread_x());
        lane[t] = int(arch::lane_id());
        first[t] = arch::uniform(t);
        exchanged[t] = arch::shuffle_xor(t, 5);
        const float x = float(1 << (t % 16)); // the sum of a group names its members
        sums[t] = tile::group_sum<4>(x);
        sums[threads + t] = tile::group_sum<8>(x);
        sums[2 * threads + t] = tile::group_sum<16>(x);
        sums[3 * threads + t] = tile::wave_reduce(float(t), [](float a, float b) { return arch::max(a, b); });
    }
}

__global__ __launch_bounds__(128) void arithmetic(const float* in, float* out, int count) {
    if constexpr (arch::this_pass != arch::Target::unsupported)
        for (int i = int(arch::thread_x()); i < count; i += int(threads)) {
            out[i] = arch::exp2(in[i]);
            out[count + i] = arch::log2(in[i]);
            out[2 * count + i] = arch::reciprocal(in[i]);
            out[3 * count + i] = arch::max(in[i], 1.f);
        }
}

} // namespace

TEST_CASE("lanes, exchanges and sums of groups") {
    const int wave = arch::current_device().wave_size;
    const DeviceArray<int> lane(threads), first(threads), exchanged(threads);
    const DeviceArray<float> sums(4 * threads);
    launch("lanes", lanes, 1, int(threads), 0, nullptr, lane.data(), first.data(), exchanged.data(), sums.data());
    const auto lane_ = lane.host(), first_ = first.host(), exchanged_ = exchanged.host();
    const auto sums_ = sums.host();
    for (int t = 0; t < int(threads); ++t) {
        CHECK(lane_[t] == t % wave);
        CHECK(first_[t] == t / wave * wave);
        CHECK(exchanged_[t] == (t ^ 5));
        for (int level = 0; level < 3; ++level) {
            const int group = 4 << level, from = t % 16 / group * group;
            float want = 0;
            for (int i = 0; i < group; ++i) want += float(1 << (from + i));
            CHECK(sums_[std::size_t(level) * threads + std::size_t(t)] == want);
        }
        CHECK(sums_[3 * threads + std::size_t(t)] == float(t / wave * wave + wave - 1));
    }
}

TEST_CASE("exp2, log2 and reciprocal within 1 ulp; max ignores NaN") {
    constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> in{0.f, -0.f, 1.f, -1.f, 126.f, 128.f, -126.f, -150.f, inf, -inf, nan, 0x1p-126f, 3.4e38f};
    for (float x : make_values(Data::large, 1, 1, 1, 500, 1)) in.push_back(x);
    for (float x : make_values(Data::uniform, 1, 1, 1, 500, 2)) in.push_back(std::abs(x));
    const int count = int(in.size());
    const DeviceArray<float> x(in), out(std::size_t(4) * in.size());
    launch("arithmetic", arithmetic, 1, int(threads), 0, nullptr, x.data(), out.data(), count);
    const auto got = out.host();
    const auto near = [](float value, double want, double smallest) {
        if (std::isnan(want)) return std::isnan(value);
        if (std::isinf(want) || std::abs(want) > std::numeric_limits<float>::max()) return std::isinf(value);
        if (std::abs(want) < smallest) return std::abs(value) <= smallest; // denormal results may be 0
        return std::abs(value - want) <= std::abs(want) * 0x1p-22;         // 2 units: 1 of the instruction, 1 to spare
    };
    for (int i = 0; i < count; ++i) {
        INFO("x = ", in[i]);
        CHECK(near(got[i], std::exp2(double(in[i])), 0x1p-126));
        const double log = std::log2(double(in[i]));
        CHECK((near(got[count + i], log, 0x1p-126) || std::abs(got[count + i] - log) <= 0x1p-22)); // near 1
        CHECK(near(got[2 * count + i], 1 / double(in[i]), 0x1p-126));
        CHECK(got[3 * count + i] == (in[i] > 1.f ? in[i] : 1.f));
    }
}
