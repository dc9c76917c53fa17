// The user's hand: drags the goal, and pulls cubes and arm as with a spring.

import { goalAt } from "./modules.js";

// Of the spring, in N/m, N s/m and N: a cube follows the pointer, the arm gives way by a few centimetres, for its hand is
// welded to its target.
const CUBE = { stiffness: 400, damping: 60, limit: 60 };
const ARM = { stiffness: 30000, damping: 500, limit: 10000 };
const CARRY = 0.02; // m that a dragged cube is lifted
const GRAVITY = 9.81;

/**
 * Listens to the pointer. What one finger holds, others neither move nor drop.
 * @param page has view, world, module, goal (which it changes), point, the goal's as it stands now, and busy: while it
 *   is, the world is not the user's.
 */
export function listen(canvas, page) {
  const { view, world } = page;
  const { centre, range, rest_height, max_lift } = world.about.goal;
  let held = null;

  const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
  const within = ([x, y, z]) => [
    clamp(x, centre[0] - range, centre[0] + range),
    clamp(y, centre[1] - range, centre[1] + range),
    clamp(z, rest_height, rest_height + max_lift),
  ];

  function take(event) {
    if (held || page.busy || !event.isPrimary) return;
    const hit = view.pick(event.clientX, event.clientY);
    if (!hit) return;
    const { kind } = world.about.modules[page.module];
    if (hit.what !== "body") {
      if (kind === "stack") return; // its goal follows the lower cube
      const level = hit.what === "foot" || kind === "push";
      const start = view.project(event.clientX, event.clientY, page.point, level);
      held = { level, through: page.point, offset: start ? page.point.map((x, i) => x - start[i]) : [0, 0, 0] };
    } else if (hit.body.startsWith("cube")) {
      const { position } = world.body(hit.body);
      const through = [position[0], position[1], Math.max(position[2], rest_height) + CARRY];
      world.hold(hit.body, [0, 0, 0], { ...CUBE, lift: world.about.constants.cube_mass * GRAVITY });
      held = { level: true, through, body: hit.body };
    } else {
      world.hold(hit.body, hit.local, ARM);
      held = { level: false, through: hit.point, body: hit.body };
    }
    held.pointer = event.pointerId;
    view.controls.enabled = false;
    canvas.setPointerCapture(event.pointerId);
    move(event);
  }

  function move(event) {
    if (event.pointerId !== held?.pointer) return;
    // A new start, and episodes without drawing, take a body out of the hand.
    if (page.busy || (held.body && !world.pull)) return drop();
    const point = view.project(event.clientX, event.clientY, held.through, held.level);
    if (!point) return;
    if (held.body) world.pull.target = point;
    else page.goal = goalAt(world.about, page.module, within(point.map((x, i) => x + held.offset[i])));
    page.touched();
  }

  function release(event) {
    if (event.pointerId !== held?.pointer) return;
    if (held.body && world.pull) world.release();
    drop();
  }

  function drop() {
    held = null;
    view.controls.enabled = true;
  }

  // Before the camera's own listeners, which would turn it.
  canvas.addEventListener("pointerdown", take, { capture: true });
  canvas.addEventListener("pointermove", move);
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
}
