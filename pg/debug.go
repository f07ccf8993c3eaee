package pg

// DebugOptions say how much groups do to find mistakes of a program. Fields left zero are taken from the environment; see
// Settings. Groups made from a group take them over. c10d: TORCH_DISTRIBUTED_DEBUG and its relatives.
type DebugOptions struct {
	// Level says what is logged, and whether calls are compared between ranks.
	Level DebugLevel
	// NaNCheck searches the floating-point inputs of collectives and sends for NaN, and fails the group at the first.
	NaNCheck Toggle
	// Desync logs one line for each rank on a timeout, which tells where the rank is. At level DETAIL it is on unless the
	// program says Off.
	Desync Toggle
}

// DebugLevel is how much groups do to find mistakes. c10d: DebugLevel.
type DebugLevel uint8

// The levels. Each does what the one before it does, too.
const (
	DebugOff    DebugLevel = iota + 1
	DebugInfo              // logs groups as they form
	DebugDetail            // compares what all ranks call before each collective, which costs a round of messages
)

// String is the level as the environment has it.
func (l DebugLevel) String() string {
	switch l {
	case DebugOff:
		return "OFF"
	case DebugInfo:
		return "INFO"
	case DebugDetail:
		return "DETAIL"
	}
	return "unset"
}
