package ptx

// MaxRanks is how many ranks the GPU kernels know.
const MaxRanks = 8

// The arguments of the GPU kernels, laid out as the C++ structs of the same names in _gen/cuda/args.h. Words of eight bytes
// are device addresses and lengths in bytes unless they say something else.
//
// Arrays of MaxRanks that have an entry per rank are indexed by peer: entry d belongs to rank (Rank + d) mod Size, entry 0 to this
// rank.

// GroupArgs is what the collectives know of the group; it is the same in every launch of a communicator. The memory it
// points to starts as zeros and belongs to the kernels.
type GroupArgs struct {
	LL         [MaxRanks]uint64 // each rank's LL memory, LLBytes long, as this device sees it
	Tiles      [MaxRanks]uint64 // each rank's tile memory, TileBytes long
	Flags      [MaxRanks]uint64 // each rank's flag words, FlagBytes long
	State      uint64           // this rank's counters, StateBytes long; no peer writes there
	Abort      uint64           // AbortBytes of mapped host memory
	Rank, Size uint32
	LLSlot     uint32 // bytes that LL memory has for one peer in one half, a multiple of 64
	TileSlot   uint32 // bytes of one tile at most, a multiple of 16
}

// LLBytes returns the length of a rank's LL memory.
func LLBytes(size, slot int) int { return 2 * (size - 1) * slot }

// TileBytes returns the length of a rank's tile memory for launches of at most so many blocks.
func TileBytes(size, slot, blocks int) int { return blocks * 2 * (size - 1) * tileDepth * slot }

// TilePieces returns how many pieces of tile memory, each of tileDepth slots, a relay's block has for one peer, where tile
// memory is for launches of at most so many blocks: an even number. A relay's tiles are at most one piece long, and all ranks' have one length.
func TilePieces(most, blocks int) int { return 2 * (most / blocks) }

// FlagBytes and StateBytes return the lengths of a rank's flag words and counters for at most so many blocks.
func FlagBytes(blocks int) int { return blocks * 2 * MaxRanks * 4 }

// StateBytes is described with FlagBytes.
func StateBytes(blocks int) int { return 64 + blocks*MaxRanks*4 }

// LL128Chunk is what a warp stores of rows at a time, with LL128Data bytes of data.
const (
	LL128Chunk = 512
	LL128Data  = 480
)

// FoldThreads is how many threads a block of the reducing LL kernels has at most.
const FoldThreads = 256

// LL128Bytes returns the length of a rank's LL128 memory.
func LL128Bytes(size, slot int) int { return 2 * (size - 1) * slot }

// SentinelWarps is how many warps a block of the sentinel kernels has at most, each with SentinelSpan bytes of a place.
const (
	SentinelWarps = 16
	SentinelSpan  = 2048
)

// SentinelBytes returns the length of a rank's sentinel memory, CountBytes and CreditBytes those of its counts and of the words that
// others sign there, for launches of at most so many blocks.
func SentinelBytes(places, blocks int) int { return places * blocks * SentinelWarps * SentinelSpan }

// CountBytes is described with SentinelBytes.
func CountBytes(blocks int) int { return blocks * SentinelWarps * 8 }

// CreditBytes is described with SentinelBytes.
func CreditBytes(blocks int) int { return blocks * SentinelWarps * 4 }

// MarkBytes returns the length of a rank's marks for at most so many blocks.
func MarkBytes(blocks int) int { return blocks * MaxRanks * 4 }

// AbortBytes is the length of the host words: word 0 stops every loop of every kernel that looks at it when the host makes
// it not 0; word 1+q is made 1 by a stopped loop that waited for rank q, word 1+MaxRanks+q by a kernel that has another
// mark than rank q, and then stops its rank. After a stop the group's memory is worthless.
const AbortBytes = 4 * (1 + 2*MaxRanks)

// tileDepth is how many tiles of one pair of ranks are in flight.
const tileDepth = 4

// ReduceArgs sets Out to the fold of Sources inputs, in their order. Out may be one of them.
type ReduceArgs struct {
	Out     uint64
	In      [MaxRanks]uint64
	Bytes   uint64
	Sources uint32 // 2 to 8
	Divisor uint32 // above 1, sums are divided by it; integers toward zero
}

// AllReduceArgs folds every rank's In, in rank order, into every rank's Out, which may be In.
type AllReduceArgs struct {
	Group          GroupArgs
	In, Out, Bytes uint64
	Part           uint64 // bytes of a rank's part, a multiple of 16, the same on all ranks; the last parts may be short or empty
	Divisor        uint32 // as in ReduceArgs
	Tile           uint32 // bytes, a multiple of 16, at most TileSlot
}

// LL128Args is AllReduceArgs by LL128. RowMemory starts as zeros and belongs to the kernels.
type LL128Args struct {
	Group          GroupArgs
	LL128          [MaxRanks]uint64 // each rank's LL128 memory, LL128Bytes long
	In, Out, Bytes uint64
	Part           uint64 // as in AllReduceArgs
	Divisor        uint32
	Slot           uint32 // bytes that LL128 memory has for one peer in one half, a multiple of LL128Chunk
}

// DirectArgs folds every rank's In, in rank order, into every rank's output. In may be this rank's output.
type DirectArgs struct {
	Group         GroupArgs
	Outs          [MaxRanks]uint64 // each rank's output as this device sees it, multiples of 16
	In, Bytes     uint64
	Part          uint64 // as in AllReduceArgs
	Marks         uint64 // where a rank's MarkBytes begin, in bytes from its flag words
	Divisor, Tile uint32
	Mark          uint32 // equal on all ranks; where it is not, nothing is stored and the abort words tell
	_             uint32
}

// ReduceScatterArgs folds part d of every rank's In into the Out of the rank at peer index d. A reduce to a root is the same
// with all parts but the root's empty. Out may be this rank's part of In.
type ReduceScatterArgs struct {
	Group         GroupArgs
	In, Out       uint64
	Offset, Bytes [MaxRanks]uint64 // where each part lies in In
	Divisor, Tile uint32
}

// EvenArgs is ReduceScatterArgs, or ExchangeArgs, of parts of one length. In, Out, Part and Step are multiples of 16.
type EvenArgs struct {
	Group   GroupArgs
	In, Out uint64 // of an exchange, Out has the parts of all ranks in order
	Part    uint64 // bytes, above 0
	Step    uint64 // from one rank's part in In to the next one's: 0 if all are sent the same
	Divisor uint32 // as in ReduceArgs
	_       uint32
}

// ExchangeArgs sends SendBytes[d] at Send[d] to the rank at peer index d, and receives RecvBytes[d] at Recv[d] from it; place 0
// is a copy. Both ranks of a pair know both lengths. What is received must not overlap what is sent, but place 0 its own.
type ExchangeArgs struct {
	Group                            GroupArgs
	Send, SendBytes, Recv, RecvBytes [MaxRanks]uint64
	Tile                             uint32
	Pieces                           uint32 // of ExchangeRotation: pieces of tile memory of a block, as TilePieces says
}

// DirectExchangeArgs sends SendBytes[d] at Send[d] to Recv[d], which lies in the output of the rank at peer index d.
type DirectExchangeArgs struct {
	Group                 GroupArgs
	Send, SendBytes, Recv [MaxRanks]uint64
	Marks                 uint64 // as in DirectArgs, and Mark
	Mark                  uint32
	_                     uint32
}

// BroadcastArgs sends the Bytes at the root's In to the Out of all others.
type BroadcastArgs struct {
	Group   GroupArgs
	In, Out uint64
	Bytes   uint64 // 1 at least
	Root    uint32 // its place
	_       uint32
}

// ChainArgs hands the Bytes at the root's In on from rank to rank, into the Out of all others.
type ChainArgs struct {
	Group         GroupArgs
	In, Out       uint64
	Next          uint64 // with Direct: Out of the next rank as this device sees it
	Bytes         uint64
	Marks         uint64 // as in DirectArgs, and Mark
	Before, After uint32 // places of the ranks before and after this one, 0 for none
	Tile, Mark    uint32
	Direct        uint32 // 1: from output to output
	Pieces        uint32 // as in ExchangeArgs
}

// LL128ChainArgs is ChainArgs by LL128.
type LL128ChainArgs struct {
	Group         GroupArgs
	LL128         [MaxRanks]uint64 // as in LL128Args, and Slot
	In, Out       uint64           // as in ChainArgs, and Before and After
	Bytes         uint64           // 1 at least
	Before, After uint32
	Slot          uint32
	_             uint32
}

// SentinelArgs folds as AllReduceArgs, in the order of the ring: part q from rank q on. Or it hands the Bytes at the root's In on
// to the rank after it, and so on. With two ranks of which one is the root that is a message. sentinel memory starts cleared, counts and signs start as zeros; all belong to the kernels.
type SentinelArgs struct {
	Group                GroupArgs
	Memory, Next         uint64 // SentinelBytes of this rank, and of the next as this device sees them
	Counts               uint64 // CountBytes of this rank; no peer writes there
	Credits, PrevCredits uint64 // CreditBytes of this rank, and of the rank before
	In, Out, Bytes       uint64 // 1 at least
	Part                 uint64 // as in AllReduceArgs
	Sentinel             [4]uint32
	Slots                uint32 // Size at least
	Blocks               uint32 // that sentinel memory is for, of SentinelWarps each
	Divisor              uint32 // as in ReduceArgs
	Ends                 uint32 // of a broadcast: EndRoot, EndLast or 0
	Before, After        uint32 // places of the ranks that lines come from and go to
}

// Ends of a broadcast by the sentinel protocol.
const (
	EndRoot = 1
	EndLast = 2
)

// EagerArgs is some messages, of which those that are sent come first.
type EagerArgs struct {
	Abort    uint64 // as in GroupArgs
	Messages [MostMessages]Message
}

// MostMessages is how many there are in one launch; those left over have no Parts.
const MostMessages = 8

// Message sends or receives Bytes at At in Parts of Part bytes, the last one of the rest, by Slots of Slot bytes, from First on, the last
// one's next being slot 0. A slot is free when its Free word is 1, and full when its Arrived word is Code, with parts behind the first
// one 1. Who finds a word so makes it 0. The first part's tags are MostCode-Code and Label. Blocks take the parts of all messages by
// turns. Messages of one peer and direction follow one another; if they have more parts than slots, these are a multiple of the blocks, so
// that a slot is always the same one's.
type Message struct {
	At, Bytes           uint64 // any alignment
	Data                uint64 // the slots, on the receiver
	Arrived, Free, Tags uint64 // the words of slot 0, those of the others behind them: on the receiver, the sender, the receiver
	Slot, Part          uint32 // multiples of 16
	First, Slots        uint32
	Code, Label         uint32 // Code is 2 at least and below MostCode
	Peer                uint32
	Parts               uint32
	Receives            uint32 // 0 if it is sent
}

// MostCode is above all codes of messages.
const MostCode = 1 << 30

// SendRecvArgs sends a message to a peer and receives one from it, each as BroadcastSentinel does, when Sent and Received have told what they
// are and each receiver has said that it is ready, by a word that its sender finds and makes 0 again. That is done by Rendezvous and then
// two launches of SendRecv. A peer may run BroadcastSentinel instead, when it has told the same.
type SendRecvArgs struct {
	Out, In                      SentinelArgs
	Sent, Received               Message // without Bytes; At, Part and Slot are not used
	ClearToSend, PeerClearToSend uint64  // the word that the peer makes ClearToSend or ClearToSendRecv, and the one on the peer
	Carried                      uint64  // two words of this rank; no peer writes there
	Blocks                       uint32  // of Out; those of In follow, and the one that is left
	Second                       uint32  // 1 in the second launch
}

// What a rank says to one that sends it a message: that it receives, or that it swaps.
const (
	ClearToSend = 1 + iota
	ClearToSendRecv
)

// FusedArgs moves Bytes in Steps round the ring, of which the first Folds fold as AllReduceArgs, in the order of the ring: in step j
// this rank sends its part Rank-j and takes part Rank-j-1, all modulo Size. A part goes in slices, by two slots in turns. The
// kernel sends the Head of each, and the line that the tensor ends within; copy engines send the whole lines between, of slice k when word k mod 2 at
// Go has become 1, which their stream makes 0 again before. Slots start cleared and end so; words start as 0 and end so. An operation
// begins when all ranks have ended the one before.
//
// Or a chain hands one part on, from the root to the rank after it, and so on: the one step of it. Ins and Outs begin with that tensor then.
type FusedArgs struct {
	Group              GroupArgs
	Slots, Next        uint64           // this rank's slots, and those of the next as this device sees them
	Counts             uint64           // a word for each block, of this rank; no peer writes there
	Credit, PrevCredit uint64           // the word that the next rank tells this one, and that of the rank before
	Go                 uint64           // two words of this rank
	Bytes              uint64           // of all parts
	Ins, Outs          [MaxRanks]uint64 // of parts; of those that are not folded this rank's In alone
	Part               uint64           // as in AllReduceArgs
	Slot, Slice        uint64           // from one slot to the other, and the longest slice, a multiple of 16
	Head               uint64           // a multiple of SentinelSpan, or longer than any slice
	Sentinel           [4]uint32
	Steps, Folds       uint32
	Divisor            uint32 // as in ReduceArgs
	Chain              uint32 // ChainRoot, ChainMiddle or ChainLast, or 0 in a ring
}

// What a rank is in a chain.
const (
	ChainRoot = 1 + iota
	ChainMiddle
	ChainLast
)

// Slices returns how many slices a part is cut into.
func (a *FusedArgs) Slices() int { return int((a.Part + a.Slice - 1) / a.Slice) }

// A Slice of FusedArgs is some bytes of a part. It was read at In if nobody had sent it before, and lies at Out since.
type Slice struct{ In, Out, Bytes uint64 }

// Sent returns the k-th slice that this rank sends, Taken the k-th that it takes.
func (a *FusedArgs) Sent(k int) Slice { return a.slice(k, 0) }

// Taken is described with Sent.
func (a *FusedArgs) Taken(k int) Slice { return a.slice(k, 1) }

func (a *FusedArgs) slice(k, taken int) Slice {
	if at := uint64(k) * a.Slice; a.Chain != 0 {
		return Slice{In: a.Ins[0] + at, Out: a.Outs[0] + at, Bytes: min(a.Slice, a.Bytes-at)}
	}
	n, size := a.Slices(), int(a.Group.Size)
	d := (2*size - k/n - taken) % size
	part, at := uint64((int(a.Group.Rank)+d)%size)*a.Part, uint64(k%n)*a.Slice
	s := Slice{In: a.Ins[d] + at, Out: a.Outs[d] + at}
	if end := min(part+a.Part, a.Bytes); part+at < end {
		s.Bytes = min(a.Slice, end-part-at)
	}
	return s
}

// Own returns how many slices this rank sends as they were at In.
func (a *FusedArgs) Own() int {
	switch a.Chain {
	case 0:
		return a.Slices()
	case ChainRoot:
		return int(a.Steps) * a.Slices()
	}
	return 0
}

// Copied returns what an engine sends of a slice that is so long: the bytes from one place to another, or none.
func (a *FusedArgs) Copied(bytes uint64) (from, to uint64) {
	from = min(a.Head, bytes)
	return from, max(bytes/16*16, from)
}

// CopyArgs copies Bytes from In to Out, which do not overlap.
type CopyArgs struct{ Out, In, Bytes uint64 }

// FillArgs makes Lines lines of 16 bytes, from Out on, equal to Line. Out is a multiple of 16.
type FillArgs struct {
	Out, Lines uint64
	Line       [4]uint32
}

// UnaryArgs multiplies by a factor. Out may be In.
type UnaryArgs struct {
	Out, In, Count uint64 // Count in elements
	FactorAt       uint64 // address of one element, or 0 for Factor
	Factor         float64
}
