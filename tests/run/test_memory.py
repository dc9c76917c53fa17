"""Memory: known before it is allocated, refused in GiB."""

import dataclasses
import re
import resource
from types import SimpleNamespace

import jax
import pytest

from curious_jax import config as configs
from curious_jax.cli import environment
from curious_jax.errors import ConfigError
from curious_jax.learner import trainer
from curious_jax.run import memory


def setup(**settings):
    config = configs.make_config(world="point", modules=("reach", "push"), **settings)
    return config, environment.make_env(config)


def test_store_bytes_by_hand():
    config, env = setup(capacity=1000)
    # 21 observations of 6, 20 actions of 3, a goal of 4, a module, 2 queue slots: 4 bytes each; 2 flags.
    counters = 4 * (2 + 2 * 2)
    assert memory.need(config, env).capacity == 1000 * (4 * (21 * 6 + 20 * 3 + 4 + 1 + 2) + 2) + counters


def test_the_paper_s_store_is_nine_kilobytes_an_episode():
    config = configs.make_config(modules=("reach", "push", "pnp", "stack"), distractors=1, preset="paper")
    env = environment.make_env(config)
    assert env.episode_length == 50
    assert memory.need(config, env).capacity / config.schedule.capacity == pytest.approx(12_000, rel=0.3)


def test_the_state_s_bytes_are_those_that_training_allocates():
    config, env = setup(capacity=1000, hidden_size=32)
    state = trainer.init(config, env)
    needed = memory.need(config, env)
    assert needed.capacity == sum(x.nbytes for x in jax.tree.leaves(state.replay))
    assert needed.hidden_size == pytest.approx(1.25 * sum(x.nbytes for x in jax.tree.leaves(state.learner)), abs=1)


def test_experts_and_twin_critics_take_memory_of_their_own():
    of = lambda **settings: memory.need(*setup(**settings)).hidden_size  # noqa: E731
    assert of(algorithm="mgme") == pytest.approx(2 * of(), rel=1e-3)  # reach and push
    assert of(learner="td3") == pytest.approx(1.5 * of(), rel=0.01)  # three networks for two


def test_seeds_multiply_everything_but_the_program():
    config, env = setup()
    one = memory.need(config, env)
    four = memory.need(dataclasses.replace(config, num_seeds=4), env)
    assert four.capacity == 4 * one.capacity
    assert four.total - memory.PROGRAM == 4 * (one.total - memory.PROGRAM)


def test_an_estimator_that_asks_for_td_errors_sees_a_cycle_s_transitions_at_once():
    plain, asking = (memory.need(*setup(estimator=name, num_envs=64)) for name in ("competence", "plr"))
    config, env = setup(estimator="plr", num_envs=64)
    least = 64 * env.episode_length * 4 * 2 * config.network.hidden_size
    assert asking.num_envs - plain.num_envs >= least


def test_the_worst_goals_take_as_much_as_an_evaluation_of_as_many_worlds():
    need = memory.need(*setup(cvar_goals=10_000, evaluation_episodes=256, num_seeds=2))
    assert need.cvar_goals == need.evaluation_episodes > memory.need(*setup(cvar_goals=20, num_seeds=2)).cvar_goals > 0
    assert memory.need(*setup(num_seeds=2)).cvar_goals == 0


@pytest.mark.parametrize("physics", ["c", "jax", "warp"])
def test_physics_buffers_count_by_world_and_seed(physics, monkeypatch):
    """Between 10 KB and 2 MB a world, in rollouts and evaluations, times the seeds; and said."""
    if physics == "warp":
        pytest.importorskip("warp")
    monkeypatch.setattr(memory, "available", lambda: (1000 * memory.GIB, "free on this machine"))
    of = lambda **settings: configs.make_config(modules=("reach", "push"), physics=physics, **settings)  # noqa: E731
    env = environment.make_env(of())
    world = env.physics_bytes_per_world
    assert 10_000 < world < 2_000_000
    less, more = (memory.need(of(num_envs=n), env).num_envs for n in (128, 256))
    without = SimpleNamespace(
        physics_bytes_per_world=0,
        **{name: getattr(env, name) for name in ("episode_length", "obs_size", "action_size", "modules")},
    )
    assert more - less == 128 * world + (memory.need(of(), without).num_envs)
    assert memory.need(of(num_envs=256, num_seeds=3), env).num_envs == 3 * more
    said = memory.check(of(num_envs=20_000, num_seeds=2), env)
    assert f"{40_000 * world / memory.GIB:.2f} GiB for {physics} physics" in said


class Large:
    """An environment whose physics takes a MiB for each world."""

    physics_bytes_per_world, physics_name = 2**20, "warp"

    def __init__(self, env):
        self._env = env

    def __getattr__(self, name):
        return getattr(self._env, name)


def test_too_many_worlds_for_the_physics_name_num_envs(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: (8 * memory.GIB, "on a GPU"))
    config, env = setup(num_envs=10_000, capacity=10_000)
    large = Large(env)
    with pytest.raises(ConfigError, match=r"^--num-envs 10000: needs .* GiB, 8.00 GiB on a GPU; lower --num-envs$"):
        memory.check(config, large)


def test_simulated_devices_share_the_machine_and_others_do_not(monkeypatch):
    config, env = setup(capacity=1000, batch_size=256)
    one = memory.need(config, env)
    monkeypatch.setattr(memory.jax, "local_device_count", lambda: 4)
    four = dataclasses.replace(config, devices=4)
    assert memory.need(four, env).capacity == 4 * one.capacity
    monkeypatch.setattr(memory.jax, "default_backend", lambda: "gpu")
    assert memory.need(four, env).capacity == one.capacity  # on each
    assert memory.need(four, env).batch_size == one.batch_size // 4
    assert "on each of 4 devices" in memory.check(four, env)


def test_there_is_some_memory_here():
    there, where = memory.available()
    assert 2**26 < there < 2**50
    assert where


def test_what_fits_is_said_in_gib(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: (8 * memory.GIB, "free on this machine"))
    config, env = setup(capacity=60_000)
    assert re.match(
        r"memory: 0.0\d GiB for 60000 episodes, 0.\d\d GiB in all, 8.00 GiB free", memory.check(config, env)
    )


def test_what_does_not_fit_says_what_to_lower(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: (memory.GIB, "free on this machine"))
    config, env = setup(capacity=10_000_000)
    with pytest.raises(ConfigError) as error:
        memory.check(config, env)
    message = str(error.value)
    fits = int(re.search(r"lower --capacity to (\d+) or less", message)[1])
    assert message.startswith("--capacity 10000000: needs ") and "GiB, 1.00 GiB free" in message
    memory.check(setup(capacity=fits)[0], env)
    with pytest.raises(ConfigError):
        memory.check(setup(capacity=fits + fits // 100)[0], env)
    with pytest.raises(ConfigError, match="num-seeds"):
        memory.check(setup(capacity=10_000_000, num_seeds=2)[0], env)


@pytest.mark.parametrize(
    "settings, start, advice",
    [
        ({"num_envs": 10**6, "capacity": 10**6}, "--num-envs 1000000:", "lower --num-envs$"),
        ({"hidden_size": 10**5}, "--hidden-size 100000:", "lower --hidden-size$"),
        ({"window": 10**9}, "--window 1000000000:", "lower --window$"),
        ({"window_span": 10**9}, "--window-span 1000000000:", "lower --window-span$"),
        ({"batch_size": 10**6}, "--batch-size 1000000:", "lower --batch-size$"),
        ({"evaluation_episodes": 10**6}, "--evaluation-episodes 1000000:", "lower --evaluation-episodes$"),
        ({"num_seeds": 10**6}, "--capacity 8000:", r"or --num-seeds \(now 1000000\)$"),
    ],
)
def test_the_option_that_takes_most_is_named(monkeypatch, settings, start, advice):
    monkeypatch.setattr(memory, "available", lambda: (memory.GIB, "free on this machine"))
    with pytest.raises(ConfigError, match=advice) as error:
        memory.check(*setup(**settings))
    assert str(error.value).startswith(start)


def group(folder, limit, used, cache, v1=False):
    """Writes the files of a memory group."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if v1 else ("memory.max", "memory.current")
    for name, value in zip(names, (limit, used)):
        (folder / name).write_text(f"{value}\n")
    prefix = "total_" if v1 else ""
    (folder / "memory.stat").write_text(f"anon 7\n{prefix}active_file {cache}\n{prefix}inactive_file 1\n")


def left(tmp_path, line):
    (tmp_path / "cgroup").write_text(f"9:cpu,cpuacct:/x\n{line}\n")
    return list(memory._left_by_cgroups(tmp_path / "cgroup", tmp_path / "fs"))


def test_a_limit_of_cgroups_v2_is_seen_wherever_it_stands(tmp_path):
    group(tmp_path / "fs" / "slice" / "job", "max", 10, 5)
    group(tmp_path / "fs" / "slice", 1000, 300, 99)
    assert left(tmp_path, "0::/slice/job") == [800]
    group(tmp_path / "fs", 500, 10, 9)  # inside a container its own group is the root, whatever the line says
    assert left(tmp_path, "0::/slice/job") == [800, 500]
    assert left(tmp_path, "0::/../elsewhere")[-1] == 500


def test_a_limit_of_cgroups_v1_is_seen(tmp_path):
    group(tmp_path / "fs" / "memory" / "job", 2000, 500, 99, v1=True)
    group(tmp_path / "fs" / "memory", 9223372036854771712, 500, 99, v1=True)
    assert left(tmp_path, "4:memory:/job")[0] == 1600
    assert left(tmp_path, "4:hugetlb,memory:/job")[0] == 1600


@pytest.mark.parametrize("kind", [resource.RLIMIT_AS, resource.RLIMIT_DATA])
def test_the_shell_s_limits_are_seen(kind, monkeypatch):
    free = (resource.RLIM_INFINITY,) * 2
    monkeypatch.setattr(memory.resource, "getrlimit", lambda asked: (2**45, 2**45) if asked == kind else free)
    (found,) = memory._left_by_limits()
    assert 2**44 < found < 2**45
