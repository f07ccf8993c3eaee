package object

import (
	"fmt"
	"math"
	"math/big"
	"reflect"

	"github.com/colligo-go/colligo/pg/pickle"
)

// assign puts what was unpickled into a Go value that can hold it without loss.
func assign(dst reflect.Value, v any) error {
	if v == nil {
		dst.SetZero()
		return nil
	}
	src := reflect.ValueOf(v)
	if src.Type().AssignableTo(dst.Type()) {
		dst.Set(src)
		return nil
	}
	ok := false
	switch dst.Kind() {
	case reflect.Bool, reflect.String:
		if ok = src.Kind() == dst.Kind(); ok {
			dst.Set(src.Convert(dst.Type()))
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		var n int64
		if n, ok = v.(int64); ok && !dst.OverflowInt(n) {
			dst.SetInt(n)
			return nil
		}
		ok = false
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		ok = assignUnsigned(dst, v)
	case reflect.Float32, reflect.Float64:
		ok = assignFloat(dst, v)
	case reflect.Slice:
		return assignSlice(dst, v)
	case reflect.Map:
		return assignMap(dst, v)
	}
	if !ok {
		return fmt.Errorf("a pickled %T does not fit into %v", v, dst.Type())
	}
	return nil
}

func assignUnsigned(dst reflect.Value, v any) bool {
	n, ok := v.(int64)
	u := uint64(n)
	if large, is := v.(*big.Int); is {
		u, ok, n = large.Uint64(), large.IsUint64(), 0
	}
	if !ok || n < 0 || dst.OverflowUint(u) {
		return false
	}
	dst.SetUint(u)
	return true
}

func assignFloat(dst reflect.Value, v any) bool {
	f, ok := v.(float64)
	if n, is := v.(int64); is {
		f, ok = float64(n), n >= -1<<53 && n <= 1<<53
	}
	if !ok || dst.Kind() == reflect.Float32 && !math.IsNaN(f) && float64(float32(f)) != f {
		return false
	}
	dst.SetFloat(f)
	return true
}

func assignSlice(dst reflect.Value, v any) error {
	var from []any
	switch v := v.(type) {
	case []any:
		from = v
	case pickle.Tuple:
		from = v
	default:
		return fmt.Errorf("a pickled %T does not fit into %v", v, dst.Type())
	}
	to := reflect.MakeSlice(dst.Type(), len(from), len(from))
	for i, e := range from {
		if err := assign(to.Index(i), e); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	dst.Set(to)
	return nil
}

func assignMap(dst reflect.Value, v any) error {
	from, ok := v.(*pickle.Dict)
	if !ok {
		return fmt.Errorf("a pickled %T does not fit into %v", v, dst.Type())
	}
	to := reflect.MakeMapWithSize(dst.Type(), from.Len())
	for k, e := range from.All() {
		key, value := reflect.New(dst.Type().Key()).Elem(), reflect.New(dst.Type().Elem()).Elem()
		if err := assign(key, k); err != nil {
			return fmt.Errorf("key %v: %w", k, err)
		}
		if !key.Comparable() {
			return fmt.Errorf("a pickled %T cannot be a key of %v", k, dst.Type())
		}
		if err := assign(value, e); err != nil {
			return fmt.Errorf("value of %v: %w", k, err)
		}
		to.SetMapIndex(key, value)
	}
	dst.Set(to)
	return nil
}
