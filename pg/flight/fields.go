package flight

import (
	"fmt"
	"iter"
	"math"
	"strconv"

	"github.com/colligo-go/colligo/pg/pickle"
)

// fields reads a dict by keys. The first value of a wrong type is its error.
type fields struct {
	what string
	dict *pickle.Dict
	err  error
}

func fieldsOf(what string, v any) (*fields, error) {
	d, ok := v.(*pickle.Dict)
	if !ok {
		return nil, fmt.Errorf("%s is %T, not a dict", what, v)
	}
	return &fields{what: what, dict: d}, nil
}

// value returns what a key stands for; an absent key is like None.
func (f *fields) value(key string) any {
	v, _ := f.dict.Get(key)
	return v
}

func (f *fields) wrong(key string, v any) {
	if f.err == nil {
		f.err = fmt.Errorf("%s: %s is %.40q (%T)", f.what, key, fmt.Sprint(v), v)
	}
}

// take reads a value of exactly the type of the target, which keeps its value where the key is absent.
func take[T bool | int64 | string | []any | *pickle.Dict](f *fields, key string, to *T) {
	v := f.value(key)
	if v == nil {
		return
	}
	t, ok := v.(T)
	if !ok {
		f.wrong(key, v)
		return
	}
	*to = t
}

// takeCount reads a number of at least 0.
func takeCount[T int | uint64](f *fields, key string, to *T) {
	n := int64(0)
	if take(f, key, &n); n < 0 || int64(T(n)) != n {
		f.wrong(key, n)
		return
	}
	*to = T(n)
}

// takeNumber reads a number or its decimal text.
func takeNumber(f *fields, key string, to *int64) {
	s, ok := f.value(key).(string)
	if !ok {
		take(f, key, to)
		return
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		f.wrong(key, s)
		return
	}
	*to = n
}

// takeFloat reads a float; JSON may write it without a fraction.
func takeFloat(f *fields, key string, to *float64) {
	if n, ok := f.value(key).(int64); ok {
		*to = float64(n)
		return
	}
	v := f.value(key)
	if v == nil {
		return
	}
	x, ok := v.(float64)
	if !ok || math.IsNaN(x) {
		f.wrong(key, v)
		return
	}
	*to = x
}

// takeList reads a list or a tuple.
func takeList(f *fields, key string, to *[]any) {
	v := f.value(key)
	if v == nil {
		return
	}
	l, ok := asList(v)
	if !ok {
		f.wrong(key, v)
		return
	}
	*to = l
}

func asList(v any) ([]any, bool) {
	switch l := v.(type) {
	case []any:
		return l, true
	case pickle.Tuple:
		return l, true
	}
	return nil, false
}

// pairs iterates over a dict that may be absent.
func pairs(d *pickle.Dict) iter.Seq2[any, any] {
	if d == nil {
		d = &pickle.Dict{}
	}
	return d.All()
}
