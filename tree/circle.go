package tree

import "github.com/colligo-go/colligo/plan"

// circle is a tensor in parts, one for each rank, with the first part following the last.
type circle struct {
	size int
	off  []int // where part i begins; off[size] is the end
}

// partsOf returns the parts of a collective in parts.
func partsOf(s plan.Shape) circle {
	c := circle{s.Size, make([]int, s.Size+1)}
	for i := range s.Size {
		c.off[i+1] = c.off[i] + s.PartLen(i)
	}
	return c
}

// cut returns a span cut into a part for each rank, the longer parts first.
func cut(whole plan.Span, size int) circle {
	c := circle{size, make([]int, size+1)}
	for i := range size {
		c.off[i] = whole.Off + plan.Part(whole.Buf, whole.Len, size, i).Off
	}
	c.off[size] = whole.Off + whole.Len
	return c
}

// spans returns where n parts from the first on lie in a buffer that holds all parts. There are two spans if they go round
// the end of the tensor. Spans of no elements are left out.
func (c circle) spans(b plan.Buf, first, n int) []plan.Span {
	first %= c.size
	end := min(first+n, c.size)
	var all []plan.Span
	for _, r := range [2][2]int{{first, end}, {0, first + n - end}} {
		if from, to := c.off[r[0]], c.off[r[1]]; from < to {
			all = append(all, plan.Span{Buf: b, Off: from, Len: to - from})
		}
	}
	return all
}

// len returns the elements of n parts from the first on.
func (c circle) len(first, n int) (sum int) {
	for _, s := range c.spans(plan.In, first, n) {
		sum += s.Len
	}
	return sum
}

// cut returns a span that holds n parts from the first on without a gap, cut where spans cuts.
func (c circle) cut(packed plan.Span, first, n int) []plan.Span {
	pieces := c.spans(packed.Buf, first, n)
	off := packed.Off
	for i := range pieces {
		pieces[i].Off = off
		off += pieces[i].Len
	}
	return pieces
}

// at returns rank r's part in a buffer that holds all parts.
func (c circle) at(b plan.Buf, r int) plan.Span {
	return plan.Span{Buf: b, Off: c.off[r], Len: c.off[r+1] - c.off[r]}
}
