"""Config: the paper's numbers, what wins over what, and refusals that say what to change."""

import json
from pathlib import Path

import numpy as np
import pytest

from curious_jax import config as configs
from curious_jax.config import make_config
from curious_jax.errors import ConfigError


def test_a_tpu_s_updates_are_not_packed_unless_asked():
    packed = [configs.make_config(platform).ddpg.packed for platform in ("cpu", "gpu", "tpu")]
    assert packed == [False, True, False]
    assert configs.make_config("tpu", packed=True).ddpg.packed


def test_paper_preset_is_the_specification_to_the_letter():
    c = make_config(preset="paper")
    assert c.schedule.num_envs == 38  # 19 workers x 2 rollouts
    assert c.schedule.batch_size == 4864  # 19 x 256
    assert c.schedule.updates_per_cycle == 100
    assert c.schedule.cycles_per_epoch == 25
    assert c.schedule.cycles == 25 * 316
    assert c.schedule.episodes == 300_200
    assert c.schedule.capacity == c.schedule.episodes  # nothing is evicted
    assert c.schedule.evaluation_episodes == 95
    assert (c.curriculum.epsilon, c.curriculum.window, c.curriculum.self_evaluation) == (0.4, 300, 0.1)
    assert (c.hindsight.hindsight_probability, c.hindsight.substitution) == (0.8, "own")
    assert (c.exploration.noise, c.exploration.random_action) == (0.2, 0.3)
    assert (c.network.hidden_size, c.network.hidden_layers) == (256, 3)
    assert (c.ddpg.actor_lr, c.ddpg.critic_lr, c.ddpg.action_l2) == (1e-3, 1e-3, 1.0)
    assert c.ddpg.discount == pytest.approx(1 - 1 / 50)
    assert (c.ddpg.target_rate, c.ddpg.target_period) == (0.05, "cycle")
    assert c.normalizer.normalize is False
    assert (c.normalizer.std_floor, c.normalizer.clip) == (0.01, 5.0)


@pytest.mark.parametrize(("platform", "preset"), [("cpu", "cpu"), ("gpu", "gpu"), ("cuda", "gpu"), ("tpu", "gpu")])
def test_auto_preset_follows_the_platform(platform, preset):
    assert make_config(platform) == make_config(platform, preset=preset)
    assert make_config(platform).preset == preset  # what it meant is kept


def test_wide_is_fast_in_cycles_of_more_episodes():
    """The updates an episode are those of fast, and a window's results of four modules are those of one cycle."""
    fast, wide = make_config(preset="fast"), make_config(preset="wide")
    assert {c.schedule.updates_per_cycle / c.schedule.num_envs for c in (fast, wide)} == {8}
    assert (wide.curriculum.window_span, wide.ddpg.policy_average) == (wide.schedule.num_envs, 1.0)
    same = ("guide", "random_gripper", "batch_size", "hidden_size", "discount", "target_rate")
    assert [configs.value(wide, name) for name in same] == [configs.value(fast, name) for name in same]


def test_fast_guides_every_algorithm_but_her():
    guide = {
        name: make_config(preset="fast", algorithm=name).exploration.guide
        for name in ("curious", "muvfa", "mgme", "her")
    }
    assert guide == {"curious": 0.5, "muvfa": 0.5, "mgme": 0.5, "her": 0.0}
    with pytest.raises(ConfigError, match="guide"):
        make_config(preset="fast", algorithm="her", guide=0.3)


def test_named_settings_win_over_the_preset():
    c = make_config(preset="gpu", num_envs=16, window=7)
    assert (c.schedule.num_envs, c.curriculum.window) == (16, 7)
    assert c.schedule.batch_size == 4096


def test_the_paper_s_store_keeps_every_episode_of_a_longer_run():
    capacity = lambda **settings: make_config(preset="paper", **settings).schedule.capacity  # noqa: E731
    assert capacity() == 316 * 950
    assert capacity(episodes=500_000) == 500_004  # whole cycles of 38
    assert capacity(episodes=3_800) == 3_800
    assert capacity(episodes=100, num_envs=64) == 128
    assert capacity(episodes=500_000, capacity=1_000) == 1_000  # what is named wins
    with pytest.raises(ConfigError, match="episodes=0"):
        make_config(preset="paper", episodes=0)


@pytest.mark.parametrize("preset", ["cpu", "fast", "wide", "gpu", "paper"])
def test_json_and_back(preset):
    c = make_config(preset=preset, modules=("reach", "stack2on3"), seed=5, target_success=0.9, distractors=2)
    assert configs.from_dict(json.loads(json.dumps(configs.to_dict(c)))) == c


def test_cycles_round_up_and_epochs_have_at_least_one():
    c = make_config(num_envs=128, episodes=129, evaluation_interval=5).schedule
    assert c.cycles == 2
    assert c.cycles_per_epoch == 1
    assert make_config(num_envs=128, evaluation_interval=1000).schedule.cycles_per_epoch == 8  # 7.8


@pytest.mark.parametrize(
    ("settings", "argument", "wanted"),
    [
        (dict(batch_size=3), "batch_size=3", "number of modules, 4"),
        (dict(batch_size=5, distractors=2), "batch_size=5", "number of modules, 6"),
        (dict(evaluation_episodes=3), "evaluation_episodes=3", "achievable modules, 4"),
        (dict(capacity=127), "capacity=127", "num_envs=128"),
        (dict(num_envs=0), "num_envs=0", "1 or more"),
        (dict(num_envs=-4), "num_envs=-4", "1 or more"),
        (dict(updates_per_cycle=0), "updates_per_cycle=0", "1 or more"),
        (dict(batch_size=0), "batch_size=0", "1 or more"),
        (dict(episodes=0), "episodes=0", "1 or more"),
        (dict(window=1), "window=1", "2 or more"),  # of 2l = 2 results none can say anything
        (dict(hidden_size=0), "hidden_size=0", "1 or more"),
        (dict(hidden_layers=-1), "hidden_layers=-1", "1 or more"),
        (dict(num_seeds=0), "num_seeds=0", "1 or more"),
        (dict(seed=-1), "seed=-1", "a whole number between 0"),
        (dict(distractors=-1), "distractors=-1", "a whole number between 0"),
        (dict(epsilon="0.4"), "epsilon='0.4'", "between 0 and 1"),
        (dict(modules="reach"), "modules='reach'", "a tuple of names"),
        (dict(modules=()), "modules=", "at least one module"),
        (dict(epsilon=1.1), "epsilon=1.1", "between 0 and 1"),
        (dict(epsilon=float("nan")), "epsilon=nan", "between 0 and 1"),
        (dict(target_success=1.5), "target_success=1.5", "between 0 and 1"),
        (dict(discount=1.0), "discount=1.0", "between 0 and 0.9999"),
        (dict(target_rate=0.0), "target_rate=0.0", "between 1e-06 and 1"),
        (dict(algorithm="sac"), "algorithm='sac'", "curious, muvfa, her, mgme"),
        (dict(policy_delay=0), "policy_delay=0", "1 or more"),
        (dict(perturb_cube=0), "perturb_cube=0", "1 or more"),
        (dict(perturb_shift=11.0), "perturb_shift=11.0", "between -8 and 8"),
        (dict(physics="bullet"), "physics='bullet'", "auto, c, jax, warp"),
        (dict(world="mars"), "world='mars'", "fetch, point"),
        (dict(preset="tpu"), "preset='tpu'", "auto, cpu, fast, wide, gpu, paper"),
        (dict(target_period="epoch"), "target_period='epoch'", "update, cycle"),
        (dict(substitution="none"), "substitution='none'", "own, drawn"),
        (dict(learning_rate=1), "learning_rate:", "no such setting"),
        (dict(substitution="paper"), "substitution='paper'", "one of own, drawn (paper is now drawn)"),
        (dict(normalize="on"), "normalize='on'", "True or False"),
        (dict(episodes=64, perturb_at=65), "perturb_at=65", "at most episodes=64"),
        (dict(episodes=2 * 10**9), "episodes=2000000000", "a whole number of 1 or more, at most 1000000000"),
        (dict(seed=2**31 - 10**6 - 1, num_seeds=2), "seed=2146483647", "at most 2146483646 with num_seeds=2"),
    ],
)
def test_refusals_name_the_argument_and_the_right_values(settings, argument, wanted):
    with pytest.raises(ConfigError) as error:
        make_config(**settings)
    message = str(error.value)
    assert message.startswith(argument)
    assert wanted in message
    assert "\n" not in message


def test_a_range_that_has_an_upper_end_names_no_other():
    with pytest.raises(ConfigError, match=r"between 0 and 100$"):
        make_config(distractors=2 * 10**9)


@pytest.mark.parametrize("name", ["num_envs", "episodes", "window", "hidden_size", "num_seeds", "seed", "distractors"])
@pytest.mark.parametrize("value", [2.5, 64.0, "64", True])
def test_sizes_are_whole_numbers(name, value):
    with pytest.raises(ConfigError, match="whole number"):
        make_config(**{name: value})


def test_every_setting_has_a_unique_name_and_a_help_text_and_its_default_fits():
    for name, (group, field) in configs.fields_by_name().items():
        assert field.metadata["help"] and field.metadata["source"] in ("", *configs.SOURCES), (group, name)
        assert configs.fits(field, field.default), (group, name)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (dict(num_envs=0), "--num-envs 0: must be a whole number of 1 or more"),
        (
            dict(capacity=127),
            "--capacity 127: must be at least --num-envs 128, one cycle of episodes; raise it, or lower the latter",
        ),
        (dict(algorithm="her", replay="lp"), "--replay lp: must be own with --algorithm her; leave it out"),
        (dict(modules=()), "--modules '': must be at least one module, such as reach"),
        (dict(episodes=64, perturb_at=65), "--perturb-at 65: must be at most --episodes 64, the length of the run"),
    ],
)
def test_on_a_command_line_the_same_errors_speak_of_options(settings, line):
    with pytest.raises(ConfigError) as error:
        make_config(**settings)
    assert error.value.on_command_line == line


def test_the_world_brings_its_modules_and_preset():
    point = make_config(world="point")
    assert (point.modules, point.preset) == (("reach", "push"), "point")
    assert point.schedule.episodes <= 5000  # in seconds
    assert make_config("gpu", world="point") == point
    assert make_config(world="point", preset="cpu", modules=("drag",)).schedule == make_config(preset="cpu").schedule


def test_old_words_in_a_config_file_are_read():
    data = configs.to_dict(make_config(substitution="drawn", interest_replay=False, replay="uniform"))
    old = json.loads(json.dumps(data))
    old["hindsight"] |= {"substitution": "paper", "interest_replay": "off"}
    old["curriculum"]["replay"] = old["hindsight"].pop("replay")  # where it stood
    del old["imports"]
    assert configs.from_dict(old) == configs.from_dict(data)


def test_whole_numbers_are_taken_for_floats():
    assert make_config(noise=1, clip=5) == make_config(noise=1.0, clip=5.0)
    assert isinstance(make_config(noise=1).exploration.noise, float)


@pytest.mark.parametrize(
    "name, given, held",
    [
        ("seed", np.int64(3), 3),
        ("epsilon", np.float32(0.5), 0.5),
        ("mirror", np.True_, True),
        ("discount", np.int32(0), 0.0),
    ],
)
def test_numpy_s_numbers_are_numbers(name, given, held):
    config = configs.make_config(**{name: given})
    assert config == configs.make_config(**{name: held})
    assert type(configs.value(config, name)) is type(held)


RUNS = sorted(Path(__file__).parent.parent.glob("docs/results/**/config.json"))


@pytest.mark.parametrize("path", RUNS, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_a_setting_that_is_younger_than_a_run_is_off_in_it(path):
    held = json.loads(path.read_text())
    named = {**held, **{name: value for group in configs.GROUPS for name, value in held.get(group, {}).items()}}
    read = configs.from_dict(held)
    for name, (_, field) in configs.fields_by_name().items():
        if name not in named and name not in configs.ALGORITHM_SETTINGS["curious"]:
            assert configs.value(read, name) == field.default, name


def test_a_file_of_some_settings_leaves_the_rest_to_the_preset():
    some = {"network": {"hidden_layers": 3}, "ddpg": {"discount": 0.9}, "hindsight": {"substitution": "own"}}
    some |= {"preset": "fast", "curriculum": {"epsilon": 0.3}, "schedule": {"episodes": 640}, "modules": ["reach"]}
    read = configs.from_dict(some)
    assert (read.exploration.random_gripper, read.schedule.num_envs, read.schedule.episodes) == (0.5, 32, 640)
