"""The probe's settings: small and fast networks, a short LP window, so that an experiment takes minutes on a CPU.

They master reach within 500 episodes and both objects within 6,000 without distractors, and were chosen on seeds from
1000 on, so that nothing of what is reported on seeds 0 to 9 was looked at before.
"""

SETTINGS = {
    **dict(world="point", preset="cpu", modules=("reach", "drag", "drag2")),
    **dict(num_envs=32, updates_per_cycle=80, batch_size=128, hidden_size=128, hidden_layers=2),
    **dict(actor_lr=3e-3, critic_lr=3e-3, target_rate=0.03),
    **dict(self_evaluation=0.3, window=30, capacity=4000),
    **dict(episodes=4800, evaluation_interval=320, evaluation_episodes=99),
}
PERTURBATION = dict(perturb_at=6400, perturb_shift=0.3, episodes=12_800)
SCALING = dict(modules=("reach", *(f"drag{k}" for k in range(1, 10))), episodes=9600)
