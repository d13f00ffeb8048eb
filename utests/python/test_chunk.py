"""PagedKVCache and chunk_attention, on the targets that have the kernel."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from conftest import FULL, GPU, Place, largest_difference

import waveattn

WAVE32 = ("gfx1030", "gfx1200")
FORMATS = ("f16", "int8", "q4_0", "int8_q4_0")
# Of the stored values: half a code, relative to the largest value of a block (f16: of the value).
CODE_ERROR = {"f16": 2.0**-11, "int8": 0.51 / 127, "q4_0": 1.02 / 8}


@pytest.fixture(params=["gpu"] if GPU else WAVE32)
def card(request):
    if GPU and waveattn.devices()[0]["wave_size"] != 32:
        pytest.skip("this GPU has no chunk attention")
    return Place(request.param, emulated=not GPU)


def filled(torch, card, dtype="int8", tokens=(70,), kv_heads=2, head_dim=64, page_size=4, spare=6, **options):
    """A cache with that many tokens of each sequence, appended in two steps, and the tokens."""
    torch.manual_seed(11)
    pages = sum(-(-count // page_size) for count in tokens) + spare
    like = card.put(torch.zeros(1))
    cache = waveattn.PagedKVCache(
        pages, kv_heads, page_size, head_dim, like=like, dtype=dtype, sequences=len(tokens), **options, **card.options
    )
    data = []
    for sequence, count in enumerate(tokens):
        k, v = (torch.randn(count, kv_heads, head_dim) for _ in range(2))
        data.append((k, v))
    for part in (slice(0, 9), slice(9, None)):  # interleaves the pages of the sequences
        for sequence, (k, v) in enumerate(data):
            cache.append(card.put(k[part].contiguous()), card.put(v[part].contiguous()), sequence)
    return cache, data


def unpacked(cache, sequence):
    """The stored keys and values of a sequence as float64 (cells, kv_heads, head_dim), NaN where not resident."""

    def rows(pool, scale, q4):
        pool = pool.cpu().numpy()
        if q4:
            blocks = pool.view(np.uint8).reshape(*pool.shape[:3], cache.head_dim // 32, 18)
            d = np.ascontiguousarray(blocks[..., :2]).view(np.float16).astype(np.float64)
            codes = np.concatenate([blocks[..., 2:] & 15, blocks[..., 2:] >> 4], axis=-1).astype(np.float64)
            return ((codes - 8) * d).reshape(*pool.shape[:3], cache.head_dim)
        if scale is None:
            return pool.astype(np.float64)
        return pool.astype(np.float64) * np.repeat(scale.cpu().numpy().astype(np.float64), 64, axis=-1)

    table = cache.page_table.cpu().numpy()[sequence]
    result = []
    for pool, scale, q4 in (
        (cache.k_pool, cache.k_scale, cache.dtype == "q4_0"),
        (cache.v_pool, cache.v_scale, cache.dtype in ("q4_0", "int8_q4_0")),
    ):
        with np.errstate(invalid="ignore"):  # rows that nobody wrote
            values = rows(pool, scale, q4)
        cells = [
            values[table[c // cache.page_size], :, c % cache.page_size]
            if table[c // cache.page_size] >= 0
            else np.full(values.shape[1::2], np.nan)
            for c in range(cache.lengths[sequence])
        ]
        result.append(np.stack(cells))
    return result


def oracle(q, k, v, selections, scale=None):
    """float64 attention of each query over its selection of the cells; not resident ones take no part."""
    n_q, heads, head_dim = q.shape
    group = heads // k.shape[1]
    out, lse = np.zeros(q.shape), np.full((n_q, heads), -np.inf)
    scale = head_dim**-0.5 if scale is None else scale
    for n, selection in enumerate(selections):
        selection = [c for c in selection if not np.isnan(k[c]).any()]
        for head in range(heads if selection else 0):
            scores = scale * (k[selection, head // group] @ q[n, head].astype(np.float64))
            weights = np.exp(scores - scores.max())
            out[n, head] = weights @ v[selection, head // group] / weights.sum()
            lse[n, head] = scores.max() + np.log(weights.sum())
    return out, lse


@pytest.mark.parametrize("dtype", FORMATS)
def test_selection(torch, card, dtype):
    cache, data = filled(torch, card, dtype)
    assert cache.lengths == [70] and cache.free_pages == 6
    k, v = unpacked(cache, 0)
    for stored, token, kind in ((k, data[0][0], dtype.split("_q4")[0]), (v, data[0][1], "q4_0" if "q4" in dtype else dtype)):
        block = 32 if kind == "q4_0" else 64
        token = token.numpy().reshape(70, 2, -1, block)
        bound = np.abs(token) if kind == "f16" else np.abs(token).max(-1, keepdims=True)
        assert (np.abs(stored.reshape(token.shape) - token) <= CODE_ERROR[kind] * bound + 1e-7).all()
    q = torch.randn(3, 8, 64)
    ids = torch.stack([torch.randperm(70)[:66].sort().values for _ in range(3)]).int()
    widths = torch.tensor([66, 1, 33], dtype=torch.int32)
    out, lse = waveattn.chunk_attention(
        card.put(q), cache, card.put(ids), widths=card.put(widths), return_lse=True, **card.options
    )
    expected, expected_lse = oracle(q.numpy(), k, v, [ids[n, : widths[n]].tolist() for n in range(3)])
    # Scores of a few units in fp32: 14 roundings of 2^-24 each, twice, times values of up to 4.
    assert largest_difference(out, expected) <= 2e-5
    assert largest_difference(lse, expected_lse) <= 2e-5
    if dtype == "int8":
        fast = waveattn.chunk_attention(card.put(q), cache, card.put(ids), widths=card.put(widths), variant="fast", **card.options)
        assert 1e-5 < largest_difference(fast, expected) <= 0.05
    else:
        with pytest.raises(NotImplementedError, match="int8 caches"):
            waveattn.chunk_attention(card.put(q), cache, card.put(ids), variant="fast", **card.options)
    for variant in ("butterfly", "reorganised"):
        other = waveattn.chunk_attention(card.put(q), cache, card.put(ids), widths=card.put(widths), variant=variant, **card.options)
        assert torch.equal(other.cpu(), out.cpu())


@pytest.mark.parametrize("head_dim,group", [(64, 1), (64, 6), (128, 5), (128, 16), (256, 12), (256, 3)])
def test_shapes_without_a_selection(torch, card, head_dim, group):
    cache, _ = filled(torch, card, head_dim=head_dim, kv_heads=1, tokens=(20,))
    q = torch.randn(2, group, head_dim)
    k, v = unpacked(cache, 0)
    out = waveattn.chunk_attention(card.put(q), cache, scale=0.11, **card.options)
    assert largest_difference(out, oracle(q.numpy(), k, v, [range(20)] * 2, 0.11)[0]) <= 2e-5


def test_many_queries_run_fused(torch, card):
    cache, _ = filled(torch, card, head_dim=128, kv_heads=1, tokens=(90,))
    count = 4 * next(d["compute_units"] for d in waveattn.devices() if card.name in ("gpu", d["target"]))
    q = torch.randn(count if FULL or card.name == "gfx1030" else 8, 8, 128)
    widths = torch.arange(len(q), dtype=torch.int32) % 90 + 1
    k, v = unpacked(cache, 0)
    out = waveattn.chunk_attention(card.put(q), cache, widths=card.put(widths), variant="reorganised", **card.options)
    assert largest_difference(out, oracle(q.numpy(), k, v, [range(w) for w in widths.tolist()])[0]) <= 2e-5


def test_causal_prompt_of_two_sequences_with_evicted_pages(torch, card):
    cache, _ = filled(torch, card, "q4_0", tokens=(30, 45), page_size=8)
    cache.evict(1, 2)
    cache.evict(1, 2)  # nothing more to give back
    q = torch.randn(4, 4, 64)
    sequences = torch.tensor([0, 1, 1, 0], dtype=torch.int32)
    widths = torch.tensor([30, 45, 20, 0], dtype=torch.int32)
    out, lse = waveattn.chunk_attention(
        card.put(q), cache, widths=card.put(widths), sequences=card.put(sequences), return_lse=True, **card.options
    )
    for n in range(4):
        k, v = unpacked(cache, int(sequences[n]))
        expected, expected_lse = oracle(q.numpy()[n : n + 1], k, v, [range(int(widths[n]))])
        assert largest_difference(out[n : n + 1], expected) <= 2e-5
        assert largest_difference(lse[n : n + 1], expected_lse) <= 2e-5
    assert not out[3].any() and bool((lse[3] == -math.inf).all())


def test_pages_are_shared_out_and_given_back(torch, card):
    cache, _ = filled(torch, card, tokens=(6, 6), page_size=4, spare=1, max_cells=16)
    assert cache.free_pages == 1
    k = card.put(torch.randn(7, 2, 64))
    with pytest.raises(ValueError, match="need 2 pages, but 1 are free"):
        cache.append(k, k, 0)
    assert cache.lengths == [6, 6] and cache.free_pages == 1
    cache.clear(1)
    assert cache.free_pages == 3 and cache.lengths == [6, 0]
    cache.append(k, k, 0)
    assert cache.lengths == [13, 0] and cache.free_pages == 1
    with pytest.raises(ValueError, match="exceed max_cells"):
        cache.append(k, k, 0)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda cache: pickle.loads(pickle.dumps(cache))])
def test_a_copy_shares_nothing(torch, card, how):
    cache, _ = filled(torch, card, "int8_q4_0", tokens=(6, 6), page_size=4, spare=2)
    other = how(cache)
    q = card.put(torch.randn(2, 2, 64))
    sequences, widths = (card.put(torch.tensor(values, dtype=torch.int32)) for values in ((0, 1), (6, 6)))

    def attend(cache):
        return waveattn.chunk_attention(q, cache, sequences=sequences, widths=widths, **card.options)

    before = attend(cache)
    assert torch.equal(attend(other), before)
    free, lengths = cache.free_pages, list(cache.lengths)
    k = card.put(torch.randn(4, 2, 64))
    other.append(k, k, 0)
    other.evict(1, 0)
    assert (cache.free_pages, cache.lengths) == (free, lengths)
    assert torch.equal(attend(cache), before)
    assert not torch.equal(attend(other), before)
    cache.append(-k, -k, 0)  # both took the same page number, of pools of their own
    assert torch.equal(other.page_table[0], cache.page_table[0]) and not torch.equal(other.k_pool, cache.k_pool)


def test_a_page_evicted_before_it_was_full(torch, card):
    """A new page in its place would show cells that nobody wrote, or those of another sequence."""
    cache, _ = filled(torch, card, "f16", tokens=(6, 6), page_size=4)
    token = card.put(torch.randn(1, 2, 64))
    cache.evict(0, 0)  # full: no harm
    cache.append(token, token, 0)
    cache.evict(1, 1)
    with pytest.raises(ValueError, match="page 1 of sequence 1 was evicted before it was full"):
        cache.append(token, token, 1)
    assert cache.lengths == [7, 6]
    cache.clear(1)
    cache.append(token, token, 1)
    assert cache.lengths == [7, 1]


def test_arguments_of_another_kind(torch, card):
    cache, _ = filled(torch, card, tokens=(20,))
    q = card.put(torch.randn(2, 2, 64))
    size = waveattn.chunk_workspace(2, 2, 64, 20)
    for workspace in (torch.empty(size, dtype=torch.float16), torch.empty(1).expand(size), torch.empty(2 * size)[::2]):
        with pytest.raises(ValueError, match="workspace must be contiguous float32"):
            waveattn.chunk_attention(q, cache, workspace=card.put(workspace), **card.options)
    with pytest.raises(ValueError, match="max_width must not exceed"):
        waveattn.chunk_attention(q, cache, max_width=10**9, **card.options)
    with pytest.raises(TypeError, match="ids"):
        waveattn.chunk_attention(q, cache, [[0], [1]], **card.options)
    with pytest.raises(ValueError, match="ids must be"):
        waveattn.chunk_attention(q, cache, card.put(torch.zeros(2, dtype=torch.int32)), **card.options)
    with pytest.raises(TypeError, match="PagedKVCache"):
        waveattn.chunk_attention(q, None, **card.options)


def test_out_and_workspace(torch, card):
    cache, _ = filled(torch, card, tokens=(20,))
    q = card.put(torch.randn(2, 2, 64))
    canvas = card.put(torch.full((2, 4, 64), 7.0))
    workspace = card.put(torch.empty(waveattn.chunk_workspace(2, 2, 64, 20)))
    out = waveattn.chunk_attention(q, cache, out=canvas[:, 1:3], workspace=workspace, **card.options)
    assert torch.equal(out, waveattn.chunk_attention(q, cache, **card.options))
    assert bool((canvas[:, 0] == 7).all()) and bool((canvas[:, 3] == 7).all())
    with pytest.raises(ValueError, match="workspace"):
        waveattn.chunk_attention(q, cache, workspace=workspace[:-1], **card.options)


def test_outputs_in_the_memory_of_other_tensors(torch, card):
    cache, _ = filled(torch, card, "f16", tokens=(20,))
    size = waveattn.chunk_workspace(2, 2, 64, 20)
    memory = card.put(torch.randn(256 + size))
    q, workspace = memory[:256].view(2, 2, 64), memory[256:]
    expected = waveattn.chunk_attention(q, cache, **card.options)
    assert torch.equal(waveattn.chunk_attention(q, cache, workspace=workspace, **card.options), expected)
    cache.k_pool.nan_to_num_()
    pool = cache.k_pool.view(-1).view(torch.float32)
    for options, words in (
        ({"workspace": memory[255:]}, "workspace overlaps the memory of q"),
        ({"workspace": pool[:size]}, "workspace overlaps the memory of k_pool"),
        ({"workspace": memory, "out": memory[256:512].view(2, 2, 64)}, "workspace overlaps the memory of q"),
        ({"workspace": workspace, "out": memory[256:512].view(2, 2, 64)}, "workspace overlaps the memory of out"),
        ({"out": q}, "out overlaps the memory of q"),
        ({"out": pool[256:512].view(2, 2, 64)}, "out overlaps the memory of k_pool"),
    ):
        before = memory.clone(), pool.clone()
        with pytest.raises(ValueError, match=words):
            waveattn.chunk_attention(q, cache, **options, **card.options)
        assert torch.equal(memory, before[0]) and torch.equal(pool, before[1])
    # Rows of q and of the result that alternate.
    rows = card.put(torch.zeros(2, 2, 2, 64))
    rows[:, 0] = q
    waveattn.chunk_attention(rows[:, 0], cache, out=rows[:, 1], **card.options)
    assert torch.equal(rows[:, 0], q) and torch.equal(rows[:, 1], expected)


def test_errors(torch, card):
    cache, _ = filled(torch, card, tokens=(20,))
    q = card.put(torch.randn(2, 2, 64))
    ids = torch.zeros(2, 5, dtype=torch.int32)

    def call(q=q, cache=cache, ids=None, **options):
        ids = None if ids is None else card.put(ids)
        return waveattn.chunk_attention(q, cache, ids, **options, **card.options)

    with pytest.raises(NotImplementedError, match="float32"):
        call(q=q.half())
    with pytest.raises(ValueError, match="queries, heads, 64"):
        call(q=q[0])
    with pytest.raises(ValueError, match="divide"):
        call(q=card.put(torch.randn(2, 3, 64)))
    with pytest.raises(NotImplementedError, match="1 to 16"):
        call(q=card.put(torch.randn(1, 34, 64)))
    with pytest.raises(TypeError, match="int32"):
        call(ids=ids.long())
    with pytest.raises(ValueError, match="ids must be"):
        call(ids=ids[:1])
    with pytest.raises(ValueError, match="widths"):
        call(ids=ids, widths=card.put(torch.tensor([5], dtype=torch.int32)))
    with pytest.raises(ValueError, match="variant"):
        call(variant="best")
    with pytest.raises(TypeError):
        call(q="q")
    with pytest.raises(NotImplementedError, match="no backward"):
        call(q=q.clone().requires_grad_())
    two, _ = filled(torch, card, tokens=(5, 6))
    with pytest.raises(ValueError, match="widths are needed"):
        call(cache=two)
    if card.emulated:  # values in host memory are looked at; on a GPU the kernel masks them
        for wrong in (-1, cache.max_cells):
            ids[1, 3] = wrong
            with pytest.raises(ValueError, match=f"ids holds {wrong}"):
                call(ids=ids)
        assert call(ids=ids, widths=torch.tensor([5, 3], dtype=torch.int32)).shape == (2, 2, 64)
        with pytest.raises(ValueError, match="sequences holds 1"):
            one = torch.ones(2, dtype=torch.int32)
            call(widths=one, sequences=one)
    for wrong in ({"pages": 0}, {"head_dim": -1}, {"dtype": "fp8"}, {"sequences": 0}):
        with pytest.raises(ValueError):
            waveattn.PagedKVCache(**{"pages": 2, "kv_heads": 1, "page_size": 4, "head_dim": 64, "like": q, **wrong}, **card.options)
    with pytest.raises(NotImplementedError, match="64, 128 and 256"):
        waveattn.PagedKVCache(2, 1, 4, 96, like=q, **card.options)


def test_switch(torch, card, monkeypatch):
    cache, _ = filled(torch, card, tokens=(20,))
    q = card.put(torch.randn(2, 2, 64))
    expected = waveattn.chunk_attention(q, cache, **card.options)
    for setting in ("0", "1"):
        monkeypatch.setenv("WAVEATTN_PRE75", setting)
        assert torch.equal(waveattn.chunk_attention(q, cache, **card.options), expected)
    monkeypatch.setenv("WAVEATTN_PRE75", "maybe")
    with pytest.raises(ValueError, match="WAVEATTN_PRE75"):
        waveattn.chunk_attention(q, cache, **card.options)


def test_numpy(numpy_only):
    random = np.random.default_rng(5)
    cache = waveattn.PagedKVCache(8, 1, 4, 64, like=np.zeros(1, np.float32), dtype="f16", device="gfx1030")
    k, v = (random.standard_normal((21, 1, 64)).astype(np.float32) for _ in range(2))
    cache.append(k, v)
    q = random.standard_normal((2, 4, 64)).astype(np.float32)
    ids = np.array([[0, 3, 20], [5, 6, 7]], np.int32)
    out = waveattn.chunk_attention(q, cache, ids)
    expected = oracle(q, k.astype(np.float16).astype(np.float64), v.astype(np.float16).astype(np.float64), ids.tolist())[0]
    assert isinstance(out, np.ndarray) and largest_difference(out, expected) <= 2e-5


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_wave64_is_refused(torch, numpy_only, target):
    cache = waveattn.PagedKVCache(2, 1, 4, 64, like=torch.zeros(1), device=target)
    with pytest.raises(RuntimeError, match="wave32 target"):
        cache.append(torch.randn(3, 1, 64), torch.randn(3, 1, 64))
    with pytest.raises(RuntimeError, match="wave32 target"):
        waveattn.chunk_attention(torch.randn(1, 2, 64), cache, device=target)


def test_a_failed_append_gives_its_pages_back(torch, card):
    cache, _ = filled(torch, card, tokens=(10,))
    table, free = cache.page_table.clone(), cache.free_pages
    token = card.put(torch.zeros(8, 2, 128))
    with pytest.raises(ValueError, match="stride"):
        cache.append(token[:, :, ::2], token[:, :, ::2])
    assert cache.lengths == [10] and cache.free_pages == free and torch.equal(cache.page_table, table)
    cache.append(token[:, :, :64], token[:, :, :64])
    assert cache.lengths == [18] and cache.free_pages == free - 2


def test_arrays_of_a_cache_that_somebody_replaced(torch, card):
    q = card.put(torch.randn(2, 2, 64))
    for name, change, error, words in (
        ("k_pool", lambda pool: pool.float(), TypeError, "k_pool must have dtype int8, got float32"),
        ("v_scale", lambda scale: scale.float(), TypeError, "v_scale must have dtype float16, got float32"),
        ("v_scale", lambda scale: None, TypeError, "v_scale must have dtype float16, got None"),
        ("k_pool", lambda pool: None, TypeError, "k_pool must be a torch.Tensor"),
        ("v_pool", lambda pool: pool[:1], ValueError, "v_pool must be"),
        ("page_table", lambda table: table.long(), TypeError, "page_table must have dtype int32, got int64"),
    ):
        cache, _ = filled(torch, card, tokens=(10,))
        setattr(cache, name, change(getattr(cache, name)))
        with pytest.raises(error, match=words):
            waveattn.chunk_attention(q, cache)
    cache, _ = filled(torch, card, tokens=(10,))
    with pytest.raises(ValueError, match="widths must be a contiguous int32 array of length 2, got length 2 and stride 2"):
        waveattn.chunk_attention(q, cache, widths=card.put(torch.ones(4, dtype=torch.int32))[::2])
