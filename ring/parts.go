package ring

import "github.com/colligo-go/colligo/plan"

// parts cuts a tensor that holds a part for each rank. Every part is cut by lane, and a lane's share of it into the same
// number of pieces. Pieces k of all parts together are block k.
type parts struct {
	offs    []int // of each part, and the end
	lanes   int
	longest int // elements of the longest piece
	blocks  int
}

func (b *builder) parts() parts {
	p := parts{offs: make([]int, b.Size+1), lanes: len(b.plan.Lanes)}
	longest := 0
	for r := range b.Size {
		n := b.PartLen(r)
		p.offs[r+1] = p.offs[r] + n
		longest = max(longest, n)
	}
	// Lane 0 has the longest shares, and piece 0 is the longest of them: the first parts of a cut have one more.
	share := plan.Part(plan.In, longest, p.lanes, 0).Len
	p.blocks = blocks(share, b.chunk)
	if p.blocks > 0 {
		p.longest = plan.Part(plan.In, share, p.blocks, 0).Len
	}
	return p
}

// piece returns piece k of the current lane's share of part r in buffer buf that holds all parts.
func (p *parts) piece(buf plan.Buf, r, lane, k int) plan.Span {
	whole := plan.Span{Buf: buf, Off: p.offs[r], Len: p.offs[r+1] - p.offs[r]}
	return cut(cut(whole, p.lanes, lane), p.blocks, k)
}

// own returns the same piece of a rank's part in the buffer that holds that part alone.
func (p *parts) own(buf plan.Buf, r, lane, k int) plan.Span {
	return p.piece(buf, r, lane, k).In(buf, -p.offs[r])
}
