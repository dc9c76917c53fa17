"""The page in a browser: it moves as C MuJoCo does, acts as the policy does under JAX, and solves its modules.

Built by `make web` and opened in headless Chromium, with web/drive.js.
"""

import fcntl
import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import jax
import numpy as np
import pytest

import curious_jax
from envs.fetch import numpy_arm

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DESKTOP, PHONE = (1280, 800), (390, 844)
FIRST_PICTURE = 5.0  # s
POLICY = "pretrained/four-modules"


@pytest.fixture(scope="session")
def dist(tmp_path_factory):
    """A folder with the page as `make web` builds it."""
    for tool in ("node", "npm", "make"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: the page cannot be built")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: the page cannot be opened")
    venv = Path(sys.executable).parents[1]
    folder = tmp_path_factory.mktemp("web") / "dist"
    with (WEB / "package.json").open() as lock:  # workers of pytest-xdist build one after the other
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ["make", "-o", f"{venv}/.installed", f"VENV={venv}", "web"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if "npm error network" in done.stderr:
            pytest.skip("npm does not reach its registry, and web/node_modules is not there")
        assert done.returncode == 0, done.stdout + done.stderr
        shutil.copytree(WEB / "dist", folder)
    return folder


@pytest.fixture(scope="session")
def served(dist):
    """The page's address from `python -m http.server`."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(dist)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/index.html"
    server.shutdown()


def drive(url, *steps, size=DESKTOP, frame=False):
    """Opens the page and takes the steps of web/drive.js; returns the values, after seeing that nothing went wrong."""
    asked = {"chromium": CHROMIUM, "width": size[0], "height": size[1], "steps": steps, "frame": frame}
    command = ["node", "drive.js", url]
    done = subprocess.run(command, cwd=WEB, input=json.dumps(asked), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["errors"] == []
    return answer["values"]


def call(function, argument=None):
    return {"evaluate": function, "argument": argument}


def element(name, what):
    return call(f"() => document.getElementById('{name}').{what}")


@pytest.fixture(scope="session")
def policy():
    return curious_jax.load_policy(ROOT / POLICY, physics="c")


def test_the_sources_are_formatted_and_linted(dist):
    done = subprocess.run(["npm", "run", "lint"], cwd=WEB, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_lock_file_names_no_other_registry():
    text = (WEB / "package-lock.json").read_text()
    assert "resolved" not in text or set(text.split('"resolved": "')[1:]) <= {"https://registry.npmjs.org/"}


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("source", ["http", "file"])
def test_the_page_opens_in_time_and_without_errors(source, size, dist, served, tmp_path):
    picture = tmp_path / "page.png"
    url = served if source == "http" else (dist / "index.html").as_uri()
    first, width, loading = drive(
        url,
        {"wait": 500},
        {"screenshot": str(picture)},
        call("() => curious.page.firstPicture"),
        call("() => document.documentElement.scrollWidth"),
        call("() => Boolean(document.getElementById('loading'))"),
        size=size,
    )
    assert first < 1e3 * FIRST_PICTURE
    assert width <= size[0] and not loading
    assert picture.stat().st_size > 20_000  # an empty page has a few thousand bytes


TRACE = """(runs) => runs.map(({ cubes, actions }) => {
  const world = new curious.World(curious.mujoco, curious.page.world.about);
  world.reset(cubes);
  return actions.map((action) => {
    world.step(action);
    return [[...world.data.qpos], [...world.data.qvel], [...world.observe()]];
  });
})"""


def test_the_arm_moves_as_in_c_mujoco(served, policy):
    """Three runs of 50 steps in the air and three that press on the table and push cubes."""
    arm, draw = numpy_arm.NumpyFetch(policy.env), np.random.default_rng(0)
    runs, expected = [], []
    for lift in (0.3, 0.3, 0.3, -0.4, -0.4, -0.4):
        cubes = numpy_arm.place_cubes(draw, 2, policy.env.start.gripper[:2])
        actions = np.clip(draw.uniform(-1, 1, (50, 4)) + [0, 0, lift, 0], -1, 1)
        arm.reset(cubes)
        for action in actions:
            assert arm.step(action)
            expected.append((arm.data.qpos.copy(), arm.data.qvel.copy(), arm.observe()))
        runs.append({"cubes": cubes.tolist(), "actions": actions.tolist()})
    (found,) = drive(served, call(TRACE, runs))
    for name, tolerance, mine, theirs in zip(
        ("qpos", "qvel", "obs"), (1e-4, 1e-3, 1e-4), zip(*expected), zip(*sum(found, [])), strict=True
    ):
        error = np.abs(np.array(mine) - np.array(theirs)).max()
        print(f"{name}: {error:.1e}")
        assert error < tolerance, name


FIRST = """(starts) => starts.map(({ cubes, goal, module }) => {
  const { page, episodes } = curious;
  page.world.reset(cubes);
  const { obs, input } = episodes.look(page.world, page.policy, module, goal);
  return [[...obs], curious.act(page.policy, input)];
})"""


def test_the_first_action_is_that_of_jax(served, policy):
    starts, expected = [], []
    for number, name in enumerate(policy.modules * 5):
        key_reset, key_goal = jax.random.split(jax.random.key(number))
        obs = np.asarray(policy.env.reset(key_reset).obs)
        module = number % len(policy.modules)
        goal = np.asarray(policy.env.modules.modules[module].sample_goal(key_goal))
        whole = np.zeros(policy.env.modules.goal_size, np.float32)
        whole[policy.env.modules.slots[module]] = goal
        cubes = [obs[policy.env.layout.cube_position(k)][:2].tolist() for k in (1, 2)]
        starts.append({"cubes": cubes, "goal": whole.tolist(), "module": module})
        expected.append((obs, policy.act(obs, name, goal)))
    (found,) = drive(served, call(FIRST, starts))
    for name, mine, theirs in zip(("obs", "action"), zip(*expected), zip(*found), strict=True):
        error = np.abs(np.array(mine) - np.array(theirs)).max()
        print(f"{name}: {error:.1e}")
        assert error < 1e-5, name


MEASURE = """async ([module, count]) => {
  const { page, episodes } = curious;
  page.busy = true;
  return episodes.measure(page.world, page.policy, module, count, 1000 + module);
}"""


@pytest.mark.parametrize("module", range(4), ids=["reach", "push", "pnp", "stack"])
def test_each_module_is_solved(module, served, episodes=30):
    (successes,) = drive(served, call(MEASURE, [module, episodes]))
    print(f"{successes} of {episodes}")
    assert successes >= 0.9 * episodes


def test_control_keeps_25_hz_while_it_is_drawn(served):
    if os.getloadavg()[0] > os.cpu_count() + 1:
        pytest.skip("other programs keep the cores busy")
    looks = [step for _ in range(3) for step in ({"wait": 2500}, call("() => curious.page.rate"))]
    rates = drive(served, *looks, size=PHONE)
    print(rates)
    assert min(abs(rate - 25) for rate in rates) < 0.5


INTERRUPT = """async ([count, what]) => {
  const { page } = curious;
  const [button, counted] = ["measure", "measured"].map((name) => document.getElementById(name));
  button.click();
  while (!counted.textContent.endsWith(` of ${count} solved`)) await new Promise((resume) => setTimeout(resume));
  const slider = document.getElementById("stage");
  const begun = [page.busy, button.textContent];
  if (what === "stop") button.click();
  if (what === "module") document.querySelectorAll("#modules button")[1].click();
  if (what === "restart") document.getElementById("restart").click();
  if (what === "stage") {
    slider.value = 0;
    slider.dispatchEvent(new Event("input"));
  }
  await new Promise((resume) => setTimeout(resume, 500));
  return [...begun, counted.textContent, button.textContent, page.module, page.stage, page.busy];
}"""


def test_a_measurement_runs_to_its_end_or_until_the_user_wants_something_else(served):
    """It never goes on below another module or stage, and one that is stopped keeps what it has counted."""
    (*_, stop, module, stage, restart, whole) = drive(
        served,
        call("() => curious.page.policies.unshift({ ...curious.page.policy }) && curious.connectStages(curious.page)"),
        *(call(INTERRUPT, [2, what]) for what in ("stop", "module", "stage", "restart")),
        call(INTERRUPT, [30, "nothing"]),
    )
    runs, free = [True, "Stop measuring"], "Measure 30 episodes"
    assert stop[:2] == module[:2] == stage[:2] == restart[:2] == runs
    assert [stop[2].endswith(" of 2 solved"), *stop[3:]] == [True, free, 0, 1, False]
    assert module[2:] == ["", free, 1, 1, False]
    assert stage[2:] == ["", free, 1, 0, False]
    assert [restart[2].endswith(" of 2 solved"), *restart[3:]] == [True, free, 1, 0, False]
    assert [whole[2].endswith(" of 30 solved"), *whole[3:]] == [True, free, 1, 0, False]


def test_the_help_names_the_cubes_by_their_colours(served):
    (helps,) = drive(
        served,
        call("""() => {
          const { modules, cube_names } = curious.page.world.about;
          const help = () => [...document.querySelectorAll("#modules button")].map((button) => {
            button.click();
            return document.getElementById("help").textContent;
          });
          const own = help();
          cube_names.push("green cube");
          modules[1].cube = 2;
          modules[2].cube = 3;
          Object.assign(modules[3], { cube: 3, base: 1 });
          return [own, help()];
        }"""),
    )
    reach = "The gripper goes to the ball."
    assert helps[0] == [
        reach,
        "The red cube goes to the ball on the table.",
        "The red cube is carried to the ball: pick and place.",
        "The red cube goes on the yellow cube, and the hand away.",
    ]
    assert helps[1] == [
        reach,
        "The yellow cube goes to the ball on the table.",
        "The green cube is carried to the ball: pick and place.",
        "The green cube goes on the red cube, and the hand away.",
    ]


PREPARE = """() => {
  const { page } = curious;
  page.paused = true;  // time goes by when the test says so
  document.getElementById("auto").checked = false;
  document.querySelector("#modules button").click();  // reach
  page.world.reset([[1.25, 0.66], [1.42, 0.84]]);
  page.goal = [1.3, 0.75, 0.75, 0, 0, 0, 0, 0, 0, 0, 0];
}"""
LATER = """async (what) => {
  const { page } = curious;
  for (let t = 0; t < 50; t++) page.advance(0.04);
  for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
  return what === "goal" ? page.goal.slice(0, 3) :
    [...(what === "hand" ? page.world.sensor("gripper_position") : page.world.body(what).position)];
}"""


def test_the_user_drags_goal_cubes_and_arm(served):
    """Two seconds go by before, during and after each drag."""

    def drag(what, place, by):
        place = f"() => curious.page.view.screen({place})"
        return call(LATER, what), {"from": place, "by": by, **call(LATER, what)}, call(LATER, what)

    values = drive(
        served,
        call(PREPARE),
        *drag("cube2", "curious.page.world.body('cube2').position", [60, 10]),
        *drag("hand", "curious.page.world.body('wrist_flex_link').position", [0, -120]),
        *drag("goal", "curious.page.point", [30, -40]),
    )
    cube, hand, goal = np.array(values[1:]).reshape(3, 3, 3)
    print(cube, hand, goal, sep="\n")
    assert np.linalg.norm((cube[2] - cube[0])[:2]) > 0.03 and abs(cube[2][2] - cube[0][2]) < 1e-3
    assert np.linalg.norm(hand[1] - hand[0]) > 0.02 and np.linalg.norm(hand[2] - hand[0]) < 0.02
    assert goal[1][2] > goal[0][2] + 0.02 and (goal[2] == goal[1]).all()


HELD = """(what) => {
  const { page } = curious;
  const canvas = document.getElementById("scene");
  const [clientX, clientY] = page.view.screen(page.world.body("cube2").position);
  const send = (type, finger) => canvas.dispatchEvent(new PointerEvent(type, { clientX, clientY, ...finger }));
  const [first, second] = [{ pointerId: window.firstPointer, isPrimary: true }, { pointerId: 77, isPrimary: false }];
  const holds = () => [Boolean(page.world.pull), page.view.controls.enabled];
  const before = [...page.world.pull.target];
  for (const type of ["pointerdown", "pointermove", "pointerup"]) send(type, second);
  const seen = [holds(), page.world.pull.target.every((x, i) => x === before[i])];
  if (what === "start") document.getElementById("restart").click();
  else page.measure();
  send("pointermove", first);
  seen.push(holds());
  if (what === "measure") {
    send("pointerdown", first);
    send("pointermove", first);
    seen.push(holds());
    send("pointerup", first);
    page.stopMeasuring();
  }
  return seen;
}"""


def test_what_is_held_is_dropped_by_its_finger_or_a_new_start_alone(served):
    """A second finger does nothing to it; a new start and a measurement take it away, and no move fails."""
    grip = {"from": "() => curious.page.view.screen(curious.page.world.body('cube2').position)", "by": [60, 10]}
    values = drive(
        served,
        call("""() => {
          const note = (event) => (window.firstPointer ??= event.pointerId);
          document.getElementById("scene").addEventListener("pointerdown", note);
        }"""),
        call(PREPARE),
        call(LATER, "cube2"),
        {**grip, **call(HELD, "start")},
        call(PREPARE),
        call(LATER, "cube2"),
        {**grip, **call(HELD, "measure")},
    )
    held, gone = [True, False], [False, True]
    assert values[3] == [held, True, gone]
    assert values[6] == [held, True, gone, gone]


def test_several_policies_are_stages_of_a_slider(served):
    """One policy has no slider; with two, moving it changes the policy that acts."""
    hidden, shown, before, after = drive(
        served,
        element("stage", "hidden"),
        call("""() => {
          const { page, connectStages } = curious;
          page.policies.unshift({ ...page.policy, episodes: 1000 });
          connectStages(page);
          return document.getElementById("stage").hidden;
        }"""),
        element("episodes", "textContent"),
        call("""() => {
          const slider = document.getElementById("stage");
          slider.value = 0;
          slider.dispatchEvent(new Event("input"));
          return document.getElementById("episodes").textContent;
        }"""),
    )
    assert hidden and not shown
    assert (before, after) == ("110,080 episodes of training", "1,000 episodes of training")


def test_it_moves_in_a_cell_of_a_notebook(dist, policy, tmp_path):
    """The page without its policies lies in the package; the cell's output has it whole, with the user's own."""
    cell, picture = tmp_path / "cell.html", tmp_path / "cell.png"
    cell.write_text(f"<!doctype html><body>{curious_jax.show_policy(policy)._repr_html_()}", encoding="utf-8")
    title, episodes, before, after = drive(
        cell.as_uri(),
        element("title", "textContent"),
        call("() => curious.page.policy.episodes"),
        call("() => curious.page.world.data.time"),
        {"wait": 1500},
        call("() => curious.page.world.data.time"),
        {"screenshot": str(picture)},
        frame=True,
    )
    assert title == "CURIOUS: one policy, 4 modules" and episodes == policy.episodes
    assert after != before  # it moves, or a new start came
    assert picture.stat().st_size > 20_000
