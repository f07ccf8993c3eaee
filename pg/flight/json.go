package flight

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/colligo-go/colligo/pg/pickle"
)

// maxDepth is how deep JSON may be nested; a dump has five levels.
const maxDepth = 50

// parser reads JSON into the types that pickle has: objects become dicts.
type parser struct {
	d    *json.Decoder
	made int
}

func readJSON(b []byte) (any, error) {
	p := parser{d: json.NewDecoder(bytes.NewReader(b))}
	p.d.UseNumber()
	v, err := p.value(0)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if _, err := p.d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("more than one JSON value, the first ends at byte %d", p.d.InputOffset())
	}
	return v, nil
}

func (p *parser) value(depth int) (any, error) {
	t, err := p.d.Token()
	if err != nil {
		return nil, err
	}
	if p.made++; p.made > maxValues || depth > maxDepth {
		return nil, fmt.Errorf("JSON of more than %d values or %d levels", maxValues, maxDepth)
	}
	switch t := t.(type) {
	case json.Number:
		if i, err := t.Int64(); err == nil {
			return i, nil
		}
		return t.Float64()
	case json.Delim:
		if t == '{' {
			return p.object(depth)
		}
		return p.list(depth)
	}
	return t, nil
}

func (p *parser) list(depth int) (any, error) {
	list := []any{}
	for p.d.More() {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := p.d.Token()
	return list, err
}

func (p *parser) object(depth int) (any, error) {
	var o pickle.Dict
	for p.d.More() {
		key, err := p.d.Token()
		if err != nil {
			return nil, err
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o.Set(key, v)
	}
	_, err := p.d.Token()
	return &o, err
}
