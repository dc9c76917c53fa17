// Episodes without drawing, as fast as the machine can.

import { goalPoint, makeRandom, placeCubes, sampleGoal, solved } from "./modules.js";
import { act, actorInput, goalNow } from "./policy.js";

/** Looks at the world: the observation, the goal as it stands now, its point, success, and the actor's input. */
export function look(world, policy, module, goal) {
  const obs = world.observe();
  const now = goalNow(policy, goal, obs);
  const point = goalPoint(world.about, module, now);
  const input = actorInput(policy, now, obs, module);
  return { obs, point, input, solved: solved(world.about, module, point, obs) };
}

/** Plays one episode; tells whether its goal is reached at the last step. */
export function playEpisode(world, policy, module, random) {
  world.reset(placeCubes(random, world.about));
  const goal = sampleGoal(random, world.about, module);
  for (let t = 0; t < world.about.constants.episode_length; t++) {
    world.step(act(policy, look(world, policy, module, goal).input));
  }
  return look(world, policy, module, goal).solved;
}

/** The number of episodes, out of `count`, that end in success; `report` hears of each. None begins after an abort. */
export async function measure(world, policy, module, count, seed, report = () => {}, signal = null) {
  const random = makeRandom(seed);
  let successes = 0;
  for (let n = 1; n <= count && !signal?.aborted; n++) {
    successes += playEpisode(world, policy, module, random);
    report(successes, n);
    await new Promise((resume) => setTimeout(resume)); // lets the page answer
  }
  return successes;
}
