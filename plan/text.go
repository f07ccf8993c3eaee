package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// The text form of a plan is one line: the shape, the algorithm and the scratch, then each lane after a bar.
//
//	plan  = shape " algo" WORD [" scratch" N] [" starts"] {" |" lane}
//	shape = COLL " rank" R/SIZE [" root" N] " count" N " elem" N [" lanes" N] [" chunk" N] [" counts" N,…] [" recv_counts" N,…]
//	lane  = [step {";" step}]
//	step  = send | recv | send recv | local
//	send  = ">" PEER span                  send the span to a peer
//	recv  = "<" PEER span ["=" span "+" ["!"]]  receive into the first span; with "+" it becomes the second span op what
//	                                       arrives, and "!" is Last
//	local = span "=" [span "+" ["!"]] span copy the last span to the first; with "+" reduce it with the second
//	span  = ("in" | "out" | "scratch") "[" BEGIN ":" END "]"
//
// For example, rank 1 of a ring of 3:
//
//	all_reduce rank 1/3 count 3 elem 4 algo ring | >2 in[0:1] <0 out[2:3]=in[2:3]+; >2 out[2:3] <0 out[1:2]=in[1:2]+!; …
//
// Items in brackets are left out where they are zero; an algorithm without a name is "-".

// String prints the plan on one line, in the form that Parse reads.
func (p *Plan) String() string {
	var b strings.Builder
	b.WriteString(p.Shape.String())
	algo := p.Algo
	if algo == "" {
		algo = "-"
	}
	b.WriteString(" algo " + algo)
	field(&b, "scratch", p.Scratch)
	if p.Starts {
		b.WriteString(" starts")
	}
	for _, steps := range p.Lanes {
		b.WriteString(" |")
		for i, s := range steps {
			if i > 0 {
				b.WriteByte(';')
			}
			b.WriteByte(' ')
			b.WriteString(s.text(p.Shape.Rank))
		}
	}
	return b.String()
}

// String prints the shape on one line, in the form that ParseShape reads.
func (s Shape) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v rank %d/%d", s.Coll, s.Rank, s.Size)
	if s.Coll.Rooted() || s.Coll.pair() || s.Root != 0 {
		fmt.Fprintf(&b, " root %d", s.Root)
	}
	fmt.Fprintf(&b, " count %d elem %d", s.Count, s.Elem)
	field(&b, "lanes", s.Lanes)
	field(&b, "chunk", s.Chunk)
	list(&b, "counts", s.Counts)
	list(&b, "recv_counts", s.RecvCounts)
	return b.String()
}

func field(b *strings.Builder, name string, n int) {
	if n != 0 {
		fmt.Fprintf(b, " %s %d", name, n)
	}
}

func list(b *strings.Builder, name string, counts []int) {
	for i, n := range counts {
		if i == 0 {
			b.WriteString(" " + name + " ")
		} else {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(n))
	}
}

// text prints a step of the given rank. Fields that mean nothing in the step are not printed.
func (s Step) text(rank int) string {
	last := ""
	if s.Last {
		last = "!"
	}
	if s.Local(rank) {
		if s.Reduce {
			return fmt.Sprintf("%v=%v+%s%v", s.Dst, s.Acc, last, s.Src)
		}
		return fmt.Sprintf("%v=%v", s.Dst, s.Src)
	}
	var parts []string
	if s.To != None {
		parts = append(parts, fmt.Sprintf(">%d %v", s.To, s.Src))
	}
	if s.From != None {
		recv := fmt.Sprintf("<%d %v", s.From, s.Dst)
		if s.Reduce {
			recv += fmt.Sprintf("=%v+%s", s.Acc, last)
		}
		parts = append(parts, recv)
	}
	return strings.Join(parts, " ")
}

// String prints a span as "out[3:7]".
func (s Span) String() string { return fmt.Sprintf("%v[%d:%d]", s.Buf, s.Off, s.Off+s.Len) }

var bufNames = [...]string{In: "in", Out: "out", Scratch: "scratch"}

// String names the buffer: "in", "out" or "scratch".
func (b Buf) String() string {
	if int(b) < len(bufNames) {
		return bufNames[b]
	}
	return fmt.Sprintf("buf%d", uint8(b))
}
