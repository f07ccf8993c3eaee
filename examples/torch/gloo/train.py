# Rank 0 of a job: it trains a linear model by PyTorch on batches that ranks in Go send, and broadcasts the weights to them.
import hashlib
import torch
import torch.distributed as dist

FEATURES, BATCH, STEPS, RATE = 8, 32, 60, 0.1

dist.init_process_group("gloo", init_method="env://")
size = dist.get_world_size()
print(f"rank 0 is PyTorch {torch.__version__} of {size} ranks", flush=True)  # one piece: the ranks share an output

model = torch.nn.Linear(FEATURES, 1)
batch = torch.empty(BATCH, FEATURES + 1)  # features, and the value to learn
for step in range(STEPS):
    dist.recv(batch, src=1 + step % (size - 1), tag=step)
    loss = torch.nn.functional.mse_loss(model(batch[:, :FEATURES]), batch[:, FEATURES:])
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= RATE * p.grad
    if step % 20 == 0 or step == STEPS - 1:
        print(f"step {step}: loss {loss.item():.6f}", flush=True)

for name, tensor in model.state_dict().items():
    dist.broadcast(tensor, src=0)
    own = torch.tensor(list(hashlib.sha256(tensor.numpy().tobytes()).digest()), dtype=torch.uint8)
    sums = [torch.empty_like(own) for _ in range(size)]
    dist.all_gather(sums, own)
    print(f"{name} equal on all ranks: {all(torch.equal(s, own) for s in sums)}", flush=True)
dist.barrier()
dist.destroy_process_group()
