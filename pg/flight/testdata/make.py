"""Writes old.pickle: a dump with the keys of version 2.2, which lacks the library, the status and the threads. Run in this folder."""
import pickle

entry = {
    "record_id": 3, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": 4, "p2p_seq_id": 0, "op_id": 4,
    "profiling_name": "nccl:all_reduce", "time_created_ns": 1700000000000000001, "duration_ms": 1.5, "input_sizes": [[3, 4]],
    "input_dtypes": ["Float"], "output_sizes": [[3, 4]], "output_dtypes": ["Float"], "state": "completed",
    "time_discovered_started_ns": None, "time_discovered_completed_ns": 1700000000000000002, "retired": True,
    "timeout_ms": 600000, "is_p2p": False, "frames": [{"name": "train", "filename": "train.py", "line": 12}],
}
dump = {
    "version": "2.2", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}, "entries": [entry],
    "nccl_comm_state": {"0x1": {"rank": "0"}},
}
with open("old.pickle", "wb") as f:
    f.write(pickle.dumps(dump, 2))
