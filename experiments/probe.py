"""The probe's settings: small and fast networks, a short LP window, so that an experiment takes minutes on a CPU.

They were chosen on seeds from 1000 on, so that nothing of what is reported on seeds 0 to 9 was looked at before. The
store keeps every episode. A sensor that fails is off by one tolerance, as in the paper.

Objects are pushed here, not dragged: one that clings is moved by whoever starts near it, so most episodes that are
relevant to drag show no fetching, and with seven distractors no setting that was tried got beyond those near starts.
With guidance, which every side of every comparison but HER's has, push gets beyond them.
"""

SETTINGS = {
    **dict(world="point", preset="cpu", modules=("reach", "push"), guide=0.5),
    **dict(num_envs=32, updates_per_cycle=60, batch_size=128, hidden_size=64, hidden_layers=2),
    **dict(actor_lr=2e-3, critic_lr=2e-3, target_rate=0.1, discount=0.9, action_l2=0.1),
    **dict(self_evaluation=0.3, window=30, expert_epoch=320),
    **dict(episodes=40_000, capacity=40_000, evaluation_interval=640, evaluation_episodes=192),
}
PERTURBATION = {
    **dict(modules=("reach", "push", "push2"), episodes=51_200, capacity=51_200),
    **dict(perturb_at=32_000, perturb_cube=2, perturb_shift=0.1, evaluation_episodes=384),
}
LEARNING_PROGRESS = dict(distractors=7, episodes=24_000, capacity=24_000)
SCALING = dict(modules=("reach", *(f"push{k}" for k in range(1, 10))), evaluation_episodes=200)
CURRICULA = {
    **dict(episodes=16_000, capacity=16_000, cvar_goals=100),
    **dict(perturb_at=7_680, perturb_cube=1, perturb_shift=0.1),
}
