#!/usr/bin/env bash
# Is started by torchrun as each rank of a mixed job, and becomes a rank in Python or in Go by its number. The environment of run.sh
# names both programs.
if [ $((RANK % 2)) = 0 ]; then
  exec "$PYTHON" "$(dirname "$0")/rank.py" "$STEPS" "$KILL"
fi
exec "$GO_RANK" -torch "$TORCH" -steps "$STEPS" -kill "$KILL"
