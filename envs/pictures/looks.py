"""Gives the arm's world its looks in pictures: table with legs, floor, light, and the Fetch's real shapes if installed.

Only what is seen changes: bodies and joints are the scene's, so a model made here takes the qpos of `scene`'s. The real
shapes are the meshes of the Fetch model in gymnasium-robotics, read from its folder when it is installed.
"""

import importlib.util
from pathlib import Path

import mujoco

from envs.errors import ArgumentError
from envs.fetch import constants as c
from envs.fetch import scene

LOOKS = ("auto", "plain", "mesh")
_GEOM = mujoco.mjtGeom
_HIDDEN_GROUP = 4  # MuJoCo draws groups 0 to 2
_PREFIX = "robot0:"  # of every name in the official model
_WOOD, _METAL = (0.80, 0.67, 0.50, 1.0), (0.30, 0.31, 0.34, 1.0)
_WHITE = (0.93, 0.93, 0.94, 1.0)
_UNTOUCHED = dict(contype=0, conaffinity=0)  # what is seen only
_SLAB, _LEG = 0.015, 0.025  # m, half the table top's thickness, half a leg's


def assets() -> Path | None:
    """Returns the folder with gymnasium-robotics' models and meshes, or None when that is not installed."""
    found = importlib.util.find_spec("gymnasium_robotics")
    for place in (found.submodule_search_locations or ()) if found else ():
        folder = Path(place) / "envs" / "assets"
        if (folder / "fetch" / "pick_and_place.xml").is_file() and (folder / "stls" / "fetch").is_dir():
            return folder
    return None


def check(looks: str) -> None:
    """Refuses looks that cannot be had here.

    Raises:
      ArgumentError: for unknown ones, and for mesh where gymnasium-robotics is missing.
    """
    if looks not in LOOKS:
        raise ArgumentError("looks", f"must be one of {', '.join(LOOKS)}", looks)
    if looks == "mesh" and assets() is None:
        message = "needs gymnasium-robotics (pip install gymnasium-robotics); plain works without it"
        raise ArgumentError("looks", message, looks)


def build_model(num_cubes: int, looks: str = "auto") -> mujoco.MjModel:
    """Builds the scene to be looked at; its qpos are those of `scene.build_model`.

    Args:
      looks: mesh, plain, or auto: mesh when gymnasium-robotics is installed.
    Raises:
      ArgumentError: see `check`.
    """
    check(looks)
    folder = assets() if looks != "plain" else None
    spec = scene.build_spec(num_cubes)
    _light(spec)
    _furniture(spec)
    _materials(spec)
    spec.geom("mocap_look").group = _HIDDEN_GROUP
    if folder is None:
        _plain(spec)
    else:
        _wear_meshes(spec, folder)
    return spec.compile()


def _light(spec: mujoco.MjSpec) -> None:
    """A bright room: soft light from all sides, and one lamp that casts shadows."""
    kind, fill = mujoco.mjtTexture.mjTEXTURE_SKYBOX, mujoco.mjtBuiltin.mjBUILTIN_GRADIENT
    colours = dict(rgb1=[0.75, 0.82, 0.90], rgb2=[0.97, 0.97, 0.97])
    spec.add_texture(name="sky", type=kind, builtin=fill, width=256, height=256, **colours)
    head = spec.visual.headlight
    head.ambient, head.diffuse, head.specular = [0.36] * 3, [0.30] * 3, [0.05] * 3
    spec.visual.quality.shadowsize, spec.visual.quality.offsamples = 2048, 4
    spec.stat.extent, spec.stat.center = 1.5, [1.3, 0.75, 0.5]  # else the floor's size would make shadows coarse
    spec.visual.map.shadowclip, spec.visual.map.znear, spec.visual.map.zfar = 1.0, 0.02, 30.0
    lamp = spec.light("sun")
    lamp.type = mujoco.mjtLightType.mjLIGHT_DIRECTIONAL
    lamp.pos, lamp.dir = [1.9, 0.2, 3.0], [-0.28, 0.30, -1.0]
    lamp.ambient, lamp.diffuse, lamp.specular = [0.0] * 3, [0.55] * 3, [0.2] * 3
    lamp.castshadow = True


def _furniture(spec: mujoco.MjSpec) -> None:
    """The solid block of the scene's table becomes a top on four legs."""
    spec.geom("table").group = _HIDDEN_GROUP
    (x, y), (half_x, half_y) = c.TABLE_CENTRE, c.TABLE_HALF_SIZE

    def part(name: str, pos: list[float], size: list[float], material: str) -> None:
        spec.worldbody.add_geom(name=name, type=_GEOM.mjGEOM_BOX, pos=pos, size=size, material=material, **_UNTOUCHED)

    part("table_top", [x, y, c.TABLE_TOP - _SLAB], [half_x, half_y, _SLAB], "wood")
    height = (c.TABLE_TOP - 2 * _SLAB) / 2
    for number, (side_x, side_y) in enumerate(((-1, -1), (-1, 1), (1, -1), (1, 1)), 1):
        place = [x + side_x * (half_x - 2 * _LEG), y + side_y * (half_y - 2 * _LEG), height]
        part(f"table_leg{number}", place, [_LEG, _LEG, height], "metal")


def _materials(spec: mujoco.MjSpec) -> None:
    kind, fill = mujoco.mjtTexture.mjTEXTURE_2D, mujoco.mjtBuiltin.mjBUILTIN_CHECKER
    colours = dict(rgb1=[0.86, 0.87, 0.88], rgb2=[0.81, 0.82, 0.84])
    spec.add_texture(name="tiles", type=kind, builtin=fill, width=512, height=512, **colours)
    floor = spec.add_material(name="tiles", texrepeat=[4, 4], texuniform=True, specular=0.0, shininess=0.0)
    floor.textures[int(mujoco.mjtTextureRole.mjTEXROLE_RGB)] = "tiles"
    spec.add_material(name="wood", rgba=_WOOD, specular=0.1, shininess=0.2)
    spec.add_material(name="metal", rgba=_METAL, specular=0.3, shininess=0.4)
    spec.add_material(name="shell", rgba=_WHITE, specular=0.4, shininess=0.5)
    ground = spec.geom("floor")
    ground.material, ground.rgba, ground.size = "tiles", [1, 1, 1, 1], [20, 20, 1]


def _plain(spec: mujoco.MjSpec) -> None:
    """Every other part of the arm a little thicker: equal ones flicker where they meet."""
    for geom in spec.geoms:
        if geom.classname is not None and geom.classname.name == "looks" and geom.type == _GEOM.mjGEOM_CAPSULE:
            blue = geom.rgba[2] > 2 * geom.rgba[0]
            geom.size[0] += 0.004 if blue else 0.0


def _wear_meshes(spec: mujoco.MjSpec, folder: Path) -> None:
    """Puts the official Fetch's shapes on the bodies of the same names, and hides ours (the fingers are the same)."""
    for geom in spec.geoms:
        if geom.classname is not None and geom.classname.name == "looks" or geom.name == "hand":
            geom.group = _HIDDEN_GROUP
    official = mujoco.MjSpec.from_file(str(folder / "fetch" / "pick_and_place.xml"))
    files = {mesh.name: mesh.file for mesh in official.meshes}
    for body in official.bodies:
        for geom in body.geoms:
            if geom.meshname:
                mesh = geom.meshname.removeprefix(_PREFIX)
                spec.add_mesh(name=mesh, file=str(folder / "stls" / "fetch" / files[geom.meshname]))
                shape = dict(type=_GEOM.mjGEOM_MESH, meshname=mesh, pos=geom.pos, quat=geom.quat, group=2, mass=0)
                look = dict(name=f"{mesh}_mesh", material="shell", rgba=geom.rgba)
                _host(spec, body).add_geom(**shape, **look, **_UNTOUCHED)


def _host(spec: mujoco.MjSpec, body: mujoco.MjsBody) -> mujoco.MjsBody:
    """Our body of this name; the head, the laser and such, which never move, are added as bodies without a joint."""
    name = body.name.removeprefix(_PREFIX)
    ours = spec.body(name)
    if ours is not None:
        return ours
    return _host(spec, body.parent).add_body(name=name, pos=body.pos, quat=body.quat)
