package pickle

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"math/big"
)

// Tuple is Python's tuple.
type Tuple []any

// Dict is Python's dict: pairs in the order in which their keys came, found by key. Keys that are equal in Python, such as 1, 1.0
// and True, are one key. The zero value is an empty dict.
type Dict struct {
	keys, values []any
	index        map[any]int
}

// Len returns the number of pairs.
func (d *Dict) Len() int { return len(d.keys) }

// Get returns the value of a key. It panics for a key that Python cannot hash, as a Go map does.
func (d *Dict) Get(key any) (value any, ok bool) {
	k, err := hashed(key)
	if err != nil {
		panic("pickle: " + err.Error())
	}
	i, ok := d.index[k]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// Set adds a pair, or gives a key that is there another value. It panics for a key that Python cannot hash, as a Go map does.
func (d *Dict) Set(key, value any) {
	if err := d.set(key, value); err != nil {
		panic("pickle: " + err.Error())
	}
}

func (d *Dict) set(key, value any) error {
	k, err := hashed(key)
	if err != nil {
		return err
	}
	if i, ok := d.index[k]; ok {
		d.values[i] = value
		return nil
	}
	if d.index == nil {
		d.index = map[any]int{}
	}
	d.index[k] = len(d.keys)
	d.keys, d.values = append(d.keys, key), append(d.values, value)
	return nil
}

// All iterates over the pairs in their order.
func (d *Dict) All() iter.Seq2[any, any] {
	return func(yield func(key, value any) bool) {
		for i, k := range d.keys {
			if !yield(k, d.values[i]) {
				return
			}
		}
	}
}

// MarshalJSON writes a dict whose keys are all text, in the order of its pairs.
func (d *Dict) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for k, v := range d.All() {
		key, ok := k.(string)
		if !ok {
			return nil, fmt.Errorf("pickle: a key of type %s in JSON", kind(k))
		}
		for _, part := range []any{key, v} {
			p, err := json.Marshal(part)
			if err != nil {
				return nil, err
			}
			b = append(append(b, p...), ':')
		}
		b[len(b)-1] = ','
	}
	if d.Len() > 0 {
		b = b[:len(b)-1]
	}
	return append(b, '}'), nil
}

// Keys of types that a Go map cannot hold, or that would be equal to a string.
type (
	bytesKey string
	bigKey   string
	tupleKey string
)

// hashed returns what Python finds a key by: equal keys give equal results.
func hashed(key any) (any, error) {
	switch k := key.(type) {
	case nil, string:
		return k, nil
	case bool:
		if k {
			return int64(1), nil
		}
		return int64(0), nil
	case *big.Int:
		if k.IsInt64() {
			return k.Int64(), nil
		}
		return bigKey(k.Text(62)), nil
	case float64:
		return hashedFloat(k), nil
	case float32:
		return hashedFloat(float64(k)), nil
	case []byte:
		return bytesKey(k), nil
	case Tuple:
		return hashedTuple(k)
	}
	if i, ok := integer(key); ok {
		return hashed(i)
	}
	if i, ok := key.(int64); ok {
		return i, nil
	}
	return nil, fmt.Errorf("%s cannot be a key of a dict", kind(key))
}

func hashedFloat(f float64) any {
	if f != math.Trunc(f) || math.IsInf(f, 0) {
		return f
	}
	if f >= math.MinInt64 && f < -math.MinInt64 {
		return int64(f)
	}
	i, _ := big.NewFloat(f).Int(nil)
	return bigKey(i.Text(62))
}

func hashedTuple(t Tuple) (any, error) {
	s, err := appendKey(nil, t)
	return tupleKey(s), err
}

// appendKey appends what tells a key from all that are not equal to it. Each part begins with its type and ends by itself.
func appendKey(s []byte, key any) ([]byte, error) {
	t, ok := key.(Tuple)
	if !ok {
		k, err := hashed(key)
		text := fmt.Sprint(k)
		return append(fmt.Appendf(s, "%T %d ", k, len(text)), text...), err
	}
	s = fmt.Appendf(s, "( %d ", len(t))
	for _, v := range t {
		var err error
		if s, err = appendKey(s, v); err != nil {
			return s, err
		}
	}
	return s, nil
}

// keySize is about how many bytes it takes to tell a key from others.
func keySize(key any) int {
	switch k := key.(type) {
	case string:
		return len(k)
	case []byte:
		return len(k)
	case *big.Int:
		return k.BitLen() / 8
	case Tuple:
		n := 0
		for _, v := range k {
			n += 16 + keySize(v)
		}
		return n
	}
	return 0
}

// integer turns Go's integers into an int64 or, beyond its range, a *big.Int.
func integer(v any) (any, bool) {
	switch i := v.(type) {
	case int:
		return int64(i), true
	case int8:
		return int64(i), true
	case int16:
		return int64(i), true
	case int32:
		return int64(i), true
	case uint8:
		return int64(i), true
	case uint16:
		return int64(i), true
	case uint32:
		return int64(i), true
	case uint:
		return new(big.Int).SetUint64(uint64(i)), true
	case uint64:
		return new(big.Int).SetUint64(i), true
	}
	return nil, false
}

// kind names a value's type as Python does.
func kind(v any) string {
	switch v.(type) {
	case []any:
		return "list"
	case *Dict:
		return "dict"
	}
	return fmt.Sprintf("%T", v)
}
