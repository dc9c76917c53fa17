// The policy: normalised observation, goal and module through the actor network (docs/export.md has the same in NumPy).

/** The goal [G] as it stands now: that of stack follows a cube. */
export function goalNow({ arrays: a }, goal, obs) {
  return goal.map((g, i) => a["goal.keep"][i] * g + a["goal.scale"][i] * obs[a["goal.index"][i]] + a["goal.offset"][i]);
}

/** What the actor sees: [s, g, m_d], O + G + M numbers. */
export function actorInput({ arrays: a, clip, modules }, goal, obs, module) {
  const normalize = (part) => (x, i) =>
    Math.min(Math.max((x - a[`${part}.mean`][i]) / a[`${part}.std`][i], -clip), clip);
  const own = (x, i) => (a["goal.module"][i] === module ? x : 0);
  return [
    ...Array.from(obs, normalize("obs")),
    ...goal.map(normalize("goal")).map(own),
    ...modules.map((_, i) => Number(i === module)),
  ];
}

/** The action [4] in [-1, 1] for an actor's input. */
export function act({ arrays: a, layers }, input) {
  let x = input;
  for (let k = 0; k < layers; k++) {
    const weight = a[`layer.${k}.weight`];
    const sums = a[`layer.${k}.bias`].slice();
    x.forEach((value, i) => weight[i].forEach((w, j) => (sums[j] += w * value)));
    x = sums.map((sum) => (k < layers - 1 ? Math.max(sum, 0) : Math.tanh(sum)));
  }
  return x;
}
