package pickle

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// maxInt is how many bytes an int may have.
const maxInt = 1024

// keyBytes is how long the keys of dicts may be for each value that may be read, besides as many bytes as the pickle has. One key
// may be referred to from many dicts, and it is looked at in each.
const keyBytes = 32

// Limits bound what reading takes, besides the length of what is read. A zero field stands for the value in parentheses.
type Limits struct {
	Depth  int // of values inside one another (512)
	Values int // that a walk over all references meets; twice as many may be made (4 Mi)
}

// Unmarshal reads one value within the default limits. Lists and dicts that a pickle refers to twice are shared in the result.
func Unmarshal(b []byte) (any, error) { return Limits{}.Unmarshal(b) }

// Unmarshal reads one value. Nothing of b is kept.
func (l Limits) Unmarshal(b []byte) (any, error) {
	if l.Depth == 0 {
		l.Depth = deepest
	}
	if l.Values == 0 {
		l.Values = 4 << 20
	}
	r := reader{b: b, limits: l}
	for !r.done {
		at := r.pos
		if err := r.step(); err != nil {
			return nil, fmt.Errorf("pickle: byte %d: %w", at, err)
		}
	}
	if r.pos != len(b) {
		return nil, fmt.Errorf("pickle: %d bytes behind the value", len(b)-r.pos)
	}
	return r.stack[0].value, nil
}

// item is a value on the stack. Depth and weight are 0 and 1 for a plain value; the weight counts the values that a walk meets.
type item struct {
	value         any // or a *building
	depth, weight int
}

// building is a list or dict while it may still be filled. A cycle would have to fill one that something refers to already.
type building struct {
	item
	list []any
	dict *Dict // nil for a list
	used bool
}

// reader is a stack machine.
type reader struct {
	b      []byte
	pos    int
	limits Limits
	stack  []item
	marks  []int        // heights of the stack
	memo   []item       // the numbers that came in their order
	sparse map[int]item // all others
	made   int
	keys   int // bytes of keys that were looked at
	done   bool
}

func (r *reader) step() error {
	op, err := r.take(1)
	if err != nil {
		return err
	}
	if f := steps[op[0]]; f != nil {
		return f(r)
	}
	return refusal(op[0])
}

// take returns the next n bytes, which stay the caller's.
func (r *reader) take(n int) ([]byte, error) {
	if left := len(r.b) - r.pos; n < 0 || n > left {
		return nil, fmt.Errorf("%d bytes end after %d", n, left)
	}
	r.pos += n
	return r.b[r.pos-n : r.pos], nil
}

// number reads n bytes, the lowest first.
func (r *reader) number(n int) (int, error) {
	b, err := r.take(n)
	var u uint64
	for i, x := range b {
		u |= uint64(x) << (8 * i)
	}
	if u > math.MaxInt {
		return 0, fmt.Errorf("length %d", u)
	}
	return int(u), err
}

// counted reads a length of n bytes and as many bytes.
func (r *reader) counted(n int) ([]byte, error) {
	length, err := r.number(n)
	if err != nil {
		return nil, err
	}
	return r.take(length)
}

// line reads up to the next line feed.
func (r *reader) line() (string, error) {
	i := slices.Index(r.b[r.pos:], '\n')
	if i < 0 {
		return "", errors.New("a line without an end")
	}
	s := string(r.b[r.pos : r.pos+i])
	r.pos += i + 1
	return s, nil
}

func (r *reader) push(it item) error {
	r.stack = append(r.stack, it)
	return r.charge()
}

// charge counts what takes memory. Each value may have a number in the memo.
func (r *reader) charge() error {
	if r.made++; r.made > 2*r.limits.Values {
		return fmt.Errorf("more than %d values", r.limits.Values)
	}
	return nil
}

// plain pushes a value that holds no others.
func (r *reader) plain(v any) error { return r.push(item{v, 0, 1}) }

// floor is where the values of the last mark begin.
func (r *reader) floor() int {
	if len(r.marks) == 0 {
		return 0
	}
	return r.marks[len(r.marks)-1]
}

// pop takes the uppermost n values off the stack. They stay valid until the next push.
func (r *reader) pop(n int) ([]item, error) {
	at := len(r.stack) - n
	if at < r.floor() {
		return nil, fmt.Errorf("%d values needed, %d on the stack", n, len(r.stack)-r.floor())
	}
	items := r.stack[at:]
	r.stack = r.stack[:at]
	return items, nil
}

func (r *reader) mark() error {
	r.marks = append(r.marks, len(r.stack))
	return r.charge()
}

// popMark takes the values behind the last mark.
func (r *reader) popMark() ([]item, error) {
	if len(r.marks) == 0 {
		return nil, errors.New("no mark")
	}
	n := len(r.stack) - r.floor()
	items, err := r.pop(n)
	r.marks = r.marks[:len(r.marks)-1]
	return items, err
}

func (r *reader) stop() error {
	if len(r.stack) != 1 || len(r.marks) != 0 {
		return fmt.Errorf("the end, with %d values and %d marks", len(r.stack), len(r.marks))
	}
	r.stack[0] = sealed(r.stack[0])
	r.done = true
	return nil
}

// sealed ends the filling of a list or dict.
func sealed(it item) item {
	b, ok := it.value.(*building)
	if !ok {
		return it
	}
	b.used = true
	if b.dict == nil {
		return item{b.list, b.depth, b.weight}
	}
	return item{b.dict, b.depth, b.weight}
}

// hold makes one value part of another.
func (r *reader) hold(in *item, part item) error {
	in.depth, in.weight = max(in.depth, part.depth+1), in.weight+part.weight
	switch {
	case in.depth > r.limits.Depth:
		return fmt.Errorf("values nested deeper than %d", r.limits.Depth)
	case in.weight > r.limits.Values:
		return fmt.Errorf("a walk over all references meets more than %d values", r.limits.Values)
	}
	return nil
}

// top returns the list or dict that is uppermost on the stack, to be filled.
func (r *reader) top(dict bool) (*building, error) {
	if len(r.stack) <= r.floor() {
		return nil, errors.New("nothing on the stack")
	}
	b, ok := r.stack[len(r.stack)-1].value.(*building)
	switch {
	case !ok || (b.dict != nil) != dict:
		return nil, errors.New("the value on the stack is of another type")
	case b.used:
		return nil, errors.New("a cycle, or a value that is filled after it was used")
	}
	return b, nil
}

func (r *reader) fillList(items []item) error {
	b, err := r.top(false)
	if err != nil {
		return err
	}
	for _, it := range items {
		it = sealed(it)
		if err := r.hold(&b.item, it); err != nil {
			return err
		}
		b.list = append(b.list, it.value)
	}
	return nil
}

func (r *reader) fillDict(items []item) error {
	b, err := r.top(true)
	if err != nil {
		return err
	}
	if len(items)%2 != 0 {
		return fmt.Errorf("%d keys and values", len(items))
	}
	for ; len(items) > 0; items = items[2:] {
		k, v := sealed(items[0]), sealed(items[1])
		if err := errors.Join(r.hold(&b.item, k), r.hold(&b.item, v)); err != nil {
			return err
		}
		if r.keys += keySize(k.value); r.keys > len(r.b)+keyBytes*r.limits.Values {
			return fmt.Errorf("more than %d bytes of keys", len(r.b)+keyBytes*r.limits.Values)
		}
		if err := b.dict.set(k.value, v.value); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) fillTuple(items []item) error {
	t, in := make(Tuple, len(items)), item{weight: 1}
	for i, it := range items {
		it = sealed(it)
		if err := r.hold(&in, it); err != nil {
			return err
		}
		t[i] = it.value
	}
	in.value = t
	return r.push(in)
}

// empty pushes a list or dict that may be filled.
func (r *reader) empty(dict bool) error {
	b := &building{item: item{weight: 1}, list: []any{}}
	if dict {
		b.dict = &Dict{}
	}
	return r.push(item{value: b})
}

// put gives the uppermost value a number.
func (r *reader) put(at int) error {
	if len(r.stack) <= r.floor() {
		return errors.New("nothing on the stack")
	}
	it := r.stack[len(r.stack)-1]
	switch {
	case at < 0:
		return fmt.Errorf("memo %d", at)
	case at < len(r.memo):
		r.memo[at] = it
	case at == len(r.memo):
		r.memo = append(r.memo, it)
	default:
		if r.sparse == nil {
			r.sparse = map[int]item{}
		}
		r.sparse[at] = it
	}
	return r.charge()
}

// get pushes the value with a number. A value that something refers to is not filled any more.
func (r *reader) get(at int) error {
	it, ok := r.sparse[at]
	if at >= 0 && at < len(r.memo) {
		it, ok = r.memo[at], true
	}
	if !ok {
		return fmt.Errorf("memo %d is empty", at)
	}
	if b, ok := it.value.(*building); ok {
		b.used = true
	}
	return r.push(it)
}
