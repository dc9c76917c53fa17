"""Writes the card of an exported policy: what it takes and gives, how it was trained, and how well it does.

card.json is for programs, README.md says the same to people. Neither says where it was made.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import curious_jax
from curious_jax.cli import command, markdown
from curious_jax.errors import ConfigError
from curious_jax.learner import networks
from curious_jax.run import files
from curious_jax.run import folder as runfolder
from curious_jax.run.policies import BEST, Loaded, SavedPolicy
from curious_jax.show import stats

CARD, README = "card.json", "README.md"
LICENCE = "MIT"  # of curious_jax
NOT_RECORDED = "not recorded"
CHOSEN = (
    "\n\nThe run kept this policy as its best by this very evaluation, the highest of many: chance favours these "
    "figures, and the intervals do not allow for that. `curious_jax.evaluate` measures the policy on other episodes."
)
_FORMULA = (
    "action = tanh(actor([s, g, m])): s are the normalised observations; g the normalised goals, 0 outside the "
    "module's slots; m the module, one-hot"
)


def make(saved: SavedPolicy, loaded: Loaded, file: str | None, seed_index: int = 0) -> dict[str, Any]:
    """Gathers the card as plain data.

    Args:
      saved: where the policy was found; success is that of the run's evaluation after as many episodes, if there is it.
      file: the file that holds the policy; None for a folder that curious_jax reads.
      seed_index: which of the run's seeds.
    """
    config, env = loaded.config, loaded.env
    return {
        "format": "curious_jax card",
        "version": curious_jax.__version__,
        "licence": LICENCE,
        "policy": file or "a folder for curious_jax (evaluate, play, load_policy)",
        "inputs": {
            "obs": [env.obs_size],
            "goal": [env.modules.goal_size],
            "module": "-1, for the flat goal: all modules at once"
            if config.algorithm == "her"
            else "a module's number",
        },
        "modules": _modules(loaded),
        "observation": [
            {"index": [place.start, place.stop - 1], "name": name, "unit": env.layout.units()[name]}
            for name, place in env.layout.table().items()
        ],
        "action": [{"index": k, "meaning": text, "range": [-1, 1]} for k, text in enumerate(env.action_meaning)],
        "control": _control(env.control_period, env.episode_length),
        "normalizer": {
            "normalize": config.normalizer.normalize,
            "std_floor": config.normalizer.std_floor,
            "clip": config.normalizer.clip,
            "observations_seen": float(loaded.params.normalizer.obs.weight.max()),
        },
        "network": _network(loaded),
        "training": {
            "command": command.training(saved.config),
            "algorithm": config.algorithm,
            "learner": config.learner,
            "world": config.world,
            "start": config.start,
            "seed": config.seed,
            "seed_index": seed_index,
            "episodes": loaded.episodes,
            "version": saved.info.get("version", NOT_RECORDED),
            "mean_success": _mean(saved.info.get("mean_success"), seed_index),
        },
        "success": success(saved, loaded),
        "chosen_by_this_success": _was_chosen(saved),
    }


def _mean(found: Any, seed_index: int) -> float | str:
    """Gives the mean success that was kept with the policy, of one seed."""
    found = found[seed_index] if isinstance(found, list) and len(found) > seed_index else found
    return found if isinstance(found, (int, float)) else NOT_RECORDED


def _modules(loaded: Loaded) -> list[dict[str, Any]]:
    """Lists the modules with their slots [first, last] in the goal and what the goal means."""
    table, found = loaded.env.modules, []
    described = zip(table.names, table.slots, table.meanings, table.achievable, strict=True)
    for number, (name, slots, meaning, achievable) in enumerate(described):
        goal = meaning or "described by the program that registers the module"
        found.append({
            "number": number,
            "name": name,
            "goal_slots": [slots.start, slots.stop - 1] if slots.stop > slots.start else None,
            "goal": goal if slots.stop > slots.start else "none: the module's number says it all",
            "achievable": achievable,
        })  # fmt: skip
    return found


def _control(period: float | None, steps: int) -> dict[str, Any]:
    """Tells how often the policy acts; None where the world has no time."""
    rate = None if period is None else round(1 / period, 6)
    return {"rate_hz": rate, "period_s": period and round(period, 6), "steps_per_episode": steps}


def _network(loaded: Loaded) -> dict[str, Any]:
    """Tells the actor's sizes; of experts, each one's; of the actor of a learner of one's own, its parameters alone."""
    parameters = sum(int(np.size(leaf)) for leaf in jax.tree.leaves(loaded.params.actor))
    try:
        layers = networks.actor_layers(loaded.params.actor)
    except ConfigError:
        return {"activation": NOT_RECORDED, "parameters": parameters}
    experts = layers[0]["weight"].ndim == 3
    return {
        "inputs": layers[0]["weight"].shape[-2],
        "hidden": [layer["weight"].shape[-1] for layer in layers[:-1]],
        "outputs": layers[-1]["weight"].shape[-1],
        "layer_norm": "norm_scale" in layers[0],
        "activation": "relu, tanh after the last layer",
        "experts": loaded.env.modules.num_modules if experts else None,
        "parameters": parameters,
    }


def success(saved: SavedPolicy, loaded: Loaded) -> dict[str, Any] | str:
    """Returns success per module with 95 % Wilson intervals, from the evaluation that the run made of this policy.

    A folder that was exported with a card hands its success on. Where there is neither, nothing is evaluated.
    """
    names = [n for n, a in zip(loaded.env.modules.names, loaded.env.modules.achievable, strict=True) if a]
    place = saved.path.absolute()
    handed: Any = files.read_object(place / CARD).get("success")
    try:
        return {name: _rate(handed[name]["successes"], handed[name]["episodes"]) for name in names}
    except (TypeError, KeyError, ValueError):
        pass
    in_a_run = place.parent.name in (runfolder.POLICIES, runfolder.CHECKPOINTS)
    return (in_a_run and _evaluation(place.parents[1], loaded, names)) or NOT_RECORDED


def _was_chosen(saved: SavedPolicy) -> bool:
    """Tells whether the evaluation that the card gives is the one by which the run kept the policy as its best.

    Such a figure is the highest of many and too high on average. A folder with a card hands this on.
    """
    place = saved.path.absolute()
    handed = files.read_object(place / CARD).get("chosen_by_this_success")
    return handed if isinstance(handed, bool) else place.name == BEST and place.parent.name == runfolder.POLICIES


def _evaluation(run: Path, loaded: Loaded, names: Sequence[str]) -> dict[str, Any] | None:
    """Returns the run's evaluation after as many episodes as the policy has, of its seed; None where there is none."""
    try:
        found: Sequence[dict[str, Any]] = runfolder.read_rows(run)
    except ConfigError:
        return None
    for row in reversed(found):
        if row["episodes"] == loaded.episodes and row.get("seed", loaded.config.seed) == loaded.config.seed:
            counts = {name: one for name in names if (one := stats.success(row, name)) is not None}
            if len(counts) == len(names):
                return {name: _rate(round(rate * n), n) for name, (rate, n) in counts.items()}
    return None


def _rate(successes: int, episodes: int) -> dict[str, Any]:
    low, high = stats.wilson(successes, episodes)
    return {
        "rate": successes / episodes,
        "interval_95": [round(low, 4), round(high, 4)],
        "successes": successes,
        "episodes": episodes,
    }


def _layers(network: dict[str, Any]) -> str:
    """Says the actor's layers in words."""
    if "hidden" not in network:
        return "The actor of a learner of one's own, whose layers are not recorded"
    sizes = " - ".join(map(str, [network["inputs"], *network["hidden"], network["outputs"]]))
    each = f", one network for each of {network['experts']} modules" if network["experts"] else ""
    norm = ", layer normalisation before each ReLU" if network["layer_norm"] else ""
    return f"{sizes}, ReLU, tanh after the last layer{norm}{each}"


def page(card: dict[str, Any]) -> str:
    """Returns the card as a page of Markdown."""
    modules, training, network, control = (card[name] for name in ("modules", "training", "network", "control"))
    rate = "no physical time" if control["rate_hz"] is None else f"{control['rate_hz']:g} Hz"
    normalised = card["normalizer"]
    inside = (
        f"(x - mean) / std, std at least {normalised['std_floor']:g}, clipped to ±{normalised['clip']:g}"
        if normalised["normalize"]
        else "none"
    )
    return "\n\n".join([
        f"# A policy for {', '.join(module['name'] for module in modules)}",
        f"Trained by curious_jax (version {training['version']}) for {training['episodes']:,} episodes: "
        f"algorithm {training['algorithm']}, learner {training['learner']}, seed {training['seed']}.",
        f"    {training['command']}",
        f"The policy is {card['policy']}; card.json has this page's figures for programs. {_FORMULA}. "
        f"The input `module` is {card['inputs']['module']}.",
        "## Success",
        _success(card["success"], training["mean_success"]) + _chosen(card),
        "## Modules and their goals",
        markdown.table(["number", "module", "slots", "goal"], [
            [str(m["number"]), m["name"], _places(m["goal_slots"]), m["goal"] + ("" if m["achievable"] else
             " (a distractor: cannot be achieved)")] for m in modules]),
        f"## Observation ({card['inputs']['obs'][0]} numbers)",
        markdown.table(["index", "name", "unit"], [
            [_places(r["index"]), r["name"], r["unit"]] for r in card["observation"]]),
        f"## Action ({len(card['action'])} numbers in [-1, 1])",
        markdown.table(["index", "meaning"], [[str(a["index"]), a["meaning"]] for a in card["action"]]),
        f"Control: {rate}, {control['steps_per_episode']} steps an episode.",
        "## Network",
        f"{_layers(network)}; {network['parameters']:,} parameters. "
        f"Normalisation of observations and goals: {inside}.",
        f"Written by curious_jax {card['version']} ({card['licence']} licence).",
    ]) + "\n"  # fmt: skip


def _success(found: dict[str, Any] | str, mean: float | str) -> str:
    if isinstance(found, str):
        known = f"; the mean over modules was {mean:.3f}" if isinstance(mean, (int, float)) else ""
        return f"Success per module is {found}{known}."
    lines = [
        [name, f"{r['rate']:.3f}", "{:.3f} to {:.3f}".format(*r["interval_95"]), f"{r['episodes']:,}"]
        for name, r in found.items()
    ]
    return markdown.table(["module", "success", "95 % interval (Wilson)", "episodes"], lines)


def _chosen(card: dict[str, Any]) -> str:
    return CHOSEN if card["chosen_by_this_success"] and not isinstance(card["success"], str) else ""


def _places(bounds: Sequence[int] | None) -> str:
    """First and last of some numbers, as people write it."""
    return "none" if bounds is None else f"{bounds[0]}–{bounds[1]}" if bounds[0] < bounds[1] else str(bounds[0])
