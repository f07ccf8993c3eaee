"""Rank 0 of a job: it broadcasts the weights of a PyTorch model to ranks in Go. Every rank makes these calls, in this order:

1. 16 bytes: the length of the header, and the most bytes of a piece, as little-endian numbers. A length of 0 ends the job:
   an all_reduce as in 4 follows, after which every rank may leave.
2. The header, in the form of a .safetensors file without the length before it, and the 32 bytes of its SHA-256.
3. For each tensor, in the order of the bytes that the header gives, its bytes and the 32 bytes of their SHA-256.
4. An all_reduce of one int64: how many tensors were wrong.

All bytes are broadcast as uint8 in pieces, so that tensors of every type travel over every backend, and no rank needs memory for the
model but this one. An empty tensor has no piece.

    python3 send.py send BACKEND MIB ROUNDS PIECE
    python3 send.py check FILE MIB ROUND

The second command reads a file that a rank in Go has written, and compares it with the model.
"""

import hashlib
import json
import os
import struct
import sys

import torch
import torch.distributed as dist

# The types of the format by PyTorch's names, of which old versions lack some.
NAMES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0", "complex64": "C64",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}
DTYPES = {getattr(torch, name): short for name, short in NAMES.items() if hasattr(torch, name)}


def as_bytes(tensor):
    """The bytes of a tensor, in the order of a C array. Memory is copied only where the tensor is not contiguous."""
    flat = tensor.detach().contiguous().flatten()
    if flat.is_complex():
        flat = torch.view_as_real(flat).flatten()
    return flat.view(torch.uint8) if flat.numel() else flat.new_empty(0, dtype=torch.uint8)


def ordered(state):
    """Names and tensors of a state_dict, the widest elements first, so that every tensor of a file is aligned."""
    return sorted(state.items(), key=lambda item: (-item[1].element_size(), item[1].numel() > 0, item[0]))


def header(tensors):
    fields, at = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors:
        if tensor.dtype not in DTYPES:
            raise ValueError(f"{name}: .safetensors files have no type for {tensor.dtype}")
        end = at + tensor.numel() * tensor.element_size()
        fields[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
    return text + b" " * (-len(text) % 8)


class Sender:
    """Broadcasts bytes to the job. Device is where the backend takes tensors."""

    def __init__(self, device, piece):
        self.device, self.piece = device, piece

    def number(self, value):
        """Adds a number up over the ranks."""
        total = torch.tensor([value], dtype=torch.int64, device=self.device)
        dist.all_reduce(total)
        return total.item()

    def raw(self, data):
        dist.broadcast(torch.frombuffer(bytearray(data), dtype=torch.uint8).to(self.device), 0)

    def flat(self, data):
        """Broadcasts uint8 in pieces, and then their checksum. A piece is hashed while it travels."""
        digest = hashlib.sha256()
        for at in range(0, data.numel(), self.piece):
            part = data[at : at + self.piece]
            work = dist.broadcast(part.to(self.device), 0, async_op=True)
            digest.update(part.cpu().numpy())
            work.wait()
        self.raw(digest.digest())

    def model(self, state):
        """Broadcasts a state_dict. It raises an error if a rank has found other bytes than were sent."""
        tensors = ordered(state)
        text = header(tensors)
        self.raw(struct.pack("<QQ", len(text), self.piece))
        self.flat(torch.frombuffer(bytearray(text), dtype=torch.uint8))
        for _, tensor in tensors:
            self.flat(as_bytes(tensor))
        if wrong := self.number(0):
            raise RuntimeError(f"{wrong} tensors came wrong")

    def end(self):
        self.raw(struct.pack("<QQ", 0, 0))
        self.number(0)


class Model(torch.nn.Module):
    """Some layers, and a tensor of every type."""

    def __init__(self, mib):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(1024, 1024, bias=i % 2 == 0) for i in range(max(mib // 4, 1)))
        self.norm = torch.nn.BatchNorm1d(7)
        values = torch.randint(0, 2, (3, 5, 2))
        for dtype, name in DTYPES.items():
            self.register_buffer(f"extra_{name.lower()}", values.to(dtype))
        self.register_buffer("extra_turned", torch.randn(6, 4).t())
        self.register_buffer("extra_none", torch.empty(0, 8))
        self.register_buffer("extra_größe", torch.tensor(1.5, dtype=torch.float64))


def build(mib, round):
    torch.manual_seed(round)
    return Model(mib)


def send(backend, mib, rounds, piece):
    device = torch.device("cpu")
    if "nccl" in backend:
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    dist.init_process_group(backend, init_method="env://")
    print(f"rank 0 is PyTorch {torch.__version__} of {dist.get_world_size()} ranks", flush=True)
    sender = Sender(device, piece)
    for round in range(rounds):
        sender.model(build(mib, round).to(device).state_dict())
        print(f"round {round}: all ranks have received the weights right", flush=True)
    sender.end()
    dist.destroy_process_group()


def check(path, mib, round):
    state = build(mib, round).state_dict()
    with open(path, "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        fields = json.loads(f.read(length))
        fields.pop("__metadata__")
        assert fields.keys() == state.keys(), "other names"
        for name, field in fields.items():
            tensor, (begin, end) = state[name], field["data_offsets"]
            f.seek(8 + length + begin)
            assert f.read(end - begin) == as_bytes(tensor).numpy().tobytes(), f"{name}: other bytes"
            assert (field["dtype"], field["shape"]) == (DTYPES[tensor.dtype], list(tensor.shape)), f"{name}: {field}"
    print(f"equal: {len(fields)} tensors")
    try:
        from safetensors.torch import load_file
    except ImportError:
        print("the package safetensors is not here")
        return
    for name, tensor in load_file(path).items():
        assert tensor.dtype == state[name].dtype and torch.equal(as_bytes(tensor), as_bytes(state[name])), f"{name}: the package differs"
    print("the package safetensors reads the same")


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        check(sys.argv[2], *map(int, sys.argv[3:]))
