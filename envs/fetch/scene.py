"""Builds the MuJoCo model: robot.xml, table, floor, n cubes, and the sensors that the observation is read from."""

from pathlib import Path

import mujoco

from envs.fetch import constants as c

ROBOT_XML = Path(__file__).with_name("robot.xml")

_BODY = mujoco.mjtObj.mjOBJ_XBODY
_SITE = mujoco.mjtObj.mjOBJ_SITE
_JOINT = mujoco.mjtObj.mjOBJ_JOINT
_SENSOR = mujoco.mjtSensor


def cube_name(k: int) -> str:
    """Body name of cube k, counted from 1 as in module names."""
    return f"cube{k}"


def build_model(num_cubes: int) -> mujoco.MjModel:
    """Compiles the scene with `num_cubes` cubes (10 + 7n positions, 10 + 6n velocities, 2 finger targets).

    Raises:
      ValueError: if `num_cubes` is negative.
    """
    return build_spec(num_cubes).compile()


def build_spec(num_cubes: int) -> mujoco.MjSpec:
    """The scene of `build_model` before it is compiled."""
    if num_cubes < 0:
        raise ValueError(f"num_cubes must be 0 or more, got {num_cubes}")
    spec = mujoco.MjSpec.from_file(str(ROBOT_XML))
    _add_surroundings(spec)
    for k in range(1, num_cubes + 1):
        _add_cube(spec, k)
    _add_sensors(spec, num_cubes)
    return spec


def _add_surroundings(spec: mujoco.MjSpec) -> None:
    world = spec.worldbody
    world.add_geom(
        name="floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        pos=[*c.FLOOR_CENTRE, 0.0],
        size=[2.0, 2.0, 1.0],
        contype=0,
        conaffinity=c.CUBE_BIT,
        rgba=[0.3, 0.32, 0.35, 1.0],
    )
    world.add_geom(
        name="table",
        type=mujoco.mjtGeom.mjGEOM_BOX,
        pos=[*c.TABLE_CENTRE, c.TABLE_TOP / 2],
        size=[*c.TABLE_HALF_SIZE, c.TABLE_TOP / 2],
        contype=0,
        conaffinity=c.ROBOT_BIT | c.CUBE_BIT,
        rgba=[0.93, 0.93, 0.93, 1.0],
    )
    world.add_light(
        name="sun",
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=[1.0, 0.0, 4.0],
        dir=[0.1, 0.3, -1.0],
        ambient=[0.25, 0.25, 0.25],
        diffuse=[0.8, 0.8, 0.8],
    )
    # Looks at the middle of the table from the front left.
    world.add_camera(name="overview", pos=[2.45, -0.05, 1.15], xyaxes=[0.6, 0.8, 0.0, -0.36, 0.27, 0.893], fovy=45.0)


def _add_cube(spec: mujoco.MjSpec, k: int) -> None:
    start_y = c.TABLE_CENTRE[1] + 0.1 * k  # the environment's reset places cubes itself
    body = spec.worldbody.add_body(name=cube_name(k), pos=[c.TABLE_CENTRE[0], start_y, c.CUBE_REST_HEIGHT])
    joint = body.add_freejoint(name=f"{cube_name(k)}_joint")
    joint.damping[0] = c.CUBE_DAMPING  # the linear term; the others, of higher powers of speed, stay zero
    body.add_geom(
        name=cube_name(k),
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=[c.CUBE_HALF_SIZE] * 3,
        mass=c.CUBE_MASS,
        contype=c.CUBE_BIT,
        conaffinity=c.ROBOT_BIT | c.CUBE_BIT,
        rgba=[*c.CUBE_COLOURS[(k - 1) % len(c.CUBE_COLOURS)], 1.0],
    )


def _add_sensors(spec: mujoco.MjSpec, num_cubes: int) -> None:
    """Sensors in the order that `observation.SensorLayout` names."""

    def add(name: str, kind: mujoco.mjtSensor, objtype: mujoco.mjtObj, objname: str) -> None:
        spec.add_sensor(name=name, type=kind, objtype=objtype, objname=objname)

    add("hand_position", _SENSOR.mjSENS_FRAMEPOS, _BODY, "gripper_link")
    add("hand_quaternion", _SENSOR.mjSENS_FRAMEQUAT, _BODY, "gripper_link")
    add("gripper_position", _SENSOR.mjSENS_FRAMEPOS, _SITE, "grip")
    add("gripper_velocity", _SENSOR.mjSENS_FRAMELINVEL, _SITE, "grip")
    for side in ("right", "left"):
        add(f"{side}_finger_position", _SENSOR.mjSENS_JOINTPOS, _JOINT, f"{side}_finger_joint")
    for side in ("right", "left"):
        add(f"{side}_finger_velocity", _SENSOR.mjSENS_JOINTVEL, _JOINT, f"{side}_finger_joint")
    for k in range(1, num_cubes + 1):
        name = cube_name(k)
        add(f"{name}_position", _SENSOR.mjSENS_FRAMEPOS, _BODY, name)
        add(f"{name}_quaternion", _SENSOR.mjSENS_FRAMEQUAT, _BODY, name)
        add(f"{name}_velocity", _SENSOR.mjSENS_FRAMELINVEL, _BODY, name)
        add(f"{name}_angular_velocity", _SENSOR.mjSENS_FRAMEANGVEL, _BODY, name)
