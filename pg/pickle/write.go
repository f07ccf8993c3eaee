package pickle

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"unicode/utf8"
)

// deepest is how deep values may be nested: a cycle ends there.
const deepest = 512

// Marshal returns the pickle of a value in protocol 4, which Python writes by default since 3.8.
func Marshal(v any) ([]byte, error) { return Append(nil, v, 4) }

// Append appends the pickle of a value to b in protocol 2 or 4. It returns an error for a value outside the package's table,
// for text that is not UTF-8, and for values nested deeper than 512. Bytes in protocol 2, which has none, are an error, too.
func Append(b []byte, v any, protocol int) ([]byte, error) {
	if protocol != 2 && protocol != 4 {
		return b, fmt.Errorf("pickle: protocol %d is not written, only 2 and 4", protocol)
	}
	w := writer{b: append(b, opProto, byte(protocol)), protocol: protocol, memo: map[string]int{}}
	if err := w.value(v, 0); err != nil {
		return b, fmt.Errorf("pickle: %w", err)
	}
	return append(w.b, opStop), nil
}

// writer writes one pickle. The memo holds texts only: what is written once is referred to later.
type writer struct {
	b        []byte
	protocol int
	memo     map[string]int
}

func (w *writer) value(v any, depth int) error {
	if depth > deepest {
		return fmt.Errorf("values nested deeper than %d, or a cycle", deepest)
	}
	switch v := v.(type) {
	case nil:
		w.b = append(w.b, opNone)
	case bool:
		w.b = append(w.b, opNewFalse)
		if v {
			w.b[len(w.b)-1] = opNewTrue
		}
	case int64:
		w.int(v)
	case *big.Int:
		return w.bigInt(v)
	case float64:
		w.float(v)
	case float32:
		w.float(float64(v))
	case string:
		return w.text(v)
	case []byte:
		return w.bytes(v)
	case []any:
		return w.list(len(v), func(i int) any { return v[i] }, depth)
	case Tuple:
		return w.tuple(v, depth)
	case *Dict:
		return w.dict(v, depth)
	default:
		if i, ok := integer(v); ok {
			return w.value(i, depth)
		}
		return w.reflected(reflect.ValueOf(v), depth)
	}
	return nil
}

func (w *writer) int(i int64) {
	switch {
	case i >= 0 && i <= math.MaxUint8:
		w.b = append(w.b, opBinInt1, byte(i))
	case i >= 0 && i <= math.MaxUint16:
		w.b = binary.LittleEndian.AppendUint16(append(w.b, opBinInt2), uint16(i))
	case i >= math.MinInt32 && i <= math.MaxInt32:
		w.b = binary.LittleEndian.AppendUint32(append(w.b, opBinInt), uint32(i))
	default:
		n := 8
		for n > 5 && i<<(64-8*(n-1))>>(64-8*(n-1)) == i {
			n--
		}
		w.b = append(w.b, opLong1, byte(n))
		for ; n > 0; n-- {
			w.b = append(w.b, byte(i))
			i >>= 8
		}
	}
}

// bigInt writes the two's complement, the lowest byte first.
func (w *writer) bigInt(i *big.Int) error {
	switch {
	case i == nil:
		return errors.New("a nil *big.Int")
	case i.IsInt64():
		w.int(i.Int64())
		return nil
	}
	n := i.BitLen()/8 + 1
	if n > maxInt {
		return fmt.Errorf("an int of %d bytes, the limit is %d", n, maxInt)
	}
	if n < 256 {
		w.b = append(w.b, opLong1, byte(n))
	} else {
		w.b = binary.LittleEndian.AppendUint32(append(w.b, opLong4), uint32(n))
	}
	u := i
	if i.Sign() < 0 {
		u = new(big.Int).Add(i, new(big.Int).Lsh(big.NewInt(1), uint(8*n)))
	}
	b := u.FillBytes(make([]byte, n))
	slices.Reverse(b)
	w.b = append(w.b, b...)
	return nil
}

func (w *writer) float(f float64) {
	w.b = binary.BigEndian.AppendUint64(append(w.b, opBinFloat), math.Float64bits(f))
}

func (w *writer) text(s string) error {
	if at, ok := w.memo[s]; ok {
		if at < 256 {
			w.b = append(w.b, opBinGet, byte(at))
		} else {
			w.b = binary.LittleEndian.AppendUint32(append(w.b, opLongBinGet), uint32(at))
		}
		return nil
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("text is not UTF-8: %.40q", s)
	}
	switch {
	case w.protocol >= 4 && len(s) <= math.MaxUint8:
		w.b = append(w.b, opShortBinUnicode, byte(len(s)))
	case uint64(len(s)) <= math.MaxUint32:
		w.b = binary.LittleEndian.AppendUint32(append(w.b, opBinUnicode), uint32(len(s)))
	case w.protocol >= 4:
		w.b = binary.LittleEndian.AppendUint64(append(w.b, opBinUnicode8), uint64(len(s)))
	default:
		return fmt.Errorf("text of %d bytes in protocol %d", len(s), w.protocol)
	}
	w.b = append(w.b, s...)
	w.memoize(s)
	return nil
}

func (w *writer) memoize(s string) {
	at := len(w.memo)
	w.memo[s] = at
	switch {
	case w.protocol >= 4:
		w.b = append(w.b, opMemoize)
	case at < 256:
		w.b = append(w.b, opBinPut, byte(at))
	default:
		w.b = binary.LittleEndian.AppendUint32(append(w.b, opLongBinPut), uint32(at))
	}
}

func (w *writer) bytes(p []byte) error {
	switch {
	case w.protocol < 3:
		return fmt.Errorf("bytes in protocol %d", w.protocol)
	case len(p) <= math.MaxUint8:
		w.b = append(w.b, opShortBinBytes, byte(len(p)))
	case uint64(len(p)) <= math.MaxUint32:
		w.b = binary.LittleEndian.AppendUint32(append(w.b, opBinBytes), uint32(len(p)))
	default:
		w.b = binary.LittleEndian.AppendUint64(append(w.b, opBinBytes8), uint64(len(p)))
	}
	w.b = append(w.b, p...)
	return nil
}

func (w *writer) list(n int, at func(i int) any, depth int) error {
	w.b = append(w.b, opEmptyList)
	if n == 0 {
		return nil
	}
	w.b = append(w.b, opMark)
	for i := range n {
		if err := w.value(at(i), depth+1); err != nil {
			return err
		}
	}
	w.b = append(w.b, opAppends)
	return nil
}

func (w *writer) tuple(t Tuple, depth int) error {
	if len(t) > 3 {
		w.b = append(w.b, opMark)
	}
	for _, v := range t {
		if err := w.value(v, depth+1); err != nil {
			return err
		}
	}
	w.b = append(w.b, [...]byte{opEmptyTuple, opTuple1, opTuple2, opTuple3, opTuple}[min(len(t), 4)])
	return nil
}

func (w *writer) dict(d *Dict, depth int) error {
	if d == nil {
		return errors.New("a nil *Dict")
	}
	w.b = append(w.b, opEmptyDict)
	if d.Len() == 0 {
		return nil
	}
	w.b = append(w.b, opMark)
	for k, v := range d.All() {
		if err := w.value(k, depth+1); err != nil {
			return err
		}
		if err := w.value(v, depth+1); err != nil {
			return err
		}
	}
	w.b = append(w.b, opSetItems)
	return nil
}

// reflected writes slices and maps of other types, and types made from the plain ones.
func (w *writer) reflected(v reflect.Value, depth int) error {
	switch v.Kind() {
	case reflect.Bool:
		return w.value(v.Bool(), depth)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return w.value(v.Int(), depth)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return w.value(v.Uint(), depth)
	case reflect.Float32, reflect.Float64:
		return w.value(v.Float(), depth)
	case reflect.String:
		return w.value(v.String(), depth)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return w.value(v.Bytes(), depth)
		}
		return w.list(v.Len(), func(i int) any { return v.Index(i).Interface() }, depth)
	case reflect.Map:
		return w.mapping(v, depth)
	}
	return fmt.Errorf("a value of type %v is none of Python's plain ones", v.Type())
}

// mapping writes a map in the order of its keys, so that equal maps have equal pickles.
func (w *writer) mapping(v reflect.Value, depth int) error {
	type pair struct{ key, value any }
	var pairs []pair
	for k, e := range v.Seq2() {
		switch {
		case k.CanInt():
			pairs = append(pairs, pair{k.Int(), e.Interface()})
		case k.CanUint():
			pairs = append(pairs, pair{k.Uint(), e.Interface()})
		case k.Kind() == reflect.String:
			pairs = append(pairs, pair{k.String(), e.Interface()})
		default:
			return fmt.Errorf("a map with keys of type %v has no order; a Dict has", v.Type().Key())
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		switch k := a.key.(type) {
		case int64:
			return cmp.Compare(k, b.key.(int64))
		case uint64:
			return cmp.Compare(k, b.key.(uint64))
		}
		return cmp.Compare(a.key.(string), b.key.(string))
	})
	var d Dict
	for _, p := range pairs {
		d.Set(p.key, p.value)
	}
	return w.dict(&d, depth)
}
