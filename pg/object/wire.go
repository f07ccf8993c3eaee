package object

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/internal/ranklist"
)

// call is one object collective at work.
type call struct {
	ctx   context.Context
	g     *pg.Group
	codec Codec
	name  string
}

func newCall(ctx context.Context, g *pg.Group, c Codec, name string) call {
	return call{ctx: ctx, g: g, codec: c, name: name}
}

// encoded is what a rank has to send, or why it cannot.
type encoded struct {
	parts [][]byte
	err   error
}

// sizes returns the lengths of the parts; if they could not be encoded, of which there are n, the first is notEncoded.
func (e *encoded) sizes(n int) []int64 {
	all := make([]int64, n)
	if e.err != nil {
		all[0] = notEncoded
		return all
	}
	for i, p := range e.parts {
		all[i] = int64(len(p))
	}
	return all
}

func (o *call) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pg: %s: %w", o.name, err)
}

func (o *call) member() error {
	if !o.g.IsMember() {
		return pg.ErrNotMember
	}
	return nil
}

func (o *call) rooted(root int) error {
	if err := o.member(); err != nil {
		return err
	}
	if root < 0 || root >= o.g.Size() {
		return fmt.Errorf("root %d of a group of %d ranks", root, o.g.Size())
	}
	return nil
}

// limit is the bytes that a call may take for what other ranks announce.
func (o *call) limit() int64 {
	limit, _ := pg.ObjectsOf(o.g)
	return limit
}

// encode encodes objects of which as many copies as given, all as long as the longest, have to fit into the limit.
func (o *call) encode(copies int, vs ...any) (e encoded) {
	sum, longest := int64(0), int64(0)
	for i, v := range vs {
		b, err := o.codec.Marshal(v)
		if err != nil {
			e.err = fmt.Errorf("object %d as %s: %w", i, o.codec.Name(), err)
			return e
		}
		e.parts = append(e.parts, b)
		sum, longest = sum+int64(len(b)), max(longest, int64(len(b)))
	}
	if most := o.limit(); sum > most || longest > most/int64(copies) {
		e.err = fmt.Errorf("%s of objects, the longest of %s for each of %d: MaxObject is %s", colligo.FormatBytes(sum),
			colligo.FormatBytes(longest), copies, colligo.FormatBytes(most))
	}
	return e
}

func (o *call) decode(i int, b []byte, v any) error {
	if err := o.codec.Unmarshal(b, v); err != nil {
		return o.explain(fmt.Errorf("object %d of %s as %s: %w", i, colligo.FormatBytes(int64(len(b))), o.codec.Name(), err))
	}
	return nil
}

// refuse ends the group because of the sizes that a rank announces, or because there is no room for them here. The other
// ranks go on with a call that this one cannot join.
func (o *call) refuse(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	pg.Fail(o.g, o.explain(err))
	return err
}

// gathered exchanges sizes and returns them, and the longest.
func (o *call) gathered(own encoded) (sizes []int64, longest int64, err error) {
	sizes = make([]int64, o.g.Size())
	if err := o.allGatherInto(colligo.Of(sizes), colligo.Of(own.sizes(1))); err != nil {
		return nil, 0, err
	}
	limit := o.limit()
	for r, n := range sizes {
		if n < notEncoded || n > limit/int64(o.g.Size()) {
			return nil, 0, o.refuse("rank %d announces an object of %d bytes, for each of %d ranks; MaxObject is %d", r, n,
				o.g.Size(), limit)
		}
	}
	return sizes, slices.Max(sizes), nil
}

// padded returns the one part of this rank in as many bytes as the longest has.
func (e *encoded) padded(longest int64) colligo.Tensor {
	b := make([]byte, longest)
	if e.err == nil {
		copy(b, e.parts[0])
	}
	return colligo.Of(b)
}

// cut returns each rank's part of what was gathered, or an error that names the ranks without one.
func (o *call) cut(all []byte, sizes []int64, own error) ([][]byte, error) {
	if own != nil {
		return nil, own
	}
	var failed []int
	each := len(all) / len(sizes)
	parts := make([][]byte, len(sizes))
	for r, n := range sizes {
		if n == notEncoded {
			failed = append(failed, r)
		} else if all != nil {
			parts[r] = all[r*each:][:n:n]
		}
	}
	if failed != nil {
		return nil, fmt.Errorf("%s could not encode an object", ranklist.Text(failed))
	}
	return parts, nil
}

func (o *call) allGather(own encoded) ([][]byte, error) {
	sizes, longest, err := o.gathered(own)
	if err != nil {
		return nil, err
	}
	var all []byte
	if longest >= 0 {
		all = make([]byte, longest*int64(o.g.Size()))
		if err := o.allGatherInto(colligo.Of(all), own.padded(longest)); err != nil {
			return nil, err
		}
	}
	return o.cut(all, sizes, own.err)
}

func (o *call) gather(own encoded, root int) ([][]byte, error) {
	sizes, longest, err := o.gathered(own)
	if err != nil {
		return nil, err
	}
	var all []byte
	if longest >= 0 {
		var outs []colligo.Tensor
		if o.g.Rank() == root {
			all, outs = equalParts(o.g.Size(), int(longest))
		}
		if err := o.gatherTo(outs, own.padded(longest), root); err != nil {
			return nil, err
		}
	}
	return o.cut(all, sizes, own.err)
}

// equalParts makes n parts of some bytes in one buffer.
func equalParts(n, bytes int) ([]byte, []colligo.Tensor) {
	all, parts := make([]byte, n*bytes), make([]colligo.Tensor, n)
	for i := range parts {
		parts[i] = colligo.Of(all).Slice(i*bytes, (i+1)*bytes)
	}
	return all, parts
}

// sum checks the sizes of n objects that a rank announces, and returns what they need.
func (o *call) sum(sizes []int64, from int) (int64, error) {
	if sizes[0] == notEncoded {
		return 0, fmt.Errorf("rank %d could not encode an object", from)
	}
	sum, limit := int64(0), o.limit()
	for i, n := range sizes {
		if n < 0 || n > limit-sum {
			return 0, o.refuse("rank %d announces %d bytes for object %d, after %d bytes; MaxObject is %d", from, n, i, sum, limit)
		}
		sum += n
	}
	return sum, nil
}

// cutOut cuts the objects out of their bytes.
func cutOut(b []byte, sizes []int64) [][]byte {
	parts := make([][]byte, len(sizes))
	for i, n := range sizes {
		parts[i], b = b[:n:n], b[n:]
	}
	return parts
}

func (o *call) broadcast(own encoded, n, root int) ([][]byte, error) {
	sizes := make([]int64, n)
	if o.g.Rank() == root {
		sizes = own.sizes(n)
	}
	if err := o.broadcastFrom(colligo.Of(sizes), root); err != nil || own.err != nil {
		return nil, errors.Join(own.err, err)
	}
	sum, err := o.sum(sizes, root)
	if err != nil {
		return nil, err
	}
	all := make([]byte, 0, sum)
	for _, p := range own.parts {
		all = append(all, p...)
	}
	all = all[:sum]
	return cutOut(all, sizes), o.broadcastFrom(colligo.Of(all), root)
}

func (o *call) scatter(own encoded, root int) ([]byte, error) {
	longest := []int64{0}
	if o.g.Rank() == root {
		longest[0] = slices.Max(own.sizes(o.g.Size()))
		if own.err != nil {
			longest[0] = notEncoded
		}
	}
	if err := o.broadcastFrom(colligo.Of(longest), root); err != nil || own.err != nil {
		return nil, errors.Join(own.err, err)
	}
	if _, err := o.sum(longest, root); err != nil {
		return nil, err
	}
	b, size := make([]byte, longest[0]), []int64{0}
	var ins, sizes []colligo.Tensor
	if o.g.Rank() == root {
		var all []byte
		all, ins = equalParts(o.g.Size(), len(b))
		lengths := own.sizes(o.g.Size())
		for r, p := range own.parts {
			copy(all[r*len(b):], p)
			sizes = append(sizes, colligo.Of(lengths).Slice(r, r+1))
		}
	}
	if err := o.scatterFrom(colligo.Of(b), ins, root); err != nil {
		return nil, err
	}
	if err := o.scatterFrom(colligo.Of(size), sizes, root); err != nil {
		return nil, err
	}
	if size[0] < 0 || size[0] > longest[0] {
		return nil, o.refuse("rank %d announces an object of %d bytes, and at most %d for any rank", root, size[0], longest[0])
	}
	return b[:size[0]], nil
}

func (o *call) send(own encoded, n, to, tag int) error {
	if err := o.sendTo(colligo.Of(own.sizes(n)), to, tag); err != nil || own.err != nil {
		return errors.Join(own.err, err)
	}
	return o.sendTo(colligo.Of(slices.Concat(own.parts...)), to, tag)
}

func (o *call) receive(n, from, tag int) (source int, parts [][]byte, err error) {
	sizes := make([]int64, n)
	if source, err = o.recvFrom(colligo.Of(sizes), from, tag); err != nil {
		return source, nil, err
	}
	sum, err := o.sum(sizes, source)
	if err != nil {
		return source, nil, err
	}
	all := make([]byte, sum)
	_, err = o.recvFrom(colligo.Of(all), source, tag)
	return source, cutOut(all, sizes), err
}
