// The modules' goals and success, and where cubes start: what envs/fetch/modules.py and start.py say in Python.

const TRIES = 16; // placements of all cubes, as in start.py
const CANDIDATES = 32; // draws for each cube of a placement

const distance = (a, b) => Math.hypot(...a.map((x, i) => x - b[i]));
const around = (random, centre, range) => centre.map((x) => x + range * (2 * random() - 1));

/** A generator of numbers in [0, 1) that depend on the seed alone (a Weyl sequence through MurmurHash3's mixer). */
export function makeRandom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let x = state;
    x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
    x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
    return ((x ^ (x >>> 16)) >>> 0) / 2 ** 32;
  };
}

/**
 * Positions [x, y] uniform around the gripper, at a distance from it and from each other.
 *
 * Cubes are placed one after the other, each at the first of 32 draws that keeps the distance, or else at the one that
 * keeps the most; of 16 such placements the first that keeps all distances is taken, or else the best. So it ends.
 */
export function placeCubes(random, about) {
  const { cube_spacing } = about.constants;
  return firstOrBest(TRIES, cube_spacing, () => placeInOrder(random, about)).cubes;
}

/** One placement, and the smallest distance in it. */
function placeInOrder(random, about) {
  const { cube_box, cube_spacing } = about.constants;
  const gripper = about.start.gripper.slice(0, 2);
  const [taken, spacings] = [[gripper], []];
  for (let k = 0; k < about.cubes; k++) {
    const { place, spacing } = firstOrBest(CANDIDATES, cube_spacing, () => {
      const place = around(random, gripper, cube_box);
      return { place, spacing: Math.min(...taken.map((other) => distance(place, other))) };
    });
    taken.push(place);
    spacings.push(spacing);
  }
  return { cubes: taken.slice(1), spacing: Math.min(...spacings) };
}

/** The first of `count` things, each drawn with its spacing, that is wide enough, or else the widest. */
function firstOrBest(count, enough, draw) {
  let best = null;
  for (let n = 0; n < count; n++) {
    const drawn = draw();
    if (drawn.spacing >= enough) return drawn;
    if (!best || drawn.spacing > best.spacing) best = drawn;
  }
  return best;
}

/** A goal [G] of a module; slots of other modules are 0. The goal of stack is read from the observation. */
export function sampleGoal(random, about, module) {
  const { centre, range, rest_height, max_lift } = about.goal;
  return goalAt(about, module, [...around(random, centre, range), rest_height + max_lift * random()]);
}

/** The goal [G] whose point is [x, y, z]. */
export function goalAt(about, module, point) {
  const size = Math.max(...about.modules.map(({ slots }) => slots[1]));
  const [first, end] = about.modules[module].slots;
  return Array.from({ length: size }, (_, i) => (first <= i && i < end ? point[i - first] : 0));
}

/** The point [3] of a goal [G] as it stands now; two numbers are a point on the table. */
export function goalPoint(about, module, goal) {
  const point = goal.slice(...about.modules[module].slots);
  return point.length === 2 ? [...point, about.goal.rest_height] : point;
}

/** Whether the module's goal, as a point, is reached. */
export function solved(about, module, point, obs) {
  const { outcome, hand_away } = about.modules[module];
  const { tolerance, clearance } = about.goal;
  const gripper = obs.slice(...about.observation.gripper_position);
  const away = !hand_away || distance([...gripper], point) >= clearance;
  return distance([...obs.slice(...outcome)], point) < tolerance && away;
}
