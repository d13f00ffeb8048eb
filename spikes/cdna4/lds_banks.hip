// How many clocks do the LDS reads of a K and a V tile take, for the layout of the dual-wave kernel and for plain rows?
// A host program: 64 banks of 4 bytes; a read of 16 bytes is served in 4 phases of 16 lanes, one of 8 bytes in 2 of 32.
#include "waveattn/attention/dualwave_layout.h"

#include <algorithm>
#include <cstdio>
#include <vector>

using namespace waveattn;

namespace {

// Clocks of one read: in each phase as many as the fullest bank has different words.
int clocks(const std::vector<int>& addresses, int bytes) {
    int total = 0;
    for (int phase = 0; phase < (bytes == 16 ? 4 : 2); ++phase) {
        std::vector<std::vector<int>> words(64);
        for (int lane = 0; lane < 64; ++lane) {
            const int l = lane % 32;
            const bool first = l < 4 || (l >= 12 && l < 16) || (l >= 20 && l < 28);
            if ((bytes == 16 ? 2 * (lane / 32) + !first : lane / 32) != phase) continue;
            for (int b = 0; b < bytes; b += 4) {
                const int word = (addresses[std::size_t(lane)] + b) / 4;
                auto& bank = words[std::size_t(word % 64)];
                if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
            }
        }
        std::size_t fullest = 1;
        for (const auto& bank : words) fullest = std::max(fullest, bank.size());
        total += int(fullest);
    }
    return total;
}

template <int HeadDim> void report() {
    using Lds = detail::DualwaveLdsGfx950<HeadDim>;
    int k = 0, v = 0, plain_k = 0, plain_v = 0;
    std::vector<int> a(64), plain(64);
    for (int block = 0; block < 2; ++block)
        for (int step = 0; step < HeadDim / 16; ++step) {
            for (int lane = 0; lane < 64; ++lane) {
                a[std::size_t(lane)] = Lds::k_fragment(Lds::k_lane(lane), block, step);
                plain[std::size_t(lane)] = (32 * block + lane % 32) * 2 * HeadDim + 16 * Lds::k_chunk(step, lane / 32);
            }
            k += clocks(a, 16), plain_k += clocks(plain, 16);
        }
    for (int step = 0; step < 4; ++step)
        for (int dims = 0; dims < HeadDim / 32; ++dims)
            for (int half = 0; half < 2; ++half) {
                for (int lane = 0; lane < 64; ++lane) {
                    a[std::size_t(lane)] = Lds::v_fragment(Lds::v_lane(lane), step, dims, half);
                    plain[std::size_t(lane)] = (16 * step + 8 * half + 4 * (lane / 32) + lane % 16 / 4) * 2 * HeadDim +
                                               64 * dims + 32 * (lane / 16 % 2) + 8 * (lane % 4);
                }
                v += clocks(a, 8), plain_v += clocks(plain, 8);
            }
    std::printf("D %d: K %d clocks (plain rows %d), V %d (plain rows %d), for a wave and tile\n", HeadDim, k, plain_k,
        v, plain_v);
}

} // namespace

int main() {
    report<128>();
    report<64>();
}
