"""Numbers of the Modular Goal Fetch Arm, each with its source.

Lengths in metres, times in seconds, masses in kilograms. "official" is gymnasium-robotics 1.4.2 (FetchPickAndPlace-v4).
The arm's own numbers stand in robot.xml.
"""

from envs.physics.protocol import SUBSTEPS

# Time: official, and the CURIOUS paper's 25 Hz control.
PHYSICS_STEP = 0.002
CONTROL_PERIOD = PHYSICS_STEP * SUBSTEPS
EPISODE_LENGTH = 50
OBS_BOUND = 10.0  # an episode with any |observation| beyond this (m, rad) has left the workspace

# Action: official `_set_action`.
ACTION_SIZE = 4
DISPLACEMENT = 0.05  # gripper displacement asked for by a full action
ACTION_MEANING = (
    *(f"moves the gripper along {axis}: 1 asks for {DISPLACEMENT} m from where it is" for axis in "xyz"),
    "moves both fingers: positive opens",
)
HAND_ROTATION = (1.0, 0.0, 1.0, 0.0)  # added to the hand's quaternion; fingers point down
FINGER_RANGE = (0.0, 0.2)  # range of the finger targets (the joints themselves stop at 0.05)

# Official set-up: the mocap body is put at the grip site plus this, and the arm settles for 10 control steps.
SETTLE_OFFSETS = {
    "default": (-0.498, 0.005, -0.231),  # as in FetchPickAndPlace-v4
    "fetch-reach": (-0.498, 0.005, -0.231),  # as in FetchReach-v4
    "fetch-push": (-0.498, 0.005, -0.431),  # as in FetchPush-v4: the gripper just above the table
}
LOCKED_STARTS = ("fetch-reach", "fetch-push")  # from which the fingers stay shut, whatever the action says
SETTLE_CONTROL_STEPS = 10

# Table: top and cube sizes are official; half-sizes and centre are ours, so that it reaches under the distractors.
TABLE_TOP = 0.4
TABLE_CENTRE = (1.65, 0.75)
TABLE_HALF_SIZE = (0.6, 0.45)
FLOOR_CENTRE = (0.8, 0.75)

# Cubes: official.
CUBE_HALF_SIZE = 0.025
CUBE_MASS = 2.0
CUBE_DAMPING = 0.01  # of the free joint
CUBE_COLOURS = ((0.85, 0.2, 0.15), (0.95, 0.75, 0.1), (0.2, 0.6, 0.25), (0.55, 0.3, 0.7))  # red, yellow, green, purple
# Centre of a cube in equilibrium with the soft table contact, where weight and contact force cancel (test_fetch_scene).
CUBE_REST_HEIGHT = 0.42489225

# Start: official `_reset_sim`; spacing between cubes from the authors' CURIOUS program.
CUBE_BOX = 0.15  # cubes lie within this of the gripper's x and y
CUBE_SPACING = 0.1  # from the gripper and from each other

# Distractors: the paper (out of reach, moving at random); ranges and step from the authors' CURIOUS program.
DISTRACTOR_X = (1.8, 1.9)
DISTRACTOR_Y = (0.7, 1.0)
DISTRACTOR_STEP = 0.005  # standard deviation per control step

# Collision bits (see robot.xml).
ROBOT_BIT = 1
CUBE_BIT = 2
