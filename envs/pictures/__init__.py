"""Pictures of the worlds: how they look, offscreen rendering, and a window to watch in.

Drawing needs MuJoCo's renderer and is imported only when something is drawn.
"""
