// The actor's input and action as bars: one per number, in groups with names.

const GAP = 8; // px between groups
const LINE = 14; // px, height of a line of labels; there are two, in turns

/** The groups of the actor's input, [name, count], and the action's. */
export function groups(about, policy) {
  const sizes = new Map();
  for (const [name, [first, end]] of Object.entries(about.observation)) {
    const group = name.startsWith("cube") ? name.split("_")[0].replace("cube", "cube ") : "hand";
    sizes.set(group, (sizes.get(group) ?? 0) + end - first);
  }
  return [...sizes, ["goal", policy.goal_size], ["module", policy.modules.length], ["action", policy.action_size]];
}

/** Draws numbers of -bound to bound by their square roots, so that small ones are seen, and the last group's, of -1 to 1. */
export function draw(canvas, parts, numbers, bound) {
  const ratio = window.devicePixelRatio;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const style = getComputedStyle(canvas);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = "11px system-ui, sans-serif";
  const bar = (width - GAP * (parts.length - 1)) / numbers.length;
  const middle = (height - 2 * LINE) / 2;
  let [x, number] = [0, 0];
  parts.forEach(([name, count], k) => {
    const last = k === parts.length - 1;
    pen.fillStyle = style.getPropertyValue("--line");
    pen.fillRect(x, middle, count * bar, 1);
    pen.fillStyle = style.getPropertyValue(last ? "--accent" : "--bar");
    for (let i = 0; i < count; i++, number++) {
      const value = numbers[number];
      const length = (last ? value : Math.sign(value) * Math.sqrt(Math.abs(value) / bound)) * middle;
      pen.fillRect(
        x + i * bar + 0.5,
        middle - Math.max(length, 0),
        Math.max(bar - 1, 1),
        Math.max(Math.abs(length), 1),
      );
    }
    pen.fillStyle = style.getPropertyValue("--text");
    pen.textAlign = last ? "right" : "left";
    pen.fillText(name, last ? width : x, height - 3 - LINE * ((k + 1) % 2));
    x += count * bar + GAP;
  });
}
