"""Made-up metrics rows for the tests of what shows them."""


def row(episodes, reach=0.5, seed=None, **changes):
    """A row with the keys of metrics.jsonl: two achievable modules and a distractor."""
    result = {} if seed is None else {"seed": seed}
    result |= {"episodes": episodes, "env_steps": 20 * episodes, "updates": episodes, "wall_s": episodes / 100}
    result |= {"eval/success": reach / 2, "eval/success/reach": reach, "eval/success/push": 0.0}
    result |= {"eval/n/reach": 20, "eval/n/push": 20}
    for key, values in {
        "competence": (reach, 0.0, 0.0),
        "learning_progress": (-0.25, 0.0, 0.0),
        "p_module": (0.7, 0.2, 0.1),
    }.items():
        result |= {f"{key}/{name}": v for name, v in zip(("reach", "push", "distractor1"), values)}
    result |= {"train/critic_loss": 0.01, "train/actor_loss": 1.0, "train/q_mean": -2.0}
    result |= {"perf/env_steps_per_s": 2000.0, "perf/updates_per_s": 150.0, "invalid_episodes": 0}
    return result | changes
