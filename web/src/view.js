// Draws the world with three.js: the shapes that envs/pictures draws, and the goal.

import * as three from "three";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";

const SKY = 0xe8edf2;
const FLOOR = 0xd6d9dc;
const GOAL_CENTRE = 0.01; // m, radius

// MuJoCo's sizes are halves, and its capsules and cylinders lie along z, where three.js has y.
const geometries = {
  box: ([x, y, z]) => new three.BoxGeometry(2 * x, 2 * y, 2 * z),
  sphere: ([radius]) => new three.SphereGeometry(radius, 32, 16),
  capsule: ([radius, half]) => new three.CapsuleGeometry(radius, 2 * half, 8, 24).rotateX(Math.PI / 2),
  cylinder: ([radius, half]) => new three.CylinderGeometry(radius, radius, 2 * half, 48).rotateX(Math.PI / 2),
  plane: ([x, y]) => new three.PlaneGeometry(2 * x, 2 * y),
};

export class View {
  constructor(canvas, world) {
    this.world = world;
    this.renderer = new three.WebGLRenderer({ canvas, antialias: true });
    this.renderer.shadowMap.enabled = true;
    this.scene = new three.Scene();
    this.scene.background = new three.Color(SKY);
    this.scene.fog = new three.Fog(SKY, 3, 9);
    this.bodies = new Map();
    this.#aim(canvas);
    this.#light();
    for (const shape of world.about.shapes) this.#add(shape);
    this.#addGoal();
  }

  /** Shows the world, and a goal: its point [3], colour, whether it is reached, and whether it has a foot to drag. */
  draw(goal) {
    for (const [name, group] of this.bodies) {
      const { id, position } = this.world.body(name);
      const [w, x, y, z] = this.world.data.xquat.slice(4 * id, 4 * id + 4);
      group.position.set(...position);
      group.quaternion.set(x, y, z, w);
    }
    const { ball, centre, line, foot } = this.goal;
    const top = this.world.about.constants.table_top;
    const [x, y, z] = goal.point;
    for (const part of [ball, centre]) part.position.set(x, y, z);
    line.position.set(x, y, (z + top) / 2);
    line.scale.z = Math.max(z - top, 1e-6);
    foot.position.set(x, y, top + 0.0008);
    line.visible = foot.visible = goal.inTheAir;
    for (const part of Object.values(this.goal)) part.material.color.set(goal.colour);
    ball.material.opacity = goal.solved ? 0.5 : 0.25;
    this.#resize();
    this.controls.update();
    this.renderer.render(this.scene, this.camera);
  }

  /** What lies under a place of the screen: {what, body, point [3], local [3]}, or null.
   * `what` is goal, foot or body, `local` the point in the body's frame. */
  pick(x, y) {
    const found = this.#ray(x, y).intersectObjects(this.scene.children, true);
    const hit = found.find(({ object }) => object.visible && object.userData.what);
    if (!hit) return null;
    const { what, body } = hit.object.userData;
    const local = hit.object.parent.worldToLocal(hit.point.clone());
    return { what, body, point: hit.point.toArray(), local: local.toArray() };
  }

  /** The point [3] of a plane under a place of the screen: level at `through`, or upright and facing the camera. */
  project(x, y, through, level) {
    const normal = level ? new three.Vector3(0, 0, 1) : this.camera.getWorldDirection(new three.Vector3());
    if (!level) normal.setZ(0).normalize();
    const plane = new three.Plane().setFromNormalAndCoplanarPoint(normal, new three.Vector3(...through));
    return this.#ray(x, y).ray.intersectPlane(plane, new three.Vector3())?.toArray() ?? null;
  }

  /** The place of the screen where a point [3] is seen. */
  screen(point) {
    const box = this.renderer.domElement.getBoundingClientRect();
    const { x, y } = new three.Vector3(...point).project(this.camera);
    return [box.left + ((1 + x) / 2) * box.width, box.top + ((1 - y) / 2) * box.height];
  }

  #ray(x, y) {
    const box = this.renderer.domElement.getBoundingClientRect();
    const place = new three.Vector2((2 * (x - box.left)) / box.width - 1, 1 - (2 * (y - box.top)) / box.height);
    const caster = new three.Raycaster();
    caster.setFromCamera(place, this.camera);
    return caster;
  }

  #aim(canvas) {
    const { target, distance, azimuth, elevation } = this.world.about.camera;
    this.camera = new three.PerspectiveCamera(45, 1, 0.02, 30);
    this.camera.up.set(0, 0, 1);
    // MuJoCo's angles say which way the camera looks.
    const back = [
      -Math.cos(azimuth) * Math.cos(elevation),
      -Math.sin(azimuth) * Math.cos(elevation),
      -Math.sin(elevation),
    ];
    this.camera.position.set(...target.map((x, i) => x + distance * back[i]));
    this.controls = new OrbitControls(this.camera, canvas);
    this.controls.target.set(...target);
    this.controls.minDistance = 0.4;
    this.controls.maxDistance = 4;
    this.controls.maxPolarAngle = Math.PI / 2;
  }

  #light() {
    this.scene.add(new three.HemisphereLight(0xffffff, 0xb0b4b8, 1.9));
    const sun = new three.DirectionalLight(0xffffff, 1.7);
    const [x, y, z] = this.world.about.camera.target;
    sun.position.set(x + 0.6, y - 0.6, z + 2);
    sun.target.position.set(x, y, z);
    sun.castShadow = true;
    sun.shadow.mapSize.set(1024, 1024);
    Object.assign(sun.shadow.camera, { left: -1, right: 1, top: 1, bottom: -1, near: 0.5, far: 4 });
    sun.shadow.bias = -0.0005;
    this.scene.add(sun, sun.target);
  }

  #add({ body, kind, size, position, quaternion, colour }) {
    if (!this.bodies.has(body)) {
      this.bodies.set(body, new three.Group());
      this.scene.add(this.bodies.get(body));
    }
    const look = kind === "plane" ? new three.Color(FLOOR) : new three.Color().setRGB(...colour.slice(0, 3), "srgb");
    const mesh = new three.Mesh(
      geometries[kind](size),
      new three.MeshStandardMaterial({ color: look, roughness: 0.6 }),
    );
    const [w, x, y, z] = quaternion;
    mesh.position.set(...position);
    mesh.quaternion.set(x, y, z, w);
    mesh.castShadow = kind !== "plane";
    mesh.receiveShadow = true;
    if (body !== "world") mesh.userData = { what: "body", body };
    this.bodies.get(body).add(mesh);
  }

  #addGoal() {
    const make = (kind, size, opacity, what) => {
      const material = new three.MeshBasicMaterial({ transparent: true, opacity, depthWrite: opacity === 1 });
      const mesh = new three.Mesh(geometries[kind](size), material);
      if (what) mesh.userData = { what };
      this.scene.add(mesh);
      return mesh;
    };
    this.goal = {
      ball: make("sphere", [this.world.about.goal.tolerance], 0.25, "goal"),
      centre: make("sphere", [GOAL_CENTRE], 1),
      line: make("cylinder", [0.0015, 0.5], 0.6),
      foot: make("cylinder", [0.03, 0.0005], 0.45, "foot"),
    };
  }

  #resize() {
    const { clientWidth: width, clientHeight: height } = this.renderer.domElement;
    const ratio = Math.min(window.devicePixelRatio, 2);
    const size = this.renderer.getSize(new three.Vector2());
    if (size.x === width && size.y === height && this.renderer.getPixelRatio() === ratio) return;
    this.renderer.setPixelRatio(ratio);
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / height;
    // A tall screen still shows the table's width.
    this.camera.fov = this.camera.aspect < 1 ? 58 : 45;
    this.camera.updateProjectionMatrix();
  }
}
