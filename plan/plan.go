package plan

// Coll is a collective operation.
type Coll uint8

// The collectives that have plans. Numbering is part of the wire format: append only.
const (
	AllReduce Coll = iota + 1
	Broadcast
	Reduce
	AllGather
	ReduceScatter
	AllToAll
	Gather
	Scatter
	Barrier
	Send
	Recv
	numColls
)

var collNames = [numColls]string{
	AllReduce: "all_reduce", Broadcast: "broadcast", Reduce: "reduce", AllGather: "all_gather",
	ReduceScatter: "reduce_scatter", AllToAll: "all_to_all", Gather: "gather", Scatter: "scatter",
	Barrier: "barrier", Send: "send", Recv: "recv",
}

// Buf is one of the buffers that a rank brings to a collective.
type Buf uint8

// The buffers. Which of them a rank has, and their lengths, follow from the Shape: see Shape.Len.
const (
	In Buf = iota
	Out
	Scratch
)

// None stands for no peer in a Step.
const None = -1

// Span is the half-open range of elements [Off, Off+Len) of one buffer.
type Span struct {
	Buf      Buf
	Off, Len int
}

// Step moves one chunk. It sends Src to rank To, receives Dst from rank From, or both at once. From equal to the rank
// itself, with To None, is a local step: Src takes the place of what arrives. If Reduce is set, what arrives is combined
// with Acc: Dst = Acc op arrived; otherwise it is copied to Dst. Src has a meaning only with To or a local step, Dst only
// with From, Acc only with Reduce. Dst and Acc have equal lengths, and in a local step Src has the same.
type Step struct {
	To, From      int
	Src, Dst, Acc Span
	Reduce        bool
	Last          bool // with Reduce: the result is complete, and an average of integers is divided by the size here
}

// Plan is what one rank does in one collective.
type Plan struct {
	Algo    string // name of the planner, such as "ring"
	Shape   Shape
	Scratch int      // elements of scratch
	Starts  bool     // of a barrier: an empty frame tells of no rank's start but its sender's, and may leave before its step's turn
	Lanes   [][]Step // the steps of each lane, in order
}

// Planner computes one rank's plan. It is a pure function; an error means that it does not plan this shape.
type Planner func(Shape) (*Plan, error)

// SendTo returns a step that only sends.
func SendTo(peer int, src Span) Step { return Step{To: peer, From: None, Src: src} }

// RecvFrom returns a step that only receives.
func RecvFrom(peer int, dst Span) Step { return Step{To: None, From: peer, Dst: dst} }

// CopyStep returns a local step that copies src to dst on the given rank.
func CopyStep(rank int, dst, src Span) Step { return Step{To: None, From: rank, Src: src, Dst: dst} }

// ReadsAgain reports whether the plan reads some element of the input more than once, as algorithms do that send it to all ranks.
func (p *Plan) ReadsAgain() bool {
	left := p.Shape.Len(In)
	for _, steps := range p.Lanes {
		for i := range steps {
			s := &steps[i]
			if s.Src.Buf == In && (s.To != None || s.Local(p.Shape.Rank)) {
				left -= s.Src.Len
			}
			if s.Acc.Buf == In && s.Reduce {
				left -= s.Acc.Len
			}
		}
	}
	return left < 0
}

// Local reports whether step s of the given rank needs no peer.
func (s Step) Local(rank int) bool { return s.From == rank }

// Part returns part i of n of a buffer of count elements: the first count mod n parts have one element more. Offsets are
// relative to the buffer's begin.
func Part(b Buf, count, n, i int) Span {
	q, r := count/n, count%n
	return Span{b, i*q + min(i, r), q + btoi(i < r)}
}

// Chunk returns chunk i of span s cut into pieces of at most size elements, and whether there is one.
func (s Span) Chunk(size, i int) (Span, bool) {
	off := i * size
	if off >= s.Len {
		return Span{s.Buf, s.Off + s.Len, 0}, false
	}
	return Span{s.Buf, s.Off + off, min(size, s.Len-off)}, true
}

// In returns the same range of another buffer, shifted by delta elements.
func (s Span) In(b Buf, delta int) Span { return Span{b, s.Off + delta, s.Len} }

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
