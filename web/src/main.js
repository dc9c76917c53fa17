// The page: loads MuJoCo and the policies, keeps the arm acting at 25 Hz, and connects what the user can touch.

import loadMujoco from "@mujoco/mujoco";
import wasm from "@mujoco/mujoco/mujoco.wasm";
import * as chart from "./chart.js";
import * as episodes from "./episodes.js";
import { listen } from "./hand.js";
import { makeRandom, placeCubes, sampleGoal } from "./modules.js";
import { act } from "./policy.js";
import { unpackBytes, unpackJson } from "./unpack.js";
import { View } from "./view.js";
import { World } from "./world.js";

const CATCH_UP = 0.2; // s that a slow frame may make good
const CHEER = 1.5; // s that a reached goal stays
const PATIENCE = 6; // s until a new start, when a goal is not reached and nobody touches anything
const MEASURED = 30; // episodes
const MEASURE = `Measure ${MEASURED} episodes`;
const HELP = {
  reach: () => "The gripper goes to the ball.",
  push: (cube) => `The ${cube} goes to the ball on the table.`,
  pnp: (cube) => `The ${cube} is carried to the ball: pick and place.`,
  stack: (cube, base) => `The ${cube} goes on the ${base}, and the hand away.`,
};

const element = (id) => document.getElementById(id);

class Page {
  constructor(world, policies) {
    Object.assign(this, { world, policies, stage: policies.length - 1, module: 0, random: makeRandom(Date.now()) });
    this.view = new View(element("scene"), world);
    this.parts = chart.groups(world.about, this.policy);
    this.action = Array(this.policy.action_size).fill(0);
    this.times = []; // of the last control steps, ms
    this.measurement = null; // an AbortController while episodes are measured
    this.restart();
  }

  get policy() {
    return this.policies[this.stage];
  }

  /** Begins a new episode. */
  restart() {
    this.world.reset(placeCubes(this.random, this.world.about));
    this.newGoal();
  }

  newGoal() {
    this.goal = sampleGoal(this.random, this.world.about, this.module);
    Object.assign(this, { substeps: 0, owed: 0, waited: 0, held: 0 });
    this.see();
  }

  /** Plays fresh episodes of the module without drawing, and says how many end in success. */
  async measure() {
    const { signal } = (this.measurement = new AbortController());
    this.busy = true;
    element("measure").textContent = "Stop measuring";
    element("measured").textContent = "";
    const report = (successes, count) => (element("measured").textContent = `${successes} of ${count} solved`);
    await episodes.measure(this.world, this.policy, this.module, MEASURED, Date.now(), report, signal);
    if (!signal.aborted) this.stopMeasuring();
  }

  /** Ends a measurement, if there is one, and begins a new episode; what was counted until then stays on the page. */
  stopMeasuring() {
    if (!this.measurement) return;
    this.measurement.abort();
    this.measurement = null;
    this.busy = false;
    element("measure").textContent = MEASURE;
    this.restart();
  }

  /** The user did something: the page waits. */
  touched() {
    this.waited = this.held = 0;
  }

  see() {
    Object.assign(this, episodes.look(this.world, this.policy, this.module, this.goal));
  }

  /** Makes the physics steps of the time that went by, s; a control step begins every 40 ms of them. */
  advance(seconds) {
    const { physics_step, substeps, control_period } = this.world.about.constants;
    this.owed += Math.min(seconds, CATCH_UP);
    for (; this.owed >= physics_step; this.owed -= physics_step) {
      if (this.substeps % substeps === 0) this.control(control_period);
      this.world.substep();
      this.substeps++;
    }
  }

  control(period) {
    this.see();
    this.held = this.solved ? this.held + period : 0;
    this.waited += period;
    if (element("auto").checked && !this.world.pull) {
      const stuck = this.waited > PATIENCE;
      if (stuck || (this.held > CHEER && this.world.about.modules[this.module].kind === "stack")) this.restart();
      else if (this.held > CHEER) this.newGoal();
    }
    this.action = act(this.policy, this.input);
    this.world.act(this.action);
    this.times.push(performance.now());
    if (this.times.length > 51) this.times.shift();
  }

  /** Control steps per second of the last two seconds or so. */
  get rate() {
    const { times } = this;
    return times.length > 1 ? (1000 * (times.length - 1)) / (times.at(-1) - times[0]) : 0;
  }

  draw() {
    const { colour, kind, name } = this.world.about.modules[this.module];
    // Where the goal is now; a control step sees it up to 40 ms later.
    const { point, solved } = episodes.look(this.world, this.policy, this.module, this.goal);
    this.point = point;
    const inTheAir = kind === "reach" || kind === "pnp";
    this.view.draw({ point, colour, solved, inTheAir });
    element("module").textContent = name;
    element("module").style.background = colour;
    element("success").textContent = solved ? "success" : "not yet";
    element("success").classList.toggle("on", solved);
    element("rate").textContent = `${this.rate.toFixed(1)} Hz`;
    element("rate").hidden = this.paused || !this.rate;
    chart.draw(element("input"), this.parts, this.input, this.action, this.policy.clip);
  }
}

function connect(page) {
  const { modules, cube_names } = page.world.about;
  element("title").textContent = `CURIOUS: one policy, ${modules.length} module${modules.length > 1 ? "s" : ""}`;
  modules.forEach(({ name }, number) => {
    const button = document.createElement("button");
    button.textContent = name;
    button.addEventListener("click", () => choose(number));
    element("modules").append(button);
  });

  function choose(number) {
    page.stopMeasuring();
    page.module = number;
    [...element("modules").children].forEach((b, i) => b.setAttribute("aria-pressed", i === number));
    const { kind, cube, base } = modules[number];
    element("help").textContent = HELP[kind](cube_names[cube - 1], cube_names[base - 1]);
    element("measured").textContent = "";
    page.newGoal();
  }

  element("restart").addEventListener("click", () => {
    page.stopMeasuring();
    page.restart();
  });
  element("pause").addEventListener("click", () => {
    page.paused = !page.paused;
    element("pause").textContent = page.paused ? "Go on" : "Pause";
  });
  element("measure").textContent = MEASURE;
  element("measure").addEventListener("click", () => (page.measurement ? page.stopMeasuring() : page.measure()));
  listen(element("scene"), page);
  choose(0);
}

/** Several policies are stages of a training run, the last one first to act. */
function connectStages(page) {
  const slider = element("stage");

  function show() {
    page.stopMeasuring();
    page.stage = Number(slider.value);
    element("episodes").textContent = `${page.policy.episodes.toLocaleString("en")} episodes of training`;
    element("measured").textContent = "";
  }

  slider.max = page.policies.length - 1;
  slider.value = slider.max;
  slider.hidden = page.policies.length < 2;
  slider.addEventListener("input", show);
  show();
}

function run(page) {
  let before = performance.now();
  function frame(now) {
    if (!page.paused && !page.busy) page.advance((now - before) / 1000);
    before = now;
    if (!page.busy) page.draw();
    page.firstPicture ??= performance.now();
    requestAnimationFrame(frame);
  }
  requestAnimationFrame(frame);
}

async function start() {
  const wasmBinary = await unpackBytes(wasm);
  const [mujoco, about, policies] = await Promise.all([
    loadMujoco({ wasmBinary, locateFile: (name) => name }),
    unpackJson(window.curiousData.world),
    unpackJson(window.curiousData.policies),
  ]);
  const page = new Page(new World(mujoco, about), policies);
  connect(page);
  connectStages(page);
  run(page);
  element("loading").remove();
  // For the console, and for tests/web.
  Object.assign(window, { curious: { page, mujoco, World, episodes, act, connectStages } });
}

start().catch((error) => {
  element("loading").textContent = `This browser cannot show the page: ${error.message ?? error}`;
  throw error;
});
