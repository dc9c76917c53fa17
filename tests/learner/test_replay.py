"""The store against a plain list of episodes: what is kept, who is drawn how often, and a batch's shares."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import assert_uniform

from curious_jax.learner import replay
from curious_jax.types import Episode

CAPACITY, STEPS, MODULES = 10, 3, 3
add = jax.jit(replay.add)
sample = jax.jit(replay.sample)


def empty(capacity=CAPACITY):
    return replay.init(capacity, STEPS, 2, 1, 2, MODULES)


def tagged(ids, valid=None):
    """Episodes whose every part says which one it is: obs (id, t), action, goal and module."""
    ids = np.asarray(ids, np.float32)
    time = np.broadcast_to(np.arange(STEPS + 1), (len(ids), STEPS + 1))
    obs = np.stack([np.broadcast_to(ids[:, None], time.shape), time], axis=-1).astype(np.float32)
    valid = np.ones(len(ids), bool) if valid is None else np.asarray(valid)
    return Episode(
        obs=jnp.asarray(np.where(valid[:, None, None], obs, np.nan)),
        action=jnp.asarray(np.broadcast_to(ids[:, None, None], (len(ids), STEPS, 1))),
        goal=jnp.asarray(np.stack([ids, -ids], axis=1)),
        module=jnp.asarray(ids.astype(np.int32) % MODULES),
        success=jnp.zeros(len(ids), bool),
        valid=jnp.asarray(valid),
    )


def relevance(ids):
    """Module 0 always, module 1 every third episode, module 2 every seventh."""
    ids = np.asarray(ids)
    return np.stack([ids >= 0, ids % 3 == 0, ids % 7 == 0], axis=1)


def filled(total, chunk=4, state=None):
    """A store after adding episodes 0 ... total-1, the last chunk smaller when it does not divide."""
    state = state or empty()
    for start in range(0, total, chunk):
        ids = np.arange(start, min(start + chunk, total))
        state = add(state, tagged(ids), jnp.asarray(relevance(ids)))
    return state


def drawn(state, module, n=4000, seed=0):
    """Episode ids of n samples for a module, after checking that all parts of each are one episode's."""
    slot, t = sample(state, jax.random.key(seed), jnp.full(n, module, jnp.int32))
    now, then = state.obs[slot, t], state.obs[slot, t + 1]
    ids = now[:, 0]
    for part in (then[:, 0], state.action[slot, t, 0], state.goal[slot, 0], -state.goal[slot, 1]):
        np.testing.assert_array_equal(part, ids)
    np.testing.assert_array_equal(state.module[slot], ids.astype(jnp.int32) % MODULES)
    np.testing.assert_array_equal(now[:, 1], t)
    np.testing.assert_array_equal(then[:, 1], t + 1)
    assert_uniform(t, range(STEPS))
    return np.asarray(ids).astype(int)


@pytest.mark.parametrize("total", [4, 10, 11, 12, 23, 1000])
def test_only_the_newest_are_drawn_about_equally_often(total):
    state = filled(total)
    newest = np.arange(max(0, total - CAPACITY), total)
    assert int(state.size) == len(newest)
    assert_uniform(drawn(state, 0), newest)
    for module in (1, 2):
        relevant = newest[relevance(newest)[:, module]]
        assert_uniform(drawn(state, module), relevant if len(relevant) else newest)


@pytest.mark.parametrize("chunk", [1, 3, 7, CAPACITY])
def test_batches_that_do_not_divide_the_store_up_to_its_size(chunk):
    state = filled(3 * chunk + 2, chunk)
    newest = np.arange(max(0, 3 * chunk + 2 - CAPACITY), 3 * chunk + 2)
    assert_uniform(drawn(state, 0), newest)
    assert_uniform(drawn(state, 1), newest[newest % 3 == 0])


def test_more_episodes_than_the_store_holds_are_refused():
    with pytest.raises((AssertionError, ValueError)):
        replay.add(empty(3), tagged(range(4)), jnp.asarray(relevance(range(4))))


def test_a_rare_modules_episodes_live_as_long_as_any_other():
    """One ring: a rare module's episode is there for the 10 episodes after it, then gone, and any episode serves."""
    state = empty()
    only_first = lambda ids: jnp.stack([jnp.ones(len(ids), bool), jnp.zeros(len(ids), bool), ids == 0], axis=1)  # noqa: E731
    for newest in range(25):
        ids = jnp.array([newest])
        state = add(state, tagged(ids), only_first(ids))
        assert int(state.count[2]) == (1 if newest < CAPACITY else 0)
        assert int(state.count[1]) == 0
        if newest in (0, 5, CAPACITY - 1):
            assert set(drawn(state, 2, 50)) == {0}
    assert_uniform(drawn(state, 2), range(15, 25))


def test_invalid_episodes_leave_no_trace():
    ids, valid = np.arange(4), np.array([True, False, True, False])
    state = add(empty(), tagged(ids, valid), jnp.asarray(relevance(ids)))
    assert int(state.size) == 2
    assert_uniform(drawn(state, 0), [0, 2])
    again = add(state, tagged(ids + 4, np.zeros(4, bool)), jnp.asarray(relevance(ids + 4)))
    jax.tree.map(np.testing.assert_array_equal, again, state)
    assert np.isfinite(state.obs).all()


def test_against_a_list_of_episodes_over_random_adds():
    rng = np.random.default_rng(0)
    state, kept, at = empty(), deque(maxlen=CAPACITY), 0
    for _ in range(80):
        size = rng.choice([1, 4, CAPACITY])
        ids, valid, relevant = np.arange(at, at + size), rng.random(size) < 0.7, rng.random((size, MODULES)) < 0.4
        at += size
        state = add(state, tagged(ids, valid), jnp.asarray(relevant))
        kept.extend((i, r) for i, v, r in zip(ids, valid, relevant, strict=True) if v)
        assert int(state.size) == len(kept)
        np.testing.assert_array_equal(state.count, sum((r for _, r in kept), np.zeros(MODULES, int)))
        obs, queue, start = np.asarray(state.obs), np.asarray(state.queue), np.asarray(state.start)
        for m in range(MODULES):
            slots = queue[m, (start[m] + np.arange(int(state.count[m]))) % CAPACITY]
            assert obs[slots, 0, 0].astype(int).tolist() == [i for i, r in kept if r[m]]


def test_adding_under_vmap_is_adding_each():
    states = [filled(11), filled(23)]
    two = jax.tree.map(lambda *x: jnp.stack(x), *states)
    ids = np.arange(50, 54)
    both = jax.jit(jax.vmap(replay.add, (0, None, None)))(two, tagged(ids), jnp.asarray(relevance(ids)))
    for k, state in enumerate(states):
        one = add(state, tagged(ids), jnp.asarray(relevance(ids)))
        jax.tree.map(np.testing.assert_array_equal, jax.tree.map(lambda x, k=k: x[k], both), one)


@pytest.mark.parametrize(
    ("p", "batch", "shares"),
    [
        ([0.7, 0.1, 0.1, 0.1], 256, [180, 26, 25, 25]),  # floors 179 25 25 25, remainder 2
        ([0.25, 0.25, 0.25, 0.25], 10, [3, 3, 2, 2]),  # floors 2, remainder 2
        ([0.5, 0.5, 0.0], 5, [3, 2, 0]),
        ([0.0, 0.5, 0.5], 5, [0, 3, 2]),  # a module without episodes gets none of the remainder
        ([0.0, 1.0, 0.0], 7, [0, 7, 0]),
        ([0.7, 0.1, 0.1, 0.1], 4, [3, 1, 0, 0]),  # floors 2 0 0 0, remainder 2
        ([0.25, 0.25, 0.25, 0.25], 4, [1, 1, 1, 1]),
        ([0.7, 0.1, 0.1, 0.1], 10, [7, 1, 1, 1]),  # exact shares stay exact in float32
        ([0.1, 0.2, 0.3, 0.4], 4864, [487, 973, 1459, 1945]),  # floors 486 972 1459 1945, remainder 2
        ([1.0], 3, [3]),
    ],
)
def test_shares_are_floors_with_the_remainder_in_order(p, batch, shares):
    p = jnp.array(p, jnp.float32)
    np.testing.assert_array_equal(replay.shares(p, batch), shares)
    module = replay.batch_modules(p, batch)
    np.testing.assert_array_equal(module, np.repeat(np.arange(len(shares)), shares))


def test_shares_always_fill_the_batch():
    rng = np.random.default_rng(0)
    shares = jax.jit(replay.shares, static_argnums=1)
    for batch in (7, 256, 4096):
        for _ in range(50):
            p = rng.dirichlet(np.full(7, 0.3)) * (rng.random(7) < 0.8)
            p = p / p.sum() if p.sum() > 0 else np.full(7, 1 / 7)
            got = np.asarray(shares(jnp.asarray(p, jnp.float32), batch))
            assert got.sum() == batch
            assert (np.abs(got - batch * p) <= 1.01).all()
            assert (got[p == 0] == 0).all()


def test_any_episode_may_be_drawn_at_any_time_whatever_its_relevance():
    state = filled(7)  # of a capacity of 10
    slot, t = replay.sample_any(state, jax.random.key(0), 6000)
    assert_uniform(state.obs[slot, 0, 0], range(7))
    assert_uniform(t, range(STEPS))


@pytest.mark.parametrize(("capacity", "number"), [(7, 3), (6, 6), (40, 8), (5, 1)])
def test_blocks_are_written_as_a_scatter_writes(capacity, number, monkeypatch):
    """As TPUs store episodes: valid or not, at every place of the ring and over its end."""
    monkeypatch.setattr(replay, "with_layout_constraint", lambda x, layouts: x)  # CPUs have one layout
    rng = np.random.default_rng(0)
    ring = jnp.asarray(rng.normal(size=(capacity, 3, 2)))
    for start in range(capacity):
        valid = rng.random(number) < rng.choice([0.0, 0.5, 1.0])
        slot = jnp.asarray(np.where(valid, (start + np.cumsum(valid) - 1) % capacity, capacity))
        rows = jnp.asarray(rng.normal(size=(number, 3, 2)))
        expected = replay._write(slot, jnp.int32(start), ring, rows)
        np.testing.assert_array_equal(replay._write_blocks(slot, jnp.int32(start), ring, rows), expected)
        ring = expected


def test_under_vmap_blocks_are_written_to_each(monkeypatch):
    monkeypatch.setattr(replay, "with_layout_constraint", lambda x, layouts: x)
    rng = np.random.default_rng(1)
    start, ring, rows = jnp.array([5, 1]), jnp.asarray(rng.normal(size=(2, 7, 3, 2))), rng.normal(size=(2, 3, 3, 2))
    slot = jnp.array([[5, 7, 6], [7, 1, 2]])
    both = jax.vmap(replay._write_blocks)(slot, start, ring, jnp.asarray(rows))
    np.testing.assert_array_equal(both, jax.vmap(replay._write)(slot, start, ring, jnp.asarray(rows)))


@pytest.mark.parametrize("platform", ["tpu", "cpu", "cuda"])
def test_tpus_alone_store_in_blocks(platform):
    arguments = empty(), tagged(np.arange(4)), jnp.asarray(relevance(np.arange(4)))
    text = jax.jit(replay.add).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()
    assert ("LayoutConstraint" in text) == (platform == "tpu")
    assert ("dynamic_update_slice" in text) == (platform == "tpu")
