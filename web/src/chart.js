// The actor's input and action as bars: one per number, in groups with names.

const GAP = 8; // px between groups
const LINE = 14; // px, height of a line of labels; there are two, in turns
const UNCLIPPED = 1e6; // a clip from here on clips nothing: without normalisation it is the largest number there is

/** The groups of the actor's input, [name, count], and the action's. */
export function groups(about, policy) {
  const sizes = new Map();
  for (const [name, [first, end]] of Object.entries(about.observation)) {
    const group = name.startsWith("cube") ? name.split("_")[0].replace("cube", "cube ") : "hand";
    sizes.set(group, (sizes.get(group) ?? 0) + end - first);
  }
  return [...sizes, ["goal", policy.goal_size], ["module", policy.modules.length], ["action", policy.action_size]];
}

/** What the longest bars of the actor's input stand for: its clip, or the largest number where nothing is clipped. */
export function bound(clip, input) {
  return clip < UNCLIPPED ? clip : Math.max(...input.map(Math.abs));
}

/** Draws the actor's input by square roots, so that small numbers are seen, and its action, of -1 to 1, as it is. */
export function draw(canvas, parts, input, action, clip) {
  const numbers = [...input, ...action];
  const longest = bound(clip, input);
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
      const length = (last ? value : Math.sign(value) * Math.sqrt(Math.abs(value) / longest)) * middle;
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
