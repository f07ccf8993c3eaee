package pickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// steps says what each opcode does.
var steps = [256]func(*reader) error{
	opMark: (*reader).mark,
	opStop: (*reader).stop,

	opNone:     func(r *reader) error { return r.plain(nil) },
	opNewTrue:  func(r *reader) error { return r.plain(true) },
	opNewFalse: func(r *reader) error { return r.plain(false) },
	opInt:      (*reader).decimal,
	opLong:     (*reader).decimal,
	opBinInt:   func(r *reader) error { return r.integer(4) },
	opBinInt1:  func(r *reader) error { return r.count(1) },
	opBinInt2:  func(r *reader) error { return r.count(2) },
	opLong1:    func(r *reader) error { return r.long(1) },
	opLong4:    func(r *reader) error { return r.long(4) },
	opFloat:    (*reader).decimalFloat,
	opBinFloat: (*reader).float,

	opUnicode:         (*reader).escaped,
	opShortBinUnicode: func(r *reader) error { return r.text(1) },
	opBinUnicode:      func(r *reader) error { return r.text(4) },
	opBinUnicode8:     func(r *reader) error { return r.text(8) },
	opShortBinBytes:   func(r *reader) error { return r.bytes(1) },
	opBinBytes:        func(r *reader) error { return r.bytes(4) },
	opBinBytes8:       func(r *reader) error { return r.bytes(8) },
	opByteArray8:      func(r *reader) error { return r.bytes(8) },

	opEmptyList:  func(r *reader) error { return r.empty(false) },
	opList:       func(r *reader) error { return r.marked(false) },
	opAppend:     func(r *reader) error { return r.fill(1, r.fillList) },
	opAppends:    func(r *reader) error { return r.fill(-1, r.fillList) },
	opEmptyDict:  func(r *reader) error { return r.empty(true) },
	opDict:       func(r *reader) error { return r.marked(true) },
	opSetItem:    func(r *reader) error { return r.fill(2, r.fillDict) },
	opSetItems:   func(r *reader) error { return r.fill(-1, r.fillDict) },
	opEmptyTuple: func(r *reader) error { return r.fill(0, r.fillTuple) },
	opTuple:      func(r *reader) error { return r.fill(-1, r.fillTuple) },
	opTuple1:     func(r *reader) error { return r.fill(1, r.fillTuple) },
	opTuple2:     func(r *reader) error { return r.fill(2, r.fillTuple) },
	opTuple3:     func(r *reader) error { return r.fill(3, r.fillTuple) },

	opPut:        func(r *reader) error { return r.at(0, r.put) },
	opBinPut:     func(r *reader) error { return r.at(1, r.put) },
	opLongBinPut: func(r *reader) error { return r.at(4, r.put) },
	opMemoize:    func(r *reader) error { return r.put(len(r.memo) + len(r.sparse)) },
	opGet:        func(r *reader) error { return r.at(0, r.get) },
	opBinGet:     func(r *reader) error { return r.at(1, r.get) },
	opLongBinGet: func(r *reader) error { return r.at(4, r.get) },

	opProto: (*reader).proto,
	opFrame: (*reader).frame,
}

func (r *reader) proto() error {
	n, err := r.number(1)
	if err == nil && n > 5 {
		return fmt.Errorf("protocol %d, the newest known is 5", n)
	}
	return err
}

// frame announces how many bytes belong together, which matters only for reading from a stream.
func (r *reader) frame() error {
	n, err := r.number(8)
	if left := len(r.b) - r.pos; err == nil && n > left {
		return fmt.Errorf("a frame of %d bytes ends after %d", n, left)
	}
	return err
}

// decimal reads an int as text. Python 2 wrote True and False so too.
func (r *reader) decimal() error {
	s, err := r.line()
	if err != nil {
		return err
	}
	if s == "00" || s == "01" {
		return r.plain(s == "01")
	}
	s = strings.TrimSuffix(s, "L")
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return r.plain(i)
	}
	if len(s) > 2*maxInt {
		return fmt.Errorf("an int of %d digits, the limit is %d", len(s), 2*maxInt)
	}
	i, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return fmt.Errorf("not an int: %.40q", s)
	}
	return r.plain(i)
}

// integer reads a signed int of n bytes.
func (r *reader) integer(n int) error {
	b, err := r.take(n)
	if err != nil {
		return err
	}
	return r.plain(twos(b))
}

// count reads an unsigned int of n bytes.
func (r *reader) count(n int) error {
	u, err := r.number(n)
	if err != nil {
		return err
	}
	return r.plain(int64(u))
}

// long reads an int behind its length.
func (r *reader) long(n int) error {
	b, err := r.counted(n)
	switch {
	case err != nil:
		return err
	case len(b) > maxInt:
		return fmt.Errorf("an int of %d bytes, the limit is %d", len(b), maxInt)
	case len(b) <= 8:
		return r.plain(twos(b))
	}
	high := slices.Clone(b)
	slices.Reverse(high)
	i := new(big.Int).SetBytes(high)
	if high[0] >= 0x80 {
		i.Sub(i, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	if i.IsInt64() {
		return r.plain(i.Int64())
	}
	return r.plain(i)
}

// twos is the number whose two's complement b is, the lowest byte first.
func twos(b []byte) int64 {
	var u uint64
	for i, x := range b {
		u |= uint64(x) << (8 * i)
	}
	unused := 64 - 8*len(b)
	return int64(u<<unused) >> unused
}

func (r *reader) decimalFloat() error {
	s, err := r.line()
	if err != nil {
		return err
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("not a float: %.40q", s)
	}
	return r.plain(f)
}

func (r *reader) float() error {
	b, err := r.take(8)
	if err != nil {
		return err
	}
	return r.plain(math.Float64frombits(binary.BigEndian.Uint64(b)))
}

func (r *reader) text(n int) error {
	b, err := r.counted(n)
	if err != nil {
		return err
	}
	if !utf8.Valid(b) {
		return fmt.Errorf("text is not UTF-8: %.40q", b)
	}
	return r.plain(string(b))
}

func (r *reader) bytes(n int) error {
	b, err := r.counted(n)
	if err != nil {
		return err
	}
	return r.plain(append([]byte{}, b...))
}

// escaped reads a line of Latin-1 with other characters as \uXXXX and \UXXXXXXXX, which is protocol 0's text.
func (r *reader) escaped() error {
	s, err := r.line()
	if err != nil {
		return err
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		digits := 0
		if s[i] == '\\' && i+1 < len(s) {
			digits = map[byte]int{'u': 4, 'U': 8}[s[i+1]]
		}
		switch {
		case digits > 0:
			u, err := strconv.ParseUint(s[i+2:min(i+2+digits, len(s))], 16, 32)
			if err != nil || !utf8.ValidRune(rune(u)) || u > utf8.MaxRune || i+2+digits > len(s) {
				return fmt.Errorf("not text: %.40q", s[i:])
			}
			b.WriteRune(rune(u))
			i += 1 + digits
		case s[i] == '\\' && i+1 < len(s): // the next one begins no escape
			b.WriteRune(rune(s[i]))
			i++
			b.WriteRune(rune(s[i]))
		default:
			b.WriteRune(rune(s[i]))
		}
	}
	return r.plain(b.String())
}

// fill gives the uppermost n values, or with -1 those behind the last mark, to a list, a dict or a tuple.
func (r *reader) fill(n int, into func([]item) error) error {
	var items []item
	var err error
	if n < 0 {
		items, err = r.popMark()
	} else {
		items, err = r.pop(n)
	}
	if err != nil {
		return err
	}
	return into(items)
}

// marked makes a list or dict of the values behind the last mark.
func (r *reader) marked(dict bool) error {
	items, err := r.popMark()
	if err != nil {
		return err
	}
	items = slices.Clone(items) // the push overwrites them
	if err := r.empty(dict); err != nil {
		return err
	}
	if dict {
		return r.fillDict(items)
	}
	return r.fillList(items)
}

// at calls put or get with a number of n bytes, or with 0 with a line of digits.
func (r *reader) at(n int, do func(int) error) error {
	if n > 0 {
		at, err := r.number(n)
		if err != nil {
			return err
		}
		return do(at)
	}
	s, err := r.line()
	if err != nil {
		return err
	}
	at, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return fmt.Errorf("not a memo's number: %.40q", s)
	}
	return do(int(at))
}
