package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Parse reads the text form of a plan, as String prints it; text.go has the grammar. It checks the form only: what the
// plan means is for Check.
func Parse(text string) (*Plan, error) {
	head, lanes, hasLanes := strings.Cut(text, "|")
	head, algo, found := cutWord(head, " algo ")
	if !found {
		return nil, fmt.Errorf("plan: parse %.80q: no algo", text)
	}
	s, err := ParseShape(head)
	if err != nil {
		return nil, err
	}
	p := &Plan{Shape: s}
	fields := strings.Fields(algo)
	if n := len(fields); n > 1 && fields[n-1] == "starts" {
		p.Starts, fields = true, fields[:n-1]
	}
	switch {
	case len(fields) == 1:
	case len(fields) == 3 && fields[1] == "scratch":
		if p.Scratch, err = number(fields[2]); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("plan: parse %.80q: want a word and scratch after algo", algo)
	}
	if fields[0] != "-" {
		p.Algo = fields[0]
	}
	if !hasLanes {
		return p, nil
	}
	for _, lane := range strings.Split(lanes, "|") {
		steps, err := parseLane(lane, s.Rank)
		if err != nil {
			return nil, fmt.Errorf("%w, in lane %d of %v", err, len(p.Lanes), s)
		}
		p.Lanes = append(p.Lanes, steps)
	}
	return p, nil
}

// cutWord is strings.Cut at the last place.
func cutWord(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// ParseShape reads the text form of a shape, as its String prints it. It checks the form only, as Shape.Validate checks
// the rest.
func ParseShape(text string) (s Shape, err error) {
	fields := strings.Fields(text)
	if len(fields)%2 == 0 {
		return s, fmt.Errorf("plan: parse %.80q: want a collective, and names with values", text)
	}
	if s.Coll, err = ParseColl(fields[0]); err != nil {
		return s, err
	}
	for name, value := range pairs(fields[1:]) {
		switch name {
		case "rank":
			rank, size, _ := strings.Cut(value, "/")
			if s.Rank, err = number(rank); err == nil {
				s.Size, err = number(size)
			}
		case "root":
			s.Root, err = number(value)
		case "count":
			s.Count, err = number(value)
		case "elem":
			s.Elem, err = number(value)
		case "lanes":
			s.Lanes, err = number(value)
		case "chunk":
			s.Chunk, err = number(value)
		case "counts":
			s.Counts, err = numbers(value)
		case "recv_counts":
			s.RecvCounts, err = numbers(value)
		default:
			err = fmt.Errorf("plan: parse %.80q: unknown name %q", text, name)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// pairs goes through names with values.
func pairs(fields []string) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		for pair := range slices.Chunk(fields, 2) {
			if !yield(pair[0], pair[1]) {
				return
			}
		}
	}
}

func number(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, strconv.IntSize-1)
	if err != nil {
		return 0, fmt.Errorf("plan: parse number: %w", err)
	}
	return int(n), nil
}

func numbers(s string) (list []int, err error) {
	for _, field := range strings.Split(s, ",") {
		n, err := number(field)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

func parseLane(text string, rank int) (steps []Step, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for _, field := range strings.Split(text, ";") {
		s, err := parseStep(strings.Fields(field), rank)
		if err != nil {
			return nil, fmt.Errorf("plan: parse step %q: %w", strings.TrimSpace(field), err)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// parseStep reads the words of a step: a local one is one word, the others are a peer and spans, once or twice.
func parseStep(words []string, rank int) (s Step, err error) {
	s = Step{To: None, From: None}
	if len(words) == 1 {
		dst, src, found := strings.Cut(words[0], "=")
		if !found {
			return s, fmt.Errorf("no span after %q", dst)
		}
		s.From = rank
		if acc, operand, reduces := strings.Cut(src, "+"); reduces {
			src, s.Last = cutLast(operand)
			s.Reduce = true
			if s.Acc, err = parseSpan(acc); err != nil {
				return s, err
			}
		}
		if s.Dst, err = parseSpan(dst); err == nil {
			s.Src, err = parseSpan(src)
		}
		return s, err
	}
	for len(words) >= 2 && err == nil {
		switch {
		case strings.HasPrefix(words[0], ">") && s.To == None && s.From == None:
			if s.To, err = number(words[0][1:]); err == nil {
				s.Src, err = parseSpan(words[1])
			}
		case strings.HasPrefix(words[0], "<") && s.From == None:
			err = s.parseRecv(words[0][1:], words[1], rank)
		default:
			err = fmt.Errorf("%q is neither a send nor a receive that may stand here", words[0])
		}
		words = words[2:]
	}
	if err == nil && (len(words) > 0 || s.To == None && s.From == None) {
		err = fmt.Errorf("want peers with spans")
	}
	return s, err
}

// parseRecv reads what follows "<".
func (s *Step) parseRecv(peer, spans string, rank int) (err error) {
	if s.From, err = number(peer); err != nil {
		return err
	}
	if s.From == rank {
		return fmt.Errorf("rank %d receives from itself", rank)
	}
	dst, acc, reduces := strings.Cut(spans, "=")
	if s.Dst, err = parseSpan(dst); err != nil || !reduces {
		return err
	}
	s.Reduce = true
	acc, s.Last = strings.CutSuffix(acc, "!")
	acc, plus := strings.CutSuffix(acc, "+")
	if !plus {
		return fmt.Errorf("no + after %q", acc)
	}
	s.Acc, err = parseSpan(acc)
	return err
}

func cutLast(operand string) (rest string, last bool) { return strings.CutPrefix(operand, "!") }

func parseSpan(text string) (s Span, err error) {
	name, bounds, _ := strings.Cut(text, "[")
	begin, end, _ := strings.Cut(bounds, ":")
	end, closed := strings.CutSuffix(end, "]")
	i := slices.Index(bufNames[:], name)
	if i < 0 || !closed {
		return s, fmt.Errorf("span %q is not of the form out[0:1]", text)
	}
	lo, err := number(begin)
	if err != nil {
		return s, err
	}
	hi, err := number(end)
	if err != nil {
		return s, err
	}
	if hi < lo {
		return s, fmt.Errorf("span %q ends before it begins", text)
	}
	return Span{Buf(i), lo, hi - lo}, nil
}
