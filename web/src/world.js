// The arm's world in MuJoCo: what envs/fetch/numpy_arm.py and envs/fetch/observation.py do in Python.

const clip = (x, low, high) => Math.min(Math.max(x, low), high);

export class World {
  /**
   * @param mujoco the WebAssembly module.
   * @param about the world of data.js.
   */
  constructor(mujoco, about) {
    this.mujoco = mujoco;
    this.about = about;
    this.model = mujoco.MjModel.from_xml_string(about.xml);
    this.data = new mujoco.MjData(this.model);
    this.pull = null;
  }

  /** Puts the settled arm, and level cubes at rest at `cubes` ([x, y] in m). */
  reset(cubes) {
    const { mujoco, model, data, about } = this;
    mujoco.mj_resetData(model, data);
    data.qpos.set(about.start.qpos);
    data.qvel.set(about.start.qvel);
    cubes.forEach(([x, y], k) => {
      data.qpos.set([x, y, about.constants.cube_rest_height, 1, 0, 0, 0], about.start.qpos.length + 7 * k);
    });
    mujoco.mj_forward(model, data);
    this.pull = null;
  }

  /** Sets the targets of hand and fingers that an action [4], clipped to [-1, 1], asks for. */
  act(action) {
    const { data, about } = this;
    const { displacement, hand_rotation, finger_range } = about.constants;
    const [x, y, z, fingers] = action.map((a) => clip(a, -1, 1));
    const hand = this.sensor("hand_position");
    const quaternion = this.sensor("hand_quaternion").map((q, i) => q + hand_rotation[i]);
    const length = Math.hypot(...quaternion);
    data.mocap_pos.set([x, y, z].map((a, i) => hand[i] + displacement * a));
    data.mocap_quat.set(quaternion.map((q) => q / length));
    const joints = data.qpos.slice(about.start.qpos.length - 2, about.start.qpos.length);
    data.ctrl.set(joints.map((q) => (about.locked ? 0 : clip(q + fingers, ...finger_range))));
  }

  /** Makes one physics step of 2 ms; a control step is `constants.substeps` of them. */
  substep() {
    if (this.pull) this.#applyPull();
    this.mujoco.mj_step(this.model, this.data);
  }

  /** Makes one control step of 40 ms. */
  step(action) {
    this.act(action);
    for (let k = 0; k < this.about.constants.substeps; k++) this.substep();
  }

  sensor(name) {
    return this.data.sensordata.slice(...this.about.sensors[name]);
  }

  /** The observation [O] in single precision, as the policy was trained on it. */
  observe() {
    const period = Math.fround(this.about.constants.control_period);
    const read = (name) => Array.from(Float32Array.from(this.sensor(name)));
    const scaled = (values) => values.map((v) => v * period);
    const minus = (a, b) => a.map((v, i) => Math.fround(v - b[i]));
    const gripper = read("gripper_position");
    const velocity = read("gripper_velocity");
    const parts = [gripper, scaled(velocity), read("finger_position"), scaled(read("finger_velocity"))];
    for (let k = 1; k <= this.about.cubes; k++) {
      const position = read(`cube${k}_position`);
      parts.push(
        position,
        minus(position, gripper),
        quaternionToEuler(read(`cube${k}_quaternion`)),
        scaled(minus(read(`cube${k}_velocity`), velocity)),
        scaled(read(`cube${k}_angular_velocity`)),
      );
    }
    return Float32Array.from(parts.flat());
  }

  /** Where the body `name` is: its number, position [3] and rotation matrix [9]. */
  body(name) {
    const id = this.mujoco.mj_name2id(this.model, this.mujoco.mjtObj.mjOBJ_BODY.value, name);
    return { id, position: this.data.xpos.slice(3 * id, 3 * id + 3), turn: this.data.xmat.slice(9 * id, 9 * id + 9) };
  }

  /**
   * Pulls a body as with a damped spring until `release`.
   * @param name the body's.
   * @param grip the point that is held, in the body's frame.
   * @param lift the force that carries the body's own weight, N.
   * @param stiffness, damping, limit of the spring, in N/m, N s/m and N.
   */
  hold(name, grip, { stiffness, damping, limit, lift = 0 }) {
    this.pull = { name, grip, stiffness, damping, limit, lift, target: null, before: null };
  }

  release() {
    this.pull = null;
    this.data.xfrc_applied.fill(0);
  }

  #applyPull() {
    const { name, grip, stiffness, damping, limit, lift, target, before } = this.pull;
    if (!target) return;
    const { id, position, turn } = this.body(name);
    const at = position.map(
      (p, i) => p + turn[3 * i] * grip[0] + turn[3 * i + 1] * grip[1] + turn[3 * i + 2] * grip[2],
    );
    const speed = at.map((p, i) => (before ? (p - before[i]) / this.about.constants.physics_step : 0));
    let force = at.map((p, i) => stiffness * (target[i] - p) - damping * speed[i]);
    const scale = Math.min(1, limit / Math.hypot(...force));
    force = force.map((f, i) => f * scale + (i === 2 ? lift : 0));
    const [x, y, z] = at.map((p, i) => p - this.data.xipos[3 * id + i]);
    const torque = [y * force[2] - z * force[1], z * force[0] - x * force[2], x * force[1] - y * force[0]];
    this.data.xfrc_applied.set([...force, ...torque], 6 * id);
    this.pull.before = at;
  }
}

/** Euler angles [3] in rad of a unit quaternion (w, x, y, z), R = Rx(a) Ry(b) Rz(c); a = 0 at the pole. */
export function quaternionToEuler([w, x, y, z]) {
  const r02 = 2 * (x * z + w * y);
  const [r12, r22] = [2 * (y * z - w * x), 1 - 2 * (x * x + y * y)];
  const [r01, r00] = [2 * (x * y - w * z), 1 - 2 * (y * y + z * z)];
  const [r10, r11] = [2 * (x * y + w * z), 1 - 2 * (x * x + z * z)];
  const cosB = Math.hypot(r12, r22);
  const regular = cosB > 1e-6;
  return [
    regular ? Math.atan2(-r12, r22) : 0,
    Math.atan2(r02, cosB),
    regular ? Math.atan2(-r01, r00) : Math.atan2(r10, r11),
  ];
}
