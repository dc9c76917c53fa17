"""The probe's settings: small and fast networks, a short LP window, so that an experiment takes minutes on a CPU."""

SETTINGS = {
    **dict(world="point", preset="cpu", modules=("reach", "push")),
    **dict(num_envs=32, updates_per_cycle=40, batch_size=128, hidden_size=64, hidden_layers=2),
    **dict(actor_lr=3e-3, critic_lr=3e-3, discount=0.95, target_rate=0.05, action_l2=0.1),
    **dict(self_evaluation=0.2, window=30, capacity=8000),
    **dict(episodes=6400, evaluation_interval=320, evaluation_episodes=100),
}
PERTURBATION = dict(modules=("reach", "push", "push2"), perturb_at=6400, perturb_shift=0.3, episodes=12_800)
SCALING = dict(modules=("reach", *(f"push{k}" for k in range(1, 10))), episodes=12_800)
