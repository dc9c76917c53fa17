"""Stands between the training cycle and what chooses modules and goals: what they are told, and what they propose."""

import functools

import jax
import jax.numpy as jnp

from curious_jax.errors import ConfigError
from curious_jax.learner import batches, normalizer
from curious_jax.learner.estimators import Results
from curious_jax.learner.goals.protocol import Batches, View
from curious_jax.learner.normalizer import NormalizerState
from curious_jax.learner.rollout import Propose
from curious_jax.learner.state import STREAM, Setup, TrainState
from curious_jax.types import Episode, Transition


def make_view(run: Setup, statistics: NormalizerState, actor: object) -> View:
    """Makes what goal samplers see networks with: inputs of (obs, goal, module), and the policy's actions."""
    encode = functools.partial(normalizer.policy_input, statistics, run.config.normalizer, run.env.modules)
    return View(encode, functools.partial(run.learner.act, actor))


def make_proposals(run: Setup, state: TrainState, key: jax.Array, exploring: jax.Array) -> Propose | None:
    """Makes the function that proposes goals for a cycle's episodes; None for uniform goals.

    Args:
      exploring: [E] bool; the others keep their uniform goals.
    """
    if run.goals is None:
        return None
    propose = run.goals.propose
    view = make_view(run, state.normalizer, state.learner.actor)
    own = jax.random.fold_in(key, STREAM)

    def proposals(module: jax.Array, obs: jax.Array, goal: jax.Array) -> jax.Array:
        with jax.named_scope("curriculum"):
            return jnp.where(exploring[:, None], propose(state.goals, own, module, obs, view), goal)

    return proposals


@jax.named_scope("curriculum")
def gather(
    run: Setup,
    state: TrainState,
    statistics: NormalizerState,
    episode: Episode,
    self_evaluation: jax.Array,
    relevant: jax.Array,
    key: jax.Array,
) -> Results:
    """Gathers what a cycle's episodes showed.

    Args:
      state: as it was before the cycle.
      self_evaluation, relevant: [E] bool, [E, M] bool.
    """
    modules, last = run.env.modules, episode.obs[:, -1]
    asks = run.estimator.wants_td_errors
    return Results(
        module=episode.module,
        goal=jax.vmap(modules.goal_at)(episode.goal, episode.module, last),
        success=episode.success,
        self_evaluation=self_evaluation,
        valid=episode.valid,
        first=episode.obs[:, 0],
        reached=jax.vmap(modules.outcomes)(last),
        relevant=relevant,
        td_error=_td_errors(run, state, statistics, episode) if asks else jnp.zeros(episode.module.shape),
        key=jax.random.fold_in(key, STREAM + 1),
        cycle=state.cycle,
    )


def _td_errors(run: Setup, state: TrainState, statistics: NormalizerState, episode: Episode) -> jax.Array:
    """Computes the mean |TD error| of each episode by the critic before the cycle, for its own module and goal."""
    modules, (number, steps) = run.env.modules, episode.action.shape[:2]
    flat = lambda x: x.reshape(number * steps, *x.shape[2:])  # noqa: E731
    module, goal = (jnp.repeat(x, steps, axis=0) for x in (episode.module, episode.goal))
    obs, next_obs = flat(episode.obs[:, :-1]), flat(episode.obs[:, 1:])
    goal_at = jax.vmap(modules.goal_at)
    next_goal = goal_at(goal, module, next_obs)
    transition = Transition(
        obs=obs,
        action=flat(episode.action),
        reward=jax.vmap(modules.reward)(next_obs, next_goal, module),
        next_obs=next_obs,
        goal=goal_at(goal, module, obs),
        next_goal=next_goal,
        module=module,
    )
    if run.learner.td_error is None:
        raise ConfigError("--estimator plr: needs a learner with td_error (curious_jax.types.Learner); choose another")
    errors = run.learner.td_error(state.learner, batches.encode(run, statistics, transition))
    return errors.reshape(number, steps).mean(axis=1)


@jax.named_scope("curriculum")
def learn_goals(
    run: Setup, state: object, results: Results, learner_state: object, draw: Batches, statistics: NormalizerState
) -> object:
    """Lets the goal sampler learn from a cycle; () for uniform goals.

    Args:
      state: the sampler's.
      learner_state: after the cycle's updates.
    """
    if run.goals is None:
        return ()
    view = make_view(run, statistics, learner_state.actor)
    state = run.goals.update(state, results)
    return run.goals.learn(state, jax.random.fold_in(results.key, 1), draw, view)
