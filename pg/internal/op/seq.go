package op

// Seq is the place of an operation in the order of its group, the same on all ranks. Frames and messages between ranks carry
// it. Its upper bits are the number that the operation has among the program's collectives, as c10d counts them. Its lower
// seqBits bits count the collectives that came since without a number of their own: the group's, and the later ones of a
// block.
type Seq uint64

const seqBits = 16

// Next returns the next place, of an operation that has a number or has none.
func (s Seq) Next(numbered bool) Seq {
	if !numbered {
		return s + 1
	}
	return (s>>seqBits + 1) << seqBits
}

// Number returns the number of a place, for people and for the recorder.
func (s Seq) Number() uint64 { return uint64(s >> seqBits) }

// Split returns the number of a place and how many collectives without a number came since.
func (s Seq) Split() (number, more uint64) { return uint64(s >> seqBits), uint64(s & (1<<seqBits - 1)) }

// SeqOf returns the place of the operation with a number.
func SeqOf(number uint64) Seq { return Seq(number << seqBits) }
